/* Events: threads of the program that wait for them, or ask.  See event.h. */
#include <errno.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/util.h"
#include "core/device/setup.h"
#include "core/stream/call.h"
#include "core/stream/event_task.h"
#include "core/stream/stuck.h"

/* How often the host looks at another process's record, the first time and later. */
#define LOOK_FIRST (AM_SECOND / 50000)
#define LOOK_LAST (AM_SECOND / 1000)

struct event_target {
    struct am_event *event;
    uint64_t target;
};

/* Or it never will be, or a device has it. */
static bool event_is_there(void *what)
{
    const struct event_target *target = what;
    struct am_event *event = target->event;
    bool is_there;

    am_latch_take(&event->lock);
    is_there = am_event_is_over_locked(event, target->target) ||
               am_event_is_abandoned(event) ||
               am_launched_find_locked(event, target->target, false) != NULL;
    am_latch_give(&event->lock);
    return is_there;
}

static aclError sync_check_locked(const struct am_event *event, uint64_t target)
    AM_REQUIRES(am_sched.lock)
{
    const struct am_event_task *record = am_record_find(&event->pending, target);

    AM_REQUIRE(
        record == NULL ||
            !am_call_is_awaited_locked(&record->stream->queue, &record->task),
        ACL_ERROR_RT_PARAM_INVALID,
        "event %u is recorded on stream %d, which waits, itself or by way of other "
        "streams, for the host function or callback that makes this call, so the "
        "call would wait for itself",
        event->signal.id, record->stream_id);
    return ACL_SUCCESS;
}

AM_NO_LOCK_ANALYSIS /* called with the scheduler's lock, as the next one */
    static bool
    sync_can_come(void *what, struct am_sched *sched, const struct am_quiet *quiet)
{
    am_walk_begin_locked(sched);
    return am_event_can_come_locked(((const struct event_target *)what)->event, sched) ||
           am_walk_end_locked(sched, quiet);
}

/* Once for a record, however many calls wait for it. */
AM_NO_LOCK_ANALYSIS
static void sync_warn(void *what, struct am_sched *sched)
{
    const struct event_target *target = what;
    struct am_event *event = target->event;
    const struct am_event_task *record = am_record_find(&event->pending, target->target);
    char why[AM_STUCK_SIZE] = "nothing that is queued records it";

    if (event->warned == target->target)
        return;
    event->warned = target->target;
    if (record != NULL)
        am_stuck_describe_locked(&record->stream->queue, why, sizeof why);
    am_log(AM_LOG_WARN, "%s has waited %d seconds until event %u is recorded%s: %s",
           am_error_function, (int)(AM_PATIENCE / AM_SECOND), event->signal.id,
           record != NULL ? ", as is queued" : "", why);
}

static const struct am_worry sync_worry = {sync_can_come, sync_warn};

/*
 * 0 or ETIMEDOUT.  A record of another process wakes no thread here, so the page is polled,
 * at first often.
 */
static int event_wait_locked(struct event_target *target, uint64_t until)
    AM_REQUIRES(am_sched.lock)
{
    pthread_cond_t *changed = &target->event->changed;
    uint64_t look = LOOK_FIRST;
    int rc;

    if (target->event->page == NULL)
        return am_sched_wait_worried_locked(&am_sched, changed, event_is_there, target,
                                            am_clock_left(until), &sync_worry);
    for (;;) {
        uint64_t left = am_clock_left(until); /* a slice takes longer on a busy machine */
        uint64_t slice = left < look ? left : look;

        rc = am_sched_wait_locked(&am_sched, changed, event_is_there, target, slice);
        if (rc == 0 || slice == left)
            return rc;
        if (look < LOOK_LAST)
            look *= 2;
    }
}

/* The record that a call waits for from now on. */
static uint64_t target_get(struct am_event *event)
{
    uint64_t target;

    am_latch_take(&event->lock);
    target = am_event_target_locked(event);
    am_latch_give(&event->lock);
    return target;
}

/* Whether the record is over and, if it is, the result for a call that waits. */
static aclError record_query(struct am_event *event, uint64_t number, bool *ret_is_over)
{
    aclError rc = ACL_SUCCESS;

    am_latch_take(&event->lock);
    *ret_is_over = am_event_is_over_locked(event, number);
    if (*ret_is_over)
        rc = am_record_check_locked(event, number);
    am_latch_give(&event->lock);
    return rc;
}

/*
 * Whether the event is complete and has no lost records; then the scheduler's lock is not
 * needed.  In chaos mode each call is a chance for a task to run.
 */
