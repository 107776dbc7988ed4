/* See peer.h. */
#include "core/peer.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/context.h"
#include "core/runtime.h"

bool am_peer_is_possible(void)
{
    return am_rt.product->features & AM_PRODUCT_PEER;
}

aclError am_peer_set(int32_t peer, bool is_enabled)
{
    struct am_device *found;
    int32_t device;
    aclError rc = am_device_find(peer, &found);

    if (rc == ACL_SUCCESS)
        rc = am_context_device(&device);
    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(am_peer_is_possible(), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "%s have no peer access", am_rt.product->title);
    AM_REQUIRE(peer != device, ACL_ERROR_RT_PARAM_INVALID,
               "peerDeviceId is %d, the thread's own device; it takes another one", peer);
    if (is_enabled)
        atomic_fetch_or(&am_rt.devices.device[device].peers, UINT64_C(1) << peer);
    else
        atomic_fetch_and(&am_rt.devices.device[device].peers, ~(UINT64_C(1) << peer));
    return ACL_SUCCESS;
}

bool am_peer_is_enabled(int32_t from, int32_t to)
{
    return from == to || (am_rt.devices.device[from].peers >> to & 1) != 0;
}
