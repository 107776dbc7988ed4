/* Events: what streams do with them, and who waits for that.  See event.h. */
#include <stdio.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/setup.h"
#include "core/stream/event.h"
#include "core/stream/call.h"
#include "core/stream/sched.h"
#include "core/stream/sched_bypass.h"
#include "core/stream/stuck.h"

/* How often the host looks at another process's record, the first time and later. */
#define LOOK_FIRST (AM_SECOND / 50000)
#define LOOK_LAST (AM_SECOND / 1000)

static _Atomic uint32_t default_wait; /* seconds */

/*
 * A task about an event.  A record that was dropped becomes its event's, in the list of
 * those lost, and keeps what came of it.
 */
struct am_event_task {
    struct am_task task;
    struct am_event *event; /* holds a reference, unless it is lost */
    uint64_t target;        /* the record that it makes, undoes or waits for */
    struct am_queue *queue; /* that it is in */
    struct am_mark *mark;   /* a record that was launched: where the device is then */
    int32_t stream;
    struct am_cause cause;             /* why it was lost; rc is 0: it was not */
    bool has_left;                     /* lost, and no longer in the scheduler's hands */
    TAILQ_ENTRY(am_event_task) listed; /* a record: pending or lost */
};

void am_event_set_default_wait(uint32_t seconds)
{
    default_wait = seconds;
}

static struct am_event_task *record_find(const struct am_records *records,
                                         uint64_t number)
{
    struct am_event_task *et;

    TAILQ_FOREACH (et, records, listed) {
        if (et->target == number)
            return et;
    }
    return NULL;
}

bool am_event_is_pending_locked(const struct am_event *event, uint64_t number)
{
    return record_find(&event->pending, number) != NULL;
}

/*
 * Whether the record with this number is over; of one that is still to come, whether it
 * or a later one.
 */
static bool is_over_locked(const struct am_event *event, uint64_t number)
    AM_REQUIRES(event->lock)
{
    if (event->cell != NULL)
        return am_event_cell_is_over(event, number);
    return event->n_completed >= number && !am_event_is_pending_locked(event, number);
}

/* Destroyed, so that nothing more can be queued; other processes still can. */
static bool is_abandoned(const struct am_event *event)
{
    return event->is_dead && event->cell == NULL && TAILQ_EMPTY(&event->pending);
}

/* What is told to one who waited for this record. */
static aclError record_check_locked(const struct am_event *event, uint64_t number)
    AM_REQUIRES(event->lock)
{
    const struct am_event_task *lost = record_find(&event->lost, number);

    if (lost == NULL)
        return event->cell == NULL ? ACL_SUCCESS : am_event_cell_check(event, number);
    AM_REQUIRE(lost->cause.function == NULL, lost->cause.rc,
               "event %u was not recorded, because work that %s had queued before on "
               "stream %d failed with %d; synchronising that stream says why",
               event->id, lost->cause.function, lost->stream, (int)lost->cause.rc);
    return am_fail(lost->cause.rc,
                   "event %u was not recorded, because stream %d was stopped, aborted or "
                   "destroyed before it came to that",
                   event->id, lost->stream);
}

/* Nobody asks any more about losses before the latest record, unless somebody waits. */
static void losses_prune_locked(struct am_event *event) AM_REQUIRES(event->lock)
{
    struct am_event_task *et = TAILQ_FIRST(&event->lost);

    if (event->n_waits > 0 || event->n_syncs > 0)
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

static void event_drop(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_event_put(et->event);
    free(et);
}

/* ---- records ---- */

static void mark_forget(struct am_event_task *et)
{
    if (et->mark != NULL)
        et->queue->lanes->mark_put(et->mark);
    et->mark = NULL;
}

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
    am_sched_wake_locked(&am_sched, &event->waiting);
    pthread_cond_broadcast(&event->changed);
}

