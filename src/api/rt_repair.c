/*
 * Errors of the memory itself.  The system ends a process whose memory fails, so there is
 * never an error to report or to repair.
 */
#include <string.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/device/device.h"

aclError am_aclrtGetMemUceInfo(int32_t deviceId, aclrtMemUceInfo *arr, size_t arraySize,
                               size_t *retSize)
{
    AM_REQUIRE_RANGE(arr, arraySize);
    AM_REQUIRE_NONNULL(retSize);
    AM_TRY(am_device_find(deviceId, NULL));
    *retSize = 0;
    return ACL_SUCCESS;
}

aclError am_aclrtMemUceRepair(int32_t deviceId, aclrtMemUceInfo *arr, size_t arraySize)
{
    AM_REQUIRE_RANGE(arr, arraySize);
    AM_TRY(am_device_find(deviceId, NULL));
    return am_fail(
        ACL_ERROR_RT_PARAM_INVALID,
        "device %d has no error in the %zu bytes at %p: aclrtGetMemUceInfo reported none",
        deviceId, arr[0].len, arr[0].addr);
}

/*
 * Differs: the values of errorType are not public; 0, with no detail and nothing to
 * repair, stands for no error here.
 */
aclError am_aclrtGetErrorVerbose(int32_t deviceId, aclrtErrorInfo *errorInfo)
{
    AM_REQUIRE_NONNULL(errorInfo);
    AM_TRY(am_device_find(deviceId, NULL));
    memset(errorInfo, 0, sizeof *errorInfo);
    return ACL_SUCCESS;
}

aclError am_aclrtRepairError(int32_t deviceId, const aclrtErrorInfo *errorInfo)
{
    AM_REQUIRE_NONNULL(errorInfo);
    AM_TRY(am_device_find(deviceId, NULL));
    AM_REQUIRE(errorInfo->errorType == 0 && errorInfo->hasDetail == 0,
               ACL_ERROR_RT_PARAM_INVALID,
               "device %d has no error of type %d: aclrtGetErrorVerbose reported none",
               deviceId, (int)errorInfo->errorType);
    return ACL_SUCCESS;
}
