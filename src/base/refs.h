/*
 * A reference count that many threads change at the same time.
 *
 * The count is in shards (base/shard.h): a thread adds to its own part and subtracts from
 * its own part, wherever the reference came from, so a part alone means nothing and may be
 * negative.  That no reference is left cannot be seen that way.  So the object's maker, who
 * has the first reference, gathers the parts before it drops that one.  From then on there
 * is one counter, as in other objects, and the drop that takes it to zero is the last one.
 *
 * A part is closed by its lowest bit, in one step with reading it: a change that comes later
 * sees the bit, and goes to the counter.  While parts are gathered the counter is biased, so
 * it cannot seem to be zero before all of them are in it.
 */
#ifndef AM_BASE_REFS_H
#define AM_BASE_REFS_H

#include "base/shard.h"

#define AM_REFS_BIAS (1u << 30)

struct am_refs {
    atomic_uint rest; /* the maker's, and from the gathering on all */
    union {
        _Atomic int64_t n; /* references in steps of 2; the lowest bit: closed */
        char stride[AM_SHARD_STRIDE];
    } part[AM_SHARDS];
};

/* One reference, the maker's. */
void am_refs_init(struct am_refs *refs);
/* The maker is about to drop its reference. */
void am_refs_gather(struct am_refs *refs);

/* One more; false: none was left.  For objects that lie in a slab (base/slab.h). */
static inline bool am_refs_try(struct am_refs *refs)
{
    int64_t n =
        atomic_fetch_add_explicit(&refs->part[am_shard()].n, 2, memory_order_acquire);

    return __builtin_expect((n & 1) == 0, 1) || am_ref_try(&refs->rest);
}

/* One more, of a caller that has one. */
static inline void am_refs_more(struct am_refs *refs)
{
    int64_t n =
        atomic_fetch_add_explicit(&refs->part[am_shard()].n, 2, memory_order_relaxed);

    if (__builtin_expect((n & 1) != 0, 0))
        am_ref_more(&refs->rest);
}

/* True when this was the last one: the caller destroys the object. */
static inline bool am_refs_drop(struct am_refs *refs)
{
    int64_t n =
        atomic_fetch_sub_explicit(&refs->part[am_shard()].n, 2, memory_order_acq_rel);

    return __builtin_expect((n & 1) != 0, 0) && am_ref_drop(&refs->rest);
}

#endif
