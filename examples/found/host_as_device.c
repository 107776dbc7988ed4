/*
 * A buffer of the host is copied as if it were the device's.
 *
 * By default the kind of a copy is a hint and the addresses decide, so the copy works; strict
 * rules compare the two.
 */
#include "found.h"

int main(void)
{
    void *data, *host;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtMallocHost(&data, 64)); /* aclrtMalloc belongs here */
    MUST(aclrtMallocHost(&host, 64));
    MUST(aclrtMemcpy(host, 64, data, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    return 0;
}
