/* See stream.h. */
#include "core/stream/stream.h"

#include <errno.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/util.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/ledger/ledger.h"
#include "core/stream/call.h"
#include "core/stream/sched.h"
#include "core/stream/sched_bypass.h"

/* sched.lock; default streams are listed and not counted. */
static struct {
    LIST_HEAD(, am_stream) list;
    uint32_t n;
} streams[AM_DEVICES_MAX];
static uint64_t next_serial;       /* sched.lock */
static _Atomic uint64_t n_streams; /* of all devices */

/* The documents say that no call waits for the work of such a stream. */
static bool is_never_waited_for(const struct am_stream *stream)
{
    return stream->flags &
           (ACL_STREAM_PERSISTENT | ACL_STREAM_DEVICE_USE_ONLY | ACL_STREAM_CPU_SCHEDULE);
}

/* Set before the first stream is made. */
static void (*when_synced)(int32_t device, int32_t stream);

void am_stream_set_synced(void (*synced)(int32_t device, int32_t stream))
{
    when_synced = synced;
}

static void report_synced(const struct am_stream *stream)
{
    if (when_synced != NULL)
        when_synced(stream->device, stream->id);
}

uint32_t am_stream_available(int32_t device)
{
    uint32_t n;

    am_lock(&am_sched.lock);
    n = streams[device].n;
    am_unlock(&am_sched.lock);
    return n < am_setup.product->n_streams ? am_setup.product->n_streams - n : 0;
}

/* Chaos mode orders all work, so it leaves none to devices. */
static bool has_lanes(void)
{
    return (am_setup.backend->caps & AM_CAP_LANES) && !am_sched.setup.is_chaotic;
}

/* A stream of context, not yet listed, with one reference for being alive. */
static aclError stream_make(struct am_context *context, uint32_t priority, uint32_t flags,
                            bool is_default, struct am_stream **ret_stream)
{
    struct am_stream *stream = am_named_alloc(AM_KIND_STREAM, sizeof *stream);

    AM_REQUIRE(stream != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a stream");
    stream->device = context->device;
    stream->context = context;
    stream->flags = flags;
    stream->is_default = is_default;
    am_queue_init(&stream->queue, priority);
    am_lane_init(&stream->lane, &am_sched, &stream->queue,
                 has_lanes() ? am_setup.backend : NULL,
                 am_devices.device[context->device].driver_id);
    stream->named.refs = 1;
    am_named_publish(&stream->named);
    am_ref_more(&context->named.refs);
    *ret_stream = stream;
    return ACL_SUCCESS;
}

static void stream_list_locked(struct am_stream *stream) AM_REQUIRES(am_sched.lock)
{
    stream->serial = ++next_serial;
    stream->id = (int32_t)(stream->serial & INT32_MAX);
    LIST_INSERT_HEAD(&streams[stream->device].list, stream, all);
    am_bypass_open_locked(&am_sched, &stream->queue);
    streams[stream->device].n += !stream->is_default;
    n_streams += !stream->is_default;
    stream->queue.figure = am_ledger_stream_add(
        am_devices.ledger, stream->id, am_devices.device[stream->device].driver_id);
}

/* Out of sight: not in the list, handle dead.  The caller drops the reference. */
static void stream_unlist_locked(struct am_stream *stream) AM_REQUIRES(am_sched.lock)
{
    stream->is_dead = true;
    if (stream->callback_thread != 0)
        am_subscriber_remove_locked(stream->callback_thread);
    stream->callback_thread = 0;
    LIST_REMOVE(stream, all);
    streams[stream->device].n -= !stream->is_default;
    n_streams -= !stream->is_default;
    am_ledger_stream_remove(am_devices.ledger, stream->queue.figure);
    stream->queue.figure = NULL;
    am_named_unpublish(&stream->named);
    if (stream->is_default && stream->context->stream == stream)
        stream->context->stream = NULL;
}

void am_stream_put(struct am_stream *stream)
{
    if (!am_ref_drop(&stream->named.refs))
        return;
    am_lane_destroy(&stream->lane);
    am_queue_destroy(&stream->queue);
    if (stream->allocator != NULL)
        stream->allocator_put(stream->allocator);
    am_context_put(stream->context);
    am_named_free(&stream->named);
}

aclError am_stream_create(uint32_t priority, uint32_t flags, void **ret_handle)
{
    struct am_context *context;
    struct am_stream *stream;
    void *handle;
    aclError rc;

    AM_TRY(am_context_get_current(&context));
    rc = stream_make(context, priority, flags, false, &stream);
    if (rc != ACL_SUCCESS)
        goto out;
    /* Once it is listed, a reset by another thread may end it. */
    handle = stream->named.handle;
    am_lock(&am_sched.lock);
    if (context->named.handle == NULL) /* since it was looked up */
        rc = am_fail(ACL_ERROR_RT_CONTEXT_NULL, "the context has just been destroyed");
    else if (streams[stream->device].n >= am_setup.product->n_streams)
        rc =
            am_fail(ACL_ERROR_RT_NO_STREAM_RESOURCE,
                    "device %d has %u streams, as many as %s allow; destroy some first",
                    stream->device, am_setup.product->n_streams, am_setup.product->title);
    else
        stream_list_locked(stream);
    am_unlock(&am_sched.lock);
    if (rc == ACL_SUCCESS) {
        *ret_handle = handle;
    } else {
        am_named_unpublish(&stream->named);
        am_stream_put(stream);
    }
out:
    am_context_put(context);
    return rc;
}

/* The context's default stream, made if need be. */
static aclError stream_get_default(struct am_stream **ret_stream)
{
    struct am_context *context;
    struct am_stream *made = NULL;
    struct am_stream *stream;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_context_get_current(&context));
    am_lock(&am_sched.lock);
    stream = context->stream;
    if (stream == NULL) {
        am_unlock(&am_sched.lock);
        rc = stream_make(context, 0, 0, true, &made);
        if (rc != ACL_SUCCESS)
            goto out;
        am_lock(&am_sched.lock);
        stream = context->stream;
        if (stream == NULL && context->named.handle != NULL) {
            stream = context->stream = made;
            stream_list_locked(made);
            made = NULL;
        }
    }
    if (stream != NULL)
        am_ref_more(&stream->named.refs);
    am_unlock(&am_sched.lock);
    if (stream == NULL)
        rc = am_fail(ACL_ERROR_RT_CONTEXT_NULL, "the context has just been destroyed");
    else
        *ret_stream = stream;
    if (made != NULL) { /* another thread was faster, or the context went */
        am_named_unpublish(&made->named);
        am_stream_put(made);
    }
out:
    am_context_put(context);
    return rc;
}

