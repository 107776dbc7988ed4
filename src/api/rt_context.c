/* Contexts. */
#include "api/api.h"
#include "base/error.h"
#include "core/context.h"
#include "core/runtime.h"

aclError am_aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    struct am_device *device;
    aclError rc;

    AM_REQUIRE(context != NULL, ACL_ERROR_INVALID_PARAM, "context is NULL");
    rc = am_device_find(deviceId, &device);
    return rc == ACL_SUCCESS ? am_context_create(deviceId, context) : rc;
}

aclError am_aclrtDestroyContext(aclrtContext context)
{
    AM_REQUIRE(context != NULL, ACL_ERROR_INVALID_PARAM, "context is NULL");
    return am_context_destroy(context);
}

aclError am_aclrtSetCurrentContext(aclrtContext context)
{
    AM_REQUIRE(context != NULL, ACL_ERROR_INVALID_PARAM, "context is NULL");
    return am_context_set_current(context);
}

/* Writes NULL when there is none, in every state: clients ignore the code and look at the pointer. */
aclError am_aclrtGetCurrentContext(aclrtContext *context)
{
    int32_t device;
    aclError rc;

    AM_REQUIRE(context != NULL, ACL_ERROR_INVALID_PARAM, "context is NULL");
    *context = NULL;
    rc = am_state_check("aclrtGetCurrentContext");
    if (rc != ACL_SUCCESS)
        return rc;
    *context = am_context_current();
    return *context != NULL ? ACL_SUCCESS : am_context_device(&device);
}

aclError am_aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active)
{
    struct am_device *device;
    aclError rc;

    AM_REQUIRE(active != NULL, ACL_ERROR_INVALID_PARAM, "active is NULL");
    AM_REQUIRE(flags == NULL || !am_rt.is_strict, ACL_ERROR_INVALID_PARAM,
               "flags is reserved and takes NULL (ACLMEM_RULES=strict)");
    rc = am_device_find(deviceId, &device);
    if (rc != ACL_SUCCESS)
        return rc;
    if (flags != NULL)
        *flags = 0;
    *active = am_device_is_active(device);
    return ACL_SUCCESS;
}
