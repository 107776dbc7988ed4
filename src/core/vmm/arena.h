/*
 * Addresses for our own use, at which the heaps' memory is mapped.
 *
 * An arena is a reservation that the program does not know of: it is not counted, and no
 * call of the program's takes it for reserved.  It is cut into extents, once and for
 * all; an extent that is given back is used again for the same number of chunks, rounded
 * a little.  Addresses are plenty, so extents are never joined again.  The addresses of
 * a mapping are given back with its last reference, so they name nothing else while work
 * is in flight.  Pinned memory has separate arenas: a device's driver may need the
 * addresses of all other arenas for itself.
 */
#ifndef AM_CORE_ARENA_H
#define AM_CORE_ARENA_H

#include "core/vmm/vspace.h"

struct am_extent {
    LIST_ENTRY(am_extent) link; /* vspace.lock; while it is free */
    uintptr_t start;
    size_t size; /* may be a little more than was asked for */
    struct am_reservation *arena;
};

/* size is a multiple of AM_CHUNK; from 1 GB on the start is a multiple of 1 GB. */
aclError am_arena_take(bool is_pinned, size_t size, struct am_extent **ret_extent);
void am_arena_give(struct am_extent *extent);

/*
 * The library stops: after am_vspace_release_all(), which frees an arena at once or with the
 * last extent in use.
 */
void am_arena_forget_all(void);

#endif
