/* Events: the tasks of streams, records, resets and waits.  See event.h. */
#include <stdio.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/stream/event.h"

static _Atomic uint32_t default_wait; /* seconds */

void am_event_set_default_wait(uint32_t seconds)
{
    default_wait = seconds;
}

static bool is_notify(const struct am_event *event)
{
    return event->can & AM_EVENT_NOTIFY;
}

static bool is_plain(const struct am_event *event)
{
    return !(event->can & (AM_EVENT_EX | AM_EVENT_NOTIFY));
}

/* ---- what is known of records ---- */

struct am_event_task *am_event_record_find_locked(const struct am_event *event,
                                                  uint64_t number)
{
    struct am_event_task *et;

    TAILQ_FOREACH (et, &event->records, listed) {
        if (et->target == number)
            return et;
    }
    return NULL;
}

bool am_event_is_over_locked(const struct am_event *event, uint64_t number)
{
    aclError code;

    if (event->page != NULL)
        return am_event_page_query(event->page, number, &code) != AM_EVENT_PAGE_TO_COME;
    return event->n_completed >= number &&
           am_event_record_find_locked(event, number) == NULL;
}

/* A plain event may have been reset since the wait was queued. */
static bool is_satisfied_locked(const struct am_event *event, uint64_t target)
    AM_REQUIRES(event->lock)
{
    return am_event_is_over_locked(event, target) &&
           (!is_plain(event) || event->n_completed > event->n_reset);
}

/* Other processes may still record an event that has a page. */
bool am_event_is_abandoned_locked(const struct am_event *event)
{
    return event->is_dead && (event->page == NULL || is_notify(event)) &&
           TAILQ_EMPTY(&event->records);
}

static aclError shared_check(const struct am_event *event, uint64_t number)
{
    aclError code;
    enum am_event_page_state state = am_event_page_query(event->page, number, &code);

    AM_REQUIRE(state != AM_EVENT_PAGE_LOST, ACL_ERROR_RT_IPC_ERROR,
               "event %u was not recorded: the process that had queued the record ended "
               "before it ran",
               event->id);
    AM_REQUIRE(state != AM_EVENT_PAGE_FAILED, code,
               "event %u was not recorded, because work before it failed with %d in the "
               "process that had queued the record",
               event->id, (int)code);
    return ACL_SUCCESS;
}

aclError am_event_check_locked(const struct am_event *event, uint64_t number)
{
    const struct am_event_task *lost;

    TAILQ_FOREACH (lost, &event->lost, listed) {
        if (lost->target == number)
            break;
    }
    if (lost == NULL)
        return event->page == NULL ? ACL_SUCCESS : shared_check(event, number);
    AM_REQUIRE(lost->cause.function == NULL, lost->cause.rc,
               "event %u was not recorded, because work that %s had queued before on "
               "stream %d failed with %d; synchronising that stream says why",
               event->id, lost->cause.function, lost->stream_id, (int)lost->cause.rc);
    return am_fail(lost->cause.rc,
                   "event %u was not recorded, because stream %d was stopped, aborted or "
                   "destroyed before it came to that",
                   event->id, lost->stream_id);
}

void am_event_prune_locked(struct am_event *event)
{
    struct am_event_task *et = TAILQ_FIRST(&event->lost);

    if (event->n_waits > 0 || event->n_host_waits > 0)
        return;
    while (et != NULL) {
        struct am_event_task *next = TAILQ_NEXT(et, listed);

        if (et->is_freed && et->target < event->n_recorded) {
            TAILQ_REMOVE(&event->lost, et, listed);
            free(et);
        }
        et = next;
    }
}

uint64_t am_event_target_locked(const struct am_event *event)
{
    if (event->page != NULL)
        return am_event_page_latest(event->page);
    if ((event->can & AM_EVENT_EX) || event->n_recorded > event->n_reset)
        return event->n_recorded;
    return event->n_recorded + 1; /* a plain event's next record */
}

/* A record that can end a wait for `target`: exactly it, or for plain events a later one. */
static bool is_source(const struct am_event *event, const struct am_event_task *record,
                      uint64_t target)
{
    return is_notify(event) || record->target == target ||
           (is_plain(event) && record->target > target);
}

