/*
 * Sleep and wake: blocks without memory, whose addresses stay.
 *
 * Contents are copied to the host for all blocks first, so that a copy that fails changes nothing.
 * Pages that an awake block touches too keep their memory; the bytes of the sleeping one in them
 * are restored all the same.
 */
#include "base/sys.h"
#include "pool/internal.h"

/* The next block after this one with the tag, in the state. */
static struct pool_block *next_tagged(aclmem_pool *pool, struct pool_block *block,
                                      uint32_t tag, enum block_state state)
{
    struct am_fit_block *place =
        am_fit_next(pool->fit, block != NULL ? block->place : NULL);

    for (; place != NULL; place = am_fit_next(pool->fit, place)) {
        struct pool_use use;

        block = am_fit_extra(place);
        use = pool_use_of(pool, block);
        if ((tag == ACLMEM_POOL_ALL_TAGS || use.tag == tag) && use.state == (int)state)
            return block;
    }
    return NULL;
}

/* The next block that was taken for sleep, and still has its memory. */
static struct pool_block *next_taken(aclmem_pool *pool, struct pool_block *block)
{
    do
        block = next_tagged(pool, block, ACLMEM_POOL_ALL_TAGS, BLOCK_ASLEEP);
    while (block != NULL && am_fit_is_asleep(block->place));
    return block;
}

static aclError save_locked(aclmem_pool *pool)
{
    struct pool_block *block = NULL;

    while ((block = next_taken(pool, block)) != NULL) {
        aclError rc;

        block->saved = am_sys_malloc(block->asked);
        if (block->saved == NULL)
            return pool_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                             "no host memory for the contents of %zu bytes",
                             block->asked);
        rc = aclrtMemcpy(block->saved, block->asked, (void *)block->addr, block->asked,
                         ACL_MEMCPY_DEVICE_TO_HOST);
        if (rc != ACL_SUCCESS)
            return pool_fail(rc, "a block of %zu bytes could not be copied to the host",
                             block->asked);
    }
    return ACL_SUCCESS;
}

/* No block that was taken goes to sleep. */
static void untake_locked(aclmem_pool *pool)
{
    struct pool_block *block = NULL;

    while ((block = next_taken(pool, block)) != NULL) {
        int asleep = BLOCK_ASLEEP;

        free(block->saved);
        block->saved = NULL;
        atomic_compare_exchange_strong(&block->state, &asleep, BLOCK_LIVE);
    }
}

static aclError sleep_locked(aclmem_pool *pool, uint32_t tag, bool has_contents)
{
    struct pool_block *block = NULL;
    struct am_fit_use wait;
    aclError rc = ACL_SUCCESS;

    /* A thread that frees a block that was taken waits for the pool's lock. */
    while ((block = next_tagged(pool, block, tag, BLOCK_LIVE)) != NULL)
        pool_sleep_take(pool, block, tag);
    if (has_contents)
        rc = save_locked(pool);
    if (rc != ACL_SUCCESS) {
        untake_locked(pool);
        return rc;
    }
    while ((block = next_taken(pool, block)) != NULL) {
        int failed;

        pool->asleep += block->size;
        failed = am_fit_sleep(pool->fit, block->place);
        if (failed != 0 && rc == ACL_SUCCESS)
            rc = pool_fail(failed, "a page of a sleeping block could not be unmapped");
    }
    if (rc == ACL_SUCCESS)
        rc = am_fit_trim(pool->fit, 0, &wait);
    return rc;
}

aclError aclmem_pool_sleep(aclmem_pool *pool, uint32_t tag, int keep_contents)
{
    struct pool_visit visit;
    aclError rc;

    if (pool == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "pool is NULL");
    rc = pool_enter(pool, &visit);
    if (rc != ACL_SUCCESS)
        return rc;
    rc = pool->streams->device_synchronize();
    if (rc == ACL_SUCCESS) {
        pthread_mutex_lock(&pool->lock);
        pool_flush_locked(pool, true);
        rc = sleep_locked(pool, tag, keep_contents != 0);
        pthread_mutex_unlock(&pool->lock);
    } else {
        pool_fail(rc, "the device's work did not end well");
    }
    pool_leave(&visit);
    return rc;
}

static aclError block_wake_locked(aclmem_pool *pool, struct pool_block *block)
{
    struct am_fit_use wait;
    int rc;

    pool_limits_update_locked(pool);
    while ((rc = am_fit_wake(pool->fit, block->place, &wait)) == AM_FIT_BUSY) {
        rc = pool_wait_locked(pool, &wait);
        if (rc != ACL_SUCCESS)
            return pool_fail(rc, "waiting for the work on freed blocks failed");
        pool_limits_update_locked(pool);
    }
    if (rc == AM_FIT_LIMIT || rc == AM_FIT_NO_MEMORY ||
        rc == ACL_ERROR_RT_MEMORY_ALLOCATION)
        return pool_fail_memory_locked(pool, block->size);
    if (rc != 0)
        return pool_fail(rc, "a page of a sleeping block could not be mapped");
    if (block->saved != NULL) {
        rc = aclrtMemcpy((void *)block->addr, block->asked, block->saved, block->asked,
                         ACL_MEMCPY_HOST_TO_DEVICE);
        if (rc != ACL_SUCCESS) {
            /* In pages at its ends freed neighbours may have queued work. */
            if (pool->streams->device_synchronize() == 0)
                am_fit_sleep(pool->fit, block->place);
            return pool_fail(rc, "a block of %zu bytes could not be filled again",
                             block->asked);
        }
        free(block->saved);
        block->saved = NULL;
    }
    pool->asleep -= block->size;
    return ACL_SUCCESS;
}

aclError aclmem_pool_wake(aclmem_pool *pool, uint32_t tag)
{
    struct pool_block *block = NULL;
    struct pool_visit visit;
    aclError rc;

    if (pool == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "pool is NULL");
    rc = pool_enter(pool, &visit);
    if (rc != ACL_SUCCESS)
        return rc;
    pthread_mutex_lock(&pool->lock);
    pool_flush_locked(pool, true);
    while (rc == ACL_SUCCESS &&
           (block = next_tagged(pool, block, tag, BLOCK_ASLEEP)) != NULL) {
        int asleep = BLOCK_ASLEEP;

        rc = block_wake_locked(pool, block);
        if (rc == ACL_SUCCESS)
            atomic_compare_exchange_strong(&block->state, &asleep, BLOCK_LIVE);
    }
    if (pool_held_locked(pool) > pool->peak_held)
        pool->peak_held = pool_held_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    pool_leave(&visit);
    return rc;
}
