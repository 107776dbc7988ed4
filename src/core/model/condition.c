/* See condition.h. */
#include "core/model/condition.h"

#include <stdio.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/copy/memory_op.h"
#include "core/heap/heap.h"
#include "core/stream/capture.h"

#define LOOPS_MAX 64 /* executions of a loop in a row; then other work has a chance */

struct condition {
    struct am_named named;
    struct am_model_part part;
    uint32_t model; /* its id */
    void *addr;
    int32_t device;
    uint64_t value;
    bool has_default;
};

/* ---- conditions ---- */

static void condition_start(struct am_model_part *part)
{
    struct condition *condition = AM_CONTAINER_OF(part, struct condition, part);
    struct am_capture before = am_error_hush();

    if (condition->has_default)
        (void)am_memory_access(condition->addr, &condition->value,
                               sizeof condition->value, AM_ACCESS_WRITE | AM_SPANS_TURN,
                               condition->device, "the address");
    am_error_capture_end(before);
}

static void condition_put(struct condition *condition)
{
    struct am_capture before;

    if (!am_ref_drop(&condition->named.refs))
        return;
    before = am_error_hush(); /* the program may have freed it */
    (void)am_heap_free(AM_HEAP_DEVICE, condition->addr);
    am_error_capture_end(before);
    am_named_free(&condition->named);
}

static void condition_free(struct am_model_part *part)
{
    struct condition *condition = AM_CONTAINER_OF(part, struct condition, part);

    am_named_unpublish(&condition->named);
    condition_put(condition);
}

