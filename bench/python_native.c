/*
 * The calls that bench/python.py makes, without Python: what is left of each is the cost
 * of the way there.
 */
#include <stdint.h>

#include "acl/acl.h"

ACL_FUNC_VISIBILITY void native_get_device(size_t n);
ACL_FUNC_VISIBILITY void native_set_context(size_t n, void *context);
ACL_FUNC_VISIBILITY void native_map(size_t n, void *address, size_t size, void *handle);
ACL_FUNC_VISIBILITY void native_malloc(size_t n);

void native_get_device(size_t n)
{
    int32_t device;

    while (n-- > 0)
        aclrtGetDevice(&device);
}

void native_set_context(size_t n, void *context)
{
    while (n-- > 0)
        aclrtSetCurrentContext(context);
}

void native_map(size_t n, void *address, size_t size, void *handle)
{
    while (n-- > 0) {
        aclrtMapMem(address, size, 0, handle, 0);
        aclrtUnmapMem(address);
    }
}

void native_malloc(size_t n)
{
    void *block;

    while (n-- > 0) {
        aclrtMalloc(&block, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
        aclrtFree(block);
    }
}
