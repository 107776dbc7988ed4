/* See wait.h. */
#include "core/stream/wait.h"

#include <errno.h>

#include "core/stream/cond.h"

#define STALL_INTERVAL (AM_SECOND / 5) /* between two checks for a stall */
#define STEP_INTERVAL \
    AM_MILLISECOND /* between two attempts of a thread that does steps */
/* Between two polls, the first and the longest. */
#define POLL_FIRST (20 * AM_MILLISECOND / 1000)
#define POLL_LAST AM_MILLISECOND

void am_stall_start(struct am_stall *stall, struct am_sched *sched)
{
    stall->timeout = (struct am_timeout){AM_STALL_TIMEOUT, sched->setup.now()};
    stall->n_completed = am_counter_sum(&sched->n_completed);
}

/* The progress of one wait. */
struct state {
    uint64_t until;
    uint64_t poll_interval;
    uint64_t next_check; /* for a stall; AM_FOREVER: no more */
    struct am_stall *stall;
};

/* Whether the wait is given up.  Releases the lock. */
static bool stall_check_locked(struct am_lock *lock, const struct am_wait *wait,
                               struct state *state) AM_REQUIRES(*lock)
{
    struct am_stall *stall = state->stall;
    uint64_t now = wait->sched->setup.now();
    bool is_over = false;

    state->next_check = now + STALL_INTERVAL;
    am_unlock(lock);
    if (wait->can_end(wait->what, stall)) {
        am_stall_start(stall, wait->sched);
    } else if (!am_timeout_check(&stall->timeout, now, 2 * STALL_INTERVAL)) {
        is_over = wait->stalled(wait->what);
        state->next_check = AM_FOREVER;
    }
    am_lock(lock);
    return is_over;
}

/* Does a step where no worker does; true: something moved.  Releases the lock. */
static bool step_locked(struct am_lock *lock, const struct am_wait *wait,
                        uint64_t *ret_next) AM_REQUIRES(*lock)
{
    struct am_sched *sched = wait->sched;
    bool has_moved;
    uint64_t next;

    if (sched->setup.n_workers > 0 && !sched->setup.is_chaotic)
        return false;
    am_unlock(lock);
    has_moved = am_sched_step(sched);
    next = am_sched_next_step(sched);
    am_lock(lock);
    *ret_next = next < *ret_next ? next : *ret_next;
    next = sched->setup.now() + STEP_INTERVAL;
    *ret_next = next < *ret_next ? next : *ret_next;
    return has_moved;
}

/* Polls a device or another process.  Releases the lock. */
static void poll_locked(struct am_lock *lock, const struct am_wait *wait,
                        struct state *state, uint64_t *ret_next) AM_REQUIRES(*lock)
{
    enum am_progress progress;
    uint64_t now;

    if (wait->poll == NULL)
        return;
    am_unlock(lock);
    progress = wait->poll(wait->what, state->until == AM_FOREVER);
    am_lock(lock);
    if (progress == AM_PROGRESS_NONE)
        return;
    now = wait->sched->setup.now();
    if (*ret_next > now + state->poll_interval)
        *ret_next = now + state->poll_interval;
    if (state->poll_interval < POLL_LAST)
        state->poll_interval *= 2;
}

static int wait_locked(struct am_lock *lock, const struct am_wait *wait,
                       struct state *state) AM_REQUIRES(*lock)
{
    struct am_sched *sched = wait->sched;

    while (!wait->is_done(wait->what)) {
        uint64_t next =
            state->until < state->next_check ? state->until : state->next_check;

        if (sched->setup.now() >= state->until)
            return ETIMEDOUT;
        if (step_locked(lock, wait, &next))
            continue;
        poll_locked(lock, wait, state, &next);
        if (wait->is_done(wait->what)) /* the lock was released */
            break;
        am_cond_wait_locked(lock, wait->changed, next);
        sched->activity++;
        if (sched->setup.now() >= state->next_check && !wait->is_done(wait->what) &&
            stall_check_locked(lock, wait, state))
            return ETIMEDOUT;
    }
    return 0;
}

int am_wait_locked(struct am_lock *lock, const struct am_wait *wait, uint64_t timeout_ns)
{
    struct am_stall own;
    struct state state = {
        .poll_interval = POLL_FIRST, .next_check = AM_FOREVER, .stall = wait->stall};
    uint64_t now;
    int rc;

    if (wait->is_done(wait->what))
        return 0;
    now = wait->sched->setup.now();
    state.until = timeout_ns > AM_FOREVER - now ? AM_FOREVER : now + timeout_ns;
    if (wait->can_end != NULL) {
        state.next_check = now + STALL_INTERVAL;
        if (state.stall == NULL) {
            state.stall = &own;
            am_stall_start(&own, wait->sched);
        }
    }
    wait->sched->activity++;
    wait->sched->n_waiting++;
    rc = wait_locked(lock, wait, &state);
    wait->sched->n_waiting--;
    return rc;
}
