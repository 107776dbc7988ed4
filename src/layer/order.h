/*
 * What happens before what: streams, events, notifies, functions of the program, and the
 * host that waits.
 *
 * The model runs the streams.  Work runs in the model when it is queued, unless its
 * stream waits for something there: an event or notify whose record is not queued yet, or
 * that is behind another wait, or a function of the program that has not run.  Then the
 * work stands in the agent's list until the wait is over.  So what is found depends on the
 * order of the program's calls and not on when the work really ran.
 *
 * The host is one agent for all its threads: how threads wait for each other is not seen,
 * so a thread is taken to know what calls of other threads waited for before.
 */
#ifndef AM_LAYER_ORDER_H
#define AM_LAYER_ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "layer/bytes.h"
#include "layer/check.h"
#include "layer/clock.h"

enum am_work_type {
    AM_WORK_TOUCH,    /* reads and writes bytes */
    AM_WORK_FREE,     /* frees a block in its turn */
    AM_WORK_RECORD,   /* of an event or notify */
    AM_WORK_WAIT,     /* for one */
    AM_WORK_RESET,    /* of an event */
    AM_WORK_FUNCTION, /* of the program, which the stream waits for */
};

struct am_piece {
    struct am_bytes *bytes;
    uint64_t at;
    uint64_t size;
    bool is_write;
    uint64_t addr; /* what the program called it */
    uint64_t area; /* where the mapping or block begins */
};

#define AM_PIECES_INLINE 4

struct am_work {
    TAILQ_ENTRY(am_work) link;
    enum am_work_type type;
    struct am_site site;
    struct am_agent *agent;
    struct am_signal *signal;
    uint64_t record;       /* of a wait for an event: the number of the record */
    struct am_clock host;  /* what the host knew when it was queued */
    bool is_over;          /* of a function: it has run, or will not */
    bool is_dropped;       /* of a function: it is in no list any more */
    uint8_t n_owners;      /* of a function: the list, and who runs it */
    bool is_order_unknown; /* of a wait: other processes may end it */
    size_t n_pieces;
    size_t n_max;
    struct am_piece *pieces; /* inline_pieces, or allocated */
    struct am_piece inline_pieces[AM_PIECES_INLINE];
};

TAILQ_HEAD(am_works, am_work);

/* A stream's or the host's. */
struct am_agent {
    TAILQ_ENTRY(am_agent) link;
    uint32_t refs;
    uint32_t number;
    uint64_t handle; /* of the stream */
    uint64_t context;
    int16_t device;
    bool is_order_unknown; /* it waited for something outside the model */
    struct am_clock clock;
    uint64_t host_version; /* of the host's clock when it was joined last */
    struct am_works works; /* the first one waits */
    struct am_site made;
};

/* An event or a notify. */
struct am_signal {
    uint32_t refs;
    bool is_notify;
    bool is_repeated;  /* made to be recorded again and again: no wait before the first */
    bool is_shared;    /* with other processes */
    bool is_set;       /* a notify */
    bool is_reset;     /* an event, since its last record was queued */
    bool lacks_sync;   /* an event made without ACL_EVENT_SYNC */
    uint64_t stream;   /* of the record that was queued last */
    uint64_t n_queued; /* records */
    uint64_t n_run;
    struct am_clock clock; /* of the last record that ran */
    struct am_site recorded;
    uint64_t handle;
};

TAILQ_HEAD(am_agents, am_agent);
extern struct am_agents am_agents; /* the streams */

void am_order_open(void);

struct am_agent *am_agent_make(uint64_t handle);
/* A stream's, by its handle; a default stream's is made when it is first seen. */
struct am_agent *am_agent_find(struct am_call *call, const void *stream);
void am_agent_put(struct am_agent *agent);
struct am_signal *am_signal_make(bool is_notify);
void am_signal_put(struct am_signal *signal);

/*
 * A piece of work on the caller's stack.  Pieces are added, then it is queued, or done at
 * once by the host where the agent is NULL.
 */
void am_work_begin(struct am_work *work, enum am_work_type type, struct am_call *call,
                   struct am_agent *agent);
void am_work_piece(struct am_work *work, struct am_object *area, uint64_t at,
                   uint64_t size, bool is_write);
void am_work_queue(struct am_work *work);
/* The same for a function of the program: what am_function_* take. NULL: no memory. */
struct am_work *am_function_queue(struct am_call *call, struct am_agent *agent);
void am_function_begin(struct am_work *work);
void am_function_end(struct am_work *work);

/* The host knows that the agent's work is done: all, or what was queued before `step`. */
uint64_t am_agent_step(const struct am_agent *agent);
void am_host_joins_agent(struct am_agent *agent, uint64_t step);
void am_host_joins_signal(struct am_signal *signal);
/* The host knows that all work that used the bytes is done. */
void am_host_joins_users(struct am_bytes *bytes);
/* Nothing records it any more: who waits for it goes on. */
void am_signal_end(struct am_signal *signal);
/* What stands in the agent's list will not be done. */
void am_agent_abort(struct am_agent *agent);

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
/* An event or notify for which a stream still waits, or that it has yet to record. */
bool am_signal_is_in_use(const struct am_signal *signal, struct am_site *ret_site);

/* touch.c: queued work uses the bytes of a pinned block from now on. */
void am_touch_watch(struct am_bytes *bytes);

/* Tells how the work of an access conflicts with another: race.c */
void am_report_race(const struct am_piece *piece, uint64_t at, const struct am_work *work,
                    const struct am_access *other);

/* "stream 0x..", "the host": for messages. */
const char *am_agent_text(uint32_t number, char *text, size_t n);

#endif
