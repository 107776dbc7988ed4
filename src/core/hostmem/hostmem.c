/* See hostmem.h. */
#include "core/hostmem/hostmem.h"

#include <bsd/sys/tree.h>
#include <errno.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/maps.h"
#include "base/sys.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/heap/heap.h"
#include "core/stream/cond.h"
#include "core/stream/stream.h"
#include "core/stream/wait.h"
#include "core/vmm/vspace.h"

struct am_registered {
    RB_ENTRY(am_registered) node;
    uintptr_t start;
    size_t size;
    unsigned flags;
    const struct am_backend_ops *backend; /* the backend that locked it */
    bool is_ending;   /* registered_lock, as the next one: no new work finds it */
    bool is_over;     /* it is unregistered, though work may still use it */
    atomic_uint refs; /* pieces of work, and the tree; registered_lock to change */
};

RB_HEAD(registered_tree, am_registered);

/* One thread registers memory at a time; a thread that frees memory waits for it. */
static struct am_lock register_lock = AM_LOCK_INIT(AM_RANK_POOL, "registering");
static struct am_lock registered_lock = AM_LOCK_INIT(AM_RANK_LEAF, "registered");
static struct registered_tree registered = RB_INITIALIZER(NULL); /* registered_lock */
static atomic_size_t n_registered; /* most programs have none, and no lock to take */
static pthread_cond_t unused;      /* sched.lock; one that ends is no longer used */
static pthread_once_t unused_once = PTHREAD_ONCE_INIT;

/* Ranges that overlap are equal, so a search finds whatever a range touches. */
static int registered_compare(struct am_registered *a, struct am_registered *b)
{
    if (a->start < b->start)
        return b->start - a->start >= a->size ? -1 : 0;
    return a->start - b->start >= b->size ? 1 : 0;
}

RB_GENERATE_INTERNAL(registered_tree, am_registered, node, registered_compare,
                     __attribute__((unused)) static)

aclError am_host_malloc(size_t size, unsigned module, int32_t device, void **ret_addr)
{
    bool is_rc = (am_setup.product->features & AM_PRODUCT_RC) != 0;
    int32_t current = -1;

    /*
     * The documents set the device first; that it is needed in EP form too, none of them
     * says.
     */
    AM_REQUIRE(is_rc || device >= 0 || !am_setup.is_strict || am_current_find() != NULL,
               ACL_ERROR_RT_CONTEXT_NULL,
               "this thread has no device, which all editions require; call "
               "aclrtSetDevice or aclrtSetCurrentContext first (ACLMEM_RULES=strict)");
    if (is_rc || device >= 0 || am_setup.is_strict)
        AM_TRY(am_context_device(&current));
    AM_REQUIRE(device < 0 || device == current, ACL_ERROR_RT_PARAM_INVALID,
               "the attribute DEVICE_ID is %d but the current device is %d", device,
               current);
    return am_heap_malloc(am_heap_of(is_rc ? current : -1, AM_HEAP_HOST), size, 0, 4096,
                          module, ret_addr);
}

static struct am_registered *registered_find_locked(const void *addr, size_t size)
    AM_REQUIRES(registered_lock)
{
    struct am_registered key = {.start = (uintptr_t)addr, .size = size};

    return RB_FIND(registered_tree, &registered, &key);
}

/* The one that addr lies in, unless it ends. */
static struct am_registered *alive_find_locked(const void *addr)
    AM_REQUIRES(registered_lock)
{
    struct am_registered *r = registered_find_locked(addr, 1);

    return r != NULL && !r->is_ending ? r : NULL;
}

static void registered_remove_locked(struct am_registered *r) AM_REQUIRES(registered_lock)
{
    RB_REMOVE(registered_tree, &registered, r);
    n_registered--;
}

/* The first one in the range; one that is being unregistered ends by itself. */
static struct am_registered *range_first_locked(uintptr_t start, size_t size)
    AM_REQUIRES(registered_lock)
{
    struct am_registered range = {.start = start, .size = size};
    struct am_registered low = {.start = start, .size = 1};
    struct am_registered *r = RB_NFIND(registered_tree, &registered, &low);

    while (r != NULL && registered_compare(&range, r) == 0) {
        if (!r->is_ending)
            return r;
        r->is_over = true;
        r = RB_NEXT(registered_tree, &registered, r);
    }
    return NULL;
}

/* All that is registered in the range is no longer. */
static void range_unregister(const void *addr, size_t size)
{
    struct am_registered *r;

    am_lock(&register_lock);
    do {
        am_lock(&registered_lock);
        r = range_first_locked((uintptr_t)addr, size);
        if (r != NULL)
            registered_remove_locked(r);
        am_unlock(&registered_lock);
        if (r != NULL)
            am_registered_put(r);
    } while (r != NULL);
    am_unlock(&register_lock);
}

