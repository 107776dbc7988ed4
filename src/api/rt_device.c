/* Devices: counting, setting, resetting, and what kind they are. */
#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/device/context.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/devices.h"
#include "core/watch.h"
#include "layer/layers.h"

aclError am_aclrtSetDevice(int32_t deviceId)
{
    struct am_device *device;

    AM_TRY(am_device_find(deviceId, &device));
    return am_device_set(device);
}

static aclError device_reset(int32_t deviceId, bool is_forced)
{
    struct am_watch_left before = am_watch_count();
    struct am_device *device;

    AM_TRY(am_device_find(deviceId, &device));
    AM_TRY(am_device_reset(device, is_forced));
    am_explain_reset(&before);
    return ACL_SUCCESS;
}

aclError am_aclrtResetDevice(int32_t deviceId)
{
    return device_reset(deviceId, false);
}

aclError am_aclrtResetDeviceForce(int32_t deviceId)
{
    return device_reset(deviceId, true);
}

aclError am_aclrtGetDevice(int32_t *deviceId)
{
    AM_REQUIRE_NONNULL(deviceId);
    return am_context_device(deviceId);
}

aclError am_aclrtGetDeviceCount(uint32_t *count)
{
    AM_REQUIRE_NONNULL(count);
    *count = (uint32_t)am_devices.n;
    return ACL_SUCCESS;
}

aclError am_aclrtGetRunMode(aclrtRunMode *runMode)
{
    AM_REQUIRE_NONNULL(runMode);
    *runMode = am_setup.product->features & AM_PRODUCT_RC ? ACL_DEVICE : ACL_HOST;
    return ACL_SUCCESS;
}

const char *am_aclrtGetSocName(void)
{
    return am_setup.soc;
}
