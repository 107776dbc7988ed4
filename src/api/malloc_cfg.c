/* See malloc_cfg.h. */
#include "api/malloc_cfg.h"

#include <stddef.h>

#include "base/error.h"
#include "core/heap/heap.h"

#define ATTRIBUTES_MAX 3 /* one of each type */

static aclError attribute_parse(const aclrtMallocAttribute *attribute,
                                struct malloc_cfg *ret)
{
    switch (attribute->attr) {
    case ACL_RT_MEM_ATTR_MODULE_ID:
        AM_REQUIRE(attribute->value.moduleId < AM_MODULES, ACL_ERROR_INVALID_PARAM,
                   "the attribute MODULE_ID is %u; modules are numbered from 0 to %d",
                   attribute->value.moduleId, AM_MODULES - 1);
        ret->module = attribute->value.moduleId;
        return ACL_SUCCESS;
    case ACL_RT_MEM_ATTR_DEVICE_ID:
        AM_REQUIRE(attribute->value.deviceId <= INT32_MAX, ACL_ERROR_INVALID_PARAM,
                   "the attribute DEVICE_ID is %u", attribute->value.deviceId);
        ret->device = (int32_t)attribute->value.deviceId;
        return ACL_SUCCESS;
    case ACL_RT_MEM_ATTR_VA_FLAG:
        AM_REQUIRE(attribute->value.vaFlag <= 1, ACL_ERROR_INVALID_PARAM,
                   "the attribute VA_FLAG is %u; it takes 0 and 1",
                   attribute->value.vaFlag);
        ret->has_va_flag = true;
        ret->va_flag = attribute->value.vaFlag;
        return ACL_SUCCESS;
    default:
        return am_fail(
            ACL_ERROR_INVALID_PARAM,
            "an attribute of cfg is of type %d; it takes MODULE_ID (1), DEVICE_ID (2) "
            "and VA_FLAG (3)",
            (int)attribute->attr);
    }
}

aclError malloc_cfg_parse(const aclrtMallocConfig *cfg, struct malloc_cfg *ret)
{
    struct malloc_cfg parsed = {.module = AM_MODULE_APP, .device = -1};
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(cfg == NULL || cfg->numAttrs == 0 || cfg->attrs != NULL,
               ACL_ERROR_INVALID_PARAM, "cfg.numAttrs is %zu but cfg.attrs is NULL",
               cfg->numAttrs);
    AM_REQUIRE(cfg == NULL || cfg->numAttrs <= ATTRIBUTES_MAX, ACL_ERROR_INVALID_PARAM,
               "cfg.numAttrs is %zu; there are %d types of attributes, and each is given "
               "at most once",
               cfg->numAttrs, ATTRIBUTES_MAX);
    for (size_t i = 0; cfg != NULL && i < cfg->numAttrs && rc == ACL_SUCCESS; i++)
        rc = attribute_parse(&cfg->attrs[i], &parsed);
    if (rc == ACL_SUCCESS)
        *ret = parsed;
    return rc;
}
