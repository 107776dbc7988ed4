/* Shared by vspace.c, mapping.c, mapping_lock.c, access.c, vspace_arena.c, vspace_region.c. */
#ifndef AM_CORE_VSPACE_RESERVATION_H
#define AM_CORE_VSPACE_RESERVATION_H

#include "core/vmm/vspace.h"

/* The reservation that addr lies in, or NULL; it stays one while its lock or the space's is held. */
static inline struct am_reservation *am_reservation_find(uintptr_t addr)
{
    return am_rangemap_find(&am_vspace.ranges, addr);
}
/* The same, and locks it. */
struct am_reservation *am_reservation_lock(uintptr_t addr);
void am_reservation_unlock(const struct am_reservation *r);

/* One that some byte of the range lies in, or NULL: the lowest. */
struct am_reservation *am_reservation_meets_locked(uintptr_t addr, size_t size)
    AM_REQUIRES(am_vspace.lock);

/* The lock of a reservation, or of what was one a moment ago. */
union am_stripe *am_reservation_stripe(const struct am_reservation *r);

/* So many more mappings of the program's in it, which is locked. */
void am_reservation_count(const struct am_reservation *r, int n);

/*
 * The mapping that addr lies in, with its reservation locked; NULL when nothing is mapped
 * there, or a heap's memory is.
 */
struct am_mapping *am_mapping_lock(uintptr_t addr);
/*
 * The program's mapping that addr lies in, and starts when must_start, in the same way; says
 * what is wrong.
 */
aclError am_mapping_lock_own(void *addr, bool must_start,
                             struct am_mapping **ret_mapping);
void am_mapping_unlock(const struct am_mapping *mapping);

/* Unmaps where no call can fail any more; false: the memory stays visible there. */
bool am_mapping_unmap(const struct am_mapping *mapping);
/* Memory that is not in the books is to be unmapped; its reservation is locked. */
void am_mapping_tear_off(const struct am_mapping *mapping);
/*
 * Take a mapping out of the books; its reference is the caller's to drop, without the lock
 * of the reservation, which is held.
 */
void am_mapping_leave_locked(struct am_mapping *mapping);
/*
 * A mapping whose memory went with its device is as good as gone: the thread that meets it
 * first takes it away.  The first takes a reference, while the reservation is locked, and
 * returns NULL for a mapping that is alive.  The second takes the mapping away, when there
 * is one, without a lock.
 */
struct am_mapping *am_mapping_get_dead(struct am_mapping *mapping);
bool am_mapping_bury(struct am_mapping *dead);

/* The bit of the place that the memory belongs to. */
uint64_t am_owner_bit(const struct am_phys *phys);
/* Rights for a backend: bits of logical ids as bits of the driver's ids. */
struct am_rights am_rights_of(uint64_t can_read, uint64_t can_write);

/*
 * An arena, which the program does not see.  One mapping is counted, the caller's, so
 * that the arena survives if another thread stops the library meanwhile.
 */
aclError am_reservation_create(const struct am_owner *owner, bool is_pinned, size_t size,
                               struct am_reservation **ret_arena);
void am_reservation_destroy_locked(struct am_reservation *arena)
    AM_REQUIRES(am_vspace.lock);

#endif
