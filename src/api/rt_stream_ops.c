/* Values in memory that streams write and wait for, and cache operations. */
#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "base/util.h"
#include "core/copy/memory_op.h"
#include "core/device/setup.h"

static aclError address_check(const void *devAddr)
{
    AM_REQUIRE(am_is_aligned((uintptr_t)devAddr, sizeof(uint64_t)),
               ACL_ERROR_RT_ADDR_UNALIGNED, "devAddr %p is not a multiple of 8", devAddr);
    return ACL_SUCCESS;
}

aclError am_aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag,
                            aclrtStream handle)
{
    AM_TRY(address_check(devAddr));
    AM_GET(stream, handle);
    return am_memory_op_value(devAddr, true, value, 0, stream);
}

aclError am_aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag,
                           aclrtStream handle)
{
    AM_TRY(address_check(devAddr));
    AM_REQUIRE(flag <= ACL_STREAM_WAIT_VALUE_NOR, ACL_ERROR_INVALID_PARAM,
               "flag is %u; it takes GEQ (0), EQ (1), AND (2) or NOR (3)", flag);
    AM_GET(stream, handle);
    return am_memory_op_value(devAddr, false, value, flag, stream);
}

/*
 * ---- cache operations ----
 *
 * There is no cache to operate on: the memory is checked, and the operation is a task of the
 * stream without effect.
 */

static aclError type_check(aclrtCmoType type)
{
    AM_REQUIRE((unsigned)type <= ACL_RT_CMO_TYPE_FLUSH, ACL_ERROR_INVALID_PARAM,
               "cmoType is %d; it takes 0 to 3", (int)type);
    return ACL_SUCCESS;
}

static aclError cmo_submit(void *src, size_t size, aclrtStream handle)
{
    AM_GET(stream, handle);
    return am_memory_op_touch(src, size, stream);
}

aclError am_aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType,
                          aclrtStream stream)
{
    AM_REQUIRE(cmoType == ACL_RT_CMO_TYPE_PREFETCH, ACL_ERROR_INVALID_PARAM,
               "cmoType is %d; it takes PREFETCH (0)", (int)cmoType);
    return cmo_submit(src, size, stream);
}

aclError am_aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType,
                                     uint32_t barrierId, aclrtStream stream)
{
    AM_TRY(type_check(cmoType));
    return cmo_submit(src, size, stream);
}

static aclError barrier_check(const aclrtBarrierTaskInfo *info)
{
    AM_REQUIRE(info->barrierNum > 0 && info->barrierNum <= ACL_RT_CMO_MAX_BARRIER_NUM,
               ACL_ERROR_INVALID_PARAM, "barrierNum is %zu; it takes 1 to %u",
               info->barrierNum, ACL_RT_CMO_MAX_BARRIER_NUM);
    for (size_t i = 0; i < info->barrierNum; i++)
        AM_TRY(type_check(info->cmoInfo[i].cmoType));
    return ACL_SUCCESS;
}

/* An operation completes when the stream reaches it, so there is nothing to wait for. */
aclError am_aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream handle,
                                uint32_t flag)
{
    struct am_spans none;

    AM_TRY(barrier_check(taskInfo));
    AM_GET(stream, handle);
    am_spans_init(&none);
    return am_memory_op_keep(&none, stream);
}

aclError am_aclrtCmoGetDescSize(size_t *size)
{
    *size = AM_DESC_SIZE;
    return ACL_SUCCESS;
}

aclError am_aclrtCmoSetDesc(void *cmoDesc, void *src, size_t size)
{
    return am_desc_set(cmoDesc, AM_DESC_TOUCH, src, NULL, size);
}

aclError am_aclrtCmoAsyncWithDesc(void *cmoDesc, aclrtCmoType cmoType, aclrtStream handle,
                                  const void *reserve)
{
    AM_REQUIRE(reserve == NULL, ACL_ERROR_INVALID_PARAM,
               "reserve is %p; it is reserved and takes NULL", reserve);
    AM_TRY(type_check(cmoType));
    AM_GET(stream, handle);
    return am_desc_submit(cmoDesc, AM_DESC_TOUCH, stream);
}
