/* See internal.h. */
#include "backend/remote/internal.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/fdpass.h"
#include "base/machine.h"
#include "base/options.h"
#include "base/process.h"
#include "base/sys.h"

#define SEND_MS 10000 /* for room in the socket; the fabric process takes all at once */

extern char **environ;

/* The folder of this library, which the fabric process is in, too. */
static aclError folder_find(char *folder, size_t size)
{
    static const char here;
    Dl_info info;
    char path[4200];
    const char *slash;

    AM_REQUIRE(dladdr(&here, &info) != 0 && info.dli_fname != NULL,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "the library does not find its file");
    slash = strrchr(info.dli_fname, '/');
    snprintf(folder, size, "%.*s", slash != NULL ? (int)(slash - info.dli_fname) : 1,
             slash != NULL ? info.dli_fname : ".");
    snprintf(path, sizeof path, "%s/aclmem-fabric", folder);
    AM_REQUIRE(
        access(path, X_OK) == 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "this aclmem has no fabric between machines: %s is missing; build it where "
        "libucx-dev, libsodium-dev and libseccomp-dev are installed, or install its "
        "Debian package and libucx0",
        path);
    return ACL_SUCCESS;
}

aclError am_port_key_open(int *ret_fd)
{
    const char *path = am_option_text(AM_OPTION_fabric_key);

    AM_REQUIRE(path[0] != '\0', ACL_ERROR_INVALID_PARAM,
               "ACLMEM_FABRIC is set and ACLMEM_FABRIC_KEY is not; it takes the file of "
               "the cluster's key, which aclmem fabric keygen FILE makes");
    *ret_fd = am_sys_open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    AM_REQUIRE(*ret_fd >= 0 || (errno != EMFILE && errno != ENFILE && errno != ENOMEM),
               ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "no file descriptor for \"%s\" (ACLMEM_FABRIC_KEY): %s", path,
               strerror(errno));
    AM_REQUIRE(*ret_fd >= 0, ACL_ERROR_INVALID_PARAM,
               "ACLMEM_FABRIC_KEY is \"%s\", which cannot be opened: %s", path,
               strerror(errno));
    return ACL_SUCCESS;
}

struct am_port_message am_port_begin(const struct am_port_place *place)
{
    struct am_port_message message = {.kind = AM_PORT_BEGIN};

    message.begin.version = AM_PORT_VERSION;
    message.begin.place = *place;
    message.begin.pid = (int32_t)getpid();
    message.begin.public_pid = (int32_t)am_process_own_id();
    message.begin.timeout_ms =
        (uint32_t)am_option_number(AM_OPTION_fabric_timeout) * 1000;
    message.begin.n_connections =
        (uint32_t)am_option_number(AM_OPTION_fabric_connections);
    am_machine_boot_id(message.begin.machine);
    snprintf(message.begin.where, sizeof message.begin.where, "%s",
             am_option_text(AM_OPTION_fabric));
    return message;
}

bool am_remote_is_wanted(void)
{
    return am_option_number(AM_OPTION_fabric) != 0;
}

/* Whether the option's value, up to a colon, is an interface or address of this machine. */
static bool where_exists(const char *where)
{
    char name[INET_ADDRSTRLEN + IFNAMSIZ];
    char text[INET_ADDRSTRLEN];
    struct ifaddrs *all, *one;
    bool is_found = false;

    snprintf(name, sizeof name, "%.*s", (int)strcspn(where, ":"), where);
    if (getifaddrs(&all) != 0)
        return true;
    for (one = all; one != NULL && !is_found; one = one->ifa_next) {
        if (one->ifa_addr == NULL || one->ifa_addr->sa_family != AF_INET)
            continue;
        inet_ntop(AF_INET, &((struct sockaddr_in *)(void *)one->ifa_addr)->sin_addr, text,
                  sizeof text);
        is_found = strcmp(name, one->ifa_name) == 0 || strcmp(name, text) == 0;
    }
    freeifaddrs(all);
    return is_found;
}

