/* Reservations; mappings are in mapping.c.  See vspace.h. */
#include "core/vmm/reservation.h"

#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/setup.h"

struct am_vspace am_vspace = {.lock = AM_LOCK_INIT(AM_RANK_VSPACE, "vspace")};

bool am_reservation_lock(uintptr_t addr, struct am_reservation **ret_reservation)
{
    struct am_reservation *r;

    while ((r = am_address_find(&am_vspace.reservations, addr)) != NULL) {
        am_lock(&r->lock);
        if (!r->is_released) {
            *ret_reservation = r;
            return true;
        }
        am_unlock(&r->lock);
    }
    return false;
}

bool am_vspace_is_reserved(uintptr_t addr, size_t size, const struct am_owner **ret_owner)
{
    struct am_reservation *found;

    if (ret_owner != NULL)
        *ret_owner = NULL;
    if (size - 1 > UINTPTR_MAX - addr)
        return true; /* wraps around: no memory of any kind does */
    found = am_reservation_first(addr, size);
    if (found != NULL && ret_owner != NULL)
        *ret_owner = found->owner;
    return found != NULL;
}

/* ---- addresses in stock ---- */

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

#define REGION_SIZE (256 * AM_GIB)
#define CUT_MAX (REGION_SIZE / 16)
#define TRIES 16 /* reservations that are stepped over to find room between them */

static struct {
    const struct am_backend_ops *backend; /* NULL: none was asked yet */
    uintptr_t start;
    size_t size;    /* 0: no region */
    uintptr_t next; /* where the search for a free range starts */
    uintptr_t end;  /* from here on none was cut */
    size_t n_cut;   /* reservations that are cut from it */
} region;           /* am_vspace.lock */

/* A program can do without: it is tried once. */
static void region_open_locked(const struct am_backend_ops *backend)
    AM_REQUIRES(am_vspace.lock)
{
    void *start;

    if (AM_HUSHED(backend->reserve_own(REGION_SIZE, AM_GIB, &start)) == ACL_SUCCESS) {
        region.start = (uintptr_t)start;
        region.size = REGION_SIZE;
        region.next = region.start;
        region.end = region.start;
    }
    region.backend = backend;
}

static bool is_inside(uintptr_t start, size_t size)
{
    return start >= region.start && start - region.start <= region.size &&
           size <= region.size - (start - region.start);
}

/* Low addresses first, which have been in use: a device's page tables are there. */
static bool room_find_locked(size_t size, size_t align, uintptr_t *ret_start)
    AM_REQUIRES(am_vspace.lock)
{
    for (int i = 0; i < TRIES && region.next < region.end; i++) {
        uintptr_t at = am_align_up(region.next, align);
        const struct am_reservation *taken = am_reservation_first(at, size);

        if (taken == NULL && is_inside(at, size)) {
            *ret_start = at;
            return true;
        }
        region.next = taken != NULL ? taken->start + taken->size : region.end;
    }
    *ret_start = am_align_up(region.end, align);
    if (is_inside(*ret_start, size))
        return true;
    if (region.next >=
        region.end) /* a gap that was too small so far may do for the next */
        region.next = region.start;
    return false;
}

/*
 * Addresses of the backend's for a reservation, at `want` or, when that is NULL, at a
 * multiple of align; false: the backend is to be asked.  The caller enters the
 * reservation before it releases the lock, and returns the addresses when the
 * reservation ends.
 */
static bool region_cut_locked(const struct am_backend_ops *backend, size_t size,
                              size_t align, void *want, uintptr_t *ret_start)
    AM_REQUIRES(am_vspace.lock)
{
    uintptr_t start = (uintptr_t)want;

    /*
     * Not for a caller that requests an address, which the region might cover, nor for
     * large reservations.
     */
    if (region.backend == NULL && want == NULL && size <= CUT_MAX)
        region_open_locked(backend);
    if (region.backend != backend) /* none, or of a backend that was stopped */
        return false;
    if (want != NULL &&
        (!is_inside(start, size) || am_reservation_first(start, size) != NULL))
        return false;
    if (want == NULL && (size > CUT_MAX || !room_find_locked(size, align, &start)))
        return false;
    if (start + size > region.end)
        region.end = start + size;
    region.n_cut++;
    *ret_start = start;
    return true;
}

static void region_give_locked(uintptr_t start, size_t size) AM_REQUIRES(am_vspace.lock)
{
    am_assert(region.n_cut > 0 && is_inside(start, size));
    if (start < region.next)
        region.next = start;
    if (--region.n_cut == 0)
        region.end = region.start;
}

/* ---- reservations ---- */

static size_t reservation_align(size_t size)
{
    return size >= AM_GIB ? AM_GIB : AM_CHUNK;
}

