/*
 * Mappings: binding part of a reservation to physical memory.  Access rights are in
 * access.c.  See vspace.h.
 */
#include <inttypes.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/slab.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/attr.h"
#include "core/device/setup.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"
#include "core/vmm/vspace_arena.h"
#include "core/vmm/vspace_reservation.h"

static struct am_slab mapping_slab = AM_SLAB_INIT(struct am_mapping, "mapping slab");

AM_HOT struct am_mapping *am_mapping_get(uintptr_t addr)
{
    for (;;) {
        struct am_mapping *mapping = am_chunkmap_find(&am_vspace.chunks, addr);

        if (mapping == NULL)
            return NULL;
        am_moment();
        if (!am_ref_try(&mapping->refs))
            continue; /* being unmapped; the entry goes in a moment */
        if (am_chunkmap_find(&am_vspace.chunks, addr) == mapping)
            return mapping;
        am_mapping_put(mapping);
    }
}

/* Room for a mapping of phys; NULL: there is no memory. */
static struct am_mapping *mapping_take(struct am_phys *phys)
{
    /* The acquire pairs with mapping_give(): its last user is done with it. */
    if (!atomic_exchange_explicit(&phys->is_own_used, true, memory_order_acquire))
        return &phys->own;
    return am_slab_take(&mapping_slab);
}

/* No reference to it is left; the caller has one to phys. */
static void mapping_give(struct am_phys *phys, struct am_mapping *mapping)
{
    if (mapping == &phys->own)
        atomic_store_explicit(&phys->is_own_used, false, memory_order_release);
    else
        am_slab_give(&mapping_slab, mapping);
}

/*
 * The last user of a heap's mapping is gone: only now may memory and addresses be
 * reused.
 */
static void mapping_unbind(struct am_mapping *mapping)
{
    /* Where that fails the memory stays visible until the addresses are bound again. */
    if (!am_mapping_unmap(mapping))
        am_log(AM_LOG_INFO, "%zu bytes at %p could not be unmapped yet", mapping->size,
               (void *)mapping->start);
    am_arena_give(mapping->extent);
}

