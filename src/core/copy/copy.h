/*
 * Copies and fills, at once or on a stream.
 *
 * A transfer describes each of them.  The lookup and the checks of both sides come first;
 * a task on a stream keeps the sides alive until it is done.
 */
#ifndef AM_CORE_COPY_H
#define AM_CORE_COPY_H

#include "acl/acl_rt.h"
#include "core/copy/span.h"
#include "core/stream/stream.h"

/*
 * The end of a call: if rc is 0, submits the transfer to the stream, or runs it (NULL).  Takes
 * over what the transfer keeps alive, also on failure.  The call waits for a copy with
 * must_wait, or with pageable memory.
 */
aclError am_transfer_finish(struct am_transfer *transfer, aclError rc,
                            struct am_stream *stream);

/* The device of the stream; NULL: of the thread. */
aclError am_transfer_device(const struct am_stream *stream, int32_t *ret_device);
/*
 * Whether work on a stream may combine these sides: not two hosts, and devices only as
 * peers.
 */
aclError am_transfer_check_async(const struct am_transfer *transfer, int32_t device);

/* In all functions below, without a stream (NULL) the work is done when the call returns. */

aclError am_copy(void *dst, const void *src, size_t size, aclrtMemcpyKind kind);
aclError am_copy_async(void *dst, const void *src, size_t size, aclrtMemcpyKind kind,
                       struct am_stream *stream);
aclError am_fill(void *dst, size_t size, uint32_t value, unsigned width,
                 struct am_stream *stream);

/* aclrtMemcpy2d: `height` rows of `width` bytes each; the numbers have been checked. */
struct am_copy_2d {
    void *dst;
    size_t dpitch;
    const void *src;
    size_t spitch;
    size_t width;
    size_t height;
    aclrtMemcpyKind kind;
};

aclError am_copy_2d(const struct am_copy_2d *rows, struct am_stream *stream);

/*
 * aclrtMemcpyBatch: n copies; attrs[k] is about those from indexes[k] on.  All that has
 * been checked.
 */
struct am_copy_batch {
    void **dsts;
    void **srcs;
    const size_t *sizes;
    size_t n;
    const aclrtMemcpyBatchAttr *attrs;
    const size_t *indexes;
    size_t n_attrs;
};

/*
 * *ret_fail: on failure, which copy it is about, or SIZE_MAX; all of them are checked
 * before one begins.
 */
aclError am_copy_batch(const struct am_copy_batch *batch, struct am_stream *stream,
                       size_t *ret_fail);

/* At the stop of the library: waits for threads of copies that were dropped. */
void am_copy_stop(void);

#endif
