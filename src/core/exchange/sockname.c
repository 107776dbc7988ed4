/* See sockname.h. */
#include "core/exchange/sockname.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/file.h>
#include <sys/un.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/descriptor.h"
#include "base/sys.h"
#include "base/util.h"

#define ID_BITS 12
#define ID_MASK ((1u << ID_BITS) - 1)
#define BACKLOG 128
#define NAME_SIZE 32

#define PREFIX "share-"
#define PREFIX_NEW ".share-" /* and the maker: not ready yet */
#define NEW_SECONDS 60       /* the namespace of a process that cannot be examined */

static uint32_t user_hash(uid_t uid)
{
    return (uint32_t)uid * UINT32_C(2654435761) >> (32 - ID_BITS);
}

static void name_print(uint32_t name, char *text)
{
    snprintf(text, NAME_SIZE, PREFIX "%06x", name);
}

/*
 * Which namespace of process ids this is; 0 when /proc does not say.  Containers may have
 * one runtime directory and the same process ids.
 */
static unsigned namespace_own(void)
{
    struct stat status;

    return stat("/proc/self/ns/pid", &status) == 0 ? (unsigned)status.st_ino : 0;
}

static void name_print_new(char *text)
{
    snprintf(text, NAME_SIZE, PREFIX_NEW "%x-%d", namespace_own(), (int)getpid());
}

/* Whether the maker of a name that is not ready is gone. */
static bool new_is_stale(int directory, const char *file)
{
    struct stat status;
    unsigned space = 0;
    int pid = 0;

    if (sscanf(file, PREFIX_NEW "%x-%d", &space, &pid) == 2 && space == namespace_own())
        return pid <= 0 || (kill(pid, 0) != 0 && errno == ESRCH);
    return fstatat(directory, file, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
           status.st_mtime < time(NULL) - NEW_SECONDS;
}

/*
 * /proc, which the addresses go through, is missing, so every name seems unused:
 * -ENOSYS.
 */
static int proc_check(int rc)
{
    return rc == -ENOENT && access("/proc/self/fd", X_OK) != 0 ? -ENOSYS : rc;
}

const char *am_sockname_advice(int error)
{
    return error == EMFILE   ? "; raise the limit with ulimit -n or LimitNOFILE="
           : error == ENOSYS ? "; sharing needs /proc, which is not mounted"
                             : "";
}

/* Through the descriptor: a directory's path may be longer than an address can be. */
static struct sockaddr_un address(int directory, const char *file)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};

    snprintf(addr.sun_path, sizeof addr.sun_path, "/proc/self/fd/%d/%s", directory, file);
    return addr;
}

static int socket_new(void)
{
    int type = SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC;
    int fd;

    do
        fd = am_sys_socket(AF_UNIX, type, 0);
    while (fd < 0 && am_fd_make_room());
    return fd < 0 ? -errno : am_fd_move_up(fd);
}

/* Connected to a file in the directory: a descriptor or -errno. */
static int connect_to(int directory, const char *file)
{
    struct sockaddr_un addr = address(directory, file);
    int fd = socket_new();
    int error;

    if (fd < 0)
        return fd;
    if (am_sys_connect(fd, (struct sockaddr *)&addr, sizeof addr) == 0)
        return fd;
    error = errno;
    close(fd);
    return -error;
}

/*
 * Removes a name that refused a connection, and still does.  Another process may have
 * taken the name since, however unlikely; but a name is removed only under the
 * directory's lock, under which it cannot change its owner.  If another process has the
 * lock, the name stays until it is found the next time.
 */
static void remove_stale(int directory, const char *file)
{
    int lock = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int fd;

    if (lock < 0)
        return;
    if (flock(lock, LOCK_EX | LOCK_NB) == 0) {
        fd = connect_to(directory, file);
        if (fd >= 0)
            close(fd);
        else if (fd == -ECONNREFUSED)
            unlinkat(directory, file, 0);
    }
    close(lock);
}

/* Removes names of processes that have ended. */
static void remove_all_stale(int directory)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *list = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;

    if (list == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(list)) != NULL) {
        if (strncmp(entry->d_name, PREFIX_NEW, strlen(PREFIX_NEW)) == 0) {
            if (new_is_stale(directory, entry->d_name))
                unlinkat(directory, entry->d_name, 0);
        } else if (strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0) {
            fd = connect_to(directory, entry->d_name);
            if (fd >= 0)
                close(fd);
            else if (fd == -ECONNREFUSED)
                remove_stale(directory, entry->d_name);
        }
    }
    closedir(list);
}

