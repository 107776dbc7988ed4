/*
 * The exported symbols and the tables behind them, all made from the lists.
 *
 * An entry is a read section around a call through the table.  The functions that
 * report errors, versions and data types, and that start and stop the library, work in every state; is_always() is a constant for
 * each row.
 */
#include "api/api.h"

#include "base/epoch.h"
#include "base/error.h"

_Atomic(const struct am_api *) am_api_top = &am_api_boot;

#define TOP atomic_load_explicit(&am_api_top, memory_order_acquire)

/* The exported symbols: each call is a read section (base/epoch.h). */
#define AM_API(ret_, name_, params_, args_, sig_) \
    ret_ name_ params_ \
    { \
        AM_READ_SECTION; \
        return TOP->name_ args_; \
    }
#include "api/api.def"

/* Functions that work in every state. */
static inline bool is_always(enum am_api_id id)
{
    switch (id) {
    case AM_API_aclInit:
    case AM_API_aclFinalize:
    case AM_API_aclFinalizeReference:
    case AM_API_aclGetRecentErrMsg:
    case AM_API_aclrtGetLastError:
    case AM_API_aclrtPeekAtLastError:
    case AM_API_aclrtGetCurrentContext: /* writes NULL, then refuses by itself */
    case AM_API_aclrtGetVersion:
    case AM_API_aclsysGetCANNVersion:
    case AM_API_aclsysGetVersionStr:
    case AM_API_aclsysGetVersionNum:
    case AM_API_aclDataTypeSize:
    case AM_API_aclFloat16ToFloat:
    case AM_API_aclFloatToFloat16:
    case AM_API_aclrtGetTaskIdFromExceptionInfo: /* 0 would be an id */
    case AM_API_aclrtGetStreamIdFromExceptionInfo:
    case AM_API_aclrtGetThreadIdFromExceptionInfo:
    case AM_API_aclrtGetDeviceIdFromExceptionInfo:
    case AM_API_aclrtGetErrorCodeFromExceptionInfo:
        return true;
    default:
        return false;
    }
}

/* The result of a call that is refused: the code, or 0 from functions without one. */
#define REFUSED(ret_, code_) \
    _Generic(*(ret_ *)NULL, aclError : (code_), default : ((void)(code_), (ret_)0))

/* Core: note the name for messages, then the implementation. */
#define AM_API(ret_, name_, params_, args_, sig_) \
    static ret_ core_##name_ params_ \
    { \
        am_error_function = #name_; \
        return am_##name_ args_; \
    }
#include "api/api.def"

/* Boot: start the library first. */
#define AM_API(ret_, name_, params_, args_, sig_) \
    static ret_ boot_##name_ params_ \
    { \
        aclError rc = is_always(AM_API_##name_) ? ACL_SUCCESS : am_boot(#name_); \
        if (rc != ACL_SUCCESS) \
            return REFUSED(ret_, rc); \
        if (is_always(AM_API_##name_)) \
            return core_##name_ args_; \
        return TOP->name_ args_; \
    }
#include "api/api.def"

/* Down and forked: refuse. */
#define AM_API(ret_, name_, params_, args_, sig_) \
    static ret_ down_##name_ params_ \
    { \
        if (is_always(AM_API_##name_)) \
            return core_##name_ args_; \
        return REFUSED(ret_, am_refuse_down(#name_)); \
    }
#include "api/api.def"
#define AM_API(ret_, name_, params_, args_, sig_) \
    static ret_ forked_##name_ params_ \
    { \
        return AM_API_##name_ == AM_API_aclrtGetCurrentContext \
                   ? core_##name_ args_ \
                   : am_refuse_forked(#name_); \
    }
#define AM_API_RET(ret_, name_, params_, args_, sig_) \
    static ret_ forked_##name_ params_ \
    { \
        if (is_always(AM_API_##name_)) \
            return core_##name_ args_; \
        return REFUSED(ret_, am_refuse_forked(#name_)); \
    }
#include "api/api.def"

/* The tables. */
const struct am_api am_api_boot = {
#define AM_API(ret_, name_, ...) .name_ = boot_##name_,
#include "api/api.def"
};

const struct am_api am_api_core = {
#define AM_API(ret_, name_, ...) .name_ = core_##name_,
#include "api/api.def"
};

const struct am_api am_api_down = {
#define AM_API(ret_, name_, ...) .name_ = down_##name_,
#include "api/api.def"
};

const struct am_api am_api_forked = {
#define AM_API(ret_, name_, ...) .name_ = forked_##name_,
#include "api/api.def"
};

/* Functions that are known but not implemented. */
#define AM_UNSUPPORTED(ret_, name_, params_) \
    ret_ name_ params_ \
    { \
        am_error_function = #name_; \
        return am_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, \
                       "this version does not implement " #name_); \
    }
#include "api/api_unsupported.def"
#undef AM_UNSUPPORTED
