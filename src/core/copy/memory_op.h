/*
 * Eight bytes of memory that a stream writes, or waits for.
 *
 * A wait polls the memory itself, since another stream, a copy, or a program that stands
 * in for a kernel through a host view may write it.
 */
#ifndef AM_CORE_MEMORY_OP_H
#define AM_CORE_MEMORY_OP_H

#include "acl/acl_rt.h"
#include "core/stream/stream.h"

aclError am_memory_op_write(void *addr, uint64_t value, struct am_stream *stream);
/* how: ACL_STREAM_WAIT_VALUE_*, checked by the caller. */
aclError am_memory_op_wait(void *addr, uint64_t value, uint32_t how,
                           struct am_stream *stream);

#endif
