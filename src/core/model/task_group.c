/* See task_group.h. */
#include "core/model/task_group.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/stream/capture.h"

/*
 * The group and the stream that updates it store each other's handles, and keep no references: an
 * update is over as soon as one of the two handles is not valid.
 */
struct group {
    struct am_named named;
    struct am_model_part part;
    void *stream; /* am_models.lock; the one whose update began last, or NULL */
};

static void group_free(struct am_model_part *part)
{
    am_named_free(&AM_CONTAINER_OF(part, struct group, part)->named);
}

/* The model that the stream is captured into. */
static aclError capture_get_locked(struct am_stream *stream, struct am_model **ret_model)
    AM_REQUIRES(am_models.lock)
{
    *ret_model = am_queue_model(&stream->queue);
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

static aclError update_begin_locked(struct am_stream *stream, struct group *group)
    AM_REQUIRES(am_models.lock, stream->queue.lock)
{
    AM_REQUIRE(!am_stream_is_captured(stream), ACL_ERROR_RT_STREAM_CAPTURED,
               "stream %d is being captured; update task groups on another stream",
               stream->id);
    AM_REQUIRE(!am_queue_is_updating_locked(&stream->queue) &&
                   am_named_find(AM_KIND_STREAM, group->stream) == NULL,
               ACL_ERROR_STREAM_TASK_GROUP_STATUS,
               "stream %d or the task group has an update under way; call "
               "aclmdlRICaptureTaskUpdateEnd first",
               stream->id);
    group->stream = stream->named.handle;
    stream->queue.updates = group->named.handle;
    return ACL_SUCCESS;
}

aclError am_task_group_update(struct am_stream *stream, void *handle)
{
    struct group *group = am_named_find(AM_KIND_TASK_GROUP, handle);
    aclError rc;

    AM_REQUIRE(group != NULL, ACL_ERROR_RT_INVALID_HANDLE, "task group %p %s", handle,
               am_handle_why(AM_KIND_TASK_GROUP, handle));
    am_lock(&am_models.lock);
    rc = AM_LOCKED(&stream->queue.lock, update_begin_locked(stream, group));
    am_unlock(&am_models.lock);
    return rc;
}

static aclError update_end_locked(struct am_stream *stream)
    AM_REQUIRES(am_models.lock, stream->queue.lock)
{
    struct group *group = am_named_find(AM_KIND_TASK_GROUP, stream->queue.updates);

    AM_REQUIRE(group != NULL, ACL_ERROR_STREAM_TASK_GROUP_STATUS,
               "stream %d updates no task group; call aclmdlRICaptureTaskUpdateBegin "
               "first",
               stream->id);
    group->stream = NULL;
    stream->queue.updates = NULL;
    return ACL_SUCCESS;
}

aclError am_task_group_update_end(struct am_stream *stream)
{
    aclError rc;

    am_lock(&am_models.lock);
    rc = AM_LOCKED(&stream->queue.lock, update_end_locked(stream));
    am_unlock(&am_models.lock);
    return rc;
}
