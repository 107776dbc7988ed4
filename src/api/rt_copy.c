/* Copies and fills. */
#include "api/api.h"
#include "api/check.h"
#include "base/copy_kind.h"
#include "base/error.h"
#include "base/util.h"
#include "core/copy/copy.h"
#include "core/copy/memory_op.h"
#include "core/device/device.h"
#include "core/device/setup.h"

static aclError count_check(size_t count, size_t max, const char *name)
{
    AM_REQUIRE(count <= max, ACL_ERROR_INVALID_PARAM, "count %zu is more than %s %zu",
               count, name, max);
    return ACL_SUCCESS;
}

aclError am_aclrtMemcpy(void *dst, size_t destMax, const void *src, size_t count,
                        aclrtMemcpyKind kind)
{
    AM_TRY(count_check(count, destMax, "destMax"));
    return am_copy(dst, src, count, kind);
}

AM_HOT aclError am_aclrtMemcpyAsync(void *dst, size_t destMax, const void *src,
                                    size_t count, aclrtMemcpyKind kind,
                                    aclrtStream handle)
{
    AM_TRY(count_check(count, destMax, "destMax"));
    AM_REQUIRE(
        kind != ACL_MEMCPY_HOST_TO_HOST || (am_setup.product->features & AM_PRODUCT_RC),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "kind is HOST_TO_HOST (0), which only products in RC form copy on a stream; use "
        "aclrtMemcpy or memcpy");
    AM_GET(stream, handle);
    return am_copy_async(dst, src, count, kind, stream);
}

aclError am_aclrtMemcpyAsyncWithCondition(void *dst, size_t destMax, const void *src,
                                          size_t count, aclrtMemcpyKind kind,
                                          aclrtStream stream)
{
    return am_aclrtMemcpyAsync(dst, destMax, src, count, kind, stream);
}

static aclError fill_async(void *ptr, size_t size, uint32_t value, unsigned width,
                           aclrtStream handle)
{
    AM_GET(stream, handle);
    return am_fill(ptr, size, value, width, stream);
}

aclError am_aclrtMemset(void *devPtr, size_t maxCount, int32_t value, size_t count)
{
    AM_TRY(count_check(count, maxCount, "maxCount"));
    return am_fill(devPtr, count, (uint8_t)value, 1, NULL);
}

aclError am_aclrtMemsetAsync(void *devPtr, size_t maxCount, int32_t value, size_t count,
                             aclrtStream stream)
{
    AM_TRY(count_check(count, maxCount, "maxCount"));
    return fill_async(devPtr, count, (uint8_t)value, 1, stream);
}

static aclError fill32_check(const void *ptr, size_t memSize, size_t n)
{
    AM_REQUIRE(n <= memSize / 4, ACL_ERROR_INVALID_PARAM,
               "N is %zu, but memSize %zu has room for %zu", n, memSize, memSize / 4);
    AM_REQUIRE(am_is_aligned((uintptr_t)ptr, 4), ACL_ERROR_RT_ADDR_UNALIGNED,
               "ptr %p is not a multiple of 4", ptr);
    return ACL_SUCCESS;
}

aclError am_aclrtMemsetD32(void *ptr, size_t memSize, uint32_t value, size_t N)
{
    AM_TRY(fill32_check(ptr, memSize, N));
    return am_fill(ptr, 4 * N, value, 4, NULL);
}

aclError am_aclrtMemsetD32Async(void *ptr, size_t memSize, uint32_t value, size_t N,
                                aclrtStream stream)
{
    AM_TRY(fill32_check(ptr, memSize, N));
    return fill_async(ptr, 4 * N, value, 4, stream);
}

/* ---- rows ---- */

/* The documents' limits. */
#define WIDTH_MAX 5000000
#define HEIGHT_MAX 5242880

