/* Stream-ordered memory pools. */
#include <inttypes.h>

#include "api/api.h"
#include "api/check.h"
#include "api/held.h"
#include "base/error.h"
#include "core/device/setup.h"
#include "core/pool/mempool.h"

static aclError product_check(void)
{
    AM_REQUIRE_FEATURE(AM_PRODUCT_POOL,
                       "only Atlas A2 has memory pools; this device is one of the %s");
    return ACL_SUCCESS;
}

/* The product has pools, and memPool may be one. */
static aclError pool_check(const void *memPool)
{
    AM_TRY(product_check());
    AM_REQUIRE_NONNULL(memPool);
    return ACL_SUCCESS;
}

static aclError props_check(const aclrtMemPoolProps *props)
{
    AM_REQUIRE(props != NULL, ACL_ERROR_INVALID_PARAM, "poolProps is NULL");
    AM_REQUIRE(props->allocType == ACL_MEM_ALLOCATION_TYPE_PINNED,
               ACL_ERROR_INVALID_PARAM, "poolProps.allocType is %d; it takes PINNED (0)",
               (int)props->allocType);
    AM_REQUIRE(props->handleType == ACL_MEM_HANDLE_TYPE_NONE, ACL_ERROR_INVALID_PARAM,
               "poolProps.handleType is %d; it takes NONE (0)", (int)props->handleType);
    AM_REQUIRE(
        props->location.type == ACL_MEM_LOCATION_TYPE_DEVICE, ACL_ERROR_INVALID_PARAM,
        "poolProps.location.type is %d; it takes DEVICE (1)", (int)props->location.type);
    AM_REQUIRE(props->maxSize > 0, ACL_ERROR_INVALID_PARAM, "poolProps.maxSize is 0");
    for (size_t i = 0; i < sizeof props->reserved; i++)
        AM_REQUIRE(props->reserved[i] == 0, ACL_ERROR_INVALID_PARAM,
                   "poolProps.reserved is not zero");
    return ACL_SUCCESS;
}

aclError am_aclrtMemPoolCreate(aclrtMemPool *memPool, const aclrtMemPoolProps *poolProps)
{
    AM_TRY(pool_check(memPool));
    AM_TRY(props_check(poolProps));
    return am_pool_create((int32_t)poolProps->location.id, poolProps->maxSize, memPool);
}

aclError am_aclrtMemPoolDestroy(const aclrtMemPool memPool)
{
    AM_TRY(pool_check(memPool));
    return am_pool_destroy(memPool);
}

static aclError attr_check(const void *memPool, aclrtMemPoolAttr attr, const void *value)
{
    AM_TRY(pool_check(memPool));
    AM_REQUIRE_NONNULL(value);
    AM_REQUIRE(attr >= ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
                   attr <= ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH,
               ACL_ERROR_INVALID_PARAM, "attr is %d; it takes 1 to 8", (int)attr);
    return ACL_SUCCESS;
}

/* The AM_REUSE_* bit of one of the three switches. */
static unsigned reuse_bit(aclrtMemPoolAttr attr)
{
    return 1u << (attr - ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES);
}

static aclError reuse_set(aclrtMemPool memPool, aclrtMemPoolAttr attr, uint32_t value)
{
    AM_REQUIRE(value <= 1, ACL_ERROR_INVALID_PARAM,
               "value is %u; attribute %d takes 0 or 1", value, (int)attr);
    return am_pool_set_reuse(memPool, reuse_bit(attr), value == 1);
}

static aclError high_reset(aclrtMemPool memPool, bool is_used, uint64_t value)
{
    AM_REQUIRE(value == 0, ACL_ERROR_INVALID_PARAM,
               "value is %" PRIu64 "; a high-water mark can only be set to 0", value);
    return am_pool_reset_high(memPool, is_used);
}

aclError am_aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    AM_TRY(attr_check(memPool, attr, value));
    switch (attr) {
    case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
        return am_pool_set_threshold(memPool, *(const uint64_t *)value);
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
        return am_fail(ACL_ERROR_INVALID_PARAM, "attribute %d can only be read",
                       (int)attr);
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
        return high_reset(memPool, false, *(const uint64_t *)value);
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
        return high_reset(memPool, true, *(const uint64_t *)value);
    default: /* the three switches */
        return reuse_set(memPool, attr, *(const uint32_t *)value);
    }
}

aclError am_aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    struct am_pool_figures figures;
    uint64_t *wide = value;

    AM_TRY(attr_check(memPool, attr, value));
    AM_TRY(am_pool_get_figures(memPool, &figures));
    switch (attr) {
    case ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD:
        *wide = figures.threshold;
        break;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT:
        *wide = figures.reserved;
        break;
    case ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH:
        *wide = figures.reserved_high;
        break;
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT:
        *wide = figures.used;
        break;
    case ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH:
        *wide = figures.used_high;
        break;
    default: /* the three switches */
        *(uint32_t *)value = (figures.reuse & reuse_bit(attr)) != 0;
    }
    return ACL_SUCCESS;
}

aclError am_aclrtMemPoolMallocAsync(void **ptr, size_t size, aclrtMemPool memPool,
                                    aclrtStream handle)
{
    AM_TRY(pool_check(memPool));
    AM_REQUIRE_NONNULL(ptr);
    AM_REQUIRE_NONZERO(size);
    AM_GET(stream, handle);
    return am_pool_malloc_async(memPool, size, stream, ptr);
}

aclError am_aclrtMemPoolFreeAsync(void *ptr, aclrtStream handle)
{
    AM_TRY(product_check());
    AM_REQUIRE_NONNULL(ptr);
    AM_GET(stream, handle);
    return am_pool_free_async(ptr, stream);
}

aclError am_aclrtMemPoolTrimTo(aclrtMemPool memPool, size_t minBytesToKeep)
{
    AM_TRY(pool_check(memPool));
    return am_pool_trim(memPool, minBytesToKeep);
}
