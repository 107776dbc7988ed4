/*
 * Executions that a device does alone.  See model.h.
 *
 * If every task of a model is a copy or a fill, the call that executes the model launches all of
 * them at once, as it launches a copy: no worker takes part.  The call finds the memory before
 * it submits the execution, because no memory may be looked up under the lock of a queue.  The
 * execution keeps the memory until the device is done.
 *
 * Executions of one model that are launched are on one stream, which puts them in order; they may
 * be several.  An execution on another stream, and one that a worker executes, waits until
 * they have ended.
 *
 * An execution is not launched if work before it on the stream is not launched, if the device
 * cannot do one of the steps, in chaos mode (no queue has a device), or if times of tasks are
 * reported.  Then a worker executes it (replay.c), and reports what fails.
 */

#include "base/error.h"
#include "base/sys.h"
#include "core/stream/model.h"

#define GROUP_MAX 256 /* steps without an order, each is compared with each */

/* ---- the steps of a model ---- */

/* Whether the task has an effect in an execution. */
static bool node_is_step(const struct am_node *node)
{
    return node->task->ops->step_open != NULL;
}

void am_model_find_steps(struct am_model *model)
{
    const struct am_model_lane *lane = model->lanes[0];
    uint32_t n = 0;

    if (model->n_lanes != 1)
        return;
    for (uint32_t i = 0; i < lane->n; i++) {
        const struct am_task_ops *ops = lane->nodes[i].task->ops;

        if (node_is_step(&lane->nodes[i])) {
            n++;
            model->step_ops = ops; /* of all: copies and fills have the same */
        } else if (ops->run != NULL || ops->poll != NULL || ops->announce != NULL) {
            return;
        }
    }
    model->n_steps = n;
}

/* The node of a step; all of them are in lane 0. */
static struct am_node *step_node(struct am_model *model, size_t step)
{
    struct am_node *node = model->lanes[0]->nodes;

    while (!node_is_step(node) || step-- > 0)
        node++;
    return node;
}

static bool ranges_share(const struct am_cursor *a, size_t a_size,
                         const struct am_cursor *b, size_t b_size)
{
    const char *from = (const char *)a->span->addr + a->at;
    const char *to = (const char *)b->span->addr + b->at;

    return from < to + b_size && to < from + a_size;
}

/* Whether one of two copies writes what the other one reads or writes. */
static bool steps_share(const struct am_step *a, const struct am_step *b)
{
    return ranges_share(&a->dst, a->size, &b->dst, b->size) ||
           ranges_share(&a->dst, a->size, &b->src, b->size) ||
           ranges_share(&a->src, a->size, &b->dst, b->size);
}

/* The first execution compares the addresses, which do not change. */
static void steps_order(struct am_step *steps, size_t n)
{
    size_t first = 0;

    for (size_t i = 0; i < n; i++) {
        bool is_ordered = i == 0 || steps[i].src.span == NULL ||
                          steps[i - 1].src.span == NULL || i - first == GROUP_MAX;

        for (size_t k = first; k < i && !is_ordered; k++)
            is_ordered = steps_share(&steps[k], &steps[i]);
        steps[i].is_ordered = is_ordered;
        if (is_ordered)
            first = i;
    }
}

/* ---- memory ---- */

static void *step_memory(const struct am_execution *execution, uint32_t step)
{
    return execution->memory + step * execution->model->step_ops->step_size;
}

void am_execution_close(struct am_execution *execution)
{
    const struct am_task_ops *ops = execution->model->step_ops;

    while (execution->n_open > 0)
        ops->step_close(step_memory(execution, --execution->n_open));
}

/* Memory for the steps, which the execution keeps for its next use. */
static bool steps_alloc(struct am_execution *execution)
{
    const struct am_model *model = execution->model;
    size_t n = model->n_steps;

    if (execution->steps == NULL)
        execution->steps =
            am_sys_malloc(n * (sizeof *execution->steps + model->step_ops->step_size));
    execution->memory = (char *)(execution->steps + n);
    return execution->steps != NULL;
}

