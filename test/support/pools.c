/* See pools.h. */
#include "pools.h"

#include <string.h>

aclrtMemPoolProps pool_props(size_t max)
{
    aclrtMemPoolProps p;

    memset(&p, 0, sizeof(p));
    p.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED;
    p.handleType = ACL_MEM_HANDLE_TYPE_NONE;
    p.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    p.location.id = 0;
    p.maxSize = max;
    return p;
}

aclrtMemPool pool_create(size_t max)
{
    aclrtMemPoolProps p = pool_props(max);
    aclrtMemPool pool = NULL;

    assert_acl_ok(aclrtMemPoolCreate(&pool, &p));
    assert_non_null(pool);
    return pool;
}

void *take(aclrtMemPool pool, size_t size, aclrtStream stream)
{
    void *ptr = NULL;

    assert_acl_ok(aclrtMemPoolMallocAsync(&ptr, size, pool, stream));
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % 64, 0);
    return ptr;
}

uint64_t figure(aclrtMemPool pool, aclrtMemPoolAttr attr)
{
    uint64_t value = 77;

    assert_acl_ok(aclrtMemPoolGetAttr(pool, attr, &value));
    return value;
}

uint64_t reserved(aclrtMemPool pool)
{
    return figure(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT);
}

uint64_t used(aclrtMemPool pool)
{
    return figure(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT);
}

void set_switch(aclrtMemPool pool, aclrtMemPoolAttr attr, uint32_t value)
{
    assert_acl_ok(aclrtMemPoolSetAttr(pool, attr, &value));
}

void set_switches(aclrtMemPool pool, uint32_t follow, uint32_t opportunistic,
                  uint32_t internal)
{
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, follow);
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, opportunistic);
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, internal);
}

void keep_memory(aclrtMemPool pool)
{
    uint64_t all = UINT64_MAX;

    assert_acl_ok(
        aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &all));
}
