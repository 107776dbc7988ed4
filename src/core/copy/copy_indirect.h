/*
 * Copies and cache operations whose arguments lie in device memory.
 *
 * A descriptor is written at once; it is read, checked and executed when the stream gets
 * there, as the device would do it.  So a wrong address in it is an error of the stream.
 */
#ifndef AM_CORE_COPY_INDIRECT_H
#define AM_CORE_COPY_INDIRECT_H

#include "acl/acl_rt.h"
#include "core/stream/stream.h"

#define AM_DESC_SIZE 64 /* bytes of a descriptor, of either kind */

aclError am_copy_indirect_set(void *desc, void *src, void *dst, size_t size);
aclError am_copy_indirect_keep_set(void *desc, void *addr, size_t size);
aclError am_copy_indirect_async(void *desc, struct am_stream *stream);
aclError am_copy_indirect_keep_async(void *desc, struct am_stream *stream);

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

aclError am_indirect_copy_async(const struct am_indirect *copy, struct am_stream *stream);

#endif
