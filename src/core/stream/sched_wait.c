/* Waiting for what queues do, and giving up.  See sched.h. */
#include <errno.h>

#include "base/epoch.h"
#include "core/stream/sched_bypass.h"

#define QUIET_LOOK (AM_SECOND / 10)
#define WORRY_LOOK AM_SECOND
#define CHAOS_LOOK \
    (AM_SECOND / 1000) /* how often a waiting thread looks for a step to do */

void am_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

int am_cond_wait_locked(struct am_lock *lock, pthread_cond_t *cond, uint64_t until)
{
    struct timespec at = {.tv_sec = (time_t)(until / AM_SECOND),
                          .tv_nsec = (long)(until % AM_SECOND)};
    unsigned depth = am_epoch_suspend();
    int rc;

    if (until == AM_FOREVER)
        rc = pthread_cond_wait(cond, &lock->mutex);
    else
        rc = pthread_cond_timedwait(cond, &lock->mutex, &at);
    am_epoch_resume(depth);
    return rc;
}

int am_sched_wait_locked(struct am_sched *sched, pthread_cond_t *cond,
                         bool (*is_done)(void *), void *what, uint64_t timeout_ns)
{
    uint64_t start;
    uint64_t until;
    int rc = 0;

    if (is_done(what))
        return 0;
    start = sched->setup.now();
    until = timeout_ns > AM_FOREVER - start ? AM_FOREVER : start + timeout_ns;
    sched->activity++;
    sched->n_waiting++;
    while (!is_done(what)) {
        bool can_step = sched->n_threads == 0 || sched->setup.is_chaotic;
        uint64_t look = until;

        if (sched->setup.now() >= until) {
            rc = ETIMEDOUT;
            break;
        }
        if (can_step && am_sched_step_locked(sched))
            continue;
        if (can_step) {
            /*
             * No worker watches the clock here, or takes a queue that another thread's
             * step made ready.
             */
            uint64_t soon = sched->setup.now() + CHAOS_LOOK;
            uint64_t next = am_sched_next_look_locked(sched);

            look = next < look ? next : look;
            look = soon < look ? soon : look;
        }
        am_cond_wait_locked(&sched->lock, cond, look);
        sched->activity++;
    }
    sched->n_waiting--;
    return rc;
}

int am_sched_wait_worried_locked(struct am_sched *sched, pthread_cond_t *cond,
                                 bool (*is_done)(void *), void *what, uint64_t timeout_ns,
                                 const struct am_worry *worry)
{
    uint64_t start = sched->setup.now();
    uint64_t until = timeout_ns > AM_FOREVER - start ? AM_FOREVER : start + timeout_ns;
    uint64_t left = timeout_ns;
    struct am_quiet quiet = {.patience.left = AM_PATIENCE}; /* most waits end before */

    while (quiet.patience.left > 0 && left > WORRY_LOOK) {
        uint64_t now;

        if (am_sched_wait_locked(sched, cond, is_done, what, WORRY_LOOK) == 0)
            return 0;
        now = sched->setup.now();
        if (until != AM_FOREVER)
            left = until > now ? until - now : 0;
        if (quiet.patience.looked == 0) {
            am_quiet_begin_locked(sched, &quiet);
            quiet.patience.looked = start;
        }
        if (worry->can_come(what, sched, &quiet))
            am_quiet_begin_locked(sched, &quiet);
        else if (!am_patience_look(&quiet.patience, now, 2 * WORRY_LOOK))
            worry->warn(what, sched);
    }
    return am_sched_wait_locked(sched, cond, is_done, what, left);
}

struct queue_target {
    struct am_queue *queue;
    uint64_t n_done;
};

static bool queue_is_there(void *what)
{
    const struct queue_target *target = what;

    return target->queue->n_done >= target->n_done;
}

AM_NO_LOCK_ANALYSIS /* called with the lock, as the next one */
    static bool
    queue_can_come(void *what, struct am_sched *sched, const struct am_quiet *quiet)
{
    struct am_queue *queue = ((const struct queue_target *)what)->queue;

    am_walk_begin_locked(sched);
    return am_queue_can_move_locked(sched, queue) || am_walk_end_locked(sched, quiet);
}

