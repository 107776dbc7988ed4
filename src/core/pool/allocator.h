/*
 * User allocators: four functions and an object of the program's, described once and
 * registered with streams.  The library stores them for queries and does not call them.
 *
 * A stream keeps what is registered with it, also when the description is destroyed.
 */
#ifndef AM_CORE_ALLOCATOR_H
#define AM_CORE_ALLOCATOR_H

#include "acl/acl_rt.h"
#include "core/stream/stream.h"

struct am_allocator_functions {
    aclrtAllocator object;
    aclrtAllocatorAllocFunc alloc;
    aclrtAllocatorFreeFunc free;
    aclrtAllocatorAllocAdviseFunc advise;
    aclrtAllocatorGetAddrFromBlockFunc get_addr;
};

aclError am_allocator_create(void **ret_handle);
aclError am_allocator_destroy(void *handle);
/* All that were not destroyed. */
void am_allocator_destroy_all(void);

/* Sets what is not NULL in `functions`. */
aclError am_allocator_set(void *handle, const struct am_allocator_functions *functions);

aclError am_allocator_register(struct am_stream *stream, void *handle);
void am_allocator_unregister(struct am_stream *stream);
aclError am_allocator_find(struct am_stream *stream, void **ret_handle,
                           struct am_allocator_functions *ret_functions);

#endif
