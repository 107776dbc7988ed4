/* See sched.h. */
#include "core/sched.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"

#define SECOND UINT64_C(1000000000)
#define POLL_INTERVAL (SECOND / 20000) /* how often memory is looked at: 50 us */
#define QUIET_LOOK (SECOND / 10)
#define QUIET_PATIENCE (5 * SECOND)
#define CHAOS_PACE (SECOND / 50)   /* between the steps that chaos mode does by itself */
#define CHAOS_LOOK (SECOND / 1000) /* how often one who waits looks for a step to do */

uint64_t am_sched_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * SECOND + (uint64_t)now.tv_nsec;
}

void am_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

int am_cond_wait_locked(struct am_sched *sched, pthread_cond_t *cond, uint64_t until)
{
    struct timespec at = {.tv_sec = (time_t)(until / SECOND),
                          .tv_nsec = (long)(until % SECOND)};

    if (until == AM_FOREVER)
        return pthread_cond_wait(cond, &sched->lock.mutex);
    return pthread_cond_timedwait(cond, &sched->lock.mutex, &at);
}

/* A number below n; xorshift, so that a seed gives the same order everywhere. */
static unsigned random_below(struct am_sched *sched, unsigned n)
{
    sched->random ^= sched->random << 13;
    sched->random ^= sched->random >> 7;
    sched->random ^= sched->random << 17;
    return (unsigned)((sched->random >> 33) % n);
}

void am_queue_init(struct am_queue *queue, unsigned priority)
{
    *queue = (struct am_queue){.priority = priority, .state = AM_QUEUE_IDLE};
    TAILQ_INIT(&queue->tasks);
    am_cond_init(&queue->changed);
}

void am_queue_destroy(struct am_queue *queue)
{
    am_assert(TAILQ_EMPTY(&queue->tasks) && queue->state == AM_QUEUE_IDLE);
    pthread_cond_destroy(&queue->changed);
}

/* One more thread may have something to do. */
static void worker_call_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (sched->n_sleeping > 0)
        pthread_cond_signal(&sched->work);
    else if (sched->has_watcher)
        pthread_cond_signal(&sched->clock);
}

/* Somebody must watch the clock, or look at it anew. */
static void watcher_call_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (sched->has_watcher)
        pthread_cond_signal(&sched->clock);
    else if (sched->n_sleeping > 0)
        pthread_cond_signal(&sched->work);
}

static void queue_make_ready_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    queue->state = AM_QUEUE_READY;
    TAILQ_INSERT_TAIL(&sched->ready[queue->priority], queue, link);
    sched->n_ready++;
    worker_call_locked(sched);
}

static void queue_unready_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    TAILQ_REMOVE(&sched->ready[queue->priority], queue, link);
    sched->n_ready--;
}

/* Park the queue on list (NULL: memory decides), with its first task's deadline. */
static void queue_park_locked(struct am_sched *sched, struct am_queue *queue,
                              struct am_waitlist *list) AM_REQUIRES(sched->lock)
{
    uint64_t deadline = TAILQ_FIRST(&queue->tasks)->deadline;

    queue->state = AM_QUEUE_PARKED;
    queue->waiting_on = list;
    if (list != NULL)
        TAILQ_INSERT_TAIL(&list->queues, queue, link);
    else
        sched->n_polled++;
    queue->is_timed = list == NULL || deadline != AM_FOREVER;
    if (queue->is_timed) {
        TAILQ_INSERT_TAIL(&sched->timed, queue, timed);
        if (deadline < sched->soonest)
            sched->soonest = deadline;
        watcher_call_locked(sched);
    }
}

static void queue_unpark_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    if (queue->waiting_on != NULL)
        TAILQ_REMOVE(&queue->waiting_on->queues, queue, link);
    else
        sched->n_polled--;
    queue->waiting_on = NULL;
    if (queue->is_timed)
        TAILQ_REMOVE(&sched->timed, queue, timed);
    queue->is_timed = false;
}

void am_sched_wake_locked(struct am_sched *sched, struct am_waitlist *list)
{
    struct am_queue *queue;

    while ((queue = TAILQ_FIRST(&list->queues)) != NULL) {
        queue_unpark_locked(sched, queue);
        queue_make_ready_locked(sched, queue);
    }
}

/* The queue's first failure, for the next one who synchronises. */
static void queue_fail_locked(struct am_queue *queue, const struct am_task *task,
                              aclError rc, const char *why)
{
    if (queue->error == ACL_SUCCESS) {
        queue->error = rc;
        snprintf(queue->why, sizeof queue->why, "work queued by %s failed: %.*s",
                 task->function, (int)sizeof queue->why - 100, why);
    }
    if (queue->stop_on_failure)
        queue->is_stopped = true;
}

