/*
 * Models that are built without a capture: the program binds streams to a model, and the work
 * that it puts on them until the end of the build is stored in the model.
 *
 * A bound stream is a captured stream without rules for the calls of threads: unsafe calls and
 * waits for other streams are allowed.  It keeps the model until aclmdlRIUnbindStream or
 * aclmdlRIDestroy, and takes no work after the end of the build.
 */
#ifndef AM_CORE_BUILD_H
#define AM_CORE_BUILD_H

#include "core/stream/model.h"

aclError am_build_begin(void **ret_model);
aclError am_build_bind(struct am_model *model, struct am_stream *stream);
/* The work on the stream is complete. */
aclError am_build_end_stream(struct am_model *model, const struct am_stream *stream);
aclError am_build_end(struct am_model *model);
aclError am_build_unbind(struct am_model *model, const struct am_stream *stream);

#endif
