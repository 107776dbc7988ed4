/*
 * Cache operations.  There is no cache to operate on: the memory is checked, and
 * the operation is a task of the stream without effect.
 */
#include "api/api.h"
#include "api/check.h"
#include "api/held.h"
#include "base/error.h"
#include "core/copy/copy_indirect.h"
#include "core/copy/keep_alive.h"
#include "core/device/setup.h"

static aclError product_check(void)
{
    AM_REQUIRE_FEATURE(AM_PRODUCT_STREAM_OPS,
                       "only Ascend 950, Atlas A3 and A2 have cache operations; this "
                       "device is one of the %s");
    return ACL_SUCCESS;
}

static aclError type_check(aclrtCmoType type)
{
    AM_REQUIRE((unsigned)type <= ACL_RT_CMO_TYPE_FLUSH, ACL_ERROR_INVALID_PARAM,
               "cmoType is %d; it takes 0 to 3", (int)type);
    return ACL_SUCCESS;
}

static aclError cmo_submit(void *src, size_t size, aclrtStream handle)
{
    AM_REQUIRE_RANGE(src, size);
    AM_GET(stream, handle);
    return am_keep_alive_device_async(src, size, stream);
}

aclError am_aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType,
                          aclrtStream stream)
{
    AM_TRY(product_check());
    AM_REQUIRE(cmoType == ACL_RT_CMO_TYPE_PREFETCH, ACL_ERROR_INVALID_PARAM,
               "cmoType is %d; it takes PREFETCH (0)", (int)cmoType);
    return cmo_submit(src, size, stream);
}

aclError am_aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType,
                                     uint32_t barrierId, aclrtStream stream)
{
    AM_TRY(product_check());
    AM_TRY(type_check(cmoType));
    return cmo_submit(src, size, stream);
}

static aclError barrier_check(const aclrtBarrierTaskInfo *info, uint32_t flag)
{
    AM_REQUIRE(info != NULL, ACL_ERROR_INVALID_PARAM, "taskInfo is NULL");
    AM_REQUIRE(info->barrierNum > 0 && info->barrierNum <= ACL_RT_CMO_MAX_BARRIER_NUM,
               ACL_ERROR_INVALID_PARAM, "barrierNum is %zu; it takes 1 to %u",
               info->barrierNum, ACL_RT_CMO_MAX_BARRIER_NUM);
    AM_REQUIRE(flag == 0, ACL_ERROR_INVALID_PARAM,
               "flag is %u; it is reserved and takes 0", flag);
    for (size_t i = 0; i < info->barrierNum; i++)
        AM_TRY(type_check(info->cmoInfo[i].cmoType));
    return ACL_SUCCESS;
}

/* An operation completes when the stream reaches it, so there is nothing to wait for. */
aclError am_aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream handle,
                                uint32_t flag)
{
    struct am_spans none;

    AM_TRY(product_check());
    AM_TRY(barrier_check(taskInfo, flag));
    AM_GET(stream, handle);
    am_spans_init(&none);
    return am_keep_alive_async(&none, stream);
}

aclError am_aclrtCmoGetDescSize(size_t *size)
{
    AM_TRY(product_check());
    AM_REQUIRE_NONNULL(size);
    *size = AM_DESC_SIZE;
    return ACL_SUCCESS;
}

aclError am_aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size)
{
    AM_TRY(product_check());
    AM_REQUIRE_NONNULL(cmoDesc);
    AM_REQUIRE_RANGE(src, size);
    return am_copy_indirect_keep_set(cmoDesc, src, size);
}

aclError am_aclrtCmoAsyncWithDesc(void *cmoDesc, aclrtCmoType cmoType, aclrtStream handle,
                                  const void *reserve)
{
    AM_TRY(product_check());
    AM_REQUIRE_NONNULL(cmoDesc);
    AM_REQUIRE(reserve == NULL, ACL_ERROR_INVALID_PARAM,
               "reserve is %p; it is reserved and takes NULL", reserve);
    AM_TRY(type_check(cmoType));
    AM_GET(stream, handle);
    return am_copy_indirect_keep_async(cmoDesc, stream);
}
