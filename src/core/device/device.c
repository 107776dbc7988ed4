/* See device.h. */
#include "core/device/device.h"

#include "base/error.h"
#include "core/device/setup.h"

struct am_setup am_setup = {.default_device = -1};
struct am_devices am_devices = {.lock = AM_LOCK_INIT(AM_RANK_DEVICE, "devices")};

aclError am_device_find(int32_t id, struct am_device **ret_device)
{
    int32_t n = am_devices.n;

    AM_REQUIRE(id >= 0 && id < n, ACL_ERROR_RT_INVALID_DEVICEID,
               "device %d does not exist; this process sees %d, numbered from 0 "
               "(ACLMEM_DEVICES, ASCEND_RT_VISIBLE_DEVICES)",
               id, n);
    if (ret_device != NULL)
        *ret_device = &am_devices.device[id];
    return ACL_SUCCESS;
}

struct am_device *am_device_find_driver(uint32_t driver_id)
{
    for (int32_t i = 0; i < am_devices.n; i++) {
        if ((uint32_t)am_devices.device[i].driver_id == driver_id)
            return &am_devices.device[i];
    }
    return NULL;
}

struct am_device_info am_device_info(struct am_device *device)
{
    return AM_LOCKED(&am_devices.lock, device->info);
}

bool am_device_is_active(struct am_device *device)
{
    return AM_LOCKED(&am_devices.lock, device->primary != NULL);
}

bool am_peer_is_possible(int32_t device, int32_t peer)
{
    const struct am_device *all = am_devices.device;

    if (!(am_setup.product->features & AM_PRODUCT_PEER))
        return false;
    return !(am_setup.backend->caps & AM_CAP_DEVICES) ||
           am_setup.backend->device_can_reach(all[device].driver_id, all[peer].driver_id);
}

bool am_peer_is_enabled(int32_t from, int32_t to)
{
    return from == to || (am_devices.device[from].peers >> to & 1) != 0;
}
