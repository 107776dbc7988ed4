/*
 * System parameters (aclSysParamOpt): switches for operators, of a context or of the
 * process.  They are kept and given back; there are no operators here that they could
 * change.
 */
#ifndef AM_CORE_PARAMS_H
#define AM_CORE_PARAMS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"

#define AM_PARAMS (ACL_OPT_STRONG_CONSISTENCY + 1)

struct am_params {
    _Atomic int64_t value[AM_PARAMS];
    atomic_uint are_set; /* a bit for each, set after its value */
};

static inline void am_params_reset(struct am_params *params)
{
    for (int i = 0; i < AM_PARAMS; i++)
        params->value[i] = 0;
    params->are_set = 0;
}

static inline void am_params_set(struct am_params *params, aclSysParamOpt opt,
                                 int64_t value)
{
    params->value[opt] = value;
    atomic_fetch_or(&params->are_set, 1u << opt);
}

/* False when it was never set; the value is 0 then. */
static inline bool am_params_get(struct am_params *params, aclSysParamOpt opt,
                                 int64_t *ret_value)
{
    bool is_set = params->are_set >> opt & 1;

    *ret_value = params->value[opt];
    return is_set;
}

#endif
