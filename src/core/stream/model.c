/* See model.h. */
#include "core/stream/model.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/stream/cond.h"

#define NODES_FIRST 16

struct am_models am_models = {.lock = AM_LOCK_INIT(AM_RANK_MODELS, "models")};

aclError am_model_get(void *handle, struct am_model **ret_model)
{
    AM_REQUIRE(handle != NULL, ACL_ERROR_INVALID_PARAM, "modelRI is NULL");
    *ret_model = am_named_get(AM_KIND_MODEL, handle);
    AM_REQUIRE(*ret_model != NULL, ACL_ERROR_RT_INVALID_HANDLE, "model %p %s", handle,
               am_handle_why(AM_KIND_MODEL, handle));
    return ACL_SUCCESS;
}

const char *am_model_end_name(const struct am_model *model)
{
    return model->is_built ? "aclmdlRIBuildEnd" : "aclmdlRICaptureEnd";
}

aclError am_model_make(int32_t device, struct am_model **ret_model)
{
    struct am_model *model = am_named_alloc(AM_KIND_MODEL, sizeof *model);

    AM_REQUIRE(model != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a model");
    model->device = device;
    model->hold.device = device;
    am_lock_init(&model->lock, AM_RANK_MODEL, "model");
    am_cond_init(&model->changed);
    am_waitlist_init(&model->ended);
    am_waitlist_init(&model->waiting);
    am_lock(&am_models.lock);
    model->id = model->hold.model = ++am_models.next_id;
    model->is_listed = true;
    LIST_INSERT_HEAD(&am_models.list, model, all);
    am_ref_more(&model->named.refs); /* before another thread finds and destroys it */
    am_named_publish(&model->named);
    am_unlock(&am_models.lock);
    *ret_model = model;
    return ACL_SUCCESS;
}

void am_model_add_part(struct am_model *model, struct am_model_part *part)
{
    am_lock(&model->lock);
    LIST_INSERT_HEAD(&model->parts, part, all);
    model->has_starts = model->has_starts || part->start != NULL;
    am_unlock(&model->lock);
}

/* ---- lanes ---- */

aclError am_model_add_lane_locked(struct am_model *model, struct am_stream *stream,
                                  aclError code, struct am_model_lane **ret_lane)
{
    struct am_model_lane **lanes =
        am_sys_realloc(model->lanes, (model->n_lanes + 1) * sizeof *lanes);
    struct am_model_lane *lane;
    aclError rc;

    AM_REQUIRE(lanes != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a captured stream");
    model->lanes = lanes;
    lane = am_named_alloc(AM_KIND_LANE, sizeof *lane);
    AM_REQUIRE(lane != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a captured stream");
    /* A stream that has joined captures the wait by which it joined: with no failure. */
    lane->nodes = am_sys_malloc(NODES_FIRST * sizeof *lane->nodes);
    lane->n_max = NODES_FIRST;
    rc = lane->nodes == NULL
             ? am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a captured stream")
             : am_stream_hold(&model->hold, code);
    if (rc != ACL_SUCCESS) {
        free(lane->nodes);
        am_named_free(&lane->named);
        return rc;
    }
    lane->model = model;
    lane->index = model->n_lanes;
    lane->stream_id = stream->id;
    if (lane->index == 0)
        model->origin_id = stream->id;
    lane->stream = stream;
    am_ref_more(&stream->named.refs);
    am_waitlist_init(&lane->waiting);
    am_queue_init(&lane->queue, &am_sched, stream->queue.runnable.priority,
                  stream->queue.device, stream->queue.driver);
    lane->queue.id = stream->id;
    lanes[model->n_lanes++] = lane;
    *ret_lane = lane;
    return ACL_SUCCESS;
}

aclError am_lane_append_locked(struct am_model_lane *lane, struct am_task *task)
{
    if (lane->n == lane->n_max) {
        uint32_t n_max = 2 * lane->n_max;
        struct am_node *nodes = am_sys_realloc(lane->nodes, n_max * sizeof *nodes);

        AM_REQUIRE(nodes != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a captured task");
        lane->nodes = nodes;
        lane->n_max = n_max;
    }
    lane->nodes[lane->n++] =
        (struct am_node){.task = task, .number = lane->model->n_nodes++};
    return ACL_SUCCESS;
}

static void lane_destroy(struct am_model_lane *lane)
{
    for (uint32_t i = 0; i < lane->n; i++)
        lane->nodes[i].task->ops->free(lane->nodes[i].task);
    free(lane->nodes);
    /* The worker that ran the last task may not have left the queue. */
    (void)am_queue_drop(&lane->queue, false, AM_FOREVER);
    am_queue_destroy(&lane->queue);
    if (lane->stream != NULL)
        am_stream_put(lane->stream);
    am_named_free(&lane->named);
}

void am_model_drop_lane_locked(struct am_model *model)
{
    am_stream_release(&model->hold, 1);
    lane_destroy(model->lanes[--model->n_lanes]);
}

/* ---- models ---- */

void am_model_finish(struct am_model *model)
{
    model->is_short = model->n_lanes == 1;
    for (uint32_t i = 0; i < model->n_lanes; i++) {
        struct am_model_lane *lane = model->lanes[i];

        for (uint32_t k = 0; k < lane->n; k++) {
            struct am_node *node = &lane->nodes[k];

            model->is_short = model->is_short && node->task->is_short;
            if (node->task->ops->announce != NULL)
                node->announced = ++model->n_announced;
            if (node->is_wait)
                model->lanes[node->from.lane]->nodes[node->from.position].is_awaited =
                    true;
        }
        am_named_publish(&lane->named);
        am_task_init(&lane->task, &am_lane_ops);
        lane->runs_in = &lane->task;
    }
    am_model_find_steps(model);
    model->is_complete = true;
}

void am_model_put(struct am_model *model)
{
    struct am_execution *spare;
    struct am_model_part *part;

    if (!am_ref_drop(&model->named.refs))
        return;
    for (uint32_t i = 0; i < model->n_lanes; i++)
        lane_destroy(model->lanes[i]);
    free(model->lanes);
    while ((spare = LIST_FIRST(&model->spares)) != NULL) {
        LIST_REMOVE(spare, link);
        free(spare->steps);
        free(spare);
    }
    while ((part = LIST_FIRST(&model->parts)) != NULL) {
        LIST_REMOVE(part, all);
        part->free(part);
    }
    pthread_cond_destroy(&model->changed);
    am_lock_destroy(&model->lock);
    am_named_free(&model->named);
}
