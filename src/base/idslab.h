/*
 * Handles for the program, and the objects that they name.
 *
 * A handle is a number, not an address.  It holds a mark, the kind of the object, the
 * generation and the number of its place:
 *
 *     0x40 + kind (8 bits) | generation (28) | number (28)
 *
 * so that a stale handle, a handle of another kind and an arbitrary number are
 * distinguished, and none is ever dereferenced (the mark makes it an address no machine
 * accepts).
 *
 * Objects of one kind lie in a slab, and the number says where: a handle leads to its object
 * without a table between.  Of a million objects, each that a program asks for comes from
 * memory; a table would be a second fetch, which has to wait for the first.
 *
 * Objects are memory of their type for ever, as in base/slab.h: they are found without a
 * lock.  An object is zeroed once, at birth, has lines of the cache to itself, and begins with
 * struct am_named.  A thread uses objects again in the order in which it freed them, a few at
 * least, so that a generation lasts long.
 */
#ifndef AM_BASE_IDSLAB_H
#define AM_BASE_IDSLAB_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/lock.h"
#include "base/shard.h"

enum am_kind {
    AM_KIND_NONE,
    AM_KIND_PHYS,
    AM_KIND_CONTEXT,
    AM_KIND_STREAM,
    AM_KIND_EVENT,
    AM_KIND_NOTIFY,
    AM_KIND_POOL,
    AM_KIND_ALLOCATOR,
    AM_KIND_COUNT,
};

#define AM_ID_BITS 28
#define AM_ID_NUMBER_MAX \
    ((1u << AM_ID_BITS) - 1) /* of an object, and a generation's highest */
#define AM_ID_MARK 0x40u

/* A handle, and what is in it; AM_KIND_NONE for a value that cannot be a handle of ours. */
static inline void *am_id_handle(enum am_kind kind, uint32_t generation, uint32_t number)
{
    uint64_t value =
        (uint64_t)(AM_ID_MARK | kind) << 56 | (uint64_t)generation << AM_ID_BITS | number;

    return (void *)(uintptr_t)value;
}

static inline enum am_kind am_id_kind(void *handle)
{
    unsigned mark = (unsigned)((uintptr_t)handle >> 56);
    unsigned kind = mark & ~AM_ID_MARK;

    if ((mark & AM_ID_MARK) == 0 || kind >= AM_KIND_COUNT)
        return AM_KIND_NONE;
    return (enum am_kind)kind;
}

static inline uint32_t am_id_number(void *handle)
{
    return (uint32_t)(uintptr_t)handle & AM_ID_NUMBER_MAX;
}

/* The first member of every object. */
struct am_named {
    atomic_uint refs;
    uint32_t number;        /* of its place, from 1 on */
    _Atomic(void *) handle; /* NULL: it has none */
    uint32_t generation;    /* of its next handle; the thread's that ends the handle */
    uint32_t next;          /* the slab's lock; free: the next one in the list for all */
};

/* Objects lie in segments of 256, 256, 512, 1024, ...: they never move. */
#define AM_ID_SEGMENTS 21
#define AM_ID_FIRST_SEGMENT 256u

/* The segment of a number; its numbers, and the first of them. */
static inline uint32_t am_id_segment(uint32_t number)
{
    return number < AM_ID_FIRST_SEGMENT ? 0 : 24 - (uint32_t)__builtin_clz(number);
}

static inline uint32_t am_id_count(uint32_t segment)
{
    return segment == 0 ? AM_ID_FIRST_SEGMENT : AM_ID_FIRST_SEGMENT << (segment - 1);
}

static inline uint32_t am_id_first(uint32_t segment)
{
    return segment == 0 ? 0 : am_id_count(segment);
}

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
    _Atomic(char *) segments[AM_ID_SEGMENTS];
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
/* The same with all bytes behind its struct am_named zeroed. */
void *am_idslab_take_zeroed(struct am_idslab *slab);
/* It has no handle and no reference any more. */
void am_idslab_give(struct am_idslab *slab, struct am_named *named);

/*
 * Gives the object a handle; and takes it away, before the last reference is dropped or right
 * behind it.
 */
void *am_idslab_name(struct am_idslab *slab, struct am_named *named);
void am_idslab_unname(struct am_named *named);

/*
 * The object, with one more reference, or NULL.  Takes no lock: another thread may free the
 * object meanwhile, and use it again.  Then the reference is dropped by `put`.
 */
void *am_idslab_get(struct am_idslab *slab, void *handle,
                    void (*put)(struct am_named *named));

/*
 * The object that has this handle now, or NULL.  The caller is in a read section, and the
 * objects of this slab are freed by am_epoch_defer() (base/epoch.h).
 */
void *am_idslab_find(struct am_idslab *slab, void *handle);

/* Where the object with this number lies, if there is one; NULL: there is none. */
static inline char *am_idslab_place(struct am_idslab *slab, uint32_t number)
{
    uint32_t segment = am_id_segment(number & AM_ID_NUMBER_MAX);
    char *objects = atomic_load_explicit(&slab->segments[segment], memory_order_acquire);

    number &= AM_ID_NUMBER_MAX;
    return objects == NULL ? NULL
                           : objects + slab->size * (number - am_id_first(segment));
}

/* Why am_idslab_get() found nothing: "is a context, ...": for a message. */
const char *am_id_why(enum am_kind kind, void *handle);

/*
 * Calls visit for every object, also for the free ones, whose count is 0.  Objects that
 * other threads take meanwhile may be left out.
 */
void am_idslab_each(struct am_idslab *slab, void (*visit)(void *object, void *arg),
                    void *arg);

#endif
