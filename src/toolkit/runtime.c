/*
 * The few functions below AscendCL that clients use, implemented with AscendCL's public
 * functions, so that layers see the calls.
 */
#include <stdint.h>
#include <string.h>

#include "acl/acl.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/sys.h"
#include "toolkit/toolkit.h"

#define AM_RUNTIME(name_, params_) ACL_FUNC_VISIBILITY int32_t name_ params_;
#include "toolkit/runtime.def"
#undef AM_RUNTIME

/* A function that is one of AscendCL under another name. */
#define FORWARD(name_, params_, call_) \
    int32_t name_ params_ \
    { \
        return call_; \
    }

/* ---- devices ---- */

/* Queries of rtGetDeviceInfo about a system (module 0). */
enum {
    MODULE_SYSTEM = 0,
    INFO_CHIP = 18,
    INFO_DIE = 19,
    INFO_SUPER_POD_DEVICE = 26,
    INFO_SERVER = 27,
    INFO_SCALE_TYPE = 28,
    INFO_SUPER_POD = 29,
    INFO_ADDRESS_MODE = 30,
};

/* By these a client knows that the machine is in no supernode. */
enum { NO_SERVER = 0x3FF };
static const int64_t NO_SUPER_POD = 0xFFFFFFFF;

FORWARD(rtDeviceGetBareTgid, (uint32_t * pid), aclrtDeviceGetBareTgid((int32_t *)pid))

/* A figure of a supernode, or `otherwise` where the product has none: no failure. */
static int32_t pod_info(uint32_t deviceId, aclrtDevAttr attr, int64_t otherwise,
                        int64_t *value)
{
    char message[256];
    int32_t rc =
        AM_CAPTURED(message, sizeof message, aclrtGetDeviceInfo(deviceId, attr, value));

    if (rc == ACL_ERROR_RT_FEATURE_NOT_SUPPORT) {
        *value = otherwise;
        rc = ACL_SUCCESS;
    }
    return rc;
}

int32_t rtGetDeviceInfo(uint32_t deviceId, int32_t moduleType, int32_t infoType,
                        int64_t *value)
{
    int64_t chip;
    int32_t rc;

    TK_NEED(value);
    TK_REQUIRE(moduleType == MODULE_SYSTEM, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "moduleType is %d; only the system (0) is known", moduleType);
    rc = aclrtGetDeviceInfo(deviceId, ACL_DEV_ATTR_PHY_CHIP_ID, &chip);
    if (rc != ACL_SUCCESS)
        return rc;
    switch (infoType) {
    case INFO_CHIP:
        *value = chip;
        return ACL_SUCCESS;
    case INFO_DIE: /* a device is one die, with its own addresses */
    case INFO_SCALE_TYPE:
    case INFO_ADDRESS_MODE:
        *value = 0;
        return ACL_SUCCESS;
    case INFO_SUPER_POD_DEVICE:
        return pod_info(deviceId, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID, chip, value);
    case INFO_SERVER:
        return pod_info(deviceId, ACL_DEV_ATTR_SUPER_POD_SERVER_ID, NO_SERVER, value);
    case INFO_SUPER_POD:
        return pod_info(deviceId, ACL_DEV_ATTR_SUPER_POD_ID, NO_SUPER_POD, value);
    default:
        return aclmem_toolkit_fail(ACL_ERROR_RT_FEATURE_NOT_SUPPORT, __func__,
                                   "infoType is %d, which is not known here", infoType);
    }
}

FORWARD(rtGetLogicDevIdByUserDevId, (int32_t userDevId, int32_t *logicDevId),
        aclrtGetLogicDevIdByUserDevId(userDevId, logicDevId))

/* AscendCL's calls are about the thread's device. */
static int32_t device_check(const char *function, uint32_t deviceId)
{
    int32_t current;
    int32_t rc = aclrtGetDevice(&current);

    if (rc == ACL_SUCCESS && (uint32_t)current != deviceId)
        rc = aclmem_toolkit_fail(ACL_ERROR_RT_PARAM_INVALID, function,
                                 "device %u is not the thread's, which is %d", deviceId,
                                 current);
    return rc;
}

int32_t rtEnableP2P(uint32_t deviceId, uint32_t peerDeviceId, uint32_t flag)
{
    int32_t rc = device_check(__func__, deviceId);

    return rc == ACL_SUCCESS ? aclrtDeviceEnablePeerAccess((int32_t)peerDeviceId, flag)
                             : rc;
}

int32_t rtDisableP2P(uint32_t deviceId, uint32_t peerDeviceId)
{
    int32_t rc = device_check(__func__, deviceId);

    return rc == ACL_SUCCESS ? aclrtDeviceDisablePeerAccess((int32_t)peerDeviceId) : rc;
}

FORWARD(rtSetDevice, (int32_t device), aclrtSetDevice(device))

FORWARD(rtGetDevice, (int32_t * device), aclrtGetDevice(device))

FORWARD(rtDeviceSynchronize, (void), aclrtSynchronizeDevice())

/* ---- memory of a device ---- */

FORWARD(rtMalloc, (void **devPtr, uint64_t size, uint32_t type, uint16_t moduleId),
        aclrtMalloc(devPtr, size, ACL_MEM_MALLOC_HUGE_FIRST))
FORWARD(rtFree, (void *devPtr), aclrtFree(devPtr))
FORWARD(rtFreePhysical, (void *handle), aclrtFreePhysical(handle))

