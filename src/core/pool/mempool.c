/* Stream-ordered pools; their blocks are in mempool_blocks.c.  See mempool.h. */
#include "core/pool/mempool.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/pool/mempool_pool.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

static struct am_lock pools_lock = AM_LOCK_INIT(AM_RANK_LEAF, "pools");
/* pools_lock; the newest first */
static LIST_HEAD(, am_pool) pools = LIST_HEAD_INITIALIZER(pools);
static uint64_t last_serial; /* pools_lock */
static _Atomic uint64_t n_pools;

static const struct am_owner pool_owner;

void am_pool_put(struct am_pool *pool)
{
    if (!am_ref_drop(&pool->named.refs))
        return;
    am_fit_destroy(pool->fit);
    am_domain_put(pool->domain);
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
    struct am_reservation *r = am_address_find(&am_vspace.reservations, addr);
    struct am_pool *pool = r != NULL && r->owner == &pool_owner ? r->owner_data : NULL;

    return pool != NULL && pool->is_listed && am_ref_try(&pool->named.refs) ? pool : NULL;
}

/*
 * The newest pool of the device that is older than this serial number, with one more
 * reference, or NULL.  A walk includes every pool that exists during the whole walk.
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

/* For copies: the block that an address lies in. */
static bool block_find(uintptr_t addr, struct am_bounds *ret_bounds)
{
    struct am_pool *pool = am_pool_get_by_address(addr);
    struct am_pool_block *block;

    if (pool == NULL)
        return false;
    am_lock(&pool->lock);
    block = am_pool_block_find_locked(pool, addr);
    if (block != NULL)
        *ret_bounds =
            am_bounds_of(block->start, block->asked, block->size, am_setup.is_strict);
    am_unlock(&pool->lock);
    am_pool_put(pool);
    return block != NULL;
}

static bool freeing_has(const struct am_pool_stream *stream, uintptr_t addr, size_t size)
{
    const struct am_freeing *freeing;

    TAILQ_FOREACH (freeing, &stream->frees, link) {
        size_t at = addr - freeing->start;

        if (at < freeing->size && size <= freeing->size - at)
            return true;
    }
    return false;
}

/* Whether the range lies in a block whose free is queued and not done. */
static bool block_is_leaving(uintptr_t addr, size_t size)
{
    struct am_pool *pool = am_pool_get_by_address(addr);
    bool is_leaving = false;

    if (pool == NULL)
        return false;
    am_lock(&pool->lock);
    for (unsigned i = 0; i < AM_FIT_STREAMS && !is_leaving; i++)
        is_leaving = freeing_has(&pool->streams[i], addr, size);
    am_unlock(&pool->lock);
    am_pool_put(pool);
    return is_leaving;
}

static const struct am_owner pool_owner = {
    .name = "a memory pool", .find_block = block_find, .is_leaving = block_is_leaving};

/* ---- the operations of the engine ---- */

static int pool_reserve(void *ctx, uint64_t size, uint64_t *ret_base)
{
    void *base;
    aclError rc = am_vspace_reserve_owned(&pool_owner, ctx, size, NULL, &base);

    if (rc == ACL_SUCCESS)
        *ret_base = (uintptr_t)base;
    return rc;
}

static void pool_release(void *ctx, uint64_t base, uint64_t size)
{
    am_vspace_release_owned((void *)base);
}

static int pool_frame_create(void *ctx, void **ret_frame)
{
    const struct am_pool *pool = ctx;
    const aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE, .id = (uint32_t)pool->device},
    };

    return am_phys_create_owned(AM_CHUNK, &prop, pool->domain,
                                (struct am_phys **)ret_frame);
}

static void pool_frame_destroy(void *ctx, void *frame)
{
    am_phys_put(frame);
}

/* Without access: block_open_locked() gives it to all pages of a block in one call. */
static int pool_map(void *ctx, uint64_t addr, void *frame)
{
    struct am_pool *pool = ctx;

    pool->has_closed = true;
    return am_vspace_map_owned((void *)addr, frame, false);
}

static int pool_unmap(void *ctx, uint64_t addr, void *frame)
{
    const struct am_pool *pool = ctx;

    return am_vspace_unmap_owned((void *)addr, pool->named.refs == 0);
}

static const struct am_fit_ops pool_fit_ops = {
    .reserve = pool_reserve,
    .release = pool_release,
    .create = pool_frame_create,
    .destroy = pool_frame_destroy,
    .map = pool_map,
    .unmap = pool_unmap,
    .pending = am_pool_pending,
};

