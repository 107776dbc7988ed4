/* See seats.h. */
#include "fabric/seats.h"

void am_seats_init(struct am_seats *seats, size_t limit)
{
    *seats = (struct am_seats){.limit = limit > 0 ? limit : 1};
    TAILQ_INIT(&seats->order);
}

void am_seats_take(struct am_seats *seats, struct am_seat *seat, uint64_t now)
{
    *seat = (struct am_seat){.used = now, .is_taken = true};
    TAILQ_INSERT_TAIL(&seats->order, seat, next);
    seats->n++;
}

void am_seats_give(struct am_seats *seats, struct am_seat *seat)
{
    if (!seat->is_taken)
        return;
    if (seat->is_leaving)
        seats->n_leaving--;
    else
        TAILQ_REMOVE(&seats->order, seat, next);
    seats->n--;
    *seat = (struct am_seat){0};
}

void am_seats_use(struct am_seats *seats, struct am_seat *seat, uint64_t now)
{
    seat->used = now;
    if (!seat->is_taken || seat->is_leaving)
        return;
    TAILQ_REMOVE(&seats->order, seat, next);
    TAILQ_INSERT_TAIL(&seats->order, seat, next);
}

void am_seats_leave(struct am_seats *seats, struct am_seat *seat)
{
    if (!seat->is_taken || seat->is_leaving)
        return;
    TAILQ_REMOVE(&seats->order, seat, next);
    seat->is_leaving = true;
    seats->n_leaving++;
}

struct am_seat *am_seats_least(const struct am_seats *seats)
{
    return TAILQ_FIRST(&seats->order);
}

/*
 * A stranger keeps others out for a moment only, and many honest processes that come at one
 * time do not push each other out.
 */
enum am_door am_seats_door(const struct am_seats *shaking, const struct am_seats *guests,
                           uint64_t now)
{
    if (guests->n >= guests->limit + AM_DOOR_LEAVING)
        return AM_DOOR_SHUT;
    if (shaking->n - shaking->n_leaving < AM_DOOR_SHAKING)
        return AM_DOOR_OPEN;
    return now - am_seats_least(shaking)->used >= AM_DOOR_NS ? AM_DOOR_FULL
                                                             : AM_DOOR_SHUT;
}