/* Gives the socket a name that is free: 0 or -errno. */
static int name_take(int directory, const char *file, uint32_t first, uint32_t *ret_name)
{
    int error = EEXIST;

    for (uint32_t i = 0; i <= ID_MASK && error == EEXIST; i++) {
        uint32_t name = user_hash(geteuid()) << ID_BITS | ((first + i) & ID_MASK);
        char text[NAME_SIZE];

        name_print(name, text);
        if (am_sys_linkat(directory, file, directory, text, 0) == 0) {
            *ret_name = name;
            return 0;
        }
        error = errno;
    }
    return -error;
}

static int listen_at(int fd, int directory, const char *file, bool for_all,
                     uint32_t random, uint32_t *ret_name)
{
    struct sockaddr_un addr = address(directory, file);
    int rc = 0;

    unlinkat(directory, file, 0);
    if (am_sys_bind(fd, (struct sockaddr *)&addr, sizeof addr) != 0)
        return -errno;
    if (am_sys_fchmodat(directory, file, for_all ? 0666 : 0600, 0) != 0 ||
        am_sys_listen(fd, BACKLOG) != 0)
        rc = -errno;
    if (rc == 0)
        rc = name_take(directory, file, random, ret_name);
    unlinkat(directory, file, 0);
    return rc;
}

int am_sockname_listen(int directory, bool for_all, uint32_t random, uint32_t *ret_name)
{
    char file[NAME_SIZE];
    int fd;
    int rc;

    remove_all_stale(directory);
    fd = socket_new();
    if (fd < 0)
        return fd;
    name_print_new(file);
    rc = listen_at(fd, directory, file, for_all, random, ret_name);
    if (rc != 0) {
        close(fd);
        return proc_check(rc);
    }
    return fd;
}

void am_sockname_remove(int directory, uint32_t name)
{
    char text[NAME_SIZE];

    name_print(name, text);
    unlinkat(directory, text, 0);
}

/* Whether the listening process belongs to this user. */
static bool listener_is(int fd, uid_t uid)
{
    struct ucred credentials;
    socklen_t size = sizeof credentials;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 &&
           credentials.uid == uid;
}

static int connect_in(int directory, uint32_t name, uid_t uid)
{
    char text[NAME_SIZE];
    int fd;

    name_print(name, text);
    fd = connect_to(directory, text);
    if (fd == -ECONNREFUSED) {
        if (uid == geteuid())
            remove_stale(directory, text);
        return -ENOENT;
    }
    if (fd >= 0 && !listener_is(fd, uid)) {
        close(fd);
        return -ENOENT;
    }
    return fd;
}

/* In another user's directory, if it really is that user's. */
static int connect_of_user(int base, const char *entry, uint32_t name)
{
    char *end;
    unsigned long uid = strtoul(entry + strlen("aclmem-"), &end, 10);
    struct stat status;
    int fd;
    int directory;

    if (*end != '\0' || uid == geteuid() || user_hash((uid_t)uid) != name >> ID_BITS)
        return -ENOENT;
    directory = openat(base, entry, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (directory < 0)
        return -ENOENT;
    fd = -ENOENT;
    if (fstat(directory, &status) == 0 && status.st_uid == (uid_t)uid)
        fd = connect_in(directory, name, (uid_t)uid);
    close(directory);
    return fd;
}

/* Among the runtime directories of other users. */
static int connect_among(const char *path, uint32_t name)
{
    DIR *list = opendir(path);
    struct dirent *entry;
    int fd = -ENOENT;

    if (list == NULL)
        return -ENOENT;
    while (fd == -ENOENT && (entry = readdir(list)) != NULL) {
        if (strncmp(entry->d_name, "aclmem-", strlen("aclmem-")) == 0)
            fd = connect_of_user(dirfd(list), entry->d_name, name);
    }
    closedir(list);
    return fd;
}

int am_sockname_connect(int directory, uint32_t name)
{
    int fd = -ENOENT;

    if (name >> ID_BITS == user_hash(geteuid()))
        fd = connect_in(directory, name, geteuid());
    if (fd == -ENOENT)
        fd = connect_among("/dev/shm", name);
    if (fd == -ENOENT)
        fd = connect_among("/tmp", name);
    return proc_check(fd);
}
