/* Events.  See event.h. */
#include "core/event.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/context.h"

#define SECOND UINT64_C(1000000000)

/* sched.lock */
static struct {
    LIST_HEAD(, am_event) list;
    uint32_t n;
} events[AM_DEVICES_MAX];
static uint32_t next_id;              /* sched.lock */
static _Atomic uint64_t n_events;     /* of all devices */
static _Atomic uint32_t default_wait; /* seconds */

/* What a task about an event remembers. */
struct am_event_task {
    struct am_task task;
    struct am_event *event; /* holds a reference */
    uint64_t target;        /* the record that it makes, undoes or waits for */
    int32_t stream;
    bool is_pending; /* a record that has not run */
    TAILQ_ENTRY(am_event_task) pending;
};

void am_event_set_default_wait(uint32_t seconds)
{
    default_wait = seconds;
}

uint64_t am_event_count(void)
{
    return n_events;
}

uint32_t am_event_available(int32_t device)
{
    uint32_t n;

    am_lock(&am_rt.sched.lock);
    n = events[device].n;
    am_unlock(&am_rt.sched.lock);
    return n < am_rt.product->n_events ? am_rt.product->n_events - n : 0;
}

void am_event_put(struct am_event *event)
{
    if (!am_ref_drop(&event->object.refs))
        return;
    pthread_cond_destroy(&event->changed);
    free(event);
}

/* An event of the device, not yet listed, with one reference for being alive. */
static aclError event_make(int32_t device, unsigned can, struct am_event **ret_event)
{
    struct am_event *event = am_sys_calloc(1, sizeof *event);

    if (event == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for an event");
    event->device = device;
    event->can = can;
    TAILQ_INIT(&event->pending);
    am_waitlist_init(&event->waiting);
    am_cond_init(&event->changed);
    event->object.refs = 1;
    if (am_idmap_add(&am_rt.ids, AM_KIND_EVENT, &event->object, &event->handle) != 0) {
        am_event_put(event);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the handle of an event");
    }
    *ret_event = event;
    return ACL_SUCCESS;
}

aclError am_event_create(unsigned can, void **ret_handle)
{
    struct am_context *context;
    struct am_event *event;
    void *handle;
    aclError rc = am_context_get_current(&context);

    if (rc != ACL_SUCCESS)
        return rc;
    rc = event_make(context->device, can, &event);
    if (rc != ACL_SUCCESS)
        goto out;
    handle = event->handle; /* once it is listed, a reset by another thread may end it */
    am_lock(&am_rt.sched.lock);
    if (context->handle == NULL) { /* since it was looked up; its device is being reset */
        rc = am_fail(ACL_ERROR_RT_CONTEXT_NULL, "the context has just been destroyed");
    } else if (events[event->device].n >= am_rt.product->n_events) {
        rc = am_fail(ACL_ERROR_RT_NO_EVENT_RESOURCE,
                     "device %d has %u events, as many as %s allow; destroy some first",
                     event->device, am_rt.product->n_events, am_rt.product->title);
    } else {
        event->id = next_id++;
        LIST_INSERT_HEAD(&events[event->device].list, event, all);
        events[event->device].n++;
        n_events++;
    }
    am_unlock(&am_rt.sched.lock);
    if (rc == ACL_SUCCESS) {
        *ret_handle = handle;
    } else {
        am_idmap_remove(&am_rt.ids, handle);
        am_event_put(event);
    }
out:
    am_context_put(context);
    return rc;
}

aclError am_event_get(void *handle, struct am_event **ret_event)
{
    struct am_event *event =
        (struct am_event *)am_idmap_get(&am_rt.ids, AM_KIND_EVENT, handle);

    AM_REQUIRE(event != NULL, ACL_ERROR_RT_INVALID_HANDLE, "event %p %s", handle,
               am_idmap_why(AM_KIND_EVENT, handle));
    *ret_event = event;
    return ACL_SUCCESS;
}

/* False when somebody was faster. */
static bool event_unlist(struct am_event *event)
{
    bool was_alive;

    am_lock(&am_rt.sched.lock);
    was_alive = !event->is_dead;
    event->is_dead = true;
    if (was_alive) {
        LIST_REMOVE(event, all);
        events[event->device].n--;
        n_events--;
        am_idmap_remove(&am_rt.ids, event->handle);
        pthread_cond_broadcast(&event->changed);
    }
    am_unlock(&am_rt.sched.lock);
    if (was_alive)
        am_event_put(event);
    return was_alive;
}

aclError am_event_destroy(void *handle)
{
    struct am_event *event;
    aclError rc = am_event_get(handle, &event);

    if (rc != ACL_SUCCESS)
        return rc;
    if (!event_unlist(event))
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE, "event %p is not alive", handle);
    am_event_put(event);
    return rc;
}

