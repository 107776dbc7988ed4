/*
 * The setup of the library: rules, product, backend.
 *
 * A start of the library writes it, and calls read it without a lock.
 */
#ifndef AM_CORE_SETUP_H
#define AM_CORE_SETUP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "backend/backend.h"
#include "core/device/product.h"

/*
 * Settings that the program makes for operators, each with a number: system parameters
 * (aclSysParamOpt) of a context or of the process, limits on cores (aclrtDevResLimitType) of
 * a device or of a stream.  They are kept and given back: no operator runs here that they
 * could change.
 */
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

struct am_setup {
    atomic_bool is_strict;
    _Atomic(const struct am_product *) product;
    char soc[AM_SOC_SIZE]; /* the chip's name */
    _Atomic(const struct am_backend_ops *) backend;
    _Atomic int32_t default_device; /* logical; -1: none */
    _Atomic size_t malloc_pad;      /* bytes that aclrtMalloc adds on this product */
    struct am_settings params;      /* of the process */
};

extern struct am_setup am_setup;

#endif
