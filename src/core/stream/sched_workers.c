/* The threads that run tasks, and the scheduler's start and stop.  See sched.h. */
#include <errno.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/thread.h"
#include "base/util.h"
#include "core/stream/sched.h"

#define CHAOS_PACE (AM_SECOND / 50) /* between the steps that chaos mode does by itself */

/*
 * Until the worker is called; as the watcher, if one is needed and there is none.
 */
static void worker_sleep_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (am_sched_is_watched_locked(sched) && !sched->has_watcher) {
        sched->has_watcher = true;
        am_cond_wait_locked(&sched->lock, &sched->clock,
                            am_sched_next_look_locked(sched));
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
        if (!am_sched_step_locked(sched) && !am_sched_join_locked(sched))
            worker_sleep_locked(sched);
    }
    am_unlock(&sched->lock);
    return NULL;
}

/*
 * Chaos mode's only thread.  Threads that wait run tasks themselves; this one steps in after
 * a while without a call, since a program may also wait by reading memory.
 */
static void *chaos_main(void *arg)
{
    struct am_sched *sched = arg;
    uint64_t pause = AM_CHAOS_LOOK;
    unsigned n_looks = 0; /* in a row without a call in between */

    am_lock(&sched->lock);
    while (!sched->is_stopping) {
        uint64_t seen = sched->activity;

        am_cond_wait_locked(&sched->lock, &sched->work, am_clock() + pause);
        pause = AM_CHAOS_LOOK;
        n_looks = seen == sched->activity && sched->n_stepping == 0 ? n_looks + 1 : 0;
        if (n_looks < AM_CHAOS_LOOKS || sched->is_stopping)
            continue;
        if (am_sched_step_locked(sched))
            pause = CHAOS_PACE;
        else
            n_looks = 0;
    }
    am_unlock(&sched->lock);
    return NULL;
}

aclError am_sched_start_workers_locked(struct am_sched *sched)
{
    unsigned wanted = sched->setup.is_chaotic ? 1 : sched->setup.n_workers;

    while (sched->n_threads < wanted) {
        int rc =
            am_thread_start(&sched->threads[sched->n_threads],
                            sched->setup.is_chaotic ? chaos_main : worker_main, sched);

        if (rc != 0 && sched->n_threads == 0) {
            errno = rc;
            return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                           "no thread for the work of streams: %m (see ulimit -u)");
        }
        if (rc != 0)
            break; /* fewer will do */
        sched->n_threads++;
    }
    return ACL_SUCCESS;
}

void am_sched_init(struct am_sched *sched)
{
    *sched = (struct am_sched){.is_stopping = true};
    am_lock_init(&sched->lock, AM_RANK_SCHED, "scheduler");
    for (int i = 0; i < AM_PRIORITIES; i++)
        TAILQ_INIT(&sched->ready[i]);
    TAILQ_INIT(&sched->shares);
    RB_INIT(&sched->timed);
    TAILQ_INIT(&sched->polled);
    am_cond_init(&sched->work);
    am_cond_init(&sched->clock);
}

void am_sched_destroy(struct am_sched *sched)
{
    pthread_cond_destroy(&sched->clock);
    pthread_cond_destroy(&sched->work);
    am_lock_destroy(&sched->lock);
}

void am_sched_start(struct am_sched *sched, const struct am_sched_setup *setup)
{
    am_assert(setup->n_workers <= AM_ARRAY_SIZE(sched->threads));
    am_lock(&sched->lock);
    sched->setup.now = setup->now;
    sched->setup.warn = setup->warn;
    sched->setup.n_workers = setup->n_workers;
    sched->setup.is_chaotic = setup->is_chaotic;
    sched->random = setup->seed * 2 + UINT64_C(0x9e3779b97f4a7c15); /* never 0 */
    sched->activity = 0;
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
    am_assert(sched->n_ready == 0 && !am_sched_is_watched_locked(sched));
    am_unlock(&sched->lock);
}
