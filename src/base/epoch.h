/*
 * Read sections: an object that a thread finds in a section stays valid memory until the
 * section ends.
 *
 * Each API call is a section (api/entry.c).  A lookup is a plain acquire load of a handle
 * table or address index.  To destroy an object, a thread unlinks the object, so that no
 * new lookup finds the object, and defers the free.  The free runs after every section
 * that could have found the object has ended (one grace period).  A reference count is
 * needed only where a pointer outlives the section: tasks, mappings, host views.
 *
 * Recipe for a thread of the library (worker, host function thread, exchange server):
 *
 *     am_epoch_enter();      before each task or request
 *     am_epoch_leave();      after it, with no lock held
 *
 * A thread that waits without a bound, or that calls a function of the program, suspends
 * its section, so that the wait does not hold back reclamation and aclFinalize:
 *
 *     unsigned depth = am_epoch_suspend();
 *     ...                    only objects that this thread has references to are valid
 *     am_epoch_resume(depth);
 *
 * Why not liburcu: Debian's liburcu is not built for ThreadSanitizer, so every use would be
 * reported as a race; a thread must register before its first section and unregister before
 * it exits, and the threads here are the program's; call_rcu() needs a thread.  This
 * implementation has no state for each thread except a nesting depth: a section increments
 * a counter in one of AM_SHARDS cache lines and decrements the same counter, so threads may
 * exit at any time outside a section, and a child of fork resets the counters.
 *
 * The epoch number's lowest bit selects one of two counters in each shard.  The number can
 * advance when all counters of the other value are zero.  A section that began before an
 * object was unlinked may use either counter, so an object whose deferral was seen at epoch
 * n is free at n + 3: the step to n + 1 may have been decided before the unlink, each of
 * the next two steps waits for one of the counters.
 */
#ifndef AM_BASE_EPOCH_H
#define AM_BASE_EPOCH_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

#define AM_SHARDS 32
/* Bytes from a shard to the next: processors fetch lines of 64 bytes in pairs. */
#define AM_SHARD_STRIDE 128

extern _Thread_local unsigned am_shard_number
    __attribute__((tls_model("initial-exec"))); /* 0: none yet */

unsigned am_shard_assign(void);

/*
 * The shard of this thread, below AM_SHARDS.  Threads are numbered in the order of their first
 * use; two threads may have the same shard.
 */
static inline unsigned am_shard(void)
{
    unsigned number = am_shard_number;

    return __builtin_expect(number != 0, 1) ? number - 1 : am_shard_assign();
}

/* A number that threads add to without contending for one cache line. */
struct am_counter {
    struct {
        _Alignas(AM_SHARD_STRIDE) _Atomic uint64_t n;
    } shard[AM_SHARDS];
};

static inline void am_counter_add(struct am_counter *counter, uint64_t n)
{
    atomic_fetch_add(&counter->shard[am_shard()].n, n);
}

static inline uint64_t am_counter_sum(const struct am_counter *counter)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < AM_SHARDS; i++)
        sum += atomic_load(&counter->shard[i].n);
    return sum;
}

/* Part of an object whose free is deferred; so deferring cannot run out of memory. */
struct am_deferred {
    struct am_deferred *next;
    uint64_t epoch; /* 0: not seen by a reclaiming thread yet */
    void (*free)(struct am_deferred *deferred);
};

union am_epoch_shard {
    struct {
        atomic_uint n_readers[2];
        _Atomic(struct am_deferred *) deferred;
        atomic_uint n_deferred;
        atomic_uint limit; /* reclaim at this many deferred objects; 0: the default */
    };
    char stride[AM_SHARD_STRIDE];
};

extern struct am_epoch {
    _Alignas(AM_SHARD_STRIDE) _Atomic uint64_t number;
    _Alignas(AM_SHARD_STRIDE) union am_epoch_shard shard[AM_SHARDS];
} am_epoch;

extern _Thread_local struct am_epoch_thread {
    unsigned depth;
    unsigned parity; /* of the epoch in which the section began */
} am_epoch_thread __attribute__((tls_model("initial-exec")));

#define AM_EPOCH_BATCH 64 /* deferred objects of a shard that start a reclamation */

/* Frees what no section can use any more.  No lock is held. */
void am_epoch_reclaim(void) __attribute__((cold));

static inline void am_epoch_begin(void)
{
    unsigned parity = atomic_load_explicit(&am_epoch.number, memory_order_relaxed) & 1;

    am_epoch_thread.parity = parity;
    /* Lookups must not move before the increment; pairs with full_barrier() in epoch.c. */
    atomic_fetch_add_explicit(&am_epoch.shard[am_shard()].n_readers[parity], 1,
                              memory_order_seq_cst);
#if !defined(__x86_64__) /* where a read-modify-write is a full barrier */
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Release: the reads of this section happen before a free that sees the counter. */
static inline void am_epoch_end(void)
{
    atomic_fetch_sub_explicit(
        &am_epoch.shard[am_shard()].n_readers[am_epoch_thread.parity], 1,
        memory_order_release);
}

/* Sections nest: only the outermost one counts. */
static inline void am_epoch_enter(void)
{
    if (am_epoch_thread.depth++ == 0)
        am_epoch_begin();
}

/* The outermost leave may run deferred frees: the caller holds no lock. */
static inline void am_epoch_leave(void)
{
    union am_epoch_shard *shard;
    unsigned n;

    if (--am_epoch_thread.depth > 0)
        return;
    am_epoch_end();
    shard = &am_epoch.shard[am_shard()];
    n = atomic_load_explicit(&shard->n_deferred, memory_order_relaxed);
    if (__builtin_expect(n >= AM_EPOCH_BATCH, 0) &&
        n >= atomic_load_explicit(&shard->limit, memory_order_relaxed))
        am_epoch_reclaim();
}

/* The rest of the block is a section. */
static inline char am_epoch_block_begin(void)
{
    am_epoch_enter();
    return 0;
}

static inline void am_epoch_block_end(const char *unused)
{
    (void)unused;
    am_epoch_leave();
}

#define AM_READ_SECTION \
    __attribute__((cleanup(am_epoch_block_end), unused)) char section_ = \
        am_epoch_block_begin()

/* Ends the section, however deep it is nested; a lock may be held.  See above. */
static inline unsigned am_epoch_suspend(void)
{
    unsigned depth = am_epoch_thread.depth;

    if (depth > 0)
        am_epoch_end();
    am_epoch_thread.depth = 0;
    return depth;
}

static inline void am_epoch_resume(unsigned depth)
{
    if (depth > 0)
        am_epoch_begin();
    am_epoch_thread.depth = depth;
}

/*
 * Calls free(deferred) after all current sections have ended.  The object is unlinked.  A
 * lock may be held; free() is called without one, in any thread.
 */
void am_epoch_defer(struct am_deferred *deferred,
                    void (*free)(struct am_deferred *deferred));

/*
 * Waits until every section of another thread that had begun has ended, and runs all
 * deferred frees, also the frees that they defer.  The caller's section is suspended.
 */
void am_epoch_synchronize(void);

/* In a child of fork: the other threads, and with them their sections, do not exist. */
void am_epoch_forget_threads(void);

#endif
