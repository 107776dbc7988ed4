/* See descriptor.h. */
#include "base/descriptor.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/sys.h"

#define SELECT_SIZE 1024 /* numbers that select() can handle */
#define FEW 256          /* of them may be ours */

bool am_limit_raise(int resource)
{
    struct rlimit limit;

    if (getrlimit(resource, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return false;
    limit.rlim_cur = limit.rlim_max;
    if (am_sys_setrlimit(resource, &limit) != 0)
        return false;
    am_log(AM_LOG_INFO, "raised the limit of %s to %llu",
           resource == RLIMIT_NOFILE ? "open files" : "bytes of locked memory",
           (unsigned long long)limit.rlim_max);
    return true;
}

bool am_fd_make_room(void)
{
    int error = errno;
    bool has_room = error == EMFILE && am_limit_raise(RLIMIT_NOFILE);

    errno = error; /* raising the limit may fail in its own way */
    return has_room;
}

const char *am_shortage(int error, char text[AM_SHORTAGE_SIZE])
{
    struct rlimit limit = {0};

    getrlimit(error == EFBIG ? RLIMIT_FSIZE : RLIMIT_NOFILE, &limit);
    if (error == EMFILE)
        snprintf(text, AM_SHORTAGE_SIZE,
                 "no file descriptor is left (ulimit -n is %llu, at most %llu); raise it "
                 "with ulimit -n or LimitNOFILE=",
                 (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    else if (error == EFBIG)
        snprintf(
            text, AM_SHORTAGE_SIZE,
            "larger than a file may be here (ulimit -f is %llu bytes); raise it with "
            "ulimit -f unlimited",
            (unsigned long long)limit.rlim_cur);
    else
        snprintf(text, AM_SHORTAGE_SIZE, "%s", strerror(error));
    return text;
}

bool am_file_may_have(size_t size)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= size)
        return true;
    errno = EFBIG;
    return false;
}

int am_memfd_make(const char *name, size_t size, int seals)
{
    int error;
    int fd;

    do
        fd = am_sys_memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    while (fd < 0 && am_fd_make_room());
    if (fd < 0)
        return -errno;
    fd = am_fd_move_up(fd);
    if (am_file_may_have(size) && am_sys_ftruncate(fd, (off_t)size) == 0 &&
        (seals == 0 || am_sys_fcntl(fd, F_ADD_SEALS, seals) == 0))
        return fd;
    error = errno;
    close(fd);
    return -error;
}

int am_fd_move_up(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, SELECT_SIZE);

    if (moved < 0 && fd >= FEW && am_limit_raise(RLIMIT_NOFILE))
        moved = fcntl(fd, F_DUPFD_CLOEXEC, SELECT_SIZE);
    if (moved < 0 && fd <= STDERR_FILENO)
        moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0)
        return fd;
    close(fd);
    return moved;
}
