/*
 * See direct.h.  A module, since a program has either the library or what it is made of.
 */
#include "direct.h"

#include "api/api.h"

__attribute__((visibility("default"))) void bench_direct(void *arg, size_t n)
{
    uint32_t count = 0;

    while (n-- > 0) {
        if (am_aclrtGetDeviceCount(&count) != ACL_SUCCESS)
            return;
    }
}
