/*
 * A program of somebody else's, as small as one can be: maps memory, copies there and
 * back. Compiled as C and as C++.  With an argument it loads that library by name first.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"

#define CHECK(call_) \
    do { \
        aclError rc_ = (call_); \
        if (rc_ != ACL_SUCCESS) { \
            fprintf(stderr, "%s: %d: %s\n", #call_, rc_, aclGetRecentErrMsg()); \
            return 1; \
        } \
    } while (0)

static int load(const char *name)
{
    void *library = dlopen(name, RTLD_NOW);

    if (library == NULL || dlsym(library, "aclrtMapMem") == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char sent[] = "there and back";
    char received[sizeof sent] = "";
    aclrtPhysicalMemProp prop;
    aclrtDrvMemHandle handle;
    size_t size = 0;
    void *va = NULL;

    if (argc > 1 && load(argv[1]) != 0)
        return 1;

    memset(&prop, 0, sizeof prop);
    prop.handleType = ACL_MEM_HANDLE_TYPE_NONE;
    prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    prop.location.id = 0;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM,
                                           &size));
    CHECK(aclrtReserveMemAddress(&va, size, 0, NULL, 1));
    CHECK(aclrtMallocPhysical(&handle, size, &prop, 0));
    CHECK(aclrtMapMem(va, size, 0, handle, 0));
    CHECK(aclrtMemcpy(va, size, sent, sizeof sent, ACL_MEMCPY_HOST_TO_DEVICE));
    CHECK(aclrtMemcpy(received, sizeof received, va, sizeof received,
                      ACL_MEMCPY_DEVICE_TO_HOST));
    CHECK(aclrtUnmapMem(va));
    CHECK(aclrtFreePhysical(handle));
    CHECK(aclrtReleaseMemAddress(va));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return strcmp(sent, received) != 0;
}
