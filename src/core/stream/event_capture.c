/*
 * Events in captures.  See event.h and capture.h.
 *
 * A record in a capture is a node without effect; the event remembers its place.  A wait for the
 * event makes the stream join the capture, and holds that place.  Then the nodes do not need the
 * event: the program may destroy it.
 *
 * External records, waits and resets, and all of notifies, are about the event itself, and run in
 * each execution.  An external record gets its number when the execution is submitted, so that
 * work submitted after the execution waits for it.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/stream/capture.h"
#include "core/stream/event.h"

static struct am_place place_get(struct am_event *event)
{
    return AM_LOCKED(&event->lock, event->place);
}

aclError am_event_check_captured(struct am_event *event)
{
    return am_capture_check(place_get(event).capture, ACL_ERROR_RT_EVENT_CAPTURED,
                            "the event's record is in the model and has not run; "
                            "synchronise after aclmdlRIExecuteAsync");
}

/* The members for records, waits and resets lie at the same place. */
static void params_set(const struct am_task *task, aclmdlRITaskParams *params,
                       uint32_t flag)
{
    const struct am_event *event = ((const struct am_event_task *)task)->event;
    unsigned can = event->can;

    params->of.eventRecord.event = event->handle;
    params->of.eventRecord.eventFlag = (can & AM_EVENT_SYNC ? ACL_EVENT_SYNC : 0) |
                                       (can & AM_EVENT_TIME ? ACL_EVENT_TIME_LINE : 0) |
                                       (can & AM_EVENT_EXTERNAL ? ACL_EVENT_EXTERNAL : 0);
    params->of.eventRecord.recordFlag = flag;
}

/* A task for a node. */
static aclError node_make(const struct am_task_ops *ops, struct am_event *event,
                          uint32_t seconds, struct am_event_task **ret_task)
{
    struct am_event_task *et;

    AM_TRY(am_event_task_make(ops, event, NULL, &et));
    et->task.is_captured = true;
    et->task.is_short = ops->poll == NULL;
    if (seconds != 0)
        et->task.deadline = seconds * AM_SECOND;
    *ret_task = et;
    return ACL_SUCCESS;
}

static aclError node_submit(const struct am_task_ops *ops, struct am_event *event,
                            struct am_stream *stream, uint32_t seconds)
{
    struct am_event_task *et;

    AM_TRY(node_make(ops, event, seconds, &et));
    return am_stream_submit(stream, &et->task);
}

/* ---- edges ---- */

static void place_set(struct am_task *task, const struct am_place *place)
{
    struct am_event *event = ((struct am_event_task *)task)->event;

    am_lock(&event->lock);
    event->place = *place;
    am_unlock(&event->lock);
}

static void place_reset(struct am_task *task, const struct am_place *place)
{
    place_set(task, &(struct am_place){0});
}

static void edge_params(const struct am_task *task, aclmdlRITaskParams *params)
{
    params_set(task, params, ACL_EVENT_RECORD_DEFAULT);
}

static const struct am_task_ops edge_record = {
    .params = edge_params,
    .recorded = place_set,
    .free = am_event_task_free,
    .type = ACL_MODEL_RI_TASK_EVENT_RECORD,
};
static const struct am_task_ops edge_reset = {
    .params = edge_params,
    .recorded = place_reset,
    .free = am_event_task_free,
    .type = ACL_MODEL_RI_TASK_EVENT_RESET,
};
static const struct am_task_ops edge_wait = {
    .params = edge_params,
    .free = am_event_task_free,
    .type = ACL_MODEL_RI_TASK_EVENT_WAIT,
};

/* ---- external records, waits and resets ---- */

static void external_recorded(struct am_task *task, const struct am_place *place)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_lock(&et->event->lock);
    et->event->external = *place;
    et->event->is_external_wait = task->ops->poll != NULL;
    am_unlock(&et->event->lock);
}

/* The record of one execution. */
static aclError record_announce(struct am_task *task, struct am_task **ret_task)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event_task *record;

    AM_TRY(am_event_task_make(&am_event_record_ops, et->event, NULL, &record));
    *ret_task = &record->task;
    return ACL_SUCCESS;
}

/* An extended event is waited for until it has a record that no earlier execution waited for. */
static void wait_rearm(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;

    et->is_taken = false;
    am_event_wait_count(et, true);
    am_lock(&event->lock);
    if (!(event->can & AM_EVENT_EX))
        et->target = am_event_target_locked(event);
    else if (et->target < event->n_recorded)
        et->target = event->n_recorded;
    else
        et->target++;
    am_unlock(&event->lock);
}

static aclError wait_run(struct am_task *task)
{
    aclError rc = am_event_wait_run(task);

    am_event_wait_count((struct am_event_task *)task, false);
    return rc;
}

static void reset_rearm(struct am_task *task)
{
    (void)am_event_reset_enter(task);
}

