/* See random.h. */
#include "base/random.h"

#include <sys/random.h>

#include "base/sys.h"

int am_random(void *bytes, size_t size)
{
    ssize_t n = am_sys_getrandom(bytes, size, 0);

    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EIO;
}