void am_event_kill_all(int32_t device)
{
    struct am_event *event;

    do {
        am_lock(&am_rt.sched.lock);
        event = LIST_FIRST(&events[device].list);
        if (event != NULL)
            am_ref_more(&event->object.refs);
        am_unlock(&am_rt.sched.lock);
        if (event != NULL) {
            event_unlist(event);
            am_event_put(event);
        }
    } while (event != NULL);
}

static void event_drop(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_event_put(et->event);
    free(et);
}

/* Whether the record with this number was queued and has not run. */
static bool is_pending(const struct am_event *event, uint64_t number)
{
    const struct am_event_task *et;

    TAILQ_FOREACH (et, &event->pending, pending) {
        if (et->target == number)
            return true;
    }
    return false;
}

/*
 * Whether the record with this number has run; of one that is still to come, whether it
 * or a later one.
 */
static bool has_run(const struct am_event *event, uint64_t number)
{
    return event->n_completed >= number && !is_pending(event, number);
}

/* A record has run, or never will. */
static void record_end_locked(struct am_event_task *et, uint64_t time_ns)
    AM_REQUIRES(am_rt.sched.lock)
{
    struct am_event *event = et->event;

    TAILQ_REMOVE(&event->pending, et, pending);
    et->is_pending = false;
    if (et->target > event->n_completed)
        event->n_completed = et->target;
    if (et->target > event->time_record) {
        event->time_record = et->target;
        event->time_ns = time_ns;
        event->time_stream = et->stream;
    }
    am_sched_wake_locked(&am_rt.sched, &event->waiting);
    pthread_cond_broadcast(&event->changed);
}

AM_NO_LOCK_ANALYSIS /* the scheduler calls it with its lock, which is ours */
    static void
    record_finish(struct am_task *task, struct am_sched *sched)
{
    record_end_locked((struct am_event_task *)task, sched->setup.now());
}

static void record_drop(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;

    if (et->is_pending) {
        am_lock(&am_rt.sched.lock);
        record_end_locked(et, 0);
        am_unlock(&am_rt.sched.lock);
    }
    event_drop(task);
}

static void reset_finish(struct am_task *task, struct am_sched *sched)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    uint64_t undone = et->target > event->n_waited ? et->target : event->n_waited;

    if (undone > event->n_completed)
        undone = event->n_completed;
    if (event->n_reset < undone)
        event->n_reset = undone;
}

/* A plain event may have been reset since the wait was queued. */
static bool wait_poll(struct am_task *task, struct am_sched *sched,
                      struct am_waitlist **ret_list)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;

    *ret_list = &event->waiting;
    return has_run(event, et->target) &&
           ((event->can & AM_EVENT_EX) || event->n_completed > event->n_reset);
}

/*
 * Which record it was for is known now: one that was still to come may have been the next
 * after a reset.
 */
static void wait_finish(struct am_task *task, struct am_sched *sched)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    uint64_t number = et->target > event->n_reset ? et->target : event->n_reset + 1;

    if (event->n_waited < number)
        event->n_waited = number;
}

