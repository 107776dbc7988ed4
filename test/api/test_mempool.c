/* Stream-ordered memory pools. */
#include "support/gate.h"
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <string.h>

static aclrtMemPoolProps props(size_t max)
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

static aclrtMemPool pool_create(size_t max)
{
    aclrtMemPoolProps p = props(max);
    aclrtMemPool pool = NULL;

    assert_acl_ok(aclrtMemPoolCreate(&pool, &p));
    assert_non_null(pool);
    return pool;
}

static void *take(aclrtMemPool pool, size_t size, aclrtStream stream)
{
    void *ptr = NULL;

    assert_acl_ok(aclrtMemPoolMallocAsync(&ptr, size, pool, stream));
    assert_non_null(ptr);
    assert_int_equal((uintptr_t)ptr % 64, 0);
    return ptr;
}

static uint64_t figure(aclrtMemPool pool, aclrtMemPoolAttr attr)
{
    uint64_t value = 77;

    assert_acl_ok(aclrtMemPoolGetAttr(pool, attr, &value));
    return value;
}

static uint64_t reserved(aclrtMemPool pool)
{
    return figure(pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT);
}

static uint64_t used(aclrtMemPool pool)
{
    return figure(pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT);
}

static void set_switch(aclrtMemPool pool, aclrtMemPoolAttr attr, uint32_t value)
{
    assert_acl_ok(aclrtMemPoolSetAttr(pool, attr, &value));
}

static void set_switches(aclrtMemPool pool, uint32_t follow, uint32_t opportunistic,
                         uint32_t internal)
{
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_FOLLOW_EVENT_DEPENDENCIES, follow);
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_OPPORTUNISTIC, opportunistic);
    set_switch(pool, ACL_RT_MEM_POOL_REUSE_ALLOW_INTERNAL_DEPENDENCIES, internal);
}

static void keep_memory(aclrtMemPool pool)
{
    uint64_t all = UINT64_MAX;

    assert_acl_ok(
        aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &all));
}

/* ---- create and destroy ---- */

static void a_pool_comes_and_goes(void **state)
{
    size_t free = free_memory();
    aclrtMemPool pool = pool_create(64 * MIB), other = pool_create(1);

    assert_ptr_not_equal(pool, other);
    assert_int_equal(reserved(pool), 0);
    assert_int_equal(used(pool), 0);
    assert_int_equal(free_memory(), free); /* memory is taken when it is needed */
    assert_int_equal(stats().reservations, 0);
    assert_acl_ok(aclrtMemPoolDestroy(pool));
    assert_acl_ok(aclrtMemPoolDestroy(other));
    assert_refused(aclrtMemPoolDestroy(pool), ACL_ERROR_RT_INVALID_HANDLE, "memPool");
}

static void wrong_properties_are_refused(void **state)
{
    aclrtMemPool pool = &pool;
    aclrtMemPoolProps p = props(MIB);

    assert_refused(aclrtMemPoolCreate(NULL, &p), ACL_ERROR_INVALID_PARAM, "memPool");
    assert_refused(aclrtMemPoolCreate(&pool, NULL), ACL_ERROR_INVALID_PARAM, "poolProps");
    p.allocType = (aclrtMemAllocationType)1;
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_INVALID_PARAM, "allocType");
    p = props(MIB);
    p.handleType = ACL_MEM_HANDLE_TYPE_POSIX;
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_INVALID_PARAM, "handleType");
    p = props(MIB);
    p.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_INVALID_PARAM,
                   "location.type");
    p = props(MIB);
    p.location.id = 2;
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_RT_INVALID_DEVICEID,
                   "device 2");
    p = props(0);
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_INVALID_PARAM, "maxSize");
    p = props(MIB);
    p.reserved[31] = 1;
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_INVALID_PARAM, "reserved");
    p = props(SIZE_MAX);
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "Failed to allocate");
    p = props(SIZE_MAX / 4);
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "Failed to allocate");
    assert_ptr_equal(pool, &pool);
}

