/*
 * Calls whose arguments point to more than a number: a batch of 3,000 copies, a host
 * function, an attribute of a memory pool, a managed location that is passed by value.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define BATCH 3000
#define PIECE 64

static void must(aclError rc, const char *what)
{
    if (rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "%s: %d %s\n", what, rc, aclGetRecentErrMsg());
    exit(1);
}
#define MUST(call_) must(call_, #call_)

static void batch_copy(char *device)
{
    static char host[BATCH * PIECE];
    static void *dst[BATCH], *src[BATCH];
    static size_t size[BATCH];
    aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                 .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    size_t index = 0;
    size_t failed;

    for (size_t i = 0; i < BATCH; i++) {
        dst[i] = device + i * PIECE;
        src[i] = host + i * PIECE;
        size[i] = PIECE;
    }
    MUST(aclrtMemcpyBatch(dst, size, src, size, BATCH, &attr, &index, 1, &failed));
}

static void host_function(void *arg)
{
    *(int *)arg = 1;
}

int main(void)
{
    aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .maxSize = (size_t)64 << 20,
                               .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    uint64_t threshold = 1 << 20;
    aclrtMemPool pool;
    aclrtStream stream;
    void *device;
    int has_run = 0;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtMalloc(&device, BATCH * PIECE, ACL_MEM_MALLOC_HUGE_FIRST));
    batch_copy(device);
    MUST(aclrtCreateStream(&stream));
    MUST(aclrtLaunchHostFunc(stream, host_function, &has_run));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemPoolCreate(&pool, &props));
    MUST(aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(device));
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return has_run == 1 ? 0 : 1;
}
