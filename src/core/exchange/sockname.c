/* See sockname.h. */
#include "core/exchange/sockname.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <sys/file.h>
#include <sys/un.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "base/descriptor.h"
#include "base/sys.h"

#define NAME_MASK UINT32_C(0xffffff)
#define ATTEMPTS_MAX 4096
#define BACKLOG 128
#define NAME_SIZE 32

#define PREFIX "share-"
#define PREFIX_NEW ".share-" /* a socket that does not listen yet */
#define NEW_SECONDS 60       /* after which the maker of such a socket has ended */

static void name_print(uint32_t name, char *text)
{
    snprintf(text, NAME_SIZE, PREFIX "%06x", name);
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
    struct stat status;

    if (list == NULL) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((entry = readdir(list)) != NULL) {
        const char *file = entry->d_name;

        if (strncmp(file, PREFIX, strlen(PREFIX)) == 0)
            remove_stale(directory, file);
        else if (strncmp(file, PREFIX_NEW, strlen(PREFIX_NEW)) == 0 &&
                 fstatat(directory, file, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
                 status.st_mtime < time(NULL) - NEW_SECONDS)
            unlinkat(directory, file, 0);
    }
    closedir(list);
}

/* Gives the socket a name that is free: 0 or -errno. */
static int name_assign(int directory, const char *file, uint32_t first,
                       uint32_t *ret_name)
{
    for (uint32_t i = 0; i < ATTEMPTS_MAX; i++) {
        uint32_t name = (first + i) & NAME_MASK;
        char text[NAME_SIZE];

        name_print(name, text);
        if (am_sys_linkat(directory, file, directory, text, 0) == 0) {
            *ret_name = name;
            return 0;
        }
        if (errno != EEXIST)
            return -errno;
    }
    return -EEXIST;
}

int am_sockname_listen(int directory, uint32_t random, uint32_t *ret_name)
{
    struct sockaddr_un addr;
    char file[NAME_SIZE];
    int rc = 0;
    int fd;

    remove_all_stale(directory);
    fd = socket_new();
    if (fd < 0)
        return fd;
    /* Containers that share the directory may have the same process ids. */
    snprintf(file, sizeof file, PREFIX_NEW "%d-%08x", (int)getpid(), random);
    addr = address(directory, file);
    if (am_sys_bind(fd, (struct sockaddr *)&addr, sizeof addr) != 0) {
        rc = -errno;
    } else {
        if (am_sys_fchmodat(directory, file, 0600, 0) != 0 ||
            am_sys_listen(fd, BACKLOG) != 0)
            rc = -errno;
        if (rc == 0)
            rc = name_assign(directory, file, random, ret_name);
        unlinkat(directory, file, 0);
    }
    if (rc == 0)
        return fd;
    close(fd);
    return proc_check(rc);
}

void am_sockname_remove(int directory, uint32_t name)
{
    char text[NAME_SIZE];

    name_print(name, text);
    unlinkat(directory, text, 0);
}

int am_sockname_connect(int directory, uint32_t name)
{
    struct ucred peer;
    socklen_t size = sizeof peer;
    char text[NAME_SIZE];
    int fd;

    name_print(name, text);
    fd = connect_to(directory, text);
    if (fd == -ECONNREFUSED) {
        remove_stale(directory, text);
        return -ENOENT;
    }
    if (fd < 0)
        return proc_check(fd);
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        peer.uid != geteuid()) {
        close(fd);
        return -ENOENT;
    }
    return fd;
}
