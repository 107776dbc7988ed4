/*
 * Devices: counting, setting, resetting, their properties, and access to each other.
 *
 * Three ids of a device in the documents' words: the user's (am_device.id, which nearly
 * all calls take), the logical one (am_device.driver_id, which ASCEND_RT_VISIBLE_DEVICES
 * lists) and the physical one, which is the logical one here: they differ in containers
 * only.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "base/machine.h"
#include "core/copy/span.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/devices.h"
#include "core/watch.h"
#include "layer/layers.h"

aclError am_aclrtSetDevice(struct am_device *device)
{
    return am_device_enter(device, true);
}

static aclError device_reset(struct am_device *device, bool is_forced)
{
    struct am_watch_left before = am_watch_count();

    AM_TRY(am_device_reset(device, is_forced));
    am_explain_reset(&before);
    return ACL_SUCCESS;
}

aclError am_aclrtResetDevice(struct am_device *device)
{
    return device_reset(device, false);
}

aclError am_aclrtResetDeviceForce(struct am_device *device)
{
    return device_reset(device, true);
}

aclError am_aclrtGetDeviceCount(uint32_t *count)
{
    *count = (uint32_t)am_devices.n;
    return ACL_SUCCESS;
}

aclError am_aclrtGetRunMode(aclrtRunMode *runMode)
{
    *runMode = am_setup.product->features & AM_PRODUCT_RC ? ACL_DEVICE : ACL_HOST;
    return ACL_SUCCESS;
}

const char *am_aclrtGetSocName(void)
{
    return am_setup.soc;
}

/* ---- information ---- */

#define BUS_ID_SIZE 13 /* "0000:c1:00.0" */

/* The value in product_attrs.def.  Without one: `otherwise`, unless that is -1. */
static aclError product_figure(aclrtDevAttr attr, int64_t otherwise, int64_t *ret_value)
{
    int64_t value = otherwise;

    AM_REQUIRE(am_product_attr(am_setup.product, attr, &value) || otherwise != -1,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "%s have no published figure for attribute %d", am_setup.product->title,
               (int)attr);
    *ret_value = value;
    return ACL_SUCCESS;
}

static aclError figure(struct am_device *device, aclrtDevAttr attr, int64_t *ret_value)
{
    const struct am_domain *domain = device->domain;

    switch (attr) {
    case ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE:
        AM_REQUIRE(domain != NULL, ACL_ERROR_UNINITIALIZE, "aclFinalize has been called");
        *ret_value = (int64_t)domain->capacity;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_PHY_CHIP_ID:
        return product_figure(attr, device->driver_id, ret_value);
    case ACL_DEV_ATTR_SUPER_POD_DEVICE_ID:
    case ACL_DEV_ATTR_SUPER_POD_SERVER_ID:
    case ACL_DEV_ATTR_SUPER_POD_ID:
        AM_REQUIRE_FEATURE(AM_PRODUCT_POD, "%s have no supernode");
        *ret_value = attr == ACL_DEV_ATTR_SUPER_POD_DEVICE_ID ? device->driver_id : 0;
        return ACL_SUCCESS;
    case ACL_DEV_ATTR_SMP_ID:         /* one system for all of them */
    case ACL_DEV_ATTR_IS_VIRTUAL:     /* a whole device, not a part of one */
    case ACL_DEV_ATTR_MAX_GRID_DIM_X: /* documented: 0 where there are no grids */
    case ACL_DEV_ATTR_MAX_GRID_DIM_Y:
    case ACL_DEV_ATTR_MAX_GRID_DIM_Z:
    case ACL_DEV_ATTR_MAX_BLOCK_PER_GRID:
    case ACL_DEV_ATTR_MAX_THREADS_PER_BLOCK:
    case ACL_DEV_ATTR_MAX_BLOCK_DIM_X:
    case ACL_DEV_ATTR_MAX_BLOCK_DIM_Y:
    case ACL_DEV_ATTR_MAX_BLOCK_DIM_Z:
        return product_figure(attr, 0, ret_value);
    case ACL_DEV_ATTR_AICPU_CORE_NUM:
    case ACL_DEV_ATTR_AICORE_CORE_NUM:
    case ACL_DEV_ATTR_CUBE_CORE_NUM:
    case ACL_DEV_ATTR_VECTOR_CORE_NUM:
    case ACL_DEV_ATTR_WARP_SIZE:
    case ACL_DEV_ATTR_MAX_THREAD_PER_VECTOR_CORE:
    case ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE:
    case ACL_DEV_ATTR_L2_CACHE_SIZE:
    case ACL_DEV_ATTR_CUST_OP_PRIVILEGE:
    case ACL_DEV_ATTR_MAINBOARD_ID:
    case ACL_DEV_ATTR_HD_CONNECT_TYPE:
    case ACL_DEV_ATTR_DEVICE_FORM_FACTOR:
    case ACL_DEV_ATTR_NPU_ARCH:
        return product_figure(attr, -1, ret_value);
    }
    return am_fail(ACL_ERROR_INVALID_PARAM, "attr is %d, which is not a device attribute",
                   (int)attr);
}