/* A task of a running queue is done.  The queue may go with whoever waited for that. */
static void queue_done_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    queue->n_done++;
    if (TAILQ_EMPTY(&queue->tasks))
        queue->state = AM_QUEUE_IDLE;
    else
        queue_make_ready_locked(sched, queue);
    pthread_cond_broadcast(&queue->changed);
}

/*
 * Take the first task out and go on to the next one.  The lock is released while it is
 * dropped.
 */
static void task_leave_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);

    TAILQ_REMOVE(&queue->tasks, task, next);
    queue->state = AM_QUEUE_RUNNING; /* nobody else takes it while the lock is released */
    am_unlock(&sched->lock);
    task->ops->drop(task);
    am_lock(&sched->lock);

    queue_done_locked(sched, queue);
}

/*
 * This thread is going to work: what it might have done next, and its watch, are another
 * one's.
 */
static void others_call_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (sched->n_ready > 0)
        worker_call_locked(sched);
    if (!TAILQ_EMPTY(&sched->timed) && !sched->has_watcher)
        watcher_call_locked(sched);
}

/* Run the queue's first task, which is ready. */
static void task_run_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);
    char why[sizeof queue->why] = "";
    aclError rc = ACL_SUCCESS;

    queue->state = AM_QUEUE_RUNNING;
    if (task->ops->run != NULL) {
        const char *function = am_error_function;

        sched->n_running++;
        others_call_locked(sched);
        am_unlock(&sched->lock);
        am_error_function = task->function;
        am_error_capture(why, sizeof why);
        rc = task->ops->run(task);
        am_error_capture(NULL, 0);
        am_error_function = function;
        am_lock(&sched->lock);
        sched->n_running--;
    }
    if (rc != ACL_SUCCESS)
        queue_fail_locked(queue, task, rc, why);
    else if (task->ops->finish != NULL)
        task->ops->finish(task, sched);
    sched->n_moves++;
    task_leave_locked(sched, queue);
}

static bool first_is_dropped(const struct am_queue *queue)
{
    return queue->is_stopped || queue->n_done < queue->drop_until;
}

/* The queue is in nobody's list: look at its first task. */
static void queue_advance_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);
    struct am_waitlist *list = NULL;
    uint64_t now = sched->setup.now();

    queue->state = AM_QUEUE_RUNNING; /* a poll may release the lock */
    if (first_is_dropped(queue)) {
        task_leave_locked(sched, queue);
        return;
    }
    if (!task->is_first) {
        task->is_first = true;
        if (task->deadline != AM_FOREVER)
            task->deadline += now;
    }
    if (task->ops->poll == NULL || task->ops->poll(task, sched, &list)) {
        task_run_locked(sched, queue);
    } else if (first_is_dropped(queue)) {
        task_leave_locked(sched, queue); /* since the poll */
    } else if (now >= task->deadline) {
        queue_fail_locked(queue, task, task->ops->timeout,
                          "what it waits for did not come in time");
        sched->n_moves++;
        task_leave_locked(sched, queue);
    } else {
        queue_park_locked(sched, queue, list);
    }
}

/* A parked queue whose time has come. */
static struct am_queue *timed_find_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    uint64_t now = sched->setup.now();
    uint64_t soonest = AM_FOREVER;
    struct am_queue *queue;

    if (now < sched->soonest)
        return NULL;
    TAILQ_FOREACH (queue, &sched->timed, timed) {
        uint64_t deadline = TAILQ_FIRST(&queue->tasks)->deadline;

        if (deadline <= now)
            return queue;
        if (deadline < soonest)
            soonest = deadline;
    }
    sched->soonest = soonest;
    return NULL;
}

static struct am_queue *ready_find_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    unsigned skip = sched->setup.is_chaotic ? random_below(sched, sched->n_ready) : 0;
    struct am_queue *queue;

    for (int i = 0; i < AM_PRIORITIES; i++) {
        TAILQ_FOREACH (queue, &sched->ready[i], link) {
            if (skip-- == 0)
                return queue;
        }
    }
    return NULL;
}

/* Poll the queues that memory decides about; true when one of them moved on. */
static bool polled_step_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    struct am_queue *queue;
    struct am_waitlist *list = NULL;

    TAILQ_FOREACH (queue, &sched->timed, timed) {
        struct am_task *task = TAILQ_FIRST(&queue->tasks);

        if (queue->waiting_on == NULL && task->ops->poll(task, sched, &list)) {
            queue_unpark_locked(sched, queue);
            task_run_locked(sched, queue);
            return true;
        }
    }
    return false;
}

