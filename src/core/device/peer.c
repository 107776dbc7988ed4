/* See peer.h. */
#include "core/device/peer.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"

bool am_peer_is_possible(int32_t device, int32_t peer)
{
    const struct am_device *all = am_devices.device;

    if (!(am_setup.product->features & AM_PRODUCT_PEER))
        return false;
    return !(am_setup.backend->caps & AM_CAP_DEVICES) ||
           am_setup.backend->device_can_reach(all[device].driver_id, all[peer].driver_id);
}

aclError am_peer_set(int32_t peer, bool is_enabled)
{
    struct am_device *found;
    int32_t device;

    AM_TRY(am_device_find(peer, &found));
    AM_TRY(am_context_device(&device));
    AM_REQUIRE(am_setup.product->features & AM_PRODUCT_PEER,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "%s have no peer access",
               am_setup.product->title);
    AM_REQUIRE(
        peer != device, ACL_ERROR_RT_PARAM_INVALID,
        "peerDeviceId is %d, the current device of this thread; it takes another device",
        peer);
    AM_REQUIRE(am_peer_is_possible(device, peer), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "device %d (%s) cannot access the memory of device %d (%s)", device,
               am_device_info(&am_devices.device[device]).bus_id, peer,
               am_device_info(found).bus_id);
    if (is_enabled)
        atomic_fetch_or(&am_devices.device[device].peers, UINT64_C(1) << peer);
    else
        atomic_fetch_and(&am_devices.device[device].peers, ~(UINT64_C(1) << peer));
    return ACL_SUCCESS;
}

bool am_peer_is_enabled(int32_t from, int32_t to)
{
    return from == to || (am_devices.device[from].peers >> to & 1) != 0;
}
