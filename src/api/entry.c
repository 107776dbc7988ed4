/*
 * The exported symbols and the tables behind them, all made from the lists.
 *
 * An entry is a read section around a call through the table.  The functions that
 * report errors, versions and data types, and that start and stop the library, work in every state; is_always() is a constant for
 * each row.
 */
#include "api/api.h"
#include "api/check.h"

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

/* The checks of arguments: by the marks of api.def, and by its letters (rows.h). */
#define AM_CHECK_nonnull(x_) ~, AM_REQUIRE_NONNULL(x_);
#define AM_CHECK_nonzero(x_) ~, AM_REQUIRE_NONZERO(x_);
#define AM_CHECK_zero(x_) ~, AM_REQUIRE_ZERO(x_);
#define AM_CHECK_null(x_) ~, AM_REQUIRE_NULL(x_);
#define AM_CHECK_timeout(x_) ~, AM_REQUIRE_TIMEOUT(x_);
#define AM_CHECK_to_1(x_) ~, AM_REQUIRE_TO(x_, 1);
#define AM_CHECK_to_2(x_) ~, AM_REQUIRE_TO(x_, 2);
#define AM_CHECK_to_3(x_) ~, AM_REQUIRE_TO(x_, 3);
#define AM_CHECK_to_7(x_) ~, AM_REQUIRE_TO(x_, 7);
#define AM_CHECK_to_9(x_) ~, AM_REQUIRE_TO(x_, 9);
#define AM_CHECK_own_stream AM_CHECK_nonnull
#define AM_CHECK_context AM_CHECK_nonnull
#define AM_CHECK_pool AM_CHECK_nonnull
#define AM_CHECK_P AM_CHECK_nonnull
#define AM_CHECK_Z AM_CHECK_nonnull
#define AM_CHECK_X AM_CHECK_nonnull
#define AM_CHECK_L AM_CHECK_nonnull
#define AM_CHECK_I AM_CHECK_nonnull
#define AM_CHECK_U AM_CHECK_nonnull
#define AM_CHECK_E AM_CHECK_nonnull
#define AM_CHECK_F AM_CHECK_nonnull
#define AM_CHECK_S AM_CHECK_nonnull
#define AM_CHECK_T AM_CHECK_nonnull

/* The objects of arguments, with a reference where they have them. */
#define AM_FIND(kind_, get_, x_) \
    ~, AM_HELD(kind_, x_##_object); \
    AM_TRY(get_(x_, &x_##_object));
#define AM_FIND_stream(x_) AM_FIND(stream, am_stream_get, x_)
#define AM_FIND_own_stream AM_FIND_stream
#define AM_FIND_event(x_) AM_FIND(event, am_event_get, x_)
#define AM_FIND_notify(x_) AM_FIND(event, am_notify_get, x_)
#define AM_FIND_model(x_) AM_FIND(model, am_model_get, x_)
#define AM_FIND_complete_model(x_) \
    AM_FIND_model(x_) AM_REQUIRE(x_##_object->is_complete, ACL_ERROR_RT_MODEL_CAPTURED, \
                                 "model %u is not complete; call %s first", \
                                 x_##_object->id, am_model_end_name(x_##_object));
#define AM_FIND_context(x_) AM_FIND(context, am_context_get, x_)
#define AM_FIND_pool(x_) AM_FIND(pool, am_pool_get, x_)
#define AM_FIND_device(x_) ~, AM_GET_DEVICE(x_##_object, (int32_t)(x_));
#define AM_FIND_device_id(x_) ~, AM_TRY(am_device_find(x_, NULL));

/* The products that have a call. */
#define AM_NEED_nothing
#define AM_NEED_vmm AM_TRY(am_vmm_check());
#define AM_NEED_keys \
    AM_REQUIRE(am_setup.product->features &AM_PRODUCT_PEER, \
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT, \
               "memory is not shared by keys on %s (ACLMEM_PRODUCT=%s)", \
               am_setup.product->title, am_setup.product->name);
#define AM_NEED_pod AM_REQUIRE_A3(AM_PRODUCT_POD);
#define AM_NEED_cache \
    AM_REQUIRE_FEATURE(AM_PRODUCT_STREAM_OPS, \
                       "only Ascend 950, Atlas A3 and A2 have cache operations; this " \
                       "device is one of the %s");
#define AM_NEED_values \
    AM_REQUIRE_FEATURE(AM_PRODUCT_STREAM_OPS, \
                       "only Ascend 950, Atlas A3 and A2 can write and wait for memory " \
                       "values on a stream; this device is one of the %s");
#define AM_NEED_capture \
    AM_REQUIRE_FEATURE(AM_PRODUCT_CAPTURE, \
                       "only Ascend 950, Atlas A3, A2 and inference products (310P) " \
                       "capture streams; this device is one of the %s");
#define AM_NEED_branches \
    AM_REQUIRE_FEATURE(AM_PRODUCT_BRANCHES, \
                       "only Ascend 950, Atlas A3 and A2 have conditional tasks and " \
                       "functions that look " \
                       "into models; this device is one of the %s");
#define AM_NEED_pools \
    AM_REQUIRE_FEATURE(AM_PRODUCT_POOL, \
                       "only Atlas A2 has memory pools; this device is one of the %s");
#define AM_NEED_managed \
    AM_REQUIRE_FEATURE( \
        AM_PRODUCT_MANAGED, \
        "only Atlas A3 and A2 have managed memory; this device is one of the %s");
#define AM_NEED_usage \
    AM_REQUIRE_FEATURE(AM_PRODUCT_USAGE, "%s do not report memory usage");

/* Core: note the name for messages, check the arguments, then the implementation. */
#define AM_API_CHECKED(name_, params_, object_params_, object_args_, checks_) \
    static aclError core_##name_ params_ \
    { \
        am_error_function = #name_; \
        checks_ return am_##name_ object_args_; \
    }
#define AM_API_RET(ret_, name_, params_, args_, sig_) \
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