AM_NO_LOCK_ANALYSIS /* the scheduler calls it with its lock, which is ours */
    static aclError
    record_finish(struct am_task *task, struct am_sched *sched)
{
    struct am_event_task *et = (struct am_event_task *)task;

    uint64_t time_ns = sched->setup.now();

    if (et->mark != NULL && (et->event->can & AM_EVENT_TIME))
        time_ns = et->queue->lanes->mark_time(et->mark);
    mark_forget(et);
    if (et->event->cell != NULL)
        am_cell_recorded(et->event->cell, et->target, ACL_SUCCESS);
    am_latch_take(&et->event->lock);
    TAILQ_REMOVE(&et->event->pending, et, listed);
    record_note_locked(et->event, et->target, et->stream, time_ns);
    am_latch_give(&et->event->lock);
    waiters_wake_locked(et->event);
    return ACL_SUCCESS;
}

static aclError record_launch(struct am_task *task, const struct am_backend_ops *lanes,
                              struct am_lane *lane, uint64_t *ret_number)
{
    struct am_event_task *et = (struct am_event_task *)task;

    if (et->event->cell != NULL) /* other processes see what is finished here */
        return ACL_SUCCESS;
    return lanes->lane_mark(lane, et->event->can & AM_EVENT_TIME, &et->mark, ret_number);
}

AM_NO_LOCK_ANALYSIS
static void record_cancel(struct am_task *task, const struct am_queue *queue)
{
    struct am_event_task *et = (struct am_event_task *)task;

    mark_forget(et);
    am_latch_take(&et->event->lock);
    et->cause = am_queue_cause(queue);
    TAILQ_REMOVE(&et->event->pending, et, listed);
    TAILQ_INSERT_TAIL(&et->event->lost, et, listed);
    record_note_locked(et->event, et->target, et->stream, 0);
    am_latch_give(&et->event->lock);
    if (et->event->cell != NULL)
        am_cell_recorded(et->event->cell, et->target, et->cause.rc);
    waiters_wake_locked(et->event);
}

/* A lost one stays with its event as long as somebody may ask about it. */
static void record_drop(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;

    if (et->cause.rc == ACL_SUCCESS) {
        event_drop(task);
        return;
    }
    am_lock(&am_sched.lock);
    am_latch_take(&event->lock);
    et->has_left = true;
    losses_prune_locked(event);
    am_latch_give(&event->lock);
    am_unlock(&am_sched.lock);
    am_event_put(event);
}

static const struct am_task_ops record_ops = {
    .launch = record_launch,
    .finish = record_finish,
    .cancel = record_cancel,
    .drop = record_drop,
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
        .queue = &stream->queue,
        .stream = stream->id,
    };
    *ret_task = et;
    return ACL_SUCCESS;
}

/* A record that is done as soon as it is queued. */
static void record_pass_locked(struct am_event *event, const struct am_stream *stream)
    AM_REQUIRES(event->lock)
{
    event->n_recorded++;
    if (!TAILQ_EMPTY(&event->lost))
        losses_prune_locked(event);
    record_note_locked(event, event->n_recorded, stream->id, am_sched.setup.now());
}

/*
 * On an idle stream a record is nothing but the time.  The scheduler's lock is for waking
 * others, and where losses may be freed.
 */
static bool record_at_once(struct am_event *event, struct am_stream *stream)
{
    bool is_done;

    am_latch_take(&event->lock);
    is_done = event->n_waits == 0 && event->n_syncs == 0 && TAILQ_EMPTY(&event->lost) &&
              am_bypass_pass(&am_sched, &stream->queue);
    if (is_done)
        record_pass_locked(event, stream);
    am_latch_give(&event->lock);
    if (is_done)
        return true;
    am_lock(&am_sched.lock);
    is_done = am_sched_pass_locked(&am_sched, &stream->queue);
    if (is_done) {
        am_latch_take(&event->lock);
        record_pass_locked(event, stream);
        am_latch_give(&event->lock);
        waiters_wake_locked(event);
    }
    am_unlock(&am_sched.lock);
    return is_done;
}

/* Queues the record and then gives it its number, which a refused one does not have. */
static aclError record_submit_locked(struct am_event *event, struct am_event_task *et)
    AM_REQUIRES(am_sched.lock, event->lock)
{
    int place = -1;
    aclError rc = ACL_SUCCESS;

    if (event->cell != NULL)
        rc = am_cell_claim(event->cell, &place);
    if (rc != ACL_SUCCESS)
        return rc;
    rc = am_sched_submit_locked(&am_sched, et->queue, &et->task);
    if (rc == ACL_SUCCESS)
        et->target = event->cell != NULL ? am_cell_record(event->cell, place)
                                         : event->n_recorded + 1;
    else if (event->cell != NULL)
        am_cell_unclaim(event->cell, place);
    return rc;
}

