/* What a program reads of a model, and what it changes: prints, streams, tasks, callbacks. */
#ifndef AM_CORE_INSPECT_H
#define AM_CORE_INSPECT_H

#include "core/stream/model.h"

/* A line for each task on standard error. */
void am_model_print(const struct am_model *model);
/* The same as a file for viewers of Chrome traces: a track for each stream, arrows for edges. */
aclError am_model_write(const struct am_model *model, const char *path);

/* The two store handles in an array of *n elements (NULL: none) and set *n to their number. */
aclError am_model_streams(const struct am_model *model, void **streams, uint32_t *n);
aclError am_model_tasks(void *stream, void **tasks, uint32_t *n);

/* The node of a task, with a reference to its model. */
aclError am_model_task_get(void *task, struct am_node **ret_node,
                           struct am_model **ret_model);
void am_model_task_params(const struct am_node *node, aclmdlRITaskParams *params);
/* From the next update on the task is skipped. */
aclError am_model_task_disable(struct am_model *model, struct am_node *node);
aclError am_model_update(struct am_model *model);

/* The function is called when the model is destroyed. */
aclError am_model_add_callback(struct am_model *model, aclrtCallback function,
                               void *data);
aclError am_model_remove_callback(struct am_model *model, aclrtCallback function);

#endif
