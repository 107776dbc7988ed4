/*
 * Mappings: binding part of a reservation to physical memory.  Access rights are in
 * access.c.  See vspace.h.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/attr.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/vmm/phys.h"
#include "core/vmm/reservation.h"
#include "core/vmm/vspace.h"

/* ---- lifetime ---- */

/* The mapping of an address in r, or NULL. */
static inline struct am_mapping *mapping_in(struct am_reservation *r, uintptr_t addr)
{
    struct am_mapping_entry *entries =
        atomic_load_explicit(&r->mappings, memory_order_acquire);

    return entries == NULL ? NULL
                           : atomic_load_explicit(
                                 &entries[(addr - r->start) >> AM_CHUNK_SHIFT].mapping,
                                 memory_order_acquire);
}

AM_HOT struct am_mapping *am_mapping_find(uintptr_t addr)
{
    struct am_reservation *r = am_address_find(&am_vspace.reservations, addr);

    return r == NULL ? NULL : mapping_in(r, addr);
}

AM_HOT struct am_mapping *am_mapping_get(uintptr_t addr)
{
    struct am_mapping *mapping = am_mapping_find(addr);

    return mapping != NULL && am_ref_try(&mapping->refs) ? mapping : NULL;
}

/* A mapping with one reference; NULL: no memory. */
static struct am_mapping *mapping_alloc(uintptr_t start, size_t asked, size_t size,
                                        struct am_phys *phys, uint64_t bits)
{
    struct am_mapping *mapping = am_sys_calloc(1, sizeof *mapping);

    if (mapping == NULL)
        return NULL;
    atomic_init(&mapping->refs, 1); /* no lookup finds it yet */
    mapping->start = start;
    mapping->asked = asked;
    mapping->size = size;
    mapping->phys = phys;
    mapping->device = (int16_t)phys->domain->device;
    mapping->home = phys->home;
    mapping->is_remote = (phys->mem.bank->ops->caps & AM_CAP_REMOTE) != 0;
    mapping->page_shift = (uint8_t)__builtin_ctz(am_attr_page_size(am_phys_attr(phys)));
    atomic_init(&mapping->can_read, bits);
    atomic_init(&mapping->can_write, bits);
    return mapping;
}

static void mapping_free(struct am_deferred *deferred)
{
    free(AM_CONTAINER_OF(deferred, struct am_mapping, deferred));
}

/* Enters the mapping, or NULL, for each of its chunks; lookups find it from now on. */
static void chunks_set(struct am_reservation *r, const struct am_mapping *mapping,
                       struct am_mapping *entry)
{
    size_t first = (mapping->start - r->start) >> AM_CHUNK_SHIFT;

    for (size_t i = 0; i < mapping->size >> AM_CHUNK_SHIFT; i++)
        atomic_store_explicit(&r->mappings[first + i].mapping, entry,
                              memory_order_release);
}

/* Unmaps where the caller cannot fail; false: the memory stays visible there. */
static bool mapping_unbind(const struct am_mapping *mapping)
{
    struct am_mem *mem = &mapping->phys->mem;

    return AM_HUSHED(mem->bank->ops->unmap((void *)mapping->start, mapping->size, mem)) ==
           ACL_SUCCESS;
}

void am_mapping_put(struct am_mapping *mapping)
{
    struct am_phys *phys = mapping->phys;

    if (!am_ref_drop(&mapping->refs))
        return;
    am_epoch_defer(&mapping->deferred, mapping_free);
    am_phys_put(phys);
}

struct am_bounds am_bounds_of(uintptr_t start, size_t asked, size_t whole, bool is_strict)
{
    return (struct am_bounds){start, is_strict ? asked : whole, asked, whole};
}

