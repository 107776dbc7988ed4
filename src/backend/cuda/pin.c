/*
 * Page-locked memory of the program.
 *
 * The driver locks memory when it is registered.  aclrtMallocHost's comes as plain
 * memory, in slabs, at addresses of ours: the driver's own call costs some hundred
 * microseconds, and one such call serves many blocks.  Registered memory lives in a
 * context; one GPU's is kept for all of it while there is any, and the memory is locked
 * for all GPUs.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "backend/cuda/cuda.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"

#define SLAB_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)

static struct {
    struct am_lock lock;
    struct cuda_gpu *gpu; /* lock; whose context it is, while n > 0 */
    uint64_t n;           /* lock; ranges */
} pins = {.lock = AM_LOCK_INIT(AM_RANK_IDMAP, "pinned memory")};

/* A GPU that works and is in use already, or else any. */
static struct cuda_gpu *gpu_choose(void)
{
    struct cuda_gpu *found = cuda_gpu_of(0);

    for (int32_t i = 0; i < cuda_device_count(); i++) {
        struct cuda_gpu *gpu = cuda_gpu_of(i);

        if (gpu->lost == CUDA_SUCCESS && gpu->context != NULL)
            return gpu;
        if (found->lost != CUDA_SUCCESS)
            found = gpu;
    }
    return found;
}

static aclError pins_enter(struct cuda_gpu **ret_gpu)
{
    aclError rc = ACL_SUCCESS;

    am_lock(&pins.lock);
    if (pins.n == 0)
        pins.gpu = gpu_choose();
    if (pins.n == 0)
        rc = cuda_gpu_get(pins.gpu);
    if (rc == ACL_SUCCESS)
        pins.n++;
    *ret_gpu = pins.gpu;
    am_unlock(&pins.lock);
    return rc;
}

static void pins_leave(void)
{
    am_lock(&pins.lock);
    if (--pins.n == 0)
        cuda_gpu_put(pins.gpu);
    am_unlock(&pins.lock);
}

aclError cuda_pin(void *addr, size_t size, bool must_lock)
{
    struct cuda_gpu *gpu;
    bool is_pushed;
    CUresult rc;
    aclError code = pins_enter(&gpu);

    if (code != ACL_SUCCESS)
        return code;
    rc = cuda_enter(gpu, &is_pushed);
    if (rc == CUDA_SUCCESS) {
        rc = cu.cuMemHostRegister_v2(addr, size, CU_MEMHOSTREGISTER_PORTABLE);
        cuda_leave(is_pushed);
    }
    if (rc == CUDA_SUCCESS)
        return ACL_SUCCESS;
    code = cuda_error(rc, gpu, "locking host memory", size);
    pins_leave();
    return code;
}

static CUresult unregister(void *addr)
{
    bool is_pushed;
    CUresult rc = cuda_enter(pins.gpu, &is_pushed);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = cu.cuMemHostUnregister(addr);
    cuda_leave(is_pushed);
    return rc;
}

void cuda_unpin(void *addr, size_t size)
{
    /* Once more: nobody can ever try again. */
    if (unregister(addr) != CUDA_SUCCESS && unregister(addr) != CUDA_SUCCESS)
        am_log(AM_LOG_DEBUG, "%zu bytes at %p stay locked", size, addr);
    pins_leave();
}

aclError cuda_reserve_pinned(size_t size, size_t align, void **ret_addr)
{
    return am_backend_find("host")->reserve_pinned(size, align, ret_addr);
}

aclError cuda_release_pinned(void *addr, size_t size)
{
    return am_backend_find("host")->release_pinned(addr, size);
}

/* Nothing is there any more, but the addresses stay ours. */
static aclError slab_empty(void *addr, size_t size)
{
    if (am_sys_mmap(addr, size, PROT_NONE, SLAB_FLAGS | MAP_NORESERVE, -1, 0) ==
        MAP_FAILED)
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       "%zu bytes of host memory at %p are not taken back: %m", size,
                       addr);
    return ACL_SUCCESS;
}

aclError cuda_pinned_map(void *addr, size_t size, struct am_mem *mem)
{
    aclError rc;

    if (am_sys_mmap(addr, size, PROT_READ | PROT_WRITE, SLAB_FLAGS, -1, 0) == MAP_FAILED)
        return am_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                       "Failed to allocate %zu bytes of host memory: %m", size);
    madvise(addr, size, MADV_HUGEPAGE); /* a wish: fewer pages to lock */
    rc = cuda_pin(addr, size, true);
    if (rc != ACL_SUCCESS)
        slab_empty(addr, size);
    return rc;
}

aclError cuda_pinned_unmap(void *addr, size_t size, struct am_mem *mem)
{
    cuda_unpin(addr, size);
    return slab_empty(addr, size);
}