struct am_stream *am_stream_find(void *handle)
{
    return am_named_get(AM_KIND_STREAM, handle);
}

AM_HOT aclError am_stream_get(void *handle, struct am_stream **ret_stream)
{
    struct am_stream *stream;

    if (handle == NULL)
        return stream_get_default(ret_stream);
    stream = am_stream_find(handle);
    AM_REQUIRE(stream != NULL, ACL_ERROR_RT_INVALID_HANDLE, "stream %p %s", handle,
               am_handle_why(AM_KIND_STREAM, handle));
    *ret_stream = stream;
    return ACL_SUCCESS;
}

aclError am_stream_default(void **ret_handle)
{
    struct am_stream *stream;

    AM_TRY(stream_get_default(&stream));
    *ret_handle = stream->named.handle;
    am_stream_put(stream);
    return ACL_SUCCESS;
}

AM_HOT aclError am_stream_submit(struct am_stream *stream, struct am_task *task)
{
    aclError rc = am_lane_submit(&stream->lane, task);

    if (rc != ACL_SUCCESS)
        task->ops->drop(task);
    return rc;
}

/* A call must not wait for a stream that waits for the function that makes the call. */
static aclError self_check_locked(const struct am_stream *stream)
    AM_REQUIRES(am_sched.lock)
{
    AM_REQUIRE(!am_call_blocks_locked(&stream->queue), ACL_ERROR_RT_PARAM_INVALID,
               "stream %d waits for the host function or callback that makes this call, "
               "so the call would wait for itself; make it in another thread, or when "
               "the function has returned",
               stream->id);
    return ACL_SUCCESS;
}

/* The same for a wait without end: the stream may also wait by way of other streams. */
static aclError wait_check_locked(struct am_stream *stream) AM_REQUIRES(am_sched.lock)
{
    AM_TRY(self_check_locked(stream));
    AM_REQUIRE(!am_call_is_awaited_locked(&stream->queue, NULL),
               ACL_ERROR_RT_PARAM_INVALID,
               "stream %d waits for an event that comes after the host function or "
               "callback that makes this call, so the call would wait for itself; make "
               "it in another thread, or when the function has returned",
               stream->id);
    return ACL_SUCCESS;
}