aclError am_bounds_refuse(const struct am_bounds *bounds, uintptr_t addr, size_t size,
                          const char *what)
{
    bool is_strict = am_is_within(bounds->whole, addr - bounds->start, size);

    return am_fail(
        ACL_ERROR_RT_PARAM_INVALID,
        "%s: %zu bytes at %p extend past the end of the block of %zu bytes at %p%s", what,
        size, (void *)addr, bounds->asked, (void *)bounds->start,
        is_strict ? ", though not past its rounded-up size (ACLMEM_RULES=strict)" : "");
}

bool am_mapping_block(const struct am_mapping *mapping, uintptr_t addr,
                      struct am_bounds *ret_bounds)
{
    if (mapping->owner != NULL)
        return mapping->owner->find_block(addr, ret_bounds) &&
               addr - ret_bounds->start < ret_bounds->size;
    *ret_bounds = am_bounds_of(mapping->start, mapping->size, mapping->size, false);
    return true;
}

/* ---- locked mappings ---- */

/* Removes the mapping from the list of its memory, which keeps the reference. */
static void phys_remove_mapping(struct am_mapping *mapping)
{
    struct am_phys *phys = mapping->phys;

    am_latch_take(&phys->lock);
    LIST_REMOVE(mapping, of_phys);
    phys->n_mappings--;
    am_latch_give(&phys->lock);
}

/* Removes the mapping from the table and the lists; the caller drops its reference. */
static void mapping_remove_locked(struct am_mapping *mapping)
    AM_REQUIRES(mapping->reservation->lock)
{
    chunks_set(mapping->reservation, mapping, NULL);
    phys_remove_mapping(mapping);
    mapping->reservation->n_mappings--;
}

/* Unmaps and removes the mapping of killed memory, unless another thread has done so. */
static void mapping_kill(struct am_mapping *mapping)
{
    bool is_mapped;

    am_lock(&mapping->reservation->lock);
    is_mapped = mapping_in(mapping->reservation, mapping->start) == mapping;
    if (is_mapped) {
        if (!mapping_unbind(mapping)) {
            mapping->reservation->has_stale_mapping = true;
            am_log(AM_LOG_WARN, "%zu bytes at %p could not be unmapped and stay mapped",
                   mapping->size, (void *)mapping->start);
        }
        mapping_remove_locked(mapping);
    }
    am_unlock(&mapping->reservation->lock);
    if (is_mapped)
        am_mapping_put(mapping);
}

bool am_vspace_kill(struct am_phys *phys)
{
    struct am_mapping *mapping;
    bool had_handle;

    /* In one step: the handle is dead, and its mappings count as unmapped. */
    am_latch_take(&phys->lock);
    had_handle = phys->handle_refs > 0;
    phys->is_killed = true;
    phys->handle_refs = 0;
    am_latch_give(&phys->lock);
    do {
        am_latch_take(&phys->lock);
        mapping = LIST_FIRST(&phys->mappings);
        am_latch_give(&phys->lock);
        if (mapping != NULL) /* valid in this section, also if another thread unmaps it */
            mapping_kill(mapping);
    } while (mapping != NULL);
    return had_handle;
}

bool am_mapping_lock(uintptr_t addr, struct am_mapping **ret_mapping)
{
    struct am_reservation *r;

    while (am_reservation_lock(addr, &r)) {
        struct am_mapping *mapping = mapping_in(r, addr);

        if (mapping != NULL && !mapping->phys->is_killed) {
            *ret_mapping = mapping;
            return true;
        }
        am_unlock(&r->lock);
        if (mapping == NULL)
            return false;
        mapping_kill(mapping);
    }
    return false;
}

