/*
 * A slab whose objects have numbers: a handle leads to its object without a table between.
 *
 * Of a million objects, each that a program asks for comes from memory.  A table of handles
 * (base/idmap.h) costs a second fetch, which has to wait for the first.  So the slot of a
 * handle is in the object itself, and the handle's number says where the object lies.
 * Handles look as those of base/idmap.h do, and am_idmap_why() explains them.
 *
 * Objects are memory of their type for ever, as in base/slab.h: they are found without a
 * lock.  An object is zeroed once, at birth, has lines of the cache to itself, and begins with
 * struct am_named.  A thread uses objects again in the order in which it freed them, a few at
 * least, so that a generation lasts long.
 */
#ifndef AM_BASE_IDSLAB_H
#define AM_BASE_IDSLAB_H

#include "base/idmap.h"

/* The first member of every object. */
struct am_named {
    struct am_object object;
    uint32_t number;        /* of its place, from 1 on */
    _Atomic(void *) handle; /* NULL: it has none */
    uint32_t generation;    /* of its next handle; the thread's that ends the handle */
    uint32_t next;          /* the slab's lock; free: the next one in the list for all */
};

#define AM_IDSLAB_PART 32 /* free objects that a shard keeps */

/* The free objects of a shard, the oldest first; no line of an object is needed for it. */
union am_idslab_part {
    struct {
        struct am_latch lock;
        unsigned first; /* lock, as all below */
        unsigned n;
        struct am_named *spare[AM_IDSLAB_PART];
    };
    char stride[3 * AM_SHARD_STRIDE];
};

struct am_idslab {
    size_t size; /* of an object; whole lines */
    enum am_kind kind;
    /* As those of base/idmap.h: 256, 256, 512, 1024, ... objects. */
    _Atomic(char *) segments[AM_IDMAP_SEGMENTS];
    struct am_latch lock;
    uint32_t end;   /* lock; numbers from here on were never used; 0: as 1 */
    uint32_t spare; /* lock; a list of free objects, 0: none */
    union am_idslab_part part[AM_SHARDS];
};

#define AM_IDSLAB_INIT(type_, kind_, name_) \
    { \
        .size = (sizeof(type_) + 63) / 64 * 64, .kind = (kind_), \
        .lock = AM_LATCH_INIT(AM_RANK_LEAF, name_), .part = { \
            [0 ... AM_SHARDS - 1].lock = AM_LATCH_INIT(AM_RANK_LEAF, name_) \
        } \
    }

/* NULL when there is no memory.  The object has no handle, and holds what its last user left. */
void *am_idslab_take(struct am_idslab *slab);
/* It has no handle and no reference any more. */
void am_idslab_give(struct am_idslab *slab, struct am_named *named);

/* Gives the object a handle; and takes it away, once no reference is left. */
void *am_idslab_name(struct am_idslab *slab, struct am_named *named);
void am_idslab_unname(struct am_named *named);

/*
 * The object, with one more reference, or NULL.  Takes no lock: another thread may free the
 * object meanwhile, and use it again.  Then the reference is dropped by `put`.
 */
void *am_idslab_get(struct am_idslab *slab, void *handle,
                    void (*put)(struct am_named *named));

/* Where the object with this number lies, if there is one; NULL: there is none. */
static inline char *am_idslab_place(struct am_idslab *slab, uint32_t number)
{
    uint32_t segment = am_id_segment(number & AM_ID_NUMBER_MAX);
    char *objects = atomic_load_explicit(&slab->segments[segment], memory_order_acquire);

    number &= AM_ID_NUMBER_MAX;
    return objects == NULL ? NULL
                           : objects + slab->size * (number - am_id_first(segment));
}

/* As am_slab_each(). */
void am_idslab_each(struct am_idslab *slab, void (*visit)(void *object, void *arg),
                    void *arg);

#endif
