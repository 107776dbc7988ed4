/*
 * Events: the tasks about them, records and resets.  See event.h; waits: event_wait.c and
 * event_sync.c.
 */
#include "core/stream/event_task.h"

#include <errno.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/stream/sched_bypass.h"

struct am_event_task *am_record_find(const struct am_records *records, uint64_t number)
{
    struct am_event_task *et;

    TAILQ_FOREACH (et, records, listed) {
        if (et->target == number)
            return et;
    }
    return NULL;
}

/* Of an event with a page: whether the record is over, and what a wait for it returns. */
static bool shared_is_over(const struct am_event *event, uint64_t number)
{
    aclError code;

    return am_event_page_look(event->page, number, &code) != AM_EVENT_PAGE_TO_COME;
}

static aclError shared_check(const struct am_event *event, uint64_t number)
{
    aclError code;
    enum am_event_page_state state = am_event_page_look(event->page, number, &code);

    AM_REQUIRE(state != AM_EVENT_PAGE_LOST, ACL_ERROR_RT_IPC_ERROR,
               "event %u was not recorded: the process that had queued the record ended "
               "before it ran",
               event->signal.id);
    AM_REQUIRE(state != AM_EVENT_PAGE_FAILED, code,
               "event %u was not recorded, because work before it failed with %d in the "
               "process that had queued the record",
               event->signal.id, (int)code);
    return ACL_SUCCESS;
}

static bool is_pending_locked(const struct am_event *event, uint64_t number)
    AM_REQUIRES(event->lock)
{
    return am_record_find(&event->pending, number) != NULL ||
           am_record_find(&event->launched, number) != NULL;
}

bool am_event_is_over_locked(const struct am_event *event, uint64_t number)
{
    if (event->page != NULL)
        return shared_is_over(event, number);
    return event->n_completed >= number && !is_pending_locked(event, number);
}

bool am_event_is_abandoned(const struct am_event *event)
{
    return event->signal.is_dead && event->page == NULL && TAILQ_EMPTY(&event->pending) &&
           TAILQ_EMPTY(&event->launched);
}

aclError am_record_check_locked(const struct am_event *event, uint64_t number)
{
    const struct am_event_task *lost = am_record_find(&event->lost, number);

    if (lost == NULL)
        return event->page == NULL ? ACL_SUCCESS : shared_check(event, number);
    AM_REQUIRE(lost->cause.function == NULL, lost->cause.rc,
               "event %u was not recorded, because work that %s had queued before on "
               "stream %d failed with %d; synchronising that stream says why",
               event->signal.id, lost->cause.function, lost->stream_id,
               (int)lost->cause.rc);
    return am_fail(lost->cause.rc,
                   "event %u was not recorded, because stream %d was stopped, aborted or "
                   "destroyed before it came to that",
                   event->signal.id, lost->stream_id);
}

void am_event_prune_losses_locked(struct am_event *event)
{
    struct am_event_task *et = TAILQ_FIRST(&event->lost);

    if (event->n_waits > 0 || event->n_listeners > 0)
        return;
    while (et != NULL) {
        struct am_event_task *next = TAILQ_NEXT(et, listed);

        if (et->has_left && et->target < event->n_recorded) {
            TAILQ_REMOVE(&event->lost, et, listed);
            free(et);
        }
        et = next;
    }
}

void am_event_forget_losses(struct am_event *event)
{
    struct am_event_task *et;

    while ((et = TAILQ_FIRST(&event->lost)) != NULL) {
        TAILQ_REMOVE(&event->lost, et, listed);
        free(et);
    }
}

void am_event_task_drop(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_event_put(et->event);
    free(et);
}

aclError am_event_task_make(const struct am_task_ops *ops, struct am_event *event,
                            struct am_stream *stream, struct am_event_task **ret_task)
{
    struct am_event_task *et = am_task_make(ops, sizeof *et);

