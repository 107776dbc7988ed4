/* Captures and models: arguments.  core/stream/capture.h and core/stream/model.h do the work. */
#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/devices.h"
#include "core/model/build.h"
#include "core/model/condition.h"
#include "core/model/inspect.h"
#include "core/model/task_group.h"
#include "core/stream/capture.h"

aclError am_aclmdlRICaptureBegin(struct am_stream *stream, aclmdlRICaptureMode mode)
{
    return am_capture_begin(stream, mode, NULL);
}

static aclError info_of_default(aclrtStream handle, aclmdlRICaptureStatus *status,
                                aclmdlRI *modelRI)
{
    AM_GET(stream,
           handle); /* fails unless it is the default stream, which is not captured */
    *status = ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    *modelRI = NULL;
    return ACL_SUCCESS;
}

/* Allocators call this for each allocation, so it acquires no reference and no lock. */
aclError am_aclmdlRICaptureGetInfo(aclrtStream handle, aclmdlRICaptureStatus *status,
                                   aclmdlRI *modelRI)
{
    struct am_stream *stream = am_named_find(AM_KIND_STREAM, handle);
    struct am_model *model;

    if (stream == NULL)
        return info_of_default(handle, status, modelRI);
    model = am_queue_model(&stream->queue);
    *status = model != NULL ? model->status : ACL_MODEL_RI_CAPTURE_STATUS_NONE;
    *modelRI = *status != ACL_MODEL_RI_CAPTURE_STATUS_NONE ? model->named.handle : NULL;
    return ACL_SUCCESS;
}

aclError am_aclmdlRICaptureThreadExchangeMode(aclmdlRICaptureMode *mode)
{
    AM_REQUIRE_TO(*mode, 2);
    *mode = am_capture_exchange_mode(*mode);
    return ACL_SUCCESS;
}

aclError am_aclmdlRIGetId(struct am_model *model, uint32_t *modelRIId)
{
    *modelRIId = model->id;
    return ACL_SUCCESS;
}

aclError am_aclmdlRIExecute(struct am_model *model, int32_t timeout)
{
    AM_GET(stream, NULL);
    AM_TRY(am_model_execute(model, stream));
    return am_sync_stream(stream, timeout);
}

/* ---- reading a model ---- */

aclError am_aclmdlRIDebugPrint(struct am_model *model)
{
    am_model_print(model);
    return ACL_SUCCESS;
}

/* An older header has no flags, so they may be anything. */
aclError am_aclmdlRIDebugJsonPrint(struct am_model *model, const char *path,
                                   uint32_t flags)
{
    return am_model_write(model, path);
}

aclError am_aclmdlRIGetStreams(struct am_model *model, aclrtStream *streams,
                               uint32_t *numStreams)
{
    return am_model_streams(model, streams, numStreams);
}

#define NODE_GET(task_) \
    AM_HELD(model, model); \
    struct am_node *node; \
    AM_TRY(am_model_task_get(task_, &node, &model))

aclError am_aclmdlRITaskGetSeqId(aclmdlRITask task, uint32_t *id)
{
    NODE_GET(task);
    *id = node->number;
    return ACL_SUCCESS;
}

aclError am_aclmdlRITaskGetType(aclmdlRITask task, aclmdlRITaskType *type)
{
    NODE_GET(task);
    *type = node->task->ops->type;
    return ACL_SUCCESS;
}

aclError am_aclmdlRITaskGetParams(aclmdlRITask task, aclmdlRITaskParams *params)
{
    NODE_GET(task);
    am_model_task_params(node, params);
    return ACL_SUCCESS;
}

/* Only the parameters of operators can be changed. */
aclError am_aclmdlRITaskSetParams(aclmdlRITask task, aclmdlRITaskParams *params)
{
    NODE_GET(task);
    return am_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "task %u is not an operator, so its parameters cannot be changed",
                   node->number);
}

aclError am_aclmdlRITaskDisable(aclmdlRITask task)
{
    NODE_GET(task);
    return am_model_task_disable(model, node);
}

/* ---- conditional tasks ---- */

aclError am_aclmdlRICaptureToModelRIBegin(struct am_stream *stream,
                                          struct am_model *model,
                                          aclmdlRICaptureMode mode)
{
    return am_capture_begin(stream, mode, model);
}

aclError am_aclmdlRICondHandleCreate(struct am_model *model, uint32_t defaultLaunchValue,
                                     aclmdlRICondHandleFlag flag,
                                     aclmdlRICondHandle *handle)
{
    return am_condition_create(model, defaultLaunchValue, flag != 0, handle);
}

aclError am_aclmdlRICondHandleGetCondPtr(aclmdlRICondHandle handle, uint64_t **condPtr)
{
    return am_condition_address(handle, (void **)condPtr);
}

aclError am_aclmdlRIAddCondTask(aclmdlRICondTaskParams params, aclrtStream handle,
                                uint32_t flags)
{
    static const uint32_t most[] = {[ACL_MODEL_RI_COND_TYPE_IF] = 2,
                                    [ACL_MODEL_RI_COND_TYPE_WHILE] = 1,
                                    [ACL_MODEL_RI_COND_TYPE_SWITCH] = UINT16_MAX};

    AM_REQUIRE_TO(params.type, 2);
    AM_REQUIRE(params.size >= 1 && params.size <= most[params.type],
               ACL_ERROR_INVALID_PARAM, "params.size is %u; this type takes 1 to %u",
               params.size, most[params.type]);
    AM_REQUIRE_NONNULL(params.modelRIArray);
    AM_GET(stream, handle);
    return am_condition_add_task(&params, stream);
}

/* ---- building without a capture ---- */

aclError am_aclmdlRIBuildBegin(aclmdlRI *modelRI, uint32_t flag)
{
    return am_build_begin(modelRI);
}

/* Differs: aclrtActiveStream, which starts other streams than HEAD, is not in this library. */
aclError am_aclmdlRIBindStream(aclmdlRI modelRI, aclrtStream handle, uint32_t flag)
{
    AM_REQUIRE(flag != ACL_MODEL_STREAM_FLAG_DEFAULT, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "a stream with ACL_MODEL_STREAM_FLAG_DEFAULT starts by aclrtActiveStream, "
               "which this library does not have; use ACL_MODEL_STREAM_FLAG_HEAD");
    AM_REQUIRE(flag == ACL_MODEL_STREAM_FLAG_HEAD, ACL_ERROR_INVALID_PARAM,
               "flag is 0x%x; it takes ACL_MODEL_STREAM_FLAG_HEAD", flag);
    AM_GET(model, modelRI);
    AM_GET(stream, handle);
    return am_build_bind(model, stream);
}

aclError am_aclmdlRIEndTask(struct am_model *model, struct am_stream *stream)
{
    return am_build_end_stream(model, stream);
}

aclError am_aclmdlRIBuildEnd(struct am_model *model, void *reserve)
{
    return am_build_end(model);
}

aclError am_aclmdlRIUnbindStream(struct am_model *model, struct am_stream *stream)
{
    return am_build_unbind(model, stream);
}
