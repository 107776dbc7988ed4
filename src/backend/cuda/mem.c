/*
 * Physical memory, addresses, and binding one to the other.
 *
 * uses counts two things: the copies that have acquired a mem, and the threads that
 * block it in order to unmap it.  A thread that blocks it counts itself and waits until
 * no copy has it acquired.  A copy that finds a mem blocked releases all other memory
 * that it has acquired, which may include this mem, and waits until the mem is
 * unblocked.  So no copy uses addresses that are being unmapped, at the cost of two
 * atomic additions.
 *
 * Rights: the owner gets full access as soon as any device has a right, and keeps it.
 * The core itself refuses copies that the rights forbid, and a copy that was queued
 * before rights were revoked must not fault on the GPU, which would lose the GPU.
 */
#include <pthread.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/cuda/cuda.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "base/sys.h"

static struct am_lock idle_lock = AM_LOCK_INIT(AM_RANK_LEAF, "memory in use");
static pthread_cond_t idle_changed = PTHREAD_COND_INITIALIZER;

aclError cuda_bank_open(const struct am_bank_spec *spec, struct am_bank **ret_bank)
{
    struct cuda_bank *bank;
    aclError rc;

    if (spec->device < 0 && !spec->is_pinned)
        return am_backend_find("host")->bank_open(spec, ret_bank);
    bank = am_sys_calloc(1, sizeof *bank);
    AM_REQUIRE(bank != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a bank");
    bank->base.ops = &am_backend_cuda;
    bank->base.spec = *spec;
    if (!spec->is_pinned) {
        bank->gpu = cuda_gpu_of(spec->driver);
        rc = cuda_gpu_get(bank->gpu);
        if (rc != ACL_SUCCESS) {
            free(bank);
            return rc;
        }
    }
    *ret_bank = &bank->base;
    return ACL_SUCCESS;
}

void cuda_bank_close(struct am_bank *base)
{
    struct cuda_bank *bank = (struct cuda_bank *)base;

    if (bank->gpu != NULL)
        cuda_gpu_put(bank->gpu);
    free(bank);
}

aclError cuda_bank_free(struct am_bank *base, size_t *ret_size)
{
    struct cuda_gpu *gpu = ((struct cuda_bank *)base)->gpu;
    bool is_pushed;
    size_t total;
    CUresult rc;

    AM_TRY(cuda_check(gpu));
    rc = cuda_enter(gpu, &is_pushed);
    if (rc == CUDA_SUCCESS) {
        rc = cu.cuMemGetInfo_v2(ret_size, &total);
        cuda_leave(is_pushed);
    }
    return cuda_result(rc, gpu, "asking for free memory", 0);
}

/* The ledger had room: another program uses memory of the GPU, too. */
static aclError memory_fail(struct am_bank *bank, size_t size)
{
    struct cuda_gpu *gpu = ((struct cuda_bank *)bank)->gpu;
    size_t left = 0;
    aclError rc = AM_HUSHED(cuda_bank_free(bank, &left));

    if (rc != ACL_SUCCESS)
        return cuda_error(CUDA_ERROR_OUT_OF_MEMORY, gpu, "memory", size);
    return am_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "Failed to allocate %zu bytes: GPU %d has %zu of %zu bytes free; this "
                   "and other processes use the rest (the NVIDIA driver says %s); free "
                   "some memory, or see nvidia-smi",
                   size, gpu->index, left, gpu->info.capacity,
                   cuda_name(CUDA_ERROR_OUT_OF_MEMORY));
}

aclError cuda_mem_create(struct am_bank *bank, size_t size, int node, struct am_mem *mem)
{
    struct cuda_gpu *gpu = ((struct cuda_bank *)bank)->gpu;
    struct cuda_mem *cm = cuda_mem(mem);
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED};
    CUresult rc;

    mem->bank = bank;
    mem->size = size;
    *cm = (struct cuda_mem){.fd = -1};
    if (bank->spec.is_pinned)
        return ACL_SUCCESS; /* the memory is allocated when it is mapped */
    AM_TRY(cuda_check(gpu));
    prop.location = (CUmemLocation){CU_MEM_LOCATION_TYPE_DEVICE, gpu->device};
    if (gpu->can_export)
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    rc = cu.cuMemCreate(&cm->handle, size, &prop, 0);
    if (rc == CUDA_ERROR_OUT_OF_MEMORY)
        return memory_fail(bank, size);
    return cuda_result(rc, gpu, "memory", size);
}

