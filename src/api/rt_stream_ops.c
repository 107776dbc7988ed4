/* Values in memory that streams write and wait for, and cache operations. */
#include "api/api.h"
#include "api/check.h"
#include "base/error.h"
#include "base/util.h"
#include "core/copy/memory_op.h"

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
    AM_GET(stream, handle);
    return am_memory_op_value(devAddr, false, value, flag, stream);
}

/*
 * ---- cache operations ----
 *
 * There is no cache to operate on: the memory is checked, and the operation is a task of the
 * stream without effect.
 */

aclError am_aclrtCmoAsync(void *src, size_t size, aclrtCmoType cmoType,
                          aclrtStream handle)
{
    AM_REQUIRE(cmoType == ACL_RT_CMO_TYPE_PREFETCH, ACL_ERROR_INVALID_PARAM,
               "cmoType is %d; it takes PREFETCH (0)", (int)cmoType);
    AM_GET(stream, handle);
    return am_memory_op_touch(src, size, stream);
}

aclError am_aclrtCmoAsyncWithBarrier(void *src, size_t size, aclrtCmoType cmoType,
                                     uint32_t barrierId, struct am_stream *stream)
{
    return am_memory_op_touch(src, size, stream);
}

/* An operation completes when the stream reaches it, so there is nothing to wait for. */
aclError am_aclrtCmoWaitBarrier(aclrtBarrierTaskInfo *taskInfo, aclrtStream handle,
                                uint32_t flag)
{
    struct am_spans none;

    AM_REQUIRE(taskInfo->barrierNum > 0 &&
                   taskInfo->barrierNum <= ACL_RT_CMO_MAX_BARRIER_NUM,
               ACL_ERROR_INVALID_PARAM, "barrierNum is %zu; it takes 1 to %u",
               taskInfo->barrierNum, ACL_RT_CMO_MAX_BARRIER_NUM);
    for (size_t i = 0; i < taskInfo->barrierNum; i++)
        AM_REQUIRE_TO(taskInfo->cmoInfo[i].cmoType, 3);
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

aclError am_aclrtCmoAsyncWithDesc(void *cmoDesc, aclrtCmoType cmoType,
                                  struct am_stream *stream, const void *reserve)
{
    return am_desc_submit(cmoDesc, AM_DESC_TOUCH, stream);
}