aclError am_mapping_lock_own(void *addr, bool must_start, struct am_mapping **ret_mapping)
{
    struct am_mapping *mapping;
    bool is_locked = am_mapping_lock((uintptr_t)addr, &mapping);
    aclError rc = ACL_SUCCESS;

    if (!is_locked)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %p%s", addr,
                     am_reservation_find((uintptr_t)addr) != NULL
                         ? ""
                         : ", which is not reserved");
    else if (mapping->owner != NULL)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "%p was not mapped with aclrtMapMem; it belongs to %s", addr,
                     mapping->owner->name);
    else if (must_start && mapping->start != (uintptr_t)addr)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "%p lies inside the mapping of %zu bytes at %p; pass its start",
                     addr, mapping->size, (void *)mapping->start);
    if (rc == ACL_SUCCESS)
        *ret_mapping = mapping;
    else if (is_locked)
        am_unlock(&mapping->reservation->lock);
    return rc;
}

/* ---- map ---- */

uint64_t am_owner_bit(const struct am_phys *phys)
{
    return phys->domain->device < 0 ? AM_HOST_BIT : UINT64_C(1) << phys->domain->device;
}

/* Bits of logical ids as bits of the driver's ids, which are the same nearly always. */
static uint64_t bits_of_driver(uint64_t bits)
{
    uint64_t left = bits & ~AM_HOST_BIT;
    uint64_t found = bits & AM_HOST_BIT;

    for (; left != 0; left &= left - 1)
        found |= UINT64_C(1) << am_devices.device[__builtin_ctzll(left)].driver_id;
    return found;
}

struct am_rights am_rights_of(uint64_t can_read, uint64_t can_write)
{
    return (struct am_rights){bits_of_driver(can_read), bits_of_driver(can_write)};
}

/*
 * The size that is really mapped: the asked-for size of a handle stands for its rounded
 * one.
 */
static aclError map_size(const struct am_phys *phys, size_t size, size_t *ret_size)
{
    size_t granularity = am_attr_granularity(am_attr_find(am_phys_attr(phys)));

    if (size == phys->asked) {
        *ret_size = phys->mem.size;
        return ACL_SUCCESS;
    }
    AM_REQUIRE(
        !am_setup.is_strict, ACL_ERROR_RT_PARAM_INVALID,
        "size is %zu but the handle was allocated with %zu; editions since 8.5 require "
        "the same size (ACLMEM_RULES=strict)",
        size, phys->asked);
    AM_REQUIRE(am_is_aligned(size, granularity), ACL_ERROR_RT_PARAM_INVALID,
               "size is %zu, not a multiple of the granularity %zu", size, granularity);
    AM_REQUIRE(size <= phys->mem.size, ACL_ERROR_RT_PARAM_INVALID,
               "size is %zu, more than the handle's %zu", size, phys->mem.size);
    AM_REQUIRE(
        size == phys->mem.size || (phys->mem.bank->ops->caps & AM_CAP_MAP_PART),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "size is %zu but the handle has %zu: the %s backend maps whole handles only",
        size, phys->mem.size, phys->mem.bank->ops->name);
    *ret_size = size;
    return ACL_SUCCESS;
}

/*
 * Checks of the strict rules only, on a reservation and the memory that is mapped into
 * it.
 */
static aclError map_check_strict(const struct am_reservation *r,
                                 const struct am_phys *phys)
{
    bool is_huge = am_attr_find(am_phys_attr(phys))->page != AM_PAGE_NORMAL;

    AM_REQUIRE((r->flags == 1) == is_huge, ACL_ERROR_RT_PARAM_INVALID,
               "the addresses were reserved with flags %" PRIu64
               ", but the memory is %s; "
               "editions up to 8.5 require that they agree (ACLMEM_RULES=strict)",
               r->flags, am_attr_find(am_phys_attr(phys))->name);
    AM_REQUIRE(
        r->n_mappings == 0 || r->device == phys->domain->device,
        ACL_ERROR_RT_PARAM_INVALID,
        "the reservation at %p has memory of device %d mapped and may not have memory of "
        "device %d too (ACLMEM_RULES=strict)",
        (void *)r->start, r->device, phys->domain->device);
    AM_REQUIRE(r->n_mappings == 0 || r->is_imported == phys->is_imported,
               ACL_ERROR_RT_PARAM_INVALID,
               "the reservation at %p has %s memory mapped and may not have %s memory "
               "too (ACLMEM_RULES=strict)",
               (void *)r->start, r->is_imported ? "imported" : "own",
               r->is_imported ? "own" : "imported");
    return ACL_SUCCESS;
}

