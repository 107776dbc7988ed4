/* Copies whose addresses lie in device memory. */
#include "api/api.h"
#include "api/check.h"
#include "api/held.h"
#include "base/error.h"
#include "base/util.h"
#include "core/copy/copy_indirect.h"

static aclError kind_check(aclrtMemcpyKind kind)
{
    AM_REQUIRE(kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, ACL_ERROR_INVALID_PARAM,
               "kind is %d; it takes INNER_DEVICE_TO_DEVICE (6)", (int)kind);
    return ACL_SUCCESS;
}

aclError am_aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize)
{
    AM_TRY(kind_check(kind));
    AM_REQUIRE_NONNULL(descSize);
    *descSize = AM_DESC_SIZE;
    return ACL_SUCCESS;
}

aclError am_aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr,
                               void *dstAddr, size_t count, void *config)
{
    AM_TRY(kind_check(kind));
    AM_REQUIRE_NONNULL(desc, srcAddr, dstAddr);
    AM_REQUIRE_NONZERO(count);
    AM_REQUIRE(config == NULL, ACL_ERROR_INVALID_PARAM,
               "config is %p; it is reserved and takes NULL", config);
    return am_copy_indirect_set(desc, srcAddr, dstAddr, count);
}

aclError am_aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream handle)
{
    AM_TRY(kind_check(kind));
    AM_REQUIRE_NONNULL(desc);
    AM_GET(stream, handle);
    return am_copy_indirect_async(desc, stream);
}

aclError am_aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset,
                                       const void **src, size_t count,
                                       size_t srcDataOffset, aclrtMemcpyKind kind,
                                       aclrtStream handle)
{
    struct am_indirect copy = {dst, dstDataOffset, src, srcDataOffset, count};

    AM_TRY(kind_check(kind));
    AM_REQUIRE_NONNULL(dst, src);
    AM_REQUIRE_NONZERO(count);
    AM_REQUIRE(count <= destMax, ACL_ERROR_INVALID_PARAM,
               "count %zu is more than destMax %zu", count, destMax);
    AM_REQUIRE(
        am_is_aligned((uintptr_t)dst | (uintptr_t)src, sizeof(void *)),
        ACL_ERROR_RT_ADDR_UNALIGNED,
        "dst %p and src %p, which hold the two addresses, must be multiples of %zu",
        (void *)dst, (void *)src, sizeof(void *));
    AM_GET(stream, handle);
    return am_indirect_copy_async(&copy, stream);
}
