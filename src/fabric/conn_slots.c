/* See slots.h. */
#include "fabric/conn_slots.h"

void am_conn_slots_init(struct am_conn_slots *slots, size_t limit)
{
    *slots = (struct am_conn_slots){.limit = limit > 0 ? limit : 1};
    TAILQ_INIT(&slots->order);
}

void am_conn_slots_acquire(struct am_conn_slots *slots, struct am_conn_slot *slot,
                           uint64_t now)
{
    *slot = (struct am_conn_slot){.used = now, .is_used = true};
    TAILQ_INSERT_TAIL(&slots->order, slot, next);
    slots->n++;
}

void am_conn_slots_release(struct am_conn_slots *slots, struct am_conn_slot *slot)
{
    if (!slot->is_used)
        return;
    if (slot->is_draining)
        slots->n_draining--;
    else
        TAILQ_REMOVE(&slots->order, slot, next);
    slots->n--;
    *slot = (struct am_conn_slot){0};
}

void am_conn_slots_touch(struct am_conn_slots *slots, struct am_conn_slot *slot,
                         uint64_t now)
{
    slot->used = now;
    if (!slot->is_used || slot->is_draining)
        return;
    TAILQ_REMOVE(&slots->order, slot, next);
    TAILQ_INSERT_TAIL(&slots->order, slot, next);
}

void am_conn_slots_drain(struct am_conn_slots *slots, struct am_conn_slot *slot)
{
    if (!slot->is_used || slot->is_draining)
        return;
    TAILQ_REMOVE(&slots->order, slot, next);
    slot->is_draining = true;
    slots->n_draining++;
}

struct am_conn_slot *am_conn_slots_lru(const struct am_conn_slots *slots)
{
    return TAILQ_FIRST(&slots->order);
}

/*
 * A stranger keeps others out for a moment only, and many honest processes that come at one
 * time do not push each other out.
 */
enum am_admission am_conn_slots_admission(const struct am_conn_slots *handshakes,
                                          const struct am_conn_slots *importers,
                                          uint64_t now)
{
    if (importers->n >= importers->limit + AM_DRAINING_MAX)
        return AM_ADMISSION_PAUSED;
    if (handshakes->n - handshakes->n_draining < AM_HANDSHAKES_MAX)
        return AM_ADMISSION_OPEN;
    return now - am_conn_slots_lru(handshakes)->used >= AM_HANDSHAKE_MIN_NS
               ? AM_ADMISSION_EVICT
               : AM_ADMISSION_PAUSED;
}
