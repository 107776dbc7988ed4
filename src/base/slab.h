/*
 * Objects of one size whose memory is never used for anything else.
 *
 * Readers that take no lock may still look at an object after it was freed.  They find
 * either a reference count of zero or the next object of the same type, and check again;
 * they never find another type's bytes.  So memory goes from the system to a slab and
 * stays there; the object that was freed last is used again first.  An object begins with
 * its atomic_uint count and is zeroed once, at birth.
 *
 * An object has lines of the cache to itself.  Free objects are in lists of the shards,
 * from which threads take without meeting each other, and in one for all, which fills the
 * lists that are empty and takes from those that are long.
 */
#ifndef AM_BASE_SLAB_H
#define AM_BASE_SLAB_H

#include <stddef.h>

#include "base/lock.h"
#include "base/shard.h"

/* A list of free objects. */
union am_slab_part {
    struct {
        struct am_latch lock;
        struct am_slab_node *spare; /* lock, as the next one */
        unsigned n_spare;
    };
    char stride[AM_SHARD_STRIDE];
};

struct am_slab {
    size_t size; /* of an object */
    struct am_latch lock;
    struct am_slab_node *spare; /* lock; a list of free objects */
    /* lock; every block ever taken, so that leak checkers see it */
    struct am_slab_block *bulk;
    unsigned n_bulk; /* lock */
    union am_slab_part part[AM_SHARDS];
};

#define AM_SLAB_INIT(type_, name_) \
    { \
        .size = sizeof(type_), .lock = AM_LATCH_INIT(AM_RANK_LEAF, name_), .part = { \
            [0 ... AM_SHARDS - 1].lock = AM_LATCH_INIT(AM_RANK_LEAF, name_) \
        } \
    }

/* NULL when there is no memory.  The object holds what its last user left. */
void *am_slab_take(struct am_slab *slab);
void am_slab_give(struct am_slab *slab, void *object);

#endif
