/* What the examples share: a check of every call. */
#ifndef EXAMPLE_H
#define EXAMPLE_H

#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

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

#endif
