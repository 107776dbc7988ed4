/*
 * Address -> object, in two loads, however many objects there are.
 *
 * Addresses are 48 bits and memory is bound to them in chunks of 2 MB, so a chunk number
 * has 27 bits: 13 choose a leaf, 14 an entry in it.  A leaf covers 32 GB, is 128 KB of
 * address space of which the kernel fills in the pages that are used, and is made when
 * the first chunk in it is bound.  Leaves stay: readers take no lock.  Beyond a few, leaves are
 * made in groups that lie on huge pages (base/keep.h).
 *
 * Neighbouring chunks have their entries in different lines of the cache, since they are
 * often bound by different threads at the same time.  The entries of 1 GB lie in one page
 * all the same, so a walk over many chunks touches no more lines than if they were in
 * order.
 *
 * Writers of the same chunks are serialised by their own lock; writers of different
 * chunks may call at the same time.  prepare() can fail and changes nothing that a
 * reader sees; set() cannot fail.
 */
#ifndef AM_BASE_CHUNKMAP_H
#define AM_BASE_CHUNKMAP_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/util.h"

#define AM_ADDRESS_BITS 48
#define AM_LEAF_BITS 14
#define AM_TOP_BITS (AM_ADDRESS_BITS - AM_CHUNK_SHIFT - AM_LEAF_BITS)

struct am_chunkleaf {
    _Atomic(void *) entry[1u << AM_LEAF_BITS];
};

/*
 * Where in its leaf the entry of a chunk is: of 32 chunks in a row each has its entry 16
 * entries behind that of the one before, which is two lines; the next 32 lie between them.
 */
#define AM_CHUNK_APART 32
#define AM_CHUNK_STEP 16

static inline size_t am_chunk_entry(uintptr_t chunk)
{
    size_t page = AM_CHUNK_APART * AM_CHUNK_STEP;

    return (chunk & ((1u << AM_LEAF_BITS) - page)) |
           (chunk % AM_CHUNK_APART) * AM_CHUNK_STEP |
           (chunk / AM_CHUNK_APART % AM_CHUNK_STEP);
}

struct am_chunkmap {
    _Atomic(struct am_chunkleaf *) top[1u << AM_TOP_BITS];
    atomic_uint n_made; /* leaves that were made alone, and groups of them */
};

/* Make room for `size` bytes from addr on, both multiples of a chunk: 0 or -ENOMEM. */
int am_chunkmap_prepare(struct am_chunkmap *map, uintptr_t addr, size_t size);

/* Enter object, or NULL, for each chunk of a range that was prepared. */
void am_chunkmap_set(struct am_chunkmap *map, uintptr_t addr, size_t size, void *object);

/*
 * The object that set() entered last for the chunk of addr; its stores are visible here
 * (acquire).
 */
static inline void *am_chunkmap_find(struct am_chunkmap *map, uintptr_t addr)
{
    uintptr_t chunk = addr >> AM_CHUNK_SHIFT;
    struct am_chunkleaf *leaf;

    if ((addr >> AM_ADDRESS_BITS) != 0)
        return NULL;
    leaf = atomic_load_explicit(&map->top[chunk >> AM_LEAF_BITS], memory_order_acquire);
    if (leaf == NULL)
        return NULL;
    return atomic_load_explicit(&leaf->entry[am_chunk_entry(chunk)],
                                memory_order_acquire);
}

#endif
