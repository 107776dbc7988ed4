/* See sched.h. */
#include "core/stream/sched.h"

#include <errno.h>
#include <stdio.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/stream/sched_bypass.h"
#include "core/stream/sched_lane.h"

struct am_sched am_sched;

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
    *queue = (struct am_queue){
        .priority = priority, .state = AM_QUEUE_IDLE, .bypass = AM_BYPASS_CLOSED};
    TAILQ_INIT(&queue->tasks);
    am_cond_init(&queue->changed);
}

void am_queue_destroy(struct am_queue *queue)
{
    am_assert(TAILQ_EMPTY(&queue->tasks) && queue->state == AM_QUEUE_IDLE);
    if (queue->lane != NULL)
        queue->lanes->lane_close(queue->lane);
    pthread_cond_destroy(&queue->changed);
}

void am_bypass_close_locked(struct am_sched *sched, struct am_queue *queue)
{
    /* The acquire pairs with the leave of the last task inside. */
    uint64_t bypass =
        atomic_fetch_or_explicit(&queue->bypass, AM_BYPASS_CLOSED, memory_order_acq_rel);
    uint64_t n = bypass / AM_BYPASS_ONE;

    if (bypass & AM_BYPASS_CLOSED)
        return;
    queue->n_queued += n;
    queue->n_done += n;
    if (bypass & AM_BYPASS_INSIDE) {
        queue->n_queued++;
        queue->state = AM_QUEUE_RUNNING;
        queue->running = atomic_load_explicit(&queue->inside, memory_order_relaxed);
        sched->n_running++;
    }
}

void am_bypass_open_locked(struct am_sched *sched, struct am_queue *queue)
{
    bool is_clean = queue->error == ACL_SUCCESS || queue->is_told;

    if (queue->state != AM_QUEUE_IDLE || !is_clean || queue->is_stopped ||
        queue->is_closed || queue->lanes != NULL || sched->setup.is_chaotic)
        return;
    atomic_store_explicit(&queue->bypass, 0, memory_order_release);
}

uint64_t am_sched_count_moves_locked(const struct am_sched *sched)
{
    uint64_t n = sched->n_moves;

    for (int i = 0; i < AM_MOVE_PLACES; i++)
        n += atomic_load_explicit(&sched->moves[i].n, memory_order_relaxed);
    return n;
}

void am_sched_call_worker_locked(struct am_sched *sched)
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

void am_queue_make_ready_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    queue->state = AM_QUEUE_READY;
    TAILQ_INSERT_TAIL(&sched->ready[queue->priority], queue, link);
    sched->n_ready++;
    am_sched_call_worker_locked(sched);
}

static void queue_unready_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    TAILQ_REMOVE(&sched->ready[queue->priority], queue, link);
    sched->n_ready--;
}

/* Park the queue on list (NULL: memory decides), with its first task's deadline. */
void am_queue_park_locked(struct am_sched *sched, struct am_queue *queue,
                          struct am_waitlist *list) AM_REQUIRES(sched->lock)
{
    uint64_t deadline = TAILQ_FIRST(&queue->tasks)->deadline;

    queue->state = AM_QUEUE_PARKED;
    queue->waiting_on = list;
    if (list != NULL)
        TAILQ_INSERT_TAIL(&list->queues, queue, link);
    else
        sched->n_polled++;
    sched->n_parked += list != NULL;
    queue->is_timed = list == NULL || deadline != AM_FOREVER;
    if (queue->is_timed) {
        TAILQ_INSERT_TAIL(&sched->timed, queue, timed);
        if (deadline < sched->soonest)
            sched->soonest = deadline;
        watcher_call_locked(sched);
    }
}

void am_queue_unpark_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    if (queue->waiting_on != NULL)
        TAILQ_REMOVE(&queue->waiting_on->queues, queue, link);
    else
        sched->n_polled--;
    sched->n_parked -= queue->waiting_on != NULL;
    queue->waiting_on = NULL;
    if (queue->is_timed)
        TAILQ_REMOVE(&sched->timed, queue, timed);
    queue->is_timed = false;
}