unsigned am_event_sources_locked(const struct am_event *event, uint64_t target,
                                 struct am_source *list, bool *ret_is_only)
{
    const struct am_event_task *et;
    unsigned n = 0;

    TAILQ_FOREACH (et, &event->records, listed) {
        if (n < AM_SOURCES_MAX && is_source(event, et, target))
            list[n++] = (struct am_source){et->task.queue, et->task.position};
    }
    *ret_is_only = n == 1 && !is_notify(event);
    return n;
}

static const struct am_event_task *launched_find_locked(const struct am_event *event,
                                                        uint64_t number)
    AM_REQUIRES(event->lock)
{
    const struct am_event_task *et;

    TAILQ_FOREACH (et, &event->records, listed) {
        if (et->mark != NULL && is_source(event, et, number))
            return et;
    }
    return NULL;
}

bool am_event_poll_device(struct am_event *event, uint64_t number, bool may_block)
{
    const struct am_event_task *et;
    struct am_stream *stream = NULL;
    struct am_mark *mark = NULL;

    am_lock(&event->lock);
    et = launched_find_locked(event, number);
    if (et != NULL) {
        stream = et->stream; /* exists as long as the record is listed */
        am_ref_more(&stream->named.refs);
        mark = et->mark;
        stream->queue.device->mark_ref(mark);
    }
    am_unlock(&event->lock);
    if (stream == NULL)
        return false;
    if (may_block) {
        struct am_capture before = am_error_hush(); /* lane_poll() reports failures */
        unsigned depth = am_epoch_suspend();

        stream->queue.device->mark_sync(mark);
        am_epoch_resume(depth);
        am_error_capture_end(before);
    }
    (void)am_queue_poll(&stream->queue, false);
    stream->queue.device->mark_put(mark);
    am_stream_put(stream);
    return true;
}

/* ---- tasks ---- */

aclError am_event_task_make(const struct am_task_ops *ops, struct am_event *event,
                            struct am_stream *stream, struct am_event_task **ret_task)
{
    struct am_event_task *et = am_task_make(ops, sizeof *et);

    if (et == NULL)
        return ACL_ERROR_BAD_ALLOC;
    am_ref_more(&event->named.refs);
    *et = (struct am_event_task){
        .event = event, .stream = stream, .stream_id = stream != NULL ? stream->id : -1};
    am_task_init(&et->task, ops);
    et->task.is_short = true;
    *ret_task = et;
    return ACL_SUCCESS;
}

void am_event_task_free(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_event_put(et->event);
    free(et);
}

/* ---- records ---- */

/* Streams and threads that wait for the event check it again. */
static void event_wake(struct am_event *event)
{
    am_waitlist_wake(&event->waiting);
    am_lock(&event->lock);
    if (event->n_host_waits > 0)
        pthread_cond_broadcast(&event->changed);
    am_unlock(&event->lock);
}

/* The record is over; time 0: it was lost. */
static void record_note_locked(struct am_event *event, struct am_event_task *et,
                               uint64_t time_ns) AM_REQUIRES(event->lock)
{
    TAILQ_REMOVE(&event->records, et, listed);
    if (is_notify(event))
        return;
    if (et->target > event->n_completed)
        event->n_completed = et->target;
    if (et->target > event->time_record) {
        event->time_record = et->target;
        event->time_ns = time_ns;
        event->time_stream = et->stream_id;
    }
}

/* The record has run at this time. */
static void record_end(struct am_event_task *et, uint64_t time_ns)
{
    struct am_event *event = et->event;

    if (event->page != NULL && !is_notify(event))
        am_event_page_recorded(event->page, et->target, ACL_SUCCESS);
    am_lock(&event->lock);
    record_note_locked(event, et, time_ns);
    if (is_notify(event) && event->page != NULL)
        am_event_page_set(event->page, true);
    else if (is_notify(event))
        event->n_completed = event->n_reset + 1;
    am_unlock(&event->lock);
    event_wake(event);
}

