/* See sched.h. */
#include "core/stream/sched.h"

#include <errno.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/util.h"
#include "core/stream/cond.h"

/*
 * Chaos mode does a step by itself after half a second without a call: that is 10 checks in a
 * row.  Checks are counted because the clock goes on while a debugger stops the program.
 */
#define CHAOS_CHECKS 10
#define CHAOS_CHECK_INTERVAL (50 * AM_MILLISECOND)
#define CHAOS_PACE (20 * AM_MILLISECOND) /* between the steps that it does by itself */

struct am_sched am_sched;

/* Runnables with the same deadline are ordered by address. */
static int deadline_compare(struct am_runnable *a, struct am_runnable *b)
{
    if (a->deadline != b->deadline)
        return a->deadline < b->deadline ? -1 : 1;
    return a == b ? 0 : a < b ? -1 : 1;
}

RB_GENERATE_INTERNAL(am_deadlines, am_runnable, timed, deadline_compare,
                     __attribute__((unused)) static)

/* ---- lists ---- */

/* Wakes one more worker, if one sleeps. */
static void worker_call_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (sched->n_sleeping > 0)
        pthread_cond_signal(&sched->work);
    else if (sched->has_watcher)
        pthread_cond_signal(&sched->clock);
}

/* A worker becomes the watcher, or the watcher reads the clock again. */
static void watcher_call_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (sched->has_watcher)
        pthread_cond_signal(&sched->clock);
    else if (sched->n_sleeping > 0)
        pthread_cond_signal(&sched->work);
}

static bool is_watched_locked(const struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    return sched->n_polled > 0 || !RB_EMPTY(&sched->timed);
}

static void ready_add_locked(struct am_sched *sched, struct am_runnable *runnable)
    AM_REQUIRES(sched->lock)
{
    runnable->list = AM_LISTED_READY;
    TAILQ_INSERT_TAIL(&sched->ready[runnable->priority], runnable, link);
    sched->n_ready++;
    worker_call_locked(sched);
}

static void unlist_locked(struct am_sched *sched, struct am_runnable *runnable)
    AM_REQUIRES(sched->lock)
{
    if (runnable->list == AM_LISTED_READY) {
        TAILQ_REMOVE(&sched->ready[runnable->priority], runnable, link);
        sched->n_ready--;
    } else if (runnable->list == AM_LISTED_PARKED) {
        if (runnable->is_polled) {
            TAILQ_REMOVE(&sched->polled, runnable, link);
            sched->n_polled--;
        }
        if (runnable->deadline != AM_FOREVER)
            RB_REMOVE(am_deadlines, &sched->timed, runnable);
    }
    runnable->list = AM_UNLISTED;
}

void am_sched_make_ready(struct am_sched *sched, struct am_runnable *runnable)
{
    am_lock(&sched->lock);
    am_assert(runnable->list != AM_LISTED_READY);
    unlist_locked(sched, runnable);
    ready_add_locked(sched, runnable);
    am_unlock(&sched->lock);
}

void am_sched_park(struct am_sched *sched, struct am_runnable *runnable)
{
    bool must_watch;

    am_lock(&sched->lock);
    am_assert(runnable->list == AM_UNLISTED);
    must_watch = runnable->is_polled && sched->n_polled == 0;
    runnable->list = AM_LISTED_PARKED;
    if (runnable->is_polled) {
        TAILQ_INSERT_TAIL(&sched->polled, runnable, link);
        sched->n_polled++;
        runnable->round = sched->n_rounds;
    }
    if (runnable->deadline != AM_FOREVER) {
        RB_INSERT(am_deadlines, &sched->timed, runnable);
        must_watch = must_watch || RB_MIN(am_deadlines, &sched->timed) == runnable;
    }
    if (must_watch)
        watcher_call_locked(sched);
    am_unlock(&sched->lock);
}

bool am_sched_wake(struct am_sched *sched, struct am_runnable *runnable)
{
    bool is_parked;

    am_lock(&sched->lock);
    is_parked = runnable->list == AM_LISTED_PARKED;
    if (is_parked) {
        unlist_locked(sched, runnable);
        ready_add_locked(sched, runnable);
    }
    am_unlock(&sched->lock);
    return is_parked;
}

bool am_sched_claim(struct am_sched *sched, struct am_runnable *runnable)
{
    bool is_listed;

    am_lock(&sched->lock);
    is_listed = runnable->list != AM_UNLISTED;
    unlist_locked(sched, runnable);
    am_unlock(&sched->lock);
    return is_listed;
}

/* ---- steps ---- */

static uint64_t next_step_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    const struct am_runnable *first = RB_MIN(am_deadlines, &sched->timed);
    uint64_t deadline = first != NULL ? first->deadline : AM_FOREVER;
    uint64_t poll = sched->setup.now() + AM_POLL_INTERVAL;

    return sched->n_polled > 0 && poll < deadline ? poll : deadline;
}

