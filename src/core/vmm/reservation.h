/* Reservations and locked mappings, for the files of core/vmm. */
#ifndef AM_CORE_RESERVATION_H
#define AM_CORE_RESERVATION_H

#include "core/vmm/vspace.h"

/*
 * The reservation that addr lies in, locked: it is not released while the lock is held.
 * False: addr is not reserved.
 */
bool am_reservation_lock(uintptr_t addr, struct am_reservation **ret_reservation)
    AM_TRY_ACQUIRE(true, (*ret_reservation)->lock);

/*
 * The mapping that addr lies in, with its reservation locked; false if nothing is mapped
 * there.  A mapping whose memory was killed with its device counts as
 * unmapped, and is removed.
 */
bool am_mapping_lock(uintptr_t addr, struct am_mapping **ret_mapping)
    AM_TRY_ACQUIRE(true, (*ret_mapping)->reservation->lock);
/*
 * The same for the program's mapping that addr lies in, or starts at if must_start; fails
 * with 107000.  Callers compare with a literal 0, which clang's analysis of locks needs.
 */
aclError am_mapping_lock_own(void *addr, bool must_start, struct am_mapping **ret_mapping)
    AM_TRY_ACQUIRE(0, (*ret_mapping)->reservation->lock);

/* The access bit of the device or host that the memory belongs to. */
uint64_t am_owner_bit(const struct am_phys *phys);
/* Rights for a backend: bits of logical ids become bits of the driver's ids. */
struct am_rights am_rights_of(uint64_t can_read, uint64_t can_write);

#endif
