/*
 * "Is the event done?" is asked with the status of waits.
 *
 * aclrtQueryEventWaitStatus is about streams that wait for the event.  None does, so the answer may be
 * that all is complete while the copy before the record still runs.  aclrtQueryEventStatus is the question.
 */
#include "found.h"

int main(void)
{
    aclrtEventWaitStatus status;
    aclrtStream stream;
    aclrtEvent event;
    int *sent, *back;
    void *block;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&stream));
    MUST(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    MUST(aclrtMallocHost((void **)&sent, 64));
    MUST(aclrtMallocHost((void **)&back, 64));
    MUST(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    *sent = 42;
    MUST(aclrtMemcpyAsync(block, 64, sent, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    MUST(aclrtMemcpyAsync(back, 64, block, 64, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    MUST(aclrtRecordEvent(event, stream));
    MUST(aclrtQueryEventWaitStatus(event, &status));
    if (status == ACL_EVENT_WAIT_STATUS_COMPLETE) /* it says nothing of the copies */
        MUST(aclrtFreeHost(back));
    return 0;
}
