/* Callbacks and host functions on streams; call.h has what they are. */
#ifndef AM_CORE_CALLBACK_H
#define AM_CORE_CALLBACK_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"

struct am_stream;

/* thread is a pthread_t as a number. */
aclError am_callback_subscribe(uint64_t thread, struct am_stream *stream);
aclError am_callback_unsubscribe(uint64_t thread, struct am_stream *stream);

aclError am_callback_launch(struct am_stream *stream, aclrtCallback function, void *data,
                            bool is_blocking);
aclError am_hostfunc_launch(struct am_stream *stream, aclrtHostFunc function, void *data);

#endif