aclError am_aclrtGetDeviceInfo(struct am_device *device, aclrtDevAttr attr,
                               int64_t *value)
{
    return figure(device, attr, value);
}

aclError am_aclGetDeviceCapability(struct am_device *device, aclDeviceInfo deviceInfo,
                                   int64_t *value)
{
    static const aclrtDevAttr attrs[] = {
        [ACL_DEVICE_INFO_AI_CORE_NUM] = ACL_DEV_ATTR_AICORE_CORE_NUM,
        [ACL_DEVICE_INFO_VECTOR_CORE_NUM] = ACL_DEV_ATTR_VECTOR_CORE_NUM,
        [ACL_DEVICE_INFO_L2_SIZE] = ACL_DEV_ATTR_L2_CACHE_SIZE,
    };

    return figure(device, attrs[deviceInfo], value);
}

/*
 * The two documented features are of compute tasks and of queues, which are not here; a
 * number that no document knows is no feature either.
 */
aclError am_aclrtGetDeviceCapability(int32_t deviceId, aclrtDevFeatureType devFeatureType,
                                     int32_t *value)
{
    *value = ACL_DEV_FEATURE_NOT_SUPPORT;
    return ACL_SUCCESS;
}

aclError am_aclrtQueryDeviceStatus(int32_t deviceId, aclrtDeviceStatus *deviceStatus)
{
    *deviceStatus = ACL_RT_DEVICE_STATUS_NORMAL;
    return ACL_SUCCESS;
}

/* Nothing computes here: 0.  -1 is what a device does not measure, or does not have. */
aclError am_aclrtGetDeviceUtilizationRate(int32_t deviceId,
                                          aclrtUtilizationInfo *utilizationInfo)
{
    int64_t n_vector_cores = 1;

    AM_REQUIRE(utilizationInfo->utilizationExtend == NULL, ACL_ERROR_INVALID_PARAM,
               "utilizationInfo.utilizationExtend is %p; it is reserved and takes NULL",
               (void *)utilizationInfo->utilizationExtend);
    AM_TRY(am_device_find(deviceId, NULL));
    am_product_attr(am_setup.product, ACL_DEV_ATTR_VECTOR_CORE_NUM, &n_vector_cores);
    *utilizationInfo = (aclrtUtilizationInfo){
        .vectorUtilization = n_vector_cores > 0 ? 0 : -1,
        .memoryUtilization = -1,
    };
    return ACL_SUCCESS;
}

aclError am_aclrtDeviceGetUuid(struct am_device *device, aclrtUuid *uuid)
{
    uint8_t machine[AM_UUID_SIZE];
    char name[32];

    AM_REQUIRE_FEATURE(AM_PRODUCT_UUID, "%s have no UUID");
    if (am_setup.backend->caps & AM_CAP_DEVICES) {
        struct am_device_info info = am_device_info(device);

        memcpy(uuid->bytes, info.uuid, sizeof info.uuid);
        return ACL_SUCCESS;
    }
    am_machine_boot_id(machine);
    snprintf(name, sizeof name, "aclmem device %d", device->driver_id);
    am_uuid_make(machine, name, (uint8_t *)uuid->bytes);
    return ACL_SUCCESS;
}