aclError am_stream_check_all(int32_t device, const struct am_context *context)
{
    struct am_stream *stream;
    aclError rc = ACL_SUCCESS;

    if (!am_call_is_inside())
        return ACL_SUCCESS;
    am_lock(&am_sched.lock);
    LIST_FOREACH (stream, &streams[device].list, all) {
        if (rc == ACL_SUCCESS && (context == NULL || stream->context == context))
            rc = self_check_locked(stream);
    }
    am_unlock(&am_sched.lock);
    return rc;
}

aclError am_stream_submit_and_wait(struct am_stream *stream, struct am_task *task)
{
    struct am_queue *queue = &stream->queue;
    uint64_t number;
    aclError rc;

    am_lane_enter(&stream->lane);
    am_lock(&am_sched.lock);
    rc = wait_check_locked(stream);
    if (rc == ACL_SUCCESS)
        rc = am_lane_queue_locked(&am_sched, &stream->lane, task);
    number = queue->n_queued;
    am_lane_leave(&stream->lane);
    if (rc == ACL_SUCCESS)
        am_sched_wait_task_locked(&am_sched, queue, number, AM_FOREVER);
    am_unlock(&am_sched.lock);
    if (rc != ACL_SUCCESS)
        task->ops->drop(task);
    return rc;
}

static aclError sync_timeout(const struct am_stream *stream, uint64_t n_tasks,
                             int32_t timeout_ms, const char *function)
{
    return am_fail(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
                   "stream %d still has %llu tasks after %d ms, the first queued by %s",
                   stream->id, (unsigned long long)n_tasks, timeout_ms, function);
}

static aclError sync_locked(struct am_stream *stream, uint64_t until, int32_t timeout_ms)
    AM_REQUIRES(am_sched.lock)
{
    struct am_queue *queue = &stream->queue;
    uint64_t seen = queue->n_reported;
    aclError rc;

    AM_TRY(wait_check_locked(stream));
    if (am_sched_wait_queue_locked(&am_sched, queue, am_clock_left(until)) != 0)
        return sync_timeout(stream, queue->n_queued - queue->n_done, timeout_ms,
                            am_queue_first_locked(queue));
    rc = am_queue_report_locked(queue, seen);
    return rc == ACL_SUCCESS ? rc : am_fail(rc, "stream %d: %s", stream->id, queue->why);
}

/* The device did not do what it has in time. */
static aclError lane_timeout(struct am_stream *stream, int32_t timeout_ms)
{
    const struct am_task *first;
    const char *function;
    uint64_t n;

    am_lane_enter(&stream->lane);
    first = TAILQ_FIRST(&stream->lane.tasks);
    function = first != NULL ? first->function : am_error_function;
    n = stream->lane.n_tasks;
    am_lock(&am_sched.lock);
    n += stream->queue.n_queued - stream->queue.n_done - (stream->lane.barrier != NULL);
    am_unlock(&am_sched.lock);
    am_lane_leave(&stream->lane);
    return sync_timeout(stream, n, timeout_ms, function);
}

/* Until a time, which is timeout_ms after the begin of the call. */
static aclError stream_sync(struct am_stream *stream, uint64_t until, int32_t timeout_ms)
{
    uint64_t target;
    bool is_synced;
    aclError rc;

    if (is_never_waited_for(stream))
        return ACL_SUCCESS;
    /* First: launched tasks come before those in the scheduler. */
    if (am_lane_wait(&stream->lane, until) != 0)
        return lane_timeout(stream, timeout_ms);
    if (am_bypass_is_quiet(&stream->queue)) {
        report_synced(stream);
        return ACL_SUCCESS;
    }
    am_lock(&am_sched.lock);
    am_bypass_close_locked(&am_sched, &stream->queue);
    target = stream->queue.n_queued;
    rc = sync_locked(stream, until, timeout_ms);
    is_synced = stream->queue.n_done >= target;
    am_bypass_open_locked(&am_sched, &stream->queue);
    am_unlock(&am_sched.lock);
    if (is_synced)
        report_synced(stream);
    return rc;
}

aclError am_stream_sync(struct am_stream *stream, int32_t timeout_ms)
{
    return stream_sync(stream, am_clock_after_ms(timeout_ms), timeout_ms);
}

