/* See visit.h. */
#include "fabric/visit.h"

#include <stddef.h>

static int visit_compare(const struct am_visit *a, const struct am_visit *b)
{
    if (a->due != b->due)
        return a->due < b->due ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

RB_GENERATE_INTERNAL(am_visit_tree, am_visit, node, visit_compare,
                     __attribute__((unused)) static)

static struct am_visit *visit_of(struct am_seat *seat)
{
    return (struct am_visit *)((char *)seat - offsetof(struct am_visit, seat));
}

void am_visits_init(struct am_visits *visits, size_t limit, uint64_t idle_ns,
                    uint64_t seed)
{
    *visits = (struct am_visits){.idle_ns = idle_ns, .dice = seed | 1};
    am_seats_init(&visits->seats, limit);
    TAILQ_INIT(&visits->waiting);
    TAILQ_INIT(&visits->leaving);
    RB_INIT(&visits->away);
}

static void visit_away(struct am_visits *visits, struct am_visit *visit, uint64_t due)
{
    visit->state = AM_VISIT_AWAY;
    visit->due = due;
    RB_INSERT(am_visit_tree, &visits->away, visit);
}

void am_visits_add(struct am_visits *visits, struct am_visit *visit)
{
    *visit = (struct am_visit){.number = visits->n_ever++};
    visit_away(visits, visit, AM_VISIT_NEVER);
}

static void visit_wait(struct am_visits *visits, struct am_visit *visit)
{
    RB_REMOVE(am_visit_tree, &visits->away, visit);
    visit->state = AM_VISIT_WAITING;
    TAILQ_INSERT_TAIL(&visits->waiting, visit, next);
    visits->n_waiting++;
}

/* It takes up no new work, and goes in a later step. */
static void visit_leave(struct am_visits *visits, struct am_visit *visit)
{
    if (!visit->seat.is_taken || visit->seat.is_leaving)
        return;
    am_seats_leave(&visits->seats, &visit->seat);
    if (visit->state == AM_VISIT_HERE)
        TAILQ_INSERT_TAIL(&visits->leaving, visit, next);
}

void am_visit_want(struct am_visits *visits, struct am_visit *visit, uint64_t now)
{
    if (visit->state == AM_VISIT_OVER || visit->is_wanted || am_visit_is_open(visit))
        return;
    visit->is_wanted = true;
    visit->since = now;
    if (visit->state == AM_VISIT_AWAY)
        visit_wait(visits, visit);
}

bool am_visit_is_open(const struct am_visit *visit)
{
    return visit->state == AM_VISIT_HERE && !visit->seat.is_leaving;
}

void am_visit_work(struct am_visits *visits, struct am_visit *visit, uint64_t now)
{
    visit->n_busy++;
    am_seats_use(&visits->seats, &visit->seat, now);
}

void am_visit_done(struct am_visits *visits, struct am_visit *visit, uint64_t now)
{
    visit->n_busy--;
    am_seats_use(&visits->seats, &visit->seat, now);
}

void am_visit_here(struct am_visits *visits, struct am_visit *visit, uint64_t lease_ns,
                   uint64_t now)
{
    visit->state = AM_VISIT_HERE;
    visit->lease_ns = lease_ns;
    am_seats_use(&visits->seats, &visit->seat, now);
    if (visit->seat.is_leaving)
        TAILQ_INSERT_TAIL(&visits->leaving, visit, next);
    else if (!visit->is_wanted) /* it only had to show itself */
        visit_leave(visits, visit);
    visit->is_wanted = false;
    visit->is_retried = false;
}

void am_visit_ask(struct am_visits *visits, struct am_visit *visit)
{
    visit_leave(visits, visit);
}

/*
 * Between a third and two thirds of the lease from now: importers that went at one time do
 * not come back at one time, and one that cannot come has time to try again.
 */
static uint64_t due_choose(struct am_visits *visits, const struct am_visit *visit,
                           uint64_t now)
{
    uint64_t third = visit->lease_ns / 3;

    visits->dice ^= visits->dice << 13;
    visits->dice ^= visits->dice >> 7;
    visits->dice ^= visits->dice << 17;
    return third > 0 ? now + third + visits->dice % third : AM_VISIT_NEVER;
}

bool am_visit_closed(struct am_visits *visits, struct am_visit *visit, uint64_t now)
{
    if (visit->state != AM_VISIT_GOING)
        return false;
    am_seats_give(&visits->seats, &visit->seat);
    visit_away(visits, visit, due_choose(visits, visit, now));
    if (visit->is_wanted)
        visit_wait(visits, visit);
    return true;
}

void am_visit_retry(struct am_visits *visits, struct am_visit *visit, uint64_t at)
{
    am_seats_give(&visits->seats, &visit->seat);
    visit_away(visits, visit, at);
    visit->is_retried = true;
}

void am_visit_end(struct am_visits *visits, struct am_visit *visit)
{
    switch (visit->state) {
    case AM_VISIT_AWAY:
        RB_REMOVE(am_visit_tree, &visits->away, visit);
        break;
    case AM_VISIT_WAITING:
        TAILQ_REMOVE(&visits->waiting, visit, next);
        visits->n_waiting--;
        break;
    case AM_VISIT_HERE:
        if (visit->seat.is_leaving)
            TAILQ_REMOVE(&visits->leaving, visit, next);
        break;
    default:
        break;
    }
    am_seats_give(&visits->seats, &visit->seat);
    visit->state = AM_VISIT_OVER;
}

bool am_visit_is_late(const struct am_visit *visit, uint64_t now, uint64_t limit_ns)
{
    bool wants_to_come =
        visit->state == AM_VISIT_WAITING || visit->state == AM_VISIT_COMING ||
        (visit->state == AM_VISIT_AWAY && (visit->is_wanted || visit->is_retried));

    return wants_to_come && now - visit->since >= limit_ns;
}

/* ---- steps ---- */

static void due_come(struct am_visits *visits, uint64_t now)
{
    struct am_visit *visit;

    while ((visit = RB_MIN(am_visit_tree, &visits->away)) != NULL && visit->due <= now) {
        if (!visit->is_wanted && !visit->is_retried)
            visit->since = now;
        visit_wait(visits, visit);
    }
}

/* The least used ones leave: those that are idle, and as many as others wait. */
static void room_make(struct am_visits *visits, uint64_t now)
{
    struct am_seats *seats = &visits->seats;
    struct am_seat *seat;

    while ((seat = am_seats_least(seats)) != NULL &&
           now - seat->used >= visits->idle_ns) {
        struct am_visit *visit = visit_of(seat);

        if (visit->state == AM_VISIT_HERE && visit->n_busy == 0)
            visit_leave(visits, visit);
        else
            am_seats_use(seats, seat, now);
    }
    while (visits->n_waiting + seats->n > seats->limit + seats->n_leaving &&
           (seat = am_seats_least(seats)) != NULL)
        visit_leave(visits, visit_of(seat));
}

static void leaving_go(struct am_visits *visits)
{
    struct am_visit *visit, *next;

    for (visit = TAILQ_FIRST(&visits->leaving); visit != NULL; visit = next) {
        next = TAILQ_NEXT(visit, next);
        if (visit->n_busy > 0)
            continue;
        TAILQ_REMOVE(&visits->leaving, visit, next);
        visit->state = AM_VISIT_GOING;
        visits->go(visit);
    }
}

static void waiting_come(struct am_visits *visits, uint64_t now)
{
    struct am_visit *visit;

    while ((visit = TAILQ_FIRST(&visits->waiting)) != NULL &&
           visits->seats.n < visits->seats.limit) {
        TAILQ_REMOVE(&visits->waiting, visit, next);
        visits->n_waiting--;
        am_seats_take(&visits->seats, &visit->seat, now);
        visit->state = AM_VISIT_COMING;
        visits->come(visit);
    }
}

void am_visits_step(struct am_visits *visits, uint64_t now)
{
    due_come(visits, now);
    room_make(visits, now);
    leaving_go(visits);
    waiting_come(visits, now);
}

uint64_t am_visits_next(const struct am_visits *visits)
{
    const struct am_seat *seat = am_seats_least(&visits->seats);
    struct am_visit *visit = RB_MIN(am_visit_tree, (struct am_visit_tree *)&visits->away);
    uint64_t next = visit != NULL ? visit->due : AM_VISIT_NEVER;

    if (seat != NULL && seat->used + visits->idle_ns < next)
        next = seat->used + visits->idle_ns;
    return next;
}