static aclError record_run(struct am_task *task)
{
    record_end((struct am_event_task *)task, task->queue->sched->setup.now());
    return ACL_SUCCESS;
}

static aclError record_completed(struct am_task *task,
                                 const struct am_backend_ops *device)
{
    struct am_event_task *et = (struct am_event_task *)task;
    bool is_timed = et->event->can & AM_EVENT_TIME;

    record_end(et, is_timed ? device->mark_time(et->mark) : am_clock());
    return ACL_SUCCESS;
}

/* The record gets its number; a record that is refused does not have one. */
static void record_list_locked(struct am_event *event, struct am_event_task *et,
                               uint64_t number) AM_REQUIRES(event->lock)
{
    et->target = number;
    event->n_recorded = number;
    event->place.capture = 0;
    TAILQ_INSERT_TAIL(&event->records, et, listed);
    am_event_prune_locked(event);
}

static aclError record_enter(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    aclError rc = ACL_SUCCESS;
    uint64_t number;

    am_lock(&event->lock);
    number = event->n_recorded + 1;
    if (event->page != NULL && !is_notify(event))
        rc = am_event_page_record(event->page, &number);
    if (rc == ACL_SUCCESS)
        record_list_locked(event, et, number);
    am_unlock(&event->lock);
    return rc;
}

static aclError record_launch(struct am_task *task, const struct am_backend_ops *device,
                              struct am_lane *lane)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;

    if (event->page != NULL || is_notify(event)) /* other processes poll the page */
        return ACL_SUCCESS;
    AM_TRY(device->lane_mark(lane, event->can & AM_EVENT_TIME, &et->mark, &task->number));
    am_lock(&event->lock);
    record_list_locked(event, et, event->n_recorded + 1);
    am_unlock(&event->lock);
    return ACL_SUCCESS;
}

static void record_cancel(struct am_task *task, const struct am_cause *cause)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;

    am_lock(&event->lock);
    record_note_locked(event, et, 0);
    if (!is_notify(event)) {
        et->cause = *cause;
        TAILQ_INSERT_TAIL(&event->lost, et, listed);
        if (event->page != NULL)
            am_event_page_recorded(event->page, et->target, cause->rc);
    }
    am_unlock(&event->lock);
    event_wake(event);
}

/* A lost record stays with its event as long as a call may ask about it. */
static void record_free(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;

    if (et->mark != NULL)
        et->stream->queue.device->mark_put(et->mark);
    if (et->cause.rc == ACL_SUCCESS) {
        am_event_task_free(task);
        return;
    }
    am_lock(&event->lock);
    et->is_freed = true;
    am_event_prune_locked(event);
    am_unlock(&event->lock);
    am_event_put(event);
}

const struct am_task_ops am_event_record_ops = {
    .enter = record_enter,
    .launch = record_launch,
    .completed = record_completed,
    .run = record_run,
    .cancel = record_cancel,
    .type = ACL_MODEL_RI_TASK_EVENT_RECORD,
    .free = record_free,
};

/* A thread that waits for the next record of a plain event polls the device from now on. */
aclError am_event_record(struct am_event *event, struct am_stream *stream,
                         bool is_external)
{
    struct am_event_task *et;

    if (am_stream_is_captured(stream))
        return am_event_capture_record(event, stream, is_external);
    AM_TRY(am_event_task_make(&am_event_record_ops, event, stream, &et));
    AM_TRY(am_stream_submit(stream, &et->task));
    event->was_recorded = true;
    if (stream->queue.device != NULL) /* waits that came before a launched record */
        event_wake(event);
    return ACL_SUCCESS;
}

/* ---- resets ---- */

aclError am_event_reset_enter(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;

    am_lock(&et->event->lock);
    et->target = et->event->n_recorded;
    am_unlock(&et->event->lock);
    return ACL_SUCCESS;
}

aclError am_event_reset_run(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    uint64_t undone;

    am_lock(&event->lock);
    undone = et->target > event->n_waited ? et->target : event->n_waited;
    if (undone > event->n_completed)
        undone = event->n_completed;
    if (event->n_reset < undone)
        event->n_reset = undone;
    am_unlock(&event->lock);
    return ACL_SUCCESS;
}

