/*
 * Sleep and wake: blocks without memory, whose addresses stay.
 *
 * Contents are copied to the host for all blocks first, so that a copy that fails changes nothing.
 * Pages that an awake block touches too keep their memory; the bytes of the sleeping one in them
 * are restored nevertheless.
 *
 * The pool's lock is dropped while a call waits, so pool->sleeping keeps a second call from the
 * blocks that the first has taken.  A block that another thread frees in between is removed: lists are
 * read from the start again.
 */
#include "base/sys.h"
#include "pool/internal.h"

/* How often a call waits for work in the pages of sleeping blocks; then those pages stay. */
#define N_DROPS 8

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

/*
 * Waits for the streams of the blocks that were taken.  A block that another thread asked for a
 * moment ago may lie where its stream still has work of a freed one.
 */
static aclError settle_locked(aclmem_pool *pool)
{
    struct pool_block *block = NULL;
    uint64_t streams = 0;
    struct am_fit_use use;
    aclError rc;

    while ((block = next_taken(pool, block)) != NULL)
        streams |= 1ull << block->slot | atomic_load(&block->also);
    use = pool_use_now_locked(pool, streams);
    rc = pool_wait_locked(pool, &use);
    return rc == ACL_SUCCESS ? rc : pool_fail(rc, "waiting for the blocks' work failed");
}

/* The memory of all sleeping blocks goes, as far as nothing is queued there; 0 or an error. */
static int drop_locked(aclmem_pool *pool, struct am_fit_use *ret_wait)
{
    struct pool_block *block = NULL;
    int failed = 0;

    *ret_wait = (struct am_fit_use){0};
    while ((block = next_tagged(pool, block, ACLMEM_POOL_ALL_TAGS, BLOCK_ASLEEP)) !=
           NULL) {
        struct am_fit_use wait;
        bool was_awake = !am_fit_is_asleep(block->place);
        int rc = am_fit_sleep(pool->fit, block->place, &wait);

        pool->asleep += was_awake ? block->size : 0;
        if (rc == AM_FIT_BUSY)
            *ret_wait = wait;
        else if (failed == 0)
            failed = rc;
    }
    return failed;
}

static aclError sleep_locked(aclmem_pool *pool, uint32_t tag, bool has_contents)
{
    struct pool_block *block = NULL;
    struct am_fit_use wait;
    aclError rc;

    /* A thread that frees a block that was taken waits for the pool's lock. */
    while ((block = next_tagged(pool, block, tag, BLOCK_LIVE)) != NULL)
        pool_sleep_take(pool, block, tag);
    rc = settle_locked(pool);
    if (rc == ACL_SUCCESS && has_contents)
        rc = save_locked(pool);
    if (rc != ACL_SUCCESS) {
        untake_locked(pool);
        return rc;
    }
    rc = drop_locked(pool, &wait);
    /* Other threads' freed blocks may have work in the same pages, again and again. */
    for (unsigned i = 0; i < N_DROPS && rc == ACL_SUCCESS && wait.streams != 0; i++) {
        rc = pool_wait_locked(pool, &wait);
        if (rc == ACL_SUCCESS)
            rc = drop_locked(pool, &wait);
    }
    if (rc == ACL_SUCCESS)
        rc = am_fit_trim(pool->fit, 0, &wait);
    return rc == ACL_SUCCESS
               ? rc
               : pool_fail(rc, "a page of a sleeping block could not be unmapped");
}

aclError aclmem_pool_sleep(aclmem_pool *pool, uint32_t tag, int keep_contents)
{
    struct pool_visit visit;
    aclError rc;

    AM_TRY(pool_enter(pool, &visit));
    pthread_mutex_lock(&pool->sleeping);
    rc = pool->streams.device_synchronize();
    if (rc == ACL_SUCCESS) {
        pthread_mutex_lock(&pool->lock);
        pool_flush_locked(pool, true);
        rc = sleep_locked(pool, tag, keep_contents != 0);
        pthread_mutex_unlock(&pool->lock);
    } else {
        pool_fail(rc, "the device's work did not end well");
    }
    pthread_mutex_unlock(&pool->sleeping);
    pool_leave(&visit);
    return rc;
}

/* The block has memory again, or AM_FIT_BUSY after a wait, in which it may have been freed. */
static aclError block_fill_locked(aclmem_pool *pool, struct pool_block *block)
{
    struct am_fit_use wait, freed;
    int rc;

    pool_limits_update_locked(pool);
    rc = am_fit_wake(pool->fit, block->place, &wait);
    if (rc == AM_FIT_BUSY) {
        rc = pool_wait_locked(pool, &wait);
        return rc == ACL_SUCCESS
                   ? AM_FIT_BUSY
                   : pool_fail(rc, "waiting for the work on freed blocks failed");
    }
    if (rc == 0) {
        pool->asleep -= block->size;
        return ACL_SUCCESS;
    }
    /* Half of a block's memory is of no use. */
    am_fit_sleep(pool->fit, block->place, &freed);
    am_fit_trim(pool->fit, 0, &freed);
    if (rc == AM_FIT_LIMIT || rc == AM_FIT_NO_MEMORY ||
        rc == ACL_ERROR_RT_MEMORY_ALLOCATION)
        return pool_fail_memory_locked(pool, block->size);
    return pool_fail(rc, "a page of a sleeping block could not be mapped");
}

static aclError block_wake_locked(aclmem_pool *pool, struct pool_block *block)
{
    struct am_fit_use wait;
    int asleep = BLOCK_ASLEEP;

    AM_TRY(block_fill_locked(pool, block));
    if (block->saved != NULL) {
        aclError rc = aclrtMemcpy((void *)block->addr, block->asked, block->saved,
                                  block->asked, ACL_MEMCPY_HOST_TO_DEVICE);

        if (rc != ACL_SUCCESS) {
            am_fit_sleep(pool->fit, block->place, &wait);
            pool->asleep += block->size;
            return pool_fail(rc, "a block of %zu bytes could not be filled again",
                             block->asked);
        }
        free(block->saved);
        block->saved = NULL;
    }
    atomic_compare_exchange_strong(&block->state, &asleep, BLOCK_LIVE);
    return ACL_SUCCESS;
}

aclError aclmem_pool_wake(aclmem_pool *pool, uint32_t tag)
{
    struct pool_block *block = NULL;
    struct pool_visit visit;
    aclError rc = ACL_SUCCESS;

    AM_TRY(pool_enter(pool, &visit));
    pthread_mutex_lock(&pool->sleeping);
    pthread_mutex_lock(&pool->lock);
    pool_flush_locked(pool, true);
    while (rc == ACL_SUCCESS &&
           (block = next_tagged(pool, block, tag, BLOCK_ASLEEP)) != NULL) {
        rc = block_wake_locked(pool, block);
        if (rc == AM_FIT_BUSY) {
            block = NULL;
            rc = ACL_SUCCESS;
        }
    }
    pool_sample_locked(pool, NULL);
    pthread_mutex_unlock(&pool->lock);
    pthread_mutex_unlock(&pool->sleeping);
    pool_leave(&visit);
    return rc;
}