    if (et == NULL)
        return ACL_ERROR_BAD_ALLOC;
    am_ref_more(&event->signal.named.refs);
    *et = (struct am_event_task){
        .task = et->task, .event = event, .stream = stream, .stream_id = stream->id};
    *ret_task = et;
    return ACL_SUCCESS;
}

uint64_t am_event_target_locked(const struct am_event *event)
{
    if (event->page != NULL)
        return am_event_page_latest(event->page);
    if ((event->can & AM_EVENT_EX) || event->n_recorded > event->n_reset)
        return event->n_recorded;
    return event->n_recorded + 1; /* a plain event's record is still to come */
}

/* ---- records that devices have ---- */

const struct am_event_task *am_launched_find_locked(const struct am_event *event,
                                                    uint64_t number, bool or_later)
{
    const struct am_event_task *et;

    TAILQ_FOREACH (et, &event->launched, listed) {
        if (et->target == number || (or_later && et->target > number))
            return et;
    }
    return NULL;
}

int am_launched_wait(struct am_event *event, uint64_t number, bool or_later,
                     uint64_t until)
{
    const struct am_event_task *et;
    struct am_stream *stream = NULL;
    struct am_mark *mark;
    uint64_t launch;
    int rc;

    am_latch_take(&event->lock);
    et = am_launched_find_locked(event, number, or_later);
    if (et != NULL) {
        stream = et->stream; /* alive as long as the record is listed */
        am_ref_more(&stream->named.refs);
        mark = et->mark;
        stream->lane.ops->mark_ref(mark);
        launch = et->task.number;
    }
    am_latch_give(&event->lock);
    if (stream == NULL)
        return ENOENT;
    rc = am_lane_wait_mark(&stream->lane, launch, mark, until);
    stream->lane.ops->mark_put(mark);
    am_stream_put(stream);
    return rc;
}

uint64_t am_event_latest(struct am_event *event)
{
    uint64_t latest;

    am_latch_take(&event->lock);
    latest = event->n_recorded;
    am_latch_give(&event->lock);
    return latest;
}

bool am_event_is_to_come(struct am_event *event)
{
    uint64_t latest = am_event_latest(event);
    bool is_pending;

    (void)am_launched_wait(event, latest, false, 0);
    am_latch_take(&event->lock);
    is_pending = is_pending_locked(event, latest);
    am_latch_give(&event->lock);
    return is_pending;
}

bool am_event_can_come_locked(struct am_event *event, struct am_sched *sched)
{
    const struct am_event_task *et;
    bool is_launched;

    am_latch_take(&event->lock);
    is_launched = !TAILQ_EMPTY(&event->launched);
    am_latch_give(&event->lock);
    if (is_launched)
        return true;
    TAILQ_FOREACH (et, &event->pending, listed) {
        if (am_queue_can_move_locked(sched, &et->stream->queue))
            return true;
    }
    return false;
}

/* ---- records ---- */

/* The record is over; time 0: it was lost. */
static void record_note_locked(struct am_event *event, uint64_t number, int32_t stream,
                               uint64_t time_ns) AM_REQUIRES(event->lock)
{
    if (number > event->n_completed)
        event->n_completed = number;
    if (number > event->time_record) {
        event->time_record = number;
        event->time_ns = time_ns;
        event->time_stream = stream;
    }
}

/* Streams and threads that wait for the event look again. */
static void waiters_wake_locked(struct am_event *event) AM_REQUIRES(am_sched.lock)
{
    am_sched_wake_locked(&am_sched, &event->signal.waiting);
    pthread_cond_broadcast(&event->changed);
}

/* The list of a record that has not run. */
static struct am_records *record_list(const struct am_event_task *et)
{
    return et->mark != NULL ? &et->event->launched : &et->event->pending;
}

