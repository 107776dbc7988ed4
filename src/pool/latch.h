/*
 * A lock that is held for a few lines: one word, beside what it covers.
 *
 * Between two calls of the pool a program runs other code, so that each line of code and data that
 * a call needs is out of the caches.  A mutex takes two calls of a library and a look at
 * the thread's own record; this one takes none while threads do not meet.
 */
#ifndef AM_POOL_LATCH_H
#define AM_POOL_LATCH_H

#include <stdatomic.h>

struct pool_latch {
    atomic_uint is_held;
};

/* Returns when the latch looked free; latch.c. */
void pool_latch_wait(struct pool_latch *latch);

static inline void pool_latch_lock(struct pool_latch *latch)
{
    /* The partner is the release below: what the last holder wrote is seen. */
    while (atomic_exchange_explicit(&latch->is_held, 1, memory_order_acquire) != 0)
        pool_latch_wait(latch);
}

static inline void pool_latch_unlock(struct pool_latch *latch)
{
    atomic_store_explicit(&latch->is_held, 0, memory_order_release);
}

#endif
