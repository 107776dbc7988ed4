/* Events: streams that wait for them.  See event.h. */
#include <errno.h>
#include <stdio.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/stream/event_task.h"
#include "core/stream/sched_bypass.h"

static _Atomic uint32_t default_wait; /* seconds */

void am_event_set_default_wait(uint32_t seconds)
{
    default_wait = seconds;
}

static bool is_plain(const struct am_event *event)
{
    return !(event->can & AM_EVENT_EX);
}

/* A plain event may have been reset since the wait was queued. */
static bool is_satisfied_locked(const struct am_event *event, uint64_t target)
    AM_REQUIRES(event->lock)
{
    return am_event_is_over_locked(event, target) &&
           (!is_plain(event) || event->n_completed > event->n_reset);
}

AM_NO_LOCK_ANALYSIS
static bool wait_poll(struct am_task *task, struct am_sched *sched,
                      struct am_waitlist **ret_list)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    bool is_over;

    am_latch_take(&event->lock);
    is_over = is_satisfied_locked(event, et->target) || am_event_is_abandoned(event);
    *ret_list = event->page != NULL || am_launched_find_locked(event, et->target,
                                                               is_plain(event)) != NULL
                    ? NULL
                    : &event->signal.waiting;
    am_latch_give(&event->lock);
    return is_over;
}

/* A wait that has no list is for another process's record, or for one that a device has. */
static bool wait_check(struct am_task *task)
{
    const struct am_event_task *et = (const struct am_event_task *)task;

    return am_launched_wait(et->event, et->target, is_plain(et->event), 0) != ENOENT;
}

/*
 * Returns the record that the wait was for.  It is known only now: a wait for a record that
 * was still to come may have been satisfied by the next one after a reset.
 */
static uint64_t wait_end(struct am_event *event, uint64_t target)
{
    bool is_it = !is_plain(event) || target > event->n_reset;
    uint64_t number = is_it ? target : event->n_reset + 1;

    if (event->n_waited < number)
        event->n_waited = number;
    return number;
}

/* The result of a wait for a record that is over. */
static aclError wait_result(struct am_event_task *et, bool must_hold)
{
    struct am_event *event = et->event;
    bool holds;
    aclError rc = ACL_SUCCESS;

    am_latch_take(&event->lock);
    holds = !must_hold || is_satisfied_locked(event, et->target);
    if (holds)
        rc = am_record_check_locked(event, wait_end(event, et->target));
    am_latch_give(&event->lock);
    AM_REQUIRE(holds, ACL_ERROR_RT_INVALID_HANDLE,
               "event %u was destroyed while the stream waited for it, and no record of "
               "it is to come",
               event->signal.id);
    return rc;
}

static aclError wait_finish(struct am_task *task, struct am_sched *sched)
{
    return wait_result((struct am_event_task *)task, true);
}

/* The device has waited; that the record ran may not be known here yet. */
static aclError wait_collected(struct am_task *task, const struct am_backend_ops *lanes)
{
    return wait_result((struct am_event_task *)task, false);
}

/*
 * For a record that the device has, or that has run.  The scheduler does waits for other
 * records, and for lost ones.
 */
static aclError wait_launch(struct am_task *task, const struct am_backend_ops *lanes,
                            struct am_lane *lane)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    const struct am_event_task *record;
    struct am_mark *mark = NULL;
    bool can_launch;
    aclError rc;

    if (event->page != NULL)
        return ACL_SUCCESS;
    am_latch_take(&event->lock);
    can_launch = is_satisfied_locked(event, et->target) && TAILQ_EMPTY(&event->lost);
    record = am_launched_find_locked(event, et->target, false);
    if (record != NULL) {
        mark = record->mark;
        lanes->mark_ref(mark);
        can_launch = true;
    }
    am_latch_give(&event->lock);
    if (!can_launch)
        return ACL_SUCCESS;
    rc = lanes->lane_wait(lane, mark, &task->number);
    if (mark != NULL)
        lanes->mark_put(mark);
    return rc;
}

