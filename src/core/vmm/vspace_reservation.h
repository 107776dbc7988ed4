/* Shared by vspace.c, mapping.c, access.c, vspace_arena.c and vspace_region.c. */
#ifndef AM_CORE_VSPACE_RESERVATION_H
#define AM_CORE_VSPACE_RESERVATION_H

#include "core/vmm/vspace.h"

/* The reservation that addr lies in, or NULL. */
struct am_reservation *am_reservation_find_locked(struct am_vspace *vs, uintptr_t addr)
    AM_REQUIRES(vs->lock);

/* One that some byte of the range lies in, or NULL: the lowest. */
struct am_reservation *am_reservation_meets_locked(struct am_vspace *vs, uintptr_t addr,
                                                   size_t size) AM_REQUIRES(vs->lock);

/*
 * The program's mapping that addr lies in, and starts when must_start; says what is
 * wrong.
 */
aclError am_mapping_find_locked(struct am_vspace *vs, void *addr, bool must_start,
                                struct am_mapping **ret_mapping) AM_REQUIRES(vs->lock);

/* The bit of the place that the memory belongs to. */
uint64_t am_owner_bit(const struct am_phys *phys);
/* Rights for a backend: bits of logical ids as bits of the driver's ids. */
struct am_rights am_rights_of(uint64_t can_read, uint64_t can_write);

struct am_backend_ops;

/*
 * An arena, which the program does not see.  One mapping is counted, the caller's, so
 * that the arena survives if another thread stops the library meanwhile.
 */
aclError am_reservation_create(struct am_vspace *vs, const struct am_owner *owner,
                               bool is_pinned, size_t size,
                               struct am_reservation **ret_arena);
void am_reservation_destroy_locked(struct am_vspace *vs, struct am_reservation *arena,
                                   const struct am_backend_ops *ops)
    AM_REQUIRES(vs->lock);

#endif
