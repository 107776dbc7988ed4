/*
 * Ranked mutexes and latches; the held list exists only in builds with assertions.  See
 * lock.h.
 */
#include "base/lock.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"

#define N_POLLS 64u
#define N_YIELDS 256u

#ifndef AM_NDEBUG

#define HELD_MAX AM_RANK_LEAF /* one of each rank, the last of which it is */

static _Thread_local struct {
    struct {
        const void *lock;
        enum am_rank rank;
        const char *name;
    } of[HELD_MAX];
    int n;
} held;

void am_held_push(const void *lock, enum am_rank rank, const char *name)
{
    for (int i = 0; i < held.n; i++) {
        if (held.of[i].rank >= rank) {
            fprintf(stderr,
                    "aclmem: lock %s (rank %d) taken while %s (rank %d) is held\n", name,
                    rank, held.of[i].name, held.of[i].rank);
            abort();
        }
    }
    am_assert(held.n < HELD_MAX);
    held.of[held.n].lock = lock;
    held.of[held.n].rank = rank;
    held.of[held.n++].name = name;
}

void am_held_pop(const void *lock)
{
    int i = held.n - 1;

    while (i >= 0 && held.of[i].lock != lock)
        i--;
    am_assert(i >= 0);
    for (; i < held.n - 1; i++)
        held.of[i] = held.of[i + 1];
    held.n--;
}

#endif

void am_lock_init(struct am_lock *lock, enum am_rank rank, const char *name)
{
    pthread_mutexattr_t attributes;

    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
    pthread_mutex_init(&lock->mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    lock->rank = rank;
    lock->name = name;
}

void am_lock_destroy(struct am_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

AM_HOT AM_NO_LOCK_ANALYSIS void am_lock(struct am_lock *lock)
{
    am_held_push(lock, lock->rank, lock->name);
    pthread_mutex_lock(&lock->mutex);
}

bool am_lock_try(struct am_lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return false;
    am_held_push(lock, lock->rank, lock->name);
    return true;
}

AM_HOT AM_NO_LOCK_ANALYSIS void am_unlock(struct am_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
    am_held_pop(lock);
}

/*
 * The owner needs a few lines more, unless it lost its processor.  Then the yields let it
 * run, or the sleep if this thread has a higher priority.
 */
void am_latch_wait(struct am_latch *latch)
{
    static const struct timespec interval = {.tv_nsec = 50000};

    for (unsigned i = 0; atomic_load_explicit(&latch->is_taken, memory_order_relaxed);
         i++) {
        if (i >= N_POLLS + N_YIELDS)
            nanosleep(&interval, NULL);
        else if (i >= N_POLLS)
            sched_yield();
    }
}

/* Raised by what a thread itself does; blocked, they kill without a word. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT};

int am_thread_start(pthread_t *thread, void *(*run)(void *), void *arg)
{
    sigset_t blocked;
    sigset_t before;
    int rc;

    sigfillset(&blocked);
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
        sigdelset(&blocked, faults[i]);
    pthread_sigmask(SIG_SETMASK, &blocked, &before);
    rc = am_sys_pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}