/*
 * A walk over the streams of a device, or of one of its contexts: the one after `last`
 * (NULL: the newest), with one more reference; the one on `last` is dropped.  Streams that
 * come meanwhile are left out.
 */
static struct am_stream *walk_next(struct am_stream *last, int32_t device,
                                   const struct am_context *context)
{
    struct am_stream *stream;

    am_lock(&am_sched.lock);
    stream = last == NULL || last->is_dead ? LIST_FIRST(&streams[device].list)
                                           : LIST_NEXT(last, all);
    while (stream != NULL && ((last != NULL && stream->serial >= last->serial) ||
                              (context != NULL && stream->context != context)))
        stream = LIST_NEXT(stream, all);
    if (stream != NULL)
        am_ref_more(&stream->named.refs);
    am_unlock(&am_sched.lock);
    if (last != NULL)
        am_stream_put(last);
    return stream;
}

aclError am_stream_sync_device(int32_t device, int32_t timeout_ms)
{
    uint64_t until = am_clock_after_ms(timeout_ms);
    struct am_stream *stream = NULL;
    aclError first = ACL_SUCCESS;

    AM_TRY(am_stream_check_all(device, NULL));
    while ((stream = walk_next(stream, device, NULL)) != NULL) {
        aclError rc = stream_sync(stream, until, timeout_ms);

        if (first == ACL_SUCCESS)
            first = rc;
    }
    return first;
}

/* Launched tasks have begun, so they are not dropped. */
static void launched_wait(struct am_stream *stream)
{
    (void)am_lane_wait(&stream->lane, AM_FOREVER);
}

void am_stream_abort(struct am_stream *stream)
{
    launched_wait(stream);
    am_lock(&am_sched.lock);
    am_sched_drop_tasks_locked(&am_sched, &stream->queue);
    am_unlock(&am_sched.lock);
}

void am_stream_stop(struct am_stream *stream)
{
    am_lock(&am_sched.lock);
    am_bypass_close_locked(&am_sched, &stream->queue);
    stream->queue.is_stopped = true; /* from now on nothing is launched */
    am_unlock(&am_sched.lock);
    am_stream_abort(stream);
}

bool am_stream_is_idle(struct am_stream *stream)
{
    bool is_idle;

    if (!am_lane_collect(&stream->lane))
        return false;
    if (am_bypass_is_quiet(&stream->queue))
        return true;
    am_lock(&am_sched.lock);
    am_bypass_close_locked(&am_sched, &stream->queue);
    am_sched_nudge_locked(&am_sched);
    is_idle = stream->queue.n_done == stream->queue.n_queued;
    am_bypass_open_locked(&am_sched, &stream->queue);
    am_unlock(&am_sched.lock);
    return is_idle;
}

/* After the tasks, as far as they can be done. */
static void stream_finish_locked(struct am_stream *stream, struct am_quiet *quiet)
    AM_REQUIRES(am_sched.lock)
{
    const struct am_queue *queue = &stream->queue;

    if (am_sched_wait_quiet_locked(&am_sched, &stream->queue, quiet) != 0)
        am_log(AM_LOG_WARN,
               "stream %d ends while it waits, and no queued task can end the wait; the "
               "wait was queued by %s, and %llu tasks behind it are dropped",
               stream->id, TAILQ_FIRST(&queue->tasks)->function,
               (unsigned long long)(queue->n_queued - queue->n_done - 1));
    if (queue->error != ACL_SUCCESS && !queue->is_reported)
        am_log(AM_LOG_WARN,
               "stream %d ends with a failure (%d) that no call has synchronised to "
               "report: %s",
               stream->id, (int)queue->error, queue->why);
}

/* Without those that have not begun; functions of the program are given some time. */
static void stream_force_locked(struct am_stream *stream, struct am_quiet *quiet)
    AM_REQUIRES(am_sched.lock)
{
    const struct am_task *first;
    uint64_t until;

    do {
        until = am_quiet_look_locked(&am_sched, quiet);
        if (am_sched_drain_locked(&am_sched, &stream->queue, until) == 0)
            return;
    } while (until != 0);
    first = TAILQ_FIRST(&stream->queue.tasks);
    if (first != NULL && first->is_outside)
        am_log(AM_LOG_WARN,
               "stream %d ends while the function that %s queued still runs; what it "
               "uses must not be freed before it returns",
               stream->id, first->function);
}

/* How streams end: after their tasks, or without those that have not begun. */
struct ending {
    bool is_forced;
    struct am_quiet quiet; /* for what may never come to an end */
};

