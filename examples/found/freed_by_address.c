/*
 * Memory is freed by its address: the handle is looked up, which takes a reference.
 *
 * Freeing the handle gives that reference back, and the one of the allocation is never
 * dropped: every free leaks the whole block.
 */
#include "found.h"

static void *block_allocate(void)
{
    aclrtDrvMemHandle handle = chunk_create();
    void *addr;

    MUST(aclrtReserveMemAddress(&addr, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(addr, CHUNK, 0, handle, 0));
    return addr; /* the handle is not kept */
}

static void block_free(void *addr)
{
    aclrtDrvMemHandle handle;

    MUST(aclrtMemRetainAllocationHandle(addr, &handle));
    MUST(aclrtUnmapMem(addr));
    MUST(aclrtFreePhysical(handle));
    MUST(aclrtReleaseMemAddress(addr));
}

int main(void)
{
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    for (int i = 0; i < 3; i++)
        block_free(block_allocate());
    return 0;
}
