/*
 * What the examples share: a check of every call, and the description of the memory they
 * use.
 */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define MB ((size_t)1 << 20)

#define CHECK(call_) example_check((call_), #call_, __LINE__)

static inline void example_check(aclError rc, const char *call, int line)
{
    const char *message;

    if (rc == ACL_SUCCESS)
        return;
    message = aclGetRecentErrMsg();
    fprintf(stderr, "line %d: %s gave %d\n%s\n", line, call, rc, message ? message : "");
    exit(1);
}

/* Memory of device 0 in pages of 2 MB. */
static const aclrtPhysicalMemProp device_memory = {
    .handleType = ACL_MEM_HANDLE_TYPE_NONE,
    .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
    .memAttr = ACL_HBM_MEM_HUGE,
    .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
};

static inline size_t free_memory(void)
{
    size_t free_bytes;
    size_t total;

    CHECK(aclrtGetMemInfo(ACL_HBM_MEM, &free_bytes, &total));
    return free_bytes;
}

#endif