static void ending_begin(struct ending *ending, bool is_forced)
{
    ending->is_forced = is_forced;
    am_lock(&am_sched.lock);
    am_quiet_begin_locked(&am_sched, &ending->quiet);
    am_unlock(&am_sched.lock);
}

/*
 * Closes the stream, empties it and drops the reference for being alive.  False: another
 * thread ended it meanwhile.
 */
static bool stream_end(struct am_stream *stream, struct ending *ending)
{
    bool was_alive;

    am_lock(&am_sched.lock);
    am_bypass_close_locked(&am_sched, &stream->queue);
    stream->queue.is_closed = true; /* from now on nothing is launched */
    if (ending->is_forced)
        stream->queue.drop_until = stream->queue.n_queued; /* nor begun */
    am_unlock(&am_sched.lock);
    launched_wait(stream);
    am_lock(&am_sched.lock);
    if (ending->is_forced)
        stream_force_locked(stream, &ending->quiet);
    else
        stream_finish_locked(stream, &ending->quiet);
    am_sched_drop_tasks_locked(&am_sched, &stream->queue);
    was_alive = !stream->is_dead;
    if (was_alive)
        stream_unlist_locked(stream);
    am_unlock(&am_sched.lock);
    report_synced(stream);
    if (was_alive)
        am_stream_put(stream);
    return was_alive;
}

static aclError destroy_check(const struct am_stream *stream,
                              const struct am_context *context)
{
    aclError rc;

    AM_REQUIRE(!stream->is_default, ACL_ERROR_RT_PARAM_INVALID,
               "stream %p is a default stream; it ends with its context",
               stream->named.handle);
    AM_REQUIRE(stream->context == context, ACL_ERROR_RT_STREAM_CONTEXT,
               "stream %p belongs to another context; make that one current first",
               stream->named.handle);
    am_lock(&am_sched.lock);
    rc = self_check_locked(stream);
    am_unlock(&am_sched.lock);
    return rc;
}

aclError am_stream_destroy(void *handle, bool is_forced)
{
    struct am_context *context;
    struct am_stream *stream;
    struct ending ending;
    aclError rc;

    AM_TRY(am_context_get_current(&context));
    rc = am_stream_get(handle, &stream);
    if (rc != ACL_SUCCESS)
        goto out;
    rc = destroy_check(stream, context);
    if (rc == ACL_SUCCESS) {
        ending_begin(&ending, is_forced);
        if (!stream_end(stream, &ending))
            rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE, "stream %p is not alive", handle);
    }
    am_stream_put(stream);
out:
    am_context_put(context);
    return rc;
}

/* Drops tasks that have not begun on all streams, before the first one is waited for. */
static void drop_all(int32_t device, const struct am_context *context)
{
    struct am_stream *stream = NULL;

    while ((stream = walk_next(stream, device, context)) != NULL) {
        am_lock(&am_sched.lock);
        (void)am_sched_drain_locked(&am_sched, &stream->queue, 0);
        am_unlock(&am_sched.lock);
    }
}

bool am_stream_abort_device(int32_t device, uint64_t timeout_ns)
{
    uint64_t until = am_clock_after(timeout_ns);
    struct am_stream *stream = NULL;
    bool is_over = true;

    drop_all(device, NULL);
    while ((stream = walk_next(stream, device, NULL)) != NULL) {
        if (am_lane_wait(&stream->lane, until) != 0)
            is_over = false;
        am_lock(&am_sched.lock);
        if (am_sched_drain_locked(&am_sched, &stream->queue, until) != 0)
            is_over = false;
        am_unlock(&am_sched.lock);
    }
    return is_over;
}

void am_stream_kill_all(int32_t device, const struct am_context *context, bool wait)
{
    struct ending ending;
    struct am_stream *stream = NULL;

    ending_begin(&ending, !wait);
    if (!wait)
        drop_all(device, context);
    while ((stream = walk_next(stream, device, context)) != NULL)
        stream_end(stream, &ending);
}

bool am_stream_collect_all(void)
{
    struct am_stream *stream = NULL;
    bool is_empty = true;

    for (int32_t device = 0; has_lanes() && device < am_devices.n; device++) {
        while ((stream = walk_next(stream, device, NULL)) != NULL)
            is_empty = am_lane_collect(&stream->lane) && is_empty;
    }
    return is_empty;
}

uint64_t am_stream_count(void)
{
    return n_streams;
}
