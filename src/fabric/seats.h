/*
 * The connections that a fabric process has in one role, and their limit.
 *
 * Each connection has a seat.  Seats stand in the order of their last use.  When there are
 * too many, the least used one is told to leave; it is free when its connection is closed.
 * Plain data and decisions: no sockets, no clock.
 */
#ifndef AM_FABRIC_SEATS_H
#define AM_FABRIC_SEATS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct am_seat {
    TAILQ_ENTRY(am_seat) next; /* while it is taken and does not leave */
    uint64_t used;             /* when it was used last */
    bool is_taken;
    bool is_leaving; /* takes up no new work, and is closed when its work is done */
};

struct am_seats {
    TAILQ_HEAD(am_seats_order, am_seat) order; /* the least used one first */
    size_t limit;
    size_t n; /* taken */
    size_t n_leaving;
};

void am_seats_init(struct am_seats *seats, size_t limit);

void am_seats_take(struct am_seats *seats, struct am_seat *seat, uint64_t now);
/* Does nothing for a seat that is not taken. */
void am_seats_give(struct am_seats *seats, struct am_seat *seat);
void am_seats_use(struct am_seats *seats, struct am_seat *seat, uint64_t now);
void am_seats_leave(struct am_seats *seats, struct am_seat *seat);

/*
 * The door of an exporter.  Connections that have not proved the key yet have seats of
 * their own, and leave them for a guest's seat.
 */
#define AM_DOOR_SHAKING 64 /* that many of them at most */
#define AM_DOOR_LEAVING 64 /* guests over the limit, while others are asked to leave */
#define AM_DOOR_NS UINT64_C(250000000) /* for an honest process to prove the key */

enum am_door {
    AM_DOOR_OPEN,
    AM_DOOR_FULL, /* open, and the least used of `shaking` is dropped for the next one */
    AM_DOOR_SHUT, /* connections wait in the kernel's queue */
};

enum am_door am_seats_door(const struct am_seats *shaking, const struct am_seats *guests,
                           uint64_t now);

/* The seat that was not used for the longest time; NULL: all leave, or none is taken. */
struct am_seat *am_seats_least(const struct am_seats *seats);

#endif
