/*
 * Handles for the program: a number that names an object, not its address.
 *
 * A handle holds a mark, the kind of the object, the slot's generation and the slot's
 * number:
 *
 *     0x40 + kind (8 bits) | generation (28) | slot (28)
 *
 * so that a stale handle, a handle of another kind and an arbitrary number are
 * distinguished, and none is ever dereferenced (the mark makes it an address no machine
 * accepts). A thread uses freed slots again in the order in which it freed them, so a
 * generation lasts long.
 */
#ifndef AM_BASE_IDMAP_H
#define AM_BASE_IDMAP_H

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
    ((1u << AM_ID_BITS) - 1) /* of a slot, and a generation's highest */
#define AM_ID_MARK 0x40u

/* A handle, and what is in it; AM_KIND_NONE for a value that cannot be a handle of ours. */
static inline void *am_id_handle(enum am_kind kind, uint32_t generation, uint32_t slot)
{
    uint64_t value =
        (uint64_t)(AM_ID_MARK | kind) << 56 | (uint64_t)generation << AM_ID_BITS | slot;

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

/* The first member of every object that has a handle. */
struct am_object {
    atomic_uint refs;
};

/*
 * A slot.  Its handle is written last when it is filled and first when it is emptied, so a
 * reader that sees the handle twice has read the object in between.
 */
struct am_idslot {
    _Atomic(void *) handle; /* NULL: free */
    _Atomic(struct am_object *) object;
    uint32_t generation; /* of its next handle; written by the thread that empties it */
    uint32_t next;       /* free: the slot to use after this one */
    uint64_t pad;        /* a slot lies in one line of the cache */
};

/* Free slots, the oldest first. */
struct am_idlist {
    uint32_t first;
    uint32_t last;
    uint32_t n; /* 0: the other fields mean nothing */
};

/* The free slots of a shard; threads of different shards do not contend. */
union am_idpart {
    struct {
        struct am_latch lock;
        struct am_idlist free; /* lock */
    };
    char stride[AM_SHARD_STRIDE];
};

/* Slots lie in segments of 256, 256, 512, 1024, ...: they never move, and readers need no
 * lock. */
#define AM_IDMAP_SEGMENTS 21
#define AM_ID_FIRST_SEGMENT 256u

/* The segment of a slot; its slots, and the first of them. */
static inline uint32_t am_id_segment(uint32_t slot)
{
    return slot < AM_ID_FIRST_SEGMENT ? 0 : 24 - (uint32_t)__builtin_clz(slot);
}

static inline uint32_t am_id_count(uint32_t segment)
{
    return segment == 0 ? AM_ID_FIRST_SEGMENT : AM_ID_FIRST_SEGMENT << (segment - 1);
}

static inline uint32_t am_id_first(uint32_t segment)
{
    return segment == 0 ? 0 : am_id_count(segment);
}

struct am_idmap {
    _Atomic(struct am_idslot *) segments[AM_IDMAP_SEGMENTS];
    struct am_latch lock;
    uint32_t n_segments;   /* lock */
    struct am_idlist free; /* lock; slots that are in no shard's list */
    union am_idpart part[AM_SHARDS];
};

#define AM_IDMAP_INIT(name_) \
    { \
        .lock = AM_LATCH_INIT(AM_RANK_IDMAP, name_), .part = { \
            [0 ... AM_SHARDS - 1].lock = AM_LATCH_INIT(AM_RANK_IDMAP, name_) \
        } \
    }

/* Gives object a handle: 0 or -ENOMEM.  Takes no reference. */
int am_idmap_add(struct am_idmap *map, enum am_kind kind, struct am_object *object,
                 void **ret_handle);
void am_idmap_remove(struct am_idmap *map, void *handle);

/*
 * The object, with one more reference, or NULL.  Takes no lock, so objects of one kind lie
 * in a slab (base/slab.h): the memory of one that was freed meanwhile may be the next
 * one's.  Then that one's reference is dropped again by `put`.
 */
struct am_object *am_idmap_get(struct am_idmap *map, enum am_kind kind, void *handle,
                               void (*put)(struct am_object *object));

/* Why am_idmap_get() found nothing: "was freed", "is a context, ...": for a message. */
const char *am_idmap_why(enum am_kind kind, void *handle);

#endif