/* A wait is over, done or not. */
static void wait_drop(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_lock(&am_rt.sched.lock);
    et->event->n_waits--;
    am_unlock(&am_rt.sched.lock);
    event_drop(task);
}

static const struct am_task_ops record_ops = {.finish = record_finish,
                                              .drop = record_drop};
static const struct am_task_ops reset_ops = {.finish = reset_finish, .drop = event_drop};
static const struct am_task_ops wait_ops = {
    .poll = wait_poll,
    .finish = wait_finish,
    .drop = wait_drop,
    .timeout = ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
};

static aclError event_task_make(const struct am_task_ops *ops, struct am_event *event,
                                struct am_stream *stream, struct am_event_task **ret_task)
{
    struct am_event_task *et = am_sys_malloc(sizeof *et);

    if (et == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a task");
    am_ref_more(&event->object.refs);
    *et = (struct am_event_task){
        .task = {.ops = ops, .function = am_error_function, .deadline = AM_FOREVER},
        .event = event,
        .stream = stream->id,
    };
    *ret_task = et;
    return ACL_SUCCESS;
}

aclError am_event_record(struct am_event *event, struct am_stream *stream)
{
    struct am_event_task *et;
    aclError rc = event_task_make(&record_ops, event, stream, &et);

    if (rc != ACL_SUCCESS)
        return rc;
    am_lock(&am_rt.sched.lock);
    rc = am_sched_submit_locked(&am_rt.sched, &stream->queue, &et->task);
    if (rc == ACL_SUCCESS) {
        et->target = ++event->n_recorded;
        et->is_pending = true;
        TAILQ_INSERT_TAIL(&event->pending, et, pending);
    }
    am_unlock(&am_rt.sched.lock);
    if (rc != ACL_SUCCESS)
        event_drop(&et->task);
    return rc;
}

aclError am_event_reset(struct am_event *event, struct am_stream *stream)
{
    struct am_event_task *et;
    aclError rc;

    AM_REQUIRE(!(event->can & AM_EVENT_EX) && (event->can & AM_EVENT_SYNC),
               ACL_ERROR_RT_PARAM_INVALID,
               "event %u cannot be reset: only those of aclrtCreateEvent and of "
               "aclrtCreateEventWithFlag with ACL_EVENT_SYNC can",
               event->id);
    rc = event_task_make(&reset_ops, event, stream, &et);
    if (rc != ACL_SUCCESS)
        return rc;
    am_lock(&am_rt.sched.lock);
    rc = am_sched_submit_locked(&am_rt.sched, &stream->queue, &et->task);
    if (rc == ACL_SUCCESS)
        et->target = event->n_recorded;
    am_unlock(&am_rt.sched.lock);
    if (rc != ACL_SUCCESS)
        event_drop(&et->task);
    return rc;
}

/* The record that one who waits now waits for; 0: none. */
static uint64_t target_locked(const struct am_event *event)
{
    if ((event->can & AM_EVENT_EX) || event->n_recorded > event->n_reset)
        return event->n_recorded;
    return event->n_recorded + 1; /* a plain event's record is still to come */
}

aclError am_event_wait(struct am_event *event, struct am_stream *stream, uint32_t seconds)
{
    struct am_event_task *et;
    aclError rc;

    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC: no stream can wait for it",
               event->id);
    rc = event_task_make(&wait_ops, event, stream, &et);
    if (rc != ACL_SUCCESS)
        return rc;
    if (seconds == 0)
        seconds = default_wait;
    if (seconds != 0)
        et->task.deadline = seconds * SECOND;
    am_lock(&am_rt.sched.lock);
    rc = am_sched_submit_locked(&am_rt.sched, &stream->queue, &et->task);
    if (rc == ACL_SUCCESS) {
        et->target = target_locked(event);
        event->n_waits++;
    }
    am_unlock(&am_rt.sched.lock);
    if (rc != ACL_SUCCESS)
        event_drop(&et->task);
    return rc;
}

struct event_target {
    struct am_event *event;
    uint64_t target;
};

