/* Copies and fills. */
#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "base/util.h"
#include "core/copy/copy.h"
#include "core/device/setup.h"

static aclError copy_check(const void *dst, size_t destMax, const void *src, size_t count,
                           aclrtMemcpyKind kind)
{
    AM_REQUIRE_NONNULL(dst, src);
    AM_REQUIRE_NONZERO(count);
    AM_REQUIRE(count <= destMax, ACL_ERROR_INVALID_PARAM,
               "count %zu is more than destMax %zu", count, destMax);
    AM_REQUIRE((unsigned)kind <= ACL_MEMCPY_INTER_DEVICE_TO_DEVICE,
               ACL_ERROR_INVALID_PARAM, "kind is %d; it takes 0 to 7", (int)kind);
    return ACL_SUCCESS;
}

aclError am_aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                        aclrtMemcpyKind kind)
{
    AM_TRY(copy_check(dst, destMax, src, count, kind));
    return am_copy(dst, src, count, kind);
}

AM_HOT aclError am_aclrtMemcpyAsync(void *dst, size_t destMax, const void *src,
                                    size_t count, aclrtMemcpyKind kind,
                                    aclrtStream handle)
{
    struct am_stream *stream;
    aclError rc;

    AM_TRY(copy_check(dst, destMax, src, count, kind));
    AM_REQUIRE(
        kind != ACL_MEMCPY_HOST_TO_HOST || (am_setup.product->features & AM_PRODUCT_RC),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "kind is HOST_TO_HOST (0), which only products in RC form copy on a stream; use "
        "aclrtMemcpy or memcpy");
    AM_TRY(am_stream_get(handle, &stream));
    rc = am_copy_async(dst, src, count, kind, stream);
    am_stream_put(stream);
    return rc;
}

aclError am_aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src,
                                          size_t count, aclrtMemcpyKind kind,
                                          aclrtStream stream)
{
    return am_aclrtMemcpyAsync(dst, destMax, src, count, kind, stream);
}

static aclError fill_check(const void *ptr, size_t max, size_t count)
{
    AM_REQUIRE(ptr != NULL, ACL_ERROR_INVALID_PARAM, "devPtr is NULL");
    AM_REQUIRE_NONZERO(count);
    AM_REQUIRE(count <= max, ACL_ERROR_INVALID_PARAM,
               "count %zu is more than maxCount %zu", count, max);
    return ACL_SUCCESS;
}

static aclError fill_async(void *ptr, size_t size, uint32_t value, unsigned width,
                           aclrtStream handle)
{
    struct am_stream *stream;
    aclError rc;

    AM_TRY(am_stream_get(handle, &stream));
    rc = am_fill_async(ptr, size, value, width, stream);
    am_stream_put(stream);
    return rc;
}

aclError am_aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    AM_TRY(fill_check(devPtr, maxCount, count));
    return am_fill(devPtr, count, (uint8_t)value, 1);
}

aclError am_aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                             aclrtStream stream)
{
    AM_TRY(fill_check(devPtr, maxCount, count));
    return fill_async(devPtr, count, (uint8_t)value, 1, stream);
}

static aclError fill32_check(const void *ptr, size_t memSize, size_t n)
{
    AM_REQUIRE_NONNULL(ptr);
    AM_REQUIRE(n > 0, ACL_ERROR_INVALID_PARAM, "N is 0");
    AM_REQUIRE(n <= memSize / 4, ACL_ERROR_INVALID_PARAM,
               "N is %zu, but memSize %zu has room for %zu", n, memSize, memSize / 4);
    AM_REQUIRE(am_is_aligned((uintptr_t)ptr, 4), ACL_ERROR_RT_ADDR_UNALIGNED,
               "ptr %p is not a multiple of 4", ptr);
    return ACL_SUCCESS;
}

aclError am_aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N)
{
    AM_TRY(fill32_check(ptr, memSize, N));
    return am_fill(ptr, 4 * N, value, 4);
}

aclError am_aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N,
                                aclrtStream stream)
{
    AM_TRY(fill32_check(ptr, memSize, N));
    return fill_async(ptr, 4 * N, value, 4, stream);
}
