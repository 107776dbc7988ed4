/* Memory of aclrtMalloc shared with other processes, by keys. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "base/sys.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/ipc/key.h"

static aclError product_check(void)
{
    AM_REQUIRE(am_setup.product->features & AM_PRODUCT_PEER,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "memory is not shared by keys on %s (ACLMEM_PRODUCT=%s)",
               am_setup.product->title, am_setup.product->name);
    return ACL_SUCCESS;
}

aclError am_aclrtIpcMemGetExportKey(void *devPtr, size_t size, char *key, size_t len,
                                    uint64_t flags)
{
    AM_TRY(product_check());
    AM_REQUIRE_RANGE(devPtr, size);
    AM_REQUIRE_NONNULL(key);
    AM_REQUIRE(len == AM_KEY_SIZE, ACL_ERROR_INVALID_PARAM, "len is %zu; it takes %d",
               len, AM_KEY_SIZE);
    AM_REQUIRE((flags & ~ACL_RT_IPC_MEM_EXPORT_FLAG_DISABLE_PID_VALIDATION) == 0,
               ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; it takes 0, or 1 to let any process of this user import",
               flags);
    return am_key_export(devPtr, size, flags != 0, key);
}

aclError am_aclrtIpcMemSetImportPid(const char *key, int32_t *pid, size_t num)
{
    AM_TRY(product_check());
    AM_REQUIRE_NONNULL(key, pid);
    AM_REQUIRE_NONZERO(num);
    return am_key_trust(key, pid, num);
}

/* This machine is the only server there is. */
static aclError server_check(const aclrtServerPid *server, size_t i)
{
    AM_REQUIRE(server->pid != NULL, ACL_ERROR_INVALID_PARAM,
               "serverPids[%zu].pid is NULL", i);
    AM_REQUIRE(server->num > 0, ACL_ERROR_INVALID_PARAM, "serverPids[%zu].num is 0", i);
    AM_REQUIRE(am_device_find_driver(server->sdid) != NULL,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "serverPids[%zu].sdid is %u, which is not a device of this machine; this "
               "version shares within one machine only",
               i, server->sdid);
    return ACL_SUCCESS;
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
    AM_REQUIRE_A3(AM_PRODUCT_POD);
    AM_REQUIRE_NONNULL(key, serverPids);
    AM_REQUIRE_NONZERO(num);
    for (size_t i = 0; i < num; i++)
        AM_TRY(server_check(&serverPids[i], i));
    return servers_trust(key, serverPids, num);
}

aclError am_aclrtIpcMemImportByKey(void **devPtr, const char *key, uint64_t flags)
{
    AM_TRY(product_check());
    AM_REQUIRE_NONNULL(devPtr, key);
    AM_REQUIRE((flags & ~ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS) == 0,
               ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64 "; it takes 0, or 1 to enable peer access", flags);
    AM_REQUIRE(flags == 0 || !am_setup.is_strict, ACL_ERROR_INVALID_PARAM,
               "flags is 0x%" PRIx64
               "; the 8.3 edition takes only 0 (ACLMEM_RULES=strict)",
               flags);
    return am_key_import(key, flags != 0, devPtr);
}

/* Which of two links is used makes no difference here. */
aclError am_aclrtIpcMemSetAttr(const char *key, aclrtIpcMemAttrType type, uint64_t attr)
{
    AM_REQUIRE_A3(AM_PRODUCT_POD);
    AM_REQUIRE_NONNULL(key);
    AM_REQUIRE(type == ACL_RT_IPC_MEM_ATTR_ACCESS_LINK, ACL_ERROR_INVALID_PARAM,
               "type is %d; it takes ACCESS_LINK (0)", (int)type);
    AM_REQUIRE(attr == ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_SIO ||
                   attr == ACL_RT_IPC_MEM_ATTR_ACCESS_LINK_HCCS,
               ACL_ERROR_INVALID_PARAM,
               "attr is %" PRIu64 "; it takes SIO (0) or HCCS (1)", attr);
    return am_key_check(key);
}

aclError am_aclrtIpcMemClose(const char *key)
{
    AM_TRY(product_check());
    AM_REQUIRE_NONNULL(key);
    return am_key_close(key);
}