static bool steps_open(struct am_execution *execution)
{
    const struct am_model *model = execution->model;
    const struct am_model_lane *lane = model->lanes[0];

    for (uint32_t i = 0; i < lane->n; i++) {
        const struct am_node *node = &lane->nodes[i];
        uint32_t k = execution->n_open;
        struct am_step step;

        if (node->is_disabled)
            return false;
        if (!node_is_step(node))
            continue;
        if (!model->step_ops->step_open(node->task, step_memory(execution, k),
                                        k > 0 ? step_memory(execution, k - 1) : NULL,
                                        &step))
            return false;
        step.is_ordered = execution->has_order && execution->steps[k].is_ordered;
        execution->steps[k] = step;
        execution->n_open++;
    }
    return true;
}

void am_execution_open(struct am_execution *execution)
{
    struct am_model *model = execution->model;
    bool is_open;

    if (model->n_steps == 0 || !am_queue_can_launch(execution->queue) ||
        model->has_starts || /* the thread that executes the model sets its conditions */
        atomic_load_explicit(&am_task_ran, memory_order_relaxed) != NULL ||
        atomic_load_explicit(&am_node_ran, memory_order_relaxed) != NULL ||
        !steps_alloc(execution))
        return;
    /* The worker finds the same mistake. */
    is_open = AM_HUSHED(steps_open(execution));
    if (!is_open) {
        am_execution_close(execution);
        return;
    }
    if (!execution->has_order)
        steps_order(execution->steps, model->n_steps);
    execution->has_order = true;
}

/* ---- launching ---- */

/* The model is this execution's, or belongs to executions before it on its queue. */
static bool launch_claim(struct am_execution *execution)
{
    struct am_model *model = execution->model;
    bool is_free;

    am_lock(&model->lock);
    is_free = model->owner == NULL &&
              (model->n_launched == 0 || model->launched_on == execution->queue);
    if (is_free) {
        model->n_launched++;
        model->launched_on = execution->queue;
    }
    am_unlock(&model->lock);
    return is_free;
}

aclError am_execution_launch(struct am_task *task, const struct am_backend_ops *device,
                             struct am_lane *lane)
{
    struct am_execution *execution = (struct am_execution *)task;
    struct am_model *model = execution->model;
    char text[512] = "";
    size_t failed;
    aclError rc;

    if (execution->n_open == 0 || !launch_claim(execution))
        return ACL_SUCCESS;
    rc = AM_CAPTURED(text, sizeof text,
                     device->lane_steps(lane, execution->steps, model->n_steps, &failed,
                                        &task->number));
    execution->is_launched = task->number != 0;
    if (!execution->is_launched) {
        am_lock(&model->lock);
        model->n_launched--;
        if (rc != ACL_SUCCESS) /* it owns the model, to report the failure in its turn */
            model->owner = execution;
        am_unlock(&model->lock);
    }
    if (rc == ACL_SUCCESS)
        return ACL_SUCCESS;
    execution->is_owner = true;
    am_model_start(model, task);
    am_model_fail(model, model->lanes[0], step_node(model, failed), rc, text);
    return ACL_SUCCESS;
}

void am_execution_end(struct am_execution *execution)
{
    struct am_model *model = execution->model;

    am_execution_close(execution);
    if (!execution->is_launched)
        return;
    execution->is_launched = false;
    am_lock(&model->lock);
    model->n_launched--;
    am_unlock(&model->lock);
    am_waitlist_wake(&model->waiting);
}

bool am_model_poll(struct am_model *model)
{
    struct am_queue *queue =
        AM_LOCKED(&model->lock, model->n_launched > 0 ? model->launched_on : NULL);

    return queue != NULL && am_queue_poll(queue, false);
}
