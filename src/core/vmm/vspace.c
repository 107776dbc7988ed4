/* Reservations; mappings are in mapping.c.  See vspace.h. */
#include "core/vmm/vspace.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/log.h"
#include "base/slab.h"
#include "base/util.h"
#include "core/device/setup.h"
#include "core/vmm/vspace_arena.h"
#include "core/vmm/vspace_region.h"
#include "core/vmm/vspace_reservation.h"

struct am_vspace am_vspace = {
    .lock = AM_LOCK_INIT(AM_RANK_VSPACE, "vspace"),
    .reservations = RB_INITIALIZER(NULL),
    .stripe = {[0 ... AM_STRIPES - 1].lock =
                   AM_LOCK_INIT(AM_RANK_RESERVATION, "reservation")},
};

static struct am_slab reservation_slab =
    AM_SLAB_INIT(struct am_reservation, "reservation slab");

static int reservation_compare(struct am_reservation *a, struct am_reservation *b)
{
    return (a->start > b->start) - (a->start < b->start);
}

RB_GENERATE_INTERNAL(am_reservations, am_reservation, node, reservation_compare,
                     __attribute__((unused)) static)

union am_stripe *am_reservation_stripe(const struct am_reservation *r)
{
    return &am_vspace.stripe[(uintptr_t)r / 64 % AM_STRIPES];
}

uint64_t am_vspace_n_mappings(void)
{
    uint64_t n = 0;

    for (unsigned i = 0; i < AM_STRIPES; i++)
        n += atomic_load_explicit(&am_vspace.stripe[i].n_mappings, memory_order_relaxed);
    return n;
}

void am_reservation_count(const struct am_reservation *r, int n)
{
    _Atomic uint64_t *count = &am_reservation_stripe(r)->n_mappings;
    uint64_t now = atomic_load_explicit(count, memory_order_relaxed);

    atomic_store_explicit(count, now + (uint64_t)n, memory_order_relaxed);
}

/* An address is taken out of the table under the lock of its reservation. */
AM_NO_LOCK_ANALYSIS struct am_reservation *am_reservation_lock(uintptr_t addr)
{
    for (;;) {
        struct am_reservation *r = am_reservation_find(addr);

        if (r == NULL)
            return NULL;
        am_lock(&am_reservation_stripe(r)->lock);
        if (am_reservation_find(addr) == r)
            return r;
        am_unlock(&am_reservation_stripe(r)->lock);
    }
}

AM_NO_LOCK_ANALYSIS void am_reservation_unlock(const struct am_reservation *r)
{
    am_unlock(&am_reservation_stripe(r)->lock);
}

struct am_reservation *am_reservation_meets_locked(uintptr_t addr, size_t size)
{
    struct am_reservation key = {.start = addr};
    struct am_reservation *next =
        RB_NFIND(am_reservations, &am_vspace.reservations, &key);
    struct am_reservation *before =
        next != NULL ? RB_PREV(am_reservations, &am_vspace.reservations, next)
                     : RB_MAX(am_reservations, &am_vspace.reservations);

    if (before != NULL && addr - before->start < before->size)
        return before;
    return next != NULL && next->start - addr < size ? next : NULL;
}

bool am_vspace_is_reserved(uintptr_t addr, size_t size, const struct am_owner **ret_owner)
{
    struct am_reservation *found;

    if (ret_owner != NULL)
        *ret_owner = NULL;
    if (size - 1 > UINTPTR_MAX - addr)
        return true; /* wraps around: no memory of any kind does */
    if (am_rangemap_is_empty(&am_vspace.ranges, addr, size))
        return false; /* most addresses are not ours: that is seen without a lock */
    am_lock(&am_vspace.lock);
    found = am_reservation_meets_locked(addr, size);
    if (found != NULL && ret_owner != NULL)
        *ret_owner = found->owner;
    am_unlock(&am_vspace.lock);
    return found != NULL;
}

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

static int reservation_enter_locked(struct am_reservation *r) AM_REQUIRES(am_vspace.lock)
{
    int rc = am_rangemap_prepare(&am_vspace.ranges, r->start, r->size);

    if (rc != 0)
        return rc;
    RB_INSERT(am_reservations, &am_vspace.reservations, r);
    am_vspace.n_reservations += r->owner == NULL;
    am_rangemap_set(&am_vspace.ranges, r->start, r->size, r);
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
    struct am_capture before = am_error_hush();
    aclError rc = reservation_release(r);

    am_error_capture_end(before);
    if (rc != ACL_SUCCESS)
        am_log(level, "%zu bytes of addresses at %p could not be released", r->size,
               (void *)r->start);
    return rc == ACL_SUCCESS;
}

/* Addresses of the backend's become a reservation, or are given back. */
static aclError reservation_enter(struct am_reservation *r)
{
    int rc;

    am_lock(&am_vspace.lock);
    rc = reservation_enter_locked(r);
    am_unlock(&am_vspace.lock);
    if (rc == 0)
        return ACL_SUCCESS;
    reservation_drop(r, AM_LOG_INFO);
    am_slab_give(&reservation_slab, r);
    return am_fail(ACL_ERROR_BAD_ALLOC,
                   "no host memory for the records of a reservation");
}

/* From the stock; false: the backend has to be asked. */
static bool reservation_cut(struct am_reservation *r, void *want, void **ret_addr)
{
    uintptr_t start;
    bool is_cut;

    am_lock(&am_vspace.lock);
    is_cut = am_region_cut_locked(r->backend, r->size, reservation_align(r->size), want,
                                  &r->start);
    start = r->start;
    r->is_from_region = is_cut;
    if (is_cut && reservation_enter_locked(r) != 0) {
        am_region_give_locked(start, r->size);
        is_cut = r->is_from_region = false;
    }
    am_unlock(&am_vspace.lock); /* from here on the library's stop may release it */
    if (is_cut)
        *ret_addr = (void *)start;
    return is_cut;
}