void am_sched_wake_locked(struct am_sched *sched, struct am_waitlist *list)
{
    struct am_queue *queue;

    while ((queue = TAILQ_FIRST(&list->queues)) != NULL) {
        am_queue_unpark_locked(sched, queue);
        am_queue_make_ready_locked(sched, queue);
        pthread_cond_broadcast(&queue->changed); /* who drains it goes on, too */
    }
}

/* The queue's first failure, for the next one who synchronises. */
void am_queue_fail_locked(struct am_queue *queue, const struct am_task *task, aclError rc,
                          const char *why)
{
    if (queue->error == ACL_SUCCESS || queue->is_told) {
        queue->error = rc;
        queue->failed = task->function;
        queue->is_told = false;
        snprintf(queue->why, sizeof queue->why, "work queued by %s failed: %.*s",
                 task->function, (int)sizeof queue->why - 100, why);
    }
    if (queue->stop_on_failure)
        queue->is_stopped = true;
}

const char *am_queue_first_locked(const struct am_queue *queue)
{
    am_assert(queue->n_done < queue->n_queued);
    return queue->running != NULL ? queue->running : TAILQ_FIRST(&queue->tasks)->function;
}

struct am_cause am_queue_cause(const struct am_queue *queue)
{
    if (queue->is_stopped && queue->error != ACL_SUCCESS && !queue->is_told)
        return (struct am_cause){queue->error, queue->failed};
    return (struct am_cause){.rc = ACL_ERROR_RT_STREAM_ABORT};
}

aclError am_queue_tell_locked(struct am_queue *queue, uint64_t seen)
{
    queue->is_stopped = false;
    if (queue->error == ACL_SUCCESS || (queue->is_told && queue->n_told == seen))
        return ACL_SUCCESS;
    queue->n_told += !queue->is_told;
    queue->is_told = true;
    return queue->error;
}

/* A task of a running queue is done.  The queue may go with whoever waited for that. */
static void queue_done_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    queue->n_done++;
    queue->running = NULL;
    if (TAILQ_EMPTY(&queue->tasks))
        queue->state = AM_QUEUE_IDLE;
    else
        am_queue_make_ready_locked(sched, queue);
    am_bypass_open_locked(sched, queue);
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
    queue->running = task->function;
    queue->state = AM_QUEUE_RUNNING; /* nobody else takes it while the lock is released */
    am_unlock(&sched->lock);
    task->ops->drop(task);
    am_lock(&sched->lock);

    queue_done_locked(sched, queue);
}

/* The same for a task that is not to run any more. */
static void task_lose_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);

    if (task->ops->cancel != NULL)
        task->ops->cancel(task, queue);
    task_leave_locked(sched, queue);
}

/*
 * This thread is going to work: what it might have done next, and its watch, are another
 * one's.
 */
static void others_call_locked(struct am_sched *sched) AM_REQUIRES(sched->lock)
{
    if (sched->n_ready > 0)
        am_sched_call_worker_locked(sched);
    if (!TAILQ_EMPTY(&sched->timed) && !sched->has_watcher)
        watcher_call_locked(sched);
}

/* Without the lock, on behalf of the call that queued it. */
static aclError task_work_locked(struct am_sched *sched, struct am_task *task)
    AM_REQUIRES(sched->lock)
{
    aclError rc;

    sched->n_running++;
    others_call_locked(sched);
    am_unlock(&sched->lock);
    rc = task->ops->run(task);
    am_lock(&sched->lock);
    sched->n_running--;
    return rc;
}

