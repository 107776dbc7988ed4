/* Peer access between devices. */
#include "api/api.h"
#include "base/error.h"
#include "core/peer.h"
#include "core/runtime.h"

static aclError pair_find(int32_t a, int32_t b)
{
    struct am_device *device;
    aclError rc = am_device_find(a, &device);

    return rc == ACL_SUCCESS ? am_device_find(b, &device) : rc;
}

aclError am_aclrtDeviceCanAccessPeer(int32_t *canAccessPeer, int32_t deviceId,
                                     int32_t peerDeviceId)
{
    aclError rc;

    AM_REQUIRE(canAccessPeer != NULL, ACL_ERROR_INVALID_PARAM, "canAccessPeer is NULL");
    rc = pair_find(deviceId, peerDeviceId);
    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(deviceId != peerDeviceId, ACL_ERROR_INVALID_PARAM,
               "deviceId and peerDeviceId are both %d; they must differ", deviceId);
    *canAccessPeer = am_peer_is_possible(deviceId, peerDeviceId);
    return ACL_SUCCESS;
}

/* Enabling what is enabled, and disabling what is not, changes nothing and succeeds. */
aclError am_aclrtDeviceEnablePeerAccess(int32_t peerDeviceId, uint32_t flags)
{
    AM_REQUIRE(flags == 0, ACL_ERROR_INVALID_PARAM, "flags is 0x%x; it takes 0", flags);
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
    int32_t n = am_rt.devices.n;
    bool are_known =
        deviceId >= 0 && deviceId < n && peerDeviceId >= 0 && peerDeviceId < n;

    AM_REQUIRE(status != NULL, ACL_ERROR_INVALID_PARAM, "status is NULL");
    AM_REQUIRE(
        are_known || !am_rt.is_strict, ACL_ERROR_RT_PARAM_INVALID,
        "devices %d and %d: this process sees %d, numbered from 0; editions since 9.1 "
        "give 0 or refuse (ACLMEM_RULES=strict)",
        deviceId, peerDeviceId, n);
    *status = are_known && deviceId != peerDeviceId &&
              am_peer_is_enabled(deviceId, peerDeviceId);
    return ACL_SUCCESS;
}
