/*
 * Guessing the record of the memory at an address.
 *
 * Of many mappings the entry of an address comes from memory, and only then the record that the
 * entry leads to: two fetches, one after the other.  Programs make memory in the order in which
 * they map it, so the record's number is as far from the chunk's as that of the memory that was
 * mapped nearby.  That record is fetched beside the entry; where it is another one, nothing but
 * the fetch is lost.
 *
 * The distance is remembered for some ranges of addresses, since a copy has two sides.  It is
 * learned when memory is mapped, so lookups of all threads only read it.  It is replaced by one
 * that was met twice: a mapping out of order does not spoil the guess for the others.
 *
 * Threads that map at the same time may take each other's distance.  Any number will do for a
 * guess, and no other memory is read by it, so loads and stores are relaxed.
 */
#ifndef AM_CORE_RECORD_GUESS_H
#define AM_CORE_RECORD_GUESS_H

#include <stddef.h>

#include "core/vmm/phys.h"

#define AM_AHEAD_SHIFT 36 /* of addresses that share a distance: 64 GB */
#define AM_AHEAD_COUNT 16

/* The number of a record, less the number of its chunk. */
struct am_record_ahead {
    _Atomic uint32_t guess;
    _Atomic uint32_t last; /* that was met and was not the guess */
};

extern struct am_record_ahead am_record_ahead[AM_AHEAD_COUNT];

/* From 8192 records on: fewer are in the caches, and a guess would cost more than it saves. */
static inline bool am_records_are_many(void)
{
    enum { SEGMENT = 6 };

    return __builtin_expect(
        atomic_load_explicit(&am_physes.segments[SEGMENT], memory_order_relaxed) != NULL,
        0);
}

static inline struct am_record_ahead *am_record_ahead_at(uintptr_t addr)
{
    return &am_record_ahead[addr >> AM_AHEAD_SHIFT & (AM_AHEAD_COUNT - 1)];
}

/* The record that is there if the guess is right, or NULL; only for fetching its lines. */
static inline char *am_record_guess(uintptr_t addr)
{
    uint32_t number =
        (uint32_t)(addr >> AM_CHUNK_SHIFT) +
        atomic_load_explicit(&am_record_ahead_at(addr)->guess, memory_order_relaxed);

    return am_idslab_place(&am_physes, number);
}

/* The record with this number is mapped at addr. */
static inline void am_record_learn(uintptr_t addr, uint32_t number)
{
    struct am_record_ahead *ahead = am_record_ahead_at(addr);
    uint32_t met = number - (uint32_t)(addr >> AM_CHUNK_SHIFT);

    if (met == atomic_load_explicit(&ahead->guess, memory_order_relaxed))
        return;
    if (met == atomic_load_explicit(&ahead->last, memory_order_relaxed))
        atomic_store_explicit(&ahead->guess, met, memory_order_relaxed);
    else
        atomic_store_explicit(&ahead->last, met, memory_order_relaxed);
}

#endif
