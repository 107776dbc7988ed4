/*
 * Exports memory to other machines:
 *
 *     fabric            it works
 *     fabric WORDS      it is refused with 207000, in these words
 */
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"

int main(int argc, char **argv)
{
    aclrtPhysicalMemProp prop;
    aclrtMemFabricHandle fabric;
    aclrtDrvMemHandle handle;
    const char *message;
    aclError rc;

    memset(&prop, 0, sizeof prop);
    prop.allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    prop.memAttr = ACL_HBM_MEM_HUGE;
    prop.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS ||
        aclrtMallocPhysical(&handle, (size_t)2 << 20, &prop, 0) != ACL_SUCCESS) {
        fprintf(stderr, "no memory: %s\n", aclGetRecentErrMsg());
        return 2;
    }
    rc = aclrtMemExportToShareableHandleV2(handle,
                                           ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                           ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &fabric);
    message = rc != ACL_SUCCESS ? aclGetRecentErrMsg() : "";
    printf("%d %s\n", rc, message != NULL ? message : "");
    if (argc > 1
            ? rc != ACL_ERROR_RT_FEATURE_NOT_SUPPORT || strstr(message, argv[1]) == NULL
            : rc != ACL_SUCCESS)
        return 1;
    aclrtFreePhysical(handle);
    return aclFinalize() == ACL_SUCCESS ? 0 : 1;
}
