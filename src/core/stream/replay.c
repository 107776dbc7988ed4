/*
 * Executions of models.  See model.h.
 *
 * A lane executes its nodes one after the other until one has to wait: a wait for a record of
 * another lane, a function of the program, a value in memory.  Then the queue of the lane is
 * parked like the queue of a stream, and poll() of the waiting node decides.
 *
 * Copies and fills are launched on the device, if the queue of the lane has one.  The lane waits
 * for the device before anything that this thread or another lane executes after them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/stream/model.h"
#include "core/stream/wait.h"

_Atomic(am_node_hook) am_node_ran;

/* ---- failures ---- */

void am_model_fail(struct am_model *model, const struct am_model_lane *lane,
                   const struct am_node *node, aclError rc, char *text)
{
    am_lock(&model->lock);
    if (!model->is_failed) {
        model->rc = ACL_ERROR_RT_MODEL_EXECUTE;
        snprintf(model->failure, sizeof model->failure,
                 "model %u: task %u, captured by %s on stream %d, failed with %d: %.300s",
                 model->id, node->number, node->task->function, lane->stream_id, (int)rc,
                 am_error_text(text));
    }
    model->is_failed = true;
    am_unlock(&model->lock);
    for (uint32_t i = 0; i < model->n_lanes; i++) {
        if (model->lanes[i] != lane)
            am_queue_wake(model->lanes[i]->runs_in->queue);
    }
}

/* ---- nodes that the device executes ---- */

/* Waits until the device has done the nodes that were launched, and releases their memory. */
static void lane_settle(struct am_model_lane *lane)
{
    struct am_queue *queue = lane->runs_in->queue;
    bool must_wait = true;

    if (queue->device == NULL)
        return;
    for (; lane->n_settled < lane->position; lane->n_settled++) {
        struct am_node *node = &lane->nodes[lane->n_settled];
        char text[512];
        struct am_capture before;
        aclError rc = ACL_SUCCESS;

        if (node->task == NULL || node->task->number == 0)
            continue;
        text[0] = '\0';
        before = am_error_capture(text, sizeof text);
        if (must_wait) {
            unsigned depth = am_epoch_suspend();
            uint64_t done;

            rc = queue->device->lane_sync(queue->lane);
            am_epoch_resume(depth);
            if (rc == ACL_SUCCESS) /* takes the marks of the launches back */
                rc = queue->device->lane_poll(queue->lane, &done);
        }
        must_wait = false;
        (void)node->task->ops->completed(node->task, queue->device);
        node->task->number = 0;
        am_error_capture_end(before);
        if (rc != ACL_SUCCESS)
            am_model_fail(lane->model, lane, node, rc, text);
    }
}

/*
 * The memory of the steps that the lane executes one after the other.  Most steps use the
 * mappings and blocks of the step before, and do not acquire and release them anew.
 */
struct kept {
    const struct am_task_ops *ops; /* NULL: nothing is kept */
    _Alignas(max_align_t) char memory[AM_STEP_SIZE];
};

static void kept_close(struct kept *kept)
{
    if (kept->ops != NULL)
        kept->ops->step_close(kept->memory);
    kept->ops = NULL;
}

/* Executes the task on the device, or else in this thread. */
static aclError task_execute(struct am_model_lane *lane, struct am_task *task,
                             struct kept *kept)
{
    struct am_queue *queue = lane->runs_in->queue;
    bool is_first = kept->ops == NULL;

    if (task->ops->launch != NULL && am_queue_has_lane(queue)) {
        aclError rc = task->ops->launch(task, queue->device, queue->lane);

        if (rc != ACL_SUCCESS || task->number != 0)
            return rc;
    }
    lane_settle(lane);
    if (task->ops->step_run == NULL)
        return task->ops->run(task);
    kept->ops = task->ops;
    return task->ops->step_run(task, kept->memory, is_first);
}

/* ---- lanes ---- */

/* Nodes before `n` are done; wakes lanes that wait for that. */
static void done_set(struct am_model_lane *lane, uint32_t n)
{
    atomic_store_explicit(&lane->n_done, n, memory_order_release);
    am_waitlist_wake(&lane->waiting);
}

static bool is_done(const struct am_model *model, const struct am_place *place)
{
    return atomic_load_explicit(&model->lanes[place->lane]->n_done,
                                memory_order_acquire) > place->position;
}