static aclError want_check(const void *want, size_t size)
{
    size_t align = reservation_align(size);
    uintptr_t at = (uintptr_t)want;
    size_t end = (size_t)1 << AM_ADDRESS_BITS;

    AM_REQUIRE(am_is_aligned(at, align), ACL_ERROR_RT_ADDR_UNALIGNED,
               "expectPtr %p is not a multiple of %zu, as %zu bytes need", want, align,
               size);
    AM_REQUIRE(size <= end && at <= end - size, ACL_ERROR_RT_PARAM_INVALID,
               "%zu bytes at expectPtr %p lie outside the address space", size, want);
    return ACL_SUCCESS;
}

static void reservation_free(struct am_deferred *deferred)
{
    struct am_reservation *r = AM_CONTAINER_OF(deferred, struct am_reservation, deferred);

    am_lock_destroy(&r->lock);
    free(r->mappings);
    free(r);
}

static int reservation_enter_locked(struct am_reservation *r) AM_REQUIRES(am_vspace.lock)
{
    int rc = am_address_prepare(&am_vspace.reservations, r->start, r->size);

    if (rc != 0)
        return rc;
    LIST_INSERT_HEAD(&am_vspace.all, r, all);
    am_vspace.n_reservations += r->owner == NULL;
    am_address_set(&am_vspace.reservations, r->start, r->size, r);
    return 0;
}

static aclError reservation_release(const struct am_reservation *r)
{
    return r->is_from_region ? ACL_SUCCESS
                             : r->backend->release((void *)r->start, r->size);
}

/* Releases where no call can fail any more; false: it was not possible. */
static bool reservation_drop(const struct am_reservation *r, enum am_log_level level)
{
    aclError rc = AM_HUSHED(reservation_release(r));

    if (rc != ACL_SUCCESS)
        am_log(level, "%zu bytes of addresses at %p could not be released", r->size,
               (void *)r->start);
    return rc == ACL_SUCCESS;
}

/* Addresses of the backend's become a reservation, or are given back. */
static aclError reservation_enter(struct am_reservation *r)
{
    int rc = AM_LOCKED(&am_vspace.lock, reservation_enter_locked(r));

    if (rc == 0)
        return ACL_SUCCESS;
    reservation_drop(r, AM_LOG_INFO);
    reservation_free(&r->deferred); /* no lookup has found it */
    return am_fail(ACL_ERROR_BAD_ALLOC, "no host memory for a reservation");
}

/* From the region; *ret_addr is NULL if the backend has to reserve the addresses. */
static aclError reservation_cut(struct am_reservation *r, void *want, void **ret_addr)
{
    void *addr = NULL;
    int rc = 0;

    am_lock(&am_vspace.lock);
    if (region_cut_locked(r->backend, r->size, reservation_align(r->size), want,
                          &r->start)) {
        addr = (void *)r->start;
        r->is_from_region = true;
        rc = reservation_enter_locked(r);
        if (rc != 0)
            region_give_locked(r->start, r->size);
    }
    am_unlock(&am_vspace.lock); /* from here on another thread may release it */
    AM_REQUIRE(rc == 0, ACL_ERROR_BAD_ALLOC, "no host memory for a reservation");
    *ret_addr = addr;
    return ACL_SUCCESS;
}

static aclError reserve(const struct am_backend_ops *backend,
                        const struct am_owner *owner, void *owner_data, size_t size,
                        void *want, uint64_t flags, void **ret_addr)
{
    struct am_reservation *r;
    void *addr = NULL;
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(size <= (size_t)1 << AM_ADDRESS_BITS, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes of addresses: there are only 2^%d", size,
               AM_ADDRESS_BITS);
    size = am_align_up(size, AM_CHUNK);
    if (want != NULL)
        AM_TRY(want_check(want, size));

    r = am_sys_calloc(1, sizeof *r);
    AM_REQUIRE(r != NULL, ACL_ERROR_BAD_ALLOC, "no host memory for a reservation");
    am_lock_init(&r->lock, AM_RANK_RESERVATION, "reservation");
    r->size = size;
    r->flags = flags;
    r->owner = owner;
    r->owner_data = owner_data;
    r->backend = backend;
    if (owner == NULL && (backend->caps & AM_CAP_STOCK))
        rc = reservation_cut(r, want, &addr);
    if (rc == ACL_SUCCESS && addr != NULL) {
        *ret_addr = addr;
        return ACL_SUCCESS;
    }
    if (rc == ACL_SUCCESS && owner != NULL && want == NULL)
        rc = backend->reserve_own(size, reservation_align(size), &addr);
    else if (rc == ACL_SUCCESS)
        rc = backend->reserve(size, reservation_align(size), want, &addr);
    if (rc != ACL_SUCCESS) {
        reservation_free(&r->deferred);
        return rc;
    }
    r->start = (uintptr_t)addr;
    rc = reservation_enter(r);
    if (rc == ACL_SUCCESS)
        *ret_addr = addr;
    return rc;
}

