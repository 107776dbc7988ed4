/*
 * Happens-before order: streams, events, notifies, functions of the program, and the host.
 *
 * A model runs the streams.  Work runs in the model when it is queued, unless its stream
 * waits in the model: for a record that is not queued yet or is itself behind a wait, for a
 * notify that is not set, or for a function of the program that has not returned.  Then
 * the work is pending in the agent's list until the wait ends.  So findings depend on the
 * order of the program's calls and not on when the work really ran.
 *
 * A record is an object with its own clock.  A wait holds the record that it waits for, so
 * an event that is recorded again does not change earlier waits.  A function of the program
 * is a record before it, which the host knows when the function begins, and a wait for its
 * end.  What the function does itself is a step of its stream.
 *
 * The host is one agent for all its threads: how threads wait for each other is not seen,
 * so a thread is assumed to know what calls of other threads waited for before.
 */
#ifndef AM_LAYER_ORDER_H
#define AM_LAYER_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "layer/bytes.h"
#include "layer/metadata.h"
#include "layer/clock.h"

enum am_work_type {
    AM_WORK_ACCESS, /* reads and writes bytes */
    AM_WORK_USE,    /* needs bytes to exist, and conflicts with nothing */
    AM_WORK_FREE,   /* frees a block of a pool */
    AM_WORK_RECORD, /* of an event or notify, or a position in the stream */
    AM_WORK_WAIT,   /* for a record, or for a notify */
};

struct am_piece {
    struct am_bytes *bytes;
    uint64_t at;
    uint64_t size;
    bool is_write;
    uint64_t addr; /* what the program called it */
    uint64_t area; /* the serial number of the mapping or block */
};

#define AM_PIECES_INLINE 4

/* A point in the order: a record of an event, a position in a stream, the end of a function. */
struct am_record {
    uint32_t refs;
    uint32_t n_queued;     /* works that record it, so far */
    uint32_t n_pending;    /* of these, works that have not run */
    bool is_complete;      /* it was recorded, and waits for it end */
    bool is_needed;        /* of the end of a function: a call of the program waits */
    bool is_order_unknown; /* something outside the model may order it */
    uint32_t n_learned;    /* of the agent that recorded it last */
    struct am_clock clock;
};

struct am_work {
    TAILQ_ENTRY(am_work) link;
    enum am_work_type type;
    struct am_site site;
    struct am_agent *agent;
    struct am_signal *signal;    /* of an event or notify; NULL: none */
    struct am_record *record;    /* that is recorded or waited for; NULL: of a notify */
    struct am_value_wait *value; /* that is waited for: values.c; NULL: none */
    struct am_clock host;        /* what the host knew when it was queued */
    bool is_forced;              /* of a wait: it ended outside the model */
    bool is_replay;              /* of a captured model; `captured` counts */
    bool is_incomplete; /* of a replay: an address has no memory of the capture */
    struct am_site captured;
    size_t n_pieces;
    size_t n_max;
    struct am_piece *pieces; /* inline_pieces, or allocated */
    struct am_piece inline_pieces[AM_PIECES_INLINE];
};

TAILQ_HEAD(am_works, am_work);

/* A stream, or the host. */
struct am_agent {
    TAILQ_ENTRY(am_agent) link;
    uint32_t refs;
    uint32_t number;
    uint64_t handle; /* of the stream; 0: it was destroyed */
    uint64_t context;
    uint64_t reporter; /* the thread that runs its callbacks; 0: none */
    int16_t device;
    bool is_default;       /* a default stream: it has no object */
    bool is_never_waited;  /* synchronising it returns at once */
    bool is_order_unknown; /* it waited for something outside the model */
    struct am_clock clock;
    uint64_t step;         /* the last one */
    uint64_t host_version; /* of the host's clock when it was joined last */
    uint32_t n_learned;    /* waits that advanced its clock */
    uint32_t n_reported;   /* of these, the first ones, which the host knows */
    uint64_t marked;       /* waits.c: the walk that came here last */
    struct am_works works; /* pending; the first one is a wait */
    struct am_site made;
    struct am_model *capture; /* that the stream takes part in; NULL: none */
    uint32_t lane;            /* its number in the model */
};

/* An event or a notify. */
struct am_signal {
    uint32_t refs;
    bool is_notify;
    bool is_repeated; /* of an event: a wait before the first record ends at once */
    bool is_shared;   /* with work that is not seen: the order behind it is unknown */
    bool is_set;      /* of a notify */
    bool lacks_sync;  /* of an event made without ACL_EVENT_SYNC */
    bool is_external; /* of an event made with ACL_EVENT_EXTERNAL */
    uint64_t stream;  /* of the record that was queued last */
    struct am_record *record; /* of an event: what a wait is for; NULL: nothing yet */
    struct am_record *last;   /* the record that was queued last; NULL: none */
    struct am_clock clock;    /* of a notify: what a wait learns */
    struct am_clock waited;   /* what the streams knew when they waited for it */
    uint64_t handle;
    uint64_t capture;        /* the model of the capture that recorded it last; 0: none */
    uint32_t capture_record; /* its number in the model */
};