static enum am_poll wait_poll(struct am_model_lane *lane, const struct am_node *node)
{
    struct am_model *model = lane->model;

    if (is_done(model, &node->from))
        return AM_POLL_READY;
    am_waitlist_join(&model->lanes[node->from.lane]->waiting, lane->runs_in);
    return is_done(model, &node->from) ? AM_POLL_READY : AM_POLL_WAIT;
}

/* At the end of lane 0: whether the other lanes have ended. */
static enum am_poll end_poll(struct am_model_lane *lane)
{
    struct am_model *model = lane->model;

    if (lane->index != 0 || model->n_active == 0)
        return AM_POLL_READY;
    am_waitlist_join(&model->ended, lane->runs_in);
    return model->n_active == 0 ? AM_POLL_READY : AM_POLL_WAIT;
}

/* Of an execution that has failed: no function of the program runs for the task. */
static bool is_withdrawn(struct am_task *inner)
{
    return inner == NULL || inner->ops->withdraw == NULL || inner->ops->withdraw(inner);
}

/* Whether the next node can run. */
static enum am_poll lane_poll(struct am_model_lane *lane)
{
    char timed_out[] = "what it waits for did not happen in time";
    struct am_node *node;
    struct am_task *task;
    enum am_poll poll;

    if (lane->position == lane->n)
        return end_poll(lane);
    if (lane->model->is_failed && is_withdrawn(lane->runs_in->inner))
        return AM_POLL_READY;
    node = &lane->nodes[lane->position];
    if (lane->arrived == 0 &&
        atomic_load_explicit(&am_node_ran, memory_order_relaxed) != NULL)
        lane->arrived = am_clock();
    if (node->is_wait)
        return wait_poll(lane, node);
    if (node->is_disabled)
        return AM_POLL_READY;
    task = node->task;
    if (!lane->is_armed) {
        lane->is_armed = true;
        task->queue = lane->runs_in->queue;
        task->queued = lane->model->queued; /* for the models of a condition */
        if (task->ops->rearm != NULL)
            task->ops->rearm(task);
        if (task->deadline != AM_FOREVER)
            lane->runs_in->deadline = task->deadline + am_sched.setup.now();
    }
    if (task->ops->poll == NULL)
        return AM_POLL_READY;
    lane_settle(lane);
    lane->runs_in->inner = task; /* before the function may begin */
    poll = task->ops->poll(task);
    if (poll != AM_POLL_READY && am_sched.setup.now() >= lane->runs_in->deadline) {
        am_model_fail(lane->model, lane, node, task->ops->timeout, timed_out);
        poll = AM_POLL_READY;
    }
    if (poll == AM_POLL_READY) {
        lane->runs_in->inner = NULL;
        lane->runs_in->deadline = AM_FOREVER;
    }
    return poll;
}

/* The task that runs instead of a node's; an execution inside of another one makes it now. */
static aclError announced_take(struct am_model_lane *lane, const struct am_node *node,
                               struct am_task **ret_task)
{
    struct am_execution *owner = lane->model->owner;

    if (owner != NULL) {
        *ret_task = owner->announced[node->announced - 1];
        owner->announced[node->announced - 1] = NULL;
        return ACL_SUCCESS;
    }
    AM_TRY(node->task->ops->announce(node->task, ret_task));
    (*ret_task)->queue = lane->runs_in->queue;
    return (*ret_task)->ops->enter(*ret_task);
}

static aclError announced_run(struct am_model_lane *lane, const struct am_node *node)
{
    struct am_task *task;
    aclError rc;

    lane_settle(lane);
    AM_TRY(announced_take(lane, node, &task));
    rc = task->ops->run(task);
    task->ops->free(task);
    return rc;
}

static void node_run(struct am_model_lane *lane, struct am_node *node, struct kept *kept)
{
    struct am_task *task = node->task;
    char text[512];
    aclError rc;

    if (node->is_disabled ||
        (task->ops->run == NULL && task->ops->step_run == NULL && node->announced == 0))
        return;
    text[0] = '\0';
    am_error_function = task->function;
    rc = AM_CAPTURED(text, sizeof text,
                     node->announced != 0 ? announced_run(lane, node)
                                          : task_execute(lane, task, kept));
    if (rc != ACL_SUCCESS)
        am_model_fail(lane->model, lane, node, rc, text);
}

