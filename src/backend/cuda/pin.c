/*
 * Page-locked memory of the program.
 *
 * The driver locks memory when it is registered.  aclrtMallocHost's comes as plain
 * memory, in slabs, at addresses of ours: the driver's own call costs some hundred
 * microseconds, and one such call serves many blocks.  Registered memory lives in a
 * context; one GPU's is kept for all of it while there is any, another one's for what
 * comes after that was lost, and the memory is locked for all GPUs.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "backend/cuda/cuda.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"

#define SLAB_FLAGS (MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED)

static struct {
    struct am_lock lock;
    struct cuda_gpu *gpu;   /* lock; in whose context memory was registered last */
    _Atomic int32_t chosen; /* the driver's id of what the program works with */
} pins = {.lock = AM_LOCK_INIT(AM_RANK_PINS, "pinned memory")};

void cuda_device_choose(int32_t driver)
{
    pins.chosen = driver;
}

/*
 * A working GPU that is already in use, or else the program's, or any: a context takes memory
 * of its GPU, which other programs may need.
 */
static struct cuda_gpu *gpu_choose(void)
{
    struct cuda_gpu *found = cuda_gpu_of(pins.chosen);

    for (int32_t i = 0; i < cuda_device_count(); i++) {
        struct cuda_gpu *gpu = cuda_gpu_of(i);

        if (gpu->lost == CUDA_SUCCESS && gpu->context != NULL)
            return gpu;
        if (found->lost != CUDA_SUCCESS)
            found = gpu;
    }
    return found;
}

/* The GPU of the memory before, as long as there is any and it works. */
static aclError pins_enter(struct cuda_gpu **ret_gpu)
{
    aclError rc = ACL_SUCCESS;

    am_lock(&pins.lock);
    if (pins.gpu == NULL || pins.gpu->n_pins == 0 || pins.gpu->lost != CUDA_SUCCESS)
        pins.gpu = gpu_choose();
    if (pins.gpu->n_pins == 0)
        rc = cuda_gpu_get(pins.gpu);
    if (rc == ACL_SUCCESS)
        pins.gpu->n_pins++;
    *ret_gpu = pins.gpu;
    am_unlock(&pins.lock);
    return rc;
}

static void pins_leave(struct cuda_gpu *gpu)
{
    am_lock(&pins.lock);
    if (--gpu->n_pins == 0)
        cuda_gpu_put(gpu);
    am_unlock(&pins.lock);
}

/* Whose context the memory was registered in. */
static struct cuda_gpu *gpu_find(const void *addr)
{
    struct cuda_gpu *found = NULL;
    CUcontext context = NULL;
    CUresult rc = cu.cuPointerGetAttribute(&context, CU_POINTER_ATTRIBUTE_CONTEXT,
                                           (CUdeviceptr)addr);

    am_lock(&pins.lock);
    for (int32_t i = 0; i < cuda_device_count(); i++) {
        struct cuda_gpu *gpu = cuda_gpu_of(i);

        if (gpu->n_pins == 0)
            continue;
        if (rc == CUDA_SUCCESS && gpu->context == context) {
            found = gpu;
            break;
        }
        /* The driver may not answer for a GPU that is lost. */
        if (found == NULL || gpu->lost != CUDA_SUCCESS)
            found = gpu;
    }
    am_unlock(&pins.lock);
    return found;
}

static aclError range_register(struct cuda_gpu *gpu, void *addr, size_t size)
{
    bool is_pushed;
    CUresult rc = cuda_enter(gpu, &is_pushed);

    if (rc == CUDA_SUCCESS) {
        rc = cu.cuMemHostRegister_v2(addr, size, CU_MEMHOSTREGISTER_PORTABLE);
        cuda_leave(is_pushed);
    }
    return cuda_result(rc, gpu, "locking host memory", size);
}

aclError cuda_pin(void *addr, size_t size, bool must_lock)
{
    struct cuda_gpu *gpu;
    aclError rc;

    AM_TRY(pins_enter(&gpu));
    rc = range_register(gpu, addr, size);
    if (rc == ACL_SUCCESS)
        return ACL_SUCCESS;
    pins_leave(gpu);
    /* If the GPU turned out to be lost, another one serves as well. */
    return gpu->lost == CUDA_SUCCESS ? rc : cuda_pin(addr, size, must_lock);
}

static CUresult range_unregister(struct cuda_gpu *gpu, void *addr)
{
    bool is_pushed;
    CUresult rc = cuda_enter(gpu, &is_pushed);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = cu.cuMemHostUnregister(addr);
    cuda_leave(is_pushed);
    return rc;
}

void cuda_unpin(void *addr, size_t size)
{
    struct cuda_gpu *gpu = gpu_find(addr);

    /* Repeated once, since no later call can try again. */
    if (range_unregister(gpu, addr) != CUDA_SUCCESS &&
        range_unregister(gpu, addr) != CUDA_SUCCESS)
        am_log(AM_LOG_DEBUG, "%zu bytes at %p could not be unlocked", size, addr);
    pins_leave(gpu);
}

/* Nothing is there any more, but the addresses stay ours. */
static aclError slab_empty(void *addr, size_t size)
{
    if (am_sys_mmap(addr, size, PROT_NONE, SLAB_FLAGS | MAP_NORESERVE, -1, 0) ==
        MAP_FAILED)
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       "%zu bytes of host memory at %p cannot be freed: %m", size, addr);
    return ACL_SUCCESS;
}

aclError cuda_pinned_map(void *addr, size_t size, struct am_mem *mem)
{
    struct am_capture before;
    aclError rc;

    AM_REQUIRE(am_sys_mmap(addr, size, PROT_READ | PROT_WRITE, SLAB_FLAGS, -1, 0) !=
                   MAP_FAILED,
               ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes of host memory: %m", size);
    madvise(addr, size, MADV_HUGEPAGE); /* a wish: fewer pages to lock */
    rc = cuda_pin(addr, size, true);
    if (rc == ACL_SUCCESS)
        return rc;
    before = am_error_hush(); /* rc has its message */
    slab_empty(addr, size);
    am_error_capture_end(before);
    return rc;
}

aclError cuda_pinned_unmap(void *addr, size_t size, struct am_mem *mem)
{
    cuda_unpin(addr, size);
    return slab_empty(addr, size);
}
