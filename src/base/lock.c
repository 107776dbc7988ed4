/* Ranked mutexes; the held list exists only in builds with assertions.  See lock.h. */
#include "base/lock.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

#ifndef AM_NDEBUG

#define HELD_MAX AM_RANK_LEAF /* one of each rank, the last of which it is */

static _Thread_local struct {
    const struct am_lock *lock[HELD_MAX];
    int n;
} held;

static void lock_push(const struct am_lock *lock)
{
    for (int i = 0; i < held.n; i++) {
        if (held.lock[i]->rank >= lock->rank) {
            fprintf(stderr,
                    "aclmem: lock %s (rank %d) taken while %s (rank %d) is held\n",
                    lock->name, lock->rank, held.lock[i]->name, held.lock[i]->rank);
            abort();
        }
    }
    am_assert(held.n < HELD_MAX);
    held.lock[held.n++] = lock;
}

static void lock_pop(const struct am_lock *lock)
{
    int i = held.n - 1;

    while (i >= 0 && held.lock[i] != lock)
        i--;
    am_assert(i >= 0);
    for (; i < held.n - 1; i++)
        held.lock[i] = held.lock[i + 1];
    held.n--;
}

#else

static void lock_push(const struct am_lock *lock)
{
}

static void lock_pop(const struct am_lock *lock)
{
}

#endif

void am_lock_init(struct am_lock *lock, enum am_rank rank, const char *name)
{
    pthread_mutex_init(&lock->mutex, NULL);
    lock->rank = rank;
    lock->name = name;
}

void am_lock_destroy(struct am_lock *lock)
{
    pthread_mutex_destroy(&lock->mutex);
}

AM_NO_LOCK_ANALYSIS void am_lock(struct am_lock *lock)
{
    lock_push(lock);
    pthread_mutex_lock(&lock->mutex);
}

AM_NO_LOCK_ANALYSIS bool am_lock_try(struct am_lock *lock)
{
    if (pthread_mutex_trylock(&lock->mutex) != 0)
        return false;
    lock_push(lock);
    return true;
}

AM_NO_LOCK_ANALYSIS void am_unlock(struct am_lock *lock)
{
    pthread_mutex_unlock(&lock->mutex);
    lock_pop(lock);
}
