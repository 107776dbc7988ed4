/*
 * Stalls: whether queued work can end a wait.
 *
 * A queue can move if it is not parked, or if its first task has a deadline, is launched, is a
 * function of the program that runs, or waits for a task of a queue that can move.  A walk over
 * queues that wait for each other enters each queue once, so queues in a cycle cannot move.
 * A queue that waits for memory can move while any task runs.
 *
 * Callers are in a read section and hold no lock of a queue or an event.
 */
#ifndef AM_CORE_STALL_H
#define AM_CORE_STALL_H

#include "core/stream/queue.h"
#include "core/stream/wait.h"

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