/* Reports the time of a node; the device reports no times of what it executes. */
static void node_report(struct am_model_lane *lane, const struct am_node *node)
{
    am_node_hook hook = atomic_load_explicit(&am_node_ran, memory_order_relaxed);

    if (hook != NULL && lane->arrived != 0 && !node->is_disabled &&
        node->task->number == 0 && !lane->model->is_failed)
        hook(lane, node, lane->arrived, am_clock());
    lane->arrived = 0;
}

/* Another thread may check what the lane waits for. */
static void position_set(struct am_model_lane *lane, uint32_t position)
{
    atomic_store_explicit(&lane->position, position, memory_order_relaxed);
}

/* The node that waits will not run. */
static void lane_cancel(struct am_model_lane *lane)
{
    const struct am_cause cause = {.rc = ACL_ERROR_RT_STREAM_ABORT};
    struct am_task *task;

    lane_settle(lane);
    if (lane->position == lane->n || !lane->is_armed)
        return;
    task = lane->nodes[lane->position].task;
    (void)is_withdrawn(task); /* a function that has not begun does not run later */
    if (task->ops->cancel != NULL)
        task->ops->cancel(task, &cause);
}

/*
 * Executes nodes until one has to wait; true: the lane has ended.  In chaos mode one node, so
 * that the lanes are executed in any order that the edges allow.
 */
static bool lane_run(struct am_model_lane *lane)
{
    struct am_model *model = lane->model;
    const char *function = am_error_function;
    bool is_chaotic = am_sched.setup.is_chaotic;
    struct am_node *node;
    struct kept kept;

    kept.ops = NULL;
    do {
        if (model->is_failed) {
            lane_cancel(lane);
            position_set(lane, lane->n);
        }
        if (lane->position == lane->n)
            break;
        node = &lane->nodes[lane->position];
        node_run(lane, node, &kept);
        node_report(lane, node);
        position_set(lane, lane->position + 1);
        lane->is_armed = false;
        if (node->is_awaited || lane->position == lane->n ||
            lane->nodes[lane->position].task->ops->step_run == NULL)
            kept_close(&kept); /* before other work begins */
        if (node->is_awaited || lane->position == lane->n)
            lane_settle(lane);
        if (node->is_awaited)
            done_set(lane, lane->position);
    } while (!is_chaotic && lane_poll(lane) == AM_POLL_READY);
    kept_close(&kept);
    am_error_function = function;
    if (model->is_failed) {
        lane->runs_in->inner = NULL;
        done_set(lane, lane->n);
    }
    return lane->position == lane->n && end_poll(lane) == AM_POLL_READY;
}

static unsigned lane_sources(struct am_model_lane *lane, struct am_source *list,
                             bool *ret_is_only)
{
    const struct am_model *model = lane->model;
    struct am_task *inner = lane->runs_in->inner;
    unsigned n = 0;

    if (inner != NULL)
        return inner->ops->sources != NULL ? inner->ops->sources(inner, list, ret_is_only)
                                           : 0;
    if (lane->position < lane->n) {
        if (lane->nodes[lane->position].is_wait) {
            const struct am_model_lane *from =
                model->lanes[lane->nodes[lane->position].from.lane];

            list[n++] = (struct am_source){from->runs_in->queue, from->runs_in->position};
        }
    } else {
        for (uint32_t i = 1; i < model->n_lanes && n < AM_SOURCES_MAX; i++)
            list[n++] = (struct am_source){&model->lanes[i]->queue,
                                           model->lanes[i]->task.position};
    }
    *ret_is_only = n > 0;
    return n;
}

static void lane_describe(const struct am_model_lane *lane, char *text, size_t size)
{
    struct am_task *inner = lane->runs_in->inner;

    if (inner != NULL)
        am_task_describe(inner, text, size);
    else
        snprintf(text, size, "model %u has executed its other streams", lane->model->id);
}

static struct am_model_lane *lane_of(const struct am_task *task)
{
    return AM_CONTAINER_OF(task, struct am_model_lane, task);
}

static enum am_poll lane_task_poll(struct am_task *task)
{
    return lane_poll(lane_of(task));
}

static aclError lane_task_run(struct am_task *task)
{
    task->is_unfinished = !lane_run(lane_of(task));
    return ACL_SUCCESS;
}

/* Of a lane, or of an execution. */
static bool task_withdraw(struct am_task *task)
{
    return is_withdrawn(task->inner);
}

