/* See inspect.h. */
#include "core/model/inspect.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"

static const char *const type_names[] = {
    [ACL_MODEL_RI_TASK_DEFAULT] = "DEFAULT",
    [ACL_MODEL_RI_TASK_KERNEL] = "KERNEL",
    [ACL_MODEL_RI_TASK_EVENT_RECORD] = "EVENT_RECORD",
    [ACL_MODEL_RI_TASK_EVENT_WAIT] = "EVENT_WAIT",
    [ACL_MODEL_RI_TASK_EVENT_RESET] = "EVENT_RESET",
    [ACL_MODEL_RI_TASK_VALUE_WRITE] = "VALUE_WRITE",
    [ACL_MODEL_RI_TASK_VALUE_WAIT] = "VALUE_WAIT",
};

/* ---- prints ---- */

static const struct am_node *record_of(const struct am_model *model,
                                       const struct am_node *node)
{
    return &model->lanes[node->from.lane]->nodes[node->from.position];
}

void am_model_print(const struct am_model *model)
{
    for (uint32_t i = 0; i < model->n_lanes; i++) {
        const struct am_model_lane *lane = model->lanes[i];

        for (uint32_t k = 0; k < lane->n; k++) {
            const struct am_node *node = &lane->nodes[k];

            fprintf(stderr, "aclmem: model %u, device %d, stream %d, task %u: %s %s",
                    model->id, model->device, lane->stream_id, node->number,
                    type_names[node->task->ops->type], node->task->function);
            if (node->is_wait)
                fprintf(stderr, ", after task %u", record_of(model, node)->number);
            fputc('\n', stderr);
        }
    }
}

/* The number of a task is its time; an edge is an arrow from the record to the wait. */
static void node_write(FILE *file, const struct am_model *model,
                       const struct am_model_lane *lane, const struct am_node *node,
                       const char *separator)
{
    fprintf(file,
            "%s\n{\"name\":\"%s\",\"cat\":\"task\",\"ph\":\"X\",\"ts\":%u,\"dur\":1,"
            "\"pid\":%u,\"tid\":%d,\"args\":{\"task\":%u,\"type\":\"%s\"}}",
            separator, node->task->function, node->number, model->id, lane->stream_id,
            node->number, type_names[node->task->ops->type]);
    if (!node->is_wait)
        return;
    fprintf(file,
            ",\n{\"name\":\"edge\",\"cat\":\"edge\",\"ph\":\"s\",\"id\":%u,\"ts\":%u,"
            "\"pid\":%u,\"tid\":%d}",
            node->number, record_of(model, node)->number, model->id,
            model->lanes[node->from.lane]->stream_id);
    fprintf(file,
            ",\n{\"name\":\"edge\",\"cat\":\"edge\",\"ph\":\"f\",\"bp\":\"e\",\"id\":%u,"
            "\"ts\":%u,\"pid\":%u,\"tid\":%d}",
            node->number, node->number, model->id, lane->stream_id);
}

static void model_write(FILE *file, const struct am_model *model)
{
    const char *separator = "";

    fprintf(file, "{\"model\":%u,\"device\":%d,\"traceEvents\":[", model->id,
            model->device);
    for (uint32_t i = 0; i < model->n_lanes; i++) {
        for (uint32_t k = 0; k < model->lanes[i]->n; k++) {
            node_write(file, model, model->lanes[i], &model->lanes[i]->nodes[k],
                       separator);
            separator = ",";
        }
    }
    fprintf(file, "\n]}\n");
}

aclError am_model_write(const struct am_model *model, const char *path)
{
    int fd =
        am_sys_openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    FILE *file = fd >= 0 ? fdopen(fd, "w") : NULL;
    bool has_failed;

    if (file == NULL && fd >= 0)
        close(fd);
    AM_REQUIRE(file != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "the file %s cannot be written: %m", path);
    model_write(file, model);
    has_failed = ferror(file) != 0;
    AM_REQUIRE(fclose(file) == 0 && !has_failed, ACL_ERROR_RT_PARAM_INVALID,
               "the file %s cannot be written: %m", path);
    return ACL_SUCCESS;
}

/* ---- streams and tasks ---- */

static aclError room_check(const void *array, uint32_t *n, uint32_t n_all)
{
    uint32_t room = *n;

    *n = n_all;
    AM_REQUIRE(array == NULL || room >= n_all, ACL_ERROR_RT_INSUFFICIENT_INPUT_ARRAY,
               "the array has %u elements, and %u are needed", room, n_all);
    return ACL_SUCCESS;
}

aclError am_model_streams(const struct am_model *model, void **streams, uint32_t *n)
{
    AM_TRY(room_check(streams, n, model->n_lanes));
    for (uint32_t i = 0; streams != NULL && i < model->n_lanes; i++)
        streams[i] = model->lanes[i]->named.handle;
    return ACL_SUCCESS;
}

