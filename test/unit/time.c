/* Waits of the library beside a clock of the test's own.  See unit.h. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>

atomic_bool is_time_ours;

int __real_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until);

int __wrap_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    if (!is_time_ours)
        return __real_pthread_cond_timedwait(cond, mutex, until);
    pthread_mutex_unlock(mutex);
    sched_yield();
    pthread_mutex_lock(mutex);
    return ETIMEDOUT;
}