static void lane_task_free(struct am_task *task)
{
    struct am_model *model = lane_of(task)->model;

    task->inner = NULL;
    if (--model->n_active == 0)
        am_waitlist_wake(&model->ended);
}

static void lane_task_cancel(struct am_task *task, const struct am_cause *cause)
{
    lane_cancel(lane_of(task));
}

static unsigned lane_task_sources(struct am_task *task, struct am_source *list,
                                  bool *ret_is_only)
{
    return lane_sources(lane_of(task), list, ret_is_only);
}

static void lane_task_describe(const struct am_task *task, char *text, size_t size)
{
    lane_describe(lane_of(task), text, size);
}

const struct am_task_ops am_lane_ops = {
    .poll = lane_task_poll,
    .run = lane_task_run,
    .withdraw = task_withdraw,
    .cancel = lane_task_cancel,
    .free = lane_task_free,
    .sources = lane_task_sources,
    .describe = lane_task_describe,
};

/* ---- models ---- */

unsigned am_model_sources(struct am_model *model, struct am_source *list,
                          bool *ret_is_only)
{
    return lane_sources(model->lanes[0], list, ret_is_only);
}

static void parts_start(struct am_model *model)
{
    struct am_model_part *part;

    am_lock(&model->lock);
    LIST_FOREACH (part, &model->parts, all) {
        if (part->start != NULL)
            part->start(part);
    }
    am_unlock(&model->lock);
}

void am_model_start(struct am_model *model, struct am_task *task)
{
    parts_start(model);
    model->rc = ACL_SUCCESS;
    model->is_failed = false;
    model->queued = task->queued;
    model->n_active = model->n_lanes - 1;
    for (uint32_t i = 0; i < model->n_lanes; i++) {
        struct am_model_lane *lane = model->lanes[i];

        position_set(lane, 0);
        lane->arrived = 0;
        lane->n_settled = 0;
        lane->is_armed = false;
        lane->n_done = 0;
        lane->task.is_unfinished = false;
        lane->task.is_first = false;
        lane->task.deadline = AM_FOREVER; /* it may have been dropped before */
        lane->task.function = task->function;
        lane->task.queue = &lane->queue;
    }
    model->lanes[0]->runs_in = task;
    for (uint32_t i = 1; i < model->n_lanes; i++) {
        aclError rc =
            am_queue_submit(&model->lanes[i]->queue, &model->lanes[i]->task, NULL);

        am_assert(rc == ACL_SUCCESS); /* the workers were started for the stream */
    }
}

enum am_poll am_model_advance(struct am_model *model)
{
    enum am_poll poll;

    do {
        poll = lane_poll(model->lanes[0]);
    } while (poll == AM_POLL_READY && !lane_run(model->lanes[0]));
    return poll;
}

void am_model_abort(struct am_model *model)
{
    model->is_failed = true;
    lane_cancel(model->lanes[0]);
    for (uint32_t i = 1; i < model->n_lanes; i++)
        (void)am_queue_drop(&model->lanes[i]->queue, false, AM_FOREVER);
}

/* ---- executions ---- */

static void model_release(struct am_execution *execution)
{
    struct am_model *model = execution->model;

    execution->is_owner = false;
    am_lock(&model->lock);
    model->owner = NULL;
    am_unlock(&model->lock);
    am_waitlist_wake(&model->waiting);
}

/* The execution owns the model, or waits until another one has ended. */
static bool model_acquire(struct am_execution *execution)
{
    struct am_model *model = execution->model;
    bool is_free;

    am_lock(&model->lock);
    is_free = model->owner == NULL && model->n_launched == 0;
    if (is_free)
        model->owner = execution;
    else
        am_waitlist_join(&model->waiting, &execution->task);
    am_unlock(&model->lock);
    return is_free;
}

static enum am_poll execution_poll(struct am_task *task)
{
    struct am_execution *execution = (struct am_execution *)task;

    if (!execution->is_owner) {
        am_execution_close(execution); /* it was not launched */
        if (!model_acquire(execution))
            return am_model_poll(execution->model) ? AM_POLL_AGAIN : AM_POLL_WAIT;
        am_model_start(execution->model, task);
        execution->is_owner = true; /* from now on the lanes show what it waits for */
    }
    return lane_poll(execution->model->lanes[0]);
}

