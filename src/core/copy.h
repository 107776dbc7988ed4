/* Synchronous copies and fills. */
#ifndef AM_CORE_COPY_H
#define AM_CORE_COPY_H

#include "acl/acl_rt.h"

/* Both sides are looked up and checked before a byte moves. */
aclError am_copy(void *dst, const void *src, size_t size, aclrtMemcpyKind kind);
aclError am_fill(void *dst, int value, size_t size);

#endif
