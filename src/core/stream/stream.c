/* See stream.h. */
#include "core/stream/stream.h"

#include <stdio.h>
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
#include "core/stream/wait.h"

static struct am_lock streams_lock = AM_LOCK_INIT(AM_RANK_STREAMS, "streams");
/* streams_lock; default streams are listed and not counted. */
static struct {
    LIST_HEAD(, am_stream) list;
    LIST_HEAD(, am_stream_hold) holds;
    uint32_t n;      /* those of models too */
    uint32_t n_held; /* by models */
} streams[AM_DEVICES_MAX];
static uint64_t next_serial; /* streams_lock */
static uint64_t n_holds;     /* streams_lock, as the next one: of all devices */
static uint64_t n_held;

/* The remedies for waits for captured streams, and for aborting them. */
#define NO_WAIT "synchronise or query after aclmdlRICaptureEnd"
#define NO_ABORT "end it with aclmdlRICaptureEnd, then abort or stop the stream"

/* Room for one more model, or for the number of the others, in the text of a message. */
#define HOLD_TEXT 64

/* Between two checks of a function that a forced end waits for. */
#define FORCE_INTERVAL (AM_SECOND / 10)

/* The documents say that no call waits for the work of such a stream. */
static bool is_never_waited_for(const struct am_stream *stream)
{
    return stream->flags &
           (ACL_STREAM_PERSISTENT | ACL_STREAM_DEVICE_USE_ONLY | ACL_STREAM_CPU_SCHEDULE);
}

uint32_t am_stream_available(int32_t device)
{
    uint32_t n = AM_LOCKED(&streams_lock, streams[device].n);

    return n < am_setup.product->n_streams ? am_setup.product->n_streams - n : 0;
}

/* "model 3 has 2, model 1 has 1": the newest first, and how many more there are. */
static void holds_text_locked(int32_t device, char *text, size_t size)
    AM_REQUIRES(streams_lock)
{
    const struct am_stream_hold *hold;
    unsigned n_more = 0;
    size_t n = 0;

    text[0] = '\0';
    LIST_FOREACH (hold, &streams[device].holds, all) {
        if (n + HOLD_TEXT >= size)
            n_more++;
        else
            n += (size_t)snprintf(text + n, size - n, "%smodel %u has %u",
                                  n == 0 ? ": " : ", ", hold->model, hold->n);
    }
    if (n_more > 0)
        snprintf(text + n, size - n, ", and %u older models", n_more);
}

static aclError limit_check_locked(int32_t device, aclError code)
    AM_REQUIRES(streams_lock)
{
    char models[256];

    if (streams[device].n < am_setup.product->n_streams)
        return ACL_SUCCESS;
    holds_text_locked(device, models, sizeof models);
    return am_fail(code,
                   "stream resources are insufficient (207008): device %d has %u "
                   "streams, as many as %s allow; %u are the program's and models have "
                   "%u%s; destroy streams, or models with aclmdlRIDestroy",
                   device, streams[device].n, am_setup.product->title,
                   streams[device].n - streams[device].n_held, streams[device].n_held,
                   models);
}

/* `more` streams; modulo 2^32, so fewer if it is the negative of a number. */
static void hold_count_locked(struct am_stream_hold *hold, uint32_t more)
    AM_REQUIRES(streams_lock)
{
    n_holds -= hold->n > 0;
    n_held -= hold->n;
    hold->n += more;
    n_holds += hold->n > 0;
    n_held += hold->n;
    streams[hold->device].n += more;
    streams[hold->device].n_held += more;
    am_ledger_models_set(am_devices.ledger, n_holds, n_held);
}

aclError am_stream_hold(struct am_stream_hold *hold, aclError code)
{
    aclError rc;

    am_lock(&streams_lock);
    rc = limit_check_locked(hold->device, code);
    if (rc == ACL_SUCCESS) {
        if (hold->n == 0)
            LIST_INSERT_HEAD(&streams[hold->device].holds, hold, all);
        hold_count_locked(hold, 1);
    }
    am_unlock(&streams_lock);
    return rc;
}

void am_stream_release(struct am_stream_hold *hold, uint32_t n)
{
    am_lock(&streams_lock);
    n = n < hold->n ? n : hold->n;
    if (n > 0) {
        hold_count_locked(hold, -n);
        if (hold->n == 0)
            LIST_REMOVE(hold, all);
    }
    am_unlock(&streams_lock);
}