static aclError reserve(const struct am_owner *owner, size_t size, void *want,
                        uint64_t flags, void **ret_addr)
{
    const struct am_backend_ops *backend = am_setup.backend;
    struct am_reservation *r;
    void *addr;
    aclError rc;

    AM_REQUIRE(size <= (size_t)1 << AM_ADDRESS_BITS, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes of addresses: there are only 2^%d", size,
               AM_ADDRESS_BITS);
    size = am_align_up(size, AM_CHUNK);
    if (want != NULL)
        AM_TRY(want_check(want, size));

    r = am_slab_take(&reservation_slab);
    AM_REQUIRE(r != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of a reservation");
    *r = (struct am_reservation){
        .size = size, .flags = flags, .owner = owner, .backend = backend};
    if (owner == NULL && (backend->caps & AM_CAP_STOCK) &&
        reservation_cut(r, want, ret_addr))
        return ACL_SUCCESS;
    if (owner != NULL && want == NULL)
        rc = backend->reserve_own(size, reservation_align(size), &addr);
    else
        rc = backend->reserve(size, reservation_align(size), want, &addr);
    if (rc != ACL_SUCCESS) {
        am_slab_give(&reservation_slab, r);
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
    return reserve(NULL, size, want, flags, ret_addr);
}

aclError am_vspace_reserve_owned(const struct am_owner *owner, size_t size, void *want,
                                 void **ret_addr)
{
    return reserve(owner, size, want, 1, ret_addr);
}

aclError am_reservation_create(const struct am_owner *owner, bool is_pinned, size_t size,
                               struct am_reservation **ret_arena)
{
    const struct am_backend_ops *backend =
        is_pinned ? am_backend_find("host") : am_setup.backend;
    struct am_reservation *r = am_slab_take(&reservation_slab);
    void *addr;
    aclError rc;

    AM_REQUIRE(r != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of addresses");
    rc = backend->reserve_own(size, reservation_align(size), &addr);
    if (rc != ACL_SUCCESS) {
        am_slab_give(&reservation_slab, r);
        return rc;
    }
    *r = (struct am_reservation){.start = (uintptr_t)addr,
                                 .size = size,
                                 .n_mappings = 1,
                                 .owner = owner,
                                 .backend = backend,
                                 .is_arena = true,
                                 .is_pinned = is_pinned};
    rc = reservation_enter(r);
    if (rc == ACL_SUCCESS)
        *ret_arena = r;
    return rc;
}

/* Its lock is held as well. */
static void reservation_leave_locked(struct am_reservation *r) AM_REQUIRES(am_vspace.lock)
{
    am_rangemap_set(&am_vspace.ranges, r->start, r->size, NULL);
    RB_REMOVE(am_reservations, &am_vspace.reservations, r);
    am_vspace.n_reservations -= r->owner == NULL;
    if (r->is_from_region)
        am_region_give_locked(r->start, r->size);
    am_slab_give(&reservation_slab, r);
}

void am_reservation_destroy_locked(struct am_reservation *arena)
{
    struct am_lock *lock = &am_reservation_stripe(arena)->lock;

    am_lock(lock);
    reservation_drop(arena, AM_LOG_INFO);
    reservation_leave_locked(arena);
    am_unlock(lock);
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
    struct am_lock *lock;
    aclError rc;

    am_lock(&am_vspace.lock);
    r = am_reservation_find((uintptr_t)addr);
    if (r == NULL) {
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID, "%p is not reserved", addr);
    } else {
        lock = &am_reservation_stripe(r)->lock;
        am_lock(lock);
        rc = release_checked_locked(r, addr);
        am_unlock(lock);
    }
    am_unlock(&am_vspace.lock);
    return rc;
}

void am_vspace_release_owned(void *addr)
{
    struct am_reservation *r;
    struct am_lock *lock;

    am_lock(&am_vspace.lock);
    r = am_reservation_find((uintptr_t)addr);
    lock = &am_reservation_stripe(r)->lock;
    am_lock(lock);
    am_assert(r != NULL && r->start == (uintptr_t)addr && r->n_mappings == 0);
    r->is_unreleased = !reservation_drop(r, AM_LOG_WARN);
    if (!r->is_unreleased)
        reservation_leave_locked(r);
    am_unlock(lock);
    am_unlock(&am_vspace.lock);
}

/* The library stops: the reservation goes, unless a thread still needs it. */
static void release_last_locked(struct am_reservation *r) AM_REQUIRES(am_vspace.lock)
{
    struct am_lock *lock = &am_reservation_stripe(r)->lock;

    am_lock(lock);
    /* Work in flight, or a host view, still uses memory of a heap there. */
    r->is_orphan = r->is_arena && r->n_mappings > 0;
    /* A thread is in a call about it, or was about to make it: it ends there. */
    if (!r->is_orphan && (r->owner == NULL || r->is_arena || r->is_unreleased)) {
        am_assert(r->n_mappings == 0);
        if (reservation_drop(r, AM_LOG_WARN))
            reservation_leave_locked(r);
    }
    am_unlock(lock);
}

void am_vspace_release_all(void)
{
    struct am_reservation *r;
    struct am_reservation *next;

    am_lock(&am_vspace.lock);
    am_arena_forget_locked();
    RB_FOREACH_SAFE (r, am_reservations, &am_vspace.reservations, next)
        release_last_locked(r);
    am_region_release_locked();
    am_unlock(&am_vspace.lock);
}
