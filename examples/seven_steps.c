/*
 * The seven steps: reserve addresses, allocate physical memory, map, use, unmap, free,
 * release.
 *
 * Everything that AscendCL's virtual memory management is built from, once each.
 */
#include <string.h>

#include "acl/acl.h"
#include "example.h"

#define SIZE (4 * MB) /* two granules of 2 MB */

int main(void)
{
    /* Memory of device 0 in pages of 2 MB. */
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
    int is_empty;
    int is_back;
    void *addr;
    char byte;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM,
                                           &granularity));
    before = free_memory();
    printf("%s, %zu MB free, memory comes in multiples of %zu MB\n", aclrtGetSocName(),
           before / MB, granularity / MB);

    CHECK(aclrtReserveMemAddress(&addr, SIZE, 0, NULL, 1));
    printf("1 reserve   %zu MB of addresses at %p, nothing behind them\n", SIZE / MB,
           addr);

    CHECK(aclrtMallocPhysical(&handle, SIZE, &prop, 0));
    printf("2 allocate  %zu MB of physical memory; the device has %zu MB less\n",
           SIZE / MB, (before - free_memory()) / MB);

    CHECK(aclrtMapMem(addr, SIZE, 0, handle, 0));
    printf("3 map       the memory is behind the addresses\n");

    CHECK(aclrtMemcpy(addr, SIZE, text, sizeof text, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemcpy(back, sizeof back, addr, sizeof text, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("4 use       \"%s\"\n", back);

    CHECK(aclrtUnmapMem(addr));
    is_empty = aclrtMemcpy(&byte, 1, addr, 1, ACL_MEMCPY_DEVICE_TO_HOST) != ACL_SUCCESS;
    printf("5 unmap     the addresses are empty again; a copy from them is refused:\n");
    printf("            %s\n", is_empty ? aclGetRecentErrMsg() : "(it was not)");

    CHECK(aclrtFreePhysical(handle));
    is_back = free_memory() == before;
    printf("6 free      the device has all its memory back: %s\n",
           is_back ? "yes" : "no");

    CHECK(aclrtReleaseMemAddress(addr));
    printf("7 release   the addresses are gone too\n");

    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return !(strcmp(text, back) == 0 && is_empty && is_back);
}
