/*
 * Addresses with memory behind some of them: reserved once, and bound to a device's
 * memory chunk by chunk.
 *
 * A chunk is held by the blocks that lie in it.  One with memory that none holds is idle,
 * and listed by the time at which it became so: its memory is the first to go elsewhere.
 *
 * The caller's lock covers all of it.
 */
#ifndef AM_CORE_BACKING_H
#define AM_CORE_BACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/device/device.h"
#include "core/vmm/vspace.h"

struct am_chunk_use {
    uint32_t n_holders;
    uint32_t before, next; /* idle: in the list */
    uint8_t state;
};

struct am_backing {
    uintptr_t base;
    size_t n_chunks; /* of addresses */
    size_t n_backed; /* of those, with memory */
    /* What is known of each; behind the last one is the head of the list of idle ones. */
    struct am_chunk_use *chunks;
    struct am_domain *domain; /* holds a reference */
};

/* `size` is a multiple of a chunk. */
aclError am_backing_open(struct am_backing *backing, const struct am_owner *owner,
                         size_t size, struct am_device *device);
/* Whatever is behind it; work in flight keeps what it holds. */
void am_backing_close(struct am_backing *backing);

/*
 * The chunks that `size` bytes from start on touch, of which *ret_end is the first
 * behind.
 */
static inline size_t am_backing_chunks(size_t start, size_t size, size_t *ret_end)
{
    *ret_end = ((start + size - 1) >> AM_CHUNK_SHIFT) + 1;
    return start >> AM_CHUNK_SHIFT;
}

/* How many of the chunks first .. end - 1 have no memory. */
size_t am_backing_missing(const struct am_backing *backing, size_t first, size_t end);
bool am_backing_has(const struct am_backing *backing, size_t chunk);
/* Whether all of them have some that may be used. */
bool am_backing_is_usable(const struct am_backing *backing, size_t first, size_t end);

/* Has memory behind all of these; on failure, behind those that had it before. */
aclError am_backing_fill(struct am_backing *backing, size_t first, size_t end);
/* Gives up the memory of one chunk; whether the system took it. */
bool am_backing_drop(struct am_backing *backing, size_t chunk);

/* A block comes to lie in the chunks, or leaves them. */
void am_backing_hold(struct am_backing *backing, size_t first, size_t end);
void am_backing_unhold(struct am_backing *backing, size_t first, size_t end);
/* The chunk that has been idle longest, and the next one; n_chunks: no more. */
size_t am_backing_idle_first(const struct am_backing *backing);
size_t am_backing_idle_next(const struct am_backing *backing, size_t chunk);

#endif
