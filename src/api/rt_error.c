/* The thread's last error code and its messages. */
#include "api/api.h"
#include "base/error.h"

const char *am_aclGetRecentErrMsg(void)
{
    return am_error_take_messages();
}

aclError am_aclrtGetLastError(aclrtLastErrLevel level)
{
    AM_REQUIRE(level == ACL_RT_THREAD_LEVEL, ACL_ERROR_INVALID_PARAM,
               "level is %d; it takes ACL_RT_THREAD_LEVEL (0)", (int)level);
    return am_error_last(true);
}

aclError am_aclrtPeekAtLastError(aclrtLastErrLevel level)
{
    AM_REQUIRE(level == ACL_RT_THREAD_LEVEL, ACL_ERROR_INVALID_PARAM,
               "level is %d; it takes ACL_RT_THREAD_LEVEL (0)", (int)level);
    return am_error_last(false);
}