static void external_params(const struct am_task *task, aclmdlRITaskParams *params)
{
    params_set(task, params, ACL_EVENT_RECORD_EXTERNAL);
}

static const struct am_task_ops external_record = {
    .params = external_params,
    .announce = record_announce,
    .recorded = external_recorded,
    .free = am_event_task_free,
    .type = ACL_MODEL_RI_TASK_EVENT_RECORD,
};
static const struct am_task_ops external_wait = {
    .params = external_params,
    .poll = am_event_wait_poll,
    .run = wait_run,
    .rearm = wait_rearm,
    .recorded = external_recorded,
    .free = am_event_wait_free,
    .sources = am_event_wait_sources,
    .describe = am_event_wait_describe,
    .timeout = ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
    .type = ACL_MODEL_RI_TASK_EVENT_WAIT,
};
static const struct am_task_ops external_reset = {
    .params = external_params,
    .run = am_event_reset_run,
    .rearm = reset_rearm,
    .free = am_event_task_free,
    .type = ACL_MODEL_RI_TASK_EVENT_RESET,
};

static aclError external_check(struct am_event *event, struct am_stream *stream,
                               bool is_wait)
{
    uint64_t capture = am_capture_number(stream);
    bool is_mixed = AM_LOCKED(&event->lock, event->external.capture == capture &&
                                                event->is_external_wait != is_wait);

    if (event->can & (AM_EVENT_NOTIFY | AM_EVENT_EXTERNAL))
        return ACL_SUCCESS;
    AM_REQUIRE((event->can & AM_EVENT_EX) && (event->can & AM_EVENT_SYNC),
               ACL_ERROR_RT_PARAM_INVALID,
               "event %u is used with the flag EXTERNAL; create it with "
               "aclrtCreateEventExWithFlag and ACL_EVENT_SYNC",
               event->id);
    AM_REQUIRE(!is_mixed, ACL_ERROR_RT_PARAM_INVALID,
               "event %u is recorded and waited for with the flag EXTERNAL in one "
               "capture; use two events",
               event->id);
    AM_REQUIRE(
        is_wait || !event->was_recorded, ACL_ERROR_RT_PARAM_INVALID,
        "event %u was recorded by aclrtRecordEvent before, so it cannot be recorded "
        "with the flag EXTERNAL; create another event",
        event->id);
    return ACL_SUCCESS;
}

static bool is_external_event(const struct am_event *event)
{
    return event->can & (AM_EVENT_EXTERNAL | AM_EVENT_NOTIFY);
}

static aclError shared_check(const struct am_event *event, struct am_stream *stream)
{
    if (event->page == NULL || (event->can & AM_EVENT_NOTIFY))
        return ACL_SUCCESS;
    return am_stream_refuse(stream, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
                            "events that other processes may open cannot be captured");
}

/* ---- calls ---- */

aclError am_event_capture_record(struct am_event *event, struct am_stream *stream,
                                 bool is_external)
{
    AM_TRY(shared_check(event, stream));
    if (!is_external && !is_external_event(event))
        return node_submit(&edge_record, event, stream, 0);
    AM_TRY(external_check(event, stream, false));
    return node_submit(&external_record, event, stream, 0);
}

aclError am_event_capture_reset(struct am_event *event, struct am_stream *stream)
{
    if (place_get(event).capture == am_capture_number(stream))
        return node_submit(&edge_reset, event, stream, 0);
    return node_submit(&external_reset, event, stream, 0);
}

/* A wait for a captured record; *ret_is_over: that capture is over. */
static aclError joining_wait(struct am_event *event, struct am_stream *stream,
                             const struct am_place *place, bool *ret_is_over)
{
    struct am_event_task *et;
    aclError rc;

    AM_TRY(node_make(&edge_wait, event, 0, &et));
    rc = am_capture_wait(stream, &et->task, place, ret_is_over);
    if (rc != ACL_SUCCESS || *ret_is_over)
        am_event_task_free(&et->task);
    return rc;
}

aclError am_event_capture_wait(struct am_event *event, struct am_stream *stream,
                               uint32_t seconds, bool is_external, bool *ret_is_over)
{
    struct am_place place = place_get(event);

    *ret_is_over = true;
    is_external = is_external || is_external_event(event);
    if (place.capture != 0 && !is_external) {
        AM_TRY(joining_wait(event, stream, &place, ret_is_over));
        if (!*ret_is_over)
            return ACL_SUCCESS;
    }
    if (!am_stream_is_captured(stream))
        return ACL_SUCCESS;
    *ret_is_over = false;
    AM_TRY(shared_check(event, stream));
    if (!is_external)
        return am_stream_refuse(
            stream, ACL_ERROR_RT_CAPTURE_DEPENDENCY,
            "in a capture a stream waits for events that were recorded "
            "in the same capture; to wait for other work use "
            "aclrtStreamWaitEventWithFlag with EXTERNAL");
    AM_TRY(external_check(event, stream, true));
    return node_submit(&external_wait, event, stream, seconds);
}
