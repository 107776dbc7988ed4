/*
 * The one place where a failure of the driver becomes a code.
 *
 * A GPU with an error of the hardware, or a fault of any kernel in the process, does
 * nothing more in this process: all its calls fail with the same error from then on.
 * That is a lost device, and it stays lost.
 */
#include <stdio.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/cuda/cuda.h"
#include "base/error.h"
#include "base/log.h"

enum { LOST = 1 };

static const struct {
    CUresult rc;
    aclError code;
    int is_lost;
} errors[] = {
    {CUDA_ERROR_INVALID_VALUE, ACL_ERROR_RT_PARAM_INVALID, 0},
    {CUDA_ERROR_OUT_OF_MEMORY, ACL_ERROR_RT_MEMORY_ALLOCATION, 0},
    {CUDA_ERROR_NO_DEVICE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 0},
    {CUDA_ERROR_STUB_LIBRARY, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 0},
    {CUDA_ERROR_INVALID_DEVICE, ACL_ERROR_RT_INVALID_DEVICEID, 0},
    {CUDA_ERROR_ALREADY_MAPPED, ACL_ERROR_RT_PARAM_INVALID, 0},
    {CUDA_ERROR_NOT_MAPPED, ACL_ERROR_RT_PARAM_INVALID, 0},
    {CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 0},
    {CUDA_ERROR_OPERATING_SYSTEM, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, 0},
    {CUDA_ERROR_INVALID_HANDLE, ACL_ERROR_RT_PARAM_INVALID, 0},
    {CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED, ACL_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
     0},
    {CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED, ACL_ERROR_HOST_MEMORY_NOT_REGISTERED, 0},
    {CUDA_ERROR_NOT_PERMITTED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 0},
    {CUDA_ERROR_NOT_SUPPORTED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 0},
    {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 0},
    {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT, 0},
    {CUDA_ERROR_DEVICE_UNAVAILABLE, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_ECC_UNCORRECTABLE, ACL_ERROR_RT_HBM_MULTI_BIT_ECC_ERROR, LOST},
    {CUDA_ERROR_NVLINK_UNCORRECTABLE, ACL_ERROR_RT_LINK_ERROR, LOST},
    {CUDA_ERROR_CONTAINED, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_ILLEGAL_ADDRESS, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_LAUNCH_TIMEOUT, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_CONTEXT_IS_DESTROYED, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_HARDWARE_STACK_ERROR, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_ILLEGAL_INSTRUCTION, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_MISALIGNED_ADDRESS, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_INVALID_ADDRESS_SPACE, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_LAUNCH_FAILED, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_EXTERNAL_DEVICE, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
    {CUDA_ERROR_UNKNOWN, ACL_ERROR_RT_LOST_HEARTBEAT, LOST},
};

const char *cuda_name(CUresult rc)
{
    const char *name = NULL;

    if (cu.cuGetErrorName(rc, &name) != CUDA_SUCCESS || name == NULL)
        return "an error without a name";
    return name;
}

static const char *text_of(CUresult rc)
{
    const char *text = NULL;

    if (cu.cuGetErrorString(rc, &text) != CUDA_SUCCESS || text == NULL)
        return "no description";
    return text;
}

/* Its row, or where they end. */
static size_t row_find(CUresult rc)
{
    size_t i = 0;

    while (i < AM_ARRAY_SIZE(errors) && errors[i].rc != rc)
        i++;
    return i;
}

static aclError code_of(CUresult rc)
{
    size_t row = row_find(rc);

    return row < AM_ARRAY_SIZE(errors) ? errors[row].code
                                       : ACL_ERROR_RT_DRV_INTERNAL_ERROR;
}

bool cuda_is_loss(CUresult rc)
{
    size_t row = row_find(rc);

    return row < AM_ARRAY_SIZE(errors) && errors[row].is_lost;
}

/* Its context gives such an error for everything then. */
static bool gpu_is_broken(struct cuda_gpu *gpu)
{
    CUstream stream;
    CUresult rc;

    if (gpu->context == NULL)
        return false;
    rc = cuda_stream_take(gpu, &stream);
    if (rc == CUDA_SUCCESS) {
        rc = cu.cuStreamQuery(stream);
        cuda_stream_give(gpu, stream);
    }
    return cuda_is_loss(rc);
}

aclError cuda_lost_error(const struct cuda_gpu *gpu)
{
    CUresult lost = gpu->lost;

    return am_fail(code_of(lost),
                   "this process can no longer use GPU %d, because of an earlier %s "
                   "(%s); restart the program",
                   gpu->index, cuda_name(lost), text_of(lost));
}

aclError cuda_error(CUresult rc, struct cuda_gpu *gpu, const char *what, size_t size)
{
    aclError code = code_of(rc);
    CUresult none = CUDA_SUCCESS;
    char bytes[40] = "";

    if (size > 0)
        snprintf(bytes, sizeof bytes, " of %zu bytes", size);
    if (gpu != NULL && cuda_is_loss(rc) && gpu_is_broken(gpu) &&
        atomic_compare_exchange_strong(&gpu->lost, &none, rc))
        am_log(AM_LOG_WARN,
               "this process can no longer use GPU %d: %s failed with %s (%s)",
               gpu->index, what, cuda_name(rc), text_of(rc));
    return am_fail(code, "%s%s%s: the NVIDIA driver says %s: %s",
                   code == ACL_ERROR_RT_MEMORY_ALLOCATION ? "Failed to allocate: " : "",
                   what, bytes, cuda_name(rc), text_of(rc));
}
