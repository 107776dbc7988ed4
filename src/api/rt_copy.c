/* Copies and fills. */
#include "api/api.h"
#include "base/error.h"
#include "core/copy.h"

aclError am_aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                        aclrtMemcpyKind kind)
{
    AM_REQUIRE(dst != NULL, ACL_ERROR_INVALID_PARAM, "dst is NULL");
    AM_REQUIRE(src != NULL, ACL_ERROR_INVALID_PARAM, "src is NULL");
    AM_REQUIRE(count > 0, ACL_ERROR_INVALID_PARAM, "count is 0");
    AM_REQUIRE(count <= destMax, ACL_ERROR_INVALID_PARAM,
               "count %zu is more than destMax %zu", count, destMax);
    AM_REQUIRE((unsigned)kind <= ACL_MEMCPY_INTER_DEVICE_TO_DEVICE,
               ACL_ERROR_INVALID_PARAM, "kind is %d; it takes 0 to 7", (int)kind);
    return am_copy(dst, src, count, kind);
}

aclError am_aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    AM_REQUIRE(devPtr != NULL, ACL_ERROR_INVALID_PARAM, "devPtr is NULL");
    AM_REQUIRE(count > 0, ACL_ERROR_INVALID_PARAM, "count is 0");
    AM_REQUIRE(count <= maxCount, ACL_ERROR_INVALID_PARAM,
               "count %zu is more than maxCount %zu", count, maxCount);
    return am_fill(devPtr, value, count);
}
