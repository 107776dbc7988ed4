/*
 * Functions of the program that run between the tasks of a stream.
 *
 * A callback (aclrtLaunchCallback) is run by a thread of the program, which subscribes to
 * streams and calls aclrtProcessReport.  A host function (aclrtLaunchHostFunc) is run by a
 * thread of ours; there are as many as run at once, since one may wait for another.  No
 * lock of ours is held while either runs.  A stream is parked until a function that blocks
 * it is done.
 */
#ifndef AM_CORE_CALL_H
#define AM_CORE_CALL_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "core/stream/sched.h"

/* The task that runs such a function; thread is a pthread_t as a number. */
aclError am_call_make_callback(uint64_t thread, aclrtCallback function, void *data,
                               bool is_blocking, struct am_task **ret_task);
aclError am_call_make_hostfunc(aclrtHostFunc function, void *data,
                               struct am_task **ret_task);

/* One more stream whose callbacks the thread runs, and one less. */
aclError am_subscriber_add_locked(uint64_t thread) AM_REQUIRES(am_sched.lock);
void am_subscriber_remove_locked(uint64_t thread) AM_REQUIRES(am_sched.lock);

/*
 * Runs the callbacks of this thread's streams, at least one; 507012 when none came in
 * time.
 */
aclError am_call_process(int32_t timeout_ms);

/*
 * Whether this thread is in such a function; and in one that the queue waits for: waiting
 * for that queue would never end.
 */
bool am_call_is_inside(void);
bool am_call_blocks_locked(const struct am_queue *queue) AM_REQUIRES(am_sched.lock);
/*
 * The same for the tasks before `until` (NULL: for all) in the queue, which may wait for such
 * a queue by way of events and other queues.
 */
bool am_call_is_awaited_locked(struct am_queue *queue, const struct am_task *until)
    AM_REQUIRES(am_sched.lock);

/* Host functions may be launched from now on. */
void am_calls_start(void);
/* Ends the threads for host functions; all streams are gone. */
void am_calls_stop(void);

#endif
