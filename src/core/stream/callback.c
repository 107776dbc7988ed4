/* See callback.h. */
#include "core/stream/callback.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/stream/call.h"
#include "core/stream/capture.h"

aclError am_callback_subscribe(uint64_t thread, struct am_stream *stream)
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
        rc = am_subscriber_add(thread);
    if (rc == ACL_SUCCESS)
        stream->callback_thread = thread;
    am_unlock(&stream->queue.lock);
    return rc;
}

aclError am_callback_unsubscribe(uint64_t thread, struct am_stream *stream)
{
    aclError rc = ACL_SUCCESS;

    am_lock(&stream->queue.lock);
    if (stream->callback_thread == 0 || stream->callback_thread != thread) {
        rc = am_fail(ACL_ERROR_RT_STREAM_SUBSCRIBE,
                     "stream %d is not subscribed by thread 0x%llx", stream->id,
                     (unsigned long long)thread);
    } else {
        stream->callback_thread = 0;
        am_subscriber_remove(thread);
    }
    am_unlock(&stream->queue.lock);
    return rc;
}

static uint64_t thread_of(struct am_stream *stream)
{
    uint64_t thread;

    am_lock(&stream->queue.lock);
    thread = stream->callback_thread;
    am_unlock(&stream->queue.lock);
    return thread;
}

aclError am_callback_launch(struct am_stream *stream, aclrtCallback function, void *data,
                            bool is_blocking)
{
    uint64_t thread = thread_of(stream);
    struct am_task *task;

    AM_REQUIRE(thread != 0, ACL_ERROR_RT_STREAM_NO_CB_REG,
               "no thread is subscribed to stream %d; call aclrtSubscribeReport first",
               stream->id);
    AM_TRY(am_call_make_callback(thread, function, data, is_blocking, &task));
    task->is_captured = am_stream_is_captured(stream);
    return am_stream_submit(stream, task);
}

aclError am_hostfunc_launch(struct am_stream *stream, aclrtHostFunc function, void *data)
{
    struct am_task *task;

    AM_REQUIRE(thread_of(stream) == 0, ACL_ERROR_RT_PARAM_INVALID,
               "stream %d is subscribed for callbacks; the two do not mix on one stream",
               stream->id);
    AM_TRY(am_call_make_hostfunc(function, data, &task));
    task->is_captured = am_stream_is_captured(stream);
    return am_stream_submit(stream, task);
}