void am_mapping_put(struct am_mapping *mapping)
{
    struct am_phys *phys = mapping->phys;

    if (!am_ref_drop(&mapping->refs))
        return;
    if (atomic_load_explicit(&mapping->reservation, memory_order_relaxed) == NULL)
        mapping_unbind(mapping);
    mapping_give(phys, mapping);
    am_phys_put(phys);
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
 * Whether the range lies in r, which is locked, with nothing mapped there; *ret_taken is
 * what else is.
 */
static aclError range_check_locked(const struct am_reservation *r, uintptr_t addr,
                                   size_t size, struct am_mapping **ret_taken)
{
    AM_REQUIRE(!r->is_arena, ACL_ERROR_RT_PARAM_INVALID,
               "%p was not reserved with aclrtReserveMemAddress; it belongs to %s",
               (void *)addr, r->owner->name);
    AM_REQUIRE(
        size <= r->size - (addr - r->start), ACL_ERROR_RT_PARAM_INVALID,
        "%zu bytes at %p extend past the end of the reservation of %zu bytes at %p", size,
        (void *)addr, r->size, (void *)r->start);
    for (uintptr_t at = addr; at < addr + size; at += AM_CHUNK) {
        struct am_mapping *mapping = am_chunkmap_find(&am_vspace.chunks, at);

        *ret_taken = mapping;
        AM_REQUIRE(
            mapping == NULL, ACL_ERROR_RT_PARAM_INVALID,
            "%zu bytes at %p are already mapped, by the mapping of %zu bytes at %p; call "
            "aclrtUnmapMem first",
            size, (void *)addr, mapping->size, (void *)mapping->start);
    }
    return ACL_SUCCESS;
}

/* Locks the reservation that the whole range lies in, with nothing mapped there. */
static aclError range_lock(uintptr_t addr, size_t size,
                           struct am_reservation **ret_reservation)
{
    struct am_mapping *taken;
    aclError rc;

    do {
        struct am_reservation *r = am_reservation_lock(addr);

        AM_REQUIRE(r != NULL, ACL_ERROR_RT_PARAM_INVALID,
                   "%p is not reserved; call aclrtReserveMemAddress first", (void *)addr);
        taken = NULL;
        rc = range_check_locked(r, addr, size, &taken);
        if (rc == ACL_SUCCESS) {
            *ret_reservation = r;
            return ACL_SUCCESS;
        }
        taken = am_mapping_get_dead(taken);
        am_reservation_unlock(r);
    } while (am_mapping_bury(taken));
    return rc;
}

/* The owner of the mapped memory. */
enum source {
    SOURCE_HANDLE,  /* a handle's, which has to be alive */
    SOURCE_MAPPING, /* of another mapping, whose handle may be dead */
    SOURCE_OWNER,   /* an owner's, that of a pool */
};

/*
 * The memory knows the mapping from now on; false when the handle was freed since it was
 * looked up, or the device was reset.
 */
static bool phys_add_mapping(struct am_phys *phys, struct am_mapping *mapping,
                             enum source source)
{
    bool is_alive;

    am_latch_take(&phys->lock);
    is_alive = source == SOURCE_OWNER ||
               (!phys->is_killed && (source == SOURCE_MAPPING || phys->handle_refs > 0));
    if (is_alive) {
        phys->n_mappings++;
        mapping->may_alias = phys->was_mapped;
        phys->was_mapped = true;
        LIST_INSERT_HEAD(&phys->mappings, mapping, of_phys);
    }
    am_latch_give(&phys->lock);
    return is_alive;
}

/* Enter a mapping whose memory is bound already, and that the memory knows; cannot fail. */
static void mapping_enter_locked(struct am_mapping *mapping)
{
    struct am_reservation *r = mapping->reservation;
    struct am_phys *phys = mapping->phys;

    if (r->n_mappings++ == 0) {
        r->device = phys->domain->device;
        r->is_imported = phys->is_imported;
    }
    if (r->owner == NULL)
        am_reservation_count(r, 1);
    am_chunkmap_set(&am_vspace.chunks, mapping->start, mapping->size, mapping);
}

/* A lookup reads in the mapping what it would have to fetch from phys. */
static void mapping_describe(struct am_mapping *mapping, const struct am_phys *phys)
{
    mapping->device = (int16_t)phys->domain->device;
    mapping->home = phys->home;
    mapping->is_remote = (phys->mem.bank->ops->caps & AM_CAP_REMOTE) != 0;
    mapping->page_shift = (uint8_t)__builtin_ctz(am_attr_page_size(am_phys_attr(phys)));
}

/*
 * Binds memory to a part of r where nothing is mapped; `asked` is the size that the program
 * gave for it.  r is locked.
 */
static aclError bind_locked(struct am_reservation *r, uintptr_t addr, size_t asked,
                            size_t size, struct am_phys *phys, uint64_t bits,
                            enum source source)
{
    struct am_rights rights = am_rights_of(bits, bits);
    struct am_mapping *mapping;
    aclError rc;

    mapping = mapping_take(phys);
    if (mapping == NULL || am_chunkmap_prepare(&am_vspace.chunks, addr, size) != 0) {
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no host memory for the records of a mapping");
        goto err_give;
    }
    rc = phys->mem.bank->ops->map((void *)addr, size, &phys->mem, &rights);
    if (rc != ACL_SUCCESS)
        goto err_give;

    mapping->start = addr;
    mapping->size = size;
    mapping->asked = asked;
    mapping->phys = am_phys_ref(phys);
    mapping_describe(mapping, phys);
    mapping->owner = r->owner;
    mapping->can_read = bits;
    mapping->can_write = bits;
    atomic_store_explicit(&mapping->reservation, r, memory_order_relaxed);
    atomic_store_explicit(&mapping->run, NULL, memory_order_release);
    atomic_store_explicit(&mapping->refs, 1, memory_order_release);
    if (phys_add_mapping(phys, mapping, source)) {
        mapping_enter_locked(mapping);
        return ACL_SUCCESS;
    }

    rc = am_fail(ACL_ERROR_RT_INVALID_HANDLE, "handle %p is not alive",
                 phys->named.handle);
    am_mapping_tear_off(mapping);
    atomic_store_explicit(&mapping->refs, 0, memory_order_relaxed);
    am_phys_put(phys); /* not the last one: the caller has one */
err_give:
    if (mapping != NULL)
        mapping_give(phys, mapping);
    return rc;
}

/* The program's wish; r is locked. */
static aclError map_locked(struct am_reservation *r, uintptr_t addr, size_t asked,
                           size_t size, struct am_phys *phys, bool has_access,
                           enum source source)
{
    if (am_setup.is_strict)
        AM_TRY(map_check_strict(r, phys));
    AM_REQUIRE(r->owner == NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%p was not reserved with aclrtReserveMemAddress; it belongs to %s",
               (void *)addr, r->owner->name);
    return bind_locked(r, addr, asked, size, phys, has_access ? am_owner_bit(phys) : 0,
                       source);
}

aclError am_vspace_map_owned(void *addr, struct am_phys *phys, bool has_access)
{
    struct am_reservation *r;
    aclError rc;

    AM_TRY(range_lock((uintptr_t)addr, phys->mem.size, &r));
    rc = bind_locked(r, (uintptr_t)addr, phys->mem.size, phys->mem.size, phys,
                     has_access ? am_owner_bit(phys) : 0, SOURCE_OWNER);
    am_reservation_unlock(r);
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
    AM_TRY(range_lock((uintptr_t)addr, rounded, &r));
    rc = map_locked(r, (uintptr_t)addr, size, rounded, phys, has_access, SOURCE_HANDLE);
    am_reservation_unlock(r);
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
    AM_TRY(range_lock((uintptr_t)addr, source->size, &r));
    if (am_chunkmap_find(&am_vspace.chunks, source->start) != source || phys->is_killed)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p was unmapped meanwhile",
                     (void *)source->start);
    else
        rc = map_locked(r, (uintptr_t)addr, source->asked, source->size, phys, has_access,
                        SOURCE_MAPPING);
    am_reservation_unlock(r);
    return rc;
}

