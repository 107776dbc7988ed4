/* The device behind the placement engine, by its public functions. */
#include "pool/internal.h"

aclrtPhysicalMemProp pool_memory(int32_t device)
{
    return (aclrtPhysicalMemProp){
        .handleType = ACL_MEM_HANDLE_TYPE_NONE,
        .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = (uint32_t)device, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };
}

/*
 * A thread that never set a device, such as one that a framework made, works in the
 * context in which the pool was created.
 */
aclError pool_enter(aclmem_pool *pool, struct pool_visit *visit)
{
    aclError rc;

    if (pool == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "pool is NULL");
    visit->is_changed = false;
    visit->before = NULL;
    rc = aclrtGetCurrentContext(&visit->before);
    if (rc == ACL_SUCCESS && visit->before == pool->context)
        return ACL_SUCCESS;
    rc = aclrtSetCurrentContext(pool->context);
    if (rc != ACL_SUCCESS)
        return pool_fail(rc,
                         "the context in which the pool was created is gone (error %d): "
                         "destroy a pool before aclrtResetDevice and aclFinalize, and "
                         "do not use it in a child of fork()",
                         rc);
    visit->is_changed = visit->before != NULL;
    return ACL_SUCCESS;
}

void pool_leave(struct pool_visit *visit)
{
    if (visit->is_changed)
        aclrtSetCurrentContext(visit->before);
}

static int device_reserve(void *ctx, uint64_t size, uint64_t *ret_base)
{
    aclmem_pool *pool = ctx;
    void *base;

    AM_TRY(aclrtReserveMemAddress(&base, size, 0, NULL, 1));
    if ((uintptr_t)base % pool->page != 0) {
        aclrtReleaseMemAddress(base);
        return pool_fail(
            ACL_ERROR_RT_MEMORY_ALLOCATION,
            "the reserved addresses at %p do not begin at a page of %zu bytes", base,
            pool->page);
    }
    *ret_base = (uintptr_t)base;
    return ACL_SUCCESS;
}

/* What is given back and refused is offered once more: the system may have been short. */
static void device_release(void *ctx, uint64_t base, uint64_t size)
{
    if (aclrtReleaseMemAddress((void *)(uintptr_t)base) != ACL_SUCCESS)
        aclrtReleaseMemAddress((void *)(uintptr_t)base);
}

static int device_create(void *ctx, void **ret_frame)
{
    aclmem_pool *pool = ctx;
    aclrtPhysicalMemProp memory = pool_memory(pool->device);

    /* The engine knows nothing of exportable blocks, and takes a limit of no page for none. */
    if (pool_held_locked(pool) + pool->page > pool->limit)
        return ACL_ERROR_RT_MEMORY_ALLOCATION;
    return aclrtMallocPhysical(ret_frame, pool->page, &memory, 0);
}

static void device_destroy(void *ctx, void *frame)
{
    if (aclrtFreePhysical(frame) != ACL_SUCCESS)
        aclrtFreePhysical(frame);
}

static int device_map(void *ctx, uint64_t addr, void *frame)
{
    aclmem_pool *pool = ctx;

    return aclrtMapMem((void *)(uintptr_t)addr, pool->page, 0, frame, 0);
}

static int device_unmap(void *ctx, uint64_t addr, void *frame)
{
    return aclrtUnmapMem((void *)(uintptr_t)addr);
}

const struct am_fit_ops pool_fit_ops = {
    .reserve = device_reserve,
    .release = device_release,
    .create = device_create,
    .destroy = device_destroy,
    .map = device_map,
    .unmap = device_unmap,
    .pending = pool_use_pending,
};
