/* Contexts, and the parameters of a context or of the process. */
#include <inttypes.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/devices.h"

aclError am_aclrtCreateContext(aclrtContext *context, int32_t deviceId)
{
    return am_context_create(deviceId, context);
}

aclError am_aclrtSetCurrentContext(struct am_context *context)
{
    am_context_make_current(context);
    return ACL_SUCCESS;
}

/*
 * Writes NULL if the thread has no context, in every state: clients ignore the code and test
 * the pointer.
 */
aclError am_aclrtGetCurrentContext(aclrtContext *context)
{
    int32_t device;

    *context = NULL;
    AM_TRY(am_state_check("aclrtGetCurrentContext"));
    *context = am_context_current();
    return *context != NULL ? ACL_SUCCESS : am_context_device(&device);
}

aclError am_aclrtGetPrimaryCtxState(int32_t deviceId, uint32_t *flags, int32_t *active)
{
    AM_REQUIRE(flags == NULL || !am_setup.is_strict, ACL_ERROR_INVALID_PARAM,
               "flags is reserved and takes NULL (ACLMEM_RULES=strict)");
    AM_GET_DEVICE(device, deviceId);
    if (flags != NULL)
        *flags = 0;
    *active = am_device_is_active(device);
    return ACL_SUCCESS;
}

/*
 * The largest value of a parameter.  Editions before 9.2 know 0 and 1 only, and before
 * 8.5 not the last one.
 */
static aclError param_check(aclSysParamOpt opt, int64_t value)
{
    int64_t max = opt == ACL_OPT_DETERMINISTIC && !am_setup.is_strict ? 3 : 1;

    AM_REQUIRE(
        opt != ACL_OPT_STRONG_CONSISTENCY || !am_setup.is_strict, ACL_ERROR_INVALID_PARAM,
        "opt is ACL_OPT_STRONG_CONSISTENCY (2), which editions before 8.5 do not have "
        "(ACLMEM_RULES=strict)");
    AM_REQUIRE(value >= 0 && value <= max, ACL_ERROR_INVALID_PARAM,
               "value is %" PRId64 "; parameter %d takes 0 to %" PRId64 "%s", value,
               (int)opt, max, am_setup.is_strict ? " (ACLMEM_RULES=strict)" : "");
    return ACL_SUCCESS;
}

aclError am_aclrtCtxSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    AM_HELD(context, context);

    AM_TRY(param_check(opt, value));
    AM_TRY(am_context_get_current(&context));
    am_settings_set(&context->params, opt, value);
    return ACL_SUCCESS;
}

aclError am_aclrtCtxGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    AM_HELD(context, context);
    int64_t found;

    AM_TRY(param_check(opt, 0));
    AM_TRY(am_context_get_current(&context));
    AM_REQUIRE(am_settings_get(&context->params, opt, &found),
               ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
               "parameter %d has no value in the current context; call "
               "aclrtCtxSetSysParamOpt first",
               (int)opt);
    *value = found;
    return ACL_SUCCESS;
}

aclError am_aclrtSetSysParamOpt(aclSysParamOpt opt, int64_t value)
{
    AM_TRY(param_check(opt, value));
    am_settings_set(&am_setup.params, opt, value);
    return ACL_SUCCESS;
}

aclError am_aclrtGetSysParamOpt(aclSysParamOpt opt, int64_t *value)
{
    AM_TRY(param_check(opt, 0));
    am_settings_get(&am_setup.params, opt, value);
    return ACL_SUCCESS;
}
