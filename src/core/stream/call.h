/*
 * Functions of the program that run between the tasks of a stream.
 *
 * A callback (aclrtLaunchCallback) is run by a thread of the program, which subscribes to
 * streams and calls aclrtProcessReport.  A host function (aclrtLaunchHostFunc) is run by a
 * thread of the library; there are as many as run at the same time, since one function may
 * wait for another.  No lock is held while a function runs.  A stream is parked until a
 * function that blocks it has returned.
 */
#ifndef AM_CORE_CALL_H
#define AM_CORE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "core/stream/queue.h"

/* The task that runs such a function; thread is a pthread_t as a number. */
aclError am_call_make_callback(uint64_t thread, aclrtCallback function, void *data,
                               bool is_blocking, struct am_task **ret_task);
aclError am_call_make_hostfunc(aclrtHostFunc function, void *data,
                               struct am_task **ret_task);

/* The thread runs the callbacks of one stream more, or of one less. */
aclError am_subscriber_add(uint64_t thread);
void am_subscriber_remove(uint64_t thread);

/* Runs the callbacks of this thread's streams, at least one; 507012 when none is due in time. */
aclError am_call_process(int32_t timeout_ms);

/* Whether this thread is in such a function. */
bool am_call_is_inside(void);
/* Whether the queue waits for a function that this thread is in. */
bool am_call_blocks_locked(const struct am_queue *queue) AM_REQUIRES(queue->lock);

/* Host functions may be launched from now on. */
void am_calls_start(void);
/*
 * Ends the threads for host functions; all streams have ended.  A function that a stream
 * abandoned has five seconds to return; then its thread is left alone, with a warning.
 */
void am_calls_stop(void);

#endif
