/*
 * Tasks that the device itself has: queues that fly.  See sched.h.
 *
 * A task that the device can do in its turn is launched when it comes, if all before it
 * were launched too; it stays in the queue until it is known to be done.  So the first
 * tasks of a queue are with the device, and the others wait for them here.
 *
 * That a launched task is done, nobody says; somebody has to ask.  A queue all of whose
 * tasks were launched flies: nobody looks at it until somebody wants to know, since a
 * program that waits for a stream asks the device itself.  While a thread or another
 * queue waits for something, flying queues are parked instead, as those are that memory
 * decides about, and the watcher asks.
 */
#include "core/stream/sched_lane.h"

#include "base/error.h"
#include "base/util.h"

#define REAP_EVERY 64 /* launched tasks of a queue that nobody asks about */

static bool first_is_launched(const struct am_queue *queue)
{
    const struct am_task *task = TAILQ_FIRST(&queue->tasks);

    return task != NULL && task->is_launched;
}

static bool all_are_launched(const struct am_queue *queue)
{
    return TAILQ_LAST(&queue->tasks, am_tasks)->is_launched;
}

bool am_queue_is_flying(const struct am_queue *queue)
{
    return queue->state == AM_QUEUE_FLYING ||
           (queue->state == AM_QUEUE_PARKED && first_is_launched(queue));
}

/* Its lane is opened with the first task that could use it. */
static void lane_prepare(struct am_queue *queue, const struct am_task *task)
{
    char unheard[8];
    struct am_capture before;

    if (queue->lane != NULL || queue->lanes == NULL || task->ops->launch == NULL)
        return;
    before = am_error_capture(unheard, sizeof unheard);
    if (queue->lanes->lane_open(queue->driver, queue->priority, &queue->lane) !=
        ACL_SUCCESS)
        queue->lanes = NULL; /* it does without */
    am_error_capture_end(before);
}

/* With nothing before it that was not launched. */
static aclError task_launch(struct am_queue *queue, struct am_task *task)
{
    uint64_t number = 0;
    aclError rc;

    if (task->ops->launch == NULL || task->deadline != AM_FOREVER || queue->is_stopped ||
        queue->lane == NULL)
        return ACL_SUCCESS;
    rc = task->ops->launch(task, queue->lanes, queue->lane, &number);
    if (rc != ACL_SUCCESS || number == 0)
        return rc;
    task->is_launched = true;
    task->number = number;
    queue->n_launched++;
    return ACL_SUCCESS;
}

AM_HOT aclError am_queue_launch_locked(struct am_queue *queue, struct am_task *task)
{
    if (queue->state != AM_QUEUE_IDLE &&
        !(am_queue_is_flying(queue) && all_are_launched(queue)))
        return ACL_SUCCESS;
    lane_prepare(queue, task);
    return task_launch(queue, task);
}

bool am_queue_launch_first_locked(struct am_sched *sched, struct am_queue *queue)
{
    struct am_task *task = TAILQ_FIRST(&queue->tasks);
    char unheard[8];
    struct am_capture before;

    lane_prepare(queue, task);
    if (queue->lane == NULL)
        return false;
    /* What cannot be launched now fails, if it must, when it is done here. */
    before = am_error_capture(unheard, sizeof unheard);
    while (task != NULL && task_launch(queue, task) == ACL_SUCCESS && task->is_launched)
        task = TAILQ_NEXT(task, next);
    am_error_capture_end(before);
    if (!first_is_launched(queue))
        return false;
    am_queue_fly_locked(sched, queue);
    return true;
}

void am_queue_fly_locked(struct am_sched *sched, struct am_queue *queue)
{
    if (!all_are_launched(queue) || sched->n_waiting > 0 || sched->n_parked > 0) {
        am_queue_park_locked(sched, queue, NULL);
        return;
    }
    queue->state = AM_QUEUE_FLYING;
    TAILQ_INSERT_TAIL(&sched->flying, queue, link);
}

/* Out of the list that it is in; the caller has it. */
static void queue_take_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock)
{
    if (queue->state == AM_QUEUE_FLYING)
        TAILQ_REMOVE(&sched->flying, queue, link);
    else
        am_queue_unpark_locked(sched, queue);
    queue->state = AM_QUEUE_RUNNING;
}

void am_sched_watch_locked(struct am_sched *sched)
{
    struct am_queue *queue;

    while ((queue = TAILQ_FIRST(&sched->flying)) != NULL) {
        TAILQ_REMOVE(&sched->flying, queue, link);
        am_queue_park_locked(sched, queue, NULL);
    }
}