/* The record has run at this time; true when there are listeners. */
static bool record_end(struct am_event_task *et, uint64_t time_ns)
{
    struct am_event *event = et->event;
    bool is_heard;

    if (event->page != NULL)
        am_event_page_recorded(event->page, et->target, ACL_SUCCESS);
    am_latch_take(&event->lock);
    TAILQ_REMOVE(record_list(et), et, listed);
    record_note_locked(event, et->target, et->stream_id, time_ns);
    is_heard = event->n_listeners > 0;
    am_latch_give(&event->lock);
    return is_heard;
}

AM_NO_LOCK_ANALYSIS /* called with the scheduler's lock */
    static aclError
    record_finish(struct am_task *task, struct am_sched *sched)
{
    struct am_event_task *et = (struct am_event_task *)task;

    if (record_end(et, sched->setup.now()))
        waiters_wake_locked(et->event);
    return ACL_SUCCESS;
}

static void waiters_wake(struct am_event *event)
{
    am_lock(&am_sched.lock);
    waiters_wake_locked(event);
    am_unlock(&am_sched.lock);
}

static aclError record_collected(struct am_task *task, const struct am_backend_ops *lanes)
{
    struct am_event_task *et = (struct am_event_task *)task;
    bool is_timed = et->event->can & AM_EVENT_TIME;

    if (record_end(et, is_timed ? lanes->mark_time(et->mark) : am_clock()))
        waiters_wake(et->event);
    return ACL_SUCCESS;
}

/* The record gets its number, and is listed. */
static void record_list_locked(struct am_event *event, struct am_event_task *et,
                               uint64_t number) AM_REQUIRES(event->lock)
{
    et->target = number;
    event->n_recorded = number;
    TAILQ_INSERT_TAIL(record_list(et), et, listed);
    am_event_prune_losses_locked(event);
}

static aclError record_launch(struct am_task *task, const struct am_backend_ops *lanes,
                              struct am_lane *lane)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    bool is_heard;

    if (event->page != NULL) /* other processes see what is finished here */
        return ACL_SUCCESS;
    AM_TRY(lanes->lane_mark(lane, event->can & AM_EVENT_TIME, &et->mark, &task->number));
    am_latch_take(&event->lock);
    record_list_locked(event, et, event->n_recorded + 1);
    is_heard = event->n_listeners > 0;
    am_latch_give(&event->lock);
    if (is_heard) /* a listener that waited for a record to come asks the device from now on */
        waiters_wake(event);
    return ACL_SUCCESS;
}

AM_NO_LOCK_ANALYSIS
static void record_cancel(struct am_task *task, const struct am_queue *queue)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_latch_take(&et->event->lock);
    et->cause = am_queue_cause(queue);
    TAILQ_REMOVE(record_list(et), et, listed);
    TAILQ_INSERT_TAIL(&et->event->lost, et, listed);
    record_note_locked(et->event, et->target, et->stream_id, 0);
    am_latch_give(&et->event->lock);
    if (et->event->page != NULL)
        am_event_page_recorded(et->event->page, et->target, et->cause.rc);
    waiters_wake_locked(et->event);
}

/* A lost record stays with its event as long as a call may ask about it. */
static void record_drop(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;

    if (et->mark != NULL)
        et->stream->lane.ops->mark_put(et->mark);
    if (et->cause.rc == ACL_SUCCESS) {
        am_event_task_drop(task);
        return;
    }
    am_latch_take(&event->lock);
    et->has_left = true;
    am_event_prune_losses_locked(event);
    am_latch_give(&event->lock);
    am_event_put(event);
}

static const struct am_task_ops record_ops = {
    .launch = record_launch,
    .collected = record_collected,
    .finish = record_finish,
    .cancel = record_cancel,
    .drop = record_drop,
};

