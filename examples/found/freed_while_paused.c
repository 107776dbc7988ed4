/*
 * A region is paused: its memory is unmapped and freed, and the addresses stay.  Freeing the
 * region in this state unmaps and frees the memory a second time.
 *
 * The region has to know that it is paused.
 */
#include "found.h"

struct region {
    void *addr;
    aclrtDrvMemHandle handle;
};

static void region_pause(struct region *region)
{
    MUST(aclrtUnmapMem(region->addr));
    MUST(aclrtFreePhysical(region->handle));
}

static void region_free(struct region *region)
{
    MUST(aclrtUnmapMem(region->addr));
    MUST(aclrtFreePhysical(region->handle));
    MUST(aclrtReleaseMemAddress(region->addr));
}

int main(void)
{
    struct region region;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    region.handle = chunk_create();
    MUST(aclrtReserveMemAddress(&region.addr, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(region.addr, CHUNK, 0, region.handle, 0));
    region_pause(&region);
    region_free(&region);
    return 0;
}