static const struct am_task_ops reset_ops = {
    .enter = am_event_reset_enter, .run = am_event_reset_run, .free = am_event_task_free};

aclError am_event_reset(struct am_event *event, struct am_stream *stream)
{
    struct am_event_task *et;

    AM_REQUIRE(!(event->can & AM_EVENT_EX), ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made by aclrtCreateEventExWithFlag, so it cannot be reset: "
               "it is recorded again instead",
               event->id);
    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC, so it cannot be reset "
               "(ACLMEM_RULES=strict)",
               event->id);
    if (am_stream_is_captured(stream))
        return am_event_capture_reset(event, stream);
    AM_TRY(am_event_task_make(&reset_ops, event, stream, &et));
    return am_stream_submit(stream, &et->task);
}

/* ---- waits ---- */

/* Clears a notify; false: it was not set.  A shared bit is tested and cleared in one step. */
static bool notify_take_locked(struct am_event *event) AM_REQUIRES(event->lock)
{
    bool was_set = event->n_completed > event->n_reset;

    if (event->page != NULL)
        return am_event_page_take(event->page);
    event->n_reset = event->n_completed;
    return was_set;
}

static enum am_poll wait_poll_locked(struct am_event *event, struct am_event_task *et)
    AM_REQUIRES(event->lock)
{
    if (is_notify(event))
        et->is_taken = notify_take_locked(event);
    if (et->is_taken || am_event_is_abandoned_locked(event) ||
        (!is_notify(event) && is_satisfied_locked(event, et->target)))
        return AM_POLL_READY;
    if (event->page != NULL || launched_find_locked(event, et->target) != NULL)
        return AM_POLL_AGAIN;
    am_waitlist_join(&event->waiting, &et->task);
    return AM_POLL_WAIT;
}

enum am_poll am_event_wait_poll(struct am_task *task)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;

    (void)am_event_poll_device(event, et->target, false);
    return AM_LOCKED(&event->lock, wait_poll_locked(event, et));
}

/*
 * Returns the record that the wait was for.  It is known only now: a wait for a record that
 * was not queued yet may have been satisfied by the next one after a reset.
 */
static uint64_t wait_end_locked(struct am_event *event, uint64_t target)
    AM_REQUIRES(event->lock)
{
    bool is_it = !is_plain(event) || target > event->n_reset;
    uint64_t number = is_it ? target : event->n_reset + 1;

    if (event->n_waited < number)
        event->n_waited = number;
    return number;
}

/* The result of a wait; must_hold: the record is known to be over. */
static aclError wait_result(struct am_event_task *et, bool must_hold)
{
    struct am_event *event = et->event;
    aclError rc = ACL_SUCCESS;
    bool holds;

    am_lock(&event->lock);
    holds = is_notify(event) ? et->is_taken
                             : !must_hold || is_satisfied_locked(event, et->target);
    if (holds && !is_notify(event))
        rc = am_event_check_locked(event, wait_end_locked(event, et->target));
    am_unlock(&event->lock);
    AM_REQUIRE(holds, ACL_ERROR_RT_INVALID_HANDLE,
               "%s %u was destroyed while the stream waited for it, and no record of "
               "it is queued",
               event->list->name, event->id);
    return rc;
}

aclError am_event_wait_run(struct am_task *task)
{
    return wait_result((struct am_event_task *)task, true);
}

/* The device has waited; that the record ran may not be known here yet. */
static aclError wait_completed(struct am_task *task, const struct am_backend_ops *device)
{
    return wait_result((struct am_event_task *)task, false);
}

/* If a device has the record, or it has run.  Workers do waits for other and lost records. */
static aclError wait_launch(struct am_task *task, const struct am_backend_ops *device,
                            struct am_lane *lane)
{
    struct am_event_task *et = (struct am_event_task *)task;
    struct am_event *event = et->event;
    const struct am_event_task *record;
    struct am_mark *mark = NULL;
    bool can_launch;
    aclError rc;