/*
 * Locks the reservation that the whole range lies in, with nothing mapped there; the program's
 * or, with is_owned, an owner's.
 */
static aclError range_lock(uintptr_t addr, size_t size, bool is_owned,
                           struct am_reservation **ret_reservation)
    AM_TRY_ACQUIRE(0, (*ret_reservation)->lock)
{
    for (;;) {
        struct am_mapping *other = NULL;
        struct am_reservation *r;
        aclError rc;

        if (!am_reservation_lock(addr, &r))
            return am_fail(ACL_ERROR_RT_PARAM_INVALID,
                           "%p is not reserved; call aclrtReserveMemAddress first",
                           (void *)addr);
        if (!is_owned && r->owner != NULL) {
            rc = am_fail(
                ACL_ERROR_RT_PARAM_INVALID,
                "%p was not reserved with aclrtReserveMemAddress; it belongs to %s",
                (void *)addr, r->owner->name);
        } else if (size > r->size - (addr - r->start)) {
            rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                         "%zu bytes at %p extend past the end of the reservation of %zu "
                         "bytes at %p",
                         size, (void *)addr, r->size, (void *)r->start);
        } else {
            for (size_t at = 0; at < size && other == NULL; at += AM_CHUNK)
                other = mapping_in(r, addr + at);
            if (other == NULL) {
                *ret_reservation = r;
                return ACL_SUCCESS;
            }
            rc =
                am_fail(ACL_ERROR_RT_PARAM_INVALID,
                        "%zu bytes at %p are already mapped, by the mapping of %zu bytes "
                        "at %p; call aclrtUnmapMem first",
                        size, (void *)addr, other->size, (void *)other->start);
        }
        am_unlock(&r->lock);
        if (other == NULL || !other->phys->is_killed)
            return rc;
        mapping_kill(other);
    }
}

/* The origin of the memory. */
enum source {
    SOURCE_HANDLE,  /* a handle, which has to be alive */
    SOURCE_MAPPING, /* another mapping, whose handle may be dead */
    SOURCE_OWNER,   /* an owner, such as a pool */
};

/*
 * Lists the mapping with its memory, to which it gets a reference; false if the handle was
 * freed since the lookup, or the device was reset.
 */
static bool phys_add_mapping(struct am_mapping *mapping, enum source source)
{
    struct am_phys *phys = mapping->phys;
    bool is_alive;

    am_latch_take(&phys->lock);
    is_alive = source == SOURCE_OWNER ||
               (!phys->is_killed && (source == SOURCE_MAPPING || phys->handle_refs > 0));
    if (is_alive) {
        am_phys_ref(phys);
        phys->n_mappings++;
        mapping->may_alias = phys->was_mapped;
        phys->was_mapped = true;
        LIST_INSERT_HEAD(&phys->mappings, mapping, of_phys);
    }
    am_latch_give(&phys->lock);
    return is_alive;
}

/*
 * Binds memory to a part of r where nothing is mapped; `asked` is the size that the program
 * gave for it.  The caller has a reference to phys.
 *
 * The memory lists the mapping before lookups find it: a reset of the device that finds
 * the mapping there waits for the lock of r, and then finds it mapped or not.
 */
static aclError bind_locked(struct am_reservation *r, uintptr_t addr, size_t asked,
                            size_t size, struct am_phys *phys, uint64_t bits,
                            enum source source) AM_REQUIRES(r->lock)
{
    struct am_rights rights = am_rights_of(bits, bits);
    struct am_mapping *mapping;
    aclError rc;