static bool is_complete_at_once(struct am_event *event)
{
    bool is_complete;

    if (event->page != NULL || am_sched.setup.is_chaotic)
        return false;
    am_latch_take(&event->lock);
    is_complete = am_event_is_over_locked(event, am_event_target_locked(event)) &&
                  TAILQ_EMPTY(&event->lost);
    am_latch_give(&event->lock);
    return is_complete;
}

/* Until the scheduler has done the record, or it will not come, or a device has it. */
static int queued_sync(struct am_event *event, uint64_t number, uint64_t until,
                       aclError *ret_rc)
{
    struct event_target target = {event, number};
    int rc = 0;

    am_lock(&am_sched.lock);
    *ret_rc = sync_check_locked(event, number);
    if (*ret_rc == ACL_SUCCESS)
        rc = event_wait_locked(&target, until);
    am_unlock(&am_sched.lock);
    return rc;
}

/* Until the record is over or will not come: 0 or ETIMEDOUT; *ret_rc is a refusal. */
static int record_sync(struct am_event *event, uint64_t number, uint64_t until,
                       aclError *ret_rc)
{
    int rc = am_launched_wait(event, number, false, until);

    *ret_rc = ACL_SUCCESS;
    if (rc == ENOENT)
        rc = queued_sync(event, number, until, ret_rc);
    if (rc == 0) /* the record may have come to a device meanwhile */
        rc = am_launched_wait(event, number, false, until);
    return rc == ENOENT ? 0 : rc;
}

static aclError event_sync(struct am_event *event, int32_t timeout_ms)
{
    uint64_t until = am_clock_after_ms(timeout_ms);
    uint64_t number = target_get(event);
    bool is_over = true;
    aclError rc;

    if (record_sync(event, number, until, &rc) != 0)
        return am_fail(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
                       "event %u is not complete after %d ms%s", event->signal.id,
                       timeout_ms,
                       event->page != NULL || am_event_latest(event) >= number
                           ? ""
                           : "; no call has recorded it");
    if (rc == ACL_SUCCESS)
        rc = record_query(event, number, &is_over);
    AM_REQUIRE(is_over, ACL_ERROR_RT_INVALID_HANDLE,
               "event %u was destroyed, and no call has recorded it", event->signal.id);
    return rc;
}

static void listeners_count(struct am_event *event, bool is_over)
{
    am_latch_take(&event->lock);
    if (is_over) {
        event->n_listeners--;
        am_event_prune_losses_locked(event);
    } else {
        event->n_listeners++;
    }
    am_latch_give(&event->lock);
}

aclError am_event_sync(struct am_event *event, int32_t timeout_ms)
{
    aclError rc;

    if (is_complete_at_once(event))
        return ACL_SUCCESS;
    listeners_count(event, false);
    rc = event_sync(event, timeout_ms);
    listeners_count(event, true);
    return rc;
}

/* In chaos mode each question is a chance for a task to run. */
static void nudge(void)
{
    am_lock(&am_sched.lock);
    am_sched_nudge_locked(&am_sched);
    am_unlock(&am_sched.lock);
}

aclError am_event_query(struct am_event *event, bool *ret_is_complete)
{
    bool is_complete;

    if (is_complete_at_once(event)) {
        *ret_is_complete = true;
        return ACL_SUCCESS;
    }
    if (am_launched_wait(event, target_get(event), false, 0) == ENOENT)
        nudge();
    AM_TRY(record_query(event, target_get(event), &is_complete));
    *ret_is_complete = is_complete;
    return ACL_SUCCESS;
}

/* The latest record has run; a reset does not change that. */
static aclError latest_query(struct am_event *event, bool *ret_has_run)
{
    uint64_t latest = am_event_latest(event);
    aclError rc = record_query(event, latest, ret_has_run);

    *ret_has_run = *ret_has_run && latest > 0;
    return rc;
}

aclError am_event_query_waits(struct am_event *event, bool *ret_is_over)
{
    bool is_over = true;

    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC: no stream can wait for it "
               "(ACLMEM_RULES=strict)",
               event->signal.id);
    am_stream_collect_all(); /* the waits may be on any stream */
    nudge();
    if (!am_setup.is_strict)
        AM_TRY(latest_query(event, &is_over));
    am_latch_take(&event->lock);
    *ret_is_over = is_over && event->n_waits == 0;
    am_latch_give(&event->lock);
    return ACL_SUCCESS;
}