/* ---- create and destroy ---- */

static aclError pool_open(struct am_pool *pool)
{
    struct am_device *device;
    struct am_fit_config config = {
        .page = AM_CHUNK,
        .unit = AM_POOL_ALIGN,
        .max_pages = am_pool_chunks(pool->max_size),
        .extra = sizeof(struct am_pool_block),
        .slack = UINT64_MAX, /* the call does not wait for streams */
    };

    AM_TRY(am_device_find(pool->device, &device));
    AM_REQUIRE(pool->max_size <= (size_t)1 << (AM_ADDRESS_BITS - 1),
               ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes of addresses for a pool", pool->max_size);
    /* Blocks of many sizes leave holes between them. */
    config.span = 2 * am_align_up(pool->max_size, AM_CHUNK);
    pool->domain = device->domain;
    AM_REQUIRE(pool->domain != NULL, ACL_ERROR_UNINITIALIZE,
               "aclFinalize has been called");
    am_ref_more(&pool->domain->refs); /* it exists in this read section */
    pool->fit = am_fit_create(&config, &pool_fit_ops, pool);
    if (pool->fit == NULL) {
        am_domain_put(pool->domain);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for a pool");
    }
    for (unsigned i = 0; i < AM_FIT_STREAMS; i++) {
        TAILQ_INIT(&pool->streams[i].frees);
        pool->streams[i].id = -1;
        pool->streams[i].first_unsynced = UINT64_MAX;
    }
    RB_INIT(&pool->blocks);
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

bool am_pool_unlist_locked(struct am_pool *pool, bool is_forced)
{
    if (!pool->is_dead || !pool->is_listed || (pool->n_freeing > 0 && !is_forced))
        return false;
    am_lock(&pools_lock);
    LIST_REMOVE(pool, all);
    am_unlock(&pools_lock);
    pool->is_listed = false;
    n_pools--;
    return true;
}

static aclError pool_die(struct am_pool *pool, bool is_forced)
{
    bool is_unlisted;
    aclError rc = ACL_SUCCESS;
    uint64_t live, n_live;

    am_lock(&pool->lock);
    live = am_pool_live(pool, &n_live);
    if (pool->is_dead)
        rc =
            am_fail(ACL_ERROR_RT_INVALID_HANDLE, "memPool %p is not alive", pool->handle);
    else if (n_live > 0 && !is_forced)
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "memPool %p still has %llu blocks, %llu bytes; call "
                     "aclrtMemPoolFreeAsync for "
                     "each first",
                     pool->handle, (unsigned long long)n_live, (unsigned long long)live);
    else
        pool->is_dead = true;
    if (rc == ACL_SUCCESS)
        am_named_unpublish(&pool->named);
    is_unlisted = am_pool_unlist_locked(pool, is_forced);
    am_unlock(&pool->lock);
    if (is_unlisted)
        am_pool_put(pool); /* the caller has one more */
    return rc;
}

aclError am_pool_destroy(struct am_pool *pool)
{
    return pool_die(pool, false);
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

void am_pool_trim(struct am_pool *pool, size_t keep)
{
    am_lock(&pool->lock);
    am_pool_shrink_locked(pool, am_pool_chunks(keep));
    am_unlock(&pool->lock);
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
        am_pool_stream_synced_locked(pool, stream);
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

static uint64_t attr_get_locked(const struct am_pool *pool, aclrtMemPoolAttr attr)
    AM_REQUIRES(pool->lock)
{
    switch (attr) {
    case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
        return pool->threshold;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
        return am_pool_reserved(pool);
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
        return pool->reserved_high;
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
        return am_pool_live(pool, NULL);
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
        return pool->used_high;
    default: /* the three switches */
        return (pool->reuse & reuse_bit(attr)) != 0;
    }
}

uint64_t am_pool_get_attr(struct am_pool *pool, aclrtMemPoolAttr attr)
{
    return AM_LOCKED(&pool->lock, attr_get_locked(pool, attr));
}

void am_pool_set_attr(struct am_pool *pool, aclrtMemPoolAttr attr, uint64_t value)
{
    am_lock(&pool->lock);
    if (attr == ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = value;
    else if (attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH)
        pool->reserved_high = am_pool_reserved(pool);
    else if (attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH)
        pool->used_high = am_pool_live(pool, NULL);
    else if (value != 0)
        pool->reuse |= reuse_bit(attr);
    else
        pool->reuse &= ~reuse_bit(attr);
    am_unlock(&pool->lock);
}