AM_NO_LOCK_ANALYSIS
static bool wait_can_come(struct am_task *task, struct am_sched *sched)
{
    return am_event_can_come_locked(((struct am_event_task *)task)->event, sched);
}

static void wait_describe(const struct am_task *task, char *text, size_t size)
{
    snprintf(text, size, "event %u is recorded",
             ((const struct am_event_task *)task)->event->signal.id);
}

static const struct am_task *wait_awaits(const struct am_task *task,
                                         struct am_queue **ret_queue)
{
    const struct am_event_task *et = (const struct am_event_task *)task;
    const struct am_event_task *record = am_record_find(&et->event->pending, et->target);

    if (record == NULL)
        return NULL;
    *ret_queue = &record->stream->queue;
    return &record->task;
}

/* A wait is over, done or not. */
static void wait_drop(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_latch_take(&et->event->lock);
    et->event->n_waits--;
    et->event->n_listeners -= et->is_listener;
    am_event_prune_losses_locked(et->event);
    am_latch_give(&et->event->lock);
    am_event_task_drop(task);
}

static const struct am_task_ops wait_ops = {
    .launch = wait_launch,
    .collected = wait_collected,
    .poll = wait_poll,
    .check = wait_check,
    .finish = wait_finish,
    .can_come = wait_can_come,
    .awaits = wait_awaits,
    .describe = wait_describe,
    .drop = wait_drop,
    .timeout = ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
};

/* On an idle stream, for a record that has run, there is nothing to wait for. */
static bool wait_at_once(struct am_event *event, struct am_stream *stream)
{
    uint64_t target;
    bool is_done;

    am_latch_take(&event->lock);
    target = am_event_target_locked(event);
    is_done = is_satisfied_locked(event, target) && TAILQ_EMPTY(&event->lost) &&
              am_bypass_pass(&am_sched, &stream->queue);
    if (is_done)
        wait_end(event, target);
    am_latch_give(&event->lock);
    return is_done;
}

/* In the scheduler: from now on a record wakes the stream. */
static aclError wait_queue_locked(struct am_stream *stream, struct am_event_task *et)
    AM_REQUIRES(stream->lane.lock)
{
    aclError rc;

    am_lock(&am_sched.lock);
    am_latch_take(&et->event->lock);
    et->is_listener = true;
    et->event->n_listeners++;
    am_latch_give(&et->event->lock);
    rc = am_lane_queue_locked(&am_sched, &stream->lane, &et->task);
    am_unlock(&am_sched.lock);
    return rc;
}

static aclError wait_submit_locked(struct am_event *event, struct am_stream *stream,
                                   uint32_t seconds) AM_REQUIRES(stream->lane.lock)
{
    struct am_event_task *et;
    aclError rc;

    AM_TRY(am_event_task_make(&wait_ops, event, stream, &et));
    if (seconds == 0)
        seconds = default_wait;
    if (seconds != 0)
        et->task.deadline = seconds * AM_SECOND;
    am_latch_take(&event->lock);
    et->target = am_event_target_locked(event);
    event->n_waits++;
    am_latch_give(&event->lock);
    rc = am_lane_launch_locked(&stream->lane, &et->task);
    if (rc == ACL_SUCCESS && et->task.number == 0)
        rc = wait_queue_locked(stream, et);
    if (rc != ACL_SUCCESS)
        wait_drop(&et->task);
    return rc;
}

aclError am_event_wait(struct am_event *event, struct am_stream *stream, uint32_t seconds)
{
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC: no stream can wait for it%s",
               event->signal.id,
               event->can & AM_EVENT_EX ? "" : " (ACLMEM_RULES=strict)");
    am_lane_enter(&stream->lane);
    if (event->page != NULL || !am_lane_is_empty_locked(&stream->lane) ||
        !wait_at_once(event, stream))
        rc = wait_submit_locked(event, stream, seconds);
    am_lane_leave(&stream->lane);
    return rc;
}