aclError am_remote_check(void)
{
    const char *where = am_option_text(AM_OPTION_fabric);
    char folder[4096];
    int key;

    if (!am_remote_is_wanted())
        return ACL_SUCCESS;
    AM_TRY(folder_find(folder, sizeof folder));
    AM_TRY(am_port_key_open(&key));
    close(key);
    AM_REQUIRE(where_exists(where), ACL_ERROR_INVALID_PARAM,
               "ACLMEM_FABRIC is \"%s\", and this machine has no such interface with an "
               "IPv4 address, and no such address",
               where);
    return ACL_SUCCESS;
}

/* ---- the process ---- */

/* The process has the socket as descriptor 3 and default signal settings: 0 or an errno. */
static int process_spawn(char *folder, int socket)
{
    char path[4200];
    char *arguments[] = {path, folder, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    pid_t pid;
    int rc = posix_spawn_file_actions_init(&actions);

    if (rc != 0)
        return rc;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    snprintf(path, sizeof path, "%s/aclmem-fabric", folder);
    rc = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    if (rc == 0)
        rc = posix_spawn_file_actions_adddup2(&actions, socket, 3);
    if (rc == 0)
        rc = am_sys_posix_spawn(&pid, path, &actions, &attributes, arguments, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    /* The program forks the fabric process and ends. */
    while (rc == 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return rc;
}

aclError am_port_area_open(int *ret_fd, uint8_t **ret_area)
{
    int fd = am_memfd_make("aclmem-fabric", AM_PORT_AREA_SIZE, AM_SEALS);
    void *area = MAP_FAILED;
    int error = -fd;

    if (fd >= 0) {
        area = am_sys_mmap(NULL, AM_PORT_AREA_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED,
                           fd, 0);
        error = errno;
        if (area == MAP_FAILED)
            close(fd);
    }
    AM_REQUIRE(area != MAP_FAILED, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
               "no memory to share with the fabric process: %s", strerror(error));
    *ret_fd = fd;
    *ret_area = area;
    return ACL_SUCCESS;
}

aclError am_port_spawn(int *ret_socket)
{
    char folder[4096];
    int sockets[2];
    int error;

    AM_TRY(folder_find(folder, sizeof folder));
    AM_REQUIRE(am_sys_socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0,
               ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no socket for the fabric process: %s",
               strerror(errno));
    sockets[0] = am_fd_move_up(sockets[0]);
    error = process_spawn(folder, sockets[1]);
    close(sockets[1]);
    if (error != 0) {
        close(sockets[0]);
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       "%s/aclmem-fabric cannot be started: %s", folder, strerror(error));
    }
    *ret_socket = sockets[0];
    return ACL_SUCCESS;
}

/* ---- messages ---- */

int am_port_send(int socket, const struct am_port_message *message, int fd)
{
    struct pollfd p = {.fd = socket, .events = POLLOUT};
    int rc;

    while ((rc = am_fdpass_send(socket, message, sizeof *message, fd)) == -EAGAIN) {
        int n = poll(&p, 1, SEND_MS);

        if (n == 0)
            return -ETIMEDOUT;
        if (n < 0 && errno != EINTR)
            return -errno;
    }
    return rc;
}

int am_port_receive(int socket, struct am_port_message *ret_message, int ms)
{
    struct pollfd p = {.fd = socket, .events = POLLIN};
    int n = poll(&p, 1, ms);
    ssize_t size;

    if (n == 0 || (n < 0 && errno == EINTR))
        return -EAGAIN;
    if (n < 0)
        return -errno;
    size = recv(socket, ret_message, sizeof *ret_message, MSG_DONTWAIT);
    if (size < 0)
        return errno == EINTR ? -EAGAIN : -errno;
    return size == 0 ? -EPIPE : (size_t)size == sizeof *ret_message ? 0 : -EPROTO;
}