aclError am_event_record(struct am_event *event, struct am_stream *stream)
{
    struct am_event_task *et;
    aclError rc;

    if (event->cell == NULL && record_at_once(event, stream))
        return ACL_SUCCESS;
    rc = event_task_make(&record_ops, event, stream, &et);
    if (rc != ACL_SUCCESS)
        return rc;
    am_lock(&am_sched.lock);
    am_latch_take(&event->lock);
    rc = record_submit_locked(event, et);
    if (rc == ACL_SUCCESS) {
        event->n_recorded = et->target;
        TAILQ_INSERT_TAIL(&event->pending, et, listed);
        losses_prune_locked(event);
    }
    am_latch_give(&event->lock);
    am_unlock(&am_sched.lock);
    if (rc != ACL_SUCCESS)
        event_drop(&et->task);
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

static const struct am_task_ops reset_ops = {.finish = reset_finish, .drop = event_drop};

aclError am_event_reset(struct am_event *event, struct am_stream *stream)
{
    struct am_event_task *et;
    aclError rc;

    AM_REQUIRE(!(event->can & AM_EVENT_EX), ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made by aclrtCreateEventExWithFlag, so it cannot be reset: "
               "it is recorded again instead",
               event->id);
    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC, so it cannot be reset "
               "(ACLMEM_RULES=strict)",
               event->id);
    rc = event_task_make(&reset_ops, event, stream, &et);
    if (rc != ACL_SUCCESS)
        return rc;
    am_lock(&am_sched.lock);
    am_latch_take(&event->lock);
    rc = am_sched_submit_locked(&am_sched, &stream->queue, &et->task);
    if (rc == ACL_SUCCESS)
        et->target = event->n_recorded;
    am_latch_give(&event->lock);
    am_unlock(&am_sched.lock);
    if (rc != ACL_SUCCESS)
        event_drop(&et->task);
    return rc;
}

/* ---- waits of streams ---- */

/* The record that one who waits now waits for; 0: none. */
static uint64_t target_locked(const struct am_event *event) AM_REQUIRES(event->lock)
{
    if (event->cell != NULL)
        return am_cell_latest(event->cell);
    if ((event->can & AM_EVENT_EX) || event->n_recorded > event->n_reset)
        return event->n_recorded;
    return event->n_recorded + 1; /* a plain event's record is still to come */
}

/* A plain event may have been reset since the wait was queued. */
static bool is_satisfied_locked(const struct am_event *event, uint64_t target)
    AM_REQUIRES(event->lock)
{
    return is_over_locked(event, target) &&
           ((event->can & AM_EVENT_EX) || event->n_completed > event->n_reset);
}

AM_NO_LOCK_ANALYSIS
static bool wait_poll(struct am_task *task, struct am_sched *sched,
                      struct am_waitlist **ret_list)
{
    struct am_event_task *et = (struct am_event_task *)task;
    bool is_over;

    *ret_list = et->event->cell != NULL ? NULL : &et->event->waiting;
    am_latch_take(&et->event->lock);
    is_over = is_satisfied_locked(et->event, et->target) || is_abandoned(et->event);
    am_latch_give(&et->event->lock);
    return is_over;
}

/*
 * Which record it was for is known now: one that was still to come may have been the next
 * after a reset.
 */
static uint64_t wait_end(struct am_event *event, uint64_t target)
{
    bool is_it = (event->can & AM_EVENT_EX) || target > event->n_reset;
    uint64_t number = is_it ? target : event->n_reset + 1;

    if (event->n_waited < number)
        event->n_waited = number;
    return number;
}

static aclError wait_finish_locked(const struct am_task *task, struct am_event *event,
                                   uint64_t target) AM_REQUIRES(event->lock)
{
    AM_REQUIRE(task->is_launched || is_satisfied_locked(event, target),
               ACL_ERROR_RT_INVALID_HANDLE,
               "event %u was destroyed while the stream waited for it, and no record of "
               "it is to come",
               event->id);
    return record_check_locked(event, wait_end(event, target));
}

