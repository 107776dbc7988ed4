/*
 * Guessing the record of the memory at an address.
 *
 * Of many mappings the entry of an address comes from memory, and only then the record that the
 * entry leads to: two fetches, one after the other.  Programs make memory in the order in which
 * they map it, so the record's number is as far from the chunk's as it is at addresses nearby.
 * That record is fetched beside the entry; where it is another one, nothing but the fetch is
 * lost.
 *
 * A thread remembers the distance for some ranges of addresses, since a copy has two sides.  It
 * takes another distance once it has met that twice, so that one mapping out of order does not
 * spoil the guess for the next.
 */
#ifndef AM_CORE_RECORD_GUESS_H
#define AM_CORE_RECORD_GUESS_H

#include <stddef.h>

#include "core/vmm/phys.h"

#define AM_AHEAD_SHIFT 36 /* of addresses that share a distance: 64 GB */
#define AM_AHEAD_COUNT 16

/* The number of a record, less the number of its chunk. */
struct am_record_ahead {
    uint32_t guess;
    uint32_t other; /* the last one that was not the guess */
};

extern _Thread_local struct am_record_ahead am_record_ahead[AM_AHEAD_COUNT]
    __attribute__((tls_model("initial-exec")));

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
        (uint32_t)(addr >> AM_CHUNK_SHIFT) + am_record_ahead_at(addr)->guess;

    return am_idslab_place(&am_physes, number);
}

/* The entry of addr led to this mapping, which the caller keeps. */
static inline void am_record_learn(uintptr_t addr, const struct am_mapping *mapping)
{
    struct am_record_ahead *ahead = am_record_ahead_at(addr);
    uint32_t met = mapping->record - (uint32_t)(addr >> AM_CHUNK_SHIFT);

    if (__builtin_expect(met == ahead->guess, 1))
        return;
    if (met == ahead->other)
        ahead->guess = met;
    ahead->other = met;
}

#endif