aclError am_condition_create(struct am_model *model, uint32_t value, bool has_default,
                             void **ret_handle)
{
    struct condition *condition = am_named_alloc(AM_KIND_CONDITION, sizeof *condition);
    aclError rc;

    AM_REQUIRE(condition != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a condition");
    condition->part.start = condition_start;
    condition->part.free = condition_free;
    condition->model = model->id;
    condition->device = model->device;
    condition->value = value;
    condition->has_default = has_default;
    rc = am_heap_malloc(am_heap_of(model->device, AM_HEAP_DEVICE), sizeof(uint64_t), 0,
                        4096, AM_MODULE_NONE, &condition->addr);
    if (rc != ACL_SUCCESS) {
        am_named_free(&condition->named);
        return rc;
    }
    *ret_handle = am_named_publish(&condition->named);
    am_model_add_part(model, &condition->part);
    return ACL_SUCCESS;
}

/* With a reference. */
static aclError condition_get(void *handle, struct condition **ret_condition)
{
    *ret_condition = am_named_get(AM_KIND_CONDITION, handle);
    AM_REQUIRE(*ret_condition != NULL, ACL_ERROR_RT_INVALID_HANDLE, "condition %p %s",
               handle, am_handle_why(AM_KIND_CONDITION, handle));
    return ACL_SUCCESS;
}

aclError am_condition_address(void *handle, void **ret_addr)
{
    struct condition *condition;

    AM_TRY(condition_get(handle, &condition));
    *ret_addr = condition->addr;
    condition_put(condition);
    return ACL_SUCCESS;
}

/* ---- tasks ---- */

struct branch {
    struct am_task task;
    struct condition *condition; /* a reference */
    aclmdlRICondTaskType type;
    _Atomic(struct am_model *) current; /* the child that is executed now */
    bool is_done;
    aclError rc;
    char why[512];
    uint32_t n;
    struct am_model *children[]; /* a reference to each */
};

/* Whether the child was never captured; its capture may begin now. */
static bool child_is_empty(struct am_model *child)
{
    uint32_t n_lanes;

    if (child->is_complete)
        return false;
    am_lock(&am_models.lock);
    n_lanes = child->n_lanes;
    am_unlock(&am_models.lock);
    return n_lanes == 0;
}

/* The child that the value selects, or NULL: none. */
static aclError branch_select(struct branch *branch, struct am_model **ret_child)
{
    uint64_t value = 0;

    *ret_child = NULL;
    AM_TRY(am_memory_access(branch->condition->addr, &value, sizeof value,
                            AM_ACCESS_READ | AM_SPANS_TURN, branch->condition->device,
                            "the address"));
    if (branch->type == ACL_MODEL_RI_COND_TYPE_WHILE)
        value = value != 0 ? 0 : branch->n;
    else if (branch->type == ACL_MODEL_RI_COND_TYPE_IF)
        value = value == 0;
    if (value >= branch->n || child_is_empty(branch->children[value]))
        return ACL_SUCCESS;
    AM_REQUIRE(branch->children[value]->is_complete, ACL_ERROR_RT_MODEL_CAPTURED,
               "the capture of model %u, which the condition selects, has not ended well",
               branch->children[value]->id);
    *ret_child = branch->children[value];
    return ACL_SUCCESS;
}

/* Starts the next child; false: there is none. */
static bool branch_start(struct branch *branch)
{
    struct am_capture before = am_error_capture(branch->why, sizeof branch->why);
    const char *function = am_error_function;
    struct am_model *child;

    am_error_function = branch->task.function;
    branch->rc = branch_select(branch, &child);
    am_error_function = function;
    am_error_capture_end(before);
    if (child != NULL)
        am_model_start(child, &branch->task);
    branch->current = child; /* its lanes show what it waits for */
    return child != NULL;
}

/* One execution of a child, or the rest of it. */
static enum am_poll branch_step(struct branch *branch)
{
    struct am_model *child = branch->current;
    enum am_poll poll;

    if (child == NULL && !branch_start(branch)) {
        branch->is_done = true;
        return AM_POLL_READY;
    }
    child = branch->current;
    poll = am_model_advance(child);
    if (poll != AM_POLL_READY)
        return poll;
    branch->current = NULL;
    branch->rc = child->rc;
    if (branch->rc != ACL_SUCCESS)
        snprintf(branch->why, sizeof branch->why, "%s", child->failure);
    branch->is_done =
        branch->rc != ACL_SUCCESS || branch->type != ACL_MODEL_RI_COND_TYPE_WHILE;
    return AM_POLL_READY;
}

static enum am_poll branch_poll(struct am_task *task)
{
    struct branch *branch = (struct branch *)task;
    enum am_poll poll = AM_POLL_READY;

    task->is_working = true;
    for (unsigned i = 0; i < LOOPS_MAX && poll == AM_POLL_READY && !branch->is_done; i++)
        poll = branch_step(branch);
    task->is_working = poll != AM_POLL_WAIT;
    return poll == AM_POLL_READY && !branch->is_done ? AM_POLL_AGAIN : poll;
}

static aclError branch_run(struct am_task *task)
{
    struct branch *branch = (struct branch *)task;

    AM_REQUIRE(branch->rc == ACL_SUCCESS, branch->rc, "%s", am_error_text(branch->why));
    return ACL_SUCCESS;
}

static void branch_rearm(struct am_task *task)
{
    struct branch *branch = (struct branch *)task;

    branch->current = NULL;
    branch->is_done = false;
    branch->rc = ACL_SUCCESS;
    task->is_working = false;
    task->inner = NULL;
    task->deadline = AM_FOREVER;
}

static bool branch_withdraw(struct am_task *task)
{
    struct am_task *inner = task->inner;

    return inner == NULL || inner->ops->withdraw == NULL || inner->ops->withdraw(inner);
}

static void branch_cancel(struct am_task *task, const struct am_cause *cause)
{
    struct branch *branch = (struct branch *)task;
    struct am_model *child = branch->current;

    if (child != NULL)
        am_model_abort(child);
    branch->current = NULL;
    task->inner = NULL;
}

/* The children end with the model. */
static void branch_free(struct am_task *task)
{
    struct branch *branch = (struct branch *)task;

    for (uint32_t i = 0; i < branch->n; i++)
        am_capture_abandon(branch->children[i]);
    condition_put(branch->condition);
    free(branch);
}

static unsigned branch_sources(struct am_task *task, struct am_source *list,
                               bool *ret_is_only)
{
    struct am_model *child = ((struct branch *)task)->current;

    return child != NULL ? am_model_sources(child, list, ret_is_only) : 0;
}

static const struct am_task_ops branch_ops = {
    .poll = branch_poll,
    .run = branch_run,
    .rearm = branch_rearm,
    .withdraw = branch_withdraw,
    .cancel = branch_cancel,
    .free = branch_free,
    .sources = branch_sources,
    .awaits = "the model of a condition ends",
};

/* The handles of the children are stored in the array. */
static aclError children_make(struct branch *branch, const struct am_stream *stream,
                              uint32_t parent, uint32_t n, aclmdlRI *array)
{
    for (uint32_t i = 0; i < n; i++) {
        struct am_model *child;

        AM_TRY(am_model_make(stream->device, &child));
        child->parent = parent;
        branch->children[branch->n++] = child;
        array[i] = child->named.handle;
    }
    return ACL_SUCCESS;
}

static aclError branch_make(const aclmdlRICondTaskParams *params,
                            const struct am_model *parent, struct branch **ret_branch)
{
    struct condition *condition;
    struct branch *branch = NULL;
    aclError rc = ACL_SUCCESS;

    AM_TRY(condition_get(params->handle, &condition));
    if (condition->model != parent->id)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "condition %p belongs to model %u, and the task to model %u; call "
                     "aclmdlRICondHandleCreate for model %u",
                     params->handle, condition->model, parent->id, parent->id);
    else
        branch =
            am_sys_calloc(1, sizeof *branch + params->size * sizeof *branch->children);
    if (rc == ACL_SUCCESS && branch == NULL)
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a task");
    if (rc != ACL_SUCCESS) {
        condition_put(condition);
        return rc;
    }
    am_task_init(&branch->task, &branch_ops);
    branch->task.is_captured = true;
    branch->condition = condition;
    branch->type = params->type;
    *ret_branch = branch;
    return ACL_SUCCESS;
}

aclError am_condition_add_task(const aclmdlRICondTaskParams *params,
                               struct am_stream *stream)
{
    struct am_model *parent = am_queue_model(&stream->queue);
    struct branch *branch;
    aclError rc;

    AM_REQUIRE(parent != NULL, ACL_ERROR_RT_STREAM_NOT_CAPTURED,
               "stream %d is not being captured; a conditional task is part of a capture",
               stream->id);
    AM_TRY(branch_make(params, parent, &branch));
    rc = children_make(branch, stream, parent->id, params->size, params->modelRIArray);
    if (rc == ACL_SUCCESS)
        return am_stream_submit(stream, &branch->task);
    branch_free(&branch->task);
    return rc;
}
