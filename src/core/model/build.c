/* See build.h. */
#include "core/model/build.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/device/context.h"
#include "core/stream/capture.h"

static aclError building_check(const struct am_model *model)
{
    AM_REQUIRE(model->is_built && model->status == ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE,
               ACL_ERROR_RT_PARAM_INVALID,
               "model %u is not being built; call aclmdlRIBuildBegin first", model->id);
    return ACL_SUCCESS;
}

aclError am_build_begin(void **ret_model)
{
    struct am_model *model;
    int32_t device;
    bool is_listed;

    AM_TRY(am_context_device(&device));
    AM_TRY(am_model_make(device, &model));
    am_lock(&am_models.lock);
    is_listed = model->is_listed;
    if (is_listed) {
        model->is_built = true;
        am_capture_start_locked(model, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
        *ret_model = model->named.handle;
    }
    am_unlock(&am_models.lock);
    am_model_put(model);
    AM_REQUIRE(is_listed, ACL_ERROR_RT_CONTEXT_NULL,
               "another thread reset device %d during the call", device);
    return ACL_SUCCESS;
}

static aclError bind_locked(struct am_model *model, struct am_stream *stream)
    AM_REQUIRES(am_models.lock)
{
    struct am_model_lane *lane;

    AM_TRY(building_check(model));
    AM_TRY(
        am_model_add_lane_locked(model, stream, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, &lane));
    lane->is_bound = true;
    return am_lane_attach(lane);
}

aclError am_build_bind(struct am_model *model, struct am_stream *stream)
{
    AM_REQUIRE(!stream->is_default && (stream->flags & ACL_STREAM_PERSISTENT),
               ACL_ERROR_RT_PARAM_INVALID,
               "stream %d cannot be bound to a model; create it with "
               "aclrtCreateStreamWithConfig and ACL_STREAM_PERSISTENT",
               stream->id);
    AM_REQUIRE(stream->device == model->device, ACL_ERROR_RT_PARAM_INVALID,
               "model %u is on device %d, and stream %d is on device %d", model->id,
               model->device, stream->id, stream->device);
    return AM_LOCKED(&am_models.lock, bind_locked(model, stream));
}

static aclError lane_find_locked(struct am_model *model, const struct am_stream *stream,
                                 struct am_model_lane **ret_lane)
    AM_REQUIRES(am_models.lock)
{
    *ret_lane = am_lane_of(model, stream);
    AM_REQUIRE(*ret_lane != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "stream %d is not bound to model %u; call aclmdlRIBindStream first",
               stream->id, model->id);
    return ACL_SUCCESS;
}

aclError am_build_end_stream(struct am_model *model, const struct am_stream *stream)
{
    struct am_model_lane *lane = NULL;
    aclError rc;

    am_lock(&am_models.lock);
    rc = building_check(model);
    if (rc == ACL_SUCCESS)
        rc = lane_find_locked(model, stream, &lane);
    if (rc == ACL_SUCCESS) {
        am_lock(&lane->stream->queue.lock); /* another thread may record */
        lane->is_ended = true;
        am_unlock(&lane->stream->queue.lock);
    }
    am_unlock(&am_models.lock);
    return rc;
}

static aclError end_locked(struct am_model *model) AM_REQUIRES(am_models.lock)
{
    AM_TRY(building_check(model));
    AM_REQUIRE(model->n_lanes > 0, ACL_ERROR_RT_PARAM_INVALID,
               "model %u has no stream; call aclmdlRIBindStream first", model->id);
    for (uint32_t i = 0; i < model->n_lanes; i++)
        AM_REQUIRE(model->lanes[i]->is_ended || !model->lanes[i]->is_bound,
                   ACL_ERROR_RT_PARAM_INVALID,
                   "the work of stream %d in model %u has no end; call aclmdlRIEndTask "
                   "first",
                   model->lanes[i]->stream_id, model->id);
    am_n_captures--;
    model->status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    return ACL_SUCCESS;
}

aclError am_build_end(struct am_model *model)
{
    AM_TRY(AM_LOCKED(&am_models.lock, end_locked(model)));
    for (uint32_t i = 0; i < model->n_lanes; i++) { /* streams that joined */
        if (!model->lanes[i]->is_bound)
            am_lane_release(model->lanes[i]);
    }
    am_model_finish(model);
    return ACL_SUCCESS;
}

aclError am_build_unbind(struct am_model *model, const struct am_stream *stream)
{
    struct am_model_lane *lane = NULL;
    aclError rc;

    AM_REQUIRE(model->status == ACL_MODEL_RI_CAPTURE_STATUS_NONE,
               ACL_ERROR_RT_MODEL_CAPTURED,
               "model %u is being built; call aclmdlRIBuildEnd first", model->id);
    rc = AM_LOCKED(&am_models.lock, lane_find_locked(model, stream, &lane));
    if (rc == ACL_SUCCESS)
        am_lane_release(lane);
    return rc;
}