static aclError wait_finish(struct am_task *task, struct am_sched *sched)
{
    struct am_event_task *et = (struct am_event_task *)task;
    aclError rc;

    am_latch_take(&et->event->lock);
    rc = wait_finish_locked(task, et->event, et->target);
    am_latch_give(&et->event->lock);
    return rc;
}

/*
 * For a record that the device has, or that has run.  Waits for others are done here, and
 * so are those for records that were lost.
 */
static aclError wait_launch(struct am_task *task, const struct am_backend_ops *lanes,
                            struct am_lane *lane, uint64_t *ret_number)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    const struct am_event_task *record;
    bool is_satisfied;

    if (event->cell != NULL)
        return ACL_SUCCESS;
    am_latch_take(&event->lock);
    record = record_find(&event->pending, et->target);
    is_satisfied = is_satisfied_locked(event, et->target) && TAILQ_EMPTY(&event->lost);
    am_latch_give(&event->lock);
    /* The scheduler's lock keeps the record where it is. */
    if (record != NULL && record->mark != NULL)
        return lanes->lane_wait(lane, record->mark, ret_number);
    return is_satisfied ? lanes->lane_wait(lane, NULL, ret_number) : ACL_SUCCESS;
}

AM_NO_LOCK_ANALYSIS
static bool wait_can_come(struct am_task *task, struct am_sched *sched)
{
    const struct am_event_task *et;

    TAILQ_FOREACH (et, &((struct am_event_task *)task)->event->pending, listed) {
        if (am_queue_can_move_locked(sched, et->queue))
            return true;
    }
    return false;
}

static void wait_tell(const struct am_task *task, char *text, size_t size)
{
    snprintf(text, size, "event %u is recorded",
             ((const struct am_event_task *)task)->event->id);
}

static const struct am_task *wait_awaits(const struct am_task *task,
                                         struct am_queue **ret_queue)
{
    const struct am_event_task *et = (const struct am_event_task *)task;
    const struct am_event_task *record = record_find(&et->event->pending, et->target);

    if (record == NULL)
        return NULL;
    *ret_queue = record->queue;
    return &record->task;
}

/* A wait is over, done or not. */
static void wait_drop(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_lock(&am_sched.lock);
    am_latch_take(&et->event->lock);
    et->event->n_waits--;
    losses_prune_locked(et->event);
    am_latch_give(&et->event->lock);
    am_unlock(&am_sched.lock);
    event_drop(task);
}

static const struct am_task_ops wait_ops = {
    .launch = wait_launch,
    .poll = wait_poll,
    .finish = wait_finish,
    .can_come = wait_can_come,
    .awaits = wait_awaits,
    .tell = wait_tell,
    .drop = wait_drop,
    .timeout = ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
};

/* A wait for a record that has run, if the stream is idle, which `pass` tells. */
static bool wait_pass(struct am_event *event, struct am_queue *queue,
                      bool (*pass)(struct am_sched *sched, struct am_queue *queue))
{
    uint64_t target;
    bool is_done;

    am_latch_take(&event->lock);
    target = target_locked(event);
    is_done = is_satisfied_locked(event, target) && TAILQ_EMPTY(&event->lost) &&
              pass(&am_sched, queue);
    if (is_done)
        wait_end(event, target);
    am_latch_give(&event->lock);
    return is_done;
}

/* On an idle stream, for a record that has run, there is nothing to wait for. */
static bool wait_at_once(struct am_event *event, struct am_stream *stream)
{
    bool is_done = wait_pass(event, &stream->queue, am_bypass_pass);

    if (is_done)
        return true;
    am_lock(&am_sched.lock);
    is_done = wait_pass(event, &stream->queue, am_sched_pass_locked);
    am_unlock(&am_sched.lock);
    return is_done;
}

