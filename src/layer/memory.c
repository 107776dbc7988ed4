/* See memory.h. */
#include "layer/memory.h"

#include <stdatomic.h>

#include "base/sys.h"

static atomic_bool ran_out;

#if AM_TEST
static _Atomic uint64_t left_to_fail; /* allocations until one fails; 0: none does */

void am_fault_arm_metadata(uint64_t nth)
{
    left_to_fail = nth;
}

static bool is_failing(void)
{
    uint64_t left = left_to_fail;

    while (left > 0 && !atomic_compare_exchange_weak(&left_to_fail, &left, left - 1))
        ;
    return left == 1;
}
#else
static bool is_failing(void)
{
    return false;
}
#endif

static void *check(void *memory)
{
    if (memory == NULL)
        ran_out = true;
    return memory;
}

void *am_meta_alloc(size_t size)
{
    return check(is_failing() ? NULL : am_sys_calloc(1, size));
}

void *am_meta_realloc(void *old, size_t size)
{
    return check(is_failing() ? NULL : am_sys_realloc(old, size));
}

bool am_meta_grow(void **array, size_t n, size_t size)
{
    void *more;

    if (n != 0 && (n < 8 || (n & (n - 1)) != 0))
        return true; /* 8, 16, 32 ... */
    more = am_meta_realloc(*array, (n == 0 ? 8 : 2 * n) * size);
    if (more == NULL)
        return false;
    *array = more;
    return true;
}

bool am_meta_ran_out(void)
{
    return ran_out;
}
