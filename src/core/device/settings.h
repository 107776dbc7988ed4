/*
 * Settings that the program makes for operators, each with a number: system parameters
 * (aclSysParamOpt) of a context or of the process, limits on cores (aclrtDevResLimitType) of
 * a device or of a stream.  They are kept and given back: no operator runs here that they
 * could change.
 */
#ifndef AM_CORE_SETTINGS_H
#define AM_CORE_SETTINGS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#define AM_PARAMS (ACL_OPT_STRONG_CONSISTENCY + 1)
#define AM_LIMITS (ACL_RT_DEV_RES_VECTOR_CORE + 1)

struct am_settings {
    _Atomic int64_t value[AM_PARAMS > AM_LIMITS ? AM_PARAMS : AM_LIMITS];
    atomic_uint are_set; /* a bit for each, set after its value */
};

static inline void am_settings_reset(struct am_settings *settings)
{
    settings->are_set = 0;
}

static inline void am_settings_set(struct am_settings *settings, unsigned i,
                                   int64_t value)
{
    settings->value[i] = value;
    atomic_fetch_or(&settings->are_set, 1u << i);
}

/* False when it was not set; the value is 0 then. */
static inline bool am_settings_get(struct am_settings *settings, unsigned i,
                                   int64_t *ret_value)
{
    bool is_set = settings->are_set >> i & 1;

    *ret_value = is_set ? settings->value[i] : 0;
    return is_set;
}

#endif