static void handle_release(CUmemGenericAllocationHandle handle)
{
    /* Repeated once, since no later call can try again. */
    if (cu.cuMemRelease(handle) != CUDA_SUCCESS &&
        cu.cuMemRelease(handle) != CUDA_SUCCESS)
        am_log(AM_LOG_DEBUG, "the driver failed to free memory");
}

void cuda_mem_destroy(struct am_mem *mem)
{
    struct cuda_mem *cm = cuda_mem(mem);

    if (cm->fd >= 0)
        close(cm->fd);
    if (!mem->bank->spec.is_pinned)
        handle_release(cm->handle);
}

aclError cuda_mem_export(struct am_mem *mem, int *ret_fd)
{
    struct cuda_mem *cm = cuda_mem(mem);
    struct cuda_gpu *gpu = cuda_mem_gpu(mem);
    CUresult rc;

    AM_REQUIRE(gpu->can_export, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "GPU %d (%s) cannot export memory as a descriptor", gpu->index,
               gpu->info.name);
    if (cm->fd < 0) {
        rc = cu.cuMemExportToShareableHandle(&cm->fd, cm->handle,
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
        if (rc != CUDA_SUCCESS) {
            cm->fd = -1;
            return cuda_error(rc, gpu, "exporting memory", mem->size);
        }
        cm->fd = am_fd_move_up(cm->fd);
    }
    *ret_fd = cm->fd;
    return ACL_SUCCESS;
}

/*
 * The driver checks the size when the memory is mapped: it maps handles whole.
 */
aclError cuda_mem_import(struct am_bank *bank, int fd, size_t size, struct am_mem *mem)
{
    struct cuda_gpu *gpu = ((struct cuda_bank *)bank)->gpu;
    struct cuda_mem *cm = cuda_mem(mem);
    CUresult rc;

    AM_TRY(cuda_check(gpu));
    mem->bank = bank;
    mem->size = size;
    *cm = (struct cuda_mem){.fd = -1};
    rc = cu.cuMemImportFromShareableHandle(&cm->handle, (void *)(intptr_t)fd,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    /* The driver returns this for a descriptor that is not its own. */
    AM_REQUIRE(rc != CUDA_ERROR_UNKNOWN, ACL_ERROR_RT_IPC_ERROR,
               "the exported descriptor is not GPU memory (the NVIDIA driver says %s)",
               cuda_name(rc));
    return cuda_result(rc, gpu, "importing memory", size);
}

/* ---- addresses ---- */

/* Addresses at another place than requested are of no use. */
static aclError addresses_refuse(CUdeviceptr got, size_t size, size_t align, void *want)
{
    cu.cuMemAddressFree(got, size);
    AM_REQUIRE(want == NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%zu bytes at expectPtr %p are not available in this process: the NVIDIA "
               "driver gave %p; choose another address",
               size, want, (void *)got);
    return am_fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION,
        "Failed to allocate %zu bytes of addresses: the NVIDIA driver gave %p, "
        "which is no multiple of %zu",
        size, (void *)got, align);
}

aclError cuda_reserve(size_t size, size_t align, void *want, void **ret_addr)
{
    CUdeviceptr got = 0;
    CUresult rc = cu.cuMemAddressReserve(&got, size, align, (CUdeviceptr)want, 0);

    if (rc != CUDA_SUCCESS)
        return cuda_error(rc, NULL, "addresses", size);
    if ((want != NULL && got != (CUdeviceptr)want) || !am_is_aligned(got, align))
        return addresses_refuse(got, size, align, want);
    *ret_addr = (void *)got;
    return ACL_SUCCESS;
}

aclError cuda_reserve_own(size_t size, size_t align, void **ret_addr)
{
    return cuda_reserve(size, align, NULL, ret_addr);
}

aclError cuda_release(void *addr, size_t size)
{
    CUresult rc = cu.cuMemAddressFree((CUdeviceptr)addr, size);

    return cuda_result(rc, NULL, "releasing addresses", size);
}

/* ---- binding ---- */

static CUmemAccess_flags flags_of(const struct cuda_gpu *gpu,
                                  const struct am_rights *rights)
{
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    uint64_t left = (rights->read | rights->write) & ~AM_HOST_BIT;

    for (; left != 0; left &= left - 1) {
        int32_t driver = __builtin_ctzll(left);

        if (cuda_gpu_of(driver) != gpu)
            continue;
        if (rights->write >> driver & 1)
            return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
        flags = CU_MEM_ACCESS_FLAGS_PROT_READ;
    }
    return flags;
}

/* Grants the rights; with is_change, revokes the rights of all other devices. */
static CUresult rights_give(CUdeviceptr addr, size_t size, const struct cuda_gpu *owner,
                            const struct am_rights *rights, bool is_change)
{
    CUmemAccessDesc desc[CUDA_GPUS_MAX];
    size_t n = 0;

    if ((rights->read | rights->write) == 0 && !is_change)
        return CUDA_SUCCESS;
    if ((rights->read | rights->write) != 0)
        desc[n++] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, owner->device},
                                      CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    for (int32_t i = 0; i < cuda_device_count(); i++) {
        const struct cuda_gpu *gpu = cuda_gpu_of(i);
        CUmemAccess_flags flags = flags_of(gpu, rights);

        if (gpu == owner || (flags == CU_MEM_ACCESS_FLAGS_PROT_NONE && !is_change) ||
            !cuda_device_can_reach(gpu->index, owner->index))
            continue;
        desc[n++] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, gpu->device}, flags};
    }
    return n > 0 ? cu.cuMemSetAccess(addr, size, desc, n) : CUDA_SUCCESS;
}

