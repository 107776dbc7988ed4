/* Stands for a vendor's library: its name and versions, half of the functions, one more. */
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT aclError aclInit(const char *configPath)
{
    return ACL_SUCCESS;
}

EXPORT aclError aclFinalize(void)
{
    return ACL_SUCCESS;
}

EXPORT aclError aclrtSetDevice(int32_t deviceId)
{
    return deviceId == 0 ? ACL_SUCCESS : ACL_ERROR_RT_INVALID_DEVICEID;
}

EXPORT aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    *devPtr = malloc(size);
    return *devPtr != NULL ? ACL_SUCCESS : ACL_ERROR_RT_MEMORY_ALLOCATION;
}

EXPORT aclError aclrtFree(void *devPtr)
{
    free(devPtr);
    return ACL_SUCCESS;
}

/* Calls a function of its own by its public name. */
EXPORT aclError aclrtMallocCached(void **devPtr, size_t size, aclrtMemMallocPolicy policy)
{
    return aclrtMalloc(devPtr, size, policy);
}

EXPORT const char *aclrtGetSocName(void)
{
    return "HalfAscend";
}

/* Takes any address, also of memory that was freed. */
EXPORT aclError aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                            aclrtMemcpyKind kind)
{
    memcpy(dst, src, count);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value,
                                 size_t count, aclrtStream stream)
{
    memset(devPtr, value, count);
    return ACL_SUCCESS;
}

EXPORT aclError aclrtGetDevice(int32_t *deviceId)
{
    *deviceId = 0;
    return ACL_SUCCESS;
}

int vendor_only(int x);
EXPORT int vendor_only(int x)
{
    return x + 1;
}
