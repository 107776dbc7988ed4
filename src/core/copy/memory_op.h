/*
 * Work on a stream that reads or writes arguments in device memory, or changes nothing: values,
 * cache operations, prefetches, copies by descriptor.
 *
 * A task keeps the memory of its arguments alive.  It reads the arguments when the stream
 * reaches it, as the device would.  So a wrong address in a descriptor is an error of the
 * stream.
 */
#ifndef AM_CORE_MEMORY_OP_H
#define AM_CORE_MEMORY_OP_H

#include "acl/acl_rt.h"
#include "core/copy/span.h"
#include "core/stream/stream.h"

/*
 * Eight bytes at addr become the value, or are waited for; how: ACL_STREAM_WAIT_VALUE_*, checked
 * by the caller.  The wait polls the memory, since another stream, a copy, or a program that
 * stands in for a kernel through a host view may write it.
 */
aclError am_memory_op_value(void *addr, bool is_write, uint64_t value, uint32_t how,
                            struct am_stream *stream);

/*
 * Reads or writes `size` bytes of the device's memory at addr now; `access` and `what` are those of
 * am_spans_open().
 */
aclError am_memory_access(void *addr, void *ours, size_t size, unsigned access,
                          int32_t device, const char *what);

/* Has no effect.  The range must be device memory that the stream's device may read. */
aclError am_memory_op_touch(void *addr, size_t size, struct am_stream *stream);
/* Has no effect, and takes over spans, which may be empty. */
aclError am_memory_op_keep(struct am_spans *spans, struct am_stream *stream);

/* A descriptor is written at once. */
enum am_desc_kind { AM_DESC_COPY, AM_DESC_TOUCH /* dst is NULL */ };

#define AM_DESC_SIZE 64 /* bytes of a descriptor, of either kind */

aclError am_desc_set(void *desc, enum am_desc_kind kind, void *src, void *dst,
                     size_t size);
/* Does what the descriptor says when the stream reaches it. */
aclError am_desc_submit(void *desc, enum am_desc_kind kind, struct am_stream *stream);

/*
 * aclrtMemcpyAsyncWithOffset: dst and src are where, in device memory, the two addresses
 * stand.
 */
struct am_indirect {
    void *dst;
    size_t dst_offset;
    const void *src;
    size_t src_offset;
    size_t size;
};

aclError am_indirect_submit(const struct am_indirect *copy, struct am_stream *stream);

#endif