aclError am_event_wait(struct am_event *event, struct am_stream *stream, uint32_t seconds)
{
    struct am_event_task *et;
    aclError rc;

    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC: no stream can wait for it%s",
               event->id, event->can & AM_EVENT_EX ? "" : " (ACLMEM_RULES=strict)");
    if (event->cell == NULL && wait_at_once(event, stream))
        return ACL_SUCCESS;
    rc = event_task_make(&wait_ops, event, stream, &et);
    if (rc != ACL_SUCCESS)
        return rc;
    if (seconds == 0)
        seconds = default_wait;
    if (seconds != 0)
        et->task.deadline = seconds * AM_SECOND;
    am_lock(&am_sched.lock);
    am_latch_take(&event->lock);
    et->target = target_locked(event);
    event->n_waits++; /* before it is queued: from now on a record wakes its stream */
    am_latch_give(&event->lock);
    rc = am_sched_submit_locked(&am_sched, &stream->queue, &et->task);
    if (rc != ACL_SUCCESS) {
        am_latch_take(&event->lock);
        event->n_waits--;
        am_latch_give(&event->lock);
    }
    am_unlock(&am_sched.lock);
    if (rc != ACL_SUCCESS)
        event_drop(&et->task);
    return rc;
}

/* ---- the host ---- */

struct event_target {
    struct am_event *event;
    uint64_t target;
};

/* Or it never will be. */
static bool event_is_there(void *what)
{
    const struct event_target *target = what;
    bool is_there;

    am_latch_take(&target->event->lock);
    is_there =
        is_over_locked(target->event, target->target) || is_abandoned(target->event);
    am_latch_give(&target->event->lock);
    return is_there;
}

static aclError sync_check_locked(const struct am_event *event, uint64_t target)
    AM_REQUIRES(am_sched.lock)
{
    const struct am_event_task *record = record_find(&event->pending, target);

    AM_REQUIRE(record == NULL || !am_call_is_awaited_locked(record->queue, &record->task),
               ACL_ERROR_RT_PARAM_INVALID,
               "event %u is recorded on stream %d, which waits, itself or by way of "
               "others, for the host function or callback that makes this call, so the "
               "call would wait for itself",
               event->id, record->stream);
    return ACL_SUCCESS;
}

AM_NO_LOCK_ANALYSIS /* called with the scheduler's lock, which is ours, as the next one */
    static bool
    sync_can_come(void *what, struct am_sched *sched, const struct am_quiet *quiet)
{
    const struct am_event_task *et;

    am_walk_begin_locked(sched);
    TAILQ_FOREACH (et, &((const struct event_target *)what)->event->pending, listed) {
        if (am_queue_can_move_locked(sched, et->queue))
            return true;
    }
    return am_walk_end_locked(sched, quiet);
}

/* Once for a record, however many calls wait for it. */
AM_NO_LOCK_ANALYSIS
static void sync_warn(void *what, struct am_sched *sched)
{
    const struct event_target *target = what;
    struct am_event *event = target->event;
    const struct am_event_task *record = record_find(&event->pending, target->target);
    char why[AM_STUCK_SIZE] = "nothing that is queued records it";

    if (event->warned == target->target)
        return;
    event->warned = target->target;
    if (record != NULL)
        am_stuck_tell_locked(record->queue, why, sizeof why);
    am_log(AM_LOG_WARN, "%s has waited %d seconds until event %u is recorded%s: %s",
           am_error_function, (int)(AM_PATIENCE / AM_SECOND), event->id,
           record != NULL ? ", as is queued" : "", why);
}

static const struct am_worry sync_worry = {sync_can_come, sync_warn};

/*
 * 0 or ETIMEDOUT.  Nobody calls us when another process's record has run: we look, at
 * first often.
 */
static int event_wait_locked(struct event_target *target, uint64_t timeout)
    AM_REQUIRES(am_sched.lock)
{
    pthread_cond_t *changed = &target->event->changed;
    uint64_t look = LOOK_FIRST;
    int rc;

    if (target->event->cell == NULL)
        return am_sched_wait_worried_locked(&am_sched, changed, event_is_there, target,
                                            timeout, &sync_worry);
    for (;;) {
        uint64_t slice = timeout < look ? timeout : look;

        rc = am_sched_wait_locked(&am_sched, changed, event_is_there, target, slice);
        if (rc == 0 || slice == timeout)
            return rc;
        if (timeout != AM_FOREVER)
            timeout -= slice;
        if (look < LOOK_LAST)
            look *= 2;
    }
}

