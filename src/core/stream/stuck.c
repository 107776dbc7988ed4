/* See stuck.h. */
#include "core/stream/stuck.h"

#include <stddef.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"

static int32_t stream_id(const struct am_queue *queue)
{
    return ((const struct am_stream *)((const char *)queue -
                                       offsetof(struct am_stream, queue)))
        ->id;
}

/* The queue that has what the first task of this one waits for; NULL: none has. */
static struct am_queue *queue_awaited(const struct am_queue *queue)
{
    const struct am_task *task = TAILQ_FIRST(&queue->tasks);
    struct am_queue *next = NULL;

    if (task->ops->awaits == NULL || task->ops->awaits(task, &next) == NULL)
        return NULL;
    return next;
}

/* The last of the queues that wait for each other; in a circle, one that closes it. */
static struct am_queue *root_find_locked(struct am_queue *queue, bool *ret_is_circle)
    AM_REQUIRES(am_sched.lock)
{
    struct am_queue *next;

    am_walk_begin_locked(&am_sched);
    queue->visit = am_sched.visit;
    while ((next = queue_awaited(queue)) != NULL && next->visit != am_sched.visit) {
        queue = next;
        queue->visit = am_sched.visit;
    }
    *ret_is_circle = next != NULL;
    return queue;
}

void am_stuck_describe_locked(struct am_queue *queue, char *text, size_t size)
{
    bool is_circle;
    const struct am_queue *root = root_find_locked(queue, &is_circle);
    const struct am_task *task = TAILQ_FIRST(&root->tasks);
    char what[AM_STUCK_SIZE / 2] = "the function that it calls returns";

    if (task->ops->describe != NULL)
        task->ops->describe(task, what, sizeof what);
    snprintf(text, size, "%s made stream %d wait until %s, and %s", task->function,
             stream_id(root), what,
             is_circle ? "that comes only after this wait"
                       : "nothing that is queued brings that about");
}

void am_stuck_warn_locked(struct am_queue *queue)
{
    char why[AM_STUCK_SIZE];

    am_stuck_describe_locked(queue, why, sizeof why);
    am_log(AM_LOG_WARN, "%s has waited %d seconds for stream %d: %s", am_error_function,
           (int)(AM_PATIENCE / AM_SECOND), stream_id(queue), why);
}
