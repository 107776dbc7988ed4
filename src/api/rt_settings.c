/*
 * Settings for operators: how long they may run, how they overflow, how many cores they
 * use, and the function that hears of their failures.
 *
 * No operator runs here.  A program sets these at its start, often before anything else,
 * and ends when one is refused, so each is checked, and kept where the interface has a
 * function that gives it back.
 */
#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/stream/stream.h"

/* ---- how long an operator may run ---- */

/* The documents give one value for all products that they speak of. */
#define OP_TIMEOUT_MAX (UINT64_C(1091) * 1000 * 1000) /* microseconds */

/* No function gives the time back later, so it is not kept. */
aclError am_aclrtSetOpExecuteTimeOut(uint32_t timeout)
{
    return ACL_SUCCESS;
}

/* 0 asks for the maximum. */
aclError am_aclrtSetOpExecuteTimeOutV2(uint64_t timeout, uint64_t *actualTimeout)
{
    *actualTimeout = timeout == 0 || timeout > OP_TIMEOUT_MAX ? OP_TIMEOUT_MAX : timeout;
    return ACL_SUCCESS;
}

/* ---- what an overflow gives ---- */

static aclError device_current(struct am_device **ret_device)
{
    AM_GET_CURRENT_DEVICE(id);
    return am_device_find(id, ret_device);
}

static bool has_infnan(void)
{
    return am_setup.product->features & AM_PRODUCT_BF16;
}

aclError am_aclrtSetDeviceSatMode(aclrtFloatOverflowMode mode)
{
    struct am_device *device;

    AM_TRY(device_current(&device));
    AM_REQUIRE(mode == ACL_RT_OVERFLOW_MODE_SATURATION || has_infnan(),
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "%s have no infinities and NaNs, so they do not support "
               "ACL_RT_OVERFLOW_MODE_INFNAN",
               am_setup.product->title);
    am_settings_set(&device->sat_mode, 0, mode);
    return ACL_SUCCESS;
}

aclError am_aclrtGetDeviceSatMode(aclrtFloatOverflowMode *mode)
{
    struct am_device *device;
    int64_t found;

    AM_TRY(device_current(&device));
    if (!am_settings_get(&device->sat_mode, 0, &found))
        found =
            has_infnan() ? ACL_RT_OVERFLOW_MODE_INFNAN : ACL_RT_OVERFLOW_MODE_SATURATION;
    *mode = (aclrtFloatOverflowMode)found;
    return ACL_SUCCESS;
}

/* The same setting as the attribute ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK. */
aclError am_aclrtSetStreamOverflowSwitch(struct am_stream *stream, uint32_t flag)
{
    aclrtStreamAttrValue value = {.overflowSwitch = flag};

    return am_aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK,
                                      &value);
}

aclError am_aclrtGetStreamOverflowSwitch(struct am_stream *stream, uint32_t *flag)
{
    aclrtStreamAttrValue value;

    AM_TRY(
        am_aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value));
    *flag = value.overflowSwitch;
    return ACL_SUCCESS;
}

/* ---- how many cores operators use ---- */

/* The stream whose limits count in this thread; NULL: none.  It may have ended. */
static _Thread_local void *limits_stream;

static bool limit_get(struct am_settings *limits, aclrtDevResLimitType type,
                      uint32_t *ret_value)
{
    int64_t value;
    bool is_set = am_settings_get(limits, type, &value);

    if (is_set)
        *ret_value = (uint32_t)value;
    return is_set;
}

/* The device's limit, or what it has. */
static aclError device_limit(struct am_device *device, aclrtDevResLimitType type,
                             uint32_t *ret_value)
{
    aclrtDevAttr attr = type == ACL_RT_DEV_RES_CUBE_CORE ? ACL_DEV_ATTR_CUBE_CORE_NUM
                                                         : ACL_DEV_ATTR_VECTOR_CORE_NUM;
    int64_t cores;

    if (limit_get(&device->limits, type, ret_value))
        return ACL_SUCCESS;
    /* In older products an AI core is not divided into cube and vector cores. */
    AM_REQUIRE(
        am_product_attr(am_setup.product, attr, &cores) ||
            am_product_attr(am_setup.product, ACL_DEV_ATTR_AICORE_CORE_NUM, &cores),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "no limit was set, and the number of cores of %s is not published",
        am_setup.product->title);
    *ret_value = (uint32_t)cores;
    return ACL_SUCCESS;
}

aclError am_aclrtSetDeviceResLimit(struct am_device *device, aclrtDevResLimitType type,
                                   uint32_t value)
{
    am_settings_set(&device->limits, type, value);
    return ACL_SUCCESS;
}

aclError am_aclrtGetDeviceResLimit(struct am_device *device, aclrtDevResLimitType type,
                                   uint32_t *value)
{
    return device_limit(device, type, value);
}

aclError am_aclrtResetDeviceResLimit(struct am_device *device)
{
    am_settings_reset(&device->limits);
    return ACL_SUCCESS;
}

aclError am_aclrtSetStreamResLimit(struct am_stream *stream, aclrtDevResLimitType type,
                                   uint32_t value)
{
    am_settings_set(&stream->limits, type, value);
    return ACL_SUCCESS;
}

aclError am_aclrtGetStreamResLimit(struct am_stream *stream, aclrtDevResLimitType type,
                                   uint32_t *value)
{
    if (limit_get(&stream->limits, type, value))
        return ACL_SUCCESS;
    AM_GET_DEVICE(device, stream->device);
    return device_limit(device, type, value);
}

aclError am_aclrtResetStreamResLimit(struct am_stream *stream)
{
    am_settings_reset(&stream->limits);
    return ACL_SUCCESS;
}

aclError am_aclrtUseStreamResInCurrentThread(struct am_stream *stream)
{
    limits_stream = stream->named.handle;
    return ACL_SUCCESS;
}

/* Another stream than the one in use: nothing to end. */
aclError am_aclrtUnuseStreamResInCurrentThread(struct am_stream *stream)
{
    if (limits_stream == stream->named.handle)
        limits_stream = NULL;
    return ACL_SUCCESS;
}

aclError am_aclrtGetResInCurrentThread(aclrtDevResLimitType type, uint32_t *value)
{
    struct am_device *device;
    AM_HELD(stream, stream);

    AM_TRY(device_current(&device));
    stream = am_named_get(AM_KIND_STREAM, limits_stream);
    if (stream != NULL && limit_get(&stream->limits, type, value))
        return ACL_SUCCESS;
    return device_limit(device, type, value);
}

/* ---- callbacks for failures ---- */

/* The function would hear of operators that fail on a device, so it is never called. */
aclError am_aclrtSetExceptionInfoCallback(aclrtExceptionInfoCallback callback)
{
    return ACL_SUCCESS;
}

/* The documented value for an exception that does not exist: here no exception exists. */
uint32_t am_aclrtGetTaskIdFromExceptionInfo(const aclrtExceptionInfo *info)
{
    return UINT32_MAX;
}

AM_SAME_AS(aclrtGetStreamIdFromExceptionInfo, aclrtGetTaskIdFromExceptionInfo);
AM_SAME_AS(aclrtGetThreadIdFromExceptionInfo, aclrtGetTaskIdFromExceptionInfo);
AM_SAME_AS(aclrtGetDeviceIdFromExceptionInfo, aclrtGetTaskIdFromExceptionInfo);
AM_SAME_AS(aclrtGetErrorCodeFromExceptionInfo, aclrtGetTaskIdFromExceptionInfo);
