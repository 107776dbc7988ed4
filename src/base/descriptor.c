/* See descriptor.h. */
#include "base/descriptor.h"

#include <errno.h>
#include <stdio.h>

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

const char *am_fd_shortage(char text[AM_FD_SHORTAGE_SIZE])
{
    struct rlimit limit = {0};

    getrlimit(RLIMIT_NOFILE, &limit);
    snprintf(
        text, AM_FD_SHORTAGE_SIZE,
        "no file descriptor is left (ulimit -n is %llu, at most %llu); raise it with "
        "ulimit -n or LimitNOFILE=",
        (unsigned long long)limit.rlim_cur, (unsigned long long)limit.rlim_max);
    return text;
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
