/* See descriptor.h. */
#include "base/descriptor.h"

#include "base/log.h"
#include "base/sys.h"

#define SELECT_SIZE 1024 /* numbers that select() can handle */
#define FEW 256          /* of them may be ours */

bool am_descriptor_raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max)
        return false;
    limit.rlim_cur = limit.rlim_max;
    if (am_sys_setrlimit(RLIMIT_NOFILE, &limit) != 0)
        return false;
    am_log(AM_LOG_INFO, "raised the limit of open files to %llu",
           (unsigned long long)limit.rlim_max);
    return true;
}

int am_fd_move_up(int fd)
{
    int moved = fcntl(fd, F_DUPFD_CLOEXEC, SELECT_SIZE);

    if (moved < 0 && fd >= FEW && am_descriptor_raise_limit())
        moved = fcntl(fd, F_DUPFD_CLOEXEC, SELECT_SIZE);
    if (moved < 0 && fd <= STDERR_FILENO)
        moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (moved < 0)
        return fd;
    close(fd);
    return moved;
}