/* Chaos mode orders all work, so it leaves none to devices. */
static bool has_lanes(void)
{
    return (am_setup.backend->caps & AM_CAP_LANES) && !am_sched.setup.is_chaotic;
}

/* A stream of context, with one reference for being alive. */
static aclError stream_make_locked(struct am_context *context, uint32_t priority,
                                   uint32_t flags, bool is_default,
                                   struct am_stream **ret_stream)
    AM_REQUIRES(streams_lock)
{
    int32_t device = context->device;
    int32_t driver = am_devices.device[device].driver_id;
    struct am_stream *stream;

    AM_REQUIRE(context->named.handle != NULL, /* since the lookup */
               ACL_ERROR_RT_CONTEXT_NULL, "the context has just been destroyed");
    if (!is_default)
        AM_TRY(limit_check_locked(device, ACL_ERROR_RT_NO_STREAM_RESOURCE));
    stream = am_named_alloc(AM_KIND_STREAM, sizeof *stream);
    AM_REQUIRE(stream != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a stream");
    am_ref_more(&context->named.refs);
    stream->context = context;
    stream->device = device;
    stream->flags = flags;
    stream->is_default = is_default;
    stream->serial = ++next_serial;
    stream->id = (int32_t)(stream->serial & INT32_MAX);
    am_queue_init(&stream->queue, &am_sched, priority,
                  has_lanes() ? am_setup.backend : NULL, driver);
    stream->queue.id = stream->id;
    stream->queue.figure = am_ledger_stream_add(am_devices.ledger, stream->id, driver);
    LIST_INSERT_HEAD(&streams[device].list, stream, all);
    streams[device].n += !is_default;
    am_named_publish(&stream->named);
    *ret_stream = stream;
    return ACL_SUCCESS;
}

/* Out of sight: not in the list, handle dead.  The caller drops the reference. */
static void stream_unlist_locked(struct am_stream *stream) AM_REQUIRES(streams_lock)
{
    struct am_ledger_stream *figure;
    uint64_t thread;

    am_lock(&stream->queue.lock);
    thread = stream->callback_thread;
    stream->callback_thread = 0;
    figure = stream->queue.figure;
    stream->queue.figure = NULL;
    am_unlock(&stream->queue.lock);
    if (thread != 0)
        am_subscriber_remove(thread);
    LIST_REMOVE(stream, all);
    streams[stream->device].n -= !stream->is_default;
    am_ledger_stream_remove(am_devices.ledger, figure);
    am_named_unpublish(&stream->named);
    if (stream->is_default && stream->context->stream == stream)
        stream->context->stream = NULL;
}

void am_stream_put(struct am_stream *stream)
{
    if (!am_ref_drop(&stream->named.refs))
        return;
    am_queue_destroy(&stream->queue);
    am_context_put(stream->context);
    am_named_put(stream->allocator);
    am_named_free(&stream->named);
}

aclError am_stream_create(uint32_t priority, uint32_t flags, void **ret_handle)
{
    struct am_context *context;
    struct am_stream *stream;
    aclError rc;

    AM_TRY(am_context_get_current(&context));
    am_lock(&streams_lock);
    rc = stream_make_locked(context, priority, flags, false, &stream);
    if (rc == ACL_SUCCESS)
        *ret_handle = stream->named.handle;
    am_unlock(&streams_lock);
    am_context_put(context);
    return rc;
}

/* The context's default stream, made if need be. */
static aclError stream_get_default(struct am_stream **ret_stream)
{
    struct am_context *context;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_context_get_current(&context));
    am_lock(&streams_lock);
    if (context->stream == NULL)
        rc = stream_make_locked(context, 0, 0, true, &context->stream);
    if (rc == ACL_SUCCESS) {
        am_ref_more(&context->stream->named.refs);
        *ret_stream = context->stream;
    }
    am_unlock(&streams_lock);
    am_context_put(context);
    return rc;
}

