/* Stream-ordered memory pools; who gets freed memory when: test_mempool_order.c. */
#include "support/pools.h"
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdio.h>

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
    aclrtMemPoolProps p = pool_props(MIB);

    assert_bad_arg(aclrtMemPoolCreate(NULL, &p), "memPool");
    assert_bad_arg(aclrtMemPoolCreate(&pool, NULL), "poolProps");
    p.allocType = (aclrtMemAllocationType)1;
    assert_bad_arg(aclrtMemPoolCreate(&pool, &p), "allocType");
    p = pool_props(MIB);
    p.handleType = ACL_MEM_HANDLE_TYPE_POSIX;
    assert_bad_arg(aclrtMemPoolCreate(&pool, &p), "handleType");
    p = pool_props(MIB);
    p.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    assert_bad_arg(aclrtMemPoolCreate(&pool, &p), "location.type");
    p = pool_props(MIB);
    p.location.id = 2;
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_RT_INVALID_DEVICEID,
                   "device 2");
    p = pool_props(0);
    assert_bad_arg(aclrtMemPoolCreate(&pool, &p), "maxSize");
    p = pool_props(MIB);
    p.reserved[31] = 1;
    assert_bad_arg(aclrtMemPoolCreate(&pool, &p), "reserved");
    p = pool_props(SIZE_MAX);
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "Failed to allocate");
    p = pool_props(SIZE_MAX / 4);
    assert_refused(aclrtMemPoolCreate(&pool, &p), ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "Failed to allocate");
    assert_ptr_equal(pool, &pool);
}