TAILQ_HEAD(am_agents, am_agent);
extern struct am_agents am_agents; /* the streams */

struct am_agent *am_agent_make(uint64_t handle);
/* Of the call's stream; a default stream's is made when it is first seen.  NULL: none. */
struct am_agent *am_agent_find(struct am_call *call);
/* The same for a stream that is known; NULL otherwise. */
struct am_agent *am_agent_peek(const struct am_call *call);
/* It is the call's from now on; a stream that was destroyed is reported. */
void am_call_use_stream(struct am_call *call);
void am_agent_put(struct am_agent *agent);
/* The stream was destroyed: its work is done or dropped.  Puts the agent. */
void am_agent_end(struct am_agent *agent);

struct am_signal *am_signal_make(bool is_notify);
void am_signal_put(struct am_signal *signal);
/* The record of a call that records the event; NULL: no memory. */
struct am_record *am_signal_record(struct am_signal *signal);
/* A reset was queued: waits are for the next record. */
void am_signal_reset(struct am_signal *signal);
/* The record that a wait from now on is for; NULL: none, or no memory. */
struct am_record *am_signal_target(struct am_signal *signal);

struct am_record *am_record_make(void);
struct am_record *am_record_get(struct am_record *record);
void am_record_put(struct am_record *record);
/* The record was made by something outside the model, or never will be: waits end. */
void am_record_complete(struct am_record *record, bool is_order_unknown);
/* The host made the record, in a call that is done. */
void am_record_by_host(struct am_record *record);

/*
 * Work on the caller's stack.  Pieces are added, then it is queued; where the agent is NULL
 * it is the calling thread's, and runs at once.  Both clear the work.
 */
void am_work_begin(struct am_work *work, enum am_work_type type, struct am_call *call,
                   struct am_agent *agent);
void am_work_piece(struct am_work *work, struct am_object *area, uint64_t at,
                   uint64_t size, bool is_write);
void am_work_queue(struct am_work *work);
/*
 * Whether work that would run now, while hooks share the metadata, conflicts with an access.
 * The agent joins the host's clock only if it seems to.
 */
bool am_work_conflicts(const struct am_work *work);
/* Whether no work is pending. */
bool am_order_is_settled(void);
/* Whether the host may learn the record while hooks share the metadata. */
bool am_host_can_join(const struct am_record *record);
void am_work_drop(struct am_work *work);
/* Queues a record of the agent's position; NULL: no memory.  With a record: adds to it. */
struct am_record *am_agent_record(struct am_call *call, struct am_agent *agent,
                                  struct am_record *record);
/* The agent's record uses the bytes of the piece until it is made. */
void am_record_uses(struct am_call *call, struct am_agent *agent,
                    struct am_record *record, const struct am_piece *piece);
/* Queues a wait of the agent's stream, for the end of a function. */
void am_agent_wait(struct am_call *call, struct am_agent *agent,
                   struct am_record *record);
/*
 * Something outside the model may wait for what the agent did so far, and order what it does from
 * now on.
 */
void am_agent_meets_unknown(struct am_call *call, struct am_agent *agent);
/* The same for a value; the queued wait has the caller's reference. */
void am_agent_wait_value(struct am_call *call, struct am_agent *agent,
                         struct am_value_wait *value);
/* Runs works that can run. */
void am_order_progress(void);

const struct am_clock *am_host_clock(void);
/* The host knows that the record was made; an agent's whole work is done. */
void am_host_joins_record(struct am_record *record);
/* The same for a record of the agent's position, which only this agent made. */
void am_host_joins_position(struct am_agent *agent, struct am_record *record);
void am_host_joins_agent(struct am_agent *agent);
/* The host knows that all work that used the bytes is done. */
void am_host_joins_users(struct am_bytes *bytes);
/* Every queued wait for the event is over. */
void am_host_joins_waits(struct am_signal *signal);
/* Nothing records it any more: waits for a record that is not queued end. */
void am_signal_end(struct am_signal *signal);
/* The pending work of the agent will not be done. */
void am_agent_abort(struct am_agent *agent);
/* A function that waited for the host: its stream knows what the host knows. */
void am_agent_joins_host(struct am_agent *agent);

/* Whether work that was queued, and that the host does not know to be done, uses it. */
bool am_area_is_in_use(const struct am_object *area, struct am_access *ret_access);
/*
 * The same for any bytes, range by range: first work that ran in the model, in order, then
 * what still stands in lists.
 */