/* An emulated device has bus c1 or above: there are as many as there can be devices. */
static void bus_id(struct am_device *device, char *ret_text)
{
    _Static_assert(0xc1 + AM_DEVICES_MAX <= 0x100, "each device has its bus");
    if (am_setup.backend->caps & AM_CAP_DEVICES)
        snprintf(ret_text, BUS_ID_SIZE, "%s", am_device_info(device).bus_id);
    else
        snprintf(ret_text, BUS_ID_SIZE, "0000:%02x:00.0",
                 (0xc1 + device->driver_id) & 0xff);
}

static aclError bus_check(void)
{
    AM_REQUIRE(
        !(am_setup.product->features & AM_PRODUCT_RC), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "%s: the device is the PCI root and has no bus id", am_setup.product->title);
    return ACL_SUCCESS;
}

aclError am_aclrtDeviceGetPCIBusId(int32_t deviceId, char *pciBusId, int32_t len)
{
    AM_REQUIRE(len >= BUS_ID_SIZE, ACL_ERROR_INVALID_PARAM,
               "len is %d; a bus id takes %d bytes with its terminating zero", len,
               BUS_ID_SIZE);
    AM_GET_DEVICE(device, deviceId);
    AM_TRY(bus_check());
    bus_id(device, pciBusId);
    return ACL_SUCCESS;
}

aclError am_aclrtDeviceGetByPCIBusId(const char *pciBusId, int32_t *deviceId)
{
    char text[BUS_ID_SIZE];

    AM_TRY(bus_check());
    for (int32_t i = 0; i < am_devices.n; i++) {
        bus_id(&am_devices.device[i], text);
        if (strcasecmp(text, pciBusId) == 0) {
            *deviceId = i;
            return ACL_SUCCESS;
        }
    }
    return am_fail(
        ACL_ERROR_RT_PARAM_INVALID,
        "no visible device has the bus id \"%.32s\"; bus ids have the form \"%s\"",
        pciBusId, "0000:c1:00.0");
}

/* The link between two different devices, by the driver's ids. */
static uint64_t link_between(int32_t a, int32_t b)
{
    unsigned features = am_setup.product->features;

    if (features & AM_PRODUCT_DIES)
        return a / 2 == b / 2 ? ACL_RT_DEVS_TOPOLOGY_SIO : ACL_RT_DEVS_TOPOLOGY_HCCS_SW;
    return features & AM_PRODUCT_HCCS ? ACL_RT_DEVS_TOPOLOGY_HCCS
                                      : ACL_RT_DEVS_TOPOLOGY_PHB;
}

/* A device has no link to itself: 0. */
aclError am_aclrtGetDevicesTopo(struct am_device *device, struct am_device *other,
                                uint64_t *value)
{
    AM_TRY(bus_check());
    *value = device != other ? link_between(device->driver_id, other->driver_id) : 0;
    return ACL_SUCCESS;
}

aclError am_aclrtGetLogicDevIdByUserDevId(struct am_device *device, int32_t *logicDevId)
{
    *logicDevId = device->driver_id;
    return ACL_SUCCESS;
}

AM_SAME_AS(aclrtGetPhyDevIdByUserDevId, aclrtGetLogicDevIdByUserDevId);
/* In the newest edition the argument of this function is the user's id. */
AM_SAME_AS(aclrtGetPhyDevIdByLogicDevId, aclrtGetLogicDevIdByUserDevId);

aclError am_aclrtGetUserDevIdByLogicDevId(int32_t logicDevId, int32_t *userDevId)
{
    struct am_device *device = am_device_find_driver((uint32_t)logicDevId);

    AM_REQUIRE(device != NULL, ACL_ERROR_RT_INVALID_DEVICEID,
               "logical device %d does not exist or is not visible (ACLMEM_DEVICES, "
               "ASCEND_RT_VISIBLE_DEVICES)",
               logicDevId);
    *userDevId = device->id;
    return ACL_SUCCESS;
}