/* Memory is looked at when nothing else is to be done, and every so often all the same. */
static bool poll_is_due_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    uint64_t now;

    if (sched->n_polled == 0)
        return false;
    now = sched->setup.now();
    if (sched->n_ready > 0 && now - sched->last_poll < POLL_INTERVAL)
        return false;
    sched->last_poll = now;
    return true;
}

bool am_sched_step_locked(struct am_sched *sched)
{
    struct am_queue *queue = timed_find_locked(sched);
    bool has_moved = true;

    sched->n_stepping++;
    if (queue != NULL) {
        queue_unpark_locked(sched, queue);
        queue_advance_locked(sched, queue);
    } else if (poll_is_due_locked(sched) && polled_step_locked(sched)) {
        ; /* that was the step */
    } else if (sched->n_ready > 0) {
        queue = ready_find_locked(sched);
        queue_unready_locked(sched, queue);
        queue_advance_locked(sched, queue);
    } else {
        has_moved = false;
    }
    sched->n_stepping--;
    return has_moved;
}

/* When a worker with nothing to do must look again. */
static uint64_t next_look_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    uint64_t look = sched->setup.now() + POLL_INTERVAL;

    return sched->n_polled > 0 && look < sched->soonest ? look : sched->soonest;
}

/*
 * Until somebody calls; as the watcher, if there is something to watch and nobody does.
 */
static void worker_sleep_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (!TAILQ_EMPTY(&sched->timed) && !sched->has_watcher) {
        sched->has_watcher = true;
        am_cond_wait_locked(sched, &sched->clock, next_look_locked(sched));
        sched->has_watcher = false;
    } else {
        sched->n_sleeping++;
        am_cond_wait_locked(sched, &sched->work, AM_FOREVER);
        sched->n_sleeping--;
    }
}

static void *worker_main(void *arg)
{
    struct am_sched *sched = arg;

    am_lock(&sched->lock);
    while (!sched->is_stopping) {
        if (!am_sched_step_locked(sched))
            worker_sleep_locked(sched);
    }
    am_unlock(&sched->lock);
    return NULL;
}

/*
 * Chaos mode's only thread.  Whoever waits runs tasks himself; this one steps in when
 * nobody has called for a while, since a program may also wait by looking at memory.
 */
static void *chaos_main(void *arg)
{
    struct am_sched *sched = arg;
    uint64_t patience = AM_CHAOS_PATIENCE;

    am_lock(&sched->lock);
    while (!sched->is_stopping) {
        uint64_t seen = sched->activity;

        am_cond_wait_locked(sched, &sched->work, am_sched_clock() + patience);
        patience = AM_CHAOS_PATIENCE;
        if (seen == sched->activity && sched->n_stepping == 0 && !sched->is_stopping &&
            am_sched_step_locked(sched))
            patience = CHAOS_PACE;
    }
    am_unlock(&sched->lock);
    return NULL;
}

/*
 * Workers begin with the first task that is queued, so that a program without streams has
 * none.
 */
static aclError workers_start_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    unsigned wanted = sched->setup.is_chaotic ? 1 : sched->setup.n_workers;

    while (sched->n_threads < wanted) {
        int rc = am_sys_pthread_create(&sched->threads[sched->n_threads], NULL,
                                       sched->setup.is_chaotic ? chaos_main : worker_main,
                                       sched);

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
    *sched = (struct am_sched){.is_stopping = true, .soonest = AM_FOREVER};
    am_lock_init(&sched->lock, AM_RANK_SCHED, "scheduler");
    for (int i = 0; i < AM_PRIORITIES; i++)
        TAILQ_INIT(&sched->ready[i]);
    TAILQ_INIT(&sched->timed);
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
    sched->setup = *setup;
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
    am_assert(sched->n_ready == 0 && TAILQ_EMPTY(&sched->timed));
    am_unlock(&sched->lock);
}

aclError am_sched_submit_locked(struct am_sched *sched, struct am_queue *queue,
                                struct am_task *task)
{
    aclError rc;

    AM_REQUIRE(!queue->is_closed, ACL_ERROR_RT_INVALID_HANDLE,
               "the stream was destroyed by another thread");
    rc = workers_start_locked(sched);
    if (rc != ACL_SUCCESS)
        return rc;
    task->is_first = false;
    TAILQ_INSERT_TAIL(&queue->tasks, task, next);
    queue->n_queued++;
    sched->activity++;
    if (queue->state == AM_QUEUE_IDLE)
        queue_make_ready_locked(sched, queue);
    return ACL_SUCCESS;
}

