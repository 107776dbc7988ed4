/*
 * Work on a stream that keeps memory alive and changes nothing: cache operations,
 * prefetches.
 */
#ifndef AM_CORE_KEEP_ALIVE_H
#define AM_CORE_KEEP_ALIVE_H

#include "core/copy/span.h"
#include "core/stream/stream.h"

/* The beginning of a task that keeps a range alive until it is freed. */
struct am_keep_alive {
    struct am_task task;
    struct am_spans spans;
};

/*
 * Finds device memory for such a task, which am_task_make() has made (NULL: it could
 * not), and queues it; `access` and `what` are those of am_spans_open_device().
 */
aclError am_keep_alive_submit(struct am_keep_alive *keep, const void *addr, size_t size,
                              unsigned access, const char *what,
                              struct am_stream *stream);
void am_keep_alive_free(struct am_task *task);

/* Takes over spans, which may be empty. */
aclError am_keep_alive_async(struct am_spans *spans, struct am_stream *stream);

/* aclrtCmoAsync: the range must be device memory that the stream's device may read. */
aclError am_keep_alive_device_async(void *addr, size_t size, struct am_stream *stream);

#endif
