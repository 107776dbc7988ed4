/*
 * Exportable blocks.
 *
 * What is exported is a handle, so such a block shares no page with others and has one
 * separate handle, mapped as one range.  The placement engine knows nothing of it.  A freed one
 * goes when the work on it is done.
 */
#include "base/sys.h"
#include "base/util.h"
#include "pool/internal.h"

static aclError own_open_locked(aclmem_pool *pool, struct pool_block *block)
{
    aclrtPhysicalMemProp memory = pool_memory(pool->device);
    void *addr;
    aclError rc;

    if (pool_held_locked(pool) + block->size > pool->limit)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    AM_TRY(aclrtMallocPhysical(&block->handle, block->size, &memory, 0));
    rc = aclrtReserveMemAddress(&addr, block->size, 0, NULL, 1);
    if (rc != ACL_SUCCESS)
        goto err_handle;
    rc = aclrtMapMem(addr, block->size, 0, block->handle, 0);
    if (rc != ACL_SUCCESS)
        goto err_addr;
    block->addr = (uintptr_t)addr;
    return ACL_SUCCESS;

err_addr:
    aclrtReleaseMemAddress(addr);
err_handle:
    aclrtFreePhysical(block->handle);
    return rc;
}

/* Makes room below the limit, and on the device, as far as idle pages do. */
static aclError own_place_locked(aclmem_pool *pool, struct pool_block *block)
{
    struct am_fit_use wait;
    aclError rc = own_open_locked(pool, block);

    if (rc != ACL_ERROR_RT_MEMORY_ALLOCATION)
        return rc;
    pool_flush_locked(pool, true);
    pool_own_reap_locked(pool);
    rc = am_fit_trim(pool->fit, 0, &wait);
    while (rc == ACL_SUCCESS && wait.streams != 0 && !pool->is_frozen) {
        rc = pool_wait_locked(pool, &wait);
        if (rc == ACL_SUCCESS)
            rc = am_fit_trim(pool->fit, 0, &wait);
    }
    return rc == ACL_SUCCESS ? own_open_locked(pool, block) : rc;
}

aclError pool_own_malloc(aclmem_pool *pool, size_t size, aclrtStream stream, uint32_t tag,
                         void **ret_ptr)
{
    struct pool_block *block = am_sys_calloc(1, sizeof *block);
    struct pool_visit visit;
    aclError rc;

    if (block == NULL)
        return pool_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a block");
    *block = (struct pool_block){
        .slot = pool_slot_get(pool, stream),
        .size = am_align_up(size, pool->page),
        .asked = size,
        .tag = tag,
        .stream = stream,
    };
    rc = pool_enter(pool, &visit);
    if (rc != ACL_SUCCESS) {
        free(block);
        return rc;
    }
    pthread_mutex_lock(&pool->lock);
    rc = own_place_locked(pool, block);
    for (unsigned i = 0; i < 8 && rc == ACL_ERROR_RT_MEMORY_ALLOCATION; i++) {
        if (!pool_call_back_locked(pool, size))
            break;
        rc = own_place_locked(pool, block);
    }
    if (rc == ACL_SUCCESS) {
        LIST_INSERT_HEAD(&pool->own, block, own);
        pool->exportable += block->size;
        pool->seen |= 1ull << block->slot;
        pool_table_insert(pool, block);
        pool_sample_locked(pool, block);
        *ret_ptr = (void *)block->addr;
    } else {
        free(block);
        if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION)
            pool_fail_memory_locked(pool, size);
        else
            pool_fail(rc, "an exportable block of %zu bytes could not be made", size);
    }
    pthread_mutex_unlock(&pool->lock);
    pool_leave(&visit);
    return rc;
}

void pool_own_free_locked(aclmem_pool *pool, struct pool_block *block,
                          struct am_fit_use use)
{
    LIST_REMOVE(block, own);
    block->use = use;
    LIST_INSERT_HEAD(&pool->left, block, own);
}

bool pool_own_reap_locked(aclmem_pool *pool)
{
    struct pool_block *block, *next;
    bool is_any = false;

    for (block = LIST_FIRST(&pool->left); block != NULL; block = next) {
        next = LIST_NEXT(block, own);
        if (block->use.streams != 0 &&
            pool_use_pending(pool, &block->use, AM_FIT_UNMAP) != 0)
            continue;
        /* One that cannot be unmapped stays, with all that it has, for another time. */
        if (aclrtUnmapMem((void *)block->addr) != ACL_SUCCESS)
            continue;
        pool_fit_ops.release(pool, block->addr, block->size);
        pool_fit_ops.destroy(pool, block->handle);
        LIST_REMOVE(block, own);
        pool->exportable -= block->size;
        free(block);
        is_any = true;
    }
    return is_any;
}

aclError aclmem_pool_handle(aclmem_pool *pool, void *ptr, aclrtDrvMemHandle *handle)
{
    struct pool_block *block;

    AM_TRY(pool_require(pool, handle, "handle"));
    AM_TRY(pool_table_find(pool, ptr, &block));
    if (block->place != NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM,
                         "%p was not asked for with ACLMEM_POOL_EXPORTABLE", ptr);
    *handle = block->handle;
    return ACL_SUCCESS;
}
