/*
 * Events and notifies.
 *
 * An event numbers its records as they are queued, and lists those that have not run;
 * they may be in several streams and run in any order.  A wait is for a number:
 *   an extended event (CreateEventExWithFlag) may be recorded again and again; a wait is
 *   for the latest record so far, and for nothing when there was none;
 *   a plain event is complete or not; a wait before the record waits for the one to come,
 *   and a reset, which is queued like a record, makes it incomplete again: when it runs,
 *   it undoes the records that have run, those that were queued after it excepted unless
 *   a wait was for them.
 * A record that is dropped, because its stream is aborted, destroyed or stopped by a
 * failure, is lost: a wait for it fails with the code of that failure.  A wait for a record
 * that cannot come any more, because the event was destroyed, fails as well.
 *
 * An event that other processes may open has its numbers in a page that all of them see
 * (event_page.h); what is listed here are the records of this process.
 *
 * A notify is one bit: a record sets it, a wait waits for it and clears it; a wait for
 * one that was destroyed, with no record to come, fails.
 *
 * A record that was launched (lane.h) has a mark of its device.  Waits of streams are launched
 * with the mark where they can be.  Waits in the scheduler and threads of the program that
 * wait for such a record ask the device.
 *
 * The records of an event, and how many wait for them, are under the event's own lock.  The
 * scheduler's lock is taken before that one to wake streams and threads that wait, the
 * listeners, and to list a record that the scheduler has: either lock is enough to read
 * `pending`.  So a record without listeners meets no other event's.  All else is under the
 * scheduler's lock.
 */
#ifndef AM_CORE_EVENT_H
#define AM_CORE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_rt.h"
#include "core/stream/event_page.h"
#include "core/stream/signal.h"
#include "core/stream/stream.h"

struct am_ticket;

/* The abilities of an event, from the flags that it was created with. */
enum {
    AM_EVENT_EX = 1u << 0,   /* recorded again and again */
    AM_EVENT_SYNC = 1u << 1, /* streams and the host may wait for it */
    AM_EVENT_TIME = 1u << 2, /* has a timestamp */
    AM_EVENT_IPC = 1u << 3,  /* can be opened by other processes */
};

struct am_event {
    struct am_signal signal;
    unsigned can;               /* AM_EVENT_* */
    struct am_event_page *page; /* AM_EVENT_IPC: what all processes see of it */
    struct am_latch lock;
    uint64_t n_recorded;  /* lock, as all to time_stream; the number of the latest one */
    uint64_t n_completed; /* the highest number that has run */
    uint64_t n_reset;     /* records up to this number were undone by a reset */
    uint64_t n_waited;    /* plain ones: the highest number that a wait is over for */
    TAILQ_HEAD(am_records, am_event_task) pending; /* records that the scheduler has */
    struct am_records launched;                    /* records that devices have */
    struct am_records lost; /* dropped ones that a call may still ask about */
    uint64_t n_waits;       /* of streams, queued and not yet over */
    uint64_t n_listeners;   /* waits in the scheduler, and threads that wait */
    uint64_t warned;        /* sched.lock; the record that a warning was about */
    uint64_t time_record;   /* the record that has the time: the latest that ran */
    uint64_t time_ns;       /* 0: none, or it was dropped */
    int32_t time_stream;    /* the stream that it ran in */
    pthread_cond_t changed;
};

/* All events and all notifies: am_signal_destroy(), am_signal_kill_all(). */
extern struct am_signals am_events;
extern struct am_signals am_notifies;

aclError am_event_create(unsigned can, void **ret_handle);
/* For other processes, and from another process. */
aclError am_event_export(struct am_event *event, struct am_ticket *ret_ticket);
aclError am_event_import(const struct am_ticket *ticket, void **ret_handle);
aclError am_event_get(void *handle, struct am_event **ret_event);
void am_event_put(struct am_event *event);

aclError am_event_record(struct am_event *event, struct am_stream *stream);
aclError am_event_reset(struct am_event *event, struct am_stream *stream);
/* seconds 0: for ever. */
aclError am_event_wait(struct am_event *event, struct am_stream *stream,
                       uint32_t seconds);
/*
 * The host waits: 507047 after the time; 107017 when the event is destroyed and no record
 * is to come.
 */
aclError am_event_sync(struct am_event *event, int32_t timeout_ms);
/* Fails as am_event_sync() would when the record is lost. */
aclError am_event_query(struct am_event *event, bool *ret_is_complete);
/*
 * Whether the waits of streams are over; under default rules also whether the latest
 * record has run, and that fails as am_event_query() does.
 */
aclError am_event_query_waits(struct am_event *event, bool *ret_is_over);

/*
 * Milliseconds between two records; 107006 without timestamps or while a record is to
 * come, 107007 the wrong way round.
 */
aclError am_event_elapsed(struct am_event *start, struct am_event *end, float *ret_ms);
/* Microseconds of the last record. */
aclError am_event_time(struct am_event *event, uint64_t *ret_us);

/* Whether the latest record was queued and has not run. */
bool am_event_is_to_come(struct am_event *event);

/* The event goes. */
void am_event_forget_losses(struct am_event *event);

uint32_t am_event_available(int32_t device);

/*
 * How long waits on streams last when the call gives no time: aclrtSetOpWaitTimeout; 0:
 * for ever.
 */
void am_event_set_default_wait(uint32_t seconds);

struct am_notify;

aclError am_notify_create(void **ret_handle);
aclError am_notify_get(void *handle, struct am_notify **ret_notify);
void am_notify_put(struct am_notify *notify);
aclError am_notify_record(struct am_notify *notify, struct am_stream *stream);
aclError am_notify_wait(struct am_notify *notify, struct am_stream *stream,
                        uint32_t seconds);
void am_notify_clear(struct am_notify *notify);
/* Makes the key that other processes open it by; is_open: any process may. */
aclError am_notify_export(struct am_notify *notify, bool is_open,
                          struct am_ticket *ret_ticket);
aclError am_notify_trust(struct am_notify *notify, const int32_t *ids, size_t n);
aclError am_notify_import(const struct am_ticket *ticket, void **ret_handle);
uint32_t am_notify_id(const struct am_notify *notify);

#endif
