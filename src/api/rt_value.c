/* Values in memory that streams write and wait for. */
#include "api/api.h"
#include "api/check.h"
#include "api/held.h"
#include "base/error.h"
#include "base/util.h"
#include "core/copy/memory_op.h"
#include "core/device/setup.h"

static aclError address_check(const void *devAddr)
{
    AM_REQUIRE_FEATURE(AM_PRODUCT_STREAM_OPS,
                       "only Ascend 950, Atlas A3 and A2 can write and wait for memory "
                       "values on a stream; this device is one of the %s");
    AM_REQUIRE_NONNULL(devAddr);
    AM_REQUIRE(am_is_aligned((uintptr_t)devAddr, sizeof(uint64_t)),
               ACL_ERROR_RT_ADDR_UNALIGNED, "devAddr %p is not a multiple of 8", devAddr);
    return ACL_SUCCESS;
}

aclError am_aclrtValueWrite(void *devAddr, uint64_t value, uint32_t flag,
                            aclrtStream handle)
{
    AM_TRY(address_check(devAddr));
    AM_REQUIRE(flag == 0, ACL_ERROR_INVALID_PARAM,
               "flag is %u; it is reserved and takes 0", flag);
    AM_GET(stream, handle);
    return am_memory_op_write(devAddr, value, stream);
}

aclError am_aclrtValueWait(void *devAddr, uint64_t value, uint32_t flag,
                           aclrtStream handle)
{
    AM_TRY(address_check(devAddr));
    AM_REQUIRE(flag <= ACL_STREAM_WAIT_VALUE_NOR, ACL_ERROR_INVALID_PARAM,
               "flag is %u; it takes GEQ (0), EQ (1), AND (2) or NOR (3)", flag);
    AM_GET(stream, handle);
    return am_memory_op_wait(devAddr, value, flag, stream);
}
