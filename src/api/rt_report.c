/* Callbacks and host functions on streams. */
#include "api/api.h"
#include "api/check.h"
#include "api/held.h"
#include "base/error.h"
#include "core/stream/call.h"
#include "core/stream/callback.h"
#include "core/stream/stream.h"

aclError am_aclrtSubscribeReport(uint64_t threadId, aclrtStream handle)
{
    AM_REQUIRE(threadId != 0, ACL_ERROR_INVALID_PARAM, "threadId is 0");
    AM_GET(stream, handle);
    return am_callback_subscribe(threadId, stream);
}

aclError am_aclrtUnSubscribeReport(uint64_t threadId, aclrtStream handle)
{
    AM_GET(stream, handle);
    return am_callback_unsubscribe(threadId, stream);
}

aclError am_aclrtProcessReport(int32_t ms)
{
    AM_REQUIRE_TIMEOUT(ms);
    return am_call_process(ms);
}

aclError am_aclrtLaunchCallback(aclrtCallback fn, void *userData,
                                aclrtCallbackBlockType blockType, aclrtStream handle)
{
    AM_REQUIRE_NONNULL(fn);
    AM_REQUIRE(blockType == ACL_CALLBACK_NO_BLOCK || blockType == ACL_CALLBACK_BLOCK,
               ACL_ERROR_INVALID_PARAM, "blockType is %d; it takes 0 or 1",
               (int)blockType);
    AM_GET(stream, handle);
    return am_callback_launch(stream, fn, userData, blockType == ACL_CALLBACK_BLOCK);
}

aclError am_aclrtLaunchHostFunc(aclrtStream handle, aclrtHostFunc fn, void *args)
{
    AM_REQUIRE_NONNULL(fn);
    AM_GET(stream, handle);
    return am_hostfunc_launch(stream, fn, args);
}
