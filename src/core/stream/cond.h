/* Condition variables on the monotonic clock. */
#ifndef AM_CORE_COND_H
#define AM_CORE_COND_H

#include <pthread.h>
#include <time.h>

#include "base/clock.h"
#include "base/epoch.h"
#include "base/lock.h"

static inline void am_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}

/* Until the condition is signalled, or a time of am_clock(): 0 or ETIMEDOUT. */
static inline int am_cond_wait_locked(struct am_lock *lock, pthread_cond_t *cond,
                                      uint64_t until) AM_REQUIRES(*lock)
{
    struct timespec at = {.tv_sec = (time_t)(until / AM_SECOND),
                          .tv_nsec = (long)(until % AM_SECOND)};
    unsigned depth = am_epoch_suspend();
    int rc;

    if (until == AM_FOREVER)
        rc = pthread_cond_wait(cond, &lock->mutex);
    else
        rc = pthread_cond_timedwait(cond, &lock->mutex, &at);
    am_epoch_resume(depth);
    return rc;
}

#endif
