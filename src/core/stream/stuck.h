/*
 * The message about a stream whose wait no queued task can end.
 *
 * A stream may wait for another one, which waits for a third: the last one of them names
 * the cause.
 */
#ifndef AM_CORE_STUCK_H
#define AM_CORE_STUCK_H

#include "core/stream/stream.h"

#define AM_STUCK_SIZE 256

/* "aclrtStreamWaitEvent made stream 3 wait until ..."; the queue is parked. */
void am_stuck_describe_locked(struct am_queue *queue, char *text, size_t size)
    AM_REQUIRES(am_sched.lock);

/* For struct am_sched_setup: this thread has waited for the queue for AM_PATIENCE. */
void am_stuck_warn_locked(struct am_queue *queue) AM_REQUIRES(am_sched.lock);

#endif
