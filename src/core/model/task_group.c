/* See task_group.h. */
#include "core/model/task_group.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/stream/capture.h"

struct group {
    struct am_named named;
    struct am_model_part part;
    struct am_recorder recorder;
    struct am_stream
        *stream; /* am_models.lock; that updates the group; with a reference */
};

/* Ends an update; returns the stream, whose reference is the caller's. */
static struct am_stream *update_leave_locked(struct group *group)
    AM_REQUIRES(am_models.lock)
{
    struct am_stream *stream = group->stream;

    if (stream == NULL)
        return NULL;
    am_lock(&stream->queue.lock);
    if (stream->queue.recorder == &group->recorder)
        stream->queue.recorder = NULL;
    am_unlock(&stream->queue.lock);
    group->stream = NULL; /* a stream that ends needed it until now */
    return stream;
}

static void group_free(struct am_model_part *part)
{
    struct group *group = AM_CONTAINER_OF(part, struct group, part);
    struct am_stream *stream;

    am_lock(&am_models.lock);
    am_named_unpublish(&group->named); /* no update begins from now on */
    stream = update_leave_locked(group);
    am_unlock(&am_models.lock);
    if (stream != NULL)
        am_stream_put(stream);
    am_named_free(&group->named);
}

/* The model that the stream is captured into. */
static aclError capture_get_locked(struct am_stream *stream, struct am_model **ret_model)
    AM_REQUIRES(am_models.lock)
{
    *ret_model = stream->queue.model;
    AM_REQUIRE(*ret_model != NULL, ACL_ERROR_RT_STREAM_NOT_CAPTURED,
               "stream %d is not being captured; a task group is part of a capture",
               stream->id);
    return am_capture_check_status(*ret_model);
}

static aclError begin_locked(struct am_stream *stream) AM_REQUIRES(am_models.lock)
{
    struct am_model *model;

    AM_TRY(capture_get_locked(stream, &model));
    AM_REQUIRE(model->group == NULL, ACL_ERROR_STREAM_TASK_GROUP_STATUS,
               "a task group is open on stream %d; call aclmdlRICaptureTaskGrpEnd first",
               model->group->stream_id);
    model->group = am_lane_of(model, stream);
    return ACL_SUCCESS;
}

aclError am_task_group_begin(struct am_stream *stream)
{
    return AM_LOCKED(&am_models.lock, begin_locked(stream));
}

static aclError end_locked(struct am_stream *stream, struct group *group)
    AM_REQUIRES(am_models.lock)
{
    struct am_model *model;

    AM_TRY(capture_get_locked(stream, &model));
    AM_REQUIRE(model->group != NULL && model->group->stream == stream,
               ACL_ERROR_STREAM_TASK_GROUP_STATUS,
               "no task group is open on stream %d; call aclmdlRICaptureTaskGrpBegin "
               "first",
               stream->id);
    model->group = NULL;
    am_model_add_part(model, &group->part);
    return ACL_SUCCESS;
}

aclError am_task_group_end(struct am_stream *stream, void **ret_group)
{
    struct group *group = am_named_alloc(AM_KIND_TASK_GROUP, sizeof *group);
    void *handle;
    aclError rc;

    AM_REQUIRE(group != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a task group");
    group->part.free = group_free;
    handle = am_named_publish(&group->named);
    rc = AM_LOCKED(&am_models.lock, end_locked(stream, group));
    if (rc == ACL_SUCCESS)
        *ret_group = handle;
    else
        am_named_free(&group->named);
    return rc;
}

/* ---- updates ---- */

static aclError update_record(struct am_recorder *recorder, struct am_task *task)
{
    return am_fail(ACL_ERROR_RT_TASK_TYPE_NOT_SUPPORT,
                   "the stream updates a task group, which takes operators alone; call "
                   "aclmdlRICaptureTaskUpdateEnd first");
}

static aclError update_refuse(struct am_recorder *recorder, aclError code,
                              const char *remedy)
{
    return ACL_SUCCESS;
}

/* The stream has ended; its reference is dropped with the group. */
static struct am_model *update_detach(struct am_recorder *recorder)
{
    struct group *group = AM_CONTAINER_OF(recorder, struct group, recorder);

    group->stream->queue.recorder = NULL;
    return NULL;
}

static const struct am_recorder update_recorder = {
    .record = update_record, .refuse = update_refuse, .detach = update_detach};

static aclError update_begin_locked(struct am_stream *stream, struct group *group)
    AM_REQUIRES(am_models.lock, stream->queue.lock)
{
    AM_REQUIRE(
        group->named.handle != NULL && !stream->queue.is_closed,
        ACL_ERROR_RT_INVALID_HANDLE,
        "the model of the task group, or stream %d, was destroyed by another thread",
        stream->id);
    AM_REQUIRE(stream->queue.model == NULL, ACL_ERROR_RT_STREAM_CAPTURED,
               "stream %d is being captured; update task groups on another stream",
               stream->id);
    AM_REQUIRE(stream->queue.recorder == NULL && group->stream == NULL,
               ACL_ERROR_STREAM_TASK_GROUP_STATUS,
               "stream %d or the task group has an update under way; call "
               "aclmdlRICaptureTaskUpdateEnd first",
               stream->id);
    group->recorder = update_recorder;
    group->stream = stream;
    am_ref_more(&stream->named.refs);
    stream->queue.recorder = &group->recorder;
    return ACL_SUCCESS;
}

/* Ends an update whose stream was destroyed; returns the stream like update_leave_locked(). */
static struct am_stream *update_expire_locked(struct group *group)
    AM_REQUIRES(am_models.lock)
{
    struct am_stream *stream = group->stream;
    bool is_closed = false;

    if (stream != NULL) {
        am_lock(&stream->queue.lock);
        is_closed = stream->queue.recorder != &group->recorder;
        am_unlock(&stream->queue.lock);
    }
    return is_closed ? update_leave_locked(group) : NULL;
}

aclError am_task_group_update(struct am_stream *stream, void *handle)
{
    struct group *group = am_named_find(AM_KIND_TASK_GROUP, handle);
    struct am_stream *expired;
    aclError rc;

    AM_REQUIRE(group != NULL, ACL_ERROR_RT_INVALID_HANDLE, "task group %p %s", handle,
               am_handle_why(AM_KIND_TASK_GROUP, handle));
    am_lock(&am_models.lock);
    expired = update_expire_locked(group);
    rc = AM_LOCKED(&stream->queue.lock, update_begin_locked(stream, group));
    am_unlock(&am_models.lock);
    if (expired != NULL)
        am_stream_put(expired);
    return rc;
}

/* The group that the stream updates, or NULL. */
static struct group *updated_find_locked(struct am_stream *stream)
    AM_REQUIRES(am_models.lock)
{
    struct am_recorder *recorder = AM_LOCKED(&stream->queue.lock, stream->queue.recorder);

    return recorder != NULL && recorder->record == update_record
               ? AM_CONTAINER_OF(recorder, struct group, recorder)
               : NULL;
}

aclError am_task_group_update_end(struct am_stream *stream)
{
    struct am_stream *updating = NULL;
    struct group *group;

    am_lock(&am_models.lock);
    group = updated_find_locked(stream);
    if (group != NULL)
        updating = update_leave_locked(group);
    am_unlock(&am_models.lock);
    AM_REQUIRE(updating != NULL, ACL_ERROR_STREAM_TASK_GROUP_STATUS,
               "stream %d updates no task group; call aclmdlRICaptureTaskUpdateBegin "
               "first",
               stream->id);
    am_stream_put(updating);
    return ACL_SUCCESS;
}
