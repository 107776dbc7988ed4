/* Physical memory shared with other processes: export, import, permission. */
#include <inttypes.h>

#include "api/api.h"
#include "api/check.h"
#include "api/vmm.h"
#include "base/error.h"
#include "base/process.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/ipc/share.h"

/* Which kind of offer a type of handle stands for. */
static aclError type_kind(aclrtMemSharedHandleType type, enum am_share_kind *ret_kind)
{
    AM_REQUIRE(type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT ||
                   type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC,
               ACL_ERROR_INVALID_PARAM,
               "shareType is %d; it takes DEFAULT (1) or FABRIC (2)", (int)type);
    AM_REQUIRE(type == ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT ||
                   (am_setup.product->features & AM_PRODUCT_POD),
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "shareType is FABRIC (2), which %s (ACLMEM_PRODUCT=%s) do not have; use "
               "DEFAULT (1), or ACLMEM_PRODUCT=A3",
               am_setup.product->title, am_setup.product->name);
    *ret_kind =
        type == ACL_MEM_SHARE_HANDLE_TYPE_FABRIC ? AM_SHARE_FABRIC : AM_SHARE_MEMORY;
    return ACL_SUCCESS;
}

/* The shareable handle: a number, or the bytes of a fabric handle. */
static aclError share_read(enum am_share_kind kind, const void *handle,
                           struct am_share_handle *ret_share)
{
    if (kind == AM_SHARE_FABRIC)
        return am_share_parse_fabric(handle, ret_share);
    *ret_share = (struct am_share_handle){.number = *(const uint64_t *)handle};
    return ACL_SUCCESS;
}

static aclError share_write(enum am_share_kind kind, const struct am_share_handle *share,
                            void *handle)
{
    if (kind == AM_SHARE_FABRIC)
        return am_share_print_fabric(share, handle);
    *(uint64_t *)handle = share->number;
    return ACL_SUCCESS;
}

/* The checks that both forms share, and the call. */
static aclError share_export(aclrtDrvMemHandle handle, enum am_share_kind kind,
                             uint64_t flags, void *shareable)
{
    struct am_share_handle share;

    AM_REQUIRE((flags & ~ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION) == 0,
               ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; it takes 0, or 1 to let any process of this user import",
               flags);
    AM_TRY(am_share_export(handle, kind, flags != 0, &share));
    return share_write(kind, &share, shareable);
}

static aclError share_trust(enum am_share_kind kind, const struct am_share_handle *share,
                            const int32_t *pid, size_t n)
{
    AM_REQUIRE_NONNULL(pid);
    AM_REQUIRE(n > 0, ACL_ERROR_INVALID_PARAM, "pidNum is 0");
    return am_share_trust(kind, share, pid, n);
}

static aclError share_import(enum am_share_kind kind, const struct am_share_handle *share,
                             int32_t device_id, aclrtDrvMemHandle *handle)
{
    struct am_device *device;

    AM_REQUIRE_NONNULL(handle);
    AM_TRY(am_device_find(device_id, &device));
    return am_share_import(kind, share, device, handle);
}

aclError am_aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle,
                                            aclrtMemHandleType handleType, uint64_t flags,
                                            uint64_t *shareableHandle)
{
    AM_TRY(am_vmm_check());
    AM_REQUIRE_NONNULL(handle, shareableHandle);
    AM_REQUIRE(handleType == ACL_MEM_HANDLE_TYPE_NONE, ACL_ERROR_INVALID_PARAM,
               "handleType is %d; it takes NONE (0)", (int)handleType);
    AM_REQUIRE(flags == 0 || !am_setup.is_strict, ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; editions before 8.3 take only 0 (ACLMEM_RULES=strict)",
               flags);
    return share_export(handle, AM_SHARE_MEMORY, flags, shareableHandle);
}

aclError am_aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                              aclrtMemSharedHandleType shareType,
                                              void *shareableHandle)
{
    enum am_share_kind kind = AM_SHARE_MEMORY;

    AM_TRY(am_vmm_check());
    AM_REQUIRE_NONNULL(handle, shareableHandle);
    AM_TRY(type_kind(shareType, &kind));
    return share_export(handle, kind, flags, shareableHandle);
}

aclError am_aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid,
                                            size_t pidNum)
{
    struct am_share_handle share = {.number = shareableHandle};

    AM_TRY(am_vmm_check());
    return share_trust(AM_SHARE_MEMORY, &share, pid, pidNum);
}

aclError am_aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
                                              aclrtMemSharedHandleType shareType,
                                              int32_t *pid, size_t pidNum)
{
    enum am_share_kind kind = AM_SHARE_MEMORY;
    struct am_share_handle share;

    AM_TRY(am_vmm_check());
    AM_REQUIRE_NONNULL(shareableHandle);
    AM_TRY(type_kind(shareType, &kind));
    AM_TRY(share_read(kind, shareableHandle, &share));
    return share_trust(kind, &share, pid, pidNum);
}

aclError am_aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                              aclrtDrvMemHandle *handle)
{
    struct am_share_handle share = {.number = shareableHandle};

    AM_TRY(am_vmm_check());
    return share_import(AM_SHARE_MEMORY, &share, deviceId, handle);
}

aclError am_aclrtMemImportFromShareableHandleV2(void *shareableHandle,
                                                aclrtMemSharedHandleType shareType,
                                                uint64_t flags, aclrtDrvMemHandle *handle)
{
    enum am_share_kind kind = AM_SHARE_MEMORY;
    struct am_share_handle share;
    struct am_device *device;
    int32_t id;

    AM_TRY(am_vmm_check());
    AM_REQUIRE_NONNULL(shareableHandle);
    AM_REQUIRE_ZERO(flags);
    AM_TRY(type_kind(shareType, &kind));
    AM_TRY(am_context_device(&id));
    AM_TRY(share_read(kind, shareableHandle, &share));
    if (kind == AM_SHARE_MEMORY)
        return share_import(kind, &share, id, handle);
    AM_REQUIRE_NONNULL(handle);
    AM_TRY(am_device_find(id, &device));
    return am_share_import_fabric(shareableHandle, device, handle);
}

aclError am_aclrtDeviceGetBareTgid(int32_t *pid)
{
    AM_REQUIRE_NONNULL(pid);
    *pid = (int32_t)am_process_own_id();
    return ACL_SUCCESS;
}