/* Once for a task, however often it is waited for. */
static void queue_warn(void *what, struct am_sched *sched)
{
    struct am_queue *queue = ((const struct queue_target *)what)->queue;
    struct am_task *task = TAILQ_FIRST(&queue->tasks);

    if (task->is_warned || sched->setup.warn == NULL)
        return;
    task->is_warned = true;
    sched->setup.warn(queue);
}

static const struct am_worry queue_worry = {queue_can_come, queue_warn};

int am_sched_wait_task_locked(struct am_sched *sched, struct am_queue *queue,
                              uint64_t number, uint64_t timeout_ns)
{
    struct queue_target target = {queue, number};

    if (queue_is_there(&target))
        return 0;
    return am_sched_wait_worried_locked(sched, &queue->changed, queue_is_there, &target,
                                        timeout_ns, &queue_worry);
}

int am_sched_wait_queue_locked(struct am_sched *sched, struct am_queue *queue,
                               uint64_t timeout_ns)
{
    int rc;

    am_bypass_close_locked(sched, queue);
    rc = am_sched_wait_task_locked(sched, queue, queue->n_queued, timeout_ns);
    am_bypass_open_locked(sched, queue);
    return rc;
}

void am_quiet_begin_locked(struct am_sched *sched, struct am_quiet *quiet)
{
    *quiet = (struct am_quiet){.patience = {AM_PATIENCE, sched->setup.now()},
                               .n_moves = am_tally_sum(&sched->moves)};
}

uint64_t am_quiet_look_locked(struct am_sched *sched, struct am_quiet *quiet)
{
    uint64_t now = sched->setup.now();

    return am_patience_look(&quiet->patience, now, 2 * QUIET_LOOK) ? now + QUIET_LOOK : 0;
}

/*
 * Each queue is asked once in a walk: those that wait for each other in a circle cannot
 * move.
 */
bool am_queue_can_move_locked(struct am_sched *sched, struct am_queue *queue)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);

    if (queue->visit == sched->visit)
        return false;
    queue->visit = sched->visit;
    if (queue->state != AM_QUEUE_PARKED && queue->state != AM_QUEUE_CHECKED)
        return true;
    if (task->is_outside) /* one that waits here itself does not go on */
        return !pthread_equal(task->runner, pthread_self());
    if (task->deadline != AM_FOREVER)
        return true;
    if (queue->waiting_on == NULL)
        sched->has_met_polled = true;
    return task->ops->comes_alone ||
           (task->ops->can_come != NULL && task->ops->can_come(task, sched));
}

void am_walk_begin_locked(struct am_sched *sched)
{
    sched->visit++;
    sched->has_met_polled = false;
}

/* Memory may change while anything moves, or will. */
bool am_walk_end_locked(struct am_sched *sched, const struct am_quiet *quiet)
{
    if (!sched->has_met_polled)
        return false;
    return !RB_EMPTY(&sched->timed) || sched->n_running > 0 || sched->n_ready > 0 ||
           sched->n_outside > 0 || am_tally_sum(&sched->moves) != quiet->n_moves;
}

int am_sched_wait_quiet_locked(struct am_sched *sched, struct am_queue *queue,
                               struct am_quiet *quiet)
{
    uint64_t target;

    am_bypass_close_locked(sched, queue);
    target = queue->n_queued;
    while (queue->n_done < target) {
        am_walk_begin_locked(sched);
        if (am_queue_can_move_locked(sched, queue) || am_walk_end_locked(sched, quiet))
            am_quiet_begin_locked(sched, quiet);
        else if (am_quiet_look_locked(sched, quiet) == 0)
            return ETIMEDOUT;
        am_sched_wait_task_locked(sched, queue, target, QUIET_LOOK);
    }
    am_bypass_open_locked(sched, queue);
    return 0;
}

void am_sched_nudge_locked(struct am_sched *sched)
{
    sched->activity++;
    if (sched->setup.is_chaotic || sched->setup.n_workers == 0)
        am_sched_step_locked(sched);
}
