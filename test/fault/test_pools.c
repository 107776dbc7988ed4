/* Faults in memory pools and in managed memory. */
#include "faulted.h"

#include <stdlib.h>
#include <string.h>

static aclrtStream stream;
static aclrtStream other;
static aclrtMemPool pool;
static void *block;

/* ---- pools ---- */

static aclError do_create(struct scene *s)
{
    aclrtMemPoolProps props;

    memset(&props, 0, sizeof(props));
    props.location.type = ACL_MEM_LOCATION_TYPE_DEVICE;
    props.maxSize = 16 * MIB;
    return aclrtMemPoolCreate(&pool, &props);
}

static void have_pool(struct scene *s)
{
    assert_acl_ok(do_create(s));
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtCreateStream(&other));
}

static void drop_pool(struct scene *s)
{
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void drop_all(struct scene *s)
{
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtDestroyStream(other));
    drop_pool(s);
}

static aclError do_malloc(struct scene *s)
{
    return aclrtMemPoolMallocAsync(&block, 5 * MIB, pool, stream);
}

static void block_works(struct scene *s)
{
    put_pattern(block, 5 * MIB, 1);
    assert_pattern(block, 5 * MIB, 1);
    assert_acl_ok(aclrtMemPoolFreeAsync(block, stream));
}

static void have_block(struct scene *s)
{
    have_pool(s);
    assert_acl_ok(do_malloc(s));
}

static aclError do_free(struct scene *s)
{
    return aclrtMemPoolFreeAsync(block, stream);
}

/* A free that failed has not freed: the block is there, with its bytes. */
static void block_is_still_there(struct scene *s)
{
    put_pattern(block, 5 * MIB, 2);
    assert_pattern(block, 5 * MIB, 2);
}

static void block_is_free(struct scene *s)
{
    void *whole = NULL;

    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtMemPoolMallocAsync(&whole, 16 * MIB, pool, other));
    assert_acl_ok(aclrtMemPoolFreeAsync(whole, other));
}

/* All of the pool is freed on a stream that waits, so that another one has to borrow. */
static void have_nothing_left(struct scene *s)
{
    void *whole = NULL;

    have_pool(s);
    s->va = reserve(CHUNK);
    s->handle = alloc(CHUNK);
    map(s->va, CHUNK, s->handle);
    assert_acl_ok(aclrtMemPoolMallocAsync(&whole, 16 * MIB, pool, stream));
    assert_acl_ok(aclrtValueWait(s->va, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(whole, stream));
}

static aclError do_borrow(struct scene *s)
{
    return aclrtMemPoolMallocAsync(&block, 5 * MIB, pool, other);
}

static void go_on(struct scene *s)
{
    uint64_t one = 1;

    assert_acl_ok(aclrtMemsetAsync(block, 5 * MIB, 3, 5 * MIB, other));
    assert_acl_ok(copy(s->va, &one, sizeof(one), ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(aclrtSynchronizeStream(other));
    assert_all_bytes(block, 5 * MIB, 3);
    assert_acl_ok(aclrtMemPoolFreeAsync(block, other));
    assert_acl_ok(aclrtUnmapMem(s->va));
    assert_acl_ok(aclrtFreePhysical(s->handle));
    assert_acl_ok(aclrtReleaseMemAddress(s->va));
}

/* ---- managed memory ---- */

static aclError do_alloc(struct scene *s)
{
    return aclrtMemAllocManaged(&block, 3 * CHUNK, ACL_RT_MEM_ATTACH_GLOBAL);
}

static void managed_works(struct scene *s)
{
    fill(block, 3 * CHUNK, 1);
    assert_pattern(block, 3 * CHUNK, 1);
}

static void free_managed(struct scene *s)
{
    assert_acl_ok(aclrtFree(block));
}

static void have_managed(struct scene *s)
{
    assert_acl_ok(do_alloc(s));
    assert_acl_ok(aclrtCreateStream(&stream));
}

static aclError do_prefetch(struct scene *s)
{
    const aclrtMemManagedLocation device = {ACL_MEM_LOCATIONTYPE_DEVICE, 1};

    return aclrtMemManagedPrefetchAsync(block, CHUNK, device, 0, stream);
}

static int32_t prefetched_to(void)
{
    int32_t to = 77;

    assert_acl_ok(aclrtMemManagedGetAttr(ACL_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                         block, CHUNK, &to, sizeof(to)));
    return to;
}

static void nothing_is_prefetched(struct scene *s)
{
    assert_int_equal(prefetched_to(), -2);
}

static void it_is_prefetched(struct scene *s)
{
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_int_equal(prefetched_to(), 1);
}

static void drop_managed(struct scene *s)
{
    assert_acl_ok(aclrtDestroyStream(stream));
    free_managed(s);
}

static aclError do_free_managed(struct scene *s)
{
    return aclrtFree(block);
}

static void destroy_stream(struct scene *s)
{
    assert_acl_ok(aclrtDestroyStream(stream));
}

static const struct step steps[] = {
    {"making a pool", NULL, NULL, do_create, NULL, NULL, drop_pool},
    {"a block of a pool", NULL, have_pool, do_malloc, NULL, block_works, drop_all},
    {"a free", NULL, have_block, do_free, block_is_still_there, block_is_free, drop_all},
    {"a borrowed block", NULL, have_nothing_left, do_borrow, NULL, go_on, drop_all},
    {"managed memory", NULL, NULL, do_alloc, NULL, managed_works, free_managed},
    {"a prefetch", NULL, have_managed, do_prefetch, nothing_is_prefetched,
     it_is_prefetched, drop_managed},
    {"a free of managed memory", NULL, have_managed, do_free_managed, managed_works, NULL,
     destroy_stream},
};

int main(int argc, char **argv)
{
    return run_faulted(steps, argc, argv);
}
