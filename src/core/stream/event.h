/*
 * Events and notifies.
 *
 * An event numbers its records as they are queued, and lists the records that have not run; they
 * may be in several streams and run in any order.  A wait is for a number:
 *   an extended event (CreateEventExWithFlag) may be recorded again and again; a wait is for
 *   the latest record so far, and for nothing if there was none;
 *   a plain event is complete or not; a wait before the record waits for the next record, and
 *   a reset, which is queued like a record, makes the event incomplete again: when the reset
 *   runs, it undoes the records that have run, except records that were queued after the reset,
 *   unless a wait was for them.
 * A record that is dropped, because its stream is aborted, destroyed or stopped by a failure,
 * is lost: a wait for it fails with the code of that failure.  A wait for a record that can no
 * longer be queued, because the event was destroyed, fails as well.
 *
 * A notify is an event that each wait resets: a record sets it, and a wait for it ends when it
 * is set and clears it.  A lost record of a notify has no effect.
 *
 * An event that other processes may open has its numbers in a page that all of them see
 * (event_page.h); the list here has the records of this process.
 *
 * A record that was launched (queue.h) has a mark of its device.  Waits of streams are launched
 * with the mark if possible.  Other waits for such a record poll the device.
 *
 * Each event has a lock.  Waiting streams are woken without it.
 */
#ifndef AM_CORE_EVENT_H
#define AM_CORE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_rt.h"
#include "base/handle.h"
#include "core/device/device.h"
#include "core/exchange/exchange.h"
#include "core/stream/event_page.h"
#include "core/stream/stream.h"

/* The properties of an event, from the flags that it was created with. */
enum {
    AM_EVENT_EX = 1u << 0,       /* recorded again and again */
    AM_EVENT_SYNC = 1u << 1,     /* streams and the host may wait for it */
    AM_EVENT_TIME = 1u << 2,     /* has a timestamp */
    AM_EVENT_IPC = 1u << 3,      /* can be opened by other processes */
    AM_EVENT_NOTIFY = 1u << 4,   /* a wait resets it */
    AM_EVENT_EXTERNAL = 1u << 5, /* in a capture, connects the model with other work */
};

/* A task about an event.  A lost record is in event->lost and has the reason. */
struct am_event_task {
    struct am_task task;
    struct am_event *event;   /* holds a reference, unless the record is lost */
    struct am_stream *stream; /* until the task is freed */
    int32_t stream_id;
    uint64_t target;       /* the record that it makes, undoes or waits for */
    bool is_taken;         /* a wait for a notify: it was set, and was cleared */
    struct am_mark *mark;  /* of a launched record */
    struct am_cause cause; /* why the record was lost; rc is 0: it was not */
    bool is_freed;         /* a lost record: by its queue */
    bool is_counted;       /* a wait: in event->n_waits */
    TAILQ_ENTRY(am_event_task) listed; /* a record: in records or lost */
};

TAILQ_HEAD(am_event_tasks, am_event_task);

struct am_event {
    struct am_named named;
    struct am_event_list *list; /* am_events or am_notifies */
    void *handle;               /* also of one that was destroyed: for params */
    uint32_t id;
    int32_t device;
    int32_t made_on;         /* by the driver's id; maybe in another process */
    unsigned can;            /* AM_EVENT_* */
    _Atomic uint64_t export; /* the number that other processes open it by; 0: none yet */
    /* NULL, or what all processes see of it; a notify gets it when it is exported */
    _Atomic(struct am_event_page *) page;
    struct am_lock lock;
    bool is_dead;         /* lock, as all below */
    uint64_t n_recorded;  /* the number of the latest record */
    uint64_t n_completed; /* the highest number that has run */
    uint64_t n_reset;     /* records up to this number were undone by a reset */
    uint64_t n_waited;    /* plain ones: the highest number that a wait has ended for */
    struct am_event_tasks records; /* queued or launched, by number */
    struct am_event_tasks lost;    /* dropped ones that a call may still ask about */
    uint64_t n_waits;              /* of streams, queued and not yet over */
    uint64_t n_host_waits;         /* threads that wait */
    uint64_t warned;               /* the record that a warning was about */
    struct am_place place;         /* of its latest record, if that was captured */
    struct am_place external;   /* of its latest external record or wait in a capture */
    bool is_external_wait;      /* which of the two */
    atomic_bool was_recorded;   /* outside of captures; without the lock */
    uint64_t time_record;       /* the record that has the time: the latest that ran */
    uint64_t time_ns;           /* 0: none, or it was dropped */
    int32_t time_stream;        /* the stream that it ran in */
    struct am_waitlist waiting; /* streams */
    pthread_cond_t changed;     /* for threads */
    LIST_ENTRY(am_event) all;
};

/* All events, and all notifies. */
struct am_event_list {
    enum am_kind kind;
    const char *name; /* "event", for messages */
    uint32_t next_id;
    struct {
        LIST_HEAD(, am_event) list;
        uint32_t n;
    } of[AM_DEVICES_MAX];
};

extern struct am_event_list am_events;
extern struct am_event_list am_notifies;

/* Streams that wait for a record that can no longer be queued are woken. */
aclError am_event_destroy(struct am_event_list *list, void *handle);
/* All of a device. */
void am_event_destroy_all(struct am_event_list *list, int32_t device);
uint32_t am_event_available(int32_t device);

