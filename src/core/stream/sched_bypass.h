/*
 * The bypass of a queue: short work without the scheduler's lock.
 *
 * A queue whose bypass is open has no task, no failure to report, and is neither stopped nor
 * closed.  A caller enters the bypass, does one short task itself and leaves; a call that
 * synchronises sees from the bypass alone that nothing is queued.  So threads that use
 * streams of their own never meet.
 *
 * Everything else that is done with a queue is done under the scheduler's lock with the
 * bypass closed: am_bypass_close_locked() comes first, am_bypass_open_locked() when the
 * queue may be idle again.  A task that is inside when the bypass is closed becomes the queue's running
 * task, and its caller takes the lock to end it.
 *
 * Chaos mode orders all work, so its queues keep it closed.
 *
 * The word holds two flags and above them the number of tasks done since the bypass was
 * opened; am_bypass_close_locked() adds those to the queue's own counts.
 */
#ifndef AM_CORE_SCHED_BYPASS_H
#define AM_CORE_SCHED_BYPASS_H

#include "core/stream/sched.h"

#define AM_BYPASS_CLOSED UINT64_C(1)
#define AM_BYPASS_INSIDE UINT64_C(2)
#define AM_BYPASS_ONE UINT64_C(4) /* one task that is done */

/* Nothing is queued and nothing runs; what was done before is visible to the caller. */
static inline bool am_bypass_is_quiet(const struct am_queue *queue)
{
    /* The partner is the release in am_bypass_leave(). */
    return !(atomic_load_explicit(&queue->bypass, memory_order_acquire) &
             (AM_BYPASS_CLOSED | AM_BYPASS_INSIDE));
}

/* True: the caller does its task now, and then calls am_sched_end(). */
static inline bool am_bypass_enter(struct am_queue *queue)
{
    uint64_t bypass = atomic_load_explicit(&queue->bypass, memory_order_relaxed);

    if (bypass & (AM_BYPASS_CLOSED | AM_BYPASS_INSIDE))
        return false;
    /*
     * A thread that loses the race below has written its name over the winner's.  The name
     * is for messages alone.
     */
    atomic_store_explicit(&queue->inside, am_error_function, memory_order_relaxed);
    /*
     * The release is for `inside`: am_bypass_close_locked() reads it when its acquire has
     * seen the flag.  The acquire pairs with am_bypass_leave() of the task before.
     */
    return atomic_compare_exchange_strong_explicit(
        &queue->bypass, &bypass, bypass | AM_BYPASS_INSIDE, memory_order_acq_rel,
        memory_order_relaxed);
}

/* False: the bypass is closed, and the task is to be ended under the lock. */
static inline bool am_bypass_leave(struct am_sched *sched, struct am_queue *queue)
{
    uint64_t bypass = atomic_load_explicit(&queue->bypass, memory_order_relaxed);

    /*
     * The flag in the first load is not stale: this thread set INSIDE since, and loads of
     * one variable do not go back.  The release is for the task's bytes: its partners are
     * am_bypass_is_quiet(), am_bypass_enter() and am_bypass_close_locked().
     */
    if ((bypass & AM_BYPASS_CLOSED) ||
        !atomic_compare_exchange_strong_explicit(
            &queue->bypass, &bypass, (bypass & ~AM_BYPASS_INSIDE) + AM_BYPASS_ONE,
            memory_order_acq_rel, memory_order_relaxed))
        return false;
    am_tally_add(&sched->moves, 1);
    return true;
}

/* The same for a task that is done as soon as it is queued. */
static inline bool am_bypass_pass(struct am_sched *sched, struct am_queue *queue)
{
    uint64_t bypass = atomic_load_explicit(&queue->bypass, memory_order_relaxed);

    /* As am_bypass_enter() and am_bypass_leave() in one. */
    if ((bypass & (AM_BYPASS_CLOSED | AM_BYPASS_INSIDE)) ||
        !atomic_compare_exchange_strong_explicit(
            &queue->bypass, &bypass, bypass + AM_BYPASS_ONE, memory_order_acq_rel,
            memory_order_relaxed))
        return false;
    am_tally_add(&sched->moves, 1);
    return true;
}

/* From now on the queue is as its fields say. */
void am_bypass_close_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);
/* Opens the closed bypass of an idle queue; does nothing to another one. */
void am_bypass_open_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);

#endif
