/* Calls that must succeed for the program to reach its mistake. */
#ifndef FOUND_H
#define FOUND_H

#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define MUST(call_) \
    do { \
        if ((call_) != ACL_SUCCESS) { \
            fprintf(stderr, "%s: %s\n", #call_, aclGetRecentErrMsg()); \
            exit(1); \
        } \
    } while (0)

#define CHUNK ((size_t)2 << 20)

static inline aclrtDrvMemHandle chunk_create(void)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    aclrtDrvMemHandle handle;

    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    return handle;
}

#endif
