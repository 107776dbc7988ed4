/*
 * Limits on the cores that operators use (aclrtDevResLimitType), of a device or of a
 * stream.  A limit is kept and given back: no operator runs here that it could hold back.
 */
#ifndef AM_CORE_LIMITS_H
#define AM_CORE_LIMITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#define AM_LIMITS (ACL_RT_DEV_RES_VECTOR_CORE + 1)
#define AM_LIMIT_SET (UINT64_C(1) << 32)

struct am_limits {
    _Atomic uint64_t value[AM_LIMITS]; /* with AM_LIMIT_SET; 0: not set */
};

static inline void am_limits_reset(struct am_limits *limits)
{
    for (int i = 0; i < AM_LIMITS; i++)
        limits->value[i] = 0;
}

static inline void am_limits_set(struct am_limits *limits, aclrtDevResLimitType type,
                                 uint32_t value)
{
    limits->value[type] = value | AM_LIMIT_SET;
}

/* False, and *ret_value as it was, when no limit was set. */
static inline bool am_limits_get(struct am_limits *limits, aclrtDevResLimitType type,
                                 uint32_t *ret_value)
{
    uint64_t value = limits->value[type];

    if (value & AM_LIMIT_SET)
        *ret_value = (uint32_t)value;
    return value & AM_LIMIT_SET;
}

#endif
