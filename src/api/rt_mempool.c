/* Stream-ordered memory pools. */
#include <inttypes.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "core/pool/mempool.h"

static aclError props_check(const aclrtMemPoolProps *props)
{
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
    AM_TRY(props_check(poolProps));
    return am_pool_create((int32_t)poolProps->location.id, poolProps->maxSize, memPool);
}

static aclError attr_check(aclrtMemPoolAttr attr)
{
    AM_REQUIRE(attr >= ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES &&
                   attr <= ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH,
               ACL_ERROR_INVALID_PARAM, "attr is %d; it takes 1 to 8", (int)attr);
    return ACL_SUCCESS;
}

/* The three switches are 32 bits wide, all else 64. */
static bool is_switch(aclrtMemPoolAttr attr)
{
    return attr < ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD;
}

aclError am_aclrtMemPoolSetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    uint64_t number;

    AM_TRY(attr_check(attr));
    AM_REQUIRE(attr != ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT &&
                   attr != ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT,
               ACL_ERROR_INVALID_PARAM, "attribute %d can only be read", (int)attr);
    number = is_switch(attr) ? *(const uint32_t *)value : *(const uint64_t *)value;
    AM_REQUIRE(!is_switch(attr) || number <= 1, ACL_ERROR_INVALID_PARAM,
               "value is %" PRIu64 "; attribute %d takes 0 or 1", number, (int)attr);
    AM_REQUIRE(attr <= ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD || number == 0,
               ACL_ERROR_INVALID_PARAM,
               "value is %" PRIu64 "; a high-water mark can only be set to 0", number);
    AM_GET(pool, memPool);
    am_pool_set_attr(pool, attr, number);
    return ACL_SUCCESS;
}

aclError am_aclrtMemPoolGetAttr(aclrtMemPool memPool, aclrtMemPoolAttr attr, void *value)
{
    uint64_t number;

    AM_TRY(attr_check(attr));
    AM_GET(pool, memPool);
    number = am_pool_get_attr(pool, attr);
    if (is_switch(attr))
        *(uint32_t *)value = (uint32_t)number;
    else
        *(uint64_t *)value = number;
    return ACL_SUCCESS;
}

/* The remedy for calls on captured streams. */
#define NO_POOL \
    "memory of a pool is allocated and freed outside of captures; use aclrtMalloc"

aclError am_aclrtMemPoolMallocAsync(void **ptr, size_t size, struct am_pool *pool,
                                    struct am_stream *stream)
{
    AM_TRY(am_stream_refuse(stream, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, NO_POOL));
    return am_pool_malloc_async(pool, size, stream, ptr);
}

aclError am_aclrtMemPoolFreeAsync(void *ptr, struct am_stream *stream)
{
    AM_TRY(am_stream_refuse(stream, ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, NO_POOL));
    return am_pool_free_async(ptr, stream);
}

aclError am_aclrtMemPoolTrimTo(struct am_pool *pool, size_t minBytesToKeep)
{
    am_pool_trim(pool, minBytesToKeep);
    return ACL_SUCCESS;
}
