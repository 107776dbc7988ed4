/* Managed memory. */
#include <inttypes.h>

#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "base/util.h"
#include "core/managed/managed.h"

aclError am_aclrtMemAllocManaged(void **ptr, uint64_t size, uint32_t flag)
{
    AM_REQUIRE(flag == ACL_RT_MEM_ATTACH_GLOBAL, ACL_ERROR_INVALID_PARAM,
               "flag is %u; it takes ACL_RT_MEM_ATTACH_GLOBAL (1)", flag);
    return am_managed_alloc(size, ptr);
}

/* A range of whole pages, as advice and prefetches take it. */
static aclError pages_check(const void *ptr, uint64_t size)
{
    AM_REQUIRE_NONNULL(ptr);
    AM_REQUIRE(size > 0 && am_is_aligned(size, AM_CHUNK), ACL_ERROR_INVALID_PARAM,
               "size is %" PRIu64 "; it takes multiples of 2 MB", size);
    AM_REQUIRE(am_is_aligned((uintptr_t)ptr, AM_CHUNK), ACL_ERROR_RT_ADDR_UNALIGNED,
               "ptr %p is not a multiple of 2 MB", ptr);
    return ACL_SUCCESS;
}

aclError am_aclrtMemManagedAdvise(const void *const ptr, uint64_t size,
                                  aclrtMemManagedAdviseType advise,
                                  aclrtMemManagedLocation location)
{
    AM_TRY(pages_check(ptr, size));
    return am_managed_advise(ptr, size, advise, &location);
}

static aclError attrs_check(const aclrtMemManagedRangeAttribute *attrs, size_t n,
                            void *const *data, const size_t *data_sizes)
{
    for (size_t i = 0; i < n; i++) {
        AM_REQUIRE(data[i] != NULL, ACL_ERROR_INVALID_PARAM, "data is NULL");
        AM_TRY(am_managed_check_attr(attrs[i], data_sizes[i]));
    }
    return ACL_SUCCESS;
}

aclError am_aclrtMemManagedGetAttr(aclrtMemManagedRangeAttribute attribute,
                                   const void *ptr, size_t size, void *data,
                                   size_t dataSize)
{
    AM_TRY(attrs_check(&attribute, 1, &data, &dataSize));
    return am_managed_get_attrs(&attribute, 1, ptr, size, &data, &dataSize);
}

aclError am_aclrtMemManagedGetAttrs(aclrtMemManagedRangeAttribute *attributes,
                                    size_t numAttributes, const void *ptr, size_t size,
                                    void **data, size_t *dataSizes)
{
    AM_TRY(attrs_check(attributes, numAttributes, data, dataSizes));
    return am_managed_get_attrs(attributes, numAttributes, ptr, size, data, dataSizes);
}

static aclError prefetch(const struct am_prefetch *ranges, aclrtStream handle)
{
    for (size_t i = 0; i < ranges->n; i++)
        AM_TRY(pages_check(ranges->addrs[i], ranges->sizes[i]));
    AM_GET(stream, handle);
    return am_managed_prefetch(ranges, stream);
}

aclError am_aclrtMemManagedPrefetchAsync(const void *ptr, size_t size,
                                         aclrtMemManagedLocation location, uint32_t flags,
                                         aclrtStream stream)
{
    const size_t index = 0;

    return prefetch(&(struct am_prefetch){&ptr, &size, 1, &location, &index, 1}, stream);
}

aclError am_aclrtMemManagedPrefetchBatchAsync(
    const void **ptrs, size_t *sizes, size_t count, aclrtMemManagedLocation *prefetchLocs,
    size_t *prefetchLocIdxs, size_t numPrefetchLocs, uint64_t flags, aclrtStream stream)
{
    const struct am_prefetch ranges = {ptrs,         sizes,           count,
                                       prefetchLocs, prefetchLocIdxs, numPrefetchLocs};

    AM_TRY(am_indexes_check(prefetchLocIdxs, numPrefetchLocs, count, "prefetchLocIdxs",
                            "numPrefetchLocs"));
    return prefetch(&ranges, stream);
}