aclError am_event_create(unsigned can, void **ret_handle);
aclError am_event_get(void *handle, struct am_event **ret_event);
void am_event_put(struct am_event *event);
/* For other processes, and from another process. */
aclError am_event_export(struct am_event *event, struct am_share_handle *ret_share);
/* kind: AM_SHARE_EVENT or AM_SHARE_NOTIFY. */
aclError am_event_import(enum am_share_kind kind, const struct am_share_handle *share,
                         void **ret_handle);

/*
 * On a captured stream a record and the waits for it are edges of the model.  is_external: they
 * connect the model with work outside of it, and take place in each execution.
 */
aclError am_event_record(struct am_event *event, struct am_stream *stream,
                         bool is_external);
aclError am_event_reset(struct am_event *event, struct am_stream *stream);
/* seconds 0: without a limit. */
aclError am_event_wait(struct am_event *event, struct am_stream *stream, uint32_t seconds,
                       bool is_external);
/*
 * The host waits: 507047 after the time; 107017 if the event is destroyed and no record
 * is queued.
 */
aclError am_event_sync(struct am_event *event, int32_t timeout_ms);
/* Fails as am_event_sync() does if the record is lost. */
aclError am_event_query(struct am_event *event, bool *ret_is_complete);
/*
 * Whether the waits of streams are over; under default rules also whether the latest
 * record has run, and that fails as am_event_query() does.
 */
aclError am_event_query_waits(struct am_event *event, bool *ret_is_over);

/*
 * Milliseconds between two records; 107006 without timestamps or while a record is
 * queued, 107007 if the order is wrong.
 */
aclError am_event_elapsed(struct am_event *start, struct am_event *end, float *ret_ms);
/* Microseconds of the last record. */
aclError am_event_time(struct am_event *event, uint64_t *ret_us);

/* The default of the time that streams wait: aclrtSetOpWaitTimeout; 0: without a limit. */
void am_event_set_default_wait(uint32_t seconds);

aclError am_notify_get(void *handle, struct am_event **ret_notify);
aclError am_notify_wait(struct am_event *notify, struct am_stream *stream,
                        uint32_t seconds);
void am_notify_clear(struct am_event *notify);
/* Makes the key that other processes open it by; is_open: any process may. */
aclError am_notify_export(struct am_event *notify, bool is_open,
                          struct am_share_handle *ret_share);
aclError am_notify_trust(struct am_event *notify, const int32_t *ids, size_t n);

/* ---- event_capture.c ---- */

/* Refuses a query or a wait of the host if the event's record is in a capture under way. */
aclError am_event_check_captured(struct am_event *event);
/* On a captured stream. */
aclError am_event_capture_record(struct am_event *event, struct am_stream *stream,
                                 bool is_external);
aclError am_event_capture_reset(struct am_event *event, struct am_stream *stream);
/* *ret_is_over: neither the stream nor the event is captured, and nothing was done. */
aclError am_event_capture_wait(struct am_event *event, struct am_stream *stream,
                               uint32_t seconds, bool is_external, bool *ret_is_over);

/* ---- for event_capture.c: event_task.c ---- */

extern const struct am_task_ops am_event_record_ops;
aclError am_event_task_make(const struct am_task_ops *ops, struct am_event *event,
                            struct am_stream *stream, struct am_event_task **ret_task);
void am_event_task_free(struct am_task *task);
aclError am_event_reset_enter(struct am_task *task);
aclError am_event_reset_run(struct am_task *task);
enum am_poll am_event_wait_poll(struct am_task *task);
aclError am_event_wait_run(struct am_task *task);
/* A wait is counted from its submission, or in an execution from its first poll, to its end. */
void am_event_wait_count(struct am_event_task *et, bool is_counted);
void am_event_wait_free(struct am_task *task);
unsigned am_event_wait_sources(struct am_task *task, struct am_source *list,
                               bool *ret_is_only);
void am_event_wait_describe(const struct am_task *task, char *text, size_t size);

/* ---- for event.c: event_task.c ---- */

/* Whether the record with this number is over, or can be neither run nor queued. */
bool am_event_is_over_locked(const struct am_event *event, uint64_t number)
    AM_REQUIRES(event->lock);
bool am_event_is_abandoned_locked(const struct am_event *event) AM_REQUIRES(event->lock);
/* The result of a wait for this record. */
aclError am_event_check_locked(const struct am_event *event, uint64_t number)
    AM_REQUIRES(event->lock);
/* The record that a call waits for from now on; 0: none. */
uint64_t am_event_target_locked(const struct am_event *event) AM_REQUIRES(event->lock);
/* The record with this number that is queued or launched, or NULL. */
struct am_event_task *am_event_record_find_locked(const struct am_event *event,
                                                  uint64_t number)
    AM_REQUIRES(event->lock);
/* Frees lost records before the latest one, unless a wait may still need their reason. */
void am_event_prune_locked(struct am_event *event) AM_REQUIRES(event->lock);
/* The tasks that can end a wait for the record. */
unsigned am_event_sources_locked(const struct am_event *event, uint64_t target,
                                 struct am_source *list, bool *ret_is_only)
    AM_REQUIRES(event->lock);
/*
 * Polls the device that has the record, or a later record of a plain event; may_block: until
 * the device has done it.  False: no device has it.
 */
bool am_event_poll_device(struct am_event *event, uint64_t number, bool may_block);

#endif
