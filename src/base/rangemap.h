/*
 * Address -> object, for ranges of any size, in at most three loads and without a lock.
 *
 * Addresses are 48 bits.  A table of 32 GB pieces has an entry for each: an object that
 * covers the whole piece, nothing, or a node that divides the piece into 128 parts of
 * 256 MB; of these each is an object, nothing, or divided into 128 parts of 2 MB.  So an
 * object of any size is entered a few hundred times at most for each of its two ends, and
 * one of 2 MB once.  A node whose last part is emptied serves another piece later: it is
 * never freed, since readers take no lock.  So a reader beside a writer may be told an
 * object of another range, and has to look a second time once it holds the object.
 *
 * Writers are serialised by their own lock.  prepare() can fail and changes nothing that
 * a reader sees; set() cannot fail.  Objects are at even addresses.
 */
#ifndef AM_BASE_RANGEMAP_H
#define AM_BASE_RANGEMAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/chunkmap.h"

#define AM_RANGE_PARTS 128
#define AM_RANGE_MID_SHIFT (AM_CHUNK_SHIFT + 7)
#define AM_RANGE_TOP_SHIFT (AM_RANGE_MID_SHIFT + 7)

/* 0: nothing; odd: the address of a node + 1; otherwise that of an object. */
typedef _Atomic uintptr_t am_range_entry;

struct am_rangenode {
    am_range_entry entry[AM_RANGE_PARTS];
    unsigned n_used;            /* of them; the writers' lock, as the next one */
    struct am_rangenode *spare; /* in the list of nodes that stand for nothing */
};

struct am_rangemap {
    am_range_entry top[1u << (AM_ADDRESS_BITS - AM_RANGE_TOP_SHIFT)];
    struct am_rangenode *spare; /* the writers' lock */
};

/* Make room for the range, whose ends are multiples of a chunk: 0 or -ENOMEM. */
int am_rangemap_prepare(struct am_rangemap *map, uintptr_t start, size_t size);

/* Enter object, or NULL, for a range that was prepared. */
void am_rangemap_set(struct am_rangemap *map, uintptr_t start, size_t size, void *object);

static inline struct am_rangenode *am_range_node(uintptr_t entry)
{
    return (struct am_rangenode *)(entry - 1);
}

/*
 * True: no address of the range has an object, nor one in the 32 GB around it.  The range does
 * not wrap around.
 */
static inline bool am_rangemap_is_empty(struct am_rangemap *map, uintptr_t addr,
                                        size_t size)
{
    size_t end = ((addr + size - 1) >> AM_RANGE_TOP_SHIFT) + 1;

    if (end > AM_ARRAY_SIZE(map->top))
        end = AM_ARRAY_SIZE(map->top);
    for (size_t i = addr >> AM_RANGE_TOP_SHIFT; i < end; i++) {
        if (atomic_load_explicit(&map->top[i], memory_order_relaxed) != 0)
            return false;
    }
    return true;
}

/* The value that set() entered last for this address; its stores are visible here (acquire). */
static inline void *am_rangemap_find(struct am_rangemap *map, uintptr_t addr)
{
    uintptr_t entry;

    if ((addr >> AM_ADDRESS_BITS) != 0)
        return NULL;
    entry =
        atomic_load_explicit(&map->top[addr >> AM_RANGE_TOP_SHIFT], memory_order_acquire);
    if (entry & 1)
        entry = atomic_load_explicit(
            &am_range_node(entry)
                 ->entry[addr >> AM_RANGE_MID_SHIFT & (AM_RANGE_PARTS - 1)],
            memory_order_acquire);
    if (entry & 1)
        entry = atomic_load_explicit(
            &am_range_node(entry)->entry[addr >> AM_CHUNK_SHIFT & (AM_RANGE_PARTS - 1)],
            memory_order_acquire);
    return (void *)entry;
}

#endif
