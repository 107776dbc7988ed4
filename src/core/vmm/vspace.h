/*
 * Address space: reservations, and what is mapped in them.
 *
 * reservation  a range of addresses with nothing behind it; few and possibly huge (32 TB)
 * mapping      part of one reservation bound to one phys
 *
 * A reservation is found by address in an index, and has a table of what is mapped in it;
 * both are read without a lock, in a read section (base/epoch.h).  The address space's lock
 * protects the set of reservations.  Each reservation has a lock for what is mapped in it; the
 * memory's lock (core/vmm/phys.h) protects the list of its mappings.  They are acquired in
 * this order.
 *
 * A mapping has a reference for being mapped, and one for each piece of work or host view
 * that uses it: so unmapping does not free memory that a copy uses.
 *
 * Invariants: mappings do not overlap; each lies in one reservation, whose n_mappings
 * counts it; every chunk of a mapping has its entry, and no other chunk has one.
 */
#ifndef AM_CORE_VSPACE_H
#define AM_CORE_VSPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_rt.h"
#include "backend/backend.h"
#include "base/address_index.h"
#include "base/epoch.h"
#include "base/lock.h"

struct am_mapping;
struct am_phys;

/* A piece of memory that was handed out. */
struct am_bounds {
    uintptr_t start;
    size_t size;  /* that the program may use */
    size_t asked; /* that it asked for, and that messages name */
    size_t whole; /* that it takes */
};

/* The strict rules let the program use what it asked for, the default ones all of it. */
struct am_bounds am_bounds_of(uintptr_t start, size_t asked, size_t whole,
                              bool is_strict);

/* 107000, for bytes at addr that are not within the block; `what` names the argument. */
aclError am_bounds_refuse(const struct am_bounds *bounds, uintptr_t addr, size_t size,
                          const char *what);

/*
 * The part of the library that owns the memory of a reservation, if the program does
 * not: memory that is allocated in blocks.  The program's calls of virtual memory
 * management leave it alone, and it is not counted for them.
 */
struct am_owner {
    const char *name; /* "a memory pool": for messages */
    bool is_managed;  /* its memory is the host's and the devices' alike */
    /*
     * Its addresses are the host backend's, whatever the backend of devices: a device's driver
     * may need its own addresses for itself.
     */
    bool is_on_host;
    /*
     * The block that addr lies in, or in what it was rounded up by; false: none is handed
     * out there.  Called without any lock.
     */
    bool (*find_block)(uintptr_t addr, struct am_bounds *ret_bounds);
    /*
     * Where the mapping's reference does not keep a block from being handed out again
     * after it is freed: refuses with 107000 a range that is not inside one block, and
     * keeps that until it is unpinned.  `what` names the argument.  NULL otherwise.
     */
    aclError (*pin)(uintptr_t addr, size_t size, const char *what);
    void (*unpin)(struct am_mapping *mapping, uintptr_t addr);
    /* Whether the range is in the live block that is pinned at `pinned`. */
    bool (*is_pinned)(const struct am_mapping *mapping, uintptr_t pinned, uintptr_t addr,
                      size_t size);
    /*
     * Whether the range lies in a block whose free waits its turn on a stream: work that
     * was queued before may still use it.  NULL: frees do not wait.
     */
    bool (*is_leaving)(uintptr_t addr, size_t size);
    /*
     * aclrtFree of an address in its memory; *ret_is_ours is false where nothing of it is
     * there.  NULL: another call frees this memory, and aclrtFree refuses it.
     */
    aclError (*free)(void *addr, bool *ret_is_ours);
};

struct am_mapping_entry {
    _Atomic(struct am_mapping *) mapping; /* NULL: nothing is mapped */
};

struct am_reservation {
    LIST_ENTRY(am_reservation) all; /* vspace.lock */
    struct am_lock lock;
    uintptr_t start;
    size_t size;
    uint64_t flags;               /* as requested: 0 normal pages, 1 huge pages */
    bool is_released;             /* both locks: it is not in the index any more */
    size_t n_mappings;            /* lock */
    int32_t device;               /* lock; of the first mapping, while n_mappings > 0 */
    bool is_imported;             /* lock; the same: it came from another process */
    const struct am_owner *owner; /* NULL: the program; written under both locks */
    void *owner_data;             /* of the owner, or NULL */
    /* The mapping of each chunk; NULL until the first one.  Written under lock. */
    _Atomic(struct am_mapping_entry *) mappings;
    const struct am_backend_ops *backend; /* whose addresses these are */
    bool is_from_region;                  /* cut from the stock */
    bool
        is_unreleased; /* vspace.lock; its owner is done, the system refused to release it */
    bool has_stale_mapping; /* lock; memory in it could not be unmapped */
    struct am_deferred deferred;
};

/*
 * The fields that a lookup reads come first, in one cache line; the fields that unmapping
 * writes are next.
 */