static aclError execution_run(struct am_task *task)
{
    struct am_execution *execution = (struct am_execution *)task;
    struct am_model *model = execution->model;
    aclError rc;

    task->is_unfinished = !lane_run(model->lanes[0]);
    if (task->is_unfinished)
        return ACL_SUCCESS;
    rc = model->rc;
    if (rc != ACL_SUCCESS)
        (void)am_fail(rc, "%s", model->failure);
    model_release(execution);
    return rc;
}

/* Tasks of the other lanes that have not begun are dropped. */
static void execution_cancel(struct am_task *task, const struct am_cause *cause)
{
    struct am_execution *execution = (struct am_execution *)task;
    struct am_model *model = execution->model;

    if (!execution->is_owner)
        return;
    am_model_abort(model);
    task->inner = NULL;
    model_release(execution);
}

/* Tasks that the execution announced and did not run. */
static void announced_drop(struct am_execution *execution)
{
    const struct am_cause cause = {.rc = ACL_ERROR_RT_STREAM_ABORT};

    for (uint32_t i = 0; i < execution->model->n_announced; i++) {
        struct am_task *task = execution->announced[i];

        if (task == NULL)
            continue;
        if (execution->is_entered && task->ops->cancel != NULL)
            task->ops->cancel(task, &cause);
        task->ops->free(task);
        execution->announced[i] = NULL;
    }
}

static aclError execution_enter(struct am_task *task)
{
    struct am_execution *execution = (struct am_execution *)task;

    execution->is_entered = true;
    for (uint32_t i = 0; i < execution->model->n_announced; i++) {
        struct am_task *announced = execution->announced[i];

        announced->queue = task->queue;
        announced->position = task->position;
        AM_TRY(announced->ops->enter(announced));
    }
    return ACL_SUCCESS;
}

static void execution_free(struct am_task *task)
{
    struct am_execution *execution = (struct am_execution *)task;
    struct am_model *model = execution->model;

    announced_drop(execution);
    if (execution->is_owner) /* it could not be queued */
        model_release(execution);
    am_execution_end(execution);
    am_lock(&model->lock);
    LIST_REMOVE(execution, link);
    LIST_INSERT_HEAD(&model->spares, execution, link);
    pthread_cond_broadcast(&model->changed);
    am_unlock(&model->lock);
    am_model_put(model);
}

static unsigned execution_sources(struct am_task *task, struct am_source *list,
                                  bool *ret_is_only)
{
    struct am_execution *execution = (struct am_execution *)task;
    struct am_model *model = execution->model;
    unsigned n = 0;

    if (execution->is_owner)
        return lane_sources(model->lanes[0], list, ret_is_only);
    am_lock(&model->lock);
    if (model->owner != NULL)
        list[n++] =
            (struct am_source){model->owner->task.queue, model->owner->task.position};
    else if (model->n_launched > 0)
        list[n++] = (struct am_source){model->launched_on, 0};
    am_unlock(&model->lock);
    return n;
}

static void execution_describe(const struct am_task *task, char *text, size_t size)
{
    const struct am_execution *execution = (const struct am_execution *)task;

    if (execution->is_owner)
        lane_describe(execution->model->lanes[0], text, size);
    else
        snprintf(text, size, "the execution of model %u on another stream ends",
                 execution->model->id);
}

static const struct am_task_ops execution_ops = {
    .enter = execution_enter,
    .launch = am_execution_launch,
    .failure = ACL_ERROR_RT_MODEL_EXECUTE,
    .poll = execution_poll,
    .run = execution_run,
    .withdraw = task_withdraw,
    .cancel = execution_cancel,
    .free = execution_free,
    .sources = execution_sources,
    .describe = execution_describe,
};

/* A spare execution, or a new one, is pending from now on. */
static aclError execution_make(struct am_model *model, struct am_queue *queue,
                               struct am_execution **ret_execution)
{
    struct am_execution *execution;

    am_lock(&model->lock);
    execution = LIST_FIRST(&model->spares);
    if (execution != NULL)
        LIST_REMOVE(execution, link);
    am_unlock(&model->lock);
    if (execution == NULL)
        execution = am_sys_calloc(1, sizeof *execution +
                                         model->n_announced * sizeof(struct am_task *));
    AM_REQUIRE(execution != NULL, ACL_ERROR_BAD_ALLOC, "no memory to execute a model");
    am_task_init(&execution->task, &execution_ops);
    execution->task.is_short = model->is_short;
    execution->model = model;
    execution->queue = queue;
    execution->is_owner = false;
    execution->is_entered = false;
    am_ref_more(&model->named.refs);
    am_lock(&model->lock);
    LIST_INSERT_HEAD(&model->pending, execution, link);
    am_unlock(&model->lock);
    *ret_execution = execution;
    return ACL_SUCCESS;
}