static aclError rows_check(const struct am_copy_2d *rows)
{
    size_t pitch = rows->dpitch > rows->spitch ? rows->dpitch : rows->spitch;

    AM_REQUIRE(rows->width > 0 && rows->width <= WIDTH_MAX, ACL_ERROR_INVALID_PARAM,
               "width is %zu; it takes 1 to %d", rows->width, WIDTH_MAX);
    AM_REQUIRE(rows->height > 0 && rows->height <= HEIGHT_MAX, ACL_ERROR_INVALID_PARAM,
               "height is %zu; it takes 1 to %d", rows->height, HEIGHT_MAX);
    AM_REQUIRE(rows->width <= rows->dpitch, ACL_ERROR_INVALID_PARAM,
               "width %zu is more than dpitch %zu", rows->width, rows->dpitch);
    AM_REQUIRE(rows->width <= rows->spitch, ACL_ERROR_INVALID_PARAM,
               "width %zu is more than spitch %zu", rows->width, rows->spitch);
    AM_REQUIRE(pitch <= SIZE_MAX / HEIGHT_MAX, ACL_ERROR_INVALID_PARAM,
               "%zu rows with a pitch of %zu do not fit in the address space",
               rows->height, pitch);
    return ACL_SUCCESS;
}

aclError am_aclrtMemcpy2d(void *dst, size_t dpitch, const void *src, size_t spitch,
                          size_t width, size_t height, aclrtMemcpyKind kind)
{
    struct am_copy_2d rows = {dst, dpitch, src, spitch, width, height, kind};

    AM_TRY(rows_check(&rows));
    AM_REQUIRE(kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_HOST,
               ACL_ERROR_INVALID_PARAM,
               "kind is %s (%d); it takes HOST_TO_DEVICE (1) or DEVICE_TO_HOST (2)",
               am_copy_kind_name(kind), (int)kind);
    return am_copy_2d(&rows, NULL);
}

aclError am_aclrtMemcpy2dAsync(void *dst, size_t dpitch, const void *src, size_t spitch,
                               size_t width, size_t height, aclrtMemcpyKind kind,
                               aclrtStream handle)
{
    struct am_copy_2d rows = {dst, dpitch, src, spitch, width, height, kind};
    bool has_inner = am_setup.product->features & AM_PRODUCT_STREAM_OPS;

    AM_TRY(rows_check(&rows));
    AM_REQUIRE(
        kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_HOST ||
            (kind == ACL_MEMCPY_DEVICE_TO_DEVICE && has_inner),
        ACL_ERROR_INVALID_PARAM,
        "kind is %s (%d); it takes HOST_TO_DEVICE (1), DEVICE_TO_HOST (2) and, on Ascend "
        "950, Atlas A3 and A2, DEVICE_TO_DEVICE (3)",
        am_copy_kind_name(kind), (int)kind);
    AM_GET(stream, handle);
    return am_copy_2d(&rows, stream);
}

/* ---- batches; the V2 forms have no failIndex ---- */

static aclError location_check(const aclrtMemLocation *location, const char *name)
{
    AM_REQUIRE_LOCATION(location, name);
    if (location->type == ACL_MEM_LOCATION_TYPE_HOST)
        return ACL_SUCCESS; /* whose id is ignored */
    return am_device_find((int32_t)location->id, NULL);
}

static aclError attr_check(const aclrtMemcpyBatchAttr *attr,
                           const aclrtMemcpyBatchAttr *first)
{
    AM_TRY(location_check(&attr->dstLoc, "dstLoc"));
    AM_TRY(location_check(&attr->srcLoc, "srcLoc"));
    AM_REQUIRE(attr->dstLoc.type != attr->srcLoc.type, ACL_ERROR_INVALID_PARAM,
               "dstLoc.type and srcLoc.type are both %d; a batch copies from the host to "
               "a device "
               "or the other way",
               (int)attr->dstLoc.type);
    AM_REQUIRE(attr->dstLoc.type == first->dstLoc.type, ACL_ERROR_INVALID_PARAM,
               "the attributes name both directions; a batch copies in one direction");
    for (size_t i = 0; i < sizeof attr->rsv; i++)
        AM_REQUIRE(attr->rsv[i] == 0, ACL_ERROR_INVALID_PARAM, "attrs.rsv is not zero");
    return ACL_SUCCESS;
}

