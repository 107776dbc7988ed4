/*
 * The importer's connections to exporters, each as a state machine.
 *
 * A connection is there while it is used.  The importer takes its leave when it has not
 * used the connection for a while, when it needs the seat for another exporter, or when the
 * exporter asks for it.  The exporter then keeps what it granted, for its lease.  The
 * importer comes back when there is work, and now and then without work, so that its lease
 * does not end.
 *
 *     AWAY -> WAITING -> COMING -> HERE -> GOING -> AWAY
 *
 * Plain data and decisions: the owner connects, sends and moves bytes, and tells what
 * became of it.  So tests and the simulator run the same code.
 */
#ifndef AM_FABRIC_VISIT_H
#define AM_FABRIC_VISIT_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fabric/seats.h"

enum am_visit_state {
    AM_VISIT_AWAY,    /* no connection */
    AM_VISIT_WAITING, /* for a seat */
    AM_VISIT_COMING,  /* connects, until the exporter has said that it knows it */
    AM_VISIT_HERE,
    AM_VISIT_GOING, /* has taken its leave; until the exporter closes the connection */
    AM_VISIT_OVER,  /* it failed */
};

struct am_visit {
    struct am_seat seat;        /* COMING, HERE, GOING */
    TAILQ_ENTRY(am_visit) next; /* WAITING, or HERE and leaving */
    RB_ENTRY(am_visit) node;    /* AWAY */
    enum am_visit_state state;
    bool is_wanted;    /* there is work that waits until it is here */
    bool is_retried;   /* it could not come yet */
    uint32_t n_busy;   /* pieces of work that are under way */
    uint64_t since;    /* when it began to want to come */
    uint64_t lease_ns; /* how long the exporter keeps the grants */
    uint64_t due;      /* AWAY: when it comes without work; AM_VISIT_NEVER */
    uint64_t number;   /* of this visit, for the order */
};

#define AM_VISIT_NEVER UINT64_MAX

struct am_visits {
    struct am_seats seats;
    TAILQ_HEAD(am_visit_queue, am_visit) waiting;
    size_t n_waiting;
    struct am_visit_queue leaving;         /* HERE; each goes when its work is done */
    RB_HEAD(am_visit_tree, am_visit) away; /* by their due time */
    uint64_t idle_ns;                      /* without use, after which one goes */
    uint64_t dice;                         /* spreads the times of coming back */
    uint64_t n_ever;
    /* Connect; the failure is told later. */
    void (*come)(struct am_visit *visit);
    /* Say that the importer goes. */
    void (*go)(struct am_visit *visit);
};

void am_visits_init(struct am_visits *visits, size_t limit, uint64_t idle_ns,
                    uint64_t seed);
/* A new one is away, and has nothing to come back for. */
void am_visits_add(struct am_visits *visits, struct am_visit *visit);

/* There is work, which the owner keeps until the visit is here. */
void am_visit_want(struct am_visits *visits, struct am_visit *visit, uint64_t now);
/* Whether work can begin now. */
bool am_visit_is_open(const struct am_visit *visit);
/* A piece of work begins or ends. */
void am_visit_work(struct am_visits *visits, struct am_visit *visit, uint64_t now);
void am_visit_done(struct am_visits *visits, struct am_visit *visit, uint64_t now);

/* The exporter knows it.  The owner begins the work that waited before the next step. */
void am_visit_here(struct am_visits *visits, struct am_visit *visit, uint64_t lease_ns,
                   uint64_t now);
/* The exporter needs the connection. */
void am_visit_ask(struct am_visits *visits, struct am_visit *visit);
/* The connection is closed.  True: as it was to be, and the visit is away. */
bool am_visit_closed(struct am_visits *visits, struct am_visit *visit, uint64_t now);
/* The exporter could not be reached; it is tried again. */
void am_visit_retry(struct am_visits *visits, struct am_visit *visit, uint64_t at);
/* It is given up, whatever its state is. */
void am_visit_end(struct am_visits *visits, struct am_visit *visit);
/* Whether it wants to be here for so long. */
bool am_visit_is_late(const struct am_visit *visit, uint64_t now, uint64_t limit_ns);

/* Does what is due: to be called outside of come() and go(), after each change. */
void am_visits_step(struct am_visits *visits, uint64_t now);
/* When it is to be called again, if nothing changes. */
uint64_t am_visits_next(const struct am_visits *visits);

#endif
