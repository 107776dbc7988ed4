/* Memory shared with other processes: export, import, permission. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "base/error.h"
#include "base/process.h"
#include "base/sys.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/ipc/key.h"
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

/* is_open: any process of this user may import. */
static aclError share_export(aclrtDrvMemHandle handle, enum am_share_kind kind,
                             bool is_open, void *shareable)
{
    struct am_share_handle share;

    AM_TRY(am_share_export(handle, kind, is_open, &share));
    if (kind == AM_SHARE_FABRIC)
        return am_share_print_fabric(&share, shareable);
    *(uint64_t *)shareable = share.number;
    return ACL_SUCCESS;
}

static aclError share_import(enum am_share_kind kind, const struct am_share_handle *share,
                             int32_t device_id, aclrtDrvMemHandle *handle)
{
    struct am_device *device;

    AM_TRY(am_device_find(device_id, &device));
    return am_share_import(kind, share, device, handle);
}

aclError am_aclrtMemExportToShareableHandle(aclrtDrvMemHandle handle,
                                            aclrtMemHandleType handleType, uint64_t flags,
                                            uint64_t *shareableHandle)
{
    AM_REQUIRE(flags == 0 || !am_setup.is_strict, ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; editions before 8.3 take only 0 (ACLMEM_RULES=strict)",
               flags);
    return share_export(handle, AM_SHARE_MEMORY,
                        flags == ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                        shareableHandle);
}

aclError am_aclrtMemExportToShareableHandleV2(aclrtDrvMemHandle handle, uint64_t flags,
                                              aclrtMemSharedHandleType shareType,
                                              void *shareableHandle)
{
    enum am_share_kind kind = AM_SHARE_MEMORY;

    AM_TRY(type_kind(shareType, &kind));
    return share_export(handle, kind,
                        flags == ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                        shareableHandle);
}

aclError am_aclrtMemSetPidToShareableHandle(uint64_t shareableHandle, int32_t *pid,
                                            size_t pidNum)
{
    struct am_share_handle share = {.number = shareableHandle};

    return am_share_trust(AM_SHARE_MEMORY, &share, pid, pidNum);
}

aclError am_aclrtMemSetPidToShareableHandleV2(void *shareableHandle,
                                              aclrtMemSharedHandleType shareType,
                                              int32_t *pid, size_t pidNum)
{
    enum am_share_kind kind = AM_SHARE_MEMORY;
    struct am_share_handle share;

    AM_TRY(type_kind(shareType, &kind));
    AM_TRY(share_read(kind, shareableHandle, &share));
    return am_share_trust(kind, &share, pid, pidNum);
}

aclError am_aclrtMemImportFromShareableHandle(uint64_t shareableHandle, int32_t deviceId,
                                              aclrtDrvMemHandle *handle)
{
    struct am_share_handle share = {.number = shareableHandle};

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

    AM_TRY(type_kind(shareType, &kind));
    AM_TRY(am_context_device(&id));
    AM_TRY(share_read(kind, shareableHandle, &share));
    if (kind == AM_SHARE_MEMORY)
        return share_import(kind, &share, id, handle);
    AM_TRY(am_device_find(id, &device));
    return am_share_import_fabric(shareableHandle, device, handle);
}

aclError am_aclrtDeviceGetBareTgid(int32_t *pid)
{
    *pid = (int32_t)am_process_own_id();
    return ACL_SUCCESS;
}

/* ---- memory of aclrtMalloc, by keys ---- */

aclError am_aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len,
                                    uint64_t flags)
{
    AM_REQUIRE(len == AM_KEY_SIZE, ACL_ERROR_INVALID_PARAM, "len is %zu; it takes %d",
               len, AM_KEY_SIZE);
    return am_key_export(devPtr, size,
                         flags == ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION, key);
}

aclError am_aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num)
{
    return am_key_trust(key, pid, num);
}

/* The processes of all servers in one list: all of them may import, or none. */
static aclError servers_trust(const char *key, const aclrtServerPid *servers, size_t n)
{
    size_t n_pids = 0;
    size_t at = 0;
    int32_t *pids;
    aclError rc;

    for (size_t i = 0; i < n; i++) {
        AM_REQUIRE(servers[i].num <= SIZE_MAX - n_pids, ACL_ERROR_INVALID_PARAM,
                   "serverPids[%zu].num is %zu, more than there can be", i,
                   servers[i].num);
        n_pids += servers[i].num;
    }
    pids = am_sys_calloc(n_pids, sizeof *pids);
    AM_REQUIRE(pids != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a list of %zu processes",
               n_pids);
    for (size_t i = 0; i < n; at += servers[i++].num)
        memcpy(&pids[at], servers[i].pid, servers[i].num * sizeof *pids);
    rc = am_key_trust(key, pids, n_pids);
    free(pids);
    return rc;
}

aclError am_aclrtIpcMemImportPidInterServer(const char *key, aclrtServerPid *serverPids,
                                            size_t num)
{
    /* This machine is the only server there is. */
    for (size_t i = 0; i < num; i++) {
        AM_REQUIRE(serverPids[i].pid != NULL, ACL_ERROR_INVALID_PARAM,
                   "serverPids[%zu].pid is NULL", i);
        AM_REQUIRE(serverPids[i].num > 0, ACL_ERROR_INVALID_PARAM,
                   "serverPids[%zu].num is 0", i);
        AM_REQUIRE(am_device_find_driver(serverPids[i].sdid) != NULL,
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "serverPids[%zu].sdid is %u, which is not a device of this machine; "
                   "this version shares within one machine only",
                   i, serverPids[i].sdid);
    }
    return servers_trust(key, serverPids, num);
}

aclError am_aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags)
{
    AM_REQUIRE(flags == 0 || !am_setup.is_strict, ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; the 8.3 edition takes only 0 (ACLMEM_RULES=strict)",
               flags);
    return am_key_import(key, flags == ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS,
                         devPtr);
}

/* Which of two links is used makes no difference here. */
aclError am_aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr)
{
    return am_key_check(key);
}