void am_bytes_in_flight(struct am_bytes *bytes, am_range_fn each, void *arg);
/* Whether it conflicts with an access of the host to this byte. */
bool am_bytes_in_flight_at(struct am_bytes *bytes, uint64_t at, bool is_write,
                           struct am_access *ret_access);
/* Changes when work is queued or known to be done. */
uint64_t am_order_version(void);
/* Whether a stream waits for a record of it that is not queued; then *ret_site is where. */
bool am_signal_is_in_use(const struct am_signal *signal, struct am_site *ret_site);
/* The agent that has a pending record which ends a pending wait; NULL: none. */
struct am_agent *am_wait_recorder(const struct am_work *wait);
/*
 * The next agent after `agent` (NULL: the first one) that has a pending record, or (record
 * NULL) one of a notify.
 */
struct am_agent *am_recorder_next(const struct am_record *record,
                                  const struct am_signal *signal, struct am_agent *agent);
/* Whether pending work of the agent begins after the function that this thread runs. */
bool am_agent_is_behind_function(const struct am_agent *agent);
/*
 * The agent's first pending wait that is not for a value, and that does not end by itself;
 * NULL: none.  A wait for a value is pending in the model until all writes that may end it
 * ran, and over in truth before.
 */
struct am_work *am_agent_next_wait(const struct am_agent *agent);
/* Whether nothing that is queued ends a pending wait. */
bool am_wait_is_stalled(const struct am_work *wait);
/* Whether the agent's first wait depends on a wait that nothing queued ends. */
bool am_agent_is_stalled(const struct am_agent *agent, struct am_site *ret_site);

/* thread.c: the stream whose function the calling thread runs; NULL: none. */
struct am_agent *am_function_agent(void);
/* thread.c: whether a hook of the calling thread shares the metadata: shared.h. */
bool am_thread_is_sharing(void);
/* touch.c: queued work uses the bytes of a pinned block from now on. */
void am_touch_watch(struct am_bytes *bytes);

/* Reports how the work of an access conflicts with another: race.c */
void am_report_race(const struct am_piece *piece, uint64_t at, const struct am_work *work,
                    const struct am_access *other);

/* "stream 0x..", "the host": for messages. */
const char *am_agent_text(uint32_t number, char *text, size_t n);

/*
 * Values in memory that streams wait for, aclrtValueWrite and aclrtValueWait: values.c.
 *
 * A location remembers its last writes, each with a record.  A wait is for the records of the
 * values that may end it: of the writes so far, those that satisfy it and that the stream may
 * still see when it begins to wait.  If none of these is sure to stay, the first later write
 * that satisfies the wait is one more.  The stream then knows what all of these records know.
 * A copy inside the device writes an unknown value, which is assumed to satisfy every wait.
 */
/*
 * A write of the agent's stream was queued; agent NULL: of the host, which is done.  Its
 * record; NULL: no memory.
 */
struct am_record *am_value_write(struct am_call *call, struct am_agent *agent,
                                 struct am_bytes *bytes, uint64_t at, uint64_t value);
/* Whether a write of this location, or a wait for it, was noted. */
bool am_value_is_noted(const struct am_bytes *bytes, uint64_t at);
/* A copy or fill writes the range. */
void am_values_overwrite(struct am_call *call, struct am_agent *agent,
                         const struct am_piece *piece);
/* A copy gave the program the range, at this address of its memory. */
void am_values_seen(const struct am_bytes *bytes, uint64_t at, uint64_t size,
                    uint64_t addr);
void am_value_wait(struct am_call *call, struct am_agent *agent, struct am_bytes *bytes,
                   uint64_t at, uint64_t value, uint32_t flag);
/* Whether the wait is over, for a stream that knows `begin` and `host`. */
bool am_value_has_ended(const struct am_value_wait *wait, const struct am_clock *begin,
                        const struct am_clock *host);
/* Whether the stream goes on though other writes that may end the wait are pending. */
bool am_value_is_sure(const struct am_value_wait *wait, const struct am_clock *begin,
                      const struct am_clock *host);
/* Whether the wait is over, and what the stream knows then is joined; false: something unknown ended it. */
bool am_value_join(const struct am_value_wait *wait, struct am_clock *clock,
                   const struct am_clock *host);
/* The wait is known to be over, though writes that may have ended it are pending. */
void am_value_settle(struct am_value_wait *wait);
/* The nth record that is not complete and may end the wait; NULL: fewer exist. */
struct am_record *am_value_pending(const struct am_value_wait *wait, unsigned n);
void am_value_wait_put(struct am_value_wait *wait);

/* access.c: the call has a declaration, and its accesses become the call's work.  False: it has none. */
bool am_access_add(struct am_call *call);

#endif