/* Or it never will be. */
static bool event_is_there(void *what)
{
    const struct event_target *target = what;
    const struct am_event *event = target->event;

    return has_run(event, target->target) ||
           (event->is_dead && TAILQ_EMPTY(&event->pending));
}

aclError am_event_sync(struct am_event *event, int32_t timeout_ms)
{
    uint64_t timeout = timeout_ms < 0 ? AM_FOREVER : (uint64_t)timeout_ms * 1000000;
    struct event_target target = {.event = event};
    bool is_recorded;
    bool is_complete;
    int rc;

    am_lock(&am_rt.sched.lock);
    target.target = target_locked(event);
    rc = am_sched_wait_locked(&am_rt.sched, &event->changed, event_is_there, &target,
                              timeout);
    is_recorded = event->n_recorded >= target.target;
    is_complete = has_run(event, target.target);
    am_unlock(&am_rt.sched.lock);
    AM_REQUIRE(rc == 0, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
               "event %u is not complete after %d ms%s", event->id, timeout_ms,
               is_recorded ? "" : "; nobody has recorded it");
    AM_REQUIRE(is_complete, ACL_ERROR_RT_INVALID_HANDLE,
               "event %u was destroyed and nobody has recorded it", event->id);
    return ACL_SUCCESS;
}

bool am_event_is_complete(struct am_event *event)
{
    bool is_complete;

    am_lock(&am_rt.sched.lock);
    am_sched_nudge_locked(&am_rt.sched);
    is_complete = has_run(event, target_locked(event));
    am_unlock(&am_rt.sched.lock);
    return is_complete;
}

bool am_event_has_waits(struct am_event *event)
{
    bool has_waits;

    am_lock(&am_rt.sched.lock);
    am_sched_nudge_locked(&am_rt.sched);
    has_waits = event->n_waits > 0;
    am_unlock(&am_rt.sched.lock);
    return has_waits;
}

/* The time of the event's last record and the stream that it ran in. */
static aclError time_get(struct am_event *event, uint64_t *ret_ns, int32_t *ret_stream)
{
    bool is_to_come;

    AM_REQUIRE(event->can & AM_EVENT_TIME, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
               "event %u has no timestamp: it was made without ACL_EVENT_TIME_LINE",
               event->id);
    am_lock(&am_rt.sched.lock);
    *ret_ns = event->time_ns;
    *ret_stream = event->time_stream;
    is_to_come = is_pending(event, event->n_recorded);
    am_unlock(&am_rt.sched.lock);
    AM_REQUIRE(!is_to_come && *ret_ns != 0, ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
               "event %u has no timestamp: %s", event->id,
               is_to_come ? "its record has not run yet; synchronise the stream first"
                          : "no record of it has run");
    return ACL_SUCCESS;
}

aclError am_event_time(struct am_event *event, uint64_t *ret_us)
{
    uint64_t time_ns;
    int32_t stream;
    aclError rc = time_get(event, &time_ns, &stream);

    if (rc == ACL_SUCCESS)
        *ret_us = time_ns / 1000;
    return rc;
}

aclError am_event_elapsed(struct am_event *start, struct am_event *end, float *ret_ms)
{
    uint64_t from;
    uint64_t to;
    int32_t from_stream;
    int32_t to_stream;
    aclError rc = time_get(start, &from, &from_stream);

    if (rc == ACL_SUCCESS)
        rc = time_get(end, &to, &to_stream);
    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(to >= from, ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
               "event %u was recorded before event %u", end->id, start->id);
    AM_REQUIRE(
        !am_rt.is_strict || from_stream == to_stream, ACL_ERROR_RT_PARAM_INVALID,
        "event %u was recorded in stream %d and event %u in stream %d; all editions ask "
        "for one stream (ACLMEM_RULES=strict)",
        start->id, from_stream, end->id, to_stream);
    *ret_ms = (float)((double)(to - from) / 1e6);
    return ACL_SUCCESS;
}