/* A product has HBM or DDR: the kind that it has is never empty. */
int32_t rtMemGetInfoEx(int32_t memInfoType, size_t *free, size_t *total)
{
    int32_t rc = aclrtGetMemInfo(ACL_HBM_MEM, free, total);

    return rc == ACL_SUCCESS && *total == 0 ? aclrtGetMemInfo(ACL_DDR_MEM, free, total)
                                            : rc;
}

/* ---- streams, events, notifies ---- */

FORWARD(rtStreamCreate, (void **stream, int32_t priority),
        aclrtCreateStreamWithConfig(stream, (uint32_t)priority, 0))
FORWARD(rtStreamDestroy, (void *stream), aclrtDestroyStream(stream))
FORWARD(rtStreamSynchronize, (void *stream), aclrtSynchronizeStream(stream))
FORWARD(rtStreamWaitEvent, (void *stream, void *event),
        aclrtStreamWaitEvent(stream, event))
FORWARD(rtEventCreate, (void **event), aclrtCreateEvent(event))
FORWARD(rtEventDestroy, (void *event), aclrtDestroyEvent(event))
FORWARD(rtEventRecord, (void *event, void *stream), aclrtRecordEvent(event, stream))
FORWARD(rtEventSynchronize, (void *event), aclrtSynchronizeEvent(event))
FORWARD(rtEventElapsedTime, (float *time, void *start, void *end),
        aclrtEventElapsedTime(time, start, end))

int32_t rtNotifyCreate(int32_t deviceId, void **notify)
{
    int32_t rc = device_check(__func__, (uint32_t)deviceId);

    return rc == ACL_SUCCESS ? aclrtCreateNotify(notify, 0) : rc;
}

FORWARD(rtNotifyDestroy, (void *notify), aclrtDestroyNotify(notify))

FORWARD(rtNotifyRecord, (void *notify, void *stream), aclrtRecordNotify(notify, stream))

/* Without a time limit. */
FORWARD(rtNotifyWait, (void *notify, void *stream),
        aclrtWaitAndResetNotify(notify, stream, 0))

/* ---- copies ---- */

/* Only strict rules check the kind of a copy. */
FORWARD(rtMemcpyAsyncWithoutCheckKind,
        (void *dst, size_t destMax, const void *src, size_t count, uint32_t kind,
         void *stream),
        aclrtMemcpyAsync(dst, destMax, src, count, (aclrtMemcpyKind)kind, stream))

/* ---- memory of other processes ---- */

#define NAME_SIZE 65

/* Opened memory: here it is closed by its address, in AscendCL by its name. */
struct opened {
    struct opened *next;
    const void *addr;
    char name[NAME_SIZE];
};

static struct opened *all_opened;
static struct am_lock opened_lock = AM_LOCK_INIT(AM_RANK_LEAF, "opened");

/* Removes the entry at this address from the list; NULL if there is no such entry. */
static struct opened *opened_take(const void *addr)
{
    struct opened **at, *found;

    am_lock(&opened_lock);
    for (at = &all_opened; *at != NULL && (*at)->addr != addr;)
        at = &(*at)->next;
    found = *at;
    if (found != NULL)
        *at = found->next;
    am_unlock(&opened_lock);
    return found;
}

static void opened_add(struct opened *opened)
{
    am_lock(&opened_lock);
    opened->next = all_opened;
    all_opened = opened;
    am_unlock(&opened_lock);
}

FORWARD(rtIpcSetMemoryName,
        (const void *ptr, uint64_t byteCount, char *name, uint32_t len),
        aclrtIpcMemGetExportKey((void *)ptr, byteCount, name, len, 0))

/* The devices of this machine are the only ones, so sdid has nothing to choose. */
int32_t rtSetIpcMemorySuperPodPid(const char *name, uint32_t sdid, int32_t pid[],
                                  int32_t num)
{
    TK_REQUIRE(num > 0, ACL_ERROR_INVALID_PARAM, "num is %d", num);
    return aclrtIpcMemSetImportPid(name, pid, (size_t)num);
}

FORWARD(rtIpcDestroyMemoryName, (const char *name), aclrtIpcMemClose(name))

int32_t rtIpcOpenMemory(void **ptr, const char *name)
{
    struct opened *opened;
    int32_t rc;

    TK_NEED(ptr);
    TK_NEED(name);
    opened = am_sys_calloc(1, sizeof *opened);
    TK_REQUIRE(opened != NULL, ACL_ERROR_BAD_ALLOC, "no memory for the name");
    rc = aclrtIpcMemImportByKey(ptr, name, 0);
    if (rc != ACL_SUCCESS) {
        free(opened);
        return rc;
    }
    opened->addr = *ptr;
    strncpy(opened->name, name, NAME_SIZE - 1);
    /* One that a reset of its device closed may have had the same address. */
    free(opened_take(*ptr));
    opened_add(opened);
    return ACL_SUCCESS;
}

int32_t rtIpcCloseMemory(const void *ptr)
{
    struct opened *opened;
    int32_t rc;

    TK_NEED(ptr);
    opened = opened_take(ptr);
    TK_REQUIRE(opened != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "no memory was opened at %p by rtIpcOpenMemory", ptr);
    rc = aclrtIpcMemClose(opened->name);
    if (rc == ACL_SUCCESS)
        free(opened);
    else
        opened_add(opened); /* it is open still */
    return rc;
}
