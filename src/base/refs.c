/* See refs.h. */
#include "base/refs.h"

void am_refs_init(struct am_refs *refs)
{
    for (unsigned i = 0; i < AM_SHARDS; i++)
        atomic_store_explicit(&refs->part[i].n, 0, memory_order_relaxed);
    atomic_store_explicit(&refs->rest, AM_REFS_BIAS + 1, memory_order_release);
}

void am_refs_gather(struct am_refs *refs)
{
    for (unsigned i = 0; i < AM_SHARDS; i++) {
        int64_t n = atomic_fetch_or_explicit(&refs->part[i].n, 1, memory_order_acq_rel);

        /* Negative ones wrap around, and so does the sum, back to what it is. */
        atomic_fetch_add_explicit(&refs->rest, (unsigned)(n / 2), memory_order_relaxed);
    }
    atomic_fetch_sub_explicit(&refs->rest, AM_REFS_BIAS, memory_order_acq_rel);
}
