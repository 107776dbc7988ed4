/*
 * One variable for two buffers: the host buffer's address is overwritten by the second,
 * and what is freed and then filled is the same block.
 */
#include "found.h"

int main(void)
{
    void *host, *old;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtMalloc(&host, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    old = host;
    MUST(aclrtFree(host)); /* the block of the first test */
    MUST(aclrtMemset(old, CHUNK, 1, CHUNK));
    return 0;
}
