/*
 * aclInit and the two ways to end; what holds after the end.  Before the first aclInit:
 * test_before_init.c.
 */
#include "support/process.h"
#include "support/vmm.h"

#include <string.h>

static void second_init_says_so_and_counts(void **state)
{
    uint64_t count = 99;

    start("default");
    assert_acl(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    assert_acl(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);

    assert_acl_ok(aclFinalizeReference(&count));
    assert_int_equal(count, 2);
    assert_acl_ok(aclFinalizeReference(NULL));
    assert_acl_ok(aclrtSetDevice(0)); /* one reference is left */
    assert_acl_ok(aclFinalizeReference(&count));
    assert_int_equal(count, 0);
    assert_acl(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
}

static void finalize_ends_it_whatever_the_count(void **state)
{
    start("default");
    assert_acl(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    assert_acl(aclInit(NULL), ACL_ERROR_REPEAT_INITIALIZE);
    assert_acl_ok(aclFinalize());
    assert_acl(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
}

static void ending_twice_is_refused(void **state)
{
    uint64_t count = 99;

    start("default");
    assert_acl_ok(aclFinalize());
    assert_acl(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
    assert_acl(aclFinalizeReference(&count), ACL_ERROR_REPEAT_FINALIZE);
    assert_int_equal(count, 99);
}

static void calls_after_the_end_are_refused(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    aclrtContext context = NULL;
    void *va = NULL;
    size_t size = 7, total = 7;
    uint32_t count = 7;
    char bytes[8] = "1234567", more[8] = "";

    start("default");
    assert_acl_ok(aclFinalize());
    assert_acl(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
    assert_message_has("aclInit");
    assert_acl(aclrtCreateContext(&context, 0), ACL_ERROR_UNINITIALIZE);
    assert_acl(aclrtGetDeviceCount(&count), ACL_ERROR_UNINITIALIZE);
    assert_acl(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1), ACL_ERROR_UNINITIALIZE);
    assert_acl(aclrtMallocPhysical(&handle, CHUNK, &prop, 0), ACL_ERROR_UNINITIALIZE);
    assert_acl(aclrtMemGetAllocationGranularity(
                   &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &size),
               ACL_ERROR_UNINITIALIZE);
    assert_acl(aclrtGetMemInfo(ACL_HBM_MEM, &size, &total), ACL_ERROR_UNINITIALIZE);
    assert_acl(copy(more, bytes, 8, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_UNINITIALIZE);
    assert_null(va);
    assert_null(handle);
    assert_null(context);
    assert_int_equal(size, 7);
    assert_int_equal(count, 7);
    assert_string_equal(more, "");
}

static void init_again_after_the_end_works(void **state)
{
    for (int i = 0; i < 3; i++) {
        struct block b;

        start("default");
        assert_acl_ok(aclrtSetDevice(0));
        b = block_create(CHUNK);
        put_pattern(b.va, CHUNK, 1);
        assert_pattern(b.va, CHUNK, 1);
        block_destroy(&b);
        assert_acl_ok(aclFinalize());
    }
}

static void init_again_starts_without_a_device(void **state)
{
    int32_t device = 7;

    start("default");
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclFinalize());
    start("default");
    assert_acl(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(device, 7);
}

static void init_again_reads_the_options_again(void **state)
{
    uint32_t count = 0;

    start("strict", "ACLMEM_DEVICES=5");
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 5);
    assert_string_equal(aclmem_option("ACLMEM_RULES"), "strict");
    assert_acl_ok(aclFinalize());

    start("default", "ACLMEM_DEVICES=3");
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 3);
    assert_string_equal(aclmem_option("ACLMEM_RULES"), "default");
}

/* Descriptors and mappings are counted by the teardown. */
static void finalize_reclaims_leftover_memory(void **state)
{
    aclrtContext context;
    void *view = NULL;
    struct block b;

    start("default");
    allow_warnings();
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(4 * CHUNK);
    put_pattern(b.va, b.size, 2);
    (void)block_create_host(CHUNK);
    (void)reserve(GIB);
    assert_acl_ok(aclrtCreateContext(&context, 1));
    assert_acl_ok(aclmem_host_view(b.va, b.size, &view));
    assert_acl_ok(aclmem_host_view_end(view));
    assert_acl_ok(aclFinalize());

    assert_int_equal(stats().handles, 0);
    assert_int_equal(stats().mappings, 0);
    assert_int_equal(stats().reservations, 0);
    assert_int_equal(stats().contexts, 0);
}

static void live(void)
{
    aclrtContext context;
    struct block b, h;
    void *view = NULL;

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtCreateContext(&context, 1));
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(3 * CHUNK);
    h = block_create_host(CHUNK);
    put_pattern(b.va, b.size, 1);
    assert_acl_ok(aclmem_host_view(b.va, b.size, &view));
    assert_acl_ok(aclmem_host_view_end(view));
    assert_acl_ok(aclrtReleaseMemAddress(reserve(GIB)));
    assert_acl(aclrtSetDevice(99), ACL_ERROR_RT_INVALID_DEVICEID);
    block_destroy(&h);
    block_destroy(&b);
    assert_acl_ok(aclrtDestroyContext(context));
    assert_acl_ok(aclFinalize());
}

static void many_lives_take_no_more_than_a_few(void **state)
{
    size_t heap, space;

    if (is_sanitized())
        return;
    for (int i = 0; i < 5; i++)
        live();
    heap = heap_bytes();
    space = space_bytes();
    for (int i = 0; i < 50; i++)
        live();
    assert_in_range(heap_bytes(), 0, heap + 4 * KIB);
    assert_in_range(space_bytes(), 0, space + 256 * KIB);
}

static void objects_of_an_earlier_life_are_dead(void **state)
{
    aclrtDrvMemHandle handle;
    aclrtContext context;

    start("default");
    allow_warnings();
    assert_acl_ok(aclrtSetDevice(0));
    handle = alloc(CHUNK);
    assert_acl_ok(aclrtCreateContext(&context, 0));
    assert_acl_ok(aclFinalize());

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    assert_refused(aclrtFreePhysical(handle), ACL_ERROR_RT_INVALID_HANDLE, "handle");
    assert_refused(aclrtSetCurrentContext(context), ACL_ERROR_RT_INVALID_HANDLE,
                   "context");
}

static void statistics_work_at_any_time(void **state)
{
    aclmem_stats s;

    memset(&s, 0xff, sizeof(s));
    set_options("default");
    assert_int_equal(aclmem_get_stats(&s), ACL_SUCCESS);
    assert_int_equal(s.handles, 0);
    for (size_t i = 0; i < sizeof(s.rsv) / sizeof(s.rsv[0]); i++)
        assert_int_equal(s.rsv[i], 0);
    start("default");
    assert_acl_ok(aclFinalize());
    assert_acl_ok(aclmem_get_stats(&s));
    assert_acl(aclmem_get_stats(NULL), ACL_ERROR_INVALID_PARAM);
}

static void statistics_count_each_kind(void **state)
{
    aclrtContext context;
    void *view = NULL;
    struct block b = block_create(2 * CHUNK);
    void *va = reserve(CHUNK);

    map(va, CHUNK, b.handle);
    assert_acl_ok(aclrtCreateContext(&context, 0));
    assert_acl_ok(aclmem_host_view(b.va, CHUNK, &view));
    assert_int_equal(stats().reservations, 2);
    assert_int_equal(stats().handles, 1);
    assert_int_equal(stats().mappings, 2);
    assert_int_equal(stats().contexts, 1);
    assert_int_equal(stats().views, 1);

    assert_acl_ok(aclmem_host_view_end(view));
    assert_acl_ok(aclrtDestroyContext(context));
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtReleaseMemAddress(va));
    block_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(second_init_says_so_and_counts),
        claim_alone(finalize_ends_it_whatever_the_count),
        claim_alone(ending_twice_is_refused),
        claim_alone(calls_after_the_end_are_refused),
        claim_alone(init_again_after_the_end_works),
        claim_alone(init_again_starts_without_a_device),
        claim_alone(init_again_reads_the_options_again),
        claim_alone(finalize_reclaims_leftover_memory),
        claim_alone(many_lives_take_no_more_than_a_few),
        claim_alone(objects_of_an_earlier_life_are_dead),
        claim_alone(statistics_work_at_any_time),
        claim(statistics_count_each_kind),
    };

    return run_claims(claims);
}
