/*
 * The connections that a fabric process has in one role, and their limit.
 *
 * Each connection has a slot.  Seats stand in the order of their last use.  When there are
 * too many, the least used one is told to leave; it is free when its connection is closed.
 * Plain data and decisions: no sockets, no clock.
 */
#ifndef AM_FABRIC_CONN_SLOTS_H
#define AM_FABRIC_CONN_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

struct am_conn_slot {
    TAILQ_ENTRY(am_conn_slot) next; /* while it is taken and does not leave */
    uint64_t used;                  /* when it was used last */
    bool is_used;
    bool is_draining; /* takes up no new work, and is closed when its work is done */
};

struct am_conn_slots {
    TAILQ_HEAD(am_conn_slots_order, am_conn_slot) order; /* the least used one first */
    size_t limit;
    size_t n; /* taken */
    size_t n_draining;
};

void am_conn_slots_init(struct am_conn_slots *slots, size_t limit);

void am_conn_slots_acquire(struct am_conn_slots *slots, struct am_conn_slot *slot,
                           uint64_t now);
/* Does nothing for a slot that is not taken. */
void am_conn_slots_release(struct am_conn_slots *slots, struct am_conn_slot *slot);
void am_conn_slots_touch(struct am_conn_slots *slots, struct am_conn_slot *slot,
                         uint64_t now);
void am_conn_slots_drain(struct am_conn_slots *slots, struct am_conn_slot *slot);

/*
 * The door of an exporter.  Connections that have not proved the key yet have slots of
 * their own, and leave them for a importer's slot.
 */
#define AM_HANDSHAKES_MAX 64 /* that many of them at most */
#define AM_DRAINING_MAX 64 /* importers over the limit, while others are asked to leave */
#define AM_HANDSHAKE_MIN_NS \
    UINT64_C(250000000) /* for an honest process to prove the key */

enum am_admission {
    AM_ADMISSION_OPEN,
    AM_ADMISSION_EVICT, /* open, and the least used of `handshakes` is dropped for the next one */
    AM_ADMISSION_PAUSED, /* connections wait in the kernel's queue */
};

enum am_admission am_conn_slots_admission(const struct am_conn_slots *handshakes,
                                          const struct am_conn_slots *importers,
                                          uint64_t now);

/* The slot that was not used for the longest time; NULL: all leave, or none is taken. */
struct am_conn_slot *am_conn_slots_lru(const struct am_conn_slots *slots);

#endif