aclError am_indexes_check(const size_t *indexes, size_t n, size_t n_items,
                          const char *indexes_name, const char *n_name)
{
    AM_REQUIRE(n > 0 && n <= n_items, ACL_ERROR_INVALID_PARAM,
               "%s is %zu; it takes 1 to the length of the batch, which is %zu", n_name,
               n, n_items);
    AM_REQUIRE(indexes[0] == 0, ACL_ERROR_INVALID_PARAM, "%s[0] is %zu; it takes 0",
               indexes_name, indexes[0]);
    for (size_t k = 1; k < n; k++)
        AM_REQUIRE(indexes[k] > indexes[k - 1] && indexes[k] < n_items,
                   ACL_ERROR_INVALID_PARAM,
                   "%s[%zu] is %zu; it takes more than the one before it, and less than "
                   "the length of the batch, which is %zu",
                   indexes_name, k, indexes[k], n_items);
    return ACL_SUCCESS;
}

static aclError attrs_check(const struct am_copy_batch *batch)
{
    AM_REQUIRE(batch->attrs != NULL, ACL_ERROR_INVALID_PARAM, "attrs is NULL");
    AM_REQUIRE(batch->indexes != NULL, ACL_ERROR_INVALID_PARAM, "attrsIndexes is NULL");
    AM_TRY(am_indexes_check(batch->indexes, batch->n_attrs, batch->n, "attrsIndexes",
                            "numAttrs"));
    for (size_t k = 0; k < batch->n_attrs; k++)
        AM_TRY(attr_check(&batch->attrs[k], &batch->attrs[0]));
    return ACL_SUCCESS;
}

/* Checks the arguments of copy i. */
static aclError batch_item_check(const struct am_copy_batch *batch, const size_t *maxs,
                                 size_t i)
{
    AM_REQUIRE(batch->dsts[i] != NULL, ACL_ERROR_INVALID_PARAM, "dsts[%zu] is NULL", i);
    AM_REQUIRE(batch->srcs[i] != NULL, ACL_ERROR_INVALID_PARAM, "srcs[%zu] is NULL", i);
    AM_REQUIRE(batch->sizes[i] > 0, ACL_ERROR_INVALID_PARAM, "sizes[%zu] is 0", i);
    AM_REQUIRE(batch->sizes[i] <= maxs[i], ACL_ERROR_INVALID_PARAM,
               "sizes[%zu] is %zu, more than destMaxs[%zu], which is %zu", i,
               batch->sizes[i], i, maxs[i]);
    return ACL_SUCCESS;
}

static aclError batch_check(const struct am_copy_batch *batch, const size_t *maxs,
                            size_t *ret_fail)
{
    aclError rc;

    AM_REQUIRE_FEATURE(AM_PRODUCT_STREAM_OPS,
                       "only Ascend 950, Atlas A3 and A2 have batches of copies; this "
                       "device is one of the %s");
    AM_REQUIRE(batch->dsts != NULL, ACL_ERROR_INVALID_PARAM, "dsts is NULL");
    AM_REQUIRE(maxs != NULL, ACL_ERROR_INVALID_PARAM, "destMaxs is NULL");
    AM_REQUIRE(batch->srcs != NULL, ACL_ERROR_INVALID_PARAM, "srcs is NULL");
    AM_REQUIRE(batch->sizes != NULL, ACL_ERROR_INVALID_PARAM, "sizes is NULL");
    AM_REQUIRE(batch->n > 0, ACL_ERROR_INVALID_PARAM, "numBatches is 0");
    rc = attrs_check(batch);
    for (size_t i = 0; i < batch->n && rc == ACL_SUCCESS; i++) {
        rc = batch_item_check(batch, maxs, i);
        if (rc != ACL_SUCCESS)
            *ret_fail = i;
    }
    return rc;
}

/*
 * A failure leaves in *failIndex which copy it is about; success, and any other failure,
 * SIZE_MAX.
 */