void am_host_unregister_all(void)
{
    range_unregister(NULL, SIZE_MAX);
}

/* The block of aclrtMallocHost that starts at addr. */
static bool pinned_block_find(const void *addr, struct am_block_info *ret_info)
{
    return am_heap_find(addr, ret_info) && ret_info->kind == AM_HEAP_HOST &&
           ret_info->bounds.start == (uintptr_t)addr;
}

aclError am_host_free(void *addr)
{
    struct am_block_info info;

    /* First, and only what will be freed: a freed block may be another thread's at once. */
    if (n_registered > 0 && pinned_block_find(addr, &info))
        range_unregister(addr, info.bounds.size);
    return am_heap_free(AM_HEAP_HOST, addr);
}

/*
 * Host memory of the library, by one address: a pinned block or a mapping of host
 * memory.
 */
static bool is_ours_on_host(const void *addr, size_t size)
{
    struct am_block_info info;
    const struct am_mapping *mapping;
    uintptr_t at = (uintptr_t)addr;

    if (am_heap_find(addr, &info))
        return info.kind == AM_HEAP_HOST &&
               size <= info.bounds.size - (at - info.bounds.start);
    while (size > 0) {
        size_t left;

        mapping = am_mapping_find(at);
        if (mapping == NULL || mapping->owner != NULL || mapping->device >= 0)
            return false;
        left = mapping->size - (at - mapping->start);
        at += left;
        size = size > left ? size - left : 0;
    }
    return true;
}

/* Whether memory of this kind can be registered this way. */
static aclError memory_check(const void *addr, size_t size, unsigned flags)
{
    int rc;

    if (am_vspace_is_reserved((uintptr_t)addr, size, NULL)) {
        AM_REQUIRE(is_ours_on_host(addr, size), ACL_ERROR_RT_PARAM_INVALID,
                   "%zu bytes at %p are not host memory, or exceed the allocation there",
                   size, addr);
        AM_REQUIRE((flags & AM_HOST_PINNED) == 0, ACL_ERROR_RT_PARAM_INVALID,
                   "the memory at %p is pinned already; PINNED is for pageable memory",
                   addr);
        return ACL_SUCCESS;
    }
    rc = am_maps_check((uintptr_t)addr, size, AM_MAPS_READ | AM_MAPS_WRITE);
    AM_REQUIRE(rc != -EFAULT, ACL_ERROR_RT_PARAM_INVALID,
               "nothing is mapped at some of the %zu bytes at %p", size, addr);
    AM_REQUIRE(rc != -EACCES, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
               "the program may not write to some of the %zu bytes at %p: read-only "
               "memory cannot "
               "be registered",
               size, addr);
    return ACL_SUCCESS;
}

/* Fails when some of the range is registered. */
static aclError overlap_check(const void *addr, size_t size)
{
    struct am_registered found = {0};
    struct am_registered *other;

    am_lock(&registered_lock);
    other = registered_find_locked(addr, size);
    if (other != NULL)
        found = *other;
    am_unlock(&registered_lock);
    AM_REQUIRE(other == NULL, ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
               "%zu bytes at %p overlap the %zu bytes that are already registered at %p",
               size, addr, found.size, (void *)found.start);
    return ACL_SUCCESS;
}

static aclError register_locked(struct am_registered *r) AM_REQUIRES(register_lock)
{
    void *addr = (void *)r->start;

    AM_TRY(memory_check(addr, r->size, r->flags));
    AM_TRY(overlap_check(addr, r->size));
    if (r->flags & AM_HOST_PINNED)
        AM_TRY(r->backend->pin(addr, r->size, am_setup.is_strict));
    am_lock(&registered_lock);
    RB_INSERT(registered_tree, &registered, r);
    am_unlock(&registered_lock);
    return ACL_SUCCESS;
}