aclError am_sched_submit(struct am_sched *sched, struct am_queue *queue,
                         struct am_task *task)
{
    aclError rc;

    am_lock(&sched->lock);
    rc = am_sched_submit_locked(sched, queue, task);
    am_unlock(&sched->lock);
    if (rc != ACL_SUCCESS)
        task->ops->drop(task);
    return rc;
}

bool am_sched_try_begin(struct am_sched *sched, struct am_queue *queue)
{
    bool is_alone;

    am_lock(&sched->lock);
    is_alone = queue->state == AM_QUEUE_IDLE && !queue->is_stopped && !queue->is_closed &&
               !sched->setup.is_chaotic;
    if (is_alone) {
        queue->state = AM_QUEUE_RUNNING;
        queue->n_queued++;
        sched->n_running++;
    }
    am_unlock(&sched->lock);
    return is_alone;
}

void am_sched_end(struct am_sched *sched, struct am_queue *queue)
{
    am_lock(&sched->lock);
    sched->n_running--;
    sched->n_moves++;
    queue_done_locked(sched, queue);
    am_unlock(&sched->lock);
}

int am_sched_wait_locked(struct am_sched *sched, pthread_cond_t *cond,
                         bool (*is_done)(void *), void *what, uint64_t timeout_ns)
{
    uint64_t start = sched->setup.now();
    uint64_t until = timeout_ns > AM_FOREVER - start ? AM_FOREVER : start + timeout_ns;

    sched->activity++;
    while (!is_done(what)) {
        bool can_step = sched->n_threads == 0 || sched->setup.is_chaotic;
        uint64_t look = until;

        if (sched->setup.now() >= until)
            return ETIMEDOUT;
        if (can_step && am_sched_step_locked(sched))
            continue;
        if (can_step) {
            /*
             * Nobody else watches the clock here, or takes what another thread's step
             * made ready.
             */
            uint64_t soon = sched->setup.now() + CHAOS_LOOK;
            uint64_t next = next_look_locked(sched);

            look = next < look ? next : look;
            look = soon < look ? soon : look;
        }
        am_cond_wait_locked(sched, cond, look);
        sched->activity++;
    }
    return 0;
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

int am_sched_wait_queue_locked(struct am_sched *sched, struct am_queue *queue,
                               uint64_t timeout_ns)
{
    struct queue_target target = {queue, queue->n_queued};

    return am_sched_wait_locked(sched, &queue->changed, queue_is_there, &target,
                                timeout_ns);
}

void am_patience_begin_locked(struct am_sched *sched, struct am_patience *patience)
{
    *patience =
        (struct am_patience){.since = sched->setup.now(), .n_moves = sched->n_moves};
}

/* Whether some parked queue will move by itself. */
static bool deadline_is_to_come_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    struct am_queue *queue;

    TAILQ_FOREACH (queue, &sched->timed, timed) {
        if (TAILQ_FIRST(&queue->tasks)->deadline != AM_FOREVER)
            return true;
    }
    return false;
}

int am_sched_wait_quiet_locked(struct am_sched *sched, struct am_queue *queue,
                               struct am_patience *patience)
{
    uint64_t target = queue->n_queued;

    while (queue->n_done < target) {
        bool is_quiet = queue->state == AM_QUEUE_PARKED && sched->n_outside == 0 &&
                        sched->n_running == 0 && patience->n_moves == sched->n_moves &&
                        !deadline_is_to_come_locked(sched);

        if (!is_quiet)
            am_patience_begin_locked(sched, patience);
        else if (sched->setup.now() - patience->since > QUIET_PATIENCE)
            return ETIMEDOUT;
        am_sched_wait_queue_locked(sched, queue, QUIET_LOOK);
    }
    return 0;
}

void am_sched_nudge_locked(struct am_sched *sched)
{
    sched->activity++;
    if (sched->setup.is_chaotic || sched->setup.n_workers == 0)
        am_sched_step_locked(sched);
}

void am_sched_drop_tasks_locked(struct am_sched *sched, struct am_queue *queue)
{
    uint64_t until = queue->n_queued;

    if (queue->drop_until < until)
        queue->drop_until = until;
    while (queue->n_done < until) {
        if (queue->state == AM_QUEUE_PARKED)
            queue_unpark_locked(sched, queue);
        else if (queue->state == AM_QUEUE_READY)
            queue_unready_locked(sched, queue);
        else {
            /* Whoever runs its first task comes by. */
            am_cond_wait_locked(sched, &queue->changed, AM_FOREVER);
            continue;
        }
        task_leave_locked(sched, queue);
    }
}
