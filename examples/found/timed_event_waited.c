/*
 * A stream waits for an event that was created for its time alone.
 *
 * ACL_EVENT_SYNC makes an event one that streams can wait for.  Some editions of the documents
 * allow the wait without it, and a program that is to run on all of them asks for both.
 */
#include "found.h"

int main(void)
{
    aclrtStream first, second;
    aclrtEvent event;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&first));
    MUST(aclrtCreateStream(&second));
    MUST(aclrtCreateEventWithFlag(&event, ACL_EVENT_TIME_LINE));
    MUST(aclrtRecordEvent(event, first));
    MUST(aclrtStreamWaitEvent(second, event));
    return 0;
}
