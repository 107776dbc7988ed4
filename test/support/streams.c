/* See streams.h. */
#include "streams.h"

aclrtStream make_stream(void)
{
    aclrtStream stream = NULL;

    assert_acl_ok(aclrtCreateStream(&stream));
    assert_non_null(stream);
    return stream;
}

void end_stream(aclrtStream stream)
{
    assert_acl_ok(aclrtDestroyStream(stream));
}

aclrtContext make_context(int32_t device)
{
    aclrtContext context = NULL;

    assert_acl_ok(aclrtCreateContext(&context, device));
    return context;
}

aclrtStreamStatus status_of(aclrtStream stream)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;

    assert_acl_ok(aclrtStreamQuery(stream, &status));
    return status;
}

bool is_idle(aclrtStream stream)
{
    return status_of(stream) == ACL_STREAM_STATUS_COMPLETE;
}

uint32_t streams_available(void)
{
    uint32_t n = 0;

    assert_acl_ok(aclrtGetStreamAvailableNum(&n));
    return n;
}