aclError am_model_tasks(void *stream, void **tasks, uint32_t *n)
{
    const struct am_model_lane *lane = am_named_find(AM_KIND_LANE, stream);

    AM_REQUIRE(lane != NULL, ACL_ERROR_RT_INVALID_HANDLE,
               "stream %p %s; take it from aclmdlRIGetStreams", stream,
               am_handle_why(AM_KIND_LANE, stream));
    AM_TRY(room_check(tasks, n, lane->n));
    for (uint32_t i = 0; tasks != NULL && i < lane->n; i++)
        tasks[i] = &lane->nodes[i];
    return ACL_SUCCESS;
}

/* The node at this address, if the model has one there. */
static struct am_node *node_find(const struct am_model *model, const void *task)
{
    for (uint32_t i = 0; i < model->n_lanes; i++) {
        struct am_model_lane *lane = model->lanes[i];
        uintptr_t at = (uintptr_t)task - (uintptr_t)lane->nodes;

        if (at / sizeof(struct am_node) < lane->n && at % sizeof(struct am_node) == 0)
            return &lane->nodes[at / sizeof(struct am_node)];
    }
    return NULL;
}

aclError am_model_task_get(void *task, struct am_node **ret_node,
                           struct am_model **ret_model)
{
    struct am_node *node = NULL;
    struct am_model *model;

    am_lock(&am_models.lock);
    LIST_FOREACH (model, &am_models.list, all) {
        if (model->is_complete && (node = node_find(model, task)) != NULL) {
            am_ref_more(&model->named.refs);
            break;
        }
    }
    am_unlock(&am_models.lock);
    AM_REQUIRE(node != NULL, ACL_ERROR_RT_INVALID_HANDLE,
               "task %p is not a task of a model; take it from aclmdlRIGetTasksByStream",
               task);
    *ret_node = node;
    *ret_model = model;
    return ACL_SUCCESS;
}

void am_model_task_params(const struct am_node *node, aclmdlRITaskParams *params)
{
    memset(params, 0, sizeof *params);
    params->type = node->task->ops->type;
    if (node->task->ops->params != NULL)
        node->task->ops->params(node->task, params);
}

aclError am_model_task_disable(struct am_model *model, struct am_node *node)
{
    AM_REQUIRE(node->task->ops->type < ACL_MODEL_RI_TASK_EVENT_RECORD ||
                   node->task->ops->type > ACL_MODEL_RI_TASK_EVENT_RESET,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "task %u is %s: tasks of events order the model and cannot be disabled",
               node->number, type_names[node->task->ops->type]);
    am_lock(&model->lock);
    node->will_be_disabled = true;
    am_unlock(&model->lock);
    return ACL_SUCCESS;
}

aclError am_model_update(struct am_model *model)
{
    bool is_running;

    (void)am_model_poll(model);
    am_lock(&model->lock);
    is_running = !LIST_EMPTY(&model->pending);
    for (uint32_t i = 0; i < model->n_lanes && !is_running; i++) {
        for (uint32_t k = 0; k < model->lanes[i]->n; k++)
            model->lanes[i]->nodes[k].is_disabled =
                model->lanes[i]->nodes[k].will_be_disabled;
    }
    am_unlock(&model->lock);
    AM_REQUIRE(!is_running, ACL_ERROR_RT_MODEL_RUNNING,
               "model %u runs; synchronise its stream first", model->id);
    return ACL_SUCCESS;
}

/* ---- callbacks ---- */

struct callback {
    struct am_model_part part;
    aclrtCallback function;
    void *data;
};

static void callback_run(struct am_model_part *part)
{
    struct callback *callback = (struct callback *)part;
    unsigned depth = am_epoch_suspend();

    callback->function(callback->data);
    am_epoch_resume(depth);
}

static void callback_free(struct am_model_part *part)
{
    free(part);
}

aclError am_model_add_callback(struct am_model *model, aclrtCallback function, void *data)
{
    struct callback *callback = am_sys_calloc(1, sizeof *callback);

    AM_REQUIRE(callback != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a callback");
    callback->part.destroyed = callback_run;
    callback->part.free = callback_free;
    callback->function = function;
    callback->data = data;
    am_model_add_part(model, &callback->part);
    return ACL_SUCCESS;
}

aclError am_model_remove_callback(struct am_model *model, aclrtCallback function)
{
    struct am_model_part *part;

    am_lock(&model->lock);
    LIST_FOREACH (part, &model->parts, all) {
        if (!model->is_reported && part->destroyed == callback_run &&
            ((struct callback *)part)->function == function) {
            LIST_REMOVE(part, all);
            break;
        }
    }
    am_unlock(&model->lock);
    AM_REQUIRE(part != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "the function is not registered for model %u", model->id);
    part->free(part);
    return ACL_SUCCESS;
}
