/* Peer access between devices. */
#include <inttypes.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/copy/span.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/peer.h"
#include "core/device/setup.h"

aclError am_aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId,
                                     int32_t peerDeviceId)
{
    AM_REQUIRE_NONNULL(canAccessPeer);
    AM_TRY(am_device_find(deviceId, NULL));
    AM_TRY(am_device_find(peerDeviceId, NULL));
    AM_REQUIRE(deviceId != peerDeviceId, ACL_ERROR_INVALID_PARAM,
               "deviceId and peerDeviceId are both %d; they must differ", deviceId);
    *canAccessPeer = am_peer_is_possible(deviceId, peerDeviceId);
    return ACL_SUCCESS;
}

/* Enabling what is enabled, and disabling what is not, changes nothing and succeeds. */
aclError am_aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags)
{
    AM_REQUIRE_ZERO(flags);
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

    AM_REQUIRE_NONNULL(status);
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
    int32_t device;
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE_RANGE(devPtr, size);
    AM_REQUIRE_ZERO(flags);
    AM_TRY(am_device_find(dstDevId, NULL));
    AM_TRY(am_context_device(&device));
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
