/*
 * The lane engine: the part of a stream's work that its device does by itself.
 *
 * Each stream has a queue of the scheduler (sched.h).  A stream on a device with lanes
 * (backend.h) also has a lane queue.  A task that the device can do is launched by the call
 * that submits it, if nothing of the stream is in the scheduler.  Any other task goes to the
 * scheduler.  Where launched tasks are not done yet, a barrier goes ahead of it: a task that
 * is done when they are.  While the scheduler has a task of the stream, nothing is launched.
 * So the tasks of a stream keep their order, and at any time only one of the two engines
 * begins them.
 *
 * A device does not say when a task is done: a thread has to ask.  The threads that ask are
 * those that synchronise or query the stream or an event recorded on it, the watcher of the
 * scheduler for barriers and waits, and every so often the threads that launch.  A thread
 * that asks collects: it takes all tasks that are done out of the list, makes them visible,
 * and drops them.
 *
 * Each lane queue has a lock of its own, and the driver is called under no other.  Threads
 * that use streams of their own never meet here.  Order of locks: the lane's, the
 * scheduler's, an event's.
 */
#ifndef AM_CORE_LANE_H
#define AM_CORE_LANE_H

#include "core/stream/sched.h"

struct am_lane_queue {
    const struct am_backend_ops
        *ops; /* NULL: the device has no lanes; the lock is unused */
    struct am_sched *sched;
    struct am_queue *queue; /* the stream's part that the scheduler has */
    int32_t driver;         /* the device, by the driver's id */
    struct am_lock lock;
    struct am_lane *lane;       /* lock, as all below; NULL until the first launch */
    bool is_refused;            /* the device could not open a lane */
    struct am_tasks tasks;      /* launched, and not known to be done */
    struct am_tasks over;       /* done, and to be dropped by the thread that drops */
    bool is_dropping;           /* there is such a thread */
    unsigned n_tasks;           /* launched, and not yet dropped */
    unsigned n_unasked;         /* launches since the device was asked last */
    uint64_t last;              /* the number of the last launch */
    uint64_t taken;             /* launches up to this number were taken out of tasks */
    uint64_t dropped;           /* and up to this one dropped */
    struct am_barrier *barrier; /* the latest one that the scheduler has, or NULL */
    pthread_cond_t changed;     /* taken or dropped grew */
};

/* ops: NULL where the device has no lanes. */
void am_lane_init(struct am_lane_queue *lq, struct am_sched *sched,
                  struct am_queue *queue, const struct am_backend_ops *ops,
                  int32_t driver);
/* No launched task is left. */
void am_lane_destroy(struct am_lane_queue *lq);

/* Appends a task, which is the stream's from now on; if that fails, still the caller's. */
aclError am_lane_submit(struct am_lane_queue *lq, struct am_task *task);

/*
 * The same in steps, for callers that change an event or notify in between: enter; launch; if
 * task->number is 0 then, queue under the scheduler's lock; leave.  If a step fails, the task
 * is still the caller's.  A launch may release the lane's lock before it begins.
 */
void am_lane_enter(struct am_lane_queue *lq) AM_ACQUIRE(lq->lock);
void am_lane_leave(struct am_lane_queue *lq) AM_RELEASE(lq->lock);
aclError am_lane_launch_locked(struct am_lane_queue *lq, struct am_task *task)
    AM_REQUIRES(lq->lock);
aclError am_lane_queue_locked(struct am_sched *sched, struct am_lane_queue *lq,
                              struct am_task *task) AM_REQUIRES(lq->lock, sched->lock);
/* Whether no launched task is left. */
static inline bool am_lane_is_empty_locked(const struct am_lane_queue *lq)
    AM_REQUIRES(lq->lock)
{
    return lq->n_tasks == 0;
}

/* As am_sched_try_begin(), after the launched tasks are done. */
bool am_lane_try_begin(struct am_lane_queue *lq, bool is_short);
/* As am_bypass_pass(); false also while launched tasks are left. */
bool am_lane_pass(struct am_lane_queue *lq);

/* Takes out and drops the tasks that the device has done; true: none is left. */
bool am_lane_collect(struct am_lane_queue *lq);

/* Until all launches so far are done and dropped: 0 or, at a time of am_clock(), ETIMEDOUT. */
int am_lane_wait(struct am_lane_queue *lq, uint64_t until);
/* The same for launches up to a number, at which the mark is. */
int am_lane_wait_mark(struct am_lane_queue *lq, uint64_t number, struct am_mark *mark,
                      uint64_t until);

#endif