struct am_mapping {
    atomic_uint refs;
    int16_t device;   /* of phys, -1: the host */
    int16_t home;     /* of phys: differs where it was imported for another device */
    void *owner_data; /* of the owner, or NULL */
    const struct am_owner *owner; /* the reservation's */
    uintptr_t start;
    size_t size;
    struct am_phys *phys; /* holds a reference */
    bool may_alias;       /* phys was mapped before: it may be mapped elsewhere, too */
    bool is_remote;       /* phys is another machine's */
    uint8_t page_shift;   /* pages of phys have 2^page_shift bytes */
    struct am_reservation *reservation;

    union {
        LIST_ENTRY(am_mapping) of_phys; /* phys->lock; while it is mapped */
        struct am_deferred deferred;    /* after the last reference */
    };
    size_t asked;              /* what aclrtMapMem was given; size is rounded up */
    _Atomic uint64_t can_read; /* a bit for each device, by logical id, and AM_HOST_BIT */
    _Atomic uint64_t can_write;
};
_Static_assert(sizeof(struct am_mapping) <= 120, "free() merges blocks above 120 bytes");

struct am_vspace {
    struct am_lock lock;
    LIST_HEAD(, am_reservation) all;      /* lock */
    struct am_address_index reservations; /* written under lock */
    _Atomic uint64_t n_reservations;      /* the program's */
};

extern struct am_vspace am_vspace;

/* size is rounded up; want is where it must be, or NULL. */
aclError am_vspace_reserve(size_t size, void *want, uint64_t flags, void **ret_addr);
aclError am_vspace_release(void *addr);
/*
 * The library stops, and nothing is mapped any more: releases the program's reservations.
 * An owner that a thread still uses releases its own reservations later.
 */
void am_vspace_release_all(void);

/* Bind addr to phys's memory; the owner gets access unless has_access is false. */
aclError am_vspace_map(void *addr, size_t size, struct am_phys *phys, bool has_access);
aclError am_vspace_unmap(void *addr);
/* Bind addr to the memory that another mapping has, as large as that is. */
aclError am_vspace_map_like(void *addr, const struct am_mapping *source, bool has_access);
/*
 * Give the owners access to a row of mappings that was bound without.  For neighbours it
 * is one call of the backend: a GPU's driver takes longer for that than for binding.
 */
aclError am_vspace_open(void *addr, size_t size);
/*
 * aclrtMemMapSelectedLink: bind the start of a reservation to the memory of the mappings
 * in a row that src starts, one for one.  All or none.
 */
aclError am_vspace_mirror(void *dst, size_t size, void *src);
/*
 * The same for an owner of ours.  map binds all of phys, unmap what starts at addr; the
 * last unmap before a release cannot fail.  release gives up what has nothing mapped.
 */
aclError am_vspace_reserve_owned(const struct am_owner *owner, void *owner_data,
                                 size_t size, void *want, void **ret_addr);
void am_vspace_release_owned(void *addr);
aclError am_vspace_map_owned(void *addr, struct am_phys *phys, bool has_access);
aclError am_vspace_unmap_owned(void *addr, bool is_last);

/*
 * End the handle of phys and undo all its mappings; whether it had a handle, whose
 * reference remains.
 */
bool am_vspace_kill(struct am_phys *phys);

/* Changes the access rights of the mapping that is exactly addr and size. */
aclError am_vspace_set_access(void *addr, size_t size, const aclrtMemAccessDesc *desc,
                              size_t n);
aclError am_vspace_get_access(void *addr, const aclrtMemLocation *location,
                              uint64_t *ret_flags);

/* aclrtMemRetainAllocationHandle: one more handle reference. */
aclError am_vspace_retain(void *addr, void **ret_handle);

/* The reservation that addr lies in, or NULL; valid in this read section, as the next two. */
static inline struct am_reservation *am_reservation_find(uintptr_t addr)
{
    return am_address_find(&am_vspace.reservations, addr);
}

/* The lowest reservation that contains a byte of the range, or NULL. */
static inline struct am_reservation *am_reservation_first(uintptr_t addr, size_t size)
{
    return am_address_first(&am_vspace.reservations, addr, size);
}

/* The mapping that addr lies in, or NULL. */
struct am_mapping *am_mapping_find(uintptr_t addr);
/* The same with one more reference, which keeps the memory from being freed. */
struct am_mapping *am_mapping_get(uintptr_t addr);
void am_mapping_put(struct am_mapping *mapping);
/* The block of the owner, or the mapping, that contains addr; false: none. */
bool am_mapping_block(const struct am_mapping *mapping, uintptr_t addr,
                      struct am_bounds *ret_bounds);

/*
 * Whether any byte of the range is reserved; *ret_owner, if not NULL, is then whose it
 * is.
 */
bool am_vspace_is_reserved(uintptr_t addr, size_t size,
                           const struct am_owner **ret_owner);

#endif
