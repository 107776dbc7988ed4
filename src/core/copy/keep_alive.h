/*
 * Work on a stream that keeps memory alive and changes nothing: cache operations,
 * prefetches.
 */
#ifndef AM_CORE_KEEP_ALIVE_H
#define AM_CORE_KEEP_ALIVE_H

#include "core/copy/span.h"
#include "core/stream/stream.h"

/* Takes over spans, which may be empty. */
aclError am_keep_alive_async(struct am_spans *spans, struct am_stream *stream);

/* aclrtCmoAsync: the range must be device memory that the stream's device may read. */
aclError am_keep_alive_device_async(void *addr, size_t size, struct am_stream *stream);

#endif