aclError am_host_register(void *addr, size_t size, unsigned flags)
{
    struct am_block_info info;
    struct am_registered *r;
    aclError rc;

    /* Small pinned blocks share a page here; on a device each has pages to itself. */
    AM_REQUIRE(am_is_aligned((uintptr_t)addr, 4096) || pinned_block_find(addr, &info),
               ACL_ERROR_RT_ADDR_UNALIGNED,
               "ptr %p is neither a multiple of 4096 nor a block of aclrtMallocHost",
               addr);
    r = am_sys_calloc(1, sizeof *r);
    AM_REQUIRE(r != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory for the records of registered memory");
    r->start = (uintptr_t)addr;
    r->size = size;
    r->flags = flags;
    r->backend = am_setup.backend;
    r->refs = 1;
    am_lock(&register_lock);
    n_registered++; /* a thread that frees the memory waits from here on */
    rc = register_locked(r);
    n_registered -= rc != ACL_SUCCESS;
    am_unlock(&register_lock);
    if (rc != ACL_SUCCESS)
        free(r);
    return rc;
}

static void unused_init(void)
{
    am_cond_init(&unused);
}

static bool is_unused(void *r)
{
    return ((const struct am_registered *)r)->refs == 1;
}

/* Devices are polled: only then it is known that they are done with the memory. */
static bool streams_poll(void *r, bool may_block)
{
    return !am_stream_collect_all();
}

/* A task that runs or is ready ends by itself, however long it takes. */
static bool work_goes_on(void *r, const struct am_stall *stall)
{
    return !am_stream_collect_all() || am_sched_is_active(&am_sched, stall->n_completed);
}

static bool give_up(void *r)
{
    return true;
}

/*
 * Waits until no work uses it.  False: work still uses it, and no stream has made progress
 * for five seconds.
 */
static bool registered_wait(struct am_registered *r)
{
    struct am_wait wait = {
        .sched = &am_sched,
        .changed = &unused,
        .what = r,
        .is_done = is_unused,
        .poll = streams_poll,
        .can_end = work_goes_on,
        .stalled = give_up,
    };

    pthread_once(&unused_once, unused_init);
    return AM_LOCKED(&registered_lock,
                     am_wait_locked(&registered_lock, &wait, AM_FOREVER) == 0);
}

/* Ends one that no new work can find any more, or lets it be found again. */
static aclError registered_leave(struct am_registered *r)
{
    void *addr = (void *)r->start;
    bool is_over = registered_wait(r);

    am_lock(&registered_lock);
    is_over = is_over || r->is_over;
    if (is_over)
        registered_remove_locked(r);
    r->is_ending = is_over;
    am_unlock(&registered_lock);
    AM_REQUIRE(is_over, ACL_ERROR_RT_PARAM_INVALID,
               "queued work of streams still uses the memory registered at %p, and none "
               "of it completed for %d seconds; synchronise or abort the streams first",
               addr, (int)(AM_STALL_TIMEOUT / AM_SECOND));
    am_registered_put(r); /* its last use ends it */
    return ACL_SUCCESS;
}

aclError am_host_unregister(void *addr)
{
    struct am_registered *r;
    uintptr_t start = 0;

    am_lock(&registered_lock);
    r = alive_find_locked(addr);
    if (r != NULL) {
        start = r->start;
        r->is_ending = start == (uintptr_t)addr;
    }
    am_unlock(&registered_lock);
    AM_REQUIRE(r != NULL, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "%p is not registered",
               addr);
    AM_REQUIRE(start == (uintptr_t)addr, ACL_ERROR_RT_PARAM_INVALID,
               "%p lies inside the memory registered at %p; pass its start", addr,
               (void *)start);
    return registered_leave(r);
}

struct am_registered *am_registered_get(const void *addr, size_t size)
{
    struct am_registered *r;

    if (n_registered == 0)
        return NULL;
    am_lock(&registered_lock);
    r = alive_find_locked(addr);
    if (r == NULL || size > r->size - ((uintptr_t)addr - r->start))
        r = NULL;
    else
        r->refs++;
    am_unlock(&registered_lock);
    return r;
}

void am_registered_put(struct am_registered *r)
{
    bool is_last;

    am_lock(&registered_lock);
    is_last = --r->refs == 0;
    if (r->refs == 1 && r->is_ending)
        pthread_cond_broadcast(&unused);
    am_unlock(&registered_lock);
    if (!is_last)
        return;
    if (r->flags & AM_HOST_PINNED)
        r->backend->unpin((void *)r->start, r->size);
    free(r);
}

/* The flags of what is registered at addr; 0: nothing is. */
static unsigned registered_flags(const void *addr)
{
    struct am_registered *r;
    unsigned flags = 0;

    if (n_registered == 0)
        return 0;
    am_lock(&registered_lock);
    r = alive_find_locked(addr);
    if (r != NULL)
        flags = r->flags;
    am_unlock(&registered_lock);
    return flags;
}

aclError am_host_device_pointer(void *addr, void **ret_addr)
{
    unsigned flags = registered_flags(addr);

    AM_REQUIRE(flags != 0, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, "%p is not registered",
               addr);
    AM_REQUIRE(flags & AM_HOST_MAPPED, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED,
               "the memory at %p was registered without ACL_HOST_REG_MAPPED", addr);
    *ret_addr = addr;
    return ACL_SUCCESS;
}

bool am_host_is_registered(const void *addr)
{
    return registered_flags(addr) != 0;
}