    if (r->mappings == NULL)
        atomic_store_explicit(
            &r->mappings, am_sys_calloc(r->size >> AM_CHUNK_SHIFT, sizeof *r->mappings),
            memory_order_release);
    AM_REQUIRE(r->mappings != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the table of mappings of a reservation");
    mapping = mapping_alloc(addr, asked, size, phys, bits);
    AM_REQUIRE(mapping != NULL, ACL_ERROR_BAD_ALLOC, "no host memory for a mapping");
    mapping->reservation = r;
    mapping->owner = r->owner;
    mapping->owner_data = r->owner_data;
    if (!phys_add_mapping(mapping, source)) {
        rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE, "handle %p is not alive",
                     phys->named.handle);
        goto err_free;
    }
    rc = phys->mem.bank->ops->map((void *)addr, size, &phys->mem, &rights);
    if (rc != ACL_SUCCESS)
        goto err_remove;
    if (r->n_mappings++ == 0) {
        r->device = phys->domain->device;
        r->is_imported = phys->is_imported;
    }
    chunks_set(r, mapping, mapping);
    return ACL_SUCCESS;

err_remove: /* no lookup has found the mapping */
    phys_remove_mapping(mapping);
    am_phys_put(phys);
err_free:
    am_epoch_defer(&mapping->deferred, mapping_free);
    return rc;
}

/* For the program. */
static aclError map_locked(struct am_reservation *r, uintptr_t addr, size_t asked,
                           size_t size, struct am_phys *phys, bool has_access,
                           enum source source) AM_REQUIRES(r->lock)
{
    if (am_setup.is_strict)
        AM_TRY(map_check_strict(r, phys));
    return bind_locked(r, addr, asked, size, phys, has_access ? am_owner_bit(phys) : 0,
                       source);
}

aclError am_vspace_map_owned(void *addr, struct am_phys *phys, bool has_access)
{
    struct am_reservation *r;
    aclError rc;

    rc = range_lock((uintptr_t)addr, phys->mem.size, true, &r);
    if (rc != 0)
        return rc;
    rc = bind_locked(r, (uintptr_t)addr, phys->mem.size, phys->mem.size, phys,
                     has_access ? am_owner_bit(phys) : 0, SOURCE_OWNER);
    am_unlock(&r->lock);
    return rc;
}

aclError am_vspace_map(void *addr, size_t size, struct am_phys *phys, bool has_access)
{
    size_t granularity = am_attr_granularity(am_attr_find(am_phys_attr(phys)));
    struct am_reservation *r;
    size_t rounded;
    aclError rc;

    AM_REQUIRE(am_is_aligned((uintptr_t)addr, granularity), ACL_ERROR_RT_ADDR_UNALIGNED,
               "virPtr %p is not a multiple of the granularity %zu", addr, granularity);
    AM_TRY(map_size(phys, size, &rounded));
    rc = range_lock((uintptr_t)addr, rounded, false, &r);
    if (rc != 0)
        return rc;
    rc = map_locked(r, (uintptr_t)addr, size, rounded, phys, has_access, SOURCE_HANDLE);
    am_unlock(&r->lock);
    return rc;
}

aclError am_vspace_map_like(void *addr, const struct am_mapping *source, bool has_access)
{
    struct am_phys *phys = source->phys;
    size_t granularity = am_attr_granularity(am_attr_find(am_phys_attr(phys)));
    struct am_reservation *r;
    aclError rc;

    AM_REQUIRE(am_is_aligned((uintptr_t)addr, granularity), ACL_ERROR_RT_ADDR_UNALIGNED,
               "%p is not a multiple of the granularity %zu of the memory at %p", addr,
               granularity, (void *)source->start);
    rc = range_lock((uintptr_t)addr, source->size, false, &r);
    if (rc != 0)
        return rc;
    if (am_mapping_find(source->start) != source || phys->is_killed)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p was unmapped by another thread",
                     (void *)source->start);
    else
        rc = map_locked(r, (uintptr_t)addr, source->asked, source->size, phys, has_access,
                        SOURCE_MAPPING);
    am_unlock(&r->lock);
    return rc;
}

