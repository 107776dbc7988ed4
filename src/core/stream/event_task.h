/* Tasks about events: what event_task.c, event_wait.c and event_sync.c have in common. */
#ifndef AM_CORE_EVENT_TASK_H
#define AM_CORE_EVENT_TASK_H

#include "core/stream/event.h"
#include "core/stream/sched.h"

/*
 * A task about an event.  A dropped record moves to event->lost and keeps the reason.
 */
struct am_event_task {
    struct am_task task;
    struct am_event *event;   /* holds a reference, unless it is lost */
    uint64_t target;          /* the record that it makes, undoes or waits for */
    struct am_stream *stream; /* that it is in, until it is dropped */
    int32_t stream_id;
    struct am_mark *mark;  /* a record that was launched: where the device is then */
    bool is_listener;      /* a wait that is in the scheduler */
    struct am_cause cause; /* why it was lost; rc is 0: it was not */
    bool has_left;         /* lost, and dropped by its stream */
    TAILQ_ENTRY(am_event_task) listed; /* a record: pending or lost */
};

aclError am_event_task_make(const struct am_task_ops *ops, struct am_event *event,
                            struct am_stream *stream, struct am_event_task **ret_task);
void am_event_task_drop(struct am_task *task);

struct am_event_task *am_record_find(const struct am_records *records, uint64_t number);
/*
 * Whether the record with this number is over; of one that is still to come, whether it
 * or a later one.
 */
bool am_event_is_over_locked(const struct am_event *event, uint64_t number)
    AM_REQUIRES(event->lock);
/* The result of a wait for this record. */
aclError am_record_check_locked(const struct am_event *event, uint64_t number)
    AM_REQUIRES(event->lock);
/* The record that a call waits for from now on; 0: none. */
uint64_t am_event_target_locked(const struct am_event *event) AM_REQUIRES(event->lock);
/* The latest record; 0: there was none. */
uint64_t am_event_latest(struct am_event *event);
/* Destroyed, so that nothing more can be queued; other processes still can. */
bool am_event_is_abandoned(const struct am_event *event);
/* Frees lost records before the latest one, unless a wait may still need their reason. */
void am_event_prune_losses_locked(struct am_event *event) AM_REQUIRES(event->lock);

/*
 * A record that a device has: the one with this number, or, for waits of plain events, which
 * may have been reset, a later one.
 */
const struct am_event_task *am_launched_find_locked(const struct am_event *event,
                                                    uint64_t number, bool or_later)
    AM_REQUIRES(event->lock);
/*
 * Until the device that has the record is done with it: 0, ETIMEDOUT, or ENOENT where none
 * has it.  A time of 0 only asks.
 */
int am_launched_wait(struct am_event *event, uint64_t number, bool or_later,
                     uint64_t until);

/* Whether a record is on its way. */
bool am_event_can_come_locked(struct am_event *event, struct am_sched *sched)
    AM_REQUIRES(sched->lock);

#endif
