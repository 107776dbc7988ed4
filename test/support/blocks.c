#include "blocks.h"

const size_t block_sizes[N_BLOCK_SIZES] = {
    1,
    31,
    32,
    33,
    64,
    65,
    100,
    512,
    1000,
    1024,
    4095,
    4096,
    4097,
    5000,
    32 * KIB,
    32 * KIB + 1,
    64 * KIB - 32,
    64 * KIB,
    64 * KIB + 1,
    100 * KIB,
    128 * KIB,
    333 * KIB,
    512 * KIB,
    MIB - 64,
    MIB - 32,
    MIB,
    MIB + 1,
    2 * MIB - 32,
    2 * MIB,
    2 * MIB + 1,
    5 * MIB,
    16 * MIB,
    33 * MIB,
};

int finish_blocks(void **state)
{
    aclmem_stats s = stats();
    int rc = finish(state);

    if (s.blocks == 0 && s.host_blocks == 0)
        return rc;
    print_error("left behind: %llu blocks and %llu host blocks\n",
                (unsigned long long)s.blocks, (unsigned long long)s.host_blocks);
    return -1;
}

char *device_malloc(size_t size)
{
    void *p = NULL;

    assert_acl_ok(aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_non_null(p);
    return p;
}

char *host_malloc(size_t size)
{
    void *p = NULL;

    assert_acl_ok(aclrtMallocHost(&p, size));
    assert_non_null(p);
    return p;
}

void device_free(void *p)
{
    assert_acl_ok(aclrtFree(p));
}

void host_free(void *p)
{
    assert_acl_ok(aclrtFreeHost(p));
}

static aclrtPtrAttributes attributes(const void *p)
{
    aclrtPtrAttributes found;

    assert_acl_ok(aclrtPointerGetAttributes(p, &found));
    return found;
}

aclrtMemLocationType location_type(const void *p)
{
    return attributes(p).location.type;
}

uint32_t location_id(const void *p)
{
    return attributes(p).location.id;
}

uint32_t page_size(const void *p)
{
    return attributes(p).pageSize;
}

size_t block_size(void *p)
{
    size_t size = 0;

    assert_acl_ok(aclrtMemGetAddressRange(p, NULL, &size));
    return size;
}

void *block_start(void *p)
{
    void *start = NULL;

    assert_acl_ok(aclrtMemGetAddressRange(p, &start, NULL));
    return start;
}

size_t random_to(uint64_t *seed, size_t n)
{
    *seed += 0x9e3779b97f4a7c15u;
    uint64_t x = *seed;

    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (size_t)((x ^ (x >> 31)) % n);
}
