/* See events.h. */
#include "events.h"

aclrtEvent make_event(void)
{
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEvent(&event));
    assert_non_null(event);
    return event;
}

aclrtEvent make_flagged(uint32_t flag)
{
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEventWithFlag(&event, flag));
    return event;
}

aclrtEvent make_ex(uint32_t flag)
{
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEventExWithFlag(&event, flag));
    return event;
}

bool is_complete(aclrtEvent event)
{
    aclrtEventRecordedStatus status = (aclrtEventRecordedStatus)99;

    assert_acl_ok(aclrtQueryEventStatus(event, &status));
    return status == ACL_EVENT_RECORDED_STATUS_COMPLETE;
}

aclrtEventWaitStatus waits_of(aclrtEvent event)
{
    aclrtEventWaitStatus status = ACL_EVENT_WAIT_STATUS_RESERVED;

    assert_acl_ok(aclrtQueryEventWaitStatus(event, &status));
    return status;
}

uint32_t available(void)
{
    uint32_t n = 0;

    assert_acl_ok(aclrtGetEventAvailNum(&n));
    return n;
}

void end_event(aclrtEvent event)
{
    assert_acl_ok(aclrtDestroyEvent(event));
}
