/* Reservations and locked mappings, for the files of core/vmm. */
#ifndef AM_CORE_RESERVATION_H
#define AM_CORE_RESERVATION_H

#include "core/vmm/vspace.h"

/* The reservation that addr lies in, or NULL; valid in this read section. */
static inline struct am_reservation *am_reservation_find(uintptr_t addr)
{
    return am_address_find(&am_vspace.reservations, addr);
}

/* The same, locked: it is not released while the lock is held. */
struct am_reservation *am_reservation_lock(uintptr_t addr);
void am_reservation_unlock(struct am_reservation *r);

/* Allocates the table of mappings, if there is none: 0 or -ENOMEM.  r is locked, or new. */
int am_reservation_prepare(struct am_reservation *r);

/* The lowest reservation that contains a byte of the range, or NULL. */
static inline struct am_reservation *am_reservation_first(uintptr_t addr, size_t size)
{
    return am_address_first(&am_vspace.reservations, addr, size);
}

/*
 * The mapping that addr lies in, with its reservation locked; NULL if nothing is mapped
 * there, or memory of a heap.  A mapping whose memory was killed with its device counts as
 * unmapped, and is removed.
 */
struct am_mapping *am_mapping_lock(uintptr_t addr);
/* The program's mapping that addr lies in, or starts at if must_start; fails with 107000. */
aclError am_mapping_lock_own(void *addr, bool must_start,
                             struct am_mapping **ret_mapping);
void am_mapping_unlock(struct am_mapping *mapping);

/* The access bit of the device or host that the memory belongs to. */
uint64_t am_owner_bit(const struct am_phys *phys);
/* Rights for a backend: bits of logical ids become bits of the driver's ids. */
struct am_rights am_rights_of(uint64_t can_read, uint64_t can_write);

/* An arena, which the program does not see; one mapping is counted, the caller's. */
aclError am_reservation_create(const struct am_owner *owner, bool is_pinned, size_t size,
                               struct am_reservation **ret_arena);
void am_reservation_destroy_locked(struct am_reservation *arena)
    AM_REQUIRES(am_vspace.lock);

#endif