aclError am_aclrtMemcpyBatch(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                             size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                             size_t *attrsIndexes, size_t numAttrs, size_t *failIndex)
{
    const struct am_copy_batch batch = {dsts,  srcs,         sizes,   numBatches,
                                        attrs, attrsIndexes, numAttrs};

    *failIndex = SIZE_MAX;
    AM_TRY(batch_check(&batch, destMaxs, failIndex));
    return am_copy_batch(&batch, NULL, failIndex);
}

aclError am_aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs,
                                  size_t *sizes, size_t numBatches,
                                  aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                  size_t numAttrs, size_t *failIndex, aclrtStream handle)
{
    const struct am_copy_batch batch = {dsts,  srcs,         sizes,   numBatches,
                                        attrs, attrsIndexes, numAttrs};

    *failIndex = SIZE_MAX;
    AM_TRY(batch_check(&batch, destMaxs, failIndex));
    AM_GET(stream, handle);
    return am_copy_batch(&batch, stream, failIndex);
}

aclError am_aclrtMemcpyBatchV2(void **dsts, size_t *destMaxs, void **srcs, size_t *sizes,
                               size_t numBatches, aclrtMemcpyBatchAttr *attrs,
                               size_t *attrsIndexes, size_t numAttrs)
{
    size_t fail;

    return am_aclrtMemcpyBatch(dsts, destMaxs, srcs, sizes, numBatches, attrs,
                               attrsIndexes, numAttrs, &fail);
}

aclError am_aclrtMemcpyBatchAsyncV2(void **dsts, size_t *destMaxs, void **srcs,
                                    size_t *sizes, size_t numBatches,
                                    aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                    size_t numAttrs, aclrtStream stream)
{
    size_t fail;

    return am_aclrtMemcpyBatchAsync(dsts, destMaxs, srcs, sizes, numBatches, attrs,
                                    attrsIndexes, numAttrs, &fail, stream);
}

/* ---- copies whose addresses lie in device memory ---- */

static aclError indirect_kind_check(aclrtMemcpyKind kind)
{
    AM_REQUIRE(kind == ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, ACL_ERROR_INVALID_PARAM,
               "kind is %s (%d); it takes INNER_DEVICE_TO_DEVICE (6)",
               am_copy_kind_name(kind), (int)kind);
    return ACL_SUCCESS;
}

aclError am_aclrtGetMemcpyDescSize(aclrtMemcpyKind kind, size_t *descSize)
{
    AM_TRY(indirect_kind_check(kind));
    *descSize = AM_DESC_SIZE;
    return ACL_SUCCESS;
}

aclError am_aclrtSetMemcpyDesc(void *desc, aclrtMemcpyKind kind, void *srcAddr,
                               void *dstAddr, size_t count, void *config)
{
    AM_TRY(indirect_kind_check(kind));
    return am_desc_set(desc, AM_DESC_COPY, srcAddr, dstAddr, count);
}

aclError am_aclrtMemcpyAsyncWithDesc(void *desc, aclrtMemcpyKind kind, aclrtStream handle)
{
    AM_TRY(indirect_kind_check(kind));
    AM_GET(stream, handle);
    return am_desc_submit(desc, AM_DESC_COPY, stream);
}

aclError am_aclrtMemcpyAsyncWithOffset(void **dst, size_t destMax, size_t dstDataOffset,
                                       const void **src, size_t count,
                                       size_t srcDataOffset, aclrtMemcpyKind kind,
                                       aclrtStream handle)
{
    struct am_indirect copy = {dst, dstDataOffset, src, srcDataOffset, count};

    AM_TRY(indirect_kind_check(kind));
    AM_TRY(count_check(count, destMax, "destMax"));
    AM_REQUIRE(
        am_is_aligned((uintptr_t)dst | (uintptr_t)src, sizeof(void *)),
        ACL_ERROR_RT_ADDR_UNALIGNED,
        "dst %p and src %p, which hold the two addresses, must be multiples of %zu",
        (void *)dst, (void *)src, sizeof(void *));
    AM_GET(stream, handle);
    return am_indirect_submit(&copy, stream);
}
