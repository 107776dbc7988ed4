/*
 * Connections: their limits, and the state of an importer's connections.
 *
 * Plain data and decisions: the owner connects, sends and moves bytes, and reports the
 * results.  So tests and the simulator run the same code.
 *
 * Slots.  Each connection of a role (importer, exporter, handshake) has a slot in a list
 * with a limit.  The list is in the order of the last use.  If there are too many, the least
 * recently used connection is drained: it begins no new work, and is closed when its work
 * is done.
 *
 * Importer connections.  The importer closes a connection that it has not used for a while,
 * if it needs the slot for another exporter, or if the exporter asks for it.  The exporter
 * keeps the grants for its lease.  The importer connects again when it has work, and within
 * the lease without work.
 *
 *     CLOSED -> WAITING -> OPENING -> OPEN -> CLOSING -> CLOSED
 */
#ifndef AM_FABRIC_CONNECTION_H
#define AM_FABRIC_CONNECTION_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

/* ---- slots ---- */

struct am_conn_slot {
    TAILQ_ENTRY(am_conn_slot) next; /* while it is used and not draining */
    struct am_conn_slots *list;     /* NULL: it is not used */
    uint64_t used;                  /* time of the last use */
    bool is_draining;
};

struct am_conn_slots {
    TAILQ_HEAD(am_conn_slots_order, am_conn_slot) order; /* least recently used first */
    size_t limit;
    size_t n; /* used */
    size_t n_draining;
};

void am_conn_slots_init(struct am_conn_slots *slots, size_t limit);
/* The least recently used one; NULL: all are draining, or none is used. */
struct am_conn_slot *am_conn_slots_lru(const struct am_conn_slots *slots);

void am_conn_slot_acquire(struct am_conn_slot *slot, struct am_conn_slots *slots,
                          uint64_t now);
/* These do nothing if the slot is not used. */
void am_conn_slot_release(struct am_conn_slot *slot);
void am_conn_slot_touch(struct am_conn_slot *slot, uint64_t now);
void am_conn_slot_drain(struct am_conn_slot *slot);

/* The admission limits of an exporter. */
#define AM_HANDSHAKES_MAX 64 /* connections that have not proved the key */
#define AM_DRAINING_MAX 64   /* importers above the limit, until others are drained */
#define AM_HANDSHAKE_MIN_NS UINT64_C(250000000) /* before a handshake may be evicted */

enum am_admission {
    AM_ADMISSION_OPEN,
    AM_ADMISSION_EVICT,  /* accept, and drop the oldest handshake */
    AM_ADMISSION_PAUSED, /* connections wait in the kernel's queue */
};

enum am_admission am_conn_admission(const struct am_conn_slots *handshakes,
                                    const struct am_conn_slots *importers, uint64_t now);

/* ---- importer connections ---- */

enum am_conn_state {
    AM_CONN_CLOSED,
    AM_CONN_WAITING, /* for a slot */
    AM_CONN_OPENING, /* until the exporter has accepted the importer */
    AM_CONN_OPEN,
    AM_CONN_CLOSING, /* until the exporter has closed the connection */
    AM_CONN_FAILED,
};

struct am_conn {
    struct am_conns *set;
    struct am_conn_slot slot;  /* OPENING, OPEN, CLOSING */
    TAILQ_ENTRY(am_conn) next; /* WAITING, or OPEN and draining */
    RB_ENTRY(am_conn) node;    /* CLOSED */
    enum am_conn_state state;
    bool is_requested; /* work waits until it is open */
    bool is_retried;   /* it could not be opened yet */
    uint32_t n_busy;   /* pieces of work in progress */
    uint64_t since;    /* time of the request to open it */
    uint64_t lease_ns; /* how long the exporter keeps the grants */
    uint64_t due;      /* CLOSED: when it is opened without work; AM_CONN_NEVER */
    uint64_t number;   /* orders connections with the same due time */
};

#define AM_CONN_NEVER UINT64_MAX

struct am_conns {
    struct am_conn_slots slots;
    TAILQ_HEAD(am_conn_queue, am_conn) waiting;
    size_t n_waiting;
    struct am_conn_queue draining; /* OPEN; each is closed when its work is done */
    RB_HEAD(am_conn_tree, am_conn) closed; /* by their due time */
    uint64_t idle_ns;                      /* without use, before one is closed */
    uint64_t random;                       /* spreads the times of reconnecting */
    uint64_t n_ever;
    /* Connect; the owner reports a failure later. */
    void (*open)(struct am_conn *conn);
    /* Send that the importer closes the connection. */
    void (*close)(struct am_conn *conn);
};

void am_conns_init(struct am_conns *conns, size_t limit, uint64_t idle_ns, uint64_t seed);
/* A new connection is CLOSED, and never due. */
void am_conns_add(struct am_conns *conns, struct am_conn *conn);

/* There is work, which the owner queues until the connection is open. */
void am_conn_request(struct am_conn *conn, uint64_t now);
/* Whether work can begin now. */
bool am_conn_is_open(const struct am_conn *conn);
void am_conn_work_begin(struct am_conn *conn, uint64_t now);
void am_conn_work_end(struct am_conn *conn, uint64_t now);

/* The exporter has accepted.  The owner begins the queued work before the next step. */
void am_conn_opened(struct am_conn *conn, uint64_t lease_ns, uint64_t now);
/* It begins no new work, and is closed when its work is done. */
void am_conn_drain(struct am_conn *conn);
/* The socket was closed.  True: as agreed, and the state is CLOSED. */
bool am_conn_closed(struct am_conn *conn, uint64_t now);
/* The exporter could not be reached: opens it again at that time. */
void am_conn_retry(struct am_conn *conn, uint64_t at);
/* In any state. */
void am_conn_fail(struct am_conn *conn);
/* Whether it was not opened within limit_ns of the request. */
bool am_conn_is_late(const struct am_conn *conn, uint64_t now, uint64_t limit_ns);

/* Does what is due; called after each change, and not from open() and close(). */
void am_conns_step(struct am_conns *conns, uint64_t now);

#endif
