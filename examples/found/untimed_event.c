/*
 * Work is to be timed with events that were created for synchronisation alone.
 *
 * ACL_EVENT_TIME_LINE makes an event note its time; without it there is no elapsed time.
 */
#include "found.h"

int main(void)
{
    aclrtEvent start, end;
    aclrtStream stream;
    float ms;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&stream));
    MUST(aclrtCreateEventWithFlag(&start, ACL_EVENT_SYNC));
    MUST(aclrtCreateEventWithFlag(&end, ACL_EVENT_SYNC));
    MUST(aclrtRecordEvent(start, stream));
    MUST(aclrtRecordEvent(end, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtEventElapsedTime(&ms, start, end));
    return 0;
}
