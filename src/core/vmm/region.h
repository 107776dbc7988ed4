/*
 * Addresses in stock, where the backend takes long to reserve them (AM_CAP_STOCK).
 *
 * A GPU's driver takes 0.7 to 3.4 us for a reservation (H200), and our record of one 0.1 us
 * more, which for 2 MB is more than the twentieth that the bench allows.
 *
 * A region is one large reservation of the backend's, from which those of the program
 * are cut; it goes when the library stops.  The tree of reservations knows which
 * addresses are cut and which are free.  Large reservations, and all when the region is
 * full, are made by the backend.
 */
#ifndef AM_CORE_REGION_H
#define AM_CORE_REGION_H

#include "core/vmm/vspace.h"

/*
 * Addresses of the backend's for a reservation, at `want` or, when that is NULL, at a
 * multiple of align; false: the backend is to be asked.  The caller enters the
 * reservation before it releases the lock, and returns the addresses when the
 * reservation ends.
 */
bool am_region_cut_locked(const struct am_backend_ops *backend, size_t size, size_t align,
                          void *want, uintptr_t *ret_start) AM_REQUIRES(am_vspace.lock);
void am_region_give_locked(uintptr_t start, size_t size) AM_REQUIRES(am_vspace.lock);

/* The library stops; nothing is cut from it any more. */
void am_region_release_locked(void) AM_REQUIRES(am_vspace.lock);

#endif
