/*
 * Task groups: operators of a capture whose arguments can be changed later.
 *
 * This library has no operators, so a group is empty, and so is the change.
 */
#ifndef AM_CORE_TASK_GROUP_H
#define AM_CORE_TASK_GROUP_H

#include "core/stream/stream.h"

aclError am_task_group_begin(struct am_stream *stream);
aclError am_task_group_end(struct am_stream *stream, void **ret_group);
/* The stream takes operators for the group until the end of the update. */
aclError am_task_group_update(struct am_stream *stream, void *group);
aclError am_task_group_update_end(struct am_stream *stream);

#endif