static void only_a2_has_pools(void **state)
{
    static const char *const others[] = {"950", "A3", "910", "310P", "310B", "310"};
    aclrtMemPoolProps p = props(MIB);
    aclrtMemPool pool;
    uint64_t value = 0;
    void *ptr;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char option[64];

        snprintf(option, sizeof(option), "ACLMEM_PRODUCT=%s", others[i]);
        start("default", option);
        assert_acl_ok(aclrtSetDevice(0));
        assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                       "A2");
        assert_refused(aclrtMemPoolDestroy(&pool), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                       "A2");
        assert_refused(aclrtMemPoolSetAttr(&pool, 1, &value),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A2");
        assert_refused(aclrtMemPoolGetAttr(&pool, 1, &value),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A2");
        assert_refused(aclrtMemPoolMallocAsync(&ptr, 1, &pool, NULL),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A2");
        assert_refused(aclrtMemPoolFreeAsync(&ptr, NULL),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "A2");
        assert_refused(aclrtMemPoolTrimTo(&pool, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                       "A2");
        assert_acl_ok(aclFinalize());
    }
}

static void a_pool_with_blocks_is_not_destroyed(void **state)
{
    aclrtMemPool pool = pool_create(64 * MIB);
    void *ptr = take(pool, MIB, NULL);

    assert_refused(aclrtMemPoolDestroy(pool), ACL_ERROR_RT_PARAM_INVALID, "1 blocks");
    put_pattern(ptr, MIB, 1);
    assert_pattern(ptr, MIB, 1);
    assert_acl_ok(aclrtMemPoolFreeAsync(ptr, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool)); /* the free may still be queued */
    assert_acl_ok(aclrtSynchronizeStream(NULL));
}

static void a_destroyed_pool_lives_until_its_frees_are_done(void **state)
{
    aclrtStream stream = stream_create();
    size_t free = free_memory();
    aclrtMemPool pool = pool_create(64 * MIB);
    void *ptr = take(pool, MIB, stream);
    struct gate gate = gate_close(stream);

    assert_acl_ok(aclrtMemsetAsync(ptr, MIB, 1, MIB, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(ptr, stream));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
    assert_int_equal(free_memory(), free - CHUNK);
    gate_open(&gate);
    assert_int_equal(free_memory(), free);
    assert_acl_ok(aclrtDestroyStream(stream));
}

/* ---- blocks ---- */

static void a_block_is_memory_of_the_device(void **state)
{
    aclrtMemPool pool = pool_create(64 * MIB);
    char *ptr = take(pool, 5 * MIB + 1, NULL);
    aclrtPtrAttributes attributes;
    void *base = NULL;
    size_t size = 0;

    put_pattern(ptr, 5 * MIB, 3); /* over chunks */
    assert_pattern(ptr, 5 * MIB, 3);
    assert_acl_ok(aclrtPointerGetAttributes(ptr + MIB, &attributes));
    assert_int_equal(attributes.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(attributes.location.id, 0);
    assert_acl_ok(aclrtMemGetAddressRange(ptr + 4 * MIB, &base, &size));
    assert_ptr_equal(base, ptr);
    assert_true(size >= 5 * MIB + 1 && size < 5 * MIB + 1 + 512);
    assert_int_equal(used(pool), size);
    assert_false(can_read(ptr));
    assert_int_equal(stats().handles, 0); /* the program has none */
    assert_int_equal(stats().mappings, 0);
    assert_acl_ok(aclrtMemPoolFreeAsync(ptr, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void a_block_ends_where_it_ends(void **state)
{
    aclrtMemPool pool = pool_create(64 * MIB);
    char *a = take(pool, 1000, NULL), *b = take(pool, 1000, NULL);
    char bytes[2048] = {0};

    assert_refused(copy(a, bytes, 1025, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "end of the block");
    assert_refused(aclrtMemset(a + 1000, 25, 1, 25), ACL_ERROR_RT_PARAM_INVALID,
                   "end of the block");
    assert_refused(aclrtMemsetAsync(b + 1023, 2, 1, 2, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "end of the block");
    assert_refused(copy(bytes, b + 1024, 1, ACL_MEMCPY_DEVICE_TO_HOST),
                   ACL_ERROR_RT_PARAM_INVALID, "no block");
    assert_acl_ok(aclrtMemset(a, 1024, 1, 1024));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    assert_refused(aclrtMemset(a, 1, 1, 1), ACL_ERROR_RT_PARAM_INVALID, "freed");
    assert_acl_ok(aclrtMemPoolFreeAsync(b, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void virtual_memory_calls_leave_a_pool_alone(void **state)
{
    aclrtMemPool pool = pool_create(64 * MIB);
    char *ptr = take(pool, 4 * MIB, NULL);
    aclrtDrvMemHandle handle = alloc(CHUNK);
    aclrtDrvMemHandle retained = NULL;

    assert_refused(aclrtUnmapMem(ptr), ACL_ERROR_RT_PARAM_INVALID, "a memory pool");
    assert_refused(aclrtReleaseMemAddress(ptr), ACL_ERROR_RT_PARAM_INVALID,
                   "a memory pool");
    assert_refused(aclrtMemRetainAllocationHandle(ptr, &retained),
                   ACL_ERROR_RT_PARAM_INVALID, "a memory pool");
    assert_refused(set_access(ptr, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                              ACL_RT_MEM_ACCESS_FLAGS_READWRITE),
                   ACL_ERROR_RT_PARAM_INVALID, "a memory pool");
    assert_refused(aclrtMapMem(ptr + 32 * MIB, CHUNK, 0, handle, 0),
                   ACL_ERROR_RT_PARAM_INVALID, "a memory pool");
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtMemPoolFreeAsync(ptr, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void wrong_calls_are_refused(void **state)
{
    aclrtMemPool pool = pool_create(64 * MIB);
    char *ptr = take(pool, MIB, NULL), byte = 0;
    void *out = &byte;
    aclrtStream stream;

    assert_refused(aclrtMemPoolMallocAsync(NULL, 1, pool, NULL), ACL_ERROR_INVALID_PARAM,
                   "ptr");
    assert_refused(aclrtMemPoolMallocAsync(&out, 0, pool, NULL), ACL_ERROR_INVALID_PARAM,
                   "size");
    assert_refused(aclrtMemPoolMallocAsync(&out, 1, NULL, NULL), ACL_ERROR_INVALID_PARAM,
                   "memPool");
    assert_refused(aclrtMemPoolMallocAsync(&out, 1, &byte, NULL),
                   ACL_ERROR_RT_INVALID_HANDLE, "memPool");
    assert_refused(aclrtMemPoolMallocAsync(&out, 1, pool, pool),
                   ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_ptr_equal(out, &byte);
    assert_refused(aclrtMemPoolFreeAsync(NULL, NULL), ACL_ERROR_INVALID_PARAM, "ptr");
    assert_refused(aclrtMemPoolFreeAsync(&byte, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "aclrtMemPoolMallocAsync");
    assert_refused(aclrtMemPoolFreeAsync(ptr + 512, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "inside");
    assert_refused(aclrtMemPoolFreeAsync(ptr + MIB, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "no block");
    assert_acl_ok(aclrtSetDevice(1));
    stream = stream_create();
    assert_refused(aclrtMemPoolMallocAsync(&out, 1, pool, stream),
                   ACL_ERROR_RT_PARAM_INVALID, "device 1");
    assert_refused(aclrtMemPoolFreeAsync(ptr, stream), ACL_ERROR_RT_PARAM_INVALID,
                   "device 1");
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtMemPoolFreeAsync(ptr, NULL));
    assert_refused(aclrtMemPoolFreeAsync(ptr, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "freed before");
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void a_pool_never_has_more_than_its_size(void **state)
{
    aclrtMemPool pool = pool_create(8 * MIB);
    void *a = take(pool, 5 * MIB, NULL), *b = take(pool, 3 * MIB, NULL), *c = NULL;

    assert_int_equal(reserved(pool), 8 * MIB);
    assert_refused(aclrtMemPoolMallocAsync(&c, 1, pool, NULL),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    assert_refused(aclrtMemPoolMallocAsync(&c, 9 * MIB, pool, NULL),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    assert_refused(aclrtMemPoolMallocAsync(&c, SIZE_MAX, pool, NULL),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    a = take(pool, 5 * MIB, NULL);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    assert_acl_ok(aclrtMemPoolFreeAsync(b, NULL));
    a = take(pool, 8 * MIB, NULL);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void a_device_without_memory_is_out_of_memory(void **state)
{
    aclrtMemPool pool = pool_create(4 * GIB), other = pool_create(GIB);
    void *a = take(pool, 900 * MIB, NULL), *b = NULL;

    assert_refused(aclrtMemPoolMallocAsync(&b, 200 * MIB, other, NULL),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    b = take(other, 100 * MIB, NULL);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    assert_acl_ok(aclrtMemPoolFreeAsync(b, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    a = take(pool, GIB, NULL);
    assert_int_equal(free_memory(), 0);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
    assert_acl_ok(aclrtMemPoolDestroy(other));
}

/* ---- order ---- */

static void the_same_stream_gets_a_block_again_at_once(void **state)
{
    aclrtStream stream = stream_create();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, stream), *b;
    struct gate gate = gate_close(stream);

    assert_acl_ok(aclrtMemsetAsync(a, 8 * MIB, 1, 8 * MIB, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, stream));
    b = take(pool, 4 * MIB, stream);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemsetAsync(b, 4 * MIB, 2, 4 * MIB, stream));
    gate_open(&gate);
    assert_all_bytes(b, 4 * MIB, 2); /* in the order of the stream */
    assert_acl_ok(aclrtMemPoolFreeAsync(b, stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/* Two blocks that were freed apart are one block's worth for the stream. */
static void neighbours_that_a_stream_freed_are_one(void **state)
{
    aclrtStream stream = stream_create();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 3 * MIB, stream), *b = take(pool, 2 * MIB, stream);
    char *c = take(pool, 3 * MIB, stream), *all;
    struct gate gate = gate_close(stream);

    assert_acl_ok(aclrtMemPoolFreeAsync(c, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(b, stream));
    all = take(pool, 8 * MIB, stream);
    gate_open(&gate);
    assert_acl_ok(aclrtMemset(all, 8 * MIB, 1, 8 * MIB));
    assert_acl_ok(aclrtMemPoolFreeAsync(all, stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/* The one was freed long ago, the other by a free that the stream has not got to. */
static void neighbours_for_different_users_are_one_for_a_stream(void **state)
{
    aclrtStream one = stream_create(), two = stream_create();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 4 * MIB, one), *b = take(pool, 4 * MIB, two), *all;
    struct gate gate;

    keep_memory(pool);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    assert_acl_ok(aclrtSynchronizeStream(one));
    gate = gate_close(two);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    all = take(pool, 8 * MIB, two);
    assert_ptr_equal(all, a);
    gate_open(&gate);
    put_pattern(all, 8 * MIB, 1);
    assert_pattern(all, 8 * MIB, 1);
    assert_acl_ok(aclrtMemPoolFreeAsync(all, two));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtDestroyStream(two));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void another_stream_gets_a_block_when_the_free_is_done(void **state)
{
    aclrtStream one = stream_create(), two = stream_create();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, one), *b = NULL;
    struct gate gate;

    keep_memory(pool);
    set_switches(pool, 0, 1, 0);
    gate = gate_close(one);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    assert_refused(aclrtMemPoolMallocAsync((void **)&b, MIB, pool, two),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "not yet freed");
    gate_open(&gate);
    b = take(pool, 8 * MIB, two);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtDestroyStream(two));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/*
 * With all switches off a block's place goes to another stream only when the program has
 * synchronised.
 */
static void without_switches_only_synchronising_helps(void **state)
{
    aclrtStream one = stream_create(), two = stream_create();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, one), *b;
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;

    keep_memory(pool);
    set_switches(pool, 0, 0, 0);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    while (status == ACL_STREAM_STATUS_NOT_READY)
        assert_acl_ok(aclrtStreamQuery(one, &status));
    b = take(pool, 8 * MIB, two);
    assert_ptr_not_equal(b, a);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    assert_acl_ok(aclrtSynchronizeStream(two));
    assert_acl_ok(aclrtSynchronizeStream(one));
    b = take(pool, 8 * MIB, two);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    assert_acl_ok(aclrtDestroyStream(two)); /* and destroying a stream waits for it */
    a = take(pool, 8 * MIB, one);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void another_stream_may_wait_for_a_free(void **state)
{
    aclrtStream one = stream_create(), two = stream_create();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, one), *b;
    struct gate gate;

    set_switches(pool, 0, 0, 1);
    gate = gate_close(one);
    assert_acl_ok(aclrtMemsetAsync(a, 8 * MIB, 1, 8 * MIB, one));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    b = take(pool, 6 * MIB, two);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemsetAsync(b, 6 * MIB, 2, 6 * MIB, two));
    assert_acl(aclrtSynchronizeStreamWithTimeout(two, 20),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_message_has("aclrtMemPoolMallocAsync");
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(two));
    assert_all_bytes(b, 6 * MIB, 2);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtDestroyStream(two));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void a_block_may_be_freed_on_another_stream(void **state)
{
    aclrtStream one = stream_create(), two = stream_create();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, one);
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    assert_acl_ok(aclrtMemsetAsync(a, 8 * MIB, 1, 8 * MIB, one));
    assert_acl_ok(aclrtRecordEvent(event, one));
    assert_acl_ok(aclrtStreamWaitEvent(two, event));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, two));
    a = take(pool, 8 * MIB, two);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, two));
    assert_acl_ok(aclrtSynchronizeStream(two));
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtDestroyStream(two));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void an_aborted_stream_has_freed_too(void **state)
{
    aclrtStream stream = stream_create(), other = stream_create();
    aclrtMemPool pool = pool_create(8 * MIB);
    struct block b = block_create(CHUNK);
    char *a = take(pool, 8 * MIB, stream);

    assert_acl_ok(aclrtValueWait(b.va, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, stream));
    assert_acl_ok(aclrtStreamAbort(stream));
    a = take(pool, 8 * MIB, other);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, other));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtDestroyStream(other));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
    block_destroy(&b);
}

/* ---- what is kept ---- */

static void idle_memory_goes_when_a_stream_is_synchronised(void **state)
{
    size_t free = free_memory();
    aclrtMemPool pool = pool_create(64 * MIB);
    void *a = take(pool, 10 * MIB, NULL), *b = take(pool, MIB, NULL);

    assert_int_equal(reserved(pool), 12 * MIB);
    assert_int_equal(free_memory(), free - 12 * MIB);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(reserved(pool), CHUNK); /* b lives */
    assert_int_equal(free_memory(), free - CHUNK);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, NULL));
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_int_equal(reserved(pool), 0);
    assert_int_equal(free_memory(), free);
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void memory_up_to_the_threshold_stays(void **state)
{
    aclrtMemPool pool = pool_create(64 * MIB);
    uint64_t threshold = 6 * MIB;
    void *a = take(pool, 20 * MIB, NULL);

    assert_acl_ok(
        aclrtMemPoolSetAttr(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD, &threshold));
    assert_int_equal(figure(pool, ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD), 6 * MIB);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    assert_int_equal(reserved(pool), 20 * MIB);
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(reserved(pool), 6 * MIB);
    assert_acl_ok(aclrtMemPoolTrimTo(pool, 3 * MIB)); /* whatever the threshold says */
    assert_int_equal(reserved(pool), 4 * MIB);
    assert_acl_ok(aclrtMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 0);
    assert_acl_ok(aclrtMemPoolTrimTo(pool, 0));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void memory_in_use_is_not_trimmed(void **state)
{
    aclrtStream stream = stream_create();
    aclrtMemPool pool = pool_create(64 * MIB);
    char *a = take(pool, 4 * MIB, stream), *b = take(pool, 4 * MIB, stream);
    struct gate gate;

    put_pattern(a, 4 * MIB, 1);
    gate = gate_close(stream);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, stream));
    assert_acl_ok(aclrtMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 8 * MIB); /* the stream has not got to the free */
    gate_open(&gate);
    assert_int_equal(reserved(pool), 4 * MIB);
    assert_pattern(a, 4 * MIB, 1);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void idle_memory_moves_to_where_it_is_needed(void **state)
{
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a[4], *b;

    keep_memory(pool);
    for (int i = 0; i < 4; i++)
        a[i] = take(pool, 2 * MIB, NULL);
    assert_acl_ok(aclrtMemPoolFreeAsync(a[0], NULL));
    assert_acl_ok(aclrtMemPoolFreeAsync(a[2], NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(reserved(pool), 8 * MIB);
    b = take(pool, 4 * MIB, NULL); /* no 4 MB lie in a row, but 4 MB of memory are idle */
    assert_int_equal(reserved(pool), 8 * MIB);
    put_pattern(b, 4 * MIB, 1);
    assert_pattern(b, 4 * MIB, 1);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, NULL));
    assert_acl_ok(aclrtMemPoolFreeAsync(a[1], NULL));
    assert_acl_ok(aclrtMemPoolFreeAsync(a[3], NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void the_best_fitting_block_is_taken(void **state)
{
    aclrtMemPool pool = pool_create(64 * MIB);
    char *big = take(pool, 8 * MIB, NULL), *gap = take(pool, 512, NULL);
    char *small = take(pool, 2 * MIB, NULL), *end = take(pool, 512, NULL), *again;

    keep_memory(pool);
    assert_acl_ok(aclrtMemPoolFreeAsync(big, NULL));
    assert_acl_ok(aclrtMemPoolFreeAsync(small, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    again = take(pool, MIB, NULL);
    assert_ptr_equal(again, small);
    assert_acl_ok(aclrtMemPoolFreeAsync(again, NULL));
    assert_acl_ok(aclrtMemPoolFreeAsync(gap, NULL));
    assert_acl_ok(aclrtMemPoolFreeAsync(end, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/* ---- attributes ---- */

static void switches_are_on_and_can_be_set(void **state)
{
    aclrtMemPool pool = pool_create(MIB);

    for (int attr = 1; attr <= 3; attr++) {
        uint32_t value[2] = {7, 7}; /* four bytes are written */

        assert_acl_ok(aclrtMemPoolGetAttr(pool, (aclrtMemPoolAttr)attr, value));
        assert_int_equal(value[0], 1);
        assert_int_equal(value[1], 7);
        set_switch(pool, (aclrtMemPoolAttr)attr, 0);
        assert_acl_ok(aclrtMemPoolGetAttr(pool, (aclrtMemPoolAttr)attr, value));
        assert_int_equal(value[0], 0);
        value[0] = 2;
        assert_refused(aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)attr, value),
                       ACL_ERROR_INVALID_PARAM, "0 or 1");
    }
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void high_water_marks_can_be_set_back(void **state)
{
    const aclrtMemPoolAttr reserved_high = ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH;
    const aclrtMemPoolAttr used_high = ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH;
    aclrtMemPool pool = pool_create(64 * MIB);
    void *a = take(pool, 10 * MIB, NULL), *b = take(pool, MIB, NULL);
    uint64_t value = 1;

    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(used(pool), MIB);
    a = take(pool, MIB, NULL);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(figure(pool, reserved_high), 12 * MIB);
    assert_int_equal(figure(pool, used_high), 11 * MIB);
    assert_refused(aclrtMemPoolSetAttr(pool, used_high, &value), ACL_ERROR_INVALID_PARAM,
                   "0");
    assert_refused(aclrtMemPoolSetAttr(pool, reserved_high, &value),
                   ACL_ERROR_INVALID_PARAM, "0");
    value = 0;
    assert_acl_ok(aclrtMemPoolSetAttr(pool, used_high, &value));
    assert_acl_ok(aclrtMemPoolSetAttr(pool, reserved_high, &value));
    assert_int_equal(figure(pool, reserved_high), CHUNK);
    assert_int_equal(figure(pool, used_high), MIB);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void wrong_attributes_are_refused(void **state)
{
    aclrtMemPool pool = pool_create(MIB);
    uint64_t value = 0;

    assert_refused(aclrtMemPoolGetAttr(NULL, 1, &value), ACL_ERROR_INVALID_PARAM,
                   "memPool");
    assert_refused(aclrtMemPoolGetAttr(pool, 1, NULL), ACL_ERROR_INVALID_PARAM, "value");
    assert_refused(aclrtMemPoolGetAttr(pool, 0, &value), ACL_ERROR_INVALID_PARAM, "attr");
    assert_refused(aclrtMemPoolGetAttr(pool, 9, &value), ACL_ERROR_INVALID_PARAM, "attr");
    assert_refused(aclrtMemPoolSetAttr(pool, 9, &value), ACL_ERROR_INVALID_PARAM, "attr");
    assert_refused(aclrtMemPoolSetAttr(pool, 5, &value), ACL_ERROR_INVALID_PARAM, "read");
    assert_refused(aclrtMemPoolSetAttr(pool, 7, &value), ACL_ERROR_INVALID_PARAM, "read");
    assert_refused(aclrtMemPoolSetAttr(&value, 4, &value), ACL_ERROR_RT_INVALID_HANDLE,
                   "memPool");
    assert_refused(aclrtMemPoolTrimTo(NULL, 0), ACL_ERROR_INVALID_PARAM, "memPool");
    assert_refused(aclrtMemPoolTrimTo(&value, 0), ACL_ERROR_RT_INVALID_HANDLE, "memPool");
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/* ---- the end of a device, many threads ---- */

static void resetting_the_device_ends_its_pools(void **state)
{
    aclrtMemPool pool = pool_create(64 * MIB);
    void *ptr = take(pool, 4 * MIB, NULL);

    assert_acl_ok(aclrtMemsetAsync(ptr, 4 * MIB, 1, 4 * MIB, NULL));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), total_memory());
    assert_refused(aclrtMemPoolDestroy(pool), ACL_ERROR_RT_INVALID_HANDLE, "memPool");
    assert_refused(aclrtMemPoolFreeAsync(ptr, NULL), ACL_ERROR_RT_PARAM_INVALID, "");
}

struct shared {
    aclrtMemPool pool;
};

/* Each thread's blocks hold its own bytes, whatever the others do. */
static const char *use_pool(struct worker *self)
{
    struct shared *s = self->shared;
    aclrtStream stream = NULL;
    uint8_t seen[64];

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtCreateStream(&stream) == ACL_SUCCESS);
    for (unsigned i = 0; i < 300; i++) {
        size_t size = 1 + (i * 7919 + self->index * 104729) % (700 * KIB);
        uint8_t byte = (uint8_t)(self->index * 50 + i % 50 + 1);
        char *ptr = NULL;

        worker_check(aclrtMemPoolMallocAsync((void **)&ptr, size, s->pool, stream) ==
                     ACL_SUCCESS);
        worker_check(aclrtMemsetAsync(ptr, size, byte, size, stream) == ACL_SUCCESS);
        if (i % 16 == 0) {
            size_t n = size < sizeof(seen) ? size : sizeof(seen);

            worker_check(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
            worker_check(aclrtMemcpy(seen, n, ptr + size - n, n,
                                     ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
            for (size_t k = 0; k < n; k++)
                worker_check(seen[k] == byte);
        }
        worker_check(aclrtMemPoolFreeAsync(ptr, stream) == ACL_SUCCESS);
    }
    worker_check(aclrtDestroyStream(stream) == ACL_SUCCESS);
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    struct shared s = {.pool = pool_create(32 * MIB)};
    struct worker workers[4];

    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = use_pool, .shared = &s};
    assert_null(run_workers(workers, 4));
    assert_int_equal(used(s.pool), 0);
    assert_acl_ok(aclrtMemPoolDestroy(s.pool));
    for (unsigned i = 0; i < 4; i++)
        assert_acl_ok(aclrtResetDevice(0)); /* the workers' own */
}

static void pools_work_as_late_as_can_be(void **state)
{
    start("default", "ACLMEM_CHAOS=11");
    assert_acl_ok(aclrtSetDevice(0));
    another_stream_may_wait_for_a_free(state);
    neighbours_that_a_stream_freed_are_one(state);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_pool_comes_and_goes),
        claim_both(wrong_properties_are_refused),
        claim_alone(only_a2_has_pools),
        claim_both(a_pool_with_blocks_is_not_destroyed),
        claim_both(a_destroyed_pool_lives_until_its_frees_are_done),
        claim_both(a_block_is_memory_of_the_device),
        claim_both(a_block_ends_where_it_ends),
        claim_both(virtual_memory_calls_leave_a_pool_alone),
        claim_both(wrong_calls_are_refused),
        claim_both(a_pool_never_has_more_than_its_size),
        claim_both(a_device_without_memory_is_out_of_memory),
        claim_both(the_same_stream_gets_a_block_again_at_once),
        claim_both(neighbours_that_a_stream_freed_are_one),
        claim_both(neighbours_for_different_users_are_one_for_a_stream),
        claim_both(another_stream_gets_a_block_when_the_free_is_done),
        claim_both(without_switches_only_synchronising_helps),
        claim_both(another_stream_may_wait_for_a_free),
        claim_both(a_block_may_be_freed_on_another_stream),
        claim_both(an_aborted_stream_has_freed_too),
        claim_both(idle_memory_goes_when_a_stream_is_synchronised),
        claim_both(memory_up_to_the_threshold_stays),
        claim_both(memory_in_use_is_not_trimmed),
        claim_both(idle_memory_moves_to_where_it_is_needed),
        claim_both(the_best_fitting_block_is_taken),
        claim_both(switches_are_on_and_can_be_set),
        claim_both(high_water_marks_can_be_set_back),
        claim_both(wrong_attributes_are_refused),
        claim_both(resetting_the_device_ends_its_pools),
        claim_both(threads_share_a_pool),
        claim_alone(pools_work_as_late_as_can_be),
    };

    return run_claims(claims);
}