AM_HOT aclError am_stream_get(void *handle, struct am_stream **ret_stream)
{
    struct am_stream *stream;

    if (handle == NULL)
        return stream_get_default(ret_stream);
    stream = am_named_get(AM_KIND_STREAM, handle);
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

aclError am_stream_refuse(struct am_stream *stream, aclError code, const char *remedy)
{
    struct am_model_lane *capture;
    aclError rc = ACL_SUCCESS;

    am_lock(&stream->queue.lock);
    capture = stream->queue.capture;
    if (capture != NULL)
        rc = am_lane_refuse(capture, code, remedy);
    am_unlock(&stream->queue.lock);
    return rc;
}

/* The first captured stream of the device (or of a context of it) refuses the call. */
static aclError captured_check(int32_t device, const struct am_context *context,
                               aclError code, const char *remedy)
{
    struct am_stream *stream;
    aclError rc = ACL_SUCCESS;

    if (atomic_load_explicit(&am_n_captures, memory_order_relaxed) == 0)
        return ACL_SUCCESS;
    am_lock(&streams_lock);
    LIST_FOREACH (stream, &streams[device].list, all) {
        if (rc == ACL_SUCCESS && am_stream_is_captured(stream) &&
            (context == NULL || stream->context == context))
            rc = am_stream_refuse(stream, code, remedy);
    }
    am_unlock(&streams_lock);
    return rc;
}

static aclError default_check(const struct am_stream *stream)
{
    if (!stream->is_default)
        return ACL_SUCCESS;
    return captured_check(stream->device, stream->context,
                          ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
                          "use a stream of aclrtCreateStream instead of the default one");
}

AM_HOT aclError am_stream_submit(struct am_stream *stream, struct am_task *task)
{
    aclError rc = default_check(stream);

    if (rc == ACL_SUCCESS)
        rc = am_queue_submit(&stream->queue, task, NULL);
    if (rc != ACL_SUCCESS)
        task->ops->free(task);
    return rc;
}

/* A call must not wait for a stream that waits for the function that makes the call. */
static aclError self_check(struct am_stream *stream)
{
    bool is_blocked =
        AM_LOCKED(&stream->queue.lock, am_call_blocks_locked(&stream->queue));

    AM_REQUIRE(!is_blocked, ACL_ERROR_RT_PARAM_INVALID,
               "stream %d waits for the host function or callback that makes this call, "
               "so the call would wait for itself; make it in another thread, or when "
               "the function has returned",
               stream->id);
    return ACL_SUCCESS;
}

/* The same for a wait without end: the stream may also wait through other streams. */
static aclError wait_check(struct am_stream *stream)
{
    if (!am_call_is_inside())
        return ACL_SUCCESS;
    AM_TRY(self_check(stream));
    AM_REQUIRE(!am_stall_awaits_caller(&stream->queue, UINT64_MAX),
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
    am_lock(&streams_lock);
    LIST_FOREACH (stream, &streams[device].list, all) {
        if (rc == ACL_SUCCESS && (context == NULL || stream->context == context))
            rc = self_check(stream);
    }
    am_unlock(&streams_lock);
    return rc;
}

aclError am_stream_submit_and_wait(struct am_stream *stream, struct am_task *task)
{
    struct am_queue *queue = &stream->queue;
    uint64_t target;
    aclError rc = default_check(stream);

    if (rc == ACL_SUCCESS)
        rc = wait_check(stream);
    if (rc == ACL_SUCCESS)
        rc = am_queue_submit(queue, task, &target);
    if (rc != ACL_SUCCESS) {
        task->ops->free(task);
        return rc;
    }
    am_lock(&queue->lock);
    am_stall_wait_locked(queue, target, AM_FOREVER, NULL);
    am_unlock(&queue->lock);
    return rc;
}

static aclError sync_locked(struct am_queue *queue, uint64_t target, uint64_t until,
                            int32_t timeout_ms) AM_REQUIRES(queue->lock)
{
    uint64_t seen = queue->n_reported;
    aclError rc;

    if (am_stall_wait_locked(queue, target, am_clock_left(until), NULL) != 0)
        return am_fail(
            ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
            "stream %d still has %llu tasks after %d ms, the first queued by %s",
            queue->id, (unsigned long long)(queue->n_queued - queue->n_done), timeout_ms,
            am_queue_first_locked(queue));
    rc = am_queue_report_locked(queue, seen);
    return rc == ACL_SUCCESS ? rc : am_fail(rc, "stream %d: %s", queue->id, queue->why);
}

/* Until a time, which is timeout_ms after the begin of the call. */
static aclError stream_sync(struct am_stream *stream, uint64_t until, int32_t timeout_ms,
                            bool *ret_is_synced)
{
    struct am_queue *queue = &stream->queue;
    uint64_t target;
    aclError rc;

    *ret_is_synced = is_never_waited_for(stream);
    if (*ret_is_synced)
        return ACL_SUCCESS;
    AM_TRY(am_stream_refuse(stream, ACL_ERROR_RT_STREAM_CAPTURED, NO_WAIT));
    AM_TRY(wait_check(stream));
    am_lock(&queue->lock);
    target = queue->n_queued;
    rc = sync_locked(queue, target, until, timeout_ms);
    *ret_is_synced = queue->n_done >= target;
    am_unlock(&queue->lock);
    return rc;
}

aclError am_stream_sync(struct am_stream *stream, int32_t timeout_ms, bool *ret_is_synced)
{
    return stream_sync(stream, am_clock_after_ms(timeout_ms), timeout_ms, ret_is_synced);
}

/*
 * A walk over the streams of a device, or of one of its contexts: the one after `last`
 * (NULL: the newest), with one more reference; the one on `last` is dropped.  Streams that
 * are created during the walk are left out.
 */
static struct am_stream *walk_next(struct am_stream *last, int32_t device,
                                   const struct am_context *context)
{
    struct am_stream *stream;

    am_lock(&streams_lock);
    stream = last == NULL || last->named.handle == NULL
                 ? LIST_FIRST(&streams[device].list)
                 : LIST_NEXT(last, all);
    while (stream != NULL && ((last != NULL && stream->serial >= last->serial) ||
                              (context != NULL && stream->context != context)))
        stream = LIST_NEXT(stream, all);
    if (stream != NULL)
        am_ref_more(&stream->named.refs);
    am_unlock(&streams_lock);
    if (last != NULL)
        am_stream_put(last);
    return stream;
}

aclError am_stream_sync_device(int32_t device, int32_t timeout_ms, bool *ret_are_synced)
{
    uint64_t until = am_clock_after_ms(timeout_ms);
    struct am_stream *stream = NULL;
    aclError first = ACL_SUCCESS;
    bool is_synced;

    *ret_are_synced = false;
    AM_TRY(captured_check(device, NULL, ACL_ERROR_RT_STREAM_CAPTURED, NO_WAIT));
    AM_TRY(am_stream_check_all(device, NULL));
    *ret_are_synced = true;
    while ((stream = walk_next(stream, device, NULL)) != NULL) {
        aclError rc = stream_sync(stream, until, timeout_ms, &is_synced);

        *ret_are_synced = *ret_are_synced && is_synced;
        if (first == ACL_SUCCESS)
            first = rc;
    }
    return first;
}

/* Launched tasks have begun, so they are not dropped. */
aclError am_stream_abort(struct am_stream *stream)
{
    AM_TRY(am_stream_refuse(stream, ACL_ERROR_RT_STREAM_CAPTURED, NO_ABORT));
    am_queue_drop(&stream->queue, false, AM_FOREVER);
    return ACL_SUCCESS;
}

aclError am_stream_stop(struct am_stream *stream)
{
    AM_TRY(am_stream_refuse(stream, ACL_ERROR_RT_STREAM_CAPTURED, NO_ABORT));
    am_lock(&stream->queue.lock);
    stream->queue.is_stopped = true; /* from now on nothing is launched */
    am_unlock(&stream->queue.lock);
    am_queue_drop(&stream->queue, false, AM_FOREVER);
    return ACL_SUCCESS;
}

aclError am_stream_query(struct am_stream *stream, bool *ret_is_idle)
{
    AM_TRY(am_stream_refuse(stream, ACL_ERROR_RT_STREAM_CAPTURED, NO_WAIT));
    am_queue_poll(&stream->queue, false);
    am_sched_nudge(&am_sched);
    am_lock(&stream->queue.lock);
    *ret_is_idle = stream->queue.n_done == stream->queue.n_queued;
    am_unlock(&stream->queue.lock);
    return ACL_SUCCESS;
}

/* After the tasks, as far as they can be done. */
static void stream_finish(struct am_stream *stream, struct am_stall *stall)
{
    struct am_queue *queue = &stream->queue;
    const struct am_task *first;

    am_lock(&queue->lock);
    if (am_stall_wait_locked(queue, queue->n_queued, AM_FOREVER, stall) != 0) {
        first = TAILQ_FIRST(&queue->tasks);
        am_log(AM_LOG_WARN,
               "stream %d ends while it waits, and no queued task can end the wait; the "
               "wait was queued by %s, and %llu tasks behind it are dropped",
               stream->id, first != NULL ? first->function : "another call",
               (unsigned long long)(queue->n_queued - queue->n_done - 1));
    }
    if (queue->error != ACL_SUCCESS && !queue->is_reported)
        am_log(AM_LOG_WARN,
               "stream %d ends with a failure (%d) that no call has synchronised to "
               "report: %s",
               stream->id, (int)queue->error, queue->why);
    am_unlock(&queue->lock);
}

/* Without tasks that have not begun; a function of the program has some time to return. */
static void stream_force(struct am_stream *stream, struct am_stall *stall)
{
    struct am_queue *queue = &stream->queue;
    struct am_task *first;
    uint64_t now;

    do {
        now = am_sched.setup.now();
        if (am_queue_drop(queue, true, now + FORCE_INTERVAL) == 0)
            return;
        now = am_sched.setup.now();
    } while (am_timeout_check(&stall->timeout, now, 2 * FORCE_INTERVAL));
    am_lock(&queue->lock);
    first = TAILQ_FIRST(&queue->tasks);
    if (first != NULL && am_task_current(first)->runner != 0)
        am_log(AM_LOG_WARN,
               "stream %d ends while the function that %s queued still runs; what it "
               "uses must not be freed before it returns",
               stream->id, first->function);
    am_unlock(&queue->lock);
}

/*
 * Closes the stream, empties it and drops the reference for being alive.  False: another
 * thread has ended it.
 */
static bool stream_end(struct am_stream *stream, bool is_forced, struct am_stall *stall)
{
    struct am_queue *queue = &stream->queue;
    struct am_model *model = NULL;
    bool was_alive;

    am_lock(&queue->lock);
    queue->is_closed = true; /* from now on nothing is launched */
    if (queue->capture != NULL)
        model = am_lane_detach(queue->capture);
    if (is_forced)
        queue->drop_until = queue->n_queued; /* nor begun */
    am_unlock(&queue->lock);
    if (model != NULL)
        am_capture_abandon(model);
    (void)am_stall_wait_launched(queue, AM_FOREVER);
    if (is_forced)
        stream_force(stream, stall);
    else
        stream_finish(stream, stall);
    (void)am_queue_drop(queue, false, AM_FOREVER);
    am_lock(&streams_lock);
    was_alive = stream->named.handle != NULL;
    if (was_alive)
        stream_unlist_locked(stream);
    am_unlock(&streams_lock);
    if (was_alive)
        am_stream_put(stream);
    return was_alive;
}

aclError am_stream_destroy(struct am_stream *stream, bool is_forced)
{
    struct am_context *context;
    struct am_stall stall;

    AM_TRY(am_context_get_current(&context));
    am_context_put(context); /* it is only compared */
    AM_REQUIRE(!stream->is_default, ACL_ERROR_RT_PARAM_INVALID,
               "stream %p is a default stream; it ends with its context",
               stream->named.handle);
    AM_REQUIRE(stream->context == context, ACL_ERROR_RT_STREAM_CONTEXT,
               "stream %p belongs to another context; make that one current first",
               stream->named.handle);
    AM_TRY(self_check(stream));
    am_stall_start(&stall, &am_sched);
    AM_REQUIRE(stream_end(stream, is_forced, &stall), ACL_ERROR_RT_INVALID_HANDLE,
               "stream %d is not alive", stream->id);
    return ACL_SUCCESS;
}

/* Drops tasks that have not begun on all streams, before the first one is waited for. */
static void drop_all(int32_t device, const struct am_context *context)
{
    struct am_stream *stream = NULL;

    while ((stream = walk_next(stream, device, context)) != NULL)
        (void)am_queue_drop(&stream->queue, true, 0);
}

bool am_stream_abort_device(int32_t device, uint64_t timeout_ns)
{
    uint64_t until = am_clock_after(timeout_ns);
    struct am_stream *stream = NULL;
    bool is_over = true;

    drop_all(device, NULL);
    while ((stream = walk_next(stream, device, NULL)) != NULL) {
        if (am_queue_drop(&stream->queue, true, until) != 0)
            is_over = false;
    }
    return is_over;
}

void am_stream_kill_all(int32_t device, const struct am_context *context, bool wait)
{
    struct am_stream *stream = NULL;
    struct am_stall stall;

    am_stall_start(&stall, &am_sched);
    if (!wait)
        drop_all(device, context);
    while ((stream = walk_next(stream, device, context)) != NULL)
        stream_end(stream, !wait, &stall);
}

bool am_stream_collect_all(void)
{
    struct am_stream *stream = NULL;
    bool is_empty = true;

    for (int32_t device = 0; has_lanes() && device < am_devices.n; device++) {
        while ((stream = walk_next(stream, device, NULL)) != NULL)
            is_empty = !am_queue_poll(&stream->queue, false) && is_empty;
    }
    return is_empty;
}
