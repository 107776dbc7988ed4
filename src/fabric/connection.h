/*
 * The importer's connections to exporters, each as a state machine.
 *
 * A connection is there while it is used.  The importer takes its leave when it has not
 * used the connection for a while, when it needs the slot for another exporter, or when the
 * exporter asks for it.  The exporter then keeps what it granted, for its lease.  The
 * importer comes back when there is work, and now and then without work, so that its lease
 * does not end.
 *
 *     AWAY -> WAITING -> COMING -> HERE -> GOING -> AWAY
 *
 * Plain data and decisions: the owner connects, sends and moves bytes, and tells what
 * became of it.  So tests and the simulator run the same code.
 */
#ifndef AM_FABRIC_CONNECTION_H
#define AM_FABRIC_CONNECTION_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fabric/conn_slots.h"

enum am_connection_state {
    AM_CONNECTION_CLOSED,  /* no connection */
    AM_CONNECTION_WAITING, /* for a slot */
    AM_CONNECTION_OPENING, /* connects, until the exporter has said that it knows it */
    AM_CONNECTION_OPEN,
    AM_CONNECTION_CLOSING, /* has taken its leave; until the exporter closes the connection */
    AM_CONNECTION_FAILED, /* it failed */
};

struct am_connection {
    struct am_conn_slot slot;        /* COMING, HERE, GOING */
    TAILQ_ENTRY(am_connection) next; /* WAITING, or HERE and leaving */
    RB_ENTRY(am_connection) node;    /* AWAY */
    enum am_connection_state state;
    bool is_wanted;    /* there is work that waits until it is here */
    bool is_retried;   /* it could not come yet */
    uint32_t n_busy;   /* pieces of work that are under way */
    uint64_t since;    /* when it began to want to come */
    uint64_t lease_ns; /* how long the exporter keeps the grants */
    uint64_t due;      /* AWAY: when it comes without work; AM_CONNECTION_NEVER */
    uint64_t number;   /* of this connection, for the order */
};

#define AM_CONNECTION_NEVER UINT64_MAX

struct am_connections {
    struct am_conn_slots slots;
    TAILQ_HEAD(am_connection_queue, am_connection) waiting;
    size_t n_waiting;
    struct am_connection_queue leaving; /* HERE; each goes when its work is done */
    RB_HEAD(am_connection_tree, am_connection) away; /* by their due time */
    uint64_t idle_ns; /* without use, after which one goes */
    uint64_t dice;    /* spreads the times of coming back */
    uint64_t n_ever;
    /* Connect; the failure is told later. */
    void (*come)(struct am_connection *connection);
    /* Say that the importer goes. */
    void (*go)(struct am_connection *connection);
};

void am_connections_init(struct am_connections *connections, size_t limit,
                         uint64_t idle_ns, uint64_t seed);
/* A new one is away, and has nothing to come back for. */
void am_connections_add(struct am_connections *connections,
                        struct am_connection *connection);

/* There is work, which the owner keeps until the connection is here. */
void am_connection_request(struct am_connections *connections,
                           struct am_connection *connection, uint64_t now);
/* Whether work can begin now. */
bool am_connection_is_open(const struct am_connection *connection);
/* A piece of work begins or ends. */
void am_connection_work_begin(struct am_connections *connections,
                              struct am_connection *connection, uint64_t now);
void am_connection_work_end(struct am_connections *connections,
                            struct am_connection *connection, uint64_t now);

/* The exporter knows it.  The owner begins the work that waited before the next step. */
void am_connection_opened(struct am_connections *connections,
                          struct am_connection *connection, uint64_t lease_ns,
                          uint64_t now);
/* The exporter needs the connection. */
void am_connection_drain(struct am_connections *connections,
                         struct am_connection *connection);
/* The connection is closed.  True: as it was to be, and the connection is away. */
bool am_connection_closed(struct am_connections *connections,
                          struct am_connection *connection, uint64_t now);
/* The exporter could not be reached; it is tried again. */
void am_connection_retry(struct am_connections *connections,
                         struct am_connection *connection, uint64_t at);
/* It is given up, whatever its state is. */
void am_connection_fail(struct am_connections *connections,
                        struct am_connection *connection);
/* Whether it wants to be here for so long. */
bool am_connection_is_late(const struct am_connection *connection, uint64_t now,
                           uint64_t limit_ns);

/* Does what is due: to be called outside of come() and go(), after each change. */
void am_connections_step(struct am_connections *connections, uint64_t now);
/* When it is to be called again, if nothing changes. */
uint64_t am_connections_next(const struct am_connections *connections);

#endif