    if (event->page != NULL || is_notify(event))
        return ACL_SUCCESS;
    am_lock(&event->lock);
    can_launch = is_satisfied_locked(event, et->target) && TAILQ_EMPTY(&event->lost);
    record = am_event_record_find_locked(event, et->target);
    if (record != NULL && record->mark != NULL) {
        mark = record->mark;
        device->mark_ref(mark);
        can_launch = true;
    }
    am_unlock(&event->lock);
    if (!can_launch)
        return ACL_SUCCESS;
    rc = device->lane_wait(lane, mark, &task->number);
    if (mark != NULL)
        device->mark_put(mark);
    return rc;
}

unsigned am_event_wait_sources(struct am_task *task, struct am_source *list,
                               bool *ret_is_only)
{
    struct am_event_task *et = (struct am_event_task *)task;

    return AM_LOCKED(&et->event->lock,
                     am_event_sources_locked(et->event, et->target, list, ret_is_only));
}

void am_event_wait_describe(const struct am_task *task, char *text, size_t size)
{
    const struct am_event *event = ((const struct am_event_task *)task)->event;

    snprintf(text, size, "%s %u is recorded%s", event->list->name, event->id,
             is_notify(event) && event->page != NULL ? ", by this process or another one"
                                                     : "");
}

void am_event_wait_count(struct am_event_task *et, bool is_counted)
{
    struct am_event *event = et->event;

    am_lock(&event->lock);
    event->n_waits += (uint64_t)is_counted - (uint64_t)et->is_counted;
    et->is_counted = is_counted;
    am_event_prune_locked(event);
    am_unlock(&event->lock);
}

void am_event_wait_free(struct am_task *task)
{
    am_event_wait_count((struct am_event_task *)task, false);
    am_event_task_free(task);
}

static const struct am_task_ops wait_ops = {
    .launch = wait_launch,
    .completed = wait_completed,
    .poll = am_event_wait_poll,
    .run = am_event_wait_run,
    .free = am_event_wait_free,
    .sources = am_event_wait_sources,
    .describe = am_event_wait_describe,
    .timeout = ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
};

static aclError wait_submit(struct am_event *event, struct am_stream *stream,
                            uint32_t seconds)
{
    struct am_event_task *et;

    AM_TRY(am_event_task_make(&wait_ops, event, stream, &et));
    if (seconds != 0)
        et->task.deadline = seconds * AM_SECOND;
    am_lock(&event->lock);
    et->target = am_event_target_locked(event);
    event->n_waits++;
    et->is_counted = true;
    /* The device waits for a record that it has. */
    et->task.is_short =
        stream->queue.device == NULL || is_notify(event) ||
        (is_satisfied_locked(event, et->target) && TAILQ_EMPTY(&event->lost));
    am_unlock(&event->lock);
    return am_stream_submit(stream, &et->task);
}

aclError am_event_wait(struct am_event *event, struct am_stream *stream, uint32_t seconds,
                       bool is_external)
{
    bool is_over;

    AM_REQUIRE(event->can & AM_EVENT_SYNC, ACL_ERROR_RT_PARAM_INVALID,
               "event %u was made without ACL_EVENT_SYNC: no stream can wait for it%s",
               event->id, event->can & AM_EVENT_EX ? "" : " (ACLMEM_RULES=strict)");
    seconds = seconds != 0 ? seconds : default_wait;
    AM_TRY(am_event_capture_wait(event, stream, seconds, is_external, &is_over));
    return is_over ? wait_submit(event, stream, seconds) : ACL_SUCCESS;
}

aclError am_notify_wait(struct am_event *notify, struct am_stream *stream,
                        uint32_t seconds)
{
    bool is_over;

    AM_REQUIRE(
        am_devices.device[stream->device].driver_id == notify->made_on,
        ACL_ERROR_RT_PARAM_INVALID,
        "notify %u was made on device %d; only streams of that device may wait for it",
        notify->id, notify->made_on);
    AM_TRY(am_event_capture_wait(notify, stream, seconds, true, &is_over));
    return is_over ? wait_submit(notify, stream, seconds) : ACL_SUCCESS;
}

void am_notify_clear(struct am_event *notify)
{
    am_lock(&notify->lock);
    (void)notify_take_locked(notify);
    am_unlock(&notify->lock);
}
