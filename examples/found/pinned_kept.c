/*
 * A function that prints data of the device copies it into a pinned block, and forgets the
 * block.
 *
 * Pinned memory stays locked until it is freed, so this costs more than ordinary memory.
 */
#include "found.h"

static void data_print(const void *data, size_t size)
{
    unsigned char *host;

    MUST(aclrtMallocHost((void **)&host, size));
    MUST(aclrtMemcpy(host, size, data, size, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("%u\n", host[0]);
} /* aclrtFreeHost(host) belongs here */

int main(void)
{
    void *data;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtMalloc(&data, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtMemset(data, 64, 7, 64));
    data_print(data, 64);
    data_print(data, 64);
    MUST(aclrtFree(data));
    return 0;
}
