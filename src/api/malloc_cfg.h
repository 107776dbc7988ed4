/* The attributes that aclrtMallocWithCfg and aclrtMallocHostWithCfg take. */
#ifndef AM_API_MALLOC_CFG_H
#define AM_API_MALLOC_CFG_H

#include <stdbool.h>

#include "acl/acl_rt.h"

struct malloc_cfg {
    unsigned module;
    int32_t device; /* -1: not given */
    bool has_va_flag;
    uint32_t va_flag;
};

/* cfg may be NULL: then nothing is given. */
aclError malloc_cfg_parse(const aclrtMallocConfig *cfg, struct malloc_cfg *ret);

#endif