static void only_a2_has_pools(void **state)
{
    static const char *const others[] = {"950", "A3", "910", "310P", "310B", "310"};
    aclrtMemPoolProps p = pool_props(MIB);
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
    aclrtStream stream = make_stream();
    size_t free = free_memory();
    aclrtMemPool pool = pool_create(64 * MIB);
    void *ptr = take(pool, MIB, stream);
    struct gate *gate = gate_close(stream);

    assert_acl_ok(aclrtMemsetAsync(ptr, MIB, 1, MIB, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(ptr, stream));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
    assert_int_equal(free_memory(), free - CHUNK);
    gate_end(gate);
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
    assert_int_equal(size, rules_are_strict() ? 5 * MIB + 1 : 5 * MIB + 512);
    assert_int_equal(used(pool), 5 * MIB + 512);
    assert_false(can_read(ptr));
    assert_int_equal(stats().handles, 0); /* the program has none */
    assert_int_equal(stats().mappings, 0);
    assert_acl_ok(aclrtMemPoolFreeAsync(ptr, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void a_block_ends_where_the_rules_say(void **state)
{
    size_t most = rules_are_strict() ? 1000 : 1024;
    aclrtMemPool pool = pool_create(64 * MIB);
    char *a = take(pool, 1000, NULL), *b = take(pool, 1000, NULL);
    char bytes[2048] = {0};

    assert_refused(copy(a, bytes, most + 1, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "end of the block of 1000 bytes");
    assert_refused(aclrtMemset(a + 1000, 25, 1, 25), ACL_ERROR_RT_PARAM_INVALID,
                   "end of the block");
    assert_refused(aclrtMemsetAsync(b + most - 1, 2, 1, 2, NULL),
                   ACL_ERROR_RT_PARAM_INVALID, "end of the block");
    assert_refused(copy(bytes, b + 1024, 1, ACL_MEMCPY_DEVICE_TO_HOST),
                   ACL_ERROR_RT_PARAM_INVALID, "not in a live block");
    assert_acl_ok(aclrtMemset(a, most, 1, most));
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

    assert_bad_arg(aclrtMemPoolMallocAsync(NULL, 1, pool, NULL), "ptr");
    assert_bad_arg(aclrtMemPoolMallocAsync(&out, 0, pool, NULL), "size");
    assert_bad_arg(aclrtMemPoolMallocAsync(&out, 1, NULL, NULL), "memPool");
    assert_refused(aclrtMemPoolMallocAsync(&out, 1, &byte, NULL),
                   ACL_ERROR_RT_INVALID_HANDLE, "memPool");
    assert_refused(aclrtMemPoolMallocAsync(&out, 1, pool, pool),
                   ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_ptr_equal(out, &byte);
    assert_bad_arg(aclrtMemPoolFreeAsync(NULL, NULL), "ptr");
    assert_refused(aclrtMemPoolFreeAsync(&byte, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "aclrtMemPoolMallocAsync");
    assert_refused(aclrtMemPoolFreeAsync(ptr + 512, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "inside");
    assert_refused(aclrtMemPoolFreeAsync(ptr + MIB, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "no block");
    assert_acl_ok(aclrtSetDevice(1));
    stream = make_stream();
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
    aclrtStream stream = make_stream();
    aclrtMemPool pool = pool_create(64 * MIB);
    char *a = take(pool, 4 * MIB, stream), *b = take(pool, 4 * MIB, stream);
    struct gate *gate;

    put_pattern(a, 4 * MIB, 1);
    gate = gate_close(stream);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, stream));
    assert_acl_ok(aclrtMemPoolTrimTo(pool, 0));
    assert_int_equal(reserved(pool), 8 * MIB); /* the stream has not got to the free */
    gate_end(gate);
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

/* Blocks that need memory elsewhere get what lies idle before the device is asked. */
static void idle_memory_moves_before_the_pool_grows(void **state)
{
    aclrtMemPool pool = pool_create(256 * MIB);
    char *gone = take(pool, 20 * MIB, NULL), *stays = take(pool, 3 * MIB, NULL), *more;

    keep_memory(pool);
    put_pattern(stays, 3 * MIB, 1);
    assert_acl_ok(aclrtMemPoolFreeAsync(gone, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    more = take(pool, 30 * MIB, NULL); /* fits nowhere between */
    assert_int_equal(reserved(pool), 34 * MIB);
    assert_pattern(stays, 3 * MIB, 1);
    put_pattern(more, 30 * MIB, 2);
    assert_pattern(more, 30 * MIB, 2);
    assert_acl_ok(aclrtMemPoolFreeAsync(stays, NULL));
    assert_acl_ok(aclrtMemPoolFreeAsync(more, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void the_best_fitting_block_is_taken(void **state)
{
    enum { N = 7 };
    aclrtMemPool pool = pool_create(64 * MIB);
    char *block[N];

    keep_memory(pool);
    for (size_t i = 0; i < N; i++)
        block[i] = take(pool, 3 * MIB - 512 * i, NULL);
    assert_acl_ok(aclrtMemPoolFreeAsync(block[N - 1], NULL)); /* at an end of the row */
    assert_acl_ok(aclrtMemPoolFreeAsync(block[1], NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_ptr_equal(take(pool, 3 * MIB - 512, NULL), block[1]);
    block[N - 1] = take(pool, 512, NULL);
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtMemPoolFreeAsync(block[i], NULL));
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
        assert_bad_arg(aclrtMemPoolSetAttr(pool, (aclrtMemPoolAttr)attr, value),
                       "0 or 1");
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
    assert_bad_arg(aclrtMemPoolSetAttr(pool, used_high, &value), "0");
    assert_bad_arg(aclrtMemPoolSetAttr(pool, reserved_high, &value), "0");
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

    assert_bad_arg(aclrtMemPoolGetAttr(NULL, 1, &value), "memPool");
    assert_bad_arg(aclrtMemPoolGetAttr(pool, 1, NULL), "value");
    assert_bad_arg(aclrtMemPoolGetAttr(pool, 0, &value), "attr");
    assert_bad_arg(aclrtMemPoolGetAttr(pool, 9, &value), "attr");
    assert_bad_arg(aclrtMemPoolSetAttr(pool, 9, &value), "attr");
    assert_bad_arg(aclrtMemPoolSetAttr(pool, 5, &value), "read");
    assert_bad_arg(aclrtMemPoolSetAttr(pool, 7, &value), "read");
    assert_refused(aclrtMemPoolSetAttr(&value, 4, &value), ACL_ERROR_RT_INVALID_HANDLE,
                   "memPool");
    assert_bad_arg(aclrtMemPoolTrimTo(NULL, 0), "memPool");
    assert_refused(aclrtMemPoolTrimTo(&value, 0), ACL_ERROR_RT_INVALID_HANDLE, "memPool");
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/* ---- the end of a device ---- */

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

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_pool_comes_and_goes),
        claim_both(wrong_properties_are_refused),
        claim_alone(only_a2_has_pools),
        claim_both(a_pool_with_blocks_is_not_destroyed),
        claim_both(a_destroyed_pool_lives_until_its_frees_are_done),
        claim_both(a_block_is_memory_of_the_device),
        claim_both(a_block_ends_where_the_rules_say),
        claim_both(virtual_memory_calls_leave_a_pool_alone),
        claim_both(wrong_calls_are_refused),
        claim_both(a_pool_never_has_more_than_its_size),
        claim_both(a_device_without_memory_is_out_of_memory),
        claim_both(idle_memory_goes_when_a_stream_is_synchronised),
        claim_both(memory_up_to_the_threshold_stays),
        claim_both(memory_in_use_is_not_trimmed),
        claim_both(idle_memory_moves_to_where_it_is_needed),
        claim_both(idle_memory_moves_before_the_pool_grows),
        claim_both(the_best_fitting_block_is_taken),
        claim_both(switches_are_on_and_can_be_set),
        claim_both(high_water_marks_can_be_set_back),
        claim_both(wrong_attributes_are_refused),
        claim_both(resetting_the_device_ends_its_pools),
    };

    return run_claims(claims);
}
