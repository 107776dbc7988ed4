/*
 * Copies and fills that memory of another machine takes part in.
 *
 * A job cuts the work into pieces of at most one slot (core/remote/remote.h).  Bytes from
 * here are copied into the slot and put; bytes from there are fetched into the slot and
 * copied to their place, or put again.  Several pieces are under way at a time, unless
 * the two sides overlap.
 *
 * A job makes progress in steps, each as far as it goes without waiting.  A synchronous
 * call does steps until it is done; a task of a stream does one when something happened,
 * and its stream is parked between them.
 */
#ifndef AM_CORE_COPY_REMOTE_H
#define AM_CORE_COPY_REMOTE_H

#include "core/copy/copy.h"
#include "core/stream/sched.h"
#include "fabric/port.h"

#define AM_REMOTE_PIECE AM_PORT_SLOT_SIZE /* so many bytes are moved as memmove() does */

struct am_remote_job;

/* At once, a copy or a fill. */
aclError am_remote_copy(const struct am_transfer *transfer);
/* As am_backend_ops.copy, where either side may be remote. */
aclError am_remote_bytes(const struct am_span *dst, size_t dst_at,
                         const struct am_span *src, size_t src_at, size_t size);

/*
 * For a stream.  The transfer must stay until the job is dropped.  NULL: there is no memory.
 */
struct am_remote_job *am_remote_job_copy(const struct am_transfer *transfer);
/* As am_task_ops.poll, with the scheduler's lock. */
bool am_remote_job_poll(struct am_remote_job *job, struct am_sched *sched,
                        struct am_waitlist **ret_list);
/* The result, when it is done. */
aclError am_remote_job_result(struct am_remote_job *job);
/* Also before it is done: what is under way ends by itself. */
void am_remote_job_drop(struct am_remote_job *job);

#endif