bool am_queue_has_landed(const struct am_queue *queue)
{
    char unheard[8];
    struct am_capture before;
    uint64_t done;
    aclError rc;

    before = am_error_capture(unheard, sizeof unheard);
    rc = queue->lanes->lane_poll(queue->lane, &done);
    am_error_capture_end(before);
    return rc != ACL_SUCCESS || TAILQ_FIRST(&queue->tasks)->number <= done;
}

/* What it did becomes visible, or it failed. */
static void task_end_locked(struct am_sched *sched, struct am_queue *queue,
                            struct am_task *task, aclError rc, char *why)
    AM_REQUIRES(sched->lock)
{
    if (rc == ACL_SUCCESS && task->ops->finish != NULL)
        rc = task->ops->finish(task, sched);
    if (rc == ACL_SUCCESS)
        return;
    am_queue_fail_locked(queue, task, rc, why);
    if (task->ops->cancel != NULL)
        task->ops->cancel(task, queue);
}

/* Takes out what is done; returns how many.  They are the caller's to drop. */
static uint64_t landed_take_locked(struct am_sched *sched, struct am_queue *queue,
                                   struct am_tasks *ret_tasks) AM_REQUIRES(sched->lock)
{
    const char *function = am_error_function;
    char why[sizeof queue->why] = "";
    struct am_capture before;
    uint64_t done = 0;
    uint64_t n = 0;
    aclError rc;

    before = am_error_capture(why, sizeof why);
    rc = queue->lanes->lane_poll(queue->lane, &done);
    while (first_is_launched(queue) && TAILQ_FIRST(&queue->tasks)->number <= done) {
        struct am_task *task = TAILQ_FIRST(&queue->tasks);

        TAILQ_REMOVE(&queue->tasks, task, next);
        TAILQ_INSERT_TAIL(ret_tasks, task, next);
        queue->n_launched--;
        am_error_function = task->function;
        task_end_locked(sched, queue, task, rc, why);
        n++;
    }
    am_error_capture_end(before);
    am_error_function = function;
    return n;
}

void am_queue_reap_locked(struct am_sched *sched, struct am_queue *queue)
{
    struct am_tasks over = TAILQ_HEAD_INITIALIZER(over);
    struct am_task *task;
    uint64_t n;

    if (queue->state != AM_QUEUE_RUNNING)
        queue_take_locked(sched, queue);
    n = landed_take_locked(sched, queue, &over);
    if (n > 0) {
        queue->running = TAILQ_FIRST(&over)->function;
        am_unlock(&sched->lock);
        while ((task = TAILQ_FIRST(&over)) != NULL) {
            TAILQ_REMOVE(&over, task, next);
            task->ops->drop(task);
        }
        am_lock(&sched->lock);
    }
    queue->running = NULL;
    queue->n_done += n;
    sched->n_moves += n;
    if (TAILQ_EMPTY(&queue->tasks))
        queue->state = AM_QUEUE_IDLE;
    else if (first_is_launched(queue))
        am_queue_fly_locked(sched, queue);
    else
        am_queue_make_ready_locked(sched, queue);
    pthread_cond_broadcast(&queue->changed);
}

bool am_queue_land_locked(struct am_sched *sched, struct am_queue *queue)
{
    char unheard[8];
    struct am_capture before;

    if (!am_queue_is_flying(queue))
        return false;
    queue_take_locked(sched, queue);
    sched->n_running++;
    am_unlock(&sched->lock);
    before = am_error_capture(unheard, sizeof unheard);
    queue->lanes->lane_sync(queue->lane); /* what fails is told when it is taken out */
    am_error_capture_end(before);
    am_lock(&sched->lock);
    sched->n_running--;
    am_queue_reap_locked(sched, queue);
    return true;
}

void am_sched_reap_locked(struct am_sched *sched)
{
    struct am_queue *queue = TAILQ_FIRST(&sched->flying);

    while (queue != NULL) {
        bool has_landed = am_queue_has_landed(queue);

        if (has_landed)
            am_queue_reap_locked(sched, queue);
        /* The list may be another one now. */
        queue = has_landed ? TAILQ_FIRST(&sched->flying) : TAILQ_NEXT(queue, link);
    }
}

void am_sched_keep_short_locked(struct am_sched *sched, struct am_queue *queue)
{
    if (queue->n_launched > 0 && queue->n_launched % REAP_EVERY == 0 &&
        queue->state == AM_QUEUE_FLYING && am_queue_has_landed(queue))
        am_queue_reap_locked(sched, queue);
}
