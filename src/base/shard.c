/* See shard.h. */
#include "base/shard.h"

_Thread_local unsigned am_shard_number;

unsigned am_shard_assign(void)
{
    static atomic_uint next;
    unsigned shard =
        atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % AM_SHARDS;

    am_shard_number = shard + 1;
    return shard;
}