/* A mapping that stays would block the next user of the addresses. */
static CUresult addresses_unmap(CUdeviceptr addr, size_t size)
{
    CUresult rc = cu.cuMemUnmap(addr, size);

    return rc == CUDA_SUCCESS ? rc : cu.cuMemUnmap(addr, size);
}

static CUresult mem_bind(CUdeviceptr addr, struct am_mem *mem,
                         const struct am_rights *rights)
{
    CUresult rc = cu.cuMemMap(addr, mem->size, 0, cuda_mem(mem)->handle, 0);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = rights_give(addr, mem->size, cuda_mem_gpu(mem), rights, false);
    if (rc != CUDA_SUCCESS)
        addresses_unmap(addr, mem->size);
    return rc;
}

aclError cuda_map(void *addr, size_t size, struct am_mem *mem,
                  const struct am_rights *rights)
{
    CUdeviceptr none = 0;
    struct cuda_gpu *gpu;
    CUresult rc;

    if (mem->bank->spec.is_pinned)
        return cuda_pinned_map(addr, size, mem);
    gpu = cuda_mem_gpu(mem);
    AM_TRY(cuda_check(gpu));
    am_assert(size == mem->size); /* AM_CAP_MAP_PART */
    rc = mem_bind((CUdeviceptr)addr, mem, rights);
    /* Of memory that was imported for this device. */
    AM_REQUIRE(rc != CUDA_ERROR_INVALID_DEVICE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the memory is on another GPU, which GPU %d (%s) cannot access (the "
               "NVIDIA driver says %s); import it for the device that holds it",
               gpu->index, gpu->info.bus_id, cuda_name(rc));
    if (rc != CUDA_SUCCESS)
        return cuda_error(rc, gpu, "mapping memory", size);
    atomic_compare_exchange_strong(&cuda_mem(mem)->bound, &none, (CUdeviceptr)addr);
    return ACL_SUCCESS;
}

aclError cuda_protect(void *addr, size_t size, struct am_mem *mem,
                      const struct am_rights *rights)
{
    struct cuda_gpu *gpu = cuda_mem_gpu(mem);
    CUresult rc;

    AM_TRY(cuda_check(gpu));
    rc = rights_give((CUdeviceptr)addr, size, gpu, rights, true);
    return cuda_result(rc, gpu, "changing access", size);
}

/* ---- acquiring and blocking ---- */

void cuda_mem_wake(void)
{
    am_lock(&idle_lock);
    pthread_cond_broadcast(&idle_changed);
    am_unlock(&idle_lock);
}

static void uses_wait(struct cuda_mem *cm, uint64_t bits)
{
    am_lock(&idle_lock);
    while (cm->uses & bits)
        pthread_cond_wait(&idle_changed, &idle_lock.mutex);
    am_unlock(&idle_lock);
}

void cuda_mem_await(struct am_mem *mem)
{
    uses_wait(cuda_mem(mem), CUDA_BLOCKERS);
}

void cuda_block(struct am_mem *mem)
{
    struct cuda_mem *cm = cuda_mem(mem);
    uint64_t number;

    if (mem->bank->spec.is_pinned)
        return;
    /*
     * One word decides between users and blockers: cuda_mem_try_acquire() either comes before
     * and is waited for, or sees this addition.  The words that users wrote before they
     * released the memory (`launched`, the lane's `last`) are read behind the wait.
     */
    atomic_fetch_add(&cm->uses, CUDA_BLOCKER);
    uses_wait(cm, CUDA_USERS);
    number = cm->launched;
    if (cuda_lanes_wait(cuda_mem_gpu(mem), number))
        atomic_compare_exchange_strong(&cm->launched, &number, 0);
}

void cuda_unblock(struct am_mem *mem)
{
    if (mem->bank->spec.is_pinned)
        return;
    if ((atomic_fetch_sub(&cuda_mem(mem)->uses, CUDA_BLOCKER) & CUDA_BLOCKERS) ==
        CUDA_BLOCKER)
        cuda_mem_wake();
}

aclError cuda_unmap(void *addr, size_t size, struct am_mem *mem)
{
    struct cuda_mem *cm = cuda_mem(mem);
    CUdeviceptr base = (CUdeviceptr)addr;
    CUresult rc;

    if (mem->bank->spec.is_pinned)
        return cuda_pinned_unmap(addr, size, mem);
    cuda_block(mem);
    rc = addresses_unmap(base, size);
    if (rc == CUDA_SUCCESS)
        atomic_compare_exchange_strong(&cm->bound, &base, 0);
    cuda_unblock(mem);
    return cuda_result(rc, cuda_mem_gpu(mem), "unmapping memory", size);
}

/* A mem that is mapped more than once is rare, so the driver is asked. */
bool cuda_mem_is_at(struct am_mem *mem, CUdeviceptr base)
{
    struct cuda_mem *cm = cuda_mem(mem);
    CUmemGenericAllocationHandle there;

    if (cm->bound == base)
        return true;
    if (cu.cuMemRetainAllocationHandle(&there, (void *)base) != CUDA_SUCCESS)
        return false;
    handle_release(there);
    return there == cm->handle;
}

aclError cuda_alias_open(struct am_mem *mem, CUdeviceptr *ret_base)
{
    static const struct am_rights owner_only = {AM_HOST_BIT, AM_HOST_BIT};
    void *base;
    CUresult rc;

    AM_TRY(cuda_reserve(mem->size, AM_CHUNK, NULL, &base));
    rc = mem_bind((CUdeviceptr)base, mem, &owner_only);
    if (rc != CUDA_SUCCESS) {
        cu.cuMemAddressFree((CUdeviceptr)base, mem->size);
        return cuda_error(rc, cuda_mem_gpu(mem), "mapping memory for a copy", mem->size);
    }
    *ret_base = (CUdeviceptr)base;
    return ACL_SUCCESS;
}

void cuda_alias_close(struct am_mem *mem, CUdeviceptr base)
{
    addresses_unmap(base, mem->size);
    if (cu.cuMemAddressFree(base, mem->size) != CUDA_SUCCESS &&
        cu.cuMemAddressFree(base, mem->size) != CUDA_SUCCESS)
        am_log(AM_LOG_DEBUG, "the driver failed to release addresses");
}