/* On an idle stream a record is nothing but the time. */
static bool record_at_once(struct am_event *event, struct am_stream *stream)
{
    bool is_heard = false;
    bool is_done;

    am_latch_take(&event->lock);
    is_done = am_bypass_pass(&am_sched, &stream->queue);
    if (is_done) {
        event->n_recorded++;
        am_event_prune_losses_locked(event);
        record_note_locked(event, event->n_recorded, stream->id, am_sched.setup.now());
        is_heard = event->n_listeners > 0;
    }
    am_latch_give(&event->lock);
    if (is_heard)
        waiters_wake(event);
    return is_done;
}

/* In the scheduler; the record gets its number then, which a refused one does not have. */
static aclError record_queue_locked(struct am_event *event, struct am_stream *stream,
                                    struct am_event_task *et)
    AM_REQUIRES(stream->lane.lock, am_sched.lock, event->lock)
{
    int place = -1;
    aclError rc;

    if (event->page != NULL)
        AM_TRY(am_event_page_claim(event->page, &place));
    rc = am_lane_queue_locked(&am_sched, &stream->lane, &et->task);
    if (rc == ACL_SUCCESS)
        record_list_locked(event, et,
                           event->page != NULL ? am_event_page_record(event->page, place)
                                               : event->n_recorded + 1);
    else if (event->page != NULL)
        am_event_page_unclaim(event->page, place);
    return rc;
}

static aclError record_submit_locked(struct am_event *event, struct am_stream *stream)
    AM_REQUIRES(stream->lane.lock)
{
    struct am_event_task *et;
    aclError rc;

    AM_TRY(am_event_task_make(&record_ops, event, stream, &et));
    rc = am_lane_launch_locked(&stream->lane, &et->task);
    if (rc == ACL_SUCCESS && et->task.number == 0) {
        am_lock(&am_sched.lock);
        am_latch_take(&event->lock);
        rc = record_queue_locked(event, stream, et);
        am_latch_give(&event->lock);
        am_unlock(&am_sched.lock);
    }
    if (rc != ACL_SUCCESS)
        am_event_task_drop(&et->task);
    return rc;
}

aclError am_event_record(struct am_event *event, struct am_stream *stream)
{
    aclError rc = ACL_SUCCESS;

    am_lane_enter(&stream->lane);
    if (event->page != NULL || !am_lane_is_empty_locked(&stream->lane) ||
        !record_at_once(event, stream))
        rc = record_submit_locked(event, stream);
    am_lane_leave(&stream->lane);
    return rc;
}

/* ---- resets ---- */

static aclError reset_finish(struct am_task *task, struct am_sched *sched)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    uint64_t undone;

    am_latch_take(&event->lock);
    undone = et->target > event->n_waited ? et->target : event->n_waited;
    if (undone > event->n_completed)
        undone = event->n_completed;
    if (event->n_reset < undone)
        event->n_reset = undone;
    am_latch_give(&event->lock);
    return ACL_SUCCESS;
}

static const struct am_task_ops reset_ops = {.finish = reset_finish,
                                             .drop = am_event_task_drop};

aclError am_event_reset(struct am_event *event, struct am_stream *stream)
{
    struct am_event_task *et;
    aclError rc;

    AM_REQUIRE(!(event->can & AM_EVENT_EX), ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made by aclrtCreateEventExWithFlag, so it cannot be reset: "
               "it is recorded again instead",
               event->signal.id);
    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC, so it cannot be reset "
               "(ACLMEM_RULES=strict)",
               event->signal.id);
    AM_TRY(am_event_task_make(&reset_ops, event, stream, &et));
    am_lane_enter(&stream->lane);
    am_lock(&am_sched.lock);
    am_latch_take(&event->lock);
    rc = am_lane_queue_locked(&am_sched, &stream->lane, &et->task);
    if (rc == ACL_SUCCESS)
        et->target = event->n_recorded;
    am_latch_give(&event->lock);
    am_unlock(&am_sched.lock);
    am_lane_leave(&stream->lane);
    if (rc != ACL_SUCCESS)
        am_event_task_drop(&et->task);
    return rc;
}
