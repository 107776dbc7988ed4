/*
 * Address space: reservations, and what is mapped in them.
 *
 * reservation  a range of addresses with nothing behind it; few and possibly huge (32 TB), in an
 *              ordered tree
 * mapping      part of one reservation bound to one phys; entered for each 2 MB chunk in a table that is
 *              read without a lock
 *
 * A mapping has a reference for being mapped and one for each piece of work or view that uses it, so
 * unmapping never pulls memory away under a copy.  Lock-free readers take a reference and look
 * again whether the entry is still the same.
 *
 * Invariants: mappings do not overlap; each lies in one reservation, whose n_mappings counts it; every
 * chunk of a mapping has its entry, and no other chunk has one.
 */
#ifndef AM_CORE_VSPACE_H
#define AM_CORE_VSPACE_H

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_rt.h"
#include "base/chunkmap.h"
#include "base/lock.h"

struct am_phys;

struct am_reservation {
    RB_ENTRY(am_reservation) node;
    uintptr_t start;
    size_t size;
    uint64_t flags;    /* as asked for: 0 normal, 1 huge pages */
    size_t n_mappings; /* vspace.lock */
    int32_t device;    /* vspace.lock; of what was mapped first, while n_mappings > 0 */
};

#define AM_HOST_BIT (UINT64_C(1) << 63) /* the host's place in access masks */

struct am_mapping {
    atomic_uint refs;
    uintptr_t start;
    size_t size;
    size_t asked;         /* what aclrtMapMem was given; size is rounded up */
    struct am_phys *phys; /* holds a reference */
    int32_t device; /* of phys, -1: the host; here, so that a lookup touches one object */
    uint32_t page_size; /* of phys, in bytes */
    struct am_reservation *reservation;
    _Atomic uint64_t can_read; /* a bit for each device, by logical id, and AM_HOST_BIT */
    _Atomic uint64_t can_write;
    LIST_ENTRY(am_mapping) of_phys; /* vspace.lock */
};

RB_HEAD(am_reservations, am_reservation);

#define AM_GRANULE_SHIFT 36 /* 64 GB */

struct am_vspace {
    struct am_lock lock;
    struct am_reservations reservations; /* lock */
    struct am_chunkmap chunks;           /* written under lock, read without */
    /* How many reservations touch each 64 GB: tells without a lock that an address is not ours. */
    _Atomic uint32_t granule[1u << (AM_ADDRESS_BITS - AM_GRANULE_SHIFT)];
    _Atomic uint64_t n_reservations;
    _Atomic uint64_t n_mappings;
};

#define AM_VSPACE_INIT \
    { \
        .lock = AM_LOCK_INIT(AM_RANK_VSPACE, "vspace"), \
        .reservations = RB_INITIALIZER(NULL) \
    }

/* size is rounded up; want is where it must be, or NULL. */
aclError am_vspace_reserve(struct am_vspace *vs, size_t size, void *want, uint64_t flags,
                           void **ret_addr);
aclError am_vspace_release(struct am_vspace *vs, void *addr);
/* Everything goes; nothing is mapped any more. */
void am_vspace_release_all(struct am_vspace *vs);

/* Bind addr to phys's memory; the owner gets access unless has_access is false. */
aclError am_vspace_map(struct am_vspace *vs, void *addr, size_t size,
                       struct am_phys *phys, bool has_access);
aclError am_vspace_unmap(struct am_vspace *vs, void *addr);
/* End the handle of phys and undo all its mappings; whether it had a handle, whose reference remains. */
bool am_vspace_kill(struct am_phys *phys);

/* Change who may do what with the mapping that is exactly addr and size. */
aclError am_vspace_set_access(struct am_vspace *vs, void *addr, size_t size,
                              const aclrtMemAccessDesc *desc, size_t n);
aclError am_vspace_get_access(struct am_vspace *vs, void *addr,
                              const aclrtMemLocation *location, uint64_t *ret_flags);

/* aclrtMemRetainAllocationHandle: one more handle reference. */
aclError am_vspace_retain(struct am_vspace *vs, void *addr, void **ret_handle);

/* The mapping that addr lies in, with one more reference, or NULL; takes no lock. */
struct am_mapping *am_mapping_get(struct am_vspace *vs, uintptr_t addr);
void am_mapping_put(struct am_mapping *mapping);

/* Whether any byte of the range is reserved. */
bool am_vspace_is_reserved(struct am_vspace *vs, uintptr_t addr, size_t size);

#endif
