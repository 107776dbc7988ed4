/*
 * Waiting: the one function in which a thread of the program waits for a queue, an event or
 * registered memory.
 *
 * A wait ends when its condition holds, at its time limit, or when its stall callback gives it
 * up.  The stall timer counts time in which no queued work could have ended the wait; time in
 * which the process stood still, in a debugger or on a busy machine, does not count.
 */
#ifndef AM_CORE_WAIT_H
#define AM_CORE_WAIT_H

#include "core/stream/sched.h"

#define AM_STALL_TIMEOUT (5 * AM_SECOND)

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
    /* NULL, or asks a device or another process; may_block: until the device is done. */
    enum am_progress (*poll)(void *what, bool may_block);
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

#endif
