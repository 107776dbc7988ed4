/*
 * Address -> object, for ranges of any size, in at most three loads and without a lock.
 *
 * An address has 48 bits.  The top table has an entry for each 32 GB: an object that covers
 * all of it, nothing, or a node that divides it into 128 parts of 256 MB.  Each of these is
 * an object, nothing, or a node with 128 parts of 2 MB.  So a range of any size takes a few
 * hundred entries at most for each of its ends, and a range of 2 MB takes one.
 *
 * Readers are in a read section (base/epoch.h): the object that they find is valid memory
 * until the section ends.  Writers are serialised by the caller.  A node whose last part is
 * emptied is freed.  prepare() can fail and changes nothing that a reader sees; set() cannot
 * fail.  Objects are at even addresses.
 */
#ifndef AM_BASE_ADDRESS_INDEX_H
#define AM_BASE_ADDRESS_INDEX_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "base/epoch.h"
#include "base/util.h"

#define AM_ADDRESS_BITS 48
#define AM_ADDRESS_PARTS 128 /* of a node */
#define AM_ADDRESS_MID_SHIFT (AM_CHUNK_SHIFT + 7)
#define AM_ADDRESS_TOP_SHIFT (AM_ADDRESS_MID_SHIFT + 7)

/* 0: nothing; odd: the address of a node + 1; otherwise the address of an object. */
typedef _Atomic uintptr_t am_address_entry;

struct am_address_node {
    am_address_entry entry[AM_ADDRESS_PARTS];
    struct am_deferred deferred;
};

struct am_address_index {
    am_address_entry top[1u << (AM_ADDRESS_BITS - AM_ADDRESS_TOP_SHIFT)];
};

/* Allocates the nodes for a range, whose ends are multiples of a chunk: 0 or -ENOMEM. */
int am_address_prepare(struct am_address_index *index, uintptr_t start, size_t size);

/* Enters object, or NULL, for a range that was prepared. */
void am_address_set(struct am_address_index *index, uintptr_t start, size_t size,
                    void *object);

/* The object at the lowest address of the range that has one, or NULL. */
void *am_address_first(struct am_address_index *index, uintptr_t start, size_t size);

/* The entry of an address in a node, each of whose parts has 2^shift bytes. */
static inline am_address_entry *am_address_part(uintptr_t node, uintptr_t addr,
                                                unsigned shift)
{
    return &((struct am_address_node *)(node - 1))
                ->entry[(addr >> shift) % AM_ADDRESS_PARTS];
}

/* The object that set() entered last for this address; acquires its contents. */
static inline void *am_address_find(struct am_address_index *index, uintptr_t addr)
{
    uintptr_t entry;

    if ((addr >> AM_ADDRESS_BITS) != 0)
        return NULL;
    entry = atomic_load_explicit(&index->top[addr >> AM_ADDRESS_TOP_SHIFT],
                                 memory_order_acquire);
    if (entry & 1)
        entry = atomic_load_explicit(am_address_part(entry, addr, AM_ADDRESS_MID_SHIFT),
                                     memory_order_acquire);
    if (entry & 1)
        entry = atomic_load_explicit(am_address_part(entry, addr, AM_CHUNK_SHIFT),
                                     memory_order_acquire);
    return (void *)entry;
}

#endif
