/* Streams: create, destroy, wait, ask; callbacks and host functions. */
#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/device/context.h"
#include "core/devices.h"
#include "core/stream/call.h"
#include "core/stream/stream.h"

#define FLAGS_ALL \
    (ACL_STREAM_FAST_LAUNCH | ACL_STREAM_FAST_SYNC | ACL_STREAM_PERSISTENT | \
     ACL_STREAM_HUGE | ACL_STREAM_CPU_SCHEDULE | ACL_STREAM_DEVICE_USE_ONLY)

aclError am_aclrtCreateStream(aclrtStream *stream)
{
    return am_stream_create(0, 0, stream);
}

aclError am_aclrtCreateStreamWithConfig(aclrtStream *stream, uint32_t priority,
                                        uint32_t flag)
{
    AM_REQUIRE((flag & ~FLAGS_ALL) == 0, ACL_ERROR_INVALID_PARAM,
               "flag is 0x%x; it takes a combination of 0x1 to 0x20", flag);
    return am_stream_create(priority, flag, stream);
}

aclError am_aclrtDestroyStream(struct am_stream *stream)
{
    return am_end_stream(stream, false);
}

aclError am_aclrtDestroyStreamForce(struct am_stream *stream)
{
    return am_end_stream(stream, true);
}

aclError am_aclrtSynchronizeStream(struct am_stream *stream)
{
    return am_aclrtSynchronizeStreamWithTimeout(stream, -1);
}

aclError am_aclrtSynchronizeDeviceWithTimeout(int32_t ms)
{
    AM_GET_CURRENT_DEVICE(device);
    return am_sync_device(device, ms);
}

aclError am_aclrtSynchronizeDevice(void)
{
    return am_aclrtSynchronizeDeviceWithTimeout(-1);
}

aclError am_aclrtStreamQuery(struct am_stream *stream, aclrtStreamStatus *status)
{
    bool is_idle;

    AM_TRY(am_stream_query(stream, &is_idle));
    *status = is_idle ? ACL_STREAM_STATUS_COMPLETE : ACL_STREAM_STATUS_NOT_READY;
    return ACL_SUCCESS;
}

aclError am_aclrtDeviceTaskAbort(int32_t deviceId, uint32_t ms)
{
    const uint32_t most = 36 * 60 * 1000;

    AM_REQUIRE(ms <= most, ACL_ERROR_INVALID_PARAM,
               "the timeout is %u ms; it takes 0 (for ever) to %u", ms, most);
    AM_TRY(am_device_find(deviceId, NULL));
    AM_TRY(am_stream_check_all(deviceId, NULL));
    AM_REQUIRE(
        am_stream_abort_device(deviceId, ms == 0 ? AM_FOREVER : ms * AM_MILLISECOND),
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "tasks of device %d still ran after %u ms",
        deviceId, ms);
    return ACL_SUCCESS;
}

aclError am_aclrtStreamGetId(struct am_stream *stream, int32_t *streamId)
{
    *streamId = stream->id;
    return ACL_SUCCESS;
}

aclError am_aclrtStreamGetPriority(struct am_stream *stream, uint32_t *priority)
{
    *priority = stream->queue.runnable.priority;
    return ACL_SUCCESS;
}

aclError am_aclrtStreamGetFlags(struct am_stream *stream, uint32_t *flags)
{
    *flags = stream->flags;
    return ACL_SUCCESS;
}

aclError am_aclrtGetStreamAvailableNum(uint32_t *streamCount)
{
    AM_GET_CURRENT_DEVICE(device);
    *streamCount = am_stream_available(device);
    return ACL_SUCCESS;
}

aclError am_aclrtSetStreamFailureMode(struct am_stream *stream, uint64_t mode)
{
    aclrtStreamAttrValue value = {.failureMode = mode};

    return am_aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value);
}

static aclError attribute_set_locked(struct am_stream *stream, aclrtStreamAttr attr,
                                     const aclrtStreamAttrValue *value)
    AM_REQUIRES(stream->queue.lock)
{
    switch (attr) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
        AM_REQUIRE(!stream->is_default, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "the failure mode of a default stream cannot be set");
        AM_REQUIRE(value->failureMode <= ACL_STOP_ON_FAILURE, ACL_ERROR_INVALID_PARAM,
                   "the failure mode is %llu; it takes 0 (continue) or 1 (stop)",
                   (unsigned long long)value->failureMode);
        stream->queue.stop_on_failure = value->failureMode == ACL_STOP_ON_FAILURE;
        return ACL_SUCCESS;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        stream->overflow_check = value->overflowSwitch;
        return ACL_SUCCESS;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        stream->custom_tag = value->userCustomTag;
        return ACL_SUCCESS;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
        stream->cache_op_info = value->cacheOpInfoSwitch;
        return ACL_SUCCESS;
    default:
        return am_fail(ACL_ERROR_INVALID_PARAM, "attribute %d cannot be set", (int)attr);
    }
}

