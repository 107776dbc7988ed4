/* Physical memory shared with other processes: export, import, and who may. */
#include <inttypes.h>

#include "api/api.h"
#include "api/vmm.h"
#include "base/error.h"
#include "base/process.h"
#include "core/context.h"
#include "core/device.h"
#include "core/runtime.h"
#include "core/share.h"

static aclError flags_check(uint64_t flags)
{
    AM_REQUIRE((flags & ~ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION) == 0,
               ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; it takes 0, and 1 to let any process of this user import",
               flags);
    return ACL_SUCCESS;
}

/* Handles that reach other machines need a network between them. */
static aclError type_check(aclrtMemSharedHandleType type)
{
    AM_REQUIRE(type != ACL_MEM_SHARE_HANDLE_TYPE_FABRIC ||
                   (am_rt.product->features & AM_PRODUCT_POD),
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "shareType is FABRIC (2), which %s (ACLMEM_PRODUCT=%s) do not have; use "
               "DEFAULT (1)",
               am_rt.product->title, am_rt.product->name);
    AM_REQUIRE(type != ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "shareType is FABRIC (2): this version shares within one machine only; "
               "use DEFAULT (1)");
    AM_REQUIRE(type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, ACL_ERROR_INVALID_PARAM,
               "shareType is %d; it takes DEFAULT (1) or FABRIC (2)", (int)type);
    return ACL_SUCCESS;
}

aclError am_aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle,
                                            aclrtMemHandleType handleType, uint64_t flags,
                                            uint64_t *shareableHandle)
{
    aclError rc = am_vmm_check();

    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(handle != NULL, ACL_ERROR_INVALID_PARAM, "handle is NULL");
    AM_REQUIRE(shareableHandle != NULL, ACL_ERROR_INVALID_PARAM,
               "shareableHandle is NULL");
    AM_REQUIRE(handleType == ACL_MEM_HANDLE_TYPE_NONE, ACL_ERROR_INVALID_PARAM,
               "handleType is %d; it takes NONE (0)", (int)handleType);
    AM_REQUIRE(flags == 0 || !am_rt.is_strict, ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; editions before 8.3 take only 0 (ACLMEM_RULES=strict)",
               flags);
    rc = flags_check(flags);
    if (rc != ACL_SUCCESS)
        return rc;
    return am_share_export(handle, flags != 0, shareableHandle);
}

aclError am_aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                              aclrtMemSharedHandleType shareType,
                                              void *shareableHandle)
{
    aclError rc = am_vmm_check();

    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(handle != NULL, ACL_ERROR_INVALID_PARAM, "handle is NULL");
    AM_REQUIRE(shareableHandle != NULL, ACL_ERROR_INVALID_PARAM,
               "shareableHandle is NULL");
    rc = flags_check(flags);
    if (rc == ACL_SUCCESS)
        rc = type_check(shareType);
    if (rc != ACL_SUCCESS)
        return rc;
    return am_share_export(handle, flags != 0, shareableHandle);
}

aclError am_aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid,
                                            size_t pidNum)
{
    aclError rc = am_vmm_check();

    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(pid != NULL, ACL_ERROR_INVALID_PARAM, "pid is NULL");
    AM_REQUIRE(pidNum > 0, ACL_ERROR_INVALID_PARAM, "pidNum is 0");
    return am_share_trust(shareableHandle, pid, pidNum);
}

aclError am_aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
                                              aclrtMemSharedHandleType shareType,
                                              int32_t *pid, size_t pidNum)
{
    aclError rc = am_vmm_check();

    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(shareableHandle != NULL, ACL_ERROR_INVALID_PARAM,
               "shareableHandle is NULL");
    rc = type_check(shareType);
    if (rc != ACL_SUCCESS)
        return rc;
    return am_aclrtMemSetPidToShareableHandle(*(uint64_t *)shareableHandle, pid, pidNum);
}

aclError am_aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                              aclrtDrvMemHandle *handle)
{
    struct am_device *device;
    aclError rc = am_vmm_check();

    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(handle != NULL, ACL_ERROR_INVALID_PARAM, "handle is NULL");
    rc = am_device_find(deviceId, &device);
    if (rc != ACL_SUCCESS)
        return rc;
    return am_share_import(shareableHandle, device, handle);
}

aclError am_aclrtMemImportFromShareableHandleV2(void *shareableHandle,
                                                aclrtMemSharedHandleType shareType,
                                                uint64_t flags, aclrtDrvMemHandle *handle)
{
    int32_t device;
    aclError rc = am_vmm_check();

    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(shareableHandle != NULL, ACL_ERROR_INVALID_PARAM,
               "shareableHandle is NULL");
    AM_REQUIRE(flags == 0, ACL_ERROR_INVALID_PARAM, "flags is 0x%" PRIx64 "; it takes 0",
               flags);
    rc = type_check(shareType);
    if (rc == ACL_SUCCESS)
        rc = am_context_device(&device);
    if (rc != ACL_SUCCESS)
        return rc;
    return am_aclrtMemImportFromShareableHandle(*(uint64_t *)shareableHandle, device,
                                                handle);
}

aclError am_aclrtDeviceGetBareTgid(int32_t *pid)
{
    AM_REQUIRE(pid != NULL, ACL_ERROR_INVALID_PARAM, "pid is NULL");
    *pid = (int32_t)am_process_own_id();
    return ACL_SUCCESS;
}
