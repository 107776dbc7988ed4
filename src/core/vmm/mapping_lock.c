/*
 * Mappings that are there: finding one with its reservation locked, and taking it out of
 * the books.  See vspace.h and vspace_reservation.h.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"
#include "core/vmm/vspace_reservation.h"

bool am_mapping_unmap(const struct am_mapping *mapping)
{
    struct am_capture before = am_error_hush();
    struct am_mem *mem = &mapping->phys->mem;
    aclError rc = mem->bank->ops->unmap((void *)mapping->start, mapping->size, mem);

    am_error_capture_end(before);
    return rc == ACL_SUCCESS;
}

void am_mapping_tear_off(const struct am_mapping *mapping)
{
    struct am_reservation *r = mapping->reservation;

    if (am_mapping_unmap(mapping))
        return;
    r->has_stale_mapping = true;
    am_log(AM_LOG_WARN, "%zu bytes at %p could not be unmapped and stay mapped",
           mapping->size, (void *)mapping->start);
}

void am_mapping_leave_locked(struct am_mapping *mapping)
{
    struct am_reservation *r = mapping->reservation;
    struct am_phys *phys = mapping->phys;

    am_chunkmap_set(&am_vspace.chunks, mapping->start, mapping->size, NULL);
    am_latch_take(&phys->lock);
    LIST_REMOVE(mapping, of_phys);
    phys->n_mappings--;
    am_latch_give(&phys->lock);
    r->n_mappings--;
    if (mapping->owner == NULL)
        am_reservation_count(r, -1);
}

/* Takes it away, unless another thread was faster. */
static void mapping_kill(struct am_mapping *mapping)
{
    struct am_reservation *r = mapping->reservation;
    struct am_lock *lock = &am_reservation_stripe(r)->lock;
    bool is_there;

    am_lock(lock);
    is_there = am_chunkmap_find(&am_vspace.chunks, mapping->start) == mapping;
    if (is_there) {
        am_mapping_tear_off(mapping);
        am_mapping_leave_locked(mapping);
    }
    am_unlock(lock);
    if (is_there)
        am_mapping_put(mapping);
}

struct am_mapping *am_mapping_get_dead(struct am_mapping *mapping)
{
    if (mapping == NULL || !mapping->phys->is_killed)
        return NULL;
    am_ref_more(&mapping->refs);
    return mapping;
}

bool am_mapping_bury(struct am_mapping *dead)
{
    if (dead == NULL)
        return false;
    mapping_kill(dead);
    am_mapping_put(dead);
    return true;
}

AM_NO_LOCK_ANALYSIS struct am_mapping *am_mapping_lock(uintptr_t addr)
{
    for (;;) {
        struct am_mapping *mapping = am_chunkmap_find(&am_vspace.chunks, addr);
        struct am_mapping *dead = NULL;
        struct am_reservation *r;

        if (mapping == NULL)
            return NULL;
        r = atomic_load_explicit(&mapping->reservation, memory_order_relaxed);
        if (r == NULL) {
            if (am_chunkmap_find(&am_vspace.chunks, addr) == mapping)
                return NULL; /* it was a heap's when its entry was read */
            continue;
        }
        am_lock(&am_reservation_stripe(r)->lock);
        /* The mapping may have gone and come back, also in another reservation. */
        if (am_chunkmap_find(&am_vspace.chunks, addr) == mapping &&
            mapping->reservation == r) {
            dead = am_mapping_get_dead(mapping);
            if (dead == NULL)
                return mapping;
        }
        am_unlock(&am_reservation_stripe(r)->lock);
        am_mapping_bury(dead);
    }
}

AM_NO_LOCK_ANALYSIS void am_mapping_unlock(const struct am_mapping *mapping)
{
    am_unlock(&am_reservation_stripe(mapping->reservation)->lock);
}

/* Why am_mapping_lock() found nothing. */
static aclError refuse_unmapped(void *addr)
{
    struct am_mapping *mapping = am_mapping_get((uintptr_t)addr);
    const struct am_owner *owner = mapping != NULL ? mapping->owner : NULL;

    if (mapping != NULL)
        am_mapping_put(mapping);
    AM_REQUIRE(owner == NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%p was not mapped with aclrtMapMem; it belongs to %s", addr, owner->name);
    return am_fail(
        ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped at %p%s", addr,
        am_reservation_find((uintptr_t)addr) != NULL ? "" : ", which is not reserved");
}

static aclError own_check(const struct am_mapping *mapping, void *addr, bool must_start)
{
    AM_REQUIRE(mapping->owner == NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%p was not mapped with aclrtMapMem; it belongs to %s", addr,
               mapping->owner->name);
    AM_REQUIRE(!must_start || mapping->start == (uintptr_t)addr,
               ACL_ERROR_RT_PARAM_INVALID,
               "%p lies inside the mapping of %zu bytes at %p; pass its start", addr,
               mapping->size, (void *)mapping->start);
    return ACL_SUCCESS;
}

aclError am_mapping_lock_own(void *addr, bool must_start, struct am_mapping **ret_mapping)
{
    struct am_mapping *mapping = am_mapping_lock((uintptr_t)addr);
    aclError rc;

    if (mapping == NULL)
        return refuse_unmapped(addr);
    rc = own_check(mapping, addr, must_start);
    if (rc != ACL_SUCCESS)
        am_mapping_unlock(mapping);
    else
        *ret_mapping = mapping;
    return rc;
}

/* The next mapping of memory that was killed, with a reference; NULL: there is none. */
static struct am_mapping *phys_first_mapping(struct am_phys *phys)
{
    struct am_mapping *mapping;

    am_latch_take(&phys->lock);
    mapping = LIST_FIRST(&phys->mappings);
    if (mapping != NULL)
        am_ref_more(&mapping->refs); /* it is mapped, so it has one */
    am_latch_give(&phys->lock);
    return mapping;
}

bool am_vspace_kill(struct am_phys *phys)
{
    struct am_mapping *mapping;
    bool had_handle;

    /*
     * In one step: the handle is dead, and its mappings are gone for every call that
     * meets one.
     */
    am_moment();
    am_latch_take(&phys->lock);
    had_handle = phys->handle_refs > 0;
    phys->is_killed = true; /* first: a dead handle is seen without the latch */
    phys->handle_refs = 0;
    am_latch_give(&phys->lock);
    while ((mapping = phys_first_mapping(phys)) != NULL) {
        mapping_kill(mapping);
        am_mapping_put(mapping);
    }
    return had_handle;
}