/* Works for devices that are not visible too: neither id is the user's. */
aclError am_aclrtGetLogicDevIdByPhyDevId(int32_t phyDevId, int32_t *logicDevId)
{
    AM_REQUIRE(phyDevId >= 0 && phyDevId < am_devices.n_all,
               ACL_ERROR_RT_INVALID_DEVICEID,
               "physical device %d does not exist; the machine has %d (ACLMEM_DEVICES)",
               phyDevId, (int)am_devices.n_all);
    *logicDevId = phyDevId;
    return ACL_SUCCESS;
}

aclError am_aclrtDeviceGetStreamPriorityRange(int32_t *least, int32_t *greatest)
{
    *least = 7;
    *greatest = 0;
    return ACL_SUCCESS;
}

/* ---- peer access ---- */

aclError am_aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId,
                                     int32_t peerDeviceId)
{
    AM_REQUIRE(deviceId != peerDeviceId, ACL_ERROR_INVALID_PARAM,
               "deviceId and peerDeviceId are both %d; they must differ", deviceId);
    *canAccessPeer = am_peer_is_possible(deviceId, peerDeviceId);
    return ACL_SUCCESS;
}

/* Enabling what is enabled, and disabling what is not, changes nothing and succeeds. */
aclError am_aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags)
{
    return am_peer_set(peerDeviceId, true);
}

aclError am_aclrtDeviceDisablePeerAccess(int32_t peerDeviceId)
{
    return am_peer_set(peerDeviceId, false);
}

/* Documented for ids out of range: 0, or 107000. */
aclError am_aclrtDevicePeerAccessStatus(int32_t deviceId, int32_t peerDeviceId,
                                        int32_t *status)
{
    int32_t n = am_devices.n;
    bool are_known =
        deviceId >= 0 && deviceId < n && peerDeviceId >= 0 && peerDeviceId < n;

    AM_REQUIRE(
        are_known || !am_setup.is_strict, ACL_ERROR_RT_PARAM_INVALID,
        "devices %d and %d: this process sees %d, numbered from 0; editions since 9.1 "
        "give 0 or refuse (ACLMEM_RULES=strict)",
        deviceId, peerDeviceId, n);
    *status = are_known && deviceId != peerDeviceId &&
              am_peer_is_enabled(deviceId, peerDeviceId);
    return ACL_SUCCESS;
}

/* Whether peer access is enabled between `device` and each that memory is in, either way. */
static bool peers_are_enabled(uint64_t devices, int32_t device)
{
    for (; devices != 0; devices &= devices - 1) {
        int32_t own = __builtin_ctzll(devices);

        if (!am_peer_is_enabled(device, own) && !am_peer_is_enabled(own, device))
            return false;
    }
    return true;
}

/* A peer's tables are the devices' own here: there is nothing to build in advance. */
aclError am_aclrtMemP2PMap(void *devPtr, size_t size, int32_t dstDevId, uint64_t flags)
{
    struct am_spans spans;
    aclError rc = ACL_SUCCESS;

    AM_GET_CURRENT_DEVICE(device);
    AM_TRY(am_spans_open_device(&spans, devPtr, size, AM_ACCESS_NONE, device, "devPtr"));
    if (spans.devices == UINT64_C(1) << dstDevId)
        rc =
            am_fail(ACL_ERROR_RT_PARAM_INVALID,
                    "%p is memory of device %d itself; dstDevId must name another device",
                    devPtr, dstDevId);
    else if (!peers_are_enabled(spans.devices, dstDevId))
        rc = am_fail(ACL_ERROR_RT_PARAM_INVALID,
                     "device %d is not a peer of the device that holds %p; call "
                     "aclrtDeviceEnablePeerAccess first",
                     dstDevId, devPtr);
    am_spans_close(&spans);
    return rc;
}