/*
 * Enter a heap's mapping, which is in no list but the arena's count.  Its addresses are the
 * caller's alone, so no lock is needed.
 */
static aclError run_enter(struct am_mapping *mapping)
{
    AM_REQUIRE(am_chunkmap_prepare(&am_vspace.chunks, mapping->start, mapping->size) == 0,
               ACL_ERROR_BAD_ALLOC, "no host memory for the records of a mapping");
    mapping->may_alias = mapping->phys->was_mapped;
    mapping->phys->was_mapped = true;
    atomic_store_explicit(&mapping->refs, 1, memory_order_release);
    am_chunkmap_set(&am_vspace.chunks, mapping->start, mapping->size, mapping);
    return ACL_SUCCESS;
}

aclError am_vspace_map_run(const struct am_owner *owner, struct am_phys *phys,
                           struct am_run *run, struct am_mapping **ret_mapping)
{
    const struct am_backend_ops *ops = phys->mem.bank->ops;
    struct am_rights rights = am_rights_of(am_owner_bit(phys), am_owner_bit(phys));
    /*
     * Not phys->own: the blocks of a heap are what many threads copy to and from at the same
     * time, and 16 of them did a sixth less where the counts of mapping and memory, which each
     * copy changes, were a few lines from those of the next block.
     */
    struct am_mapping *mapping = am_slab_take(&mapping_slab);
    aclError rc;

    if (mapping == NULL) {
        rc = am_fail(ACL_ERROR_BAD_ALLOC, "no host memory for the records of a mapping");
        goto err_phys;
    }
    rc = am_arena_take(phys->mem.bank->spec.is_pinned, phys->mem.size, &mapping->extent);
    if (rc != ACL_SUCCESS)
        goto err_slab;
    mapping->start = mapping->extent->start;
    mapping->size = phys->mem.size;
    mapping->asked = phys->mem.size;
    mapping->phys = phys;
    mapping_describe(mapping, phys);
    atomic_store_explicit(&mapping->reservation, NULL, memory_order_relaxed);
    mapping->owner = owner;
    mapping->can_read = am_owner_bit(phys);
    mapping->can_write = am_owner_bit(phys);
    atomic_store_explicit(&mapping->run, run, memory_order_release);
    rc = ops->map((void *)mapping->start, mapping->size, &phys->mem, &rights);
    if (rc != ACL_SUCCESS)
        goto err_range;
    rc = run_enter(mapping);
    if (rc != ACL_SUCCESS)
        goto err_unmap;
    *ret_mapping = mapping;
    return ACL_SUCCESS;

err_unmap:
    am_mapping_unmap(mapping);
err_range:
    am_arena_give(mapping->extent);
err_slab:
    am_slab_give(&mapping_slab, mapping);
err_phys:
    am_phys_put(phys);
    return rc;
}

void am_vspace_unmap_run(struct am_mapping *mapping)
{
    am_chunkmap_set(&am_vspace.chunks, mapping->start, mapping->size, NULL);
    am_mapping_put(mapping);
}

/*
 * A device may use the memory for long, and other threads need the lock meanwhile.  So
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
                             bool must_go)
{
    struct am_mem *mem = &mapping->phys->mem;
    struct am_reservation *r = mapping->reservation;
    aclError rc = ACL_SUCCESS;

    if (must_go)
        am_mapping_unmap(mapping); /* what stays visible goes with the reservation */
    else
        rc = mem->bank->ops->unmap((void *)mapping->start, mapping->size, mem);
    if (rc == ACL_SUCCESS)
        am_mapping_leave_locked(mapping);
    am_reservation_unlock(r);
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

    if (rc == ACL_SUCCESS)
        return unmap_locked(mapping, blocked, false);
    mapping_unblock(blocked);
    return rc;
}

aclError am_vspace_unmap_owned(void *addr, bool is_last)
{
    struct am_mapping *blocked = mapping_block(addr);
    struct am_mapping *mapping = am_mapping_lock((uintptr_t)addr);

    if (mapping != NULL)
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
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_mapping_lock_own(addr, false, &mapping));
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
    am_mapping_unlock(mapping);
    return rc;
}
