/*
 * Waiting: the one function in which a thread of the program waits for a queue, an event or
 * registered memory.
 *
 * A wait ends when its condition holds, at its time limit, or when its stall callback gives it
 * up.  The stall timer counts time in which no queued work could have ended the wait; time in
 * which the process stood still, in a debugger or on a busy machine, does not count.
 *
 * A queue can move if it is not parked, or if its first task has a deadline, is launched, is a
 * function of the program that runs, or waits for a task of a queue that can move.  A walk over
 * queues that wait for each other enters each queue once, so queues in a cycle cannot move.
 * A queue that waits for memory can move while any task runs.
 *
 * Callers of am_stall functions are in a read section and hold no lock of a queue or an event.
 */
#ifndef AM_CORE_WAIT_H
#define AM_CORE_WAIT_H

#include "core/stream/queue.h"

/* A thread that waits for several queues in a row uses one stall timer for all. */
struct am_stall {
    struct am_timeout timeout;
    uint64_t n_completed; /* tasks, when the timer was started */
};
void am_stall_start(struct am_stall *stall, struct am_sched *sched);

struct am_wait {
    struct am_sched *sched;
    pthread_cond_t *changed;
    void *what; /* argument of the callbacks */
    bool (*is_done)(void *what);
    /*
     * NULL, or asks a device or another process; may_block: until the device is done.  False:
     * there is nothing to ask, and the condition is signalled.
     */
    bool (*poll)(void *what, bool may_block);
    /* NULL: there is no stall timer; or whether queued work can end the wait. */
    bool (*can_end)(void *what, const struct am_stall *stall);
    /* Called at the end of the stall timer; true: the wait is given up. */
    bool (*stalled)(void *what);
    struct am_stall *stall; /* NULL: one of this wait */
};

/*
 * 0, or ETIMEDOUT: the time is over, or the wait was given up.  The caller holds the lock; it
 * is released during each callback except is_done.
 */
int am_wait_locked(struct am_lock *lock, const struct am_wait *wait, uint64_t timeout_ns)
    AM_REQUIRES(*lock);

/* ---- whether queued work can end a wait ---- */

#define AM_STALL_TEXT 256

bool am_stall_can_move(struct am_queue *queue, const struct am_stall *stall);
/* The same for a wait of a thread, which one of these tasks ends. */
bool am_stall_can_end(const struct am_source *sources, unsigned n,
                      const struct am_stall *stall);

/*
 * Whether a task before `until` in the queue waits, itself or through other queues, for the
 * function of the program in which this thread is: then a wait for the queue never ends.
 */
bool am_stall_awaits_caller(struct am_queue *queue, uint64_t until);

/* Why the queue stalls: the last of the queues that wait for each other is named. */
void am_stall_describe(struct am_queue *queue, char *text, size_t size);

/*
 * Waits until n_done of the queue is at least `target`: 0 or ETIMEDOUT.  A wait that stalls is
 * reported once for each task, and goes on; with `stall`, it is given up instead.
 */
int am_stall_wait_locked(struct am_queue *queue, uint64_t target, uint64_t timeout_ns,
                         struct am_stall *stall) AM_REQUIRES(queue->lock);
/* Waits until the tasks launched so far are done, which a device does by itself: the same. */
int am_stall_wait_launched(struct am_queue *queue, uint64_t timeout_ns);

#endif
