/*
 * Shards: data that many threads change, in parts.
 *
 * A cache line that several cores write moves from core to core, which costs more than all
 * the rest of a short call.  So such data has AM_SHARDS parts in separate cache lines, and a
 * thread uses the part of its number.  Threads are numbered in the order of their first use.
 * Two threads may have the same part, so a part is still atomic, or protected by a lock; but
 * with at most AM_SHARDS threads no thread waits for another one.
 *
 * A tally is a number in parts: each thread adds to its own part, and a reader adds them
 * up.  A part may be negative; the sum is right when no thread is in a call.
 */
#ifndef AM_BASE_SHARD_H
#define AM_BASE_SHARD_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/util.h"

#define AM_SHARDS 32
/* Bytes from a part to the next: processors fetch lines of 64 bytes in pairs. */
#define AM_SHARD_STRIDE 128

extern _Thread_local unsigned am_shard_number
    __attribute__((tls_model("initial-exec"))); /* 0: none yet */

unsigned am_shard_assign(void);

/* The part of this thread, below AM_SHARDS. */
static inline unsigned am_shard(void)
{
    unsigned number = am_shard_number;

    return __builtin_expect(number != 0, 1) ? number - 1 : am_shard_assign();
}

struct am_tally {
    union {
        _Atomic int64_t n;
        char stride[AM_SHARD_STRIDE];
    } part[AM_SHARDS];
};

static inline void am_tally_add(struct am_tally *tally, int64_t n)
{
    atomic_fetch_add_explicit(&tally->part[am_shard()].n, n, memory_order_relaxed);
}

static inline uint64_t am_tally_sum(struct am_tally *tally)
{
    int64_t sum = 0;

    for (unsigned i = 0; i < AM_SHARDS; i++)
        sum += atomic_load_explicit(&tally->part[i].n, memory_order_relaxed);
    return sum > 0 ? (uint64_t)sum : 0;
}

#endif
