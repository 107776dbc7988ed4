/* See capture.h. */
#include "core/stream/capture.h"

#include <stdlib.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"

static _Thread_local aclmdlRICaptureMode thread_mode; /* GLOBAL at first */

static const char *const mode_names[] = {"GLOBAL", "THREAD_LOCAL", "RELAXED"};

aclmdlRICaptureMode am_capture_exchange_mode(aclmdlRICaptureMode mode)
{
    aclmdlRICaptureMode before = thread_mode;

    thread_mode = mode;
    return before;
}

/* ---- refusals ---- */

static aclError model_refuse(struct am_model *model, aclError code, const char *remedy)
{
    aclmdlRICaptureStatus active = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    const char *none = NULL;

    if (atomic_compare_exchange_strong(&model->refused_by, &none, am_error_function)) {
        model->refused_with = code;
        (void)atomic_compare_exchange_strong(&model->status, &active,
                                             ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
    }
    return am_fail(
        code,
        "not allowed during the capture that %s began on stream %d (model %u, mode %s, "
        "thread %d); the capture is invalid now; %s",
        model->is_built      ? "aclmdlRIBuildBegin"
        : model->parent != 0 ? "aclmdlRICaptureToModelRIBegin"
                             : "aclmdlRICaptureBegin",
        model->origin_id, model->id, mode_names[model->mode], model->thread_id, remedy);
}

/*
 * A wait for a bound stream ends at once, since its tasks are in the model, and other streams may
 * work.  Work that cannot be captured is refused.
 */
aclError am_lane_refuse(struct am_model_lane *lane, aclError code, const char *remedy)
{
    if (!lane->is_bound)
        return model_refuse(lane->model, code, remedy);
    if (code == ACL_ERROR_RT_STREAM_CAPTURED ||
        code == ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT)
        return ACL_SUCCESS;
    return am_fail(code, "not allowed on stream %d, which is bound to model %u; %s",
                   lane->stream_id, lane->model->id, remedy);
}

aclError am_capture_check_status(struct am_model *model)
{
    aclmdlRICaptureStatus status = model->status;

    AM_REQUIRE(status != ACL_MODEL_RI_CAPTURE_STATUS_NONE,
               ACL_ERROR_RT_STREAM_NOT_CAPTURED,
               "another thread has just ended the capture that began on stream %d (model "
               "%u)",
               model->origin_id, model->id);
    AM_REQUIRE(
        status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE,
        ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED,
        "the capture that began on stream %d (model %u) is invalid since %s was called, "
        "which failed with %d; end it with aclmdlRICaptureEnd and begin again",
        model->origin_id, model->id, model->refused_by, (int)model->refused_with);
    return ACL_SUCCESS;
}

/* Whether this capture forbids unsafe calls to this thread. */
static bool is_forbidden(const struct am_model *model)
{
    bool is_own = model->thread == (uint64_t)pthread_self();

    if (model->mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        return false;
    return is_own || (model->mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL &&
                      thread_mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
}

static bool is_under_way(const struct am_model *model)
{
    return model->status != ACL_MODEL_RI_CAPTURE_STATUS_NONE;
}

aclError am_capture_check_unsafe(const char *remedy)
{
    struct am_model *model;
    aclError rc = ACL_SUCCESS;

    if (atomic_load_explicit(&am_n_captures, memory_order_relaxed) == 0 ||
        thread_mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED)
        return ACL_SUCCESS;
    am_lock(&am_models.lock);
    LIST_FOREACH (model, &am_models.list, all) {
        if (rc == ACL_SUCCESS && is_under_way(model) && is_forbidden(model))
            rc = model_refuse(model, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, remedy);
    }
    am_unlock(&am_models.lock);
    return rc;
}

static struct am_model *capture_find_locked(uint64_t capture) AM_REQUIRES(am_models.lock)
{
    struct am_model *model;

    LIST_FOREACH (model, &am_models.list, all) {
        if (is_under_way(model) && model->capture == capture)
            return model;
    }
    return NULL;
}

aclError am_capture_check(uint64_t capture, aclError code, const char *remedy)
{
    struct am_model *model;
    aclError rc = ACL_SUCCESS;

    if (capture == 0)
        return ACL_SUCCESS;
    am_lock(&am_models.lock);
    model = capture_find_locked(capture);
    if (model != NULL)
        rc = model_refuse(model, code, remedy);
    am_unlock(&am_models.lock);
    return rc;
}

/* ---- recording ---- */

/* A task group has operators alone, and this library has none. */
static aclError group_check(struct am_model_lane *lane)
{
    struct am_model_lane *group = lane->model->group;

    if (group == NULL)
        return ACL_SUCCESS;
    if (group == lane)
        return model_refuse(lane->model, ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                            "a task group takes operators alone: call "
                            "aclmdlRICaptureTaskGrpEnd first");
    return model_refuse(lane->model, ACL_ERROR_STREAM_TASK_GROUP_INTR,
                        "a task group is open on another stream of the capture: call "
                        "aclmdlRICaptureTaskGrpEnd first");
}

aclError am_lane_record(struct am_model_lane *lane, struct am_task *task)
{
    struct am_place place = {lane->model->capture, lane->index, lane->n};

    AM_REQUIRE(
        !lane->is_ended, ACL_ERROR_RT_PARAM_INVALID,
        "the work of stream %d in model %u is complete since aclmdlRIEndTask; call "
        "aclmdlRIUnbindStream before other work",
        lane->stream_id, lane->model->id);
    AM_TRY(am_capture_check_status(lane->model));
    AM_TRY(group_check(lane));
    if (!task->is_captured)
        return model_refuse(lane->model, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT,
                            "make this call before the capture or after it");
    AM_TRY(am_lane_append_locked(lane, task));
    if (task->ops->recorded != NULL)
        task->ops->recorded(task, &place);
    return ACL_SUCCESS;
}

/* A joined stream leaves its work in the model; without its first stream a capture is over. */
struct am_model *am_lane_detach(struct am_model_lane *lane)
{
    lane->stream->queue.capture = NULL;
    if (lane->index != 0 || !is_under_way(lane->model))
        return NULL;
    am_ref_more(&lane->model->named.refs);
    return lane->model;
}

aclError am_lane_attach(struct am_model_lane *lane)
{
    struct am_queue *queue = &lane->stream->queue;
    aclError rc = ACL_SUCCESS;

    am_lock(&queue->lock);
    if (queue->is_closed)
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE,
                     "the stream was destroyed by another thread");
    else if (am_queue_is_updating_locked(queue))
        rc = am_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                     "stream %d updates a task group; call aclmdlRICaptureTaskUpdateEnd "
                     "first",
                     lane->stream_id);
    else if (queue->capture != NULL)
        rc = am_fail(ACL_ERROR_RT_STREAM_CAPTURED,
                     "stream %d is being captured already; end that capture with "
                     "aclmdlRICaptureEnd first",
                     lane->stream_id);
    else
        queue->capture = lane;
    am_unlock(&queue->lock);
    if (rc != ACL_SUCCESS)
        am_model_drop_lane_locked(lane->model);
    return rc;
}

struct am_model_lane *am_lane_of(const struct am_model *model,
                                 const struct am_stream *stream)
{
    for (uint32_t i = 0; i < model->n_lanes; i++) {
        if (model->lanes[i]->stream == stream)
            return model->lanes[i];
    }
    return NULL;
}

void am_lane_release(struct am_model_lane *lane)
{
    struct am_stream *stream;

    am_lock(&am_models.lock);
    stream = lane->stream;
    if (stream == NULL) {
        am_unlock(&am_models.lock);
        return;
    }
    am_lock(&stream->queue.lock);
    lane->stream = NULL; /* am_lane_detach() has this lock alone */
    if (stream->queue.capture == lane)
        stream->queue.capture = NULL;
    am_unlock(&stream->queue.lock);
    am_unlock(&am_models.lock);
    am_stream_put(stream);
}

/* The capture is over, if there is one: no stream joins any more. */
static bool status_end_locked(struct am_model *model) AM_REQUIRES(am_models.lock)
{
    bool was_under_way = is_under_way(model);

    if (was_under_way)
        am_n_captures--;
    model->status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    return was_under_way;
}

/* The streams of a capture that is over are ordinary ones again. */
static void lanes_detach(struct am_model *model)
{
    for (uint32_t i = 0; i < model->n_lanes; i++)
        am_lane_release(model->lanes[i]);
}

/* The model was destroyed; functions of the program may be called. */
static void parts_report(struct am_model *model)
{
    struct am_model_part *part;

    am_lock(&model->lock);
    model->is_reported = true; /* from now on parts are added alone, before the first */
    part = LIST_FIRST(&model->parts);
    am_unlock(&model->lock);
    for (; part != NULL; part = LIST_NEXT(part, all)) {
        if (part->destroyed != NULL)
            part->destroyed(part);
    }
}

/*
 * Ends the capture, and takes the model from the list, with its handle and streams; false:
 * another thread has. The list is left first: no capture begins any more then.
 */
static bool model_end_life(struct am_model *model)
{
    bool was_listed;

    am_lock(&am_models.lock);
    was_listed = model->is_listed;
    if (was_listed) {
        LIST_REMOVE(model, all);
        am_named_unpublish(&model->named);
    }
    model->is_listed = false;
    (void)status_end_locked(model);
    am_unlock(&am_models.lock);
    lanes_detach(model);
    if (was_listed) {
        am_stream_release(&model->hold, UINT32_MAX);
        parts_report(model);
        am_model_put(model);
    }
    return was_listed;
}

/* ---- begin and end ---- */

void am_capture_start_locked(struct am_model *model, aclmdlRICaptureMode mode)
{
    model->mode = mode;
    model->thread = (uint64_t)pthread_self();
    model->thread_id = gettid();
    model->capture = ++am_models.next_capture;
    model->status = ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE;
    am_n_captures++;
}

static aclError begin_locked(struct am_model *model, struct am_stream *stream,
                             aclmdlRICaptureMode mode) AM_REQUIRES(am_models.lock)
{
    struct am_model_lane *lane;
    aclError rc;

    AM_REQUIRE(model->is_listed, ACL_ERROR_RT_INVALID_HANDLE,
               "model %u was destroyed by another thread", model->id);
    AM_REQUIRE(model->status == ACL_MODEL_RI_CAPTURE_STATUS_NONE,
               ACL_ERROR_RT_MODEL_CAPTURED, "model %u is being captured already",
               model->id);
    AM_REQUIRE(model->n_lanes == 0 && model->device == stream->device,
               ACL_ERROR_RT_PARAM_INVALID,
               "model %u has its tasks already, or is on another device than stream %d",
               model->id, stream->id);
    AM_TRY(
        am_model_add_lane_locked(model, stream, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, &lane));
    am_capture_start_locked(model, mode); /* first: other threads use the stream */
    rc = am_lane_attach(lane);
    if (rc != ACL_SUCCESS)
        (void)status_end_locked(model);
    return rc;
}

aclError am_capture_begin(struct am_stream *stream, aclmdlRICaptureMode mode,
                          struct am_model *into)
{
    struct am_model *model = into;
    aclError rc;

    AM_REQUIRE(!stream->is_default, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
               "the default stream cannot be captured; use a stream of "
               "aclrtCreateStream");
    AM_REQUIRE(into == NULL || into->parent != 0, ACL_ERROR_RT_PARAM_INVALID,
               "model %u does not belong to a conditional task; take one from "
               "aclmdlRIAddCondTask",
               into->id);
    if (into == NULL)
        AM_TRY(am_model_make(stream->device, &model));
    am_lock(&am_models.lock);
    rc = begin_locked(model, stream, mode);
    am_unlock(&am_models.lock);
    if (into != NULL)
        return rc;
    if (rc != ACL_SUCCESS)
        (void)model_end_life(model);
    am_model_put(model);
    return rc;
}

/* The number of nodes that must have joined again; records behind the last task need not. */
static uint32_t lane_end(const struct am_model_lane *lane)
{
    uint32_t n = lane->n;

    while (n > 0 && lane->nodes[n - 1].task->ops->type == ACL_MODEL_RI_TASK_EVENT_RECORD)
        n--;
    return n;
}

/*
 * From the end of the origin back over all waits: reached[i] is how many nodes of lane i are
 * done then.
 */
static void lanes_reach(const struct am_model *model, uint32_t *reached)
{
    uint32_t *walked = reached + model->n_lanes;
    bool has_moved = true;

    reached[0] = model->lanes[0]->n;
    while (has_moved) {
        has_moved = false;
        for (uint32_t i = 0; i < model->n_lanes; i++) {
            for (; walked[i] < reached[i]; walked[i]++) {
                const struct am_node *node = &model->lanes[i]->nodes[walked[i]];
                const struct am_place *from = &node->from;

                if (!node->is_wait || reached[from->lane] > from->position)
                    continue;
                reached[from->lane] = from->position + 1;
                has_moved = true;
            }
        }
    }
}

static aclError joined_check(const struct am_model *model)
{
    uint32_t *reached = am_sys_calloc(model->n_lanes, 2 * sizeof *reached);
    uint32_t i = 0;

    AM_REQUIRE(reached != NULL, ACL_ERROR_BAD_ALLOC, "no memory to end a capture");
    lanes_reach(model, reached);
    while (i < model->n_lanes && reached[i] >= lane_end(model->lanes[i]))
        i++;
    free(reached);
    AM_REQUIRE(
        i == model->n_lanes, ACL_ERROR_RT_STREAM_UNJOINED,
        "stream %d joined the capture that began on stream %d and did not come "
        "back with all of its work: record an event on it after its last task, and "
        "let stream %d wait for the event before aclmdlRICaptureEnd",
        model->lanes[i]->stream_id, model->origin_id, model->origin_id);
    return ACL_SUCCESS;
}

/* The capture that the stream began, with a reference. */
static aclError origin_get(struct am_stream *stream, struct am_model **ret_model)
{
    struct am_model *model;
    aclError rc = ACL_SUCCESS;

    am_lock(&am_models.lock);
    model = am_queue_model(&stream->queue);
    if (model == NULL || model->is_built)
        rc = am_fail(ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                     "stream %d is not being captured; call aclmdlRICaptureBegin first",
                     stream->id);
    else if (model->lanes[0]->stream != stream)
        rc = am_fail(ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED,
                     "stream %d has joined a capture that began on stream %d; end it "
                     "there",
                     stream->id, model->origin_id);
    else if (model->mode != ACL_MODEL_RI_CAPTURE_MODE_RELAXED &&
             model->thread != (uint64_t)pthread_self())
        rc =
            am_fail(ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD,
                    "thread %d began the capture of stream %d and must end it, since its "
                    "mode is %s and not RELAXED",
                    model->thread_id, stream->id, mode_names[model->mode]);
    else
        am_ref_more(&model->named.refs);
    am_unlock(&am_models.lock);
    *ret_model = model;
    return rc;
}

/* The capture is over; its result. */
static aclError model_end(struct am_model *model)
{
    bool was_under_way;
    aclError rc;

    am_lock(&am_models.lock);
    rc = am_capture_check_status(model);
    was_under_way = status_end_locked(model);
    am_unlock(&am_models.lock);
    if (was_under_way) /* or another thread has ended it */
        lanes_detach(model);
    if (rc == ACL_SUCCESS && model->group != NULL)
        rc = am_fail(ACL_ERROR_STREAM_TASK_GROUP_STATUS,
                     "a task group is open on stream %d; call aclmdlRICaptureTaskGrpEnd "
                     "before aclmdlRICaptureEnd",
                     model->group->stream_id);
    if (rc == ACL_SUCCESS)
        rc = joined_check(model);
    if (rc == ACL_SUCCESS)
        am_model_finish(model);
    return rc;
}

aclError am_capture_end(struct am_stream *stream, void **ret_model)
{
    struct am_model *model;
    void *handle;
    aclError rc;

    AM_TRY(origin_get(stream, &model));
    handle = model->named.handle;
    rc = model_end(model);
    if (rc == ACL_SUCCESS)
        *ret_model = handle;
    else
        (void)model_end_life(model);
    am_model_put(model);
    return rc;
}

/* ---- joining ---- */

/* The lane of the stream in this capture; a stream that is not captured joins. */
static aclError lane_find_locked(struct am_model *model, struct am_stream *stream,
                                 struct am_model_lane **ret_lane)
    AM_REQUIRES(am_models.lock)
{
    struct am_model *other = am_queue_model(&stream->queue);

    if (other == NULL && (stream->is_default || stream->device != model->device))
        return model_refuse(
            model, ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT,
            "a default stream, or a stream of another device, cannot join "
            "it");
    if (other == NULL) {
        AM_TRY(am_model_add_lane_locked(model, stream, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                                        ret_lane));
        return am_lane_attach(*ret_lane);
    }
    if (other != model)
        return model_refuse(other, ACL_ERROR_STREAM_CAPTURE_CONFLICT,
                            "its stream would wait for an event of another capture; two "
                            "captures cannot depend on each other");
    *ret_lane = am_lane_of(model, stream);
    return ACL_SUCCESS;
}

static aclError wait_locked(struct am_model *model, struct am_stream *stream,
                            struct am_task *wait, const struct am_place *from)
    AM_REQUIRES(am_models.lock)
{
    struct am_model_lane *lane;
    aclError rc;

    AM_TRY(am_capture_check_status(model));
    AM_TRY(lane_find_locked(model, stream, &lane));
    am_lock(&stream->queue.lock);
    rc = stream->queue.capture == lane
             ? am_lane_record(lane, wait)
             : am_fail(ACL_ERROR_RT_INVALID_HANDLE, "the stream was destroyed");
    if (rc == ACL_SUCCESS) {
        lane->nodes[lane->n - 1].is_wait = true;
        lane->nodes[lane->n - 1].from = *from;
    }
    am_unlock(&stream->queue.lock);
    return rc;
}

aclError am_capture_wait(struct am_stream *stream, struct am_task *wait,
                         const struct am_place *from, bool *ret_is_over)
{
    struct am_model *model;
    aclError rc = ACL_SUCCESS;

    am_lock(&am_models.lock);
    model = capture_find_locked(from->capture);
    *ret_is_over = model == NULL;
    if (model != NULL)
        rc = wait_locked(model, stream, wait, from);
    am_unlock(&am_models.lock);
    return rc;
}

/* ---- destroying ---- */

void am_capture_abandon(struct am_model *model)
{
    (void)model_end_life(model);
    am_model_put(model);
}

aclError am_model_destroy(struct am_model *model)
{
    if (model->is_built && is_under_way(model)) {
        am_ref_more(&model->named.refs);
        am_capture_abandon(model);
        return ACL_SUCCESS;
    }
    AM_REQUIRE(!is_under_way(model), ACL_ERROR_RT_MODEL_CAPTURED,
               "model %u is being captured on stream %d; call aclmdlRICaptureEnd first",
               model->id, model->origin_id);
    AM_REQUIRE(model->parent == 0, ACL_ERROR_RT_PARAM_INVALID,
               "model %u belongs to a conditional task of model %u, and ends with it",
               model->id, model->parent);
    AM_TRY(am_model_wait(model));
    AM_REQUIRE(model_end_life(model), ACL_ERROR_RT_INVALID_HANDLE,
               "model %u was destroyed by another thread", model->id);
    return ACL_SUCCESS;
}

static struct am_model *device_next(int32_t device)
{
    struct am_model *model;

    am_lock(&am_models.lock);
    LIST_FOREACH (model, &am_models.list, all) {
        if (model->device == device) {
            am_ref_more(&model->named.refs);
            break;
        }
    }
    am_unlock(&am_models.lock);
    return model;
}

void am_model_destroy_all(int32_t device)
{
    struct am_model *model;

    while ((model = device_next(device)) != NULL) {
        am_capture_abandon(model);
    }
}
