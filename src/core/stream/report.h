/*
 * Functions of the program that run between the tasks of a stream.
 *
 * Callbacks (aclrtLaunchCallback) are run by a thread of the program, which subscribes to
 * streams and calls aclrtProcessReport.  Host functions (aclrtLaunchHostFunc) are run by
 * threads of ours, as many as run at once: one may wait for another.  No lock of ours is
 * held while either runs.  A stream is parked until a function that blocks it is done.
 */
#ifndef AM_CORE_REPORT_H
#define AM_CORE_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "core/stream/sched.h"
#include "core/stream/stream.h"

/* thread is a pthread_t as a number. */
aclError am_report_subscribe(uint64_t thread, struct am_stream *stream);
aclError am_report_unsubscribe(uint64_t thread, struct am_stream *stream);

/*
 * Runs the callbacks of this thread's streams, at least one; 507012 when none came in
 * time.
 */
aclError am_report_process(int32_t timeout_ms);

aclError am_report_launch(struct am_stream *stream, aclrtCallback function, void *data,
                          bool is_blocking);
aclError am_hostfunc_launch(struct am_stream *stream, aclrtHostFunc function, void *data);

/*
 * Whether this thread is in such a function; and in one that the queue waits for, so that
 * to wait for the queue would be to wait for itself.
 */
bool am_report_is_inside(void);
bool am_report_blocks_locked(const struct am_queue *queue) AM_REQUIRES(am_sched.lock);
/*
 * The same for what comes before the task (NULL: for all) in the queue and waits for such a
 * queue, by way of events and other queues.
 */
bool am_report_is_awaited_locked(struct am_queue *queue, const struct am_task *until)
    AM_REQUIRES(am_sched.lock);

/* The stream ends, and so does its subscription. */
void am_report_forget_locked(struct am_stream *stream) AM_REQUIRES(am_sched.lock);

/* Host functions may be launched from now on. */
void am_report_start(void);
/* Ends the threads for host functions; all streams are gone. */
void am_report_stop(void);

#endif
