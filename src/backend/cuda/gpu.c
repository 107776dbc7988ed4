/*
 * The GPUs: their properties, primary contexts, streams for copies.
 *
 * Libraries in a process normally share the primary context; PyTorch uses it too.  It is
 * retained while a bank, pinned memory or a stream of ours needs it.  A call of ours
 * leaves the thread's current context as it was.
 */
#include <stdio.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/cuda/cuda.h"
#include "base/error.h"
#include "base/log.h"
#include "base/machine.h"

static struct cuda_gpu gpus[CUDA_GPUS_MAX];
static int32_t n_gpus; /* set once */

/* Numbers that the driver reports about a GPU. */
struct numbers {
    int has_vmm;
    int has_unified;
    int can_export;
    int domain;
    int bus;
    int slot;
};

static CUresult numbers_ask(CUdevice device, struct numbers *ret_numbers)
{
    const struct {
        CUdevice_attribute what;
        int *value;
    } questions[] = {
        {CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, &ret_numbers->has_vmm},
        {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, &ret_numbers->has_unified},
        {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED,
         &ret_numbers->can_export},
        {CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID, &ret_numbers->domain},
        {CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, &ret_numbers->bus},
        {CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID, &ret_numbers->slot},
    };
    CUresult rc = CUDA_SUCCESS;

    for (size_t i = 0; i < AM_ARRAY_SIZE(questions) && rc == CUDA_SUCCESS; i++)
        rc = cu.cuDeviceGetAttribute(questions[i].value, questions[i].what, device);
    return rc;
}

/* Drivers before 11.4 have no uuid here; the name of the bus serves. */
static void uuid_find(const struct cuda_gpu *gpu, struct am_device_info *info)
{
    static const uint8_t none[AM_UUID_SIZE];
    CUuuid uuid;

    if (cu.cuDeviceGetUuid_v2 != NULL &&
        cu.cuDeviceGetUuid_v2(&uuid, gpu->device) == CUDA_SUCCESS)
        memcpy(info->uuid, uuid.bytes, sizeof info->uuid);
    else
        am_uuid_make(none, info->bus_id, info->uuid);
}

static aclError granularity_check(struct cuda_gpu *gpu)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, gpu->device},
    };
    size_t unit = 0;
    CUresult rc =
        cu.cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM);

    if (rc != CUDA_SUCCESS)
        return cuda_error(rc, gpu, "asking for the granularity", 0);
    AM_REQUIRE(unit > 0 && AM_CHUNK % unit == 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "ACLMEM_BACKEND=cuda: GPU %d (%s) maps memory in multiples of %zu bytes, "
               "and 2 MB is not such a multiple",
               gpu->index, gpu->info.name, unit);
    return ACL_SUCCESS;
}

static aclError gpu_look(struct cuda_gpu *gpu, int32_t index)
{
    struct am_device_info *info = &gpu->info;
    struct numbers numbers = {0};
    CUresult rc;

    gpu->index = index;
    rc = cu.cuDeviceGet(&gpu->device, index);
    if (rc == CUDA_SUCCESS)
        rc = cu.cuDeviceGetName(info->name, sizeof info->name, gpu->device);
    if (rc == CUDA_SUCCESS)
        rc = cu.cuDeviceTotalMem_v2(&info->capacity, gpu->device);
    if (rc == CUDA_SUCCESS)
        rc = numbers_ask(gpu->device, &numbers);
    if (rc != CUDA_SUCCESS)
        return cuda_error(rc, NULL, "looking at a GPU", 0);
    AM_REQUIRE(
        numbers.has_vmm && numbers.has_unified, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "ACLMEM_BACKEND=cuda: GPU %d (%s) has no virtual memory management; leave it "
        "out with CUDA_VISIBLE_DEVICES",
        index, info->name);
    gpu->can_export = numbers.can_export;
    snprintf(info->bus_id, sizeof info->bus_id, "%04x:%02x:%02x.0",
             (unsigned)numbers.domain & 0xffff, (unsigned)numbers.bus & 0xff,
             (unsigned)numbers.slot & 0xff);
    uuid_find(gpu, info);
    return granularity_check(gpu);
}

