/* See descriptor.h. */
#include "base/descriptor.h"

#include "base/log.h"
#include "base/sys.h"

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
