/* Stream-ordered pools; their blocks are in mempool_blocks.c.  See mempool.h. */
#include "core/pool/mempool.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/device/setup.h"
#include "core/pool/mempool_pool.h"

static struct am_lock pools_lock = AM_LOCK_INIT(AM_RANK_LEAF, "pools");
/* pools_lock; the newest first */
static LIST_HEAD(, am_pool) pools = LIST_HEAD_INITIALIZER(pools);
static uint64_t last_serial; /* pools_lock */
static _Atomic uint64_t n_pools;

void am_pool_put(struct am_pool *pool)
{
    if (!am_ref_drop(&pool->named.refs))
        return;
    am_backing_close(&pool->backing);
    am_ranges_destroy(&pool->ranges);
    am_lock_destroy(&pool->lock);
    am_named_free(&pool->named);
}

aclError am_pool_get(void *handle, struct am_pool **ret_pool)
{
    *ret_pool = am_named_get(AM_KIND_POOL, handle);
    AM_REQUIRE(*ret_pool != NULL, ACL_ERROR_RT_INVALID_HANDLE, "memPool %p %s", handle,
               am_handle_why(AM_KIND_POOL, handle));
    return ACL_SUCCESS;
}

struct am_pool *am_pool_get_by_address(uintptr_t addr)
{
    struct am_pool *pool;

    am_lock(&pools_lock);
    LIST_FOREACH (pool, &pools, all) {
        if (addr - pool->backing.base < pool->backing.n_chunks << AM_CHUNK_SHIFT)
            break;
    }
    if (pool != NULL)
        am_ref_more(&pool->named.refs); /* being listed is a reference */
    am_unlock(&pools_lock);
    return pool;
}

/*
 * The newest pool of the device that is older than this serial number, with one more
 * reference, or NULL.  Each walk comes by all pools that are there all the time, whoever
 * else walks.
 */
static struct am_pool *pool_get_older(int32_t device, uint64_t serial)
{
    struct am_pool *pool;

    am_lock(&pools_lock);
    LIST_FOREACH (pool, &pools, all) {
        if (pool->device == device && pool->serial < serial)
            break;
    }
    if (pool != NULL)
        am_ref_more(&pool->named.refs);
    am_unlock(&pools_lock);
    return pool;
}

/* What copies ask: the block that an address lies in. */
static bool block_find(uintptr_t addr, struct am_bounds *ret_bounds)
{
    struct am_pool *pool = am_pool_get_by_address(addr);
    struct am_range *range;
    bool is_live;

    if (pool == NULL)
        return false;
    am_lock(&pool->lock);
    range = am_ranges_find(&pool->ranges, addr - pool->backing.base);
    is_live = range->is_live;
    if (is_live)
        *ret_bounds = am_bounds_of(pool->backing.base + range->start, range->asked,
                                   range->size, am_setup.is_strict);
    am_unlock(&pool->lock);
    am_pool_put(pool);
    return is_live;
}

/* Whether the range lies in a block whose free is queued and has not had its turn. */
static bool block_is_leaving(uintptr_t addr, size_t size)
{
    struct am_pool *pool = am_pool_get_by_address(addr);
    struct am_freeing *freeing;
    size_t at;

    if (pool == NULL)
        return false;
    at = addr - pool->backing.base;
    am_lock(&pool->lock);
    LIST_FOREACH (freeing, &pool->leaving, leaving) {
        if (at >= freeing->start && at - freeing->start < freeing->size &&
            size <= freeing->size - (at - freeing->start))
            break;
    }
    am_unlock(&pool->lock);
    am_pool_put(pool);
    return freeing != NULL;
}

static const struct am_owner pool_owner = {
    .name = "a memory pool", .find_block = block_find, .is_leaving = block_is_leaving};

/*
 * Addresses for a pool: twice its size, since blocks of many sizes leave holes between
 * them.
 */