aclError am_aclrtSetStreamAttribute(struct am_stream *stream, aclrtStreamAttr attr,
                                    aclrtStreamAttrValue *value)
{
    return AM_LOCKED(&stream->queue.lock, attribute_set_locked(stream, attr, value));
}

static aclError attribute_get_locked(const struct am_stream *stream, aclrtStreamAttr attr,
                                     aclrtStreamAttrValue *value)
    AM_REQUIRES(stream->queue.lock)
{
    aclrtStreamAttrValue found = {0};

    switch (attr) {
    case ACL_STREAM_ATTR_FAILURE_MODE:
        found.failureMode = stream->queue.stop_on_failure;
        break;
    case ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK:
        found.overflowSwitch = stream->overflow_check;
        break;
    case ACL_STREAM_ATTR_USER_CUSTOM_TAG:
        found.userCustomTag = stream->custom_tag;
        break;
    case ACL_STREAM_ATTR_CACHE_OP_INFO:
        found.cacheOpInfoSwitch = stream->cache_op_info;
        break;
    case ACL_STREAM_ATTR_PRIORITY:
        found.streamPriority = stream->queue.runnable.priority;
        break;
    default:
        return am_fail(ACL_ERROR_INVALID_PARAM,
                       "attr is %d, which is not a stream attribute", (int)attr);
    }
    *value = found;
    return ACL_SUCCESS;
}

aclError am_aclrtGetStreamAttribute(struct am_stream *stream, aclrtStreamAttr attr,
                                    aclrtStreamAttrValue *value)
{
    return AM_LOCKED(&stream->queue.lock, attribute_get_locked(stream, attr, value));
}

/* ---- callbacks and host functions ---- */

aclError am_aclrtSubscribeReport(uint64_t threadId, struct am_stream *stream)
{
    aclError rc = ACL_SUCCESS;

    am_lock(&stream->queue.lock);
    if (stream->queue.is_closed)
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE,
                     "the stream was destroyed by another thread");
    else if (stream->callback_thread != 0)
        rc = am_fail(ACL_ERROR_RT_STREAM_SUBSCRIBE,
                     "stream %d is subscribed already; call aclrtUnSubscribeReport first",
                     stream->id);
    else
        rc = am_subscriber_add(threadId);
    if (rc == ACL_SUCCESS)
        stream->callback_thread = threadId;
    am_unlock(&stream->queue.lock);
    return rc;
}

aclError am_aclrtUnSubscribeReport(uint64_t threadId, struct am_stream *stream)
{
    aclError rc = ACL_SUCCESS;

    am_lock(&stream->queue.lock);
    if (stream->callback_thread == 0 || stream->callback_thread != threadId) {
        rc = am_fail(ACL_ERROR_RT_STREAM_SUBSCRIBE,
                     "stream %d is not subscribed by thread 0x%llx", stream->id,
                     (unsigned long long)threadId);
    } else {
        stream->callback_thread = 0;
        am_subscriber_remove(threadId);
    }
    am_unlock(&stream->queue.lock);
    return rc;
}

static uint64_t callback_thread_of(struct am_stream *stream)
{
    return AM_LOCKED(&stream->queue.lock, stream->callback_thread);
}

aclError am_aclrtLaunchCallback(aclrtCallback fn, void *userData,
                                aclrtCallbackBlockType blockType,
                                struct am_stream *stream)
{
    struct am_task *task;
    uint64_t thread;

    thread = callback_thread_of(stream);
    AM_REQUIRE(thread != 0, ACL_ERROR_RT_STREAM_NO_CB_REG,
               "no thread is subscribed to stream %d; call aclrtSubscribeReport first",
               stream->id);
    AM_TRY(am_call_make_callback(thread, fn, userData, blockType == ACL_CALLBACK_BLOCK,
                                 &task));
    task->is_captured = am_stream_is_captured(stream);
    return am_stream_submit(stream, task);
}

aclError am_aclrtLaunchHostFunc(struct am_stream *stream, aclrtHostFunc fn, void *args)
{
    struct am_task *task;

    AM_REQUIRE(callback_thread_of(stream) == 0, ACL_ERROR_RT_PARAM_INVALID,
               "stream %d is subscribed for callbacks; the two do not mix on one stream",
               stream->id);
    AM_TRY(am_call_make_hostfunc(fn, args, &task));
    task->is_captured = am_stream_is_captured(stream);
    return am_stream_submit(stream, task);
}