/* The record that a call waits for from now on. */
static uint64_t target_get(struct am_event *event)
{
    uint64_t target;

    am_latch_take(&event->lock);
    target = target_locked(event);
    am_latch_give(&event->lock);
    return target;
}

/* Whether the record is over and, if it is, what the call is told of it. */
static aclError record_query(struct am_event *event, uint64_t number, bool *ret_is_over)
{
    aclError rc = ACL_SUCCESS;

    am_latch_take(&event->lock);
    *ret_is_over = is_over_locked(event, number);
    if (*ret_is_over)
        rc = record_check_locked(event, number);
    am_latch_give(&event->lock);
    return rc;
}

/*
 * Whether the event is complete and there is nothing more to be told; then no lock of all
 * streams is needed.  In chaos mode each call is a chance for a task to run.
 */
static bool is_complete_at_once(struct am_event *event)
{
    bool is_complete;

    if (event->cell != NULL || am_sched.setup.is_chaotic)
        return false;
    am_latch_take(&event->lock);
    is_complete =
        is_over_locked(event, target_locked(event)) && TAILQ_EMPTY(&event->lost);
    am_latch_give(&event->lock);
    return is_complete;
}

static aclError sync_locked(struct am_event *event, int32_t timeout_ms)
    AM_REQUIRES(am_sched.lock)
{
    uint64_t timeout =
        timeout_ms < 0 ? AM_FOREVER : (uint64_t)timeout_ms * AM_MILLISECOND;
    struct event_target target = {event, target_get(event)};
    bool is_over;
    aclError rc = sync_check_locked(event, target.target);

    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(event_wait_locked(&target, timeout) == 0, ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
               "event %u is not complete after %d ms%s", event->id, timeout_ms,
               event->cell != NULL || event->n_recorded >= target.target
                   ? ""
                   : "; nobody has recorded it");
    rc = record_query(event, target.target, &is_over);
    AM_REQUIRE(is_over, ACL_ERROR_RT_INVALID_HANDLE,
               "event %u was destroyed and nobody has recorded it", event->id);
    return rc;
}

static void syncs_count(struct am_event *event, bool is_over)
{
    am_latch_take(&event->lock);
    if (is_over) {
        event->n_syncs--;
        losses_prune_locked(event);
    } else {
        event->n_syncs++;
    }
    am_latch_give(&event->lock);
}

aclError am_event_sync(struct am_event *event, int32_t timeout_ms)
{
    aclError rc;

    if (is_complete_at_once(event))
        return ACL_SUCCESS;
    am_lock(&am_sched.lock);
    syncs_count(event, false);
    rc = sync_locked(event, timeout_ms);
    syncs_count(event, true);
    am_unlock(&am_sched.lock);
    return rc;
}

aclError am_event_query(struct am_event *event, bool *ret_is_complete)
{
    bool is_complete;
    aclError rc;

    if (is_complete_at_once(event)) {
        *ret_is_complete = true;
        return ACL_SUCCESS;
    }
    am_lock(&am_sched.lock);
    am_sched_nudge_locked(&am_sched);
    rc = record_query(event, target_get(event), &is_complete);
    am_unlock(&am_sched.lock);
    if (rc == ACL_SUCCESS)
        *ret_is_complete = is_complete;
    return rc;
}

/* The latest record has run; a reset does not change that. */
static aclError latest_query(struct am_event *event, bool *ret_has_run)
{
    uint64_t latest;
    aclError rc;

    am_latch_take(&event->lock);
    latest = event->n_recorded;
    am_latch_give(&event->lock);
    rc = record_query(event, latest, ret_has_run);
    *ret_has_run = *ret_has_run && latest > 0;
    return rc;
}

aclError am_event_query_waits(struct am_event *event, bool *ret_is_over)
{
    bool is_over = true;
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC: no stream can wait for it "
               "(ACLMEM_RULES=strict)",
               event->id);
    am_lock(&am_sched.lock);
    am_sched_nudge_locked(&am_sched);
    if (!am_setup.is_strict)
        rc = latest_query(event, &is_over);
    if (rc == ACL_SUCCESS)
        *ret_is_over = is_over && event->n_waits == 0;
    am_unlock(&am_sched.lock);
    return rc;
}
