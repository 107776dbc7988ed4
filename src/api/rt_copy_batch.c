/* Many copies in one call. The V2 forms have no failIndex. */
#include "api/api.h"
#include "api/check.h"
#include "api/held.h"
#include "base/error.h"
#include "core/copy/copy.h"
#include "core/device/device.h"
#include "core/device/setup.h"

static aclError location_check(const aclrtMemLocation *location, const char *name)
{
    AM_REQUIRE(location->type == ACL_MEM_LOCATION_TYPE_HOST ||
                   location->type == ACL_MEM_LOCATION_TYPE_DEVICE,
               ACL_ERROR_INVALID_PARAM, "%s.type is %d; it takes HOST (0) or DEVICE (1)",
               name, (int)location->type);
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

static aclError attrs_check(const struct am_copy_batch *batch)
{
    AM_REQUIRE(batch->attrs != NULL, ACL_ERROR_INVALID_PARAM, "attrs is NULL");
    AM_REQUIRE(batch->indexes != NULL, ACL_ERROR_INVALID_PARAM, "attrsIndexes is NULL");
    AM_REQUIRE(batch->n_attrs > 0 && batch->n_attrs <= batch->n, ACL_ERROR_INVALID_PARAM,
               "numAttrs is %zu; it takes 1 to numBatches, which is %zu", batch->n_attrs,
               batch->n);
    AM_REQUIRE(batch->indexes[0] == 0, ACL_ERROR_INVALID_PARAM,
               "attrsIndexes[0] is %zu; it takes 0", batch->indexes[0]);
    for (size_t k = 0; k < batch->n_attrs; k++) {
        AM_TRY(attr_check(&batch->attrs[k], &batch->attrs[0]));
        AM_REQUIRE(k == 0 || batch->indexes[k] > batch->indexes[k - 1],
                   ACL_ERROR_INVALID_PARAM,
                   "attrsIndexes[%zu] is %zu, not more than the one before it", k,
                   batch->indexes[k]);
        AM_REQUIRE(batch->indexes[k] < batch->n, ACL_ERROR_INVALID_PARAM,
                   "attrsIndexes[%zu] is %zu, but there are %zu copies", k,
                   batch->indexes[k], batch->n);
    }
    return ACL_SUCCESS;
}

/* Checks the arguments of copy i. */
static aclError copy_check(const struct am_copy_batch *batch, const size_t *maxs,
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
        rc = copy_check(batch, maxs, i);
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

    AM_REQUIRE_NONNULL(failIndex);
    *failIndex = SIZE_MAX;
    AM_TRY(batch_check(&batch, destMaxs, failIndex));
    return am_copy_batch_run(&batch, failIndex);
}

aclError am_aclrtMemcpyBatchAsync(void **dsts, size_t *destMaxs, void **srcs,
                                  size_t *sizes, size_t numBatches,
                                  aclrtMemcpyBatchAttr *attrs, size_t *attrsIndexes,
                                  size_t numAttrs, size_t *failIndex, aclrtStream handle)
{
    const struct am_copy_batch batch = {dsts,  srcs,         sizes,   numBatches,
                                        attrs, attrsIndexes, numAttrs};

    AM_REQUIRE_NONNULL(failIndex);
    *failIndex = SIZE_MAX;
    AM_TRY(batch_check(&batch, destMaxs, failIndex));
    AM_GET(stream, handle);
    return am_copy_batch_async(&batch, stream, failIndex);
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
