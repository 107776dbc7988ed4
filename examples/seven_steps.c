/*
 * The seven steps: reserve addresses, allocate physical memory, map, use, unmap, free, release.
 *
 * Everything that AscendCL's virtual memory management is built from, once each.
 */
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "example.h"

#define SIZE ((size_t)4 << 20) /* two granules of 2 MB */

static size_t free_memory(void)
{
    size_t free_bytes;
    size_t total;

    CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    return free_bytes;
}

int main(void)
{
    aclrtPhysicalMemProp prop = {
        .handleType = ACL_MEM_HANDLE_TYPE_NONE,
        .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    const char text[] = "written through the device's address";
    char back[sizeof text] = "";
    aclrtDrvMemHandle handle;
    size_t granularity;
    size_t before;
    void *addr;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM,
                                           &granularity));
    before = free_memory();
    printf("%s, memory comes in multiples of %zu KB\n", aclrtGetSocName(), granularity >> 10);

    CHECK(aclrtReserveMemAddress(&addr, SIZE, 0, NULL, 1));
    printf("1 reserve   %zu KB of addresses at %p, nothing behind them\n", SIZE >> 10, addr);

    CHECK(aclrtMallocPhysical(&handle, SIZE, &prop, 0));
    printf("2 allocate  %zu KB of physical memory; the device has %zu KB less\n", SIZE >> 10,
           (before - free_memory()) >> 10);

    CHECK(aclrtMapMem(addr, SIZE, 0, handle, 0));
    printf("3 map       the memory is behind the addresses\n");

    CHECK(aclrtMemcpy(addr, SIZE, text, sizeof text, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemcpy(back, sizeof back, addr, sizeof text, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("4 use       \"%s\"\n", back);

    CHECK(aclrtUnmapMem(addr));
    printf("5 unmap     the addresses are empty again: a copy gives %d\n",
           aclrtMemcpy(back, sizeof back, addr, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("            %s\n", aclGetRecentErrMsg());

    CHECK(aclrtFreePhysical(handle));
    printf("6 free      the device has all its memory back: %s\n",
           free_memory() == before ? "yes" : "no");

    CHECK(aclrtReleaseMemAddress(addr));
    printf("7 release   the addresses are gone too\n");

    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return strcmp(text, back) != 0;
}