/* The most frequent failures of cuInit(), in words that help. */
static aclError init_error(CUresult rc)
{
    AM_REQUIRE(
        rc != CUDA_ERROR_NOT_INITIALIZED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "ACLMEM_BACKEND=cuda: the NVIDIA driver does not work in this process, the "
        "child of one that used it (CUDA_ERROR_NOT_INITIALIZED); fork earlier, or "
        "call exec");
    AM_REQUIRE(
        rc != CUDA_ERROR_NO_DEVICE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "ACLMEM_BACKEND=cuda: the NVIDIA driver finds no GPU (CUDA_ERROR_NO_DEVICE); "
        "see nvidia-smi, CUDA_VISIBLE_DEVICES, and whether a container was given "
        "one");
    return cuda_error(rc, NULL, "ACLMEM_BACKEND=cuda: starting the NVIDIA driver", 0);
}

aclError cuda_start(void)
{
    int n = 0;
    CUresult rc;

    AM_TRY(cuda_load());
    rc = cu.cuInit(0); /* each time: it fails in a child of fork */
    if (rc == CUDA_SUCCESS && n_gpus > 0)
        return ACL_SUCCESS;
    if (rc == CUDA_SUCCESS)
        rc = cu.cuDeviceGetCount(&n);
    if (rc == CUDA_SUCCESS && n == 0)
        rc = CUDA_ERROR_NO_DEVICE;
    if (rc != CUDA_SUCCESS)
        return init_error(rc);
    n = n < CUDA_GPUS_MAX ? n : CUDA_GPUS_MAX;
    for (int i = 0; i < n; i++)
        AM_TRY(gpu_look(&gpus[i], i));
    for (int i = 0; i < n; i++) {
        am_lock_init(&gpus[i].lock, AM_RANK_BANK, "GPU");
        am_lock_init(&gpus[i].clock_lock, AM_RANK_CLOCK, "clock of a GPU");
        TAILQ_INIT(&gpus[i].lanes);
    }
    n_gpus = n;
    return ACL_SUCCESS;
}

int32_t cuda_device_count(void)
{
    return n_gpus;
}

struct cuda_gpu *cuda_gpu_of(int32_t driver)
{
    return &gpus[driver % n_gpus];
}

aclError cuda_device_info(int32_t driver, struct am_device_info *ret_info)
{
    struct cuda_gpu *gpu = cuda_gpu_of(driver);
    char name[32];

    *ret_info = gpu->info;
    if (driver >= n_gpus) { /* another name for a part of it */
        snprintf(name, sizeof name, "aclmem device %d", driver);
        am_uuid_make(gpu->info.uuid, name, ret_info->uuid);
    }
    return ACL_SUCCESS;
}

bool cuda_device_can_reach(int32_t driver, int32_t other)
{
    struct cuda_gpu *gpu = cuda_gpu_of(driver);
    struct cuda_gpu *peer = cuda_gpu_of(other);
    int can = 0;

    return gpu == peer ||
           (cu.cuDeviceCanAccessPeer(&can, gpu->device, peer->device) == CUDA_SUCCESS &&
            can);
}

aclError cuda_gpu_get(struct cuda_gpu *gpu)
{
    CUcontext context = NULL;
    CUresult rc = CUDA_SUCCESS;

    AM_TRY(cuda_check(gpu));
    am_lock(&gpu->lock);
    if (gpu->n_users == 0) {
        rc = cu.cuDevicePrimaryCtxRetain(&context, gpu->device);
        if (rc == CUDA_SUCCESS)
            gpu->context = context;
    }
    if (rc == CUDA_SUCCESS)
        gpu->n_users++;
    am_unlock(&gpu->lock);
    return cuda_result(rc, gpu, "a context", 0);
}