uint64_t am_sched_next_step(struct am_sched *sched)
{
    return AM_LOCKED(&sched->lock, next_step_locked(sched));
}

/* Advances a runnable that this thread has claimed, without the lock. */
static bool advance_locked(struct am_sched *sched, struct am_runnable *runnable)
    AM_REQUIRES(sched->lock)
{
    bool has_moved;

    if (sched->n_ready > 0) /* this thread is busy from now on */
        worker_call_locked(sched);
    if (is_watched_locked(sched) && !sched->has_watcher)
        watcher_call_locked(sched);
    am_unlock(&sched->lock);
    has_moved = runnable->advance(runnable);
    am_lock(&sched->lock);
    return has_moved;
}

static struct am_runnable *ready_find_locked(struct am_sched *sched)
    AM_REQUIRES(sched->lock)
{
    struct am_runnable *runnable;
    unsigned skip = 0;

    if (sched->setup.is_chaotic) { /* xorshift: a seed gives one order on every machine */
        sched->random ^= sched->random << 13;
        sched->random ^= sched->random >> 7;
        sched->random ^= sched->random << 17;
        skip = (unsigned)((sched->random >> 33) % sched->n_ready);
    }
    for (int i = 0; i < AM_PRIORITIES; i++) {
        TAILQ_FOREACH (runnable, &sched->ready[i], link) {
            if (skip-- == 0)
                return runnable;
        }
    }
    return NULL;
}

/* Polls when idle, and at least every AM_POLL_INTERVAL. */
static bool poll_is_due_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    uint64_t now;

    if (sched->n_polled == 0)
        return false;
    now = sched->setup.now();
    if (sched->n_ready > 0 && now - sched->last_poll < AM_POLL_INTERVAL)
        return false;
    sched->last_poll = now;
    return true;
}

/* Advances each polled runnable once, until one of them moves. */
static bool polled_step_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    uint64_t round = ++sched->n_rounds;
    struct am_runnable *runnable;
    bool has_moved = false;

    while (!has_moved && (runnable = TAILQ_FIRST(&sched->polled)) != NULL &&
           runnable->round < round) {
        unlist_locked(sched, runnable);
        sched->n_polled++; /* the watcher still has to wake up in time */
        has_moved = advance_locked(sched, runnable);
        sched->n_polled--;
    }
    return has_moved;
}

bool am_sched_step(struct am_sched *sched)
{
    struct am_runnable *first;
    bool has_moved = true;

    am_epoch_enter();
    am_lock(&sched->lock);
    sched->n_stepping++;
    first = RB_MIN(am_deadlines, &sched->timed);
    if (sched->pause.left > 0 && sched->paused == (uint64_t)pthread_self() &&
        am_timeout_check(&sched->pause, am_clock(), CHAOS_CHECK_INTERVAL)) {
        has_moved = false; /* a function of the program has to end first: chaos mode */
    } else if (first != NULL && first->deadline <= sched->setup.now()) {
        unlist_locked(sched, first);
        (void)advance_locked(sched, first);
    } else if (poll_is_due_locked(sched) && polled_step_locked(sched)) {
        ; /* that was the step */
    } else if (sched->n_ready > 0) {
        first = ready_find_locked(sched);
        unlist_locked(sched, first);
        (void)advance_locked(sched, first);
    } else {
        has_moved = false;
    }
    sched->n_stepping--;
    am_unlock(&sched->lock);
    am_epoch_leave();
    return has_moved;
}

void am_sched_nudge(struct am_sched *sched)
{
    if (!sched->setup.is_chaotic && sched->setup.n_workers > 0)
        return;
    sched->activity++;
    am_sched_step(sched);
}

void am_sched_pause(struct am_sched *sched)
{
    am_lock(&sched->lock);
    if (sched->setup.is_chaotic)
        sched->pause = (struct am_timeout){AM_CHAOS_PAUSE, am_clock()};
    sched->paused = (uint64_t)pthread_self();
    am_unlock(&sched->lock);
}

void am_sched_function_end(struct am_sched *sched)
{
    am_lock(&sched->lock);
    sched->pause.left = 0;
    am_unlock(&sched->lock);
}

bool am_sched_is_active(struct am_sched *sched, uint64_t n_completed)
{
    return AM_LOCKED(&sched->lock, sched->n_ready > 0) ||
           am_counter_sum(&sched->n_running) > 0 ||
           am_counter_sum(&sched->n_completed) != n_completed;
}

bool am_sched_has_deadline(struct am_sched *sched)
{
    return AM_LOCKED(&sched->lock, !RB_EMPTY(&sched->timed));
}

/* ---- threads ---- */