/* Run the queue's first task, which is ready. */
static void task_run_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);
    const char *function = am_error_function;
    char why[sizeof queue->why] = "";
    struct am_capture before;
    aclError rc = ACL_SUCCESS;

    queue->state = AM_QUEUE_RUNNING;
    am_error_function = task->function;
    before = am_error_capture(why, sizeof why);
    if (task->ops->run != NULL)
        rc = task_work_locked(sched, task);
    if (rc == ACL_SUCCESS && task->ops->finish != NULL)
        rc = task->ops->finish(task, sched);
    am_error_capture_end(before);
    am_error_function = function;
    if (rc != ACL_SUCCESS)
        am_queue_fail_locked(queue, task, rc, why);
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
        task_lose_locked(sched, queue);
        return;
    }
    if (!task->is_first) {
        task->is_first = true;
        if (task->deadline != AM_FOREVER)
            task->deadline += now;
    }
    if (am_queue_launch_first_locked(sched, queue)) {
        ; /* the device has it */
    } else if (task->ops->poll == NULL || task->ops->poll(task, sched, &list)) {
        task_run_locked(sched, queue);
    } else if (first_is_dropped(queue) && !task->is_outside) {
        task_lose_locked(sched, queue); /* since the poll */
    } else if (now >= task->deadline) {
        am_queue_fail_locked(queue, task, task->ops->timeout,
                             "what it waits for did not come in time");
        sched->n_moves++;
        task_leave_locked(sched, queue);
    } else {
        am_queue_park_locked(sched, queue, list);
        am_sched_watch_locked(sched);            /* what it waits for may be there */
        pthread_cond_broadcast(&queue->changed); /* who drops its tasks may go on */
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

        if (queue->waiting_on != NULL)
            continue;
        if (task->is_launched) {
            if (!am_queue_has_landed(queue))
                continue;
            am_queue_reap_locked(sched, queue);
            return true;
        }
        if (task->ops->poll(task, sched, &list)) {
            am_queue_unpark_locked(sched, queue);
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
    if (sched->n_ready > 0 && now - sched->last_poll < AM_POLL_INTERVAL)
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
        am_queue_unpark_locked(sched, queue);
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

AM_HOT aclError am_sched_submit_locked(struct am_sched *sched, struct am_queue *queue,
                                       struct am_task *task)
{
    aclError rc;

    AM_REQUIRE(!queue->is_closed, ACL_ERROR_RT_INVALID_HANDLE,
               "the stream was destroyed by another thread");
    am_bypass_close_locked(sched, queue);
    task->is_first = false;
    task->is_warned = false;
    task->is_launched = false;
    rc = am_queue_launch_locked(queue, task);
    if (rc == ACL_SUCCESS && !task->is_launched)
        rc = am_sched_start_workers_locked(sched);
    if (rc != ACL_SUCCESS) {
        am_bypass_open_locked(sched, queue);
        return rc;
    }
    TAILQ_INSERT_TAIL(&queue->tasks, task, next);
    queue->n_queued++;
    sched->activity++;
    if (queue->state == AM_QUEUE_IDLE && !task->is_launched) {
        am_queue_make_ready_locked(sched, queue);
    } else if (queue->state == AM_QUEUE_IDLE) {
        am_queue_fly_locked(sched, queue);
    } else if (queue->state == AM_QUEUE_FLYING && !task->is_launched) {
        TAILQ_REMOVE(&sched->flying, queue, link);
        am_queue_fly_locked(sched, queue);
    }
    return ACL_SUCCESS;
}

AM_HOT aclError am_sched_submit(struct am_sched *sched, struct am_queue *queue,
                                struct am_task *task)
{
    aclError rc;

    am_lock(&sched->lock);
    am_sched_keep_short_locked(sched, queue);
    rc = am_sched_submit_locked(sched, queue, task);
    am_unlock(&sched->lock);
    if (rc != ACL_SUCCESS)
        task->ops->drop(task);
    return rc;
}

/* Whether a task that came now could be done by the caller. */
static bool is_free_locked(const struct am_sched *sched, const struct am_queue *queue)
{
    return queue->state == AM_QUEUE_IDLE && !queue->is_stopped && !queue->is_closed &&
           !sched->setup.is_chaotic;
}

bool am_sched_try_begin(struct am_sched *sched, struct am_queue *queue, bool is_short)
{
    bool is_free;

    if (is_short && am_bypass_enter(queue)) {
        am_moment();
        return true;
    }
    am_lock(&sched->lock);
    am_bypass_close_locked(sched, queue);
    am_queue_land_locked(sched, queue); /* who begins waits anyway */
    is_free = is_free_locked(sched, queue);
    if (is_free) {
        queue->state = AM_QUEUE_RUNNING;
        queue->running = am_error_function;
        queue->n_queued++;
        sched->n_running++;
    }
    am_bypass_open_locked(sched, queue);
    am_unlock(&sched->lock);
    return is_free;
}

bool am_sched_pass_locked(struct am_sched *sched, struct am_queue *queue)
{
    bool is_free;

    am_bypass_close_locked(sched, queue);
    is_free = is_free_locked(sched, queue);
    if (is_free) {
        queue->n_queued++;
        queue->n_done++;
        sched->n_moves++;
    }
    am_bypass_open_locked(sched, queue);
    return is_free;
}

void am_sched_end(struct am_sched *sched, struct am_queue *queue)
{
    if (am_bypass_leave(sched, queue))
        return;
    am_lock(&sched->lock);
    atomic_store_explicit(&queue->bypass, AM_BYPASS_CLOSED, memory_order_relaxed);
    sched->n_running--;
    sched->n_moves++;
    queue_done_locked(sched, queue);
    am_unlock(&sched->lock);
}

/*
 * Drop what is marked and in nobody's hands; with `spares`, not what a function of the
 * program runs for.
 */
static void queue_drop_locked(struct am_sched *sched, struct am_queue *queue, bool spares)
    AM_REQUIRES(sched->lock)
{
    while (queue->n_done < queue->drop_until) {
        if (am_queue_land_locked(sched, queue)) /* what was launched has begun */
            continue;
        if (queue->state == AM_QUEUE_READY)
            queue_unready_locked(sched, queue);
        else if (queue->state == AM_QUEUE_PARKED &&
                 !(spares && TAILQ_FIRST(&queue->tasks)->is_outside))
            am_queue_unpark_locked(sched, queue);
        else
            return;
        queue->state = AM_QUEUE_RUNNING;
        task_lose_locked(sched, queue);
    }
}

/* All tasks queued so far are to be dropped; returns how many that are. */
static uint64_t queue_mark_locked(struct am_queue *queue)
{
    if (queue->drop_until < queue->n_queued)
        queue->drop_until = queue->n_queued;
    return queue->n_queued;
}

void am_sched_drop_tasks_locked(struct am_sched *sched, struct am_queue *queue)
{
    uint64_t until;

    am_bypass_close_locked(sched, queue);
    until = queue_mark_locked(queue);
    queue_drop_locked(sched, queue, false);
    while (queue->n_done < until) {
        /* The thread that runs its first task signals. */
        am_cond_wait_locked(sched, &queue->changed, AM_FOREVER);
        queue_drop_locked(sched, queue, false);
    }
    am_bypass_open_locked(sched, queue);
}

int am_sched_drain_locked(struct am_sched *sched, struct am_queue *queue, uint64_t until)
{
    uint64_t target;

    am_bypass_close_locked(sched, queue);
    target = queue_mark_locked(queue);
    queue_drop_locked(sched, queue, true);
    while (queue->n_done < target) {
        if (sched->setup.now() >= until)
            return ETIMEDOUT;
        am_cond_wait_locked(sched, &queue->changed, until);
        queue_drop_locked(sched, queue, true);
    }
    am_bypass_open_locked(sched, queue);
    return 0;
}
