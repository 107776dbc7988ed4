/*
 * Conditional tasks: a value in device memory decides which child model a task executes.
 *
 * The children belong to the model with the task, and are captured one by one into the handles
 * that the call returned.  A child that was never captured is empty.
 */
#ifndef AM_CORE_CONDITION_H
#define AM_CORE_CONDITION_H

#include "core/stream/model.h"

/* has_default: the value is `value` at the begin of each execution of the model. */
aclError am_condition_create(struct am_model *model, uint32_t value, bool has_default,
                             void **ret_handle);
aclError am_condition_address(void *handle, void **ret_addr);
/* The task on a captured stream; the parameters have been checked. */
aclError am_condition_add_task(const aclmdlRICondTaskParams *params,
                               struct am_stream *stream);

#endif