/* Until the worker is called; as the watcher, if one is needed and no thread watches. */
static void worker_sleep_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (is_watched_locked(sched) && !sched->has_watcher) {
        sched->has_watcher = true;
        am_cond_wait_locked(&sched->lock, &sched->clock, next_step_locked(sched));
        sched->has_watcher = false;
    } else {
        sched->n_sleeping++;
        am_cond_wait_locked(&sched->lock, &sched->work, AM_FOREVER);
        sched->n_sleeping--;
    }
}

static void *worker_main(void *arg)
{
    struct am_sched *sched = arg;

    am_lock(&sched->lock);
    while (!sched->is_stopping) {
        bool has_worked;

        am_unlock(&sched->lock);
        has_worked = am_sched_step(sched);
        am_lock(&sched->lock);
        /* Again: work that arrived since the attempt has signalled no sleeping worker. */
        if (!has_worked && sched->n_ready == 0 && !sched->is_stopping)
            worker_sleep_locked(sched);
    }
    am_unlock(&sched->lock);
    return NULL;
}

/*
 * Chaos mode's only thread.  Threads that wait do the steps; this thread does steps after a
 * while without a call, since a program may also wait by reading memory.
 */
static void *chaos_main(void *arg)
{
    struct am_sched *sched = arg;
    uint64_t pause = CHAOS_CHECK_INTERVAL;
    unsigned n_checks = 0; /* in a row without a call in between */

    am_lock(&sched->lock);
    while (!sched->is_stopping) {
        uint64_t seen = sched->activity;
        bool is_idle;

        am_cond_wait_locked(&sched->lock, &sched->work, am_clock() + pause);
        pause = CHAOS_CHECK_INTERVAL;
        is_idle = seen == sched->activity && sched->n_stepping == 0;
        n_checks = is_idle ? n_checks + 1 : 0;
        if (n_checks < CHAOS_CHECKS || sched->is_stopping)
            continue;
        am_unlock(&sched->lock);
        if (am_sched_step(sched))
            pause = CHAOS_PACE;
        else
            n_checks = 0;
        am_lock(&sched->lock);
    }
    am_unlock(&sched->lock);
    return NULL;
}

static aclError workers_start_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    bool is_chaotic = sched->setup.is_chaotic;
    unsigned wanted = is_chaotic ? 1 : sched->setup.n_workers;

    while (sched->n_threads < wanted && !sched->is_stopping) {
        int rc = am_thread_start(&sched->threads[sched->n_threads],
                                 is_chaotic ? chaos_main : worker_main, sched);

        if (rc != 0 && sched->n_threads == 0) {
            errno = rc;
            return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                           "no thread for the work of streams: %m (see ulimit -u)");
        }
        if (rc != 0)
            break; /* fewer workers do the same */
        atomic_store_explicit(&sched->n_threads, sched->n_threads + 1,
                              memory_order_relaxed);
    }
    return ACL_SUCCESS;
}

aclError am_sched_start_workers(struct am_sched *sched)
{
    if (atomic_load_explicit(&sched->n_threads, memory_order_relaxed) > 0)
        return ACL_SUCCESS;
    return AM_LOCKED(&sched->lock, workers_start_locked(sched));
}

void am_sched_init(struct am_sched *sched)
{
    *sched = (struct am_sched){.is_stopping = true};
    am_lock_init(&sched->lock, AM_RANK_SCHED, "scheduler");
    for (int i = 0; i < AM_PRIORITIES; i++)
        TAILQ_INIT(&sched->ready[i]);
    RB_INIT(&sched->timed);
    TAILQ_INIT(&sched->polled);
    am_cond_init(&sched->work);
    am_cond_init(&sched->clock);
}

void am_sched_start(struct am_sched *sched, const struct am_sched_setup *setup)
{
    am_assert(setup->n_workers <= AM_ARRAY_SIZE(sched->threads));
    am_lock(&sched->lock);
    sched->setup.now = setup->now;
    sched->setup.n_workers = setup->n_workers;
    sched->setup.is_chaotic = setup->is_chaotic;
    sched->random = setup->seed * 2 + UINT64_C(0x9e3779b97f4a7c15); /* never 0 */
    sched->activity = 0;
    sched->pause.left = 0;
    sched->is_stopping = false;
    am_unlock(&sched->lock);
}

void am_sched_stop(struct am_sched *sched)
{
    unsigned n_threads;

    am_lock(&sched->lock);
    sched->is_stopping = true;
    pthread_cond_broadcast(&sched->work);
    pthread_cond_broadcast(&sched->clock);
    n_threads = sched->n_threads;
    am_unlock(&sched->lock);
    for (unsigned i = 0; i < n_threads; i++)
        pthread_join(sched->threads[i], NULL);
    am_lock(&sched->lock);
    sched->n_threads = 0;
    am_assert(sched->n_ready == 0 && !is_watched_locked(sched));
    am_unlock(&sched->lock);
}