static aclError pool_open(struct am_pool *pool)
{
    struct am_device *device;
    size_t size;

    AM_TRY(am_device_find(pool->device, &device));
    AM_REQUIRE(pool->max_size <= SIZE_MAX / 4, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes of addresses for a pool", pool->max_size);
    size = 2 * am_align_up(pool->max_size, AM_CHUNK);
    AM_TRY(am_backing_open(&pool->backing, &pool_owner, size, device));
    if (am_ranges_init(&pool->ranges, size) != 0) {
        am_backing_close(&pool->backing);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a pool");
    }
    LIST_INIT(&pool->leaving);
    am_lock_init(&pool->lock, AM_RANK_POOL, "pool");
    return ACL_SUCCESS;
}

aclError am_pool_create(int32_t device, size_t max_size, void **ret_handle)
{
    struct am_pool *pool = am_named_alloc(AM_KIND_POOL, sizeof *pool);
    void *handle;
    aclError rc;

    if (pool == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a pool");
    pool->device = device;
    pool->max_size =
        max_size > SIZE_MAX / 4 ? max_size : am_align_up(max_size, AM_POOL_ALIGN);
    pool->reuse = AM_REUSE_ALL;
    rc = pool_open(pool);
    if (rc != ACL_SUCCESS) {
        am_named_free(&pool->named);
        return rc;
    }
    pool->named.refs = 1;
    handle = pool->handle = am_named_publish(&pool->named);
    am_lock(&pools_lock);
    pool->serial = ++last_serial;
    LIST_INSERT_HEAD(&pools, pool, all);
    pool->is_listed = true;
    am_unlock(&pools_lock); /* from here on a reset or a stop may end the pool */
    n_pools++;
    *ret_handle = handle;
    return ACL_SUCCESS;
}

static void unlist_locked(struct am_pool *pool) AM_REQUIRES(pool->lock)
{
    am_lock(&pools_lock);
    LIST_REMOVE(pool, all);
    am_unlock(&pools_lock);
    pool->is_listed = false;
    n_pools--;
}

bool am_pool_unlist_locked(struct am_pool *pool)
{
    if (!pool->is_dead || !pool->is_listed || !LIST_EMPTY(&pool->leaving))
        return false;
    unlist_locked(pool);
    return true;
}

static aclError pool_die(struct am_pool *pool, bool is_forced)
{
    bool is_unlisted = false;
    aclError rc = ACL_SUCCESS;

    am_lock(&pool->lock);
    if (pool->is_dead)
        rc =
            am_fail(ACL_ERROR_RT_INVALID_HANDLE, "memPool %p is not alive", pool->handle);
    else if (pool->ranges.n_live > 0 && !is_forced)
        rc = am_fail(
            ACL_ERROR_RT_PARAM_INVALID,
            "memPool %p still has %zu blocks, %zu bytes; call aclrtMemPoolFreeAsync for "
            "each first",
            pool->handle, pool->ranges.n_live, pool->ranges.live);
    else
        pool->is_dead = true;
    if (rc == ACL_SUCCESS)
        am_named_unpublish(&pool->named);
    if (pool->is_dead && pool->is_listed && is_forced) {
        unlist_locked(pool);
        is_unlisted = true;
    } else {
        is_unlisted = am_pool_unlist_locked(pool);
    }
    am_unlock(&pool->lock);
    if (is_unlisted)
        am_pool_put(pool); /* the caller has one more */
    return rc;
}

aclError am_pool_destroy(void *handle)
{
    struct am_pool *pool;
    aclError rc;

    AM_TRY(am_pool_get(handle, &pool));
    rc = pool_die(pool, false);
    am_pool_put(pool);
    return rc;
}

void am_pool_kill_all(int32_t device)
{
    uint64_t serial = UINT64_MAX;
    struct am_pool *pool;

    while ((pool = pool_get_older(device, serial)) != NULL) {
        serial = pool->serial;
        pool_die(pool, true);
        am_pool_put(pool);
    }
}

aclError am_pool_trim(void *handle, size_t keep)
{
    struct am_pool *pool;

    AM_TRY(am_pool_get(handle, &pool));
    am_lock(&pool->lock);
    am_pool_shrink_locked(pool, am_pool_chunks(keep));
    am_unlock(&pool->lock);
    am_pool_put(pool);
    return ACL_SUCCESS;
}

void am_pool_synced(int32_t device, int32_t stream)
{
    uint64_t serial = UINT64_MAX;
    struct am_pool *pool;

    if (n_pools == 0)
        return;
    while ((pool = pool_get_older(device, serial)) != NULL) {
        serial = pool->serial;
        am_lock(&pool->lock);
        /* The program knows that it is free now, whatever the switches say. */
        am_ranges_open(&pool->ranges, stream);
        am_pool_shrink_locked(pool, am_pool_chunks(pool->threshold));
        am_unlock(&pool->lock);
        am_pool_put(pool);
    }
}

/* The AM_REUSE_* bit of one of the three switches. */
static unsigned reuse_bit(aclrtMemPoolAttr attr)
{
    return 1u << (attr - ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES);
}

static uint64_t reserved_locked(const struct am_pool *pool) AM_REQUIRES(pool->lock)
{
    return (uint64_t)pool->backing.n_backed << AM_CHUNK_SHIFT;
}

static uint64_t attr_get_locked(const struct am_pool *pool, aclrtMemPoolAttr attr)
    AM_REQUIRES(pool->lock)
{
    switch (attr) {
    case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
        return pool->threshold;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
        return reserved_locked(pool);
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
        return pool->reserved_high;
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
        return pool->ranges.live;
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
        return pool->used_high;
    default: /* the three switches */
        return (pool->reuse & reuse_bit(attr)) != 0;
    }
}

aclError am_pool_get_attr(void *handle, aclrtMemPoolAttr attr, uint64_t *ret_value)
{
    struct am_pool *pool;

    AM_TRY(am_pool_get(handle, &pool));
    am_lock(&pool->lock);
    *ret_value = attr_get_locked(pool, attr);
    am_unlock(&pool->lock);
    am_pool_put(pool);
    return ACL_SUCCESS;
}

aclError am_pool_set_attr(void *handle, aclrtMemPoolAttr attr, uint64_t value)
{
    struct am_pool *pool;

    AM_TRY(am_pool_get(handle, &pool));
    am_lock(&pool->lock);
    if (attr == ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = value;
    else if (attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH)
        pool->reserved_high = reserved_locked(pool);
    else if (attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH)
        pool->used_high = pool->ranges.live;
    else if (value != 0)
        pool->reuse |= reuse_bit(attr);
    else
        pool->reuse &= ~reuse_bit(attr);
    am_unlock(&pool->lock);
    am_pool_put(pool);
    return ACL_SUCCESS;
}