aclError am_vspace_reserve(size_t size, void *want, uint64_t flags, void **ret_addr)
{
    return reserve(am_setup.backend, NULL, NULL, size, want, flags, ret_addr);
}

aclError am_vspace_reserve_owned(const struct am_owner *owner, void *owner_data,
                                 size_t size, void *want, void **ret_addr)
{
    return reserve(owner->is_on_host ? am_backend_find("host") : am_setup.backend, owner,
                   owner_data, size, want, 1, ret_addr);
}

/* Its lock is held as well. */
static void reservation_leave_locked(struct am_reservation *r) AM_REQUIRES(am_vspace.lock)
{
    am_address_set(&am_vspace.reservations, r->start, r->size, NULL);
    LIST_REMOVE(r, all);
    r->is_released = true;
    am_vspace.n_reservations -= r->owner == NULL;
    if (r->is_from_region)
        region_give_locked(r->start, r->size);
    am_epoch_defer(&r->deferred, reservation_free);
}

/*
 * The program releases addresses that were cut from the stock, but a mapping there
 * cannot be undone: the addresses are not reused until the library stops.
 */
static void retire_locked(struct am_reservation *r) AM_REQUIRES(am_vspace.lock)
{
    static const struct am_owner library = {.name = "the library"};

    r->owner = &library;
    r->is_unreleased = true;
    am_vspace.n_reservations--;
}

/* Both locks are held; r is the reservation that addr lies in. */
static aclError release_checked_locked(struct am_reservation *r, void *addr)
    AM_REQUIRES(am_vspace.lock)
{
    aclError rc = ACL_SUCCESS;

    if (r->owner != NULL)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "%p was not reserved with aclrtReserveMemAddress; it belongs to %s",
                     addr, r->owner->name);
    else if (r->start != (uintptr_t)addr)
        rc = am_fail(
            ACL_ERROR_RT_PARAM_INVALID,
            "%p lies inside the reservation of %zu bytes at %p; release that address",
            addr, r->size, (void *)r->start);
    else if (r->n_mappings > 0)
        rc = am_fail(
            ACL_ERROR_RT_PARAM_INVALID,
            "memory is still mapped in the reservation at %p (mappings: %zu); call "
            "aclrtUnmapMem for each first",
            addr, r->n_mappings);
    else if (r->is_from_region && r->has_stale_mapping)
        retire_locked(r);
    else
        rc = reservation_release(r);
    if (rc == ACL_SUCCESS && !r->is_unreleased)
        reservation_leave_locked(r);
    return rc;
}

aclError am_vspace_release(void *addr)
{
    struct am_reservation *r;
    aclError rc;

    am_lock(&am_vspace.lock);
    r = am_reservation_find((uintptr_t)addr);
    if (r == NULL) {
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not reserved", addr);
    } else {
        am_lock(&r->lock);
        rc = release_checked_locked(r, addr);
        am_unlock(&r->lock);
    }
    am_unlock(&am_vspace.lock);
    return rc;
}

void am_vspace_release_owned(void *addr)
{
    struct am_reservation *r;

    am_lock(&am_vspace.lock);
    r = am_reservation_find((uintptr_t)addr);
    am_assert(r != NULL && r->start == (uintptr_t)addr && r->n_mappings == 0);
    am_lock(&r->lock);
    r->is_unreleased = !reservation_drop(r, AM_LOG_WARN);
    if (r->is_unreleased)
        r->owner_data = NULL; /* the owner's record ends */
    else
        reservation_leave_locked(r);
    am_unlock(&r->lock);
    am_unlock(&am_vspace.lock);
}

/* The library stops: the reservation goes, unless a thread still needs it. */
static void release_last_locked(struct am_reservation *r) AM_REQUIRES(am_vspace.lock)
{
    am_lock(&r->lock);
    /* Others: work in flight or a host view uses the memory, or a thread is in a call about it. */
    if (r->owner == NULL || r->is_unreleased) {
        am_assert(r->n_mappings == 0);
        if (reservation_drop(r, AM_LOG_WARN))
            reservation_leave_locked(r);
    }
    am_unlock(&r->lock);
}

void am_vspace_release_all(void)
{
    struct am_reservation *r;
    struct am_reservation *next;

    am_lock(&am_vspace.lock);
    for (r = LIST_FIRST(&am_vspace.all); r != NULL; r = next) {
        next = LIST_NEXT(r, all);
        release_last_locked(r);
    }
    am_assert(region.n_cut == 0);
    if (region.size > 0 &&
        region.backend->release((void *)region.start, region.size) != ACL_SUCCESS)
        am_log(AM_LOG_INFO, "%zu bytes of addresses at %p could not be released",
               region.size, (void *)region.start);
    memset(&region, 0, sizeof region);
    am_unlock(&am_vspace.lock);
}