static aclError announced_make(struct am_execution *execution)
{
    const struct am_model *model = execution->model;

    for (uint32_t i = 0; i < model->n_lanes && model->n_announced > 0; i++) {
        for (uint32_t k = 0; k < model->lanes[i]->n; k++) {
            const struct am_node *node = &model->lanes[i]->nodes[k];

            if (node->announced != 0)
                AM_TRY(node->task->ops->announce(
                    node->task, &execution->announced[node->announced - 1]));
        }
    }
    return ACL_SUCCESS;
}

aclError am_model_execute(struct am_model *model, struct am_stream *stream)
{
    struct am_execution *execution;
    aclError rc;

    AM_REQUIRE(model->status == ACL_MODEL_RI_CAPTURE_STATUS_NONE,
               ACL_ERROR_RT_MODEL_CAPTURED, "model %u is not complete; call %s first",
               model->id, am_model_end_name(model));
    AM_REQUIRE(model->parent == 0, ACL_ERROR_RT_PARAM_INVALID,
               "model %u belongs to a conditional task of model %u, which executes it",
               model->id, model->parent);
    AM_REQUIRE(stream->device == model->device, ACL_ERROR_RT_PARAM_INVALID,
               "model %u was captured on device %d, and stream %d is on device %d",
               model->id, model->device, stream->id, stream->device);
    AM_REQUIRE(model->is_complete, ACL_ERROR_RT_PARAM_INVALID,
               "model %u was not built completely", model->id);
    AM_TRY(execution_make(model, &stream->queue, &execution));
    rc = announced_make(execution);
    if (rc == ACL_SUCCESS) {
        am_execution_open(execution);
        return am_stream_submit(stream, &execution->task);
    }
    execution_free(&execution->task);
    return rc;
}

/* ---- waiting ---- */

static bool pending_is_done(void *what)
{
    return LIST_EMPTY(&((const struct am_model *)what)->pending);
}

/* A queue with an execution that cannot move (or, in a function, that waits for it); or NULL. */
static struct am_queue *pending_find(struct am_model *model, const struct am_stall *stall)
{
    struct am_queue *queues[AM_SOURCES_MAX];
    const struct am_execution *execution;
    unsigned n = 0;

    am_lock(&model->lock);
    LIST_FOREACH (execution, &model->pending, link) {
        if (n < AM_SOURCES_MAX)
            queues[n++] = execution->queue;
    }
    am_unlock(&model->lock);
    while (n > 0) {
        struct am_queue *queue = queues[--n];

        if (stall != NULL ? !am_stall_can_move(queue, stall)
                          : am_stall_awaits_caller(queue, UINT64_MAX))
            return queue;
    }
    return NULL;
}

static bool pending_poll(void *what, bool may_block)
{
    return am_model_poll(what);
}

static bool pending_can_end(void *what, const struct am_stall *stall)
{
    return pending_find(what, stall) == NULL;
}

static bool pending_stalled(void *what)
{
    struct am_model *model = what;
    char why[AM_STALL_TEXT] = "another stream works";
    struct am_stall stall;
    struct am_queue *queue;

    am_stall_start(&stall, &am_sched);
    queue = pending_find(model, &stall);
    if (queue != NULL)
        am_stall_describe(queue, why, sizeof why);
    am_log(AM_LOG_WARN, "%s has waited %d seconds for model %u to end: %s",
           am_error_function, (int)(AM_STALL_TIMEOUT / AM_SECOND), model->id, why);
    return false;
}

aclError am_model_wait(struct am_model *model)
{
    struct am_wait wait = {
        .sched = &am_sched,
        .changed = &model->changed,
        .what = model,
        .is_done = pending_is_done,
        .poll = pending_poll,
        .can_end = pending_can_end,
        .stalled = pending_stalled,
    };

    AM_REQUIRE(pending_find(model, NULL) == NULL, ACL_ERROR_RT_PARAM_INVALID,
               "model %u waits for the host function or callback that makes this call",
               model->id);
    am_lock(&model->lock);
    (void)am_wait_locked(&model->lock, &wait, AM_FOREVER);
    am_unlock(&model->lock);
    return ACL_SUCCESS;
}