/* ---- unmap ---- */

/*
 * A device may use the memory for long, and other threads need the lock.  So
 * the memory that is to be unmapped is blocked before the lock is taken.  The returned
 * mapping is for mapping_unblock(); NULL: there is nothing to block.
 */
static struct am_mapping *mapping_block(void *addr)
{
    struct am_mapping *mapping;

    if (!(am_setup.backend->caps & AM_CAP_LANES))
        return NULL;
    mapping = am_mapping_get((uintptr_t)addr);
    if (mapping == NULL)
        return NULL;
    if (mapping->start != (uintptr_t)addr ||
        !(mapping->phys->mem.bank->ops->caps & AM_CAP_LANES)) {
        am_mapping_put(mapping);
        return NULL;
    }
    mapping->phys->mem.bank->ops->block(&mapping->phys->mem);
    return mapping;
}

static void mapping_unblock(struct am_mapping *mapping)
{
    if (mapping == NULL)
        return;
    mapping->phys->mem.bank->ops->unblock(&mapping->phys->mem);
    am_mapping_put(mapping);
}

/* Takes a locked mapping away and unlocks it; must_go: also where unmapping fails. */
static aclError unmap_locked(struct am_mapping *mapping, struct am_mapping *blocked,
                             bool must_go) AM_RELEASE(mapping->reservation->lock)
{
    struct am_mem *mem = &mapping->phys->mem;
    aclError rc = ACL_SUCCESS;

    if (must_go)
        mapping_unbind(mapping); /* memory that stays visible goes with the reservation */
    else
        rc = mem->bank->ops->unmap((void *)mapping->start, mapping->size, mem);
    if (rc == ACL_SUCCESS)
        mapping_remove_locked(mapping);
    am_unlock(&mapping->reservation->lock);
    mapping_unblock(blocked);
    if (rc == ACL_SUCCESS)
        am_mapping_put(mapping);
    return rc;
}

aclError am_vspace_unmap(void *addr)
{
    struct am_mapping *blocked = mapping_block(addr);
    struct am_mapping *mapping;
    aclError rc = am_mapping_lock_own(addr, true, &mapping);

    if (rc == 0)
        return unmap_locked(mapping, blocked, false);
    mapping_unblock(blocked);
    return rc;
}

aclError am_vspace_unmap_owned(void *addr, bool is_last)
{
    struct am_mapping *blocked = mapping_block(addr);
    struct am_mapping *mapping;

    if (am_mapping_lock((uintptr_t)addr, &mapping))
        return unmap_locked(mapping, blocked, is_last);
    mapping_unblock(blocked); /* a reset of the device was faster */
    return ACL_SUCCESS;
}

/* One more handle reference of memory that is mapped; false: its device was just reset. */
static bool phys_retain(struct am_phys *phys)
{
    bool is_alive;

    am_latch_take(&phys->lock);
    is_alive = !phys->is_killed;
    if (is_alive && phys->handle_refs++ == 0)
        am_phys_ref(phys); /* the handle is back, with its reference */
    am_latch_give(&phys->lock);
    return is_alive;
}

aclError am_vspace_retain(void *addr, void **ret_handle)
{
    struct am_mapping *mapping;
    aclError rc = am_mapping_lock_own(addr, false, &mapping);

    if (rc != 0)
        return rc;
    if (am_setup.is_strict && mapping->start != (uintptr_t)addr)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "%p lies inside the mapping at %p; the editions that have this call "
                     "require its "
                     "start (ACLMEM_RULES=strict)",
                     addr, (void *)mapping->start);
    else if (!phys_retain(mapping->phys))
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %p", addr);
    else
        *ret_handle = mapping->phys->named.handle;
    am_unlock(&mapping->reservation->lock);
    return rc;
}
