/*
 * Managed memory as a program has it that is built with a sanitizer: some of the documented
 * addresses are then the sanitizer's own.
 */
#include <stdio.h>

#include "acl/acl.h"

#define SIZE ((size_t)4 << 20)

int main(void)
{
    unsigned char *p = NULL;
    int is_good = aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS &&
                  aclrtMemAllocManaged((void **)&p, SIZE, ACL_RT_MEM_ATTACH_GLOBAL) ==
                      ACL_SUCCESS &&
                  aclrtMemset(p, SIZE, 7, SIZE) == ACL_SUCCESS && p[SIZE - 1] == 7;

    if (is_good)
        p[0] = 1; /* the program's own write, which the sanitizer looks at */
    is_good = is_good && p[0] == 1 && aclrtFree(p) == ACL_SUCCESS &&
              aclFinalize() == ACL_SUCCESS;
    if (!is_good)
        fprintf(stderr, "managed memory: %s\n", aclGetRecentErrMsg());
    return !is_good;
}