/* The last user releases the context with its streams, which are no longer in use. */
void cuda_gpu_put(struct cuda_gpu *gpu)
{
    am_lock(&gpu->lock);
    if (--gpu->n_users == 0) {
        while (gpu->n_idle > 0)
            cu.cuStreamDestroy_v2(gpu->idle[--gpu->n_idle]);
        cuda_clock_destroy_locked(gpu);
        gpu->context = NULL;
        /* Repeated once, since no later call can try again. */
        if (cu.cuDevicePrimaryCtxRelease_v2(gpu->device) != CUDA_SUCCESS &&
            cu.cuDevicePrimaryCtxRelease_v2(gpu->device) != CUDA_SUCCESS)
            am_log(AM_LOG_DEBUG, "GPU %d: the driver failed to release its context",
                   gpu->index);
    }
    am_unlock(&gpu->lock);
}

CUresult cuda_enter(struct cuda_gpu *gpu, bool *ret_is_pushed)
{
    CUcontext now = NULL;
    CUresult rc = cu.cuCtxGetCurrent(&now);

    *ret_is_pushed = false;
    if (rc != CUDA_SUCCESS || now == gpu->context)
        return rc;
    rc = cu.cuCtxPushCurrent_v2(gpu->context);
    *ret_is_pushed = rc == CUDA_SUCCESS;
    return rc;
}

void cuda_leave(bool is_pushed)
{
    CUcontext ours;

    if (is_pushed && cu.cuCtxPopCurrent_v2(&ours) != CUDA_SUCCESS)
        cu.cuCtxPopCurrent_v2(&ours); /* once more: it must not stay current */
}

/* The driver's priorities go from 0 down to a negative one; ours from 7 up to 0. */
CUresult cuda_stream_open(struct cuda_gpu *gpu, unsigned priority, CUstream *ret_stream)
{
    int greatest = 0;
    int least = 0;
    bool is_pushed;
    CUresult rc = cuda_enter(gpu, &is_pushed);

    if (rc != CUDA_SUCCESS)
        return rc;
    rc = cu.cuCtxGetStreamPriorityRange(&least, &greatest);
    if (rc == CUDA_SUCCESS)
        rc = cu.cuStreamCreateWithPriority(ret_stream, CU_STREAM_NON_BLOCKING,
                                           least + (greatest - least) *
                                                       (7 - (int)priority) / 7);
    cuda_leave(is_pushed);
    return rc;
}

CUresult cuda_stream_take(struct cuda_gpu *gpu, CUstream *ret_stream)
{
    CUstream stream = NULL;

    am_lock(&gpu->lock);
    if (gpu->n_idle > 0)
        stream = gpu->idle[--gpu->n_idle];
    am_unlock(&gpu->lock);
    if (stream == NULL)
        return cuda_stream_open(gpu, 0, ret_stream);
    *ret_stream = stream;
    return CUDA_SUCCESS;
}

CUresult cuda_stream_wait(CUstream stream)
{
    CUresult rc = cu.cuStreamSynchronize(stream);

    return rc == CUDA_SUCCESS ? rc : cu.cuStreamSynchronize(stream);
}

void cuda_stream_give(struct cuda_gpu *gpu, CUstream stream)
{
    am_lock(&gpu->lock);
    if (gpu->n_idle < CUDA_STREAMS_MAX) {
        gpu->idle[gpu->n_idle++] = stream;
        stream = NULL;
    }
    am_unlock(&gpu->lock);
    if (stream != NULL)
        cu.cuStreamDestroy_v2(stream);
}

const struct am_backend_ops am_backend_cuda = {.name = "cuda",
                                               .caps = AM_CAP_DEVICES | AM_CAP_SHARE |
                                                       AM_CAP_LANES | AM_CAP_STOCK,
#define CUDA_OP_SET(name_) .name_ = cuda_##name_,
                                               CUDA_OPS(CUDA_OP_SET)};
