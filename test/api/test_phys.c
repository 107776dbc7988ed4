/* Physical memory and its handles: allocation, references, exhaustion, properties. */
#include "support/vmm.h"

#include <string.h>

static void a_handle_is_freed_once(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);

    assert_int_equal(stats().handles, 1);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(stats().handles, 0);
    assert_refused(aclrtFreePhysical(handle), ACL_ERROR_RT_INVALID_HANDLE, "handle");
    assert_message_has_address(handle);
}

/* A number that was used before does not come back to life with a later allocation. */
static void a_stale_handle_stays_dead(void **state)
{
    aclrtDrvMemHandle stale = alloc(CHUNK), live[64];
    void *va = reserve(CHUNK);

    assert_acl_ok(aclrtFreePhysical(stale));
    for (size_t i = 0; i < 64; i++) {
        live[i] = alloc(CHUNK);
        assert_ptr_not_equal(live[i], stale);
    }
    assert_refused(aclrtFreePhysical(stale), ACL_ERROR_RT_INVALID_HANDLE, "handle");
    assert_refused(aclrtMapMem(va, CHUNK, 0, stale, 0), ACL_ERROR_RT_INVALID_HANDLE,
                   "handle");
    for (size_t i = 0; i < 64; i++)
        assert_acl_ok(aclrtFreePhysical(live[i]));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void a_number_that_is_not_a_handle_is_refused(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    void *va = reserve(CHUNK);
    aclrtContext context = NULL;
    void *not_handles[5] = {&prop, va, (void *)1, (void *)UINTPTR_MAX};

    assert_acl_ok(aclrtCreateContext(&context, 0));
    not_handles[4] = context;
    for (size_t i = 0; i < 5; i++) {
        void *bad = not_handles[i];

        assert_refused(aclrtFreePhysical(bad), ACL_ERROR_RT_INVALID_HANDLE, "handle");
        assert_refused(aclrtMapMem(va, CHUNK, 0, bad, 0), ACL_ERROR_RT_INVALID_HANDLE,
                       "handle");
        assert_refused(aclrtMemMapNoAccess(va, CHUNK, 0, bad, 0),
                       ACL_ERROR_RT_INVALID_HANDLE, "handle");
        assert_refused(aclrtMemGetAllocationPropertiesFromHandle(bad, &prop),
                       ACL_ERROR_RT_INVALID_HANDLE, "handle");
    }
    assert_bad_arg(aclrtFreePhysical(NULL), "handle");
    assert_acl_ok(aclrtDestroyContext(context));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void bad_arguments_are_refused(void **state)
{
    aclrtPhysicalMemProp good = device_prop(0, ACL_HBM_MEM_HUGE), bad = good;
    aclrtDrvMemHandle handle = NULL;

    assert_bad_arg(aclrtMallocPhysical(NULL, CHUNK, &good, 0), "handle");
    assert_bad_arg(aclrtMallocPhysical(&handle, 0, &good, 0), "size");
    assert_bad_arg(aclrtMallocPhysical(&handle, CHUNK, NULL, 0), "prop");
    assert_bad_arg(aclrtMallocPhysical(&handle, CHUNK, &good, 1), "flags");
    bad.handleType = (aclrtMemHandleType)1;
    assert_bad_arg(aclrtMallocPhysical(&handle, CHUNK, &bad, 0), "handleType");
    bad.handleType = (aclrtMemHandleType)2; /* POSIX: known, but not for this call */
    assert_refused(aclrtMallocPhysical(&handle, CHUNK, &bad, 0),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "handleType|POSIX");
    bad = good;
    bad.allocationType = (aclrtMemAllocationType)1;
    assert_bad_arg(aclrtMallocPhysical(&handle, CHUNK, &bad, 0), "allocationType");
    bad = good;
    bad.reserve = 1;
    assert_bad_arg(aclrtMallocPhysical(&handle, CHUNK, &bad, 0), "reserve");
    assert_null(handle);
}

static void the_device_must_exist(void **state)
{
    static const uint32_t ids[] = {2, 64, UINT32_MAX};
    aclrtDrvMemHandle handle = NULL;

    for (size_t i = 0; i < 3; i++) {
        aclrtPhysicalMemProp prop = device_prop(ids[i], ACL_HBM_MEM_HUGE);

        assert_refused(aclrtMallocPhysical(&handle, CHUNK, &prop, 0),
                       ACL_ERROR_RT_INVALID_DEVICEID, "device");
    }
    assert_null(handle);
}

static void no_device_has_to_be_set(void **state)
{
    aclrtDrvMemHandle handle;

    start("default");
    handle = alloc_on(1, CHUNK);
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* ---- how much ---- */

static void all_of_the_memory_can_be_had_and_no_more(void **state)
{
    enum { N = 32 };
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handles[N], more = NULL;

    start("default", "ACLMEM_MEMORY=64M");
    assert_acl_ok(aclrtSetDevice(0));
    for (size_t i = 0; i < N; i++)
        handles[i] = alloc(CHUNK);
    assert_int_equal(free_memory(), 0);
    assert_refused(aclrtMallocPhysical(&more, CHUNK, &prop, 0),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    assert_null(more);

    /*
     * Every second one free: the memory that is left is in pieces, and serves all the
     * same.
     */
    for (size_t i = 0; i < N; i += 2)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    more = alloc(32 * MIB);
    assert_int_equal(free_memory(), 0);
    assert_acl_ok(aclrtFreePhysical(more));
    for (size_t i = 1; i < N; i += 2)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    assert_int_equal(free_memory(), 64 * MIB);
}

static void exhaustion_is_said_as_clients_expect_it(void **state)
{
    static const size_t sizes[] = {GIB + 1,          GIB + CHUNK,  100 * TIB,
                                   SIZE_MAX - CHUNK, SIZE_MAX - 1, SIZE_MAX};
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        assert_refused(aclrtMallocPhysical(&handle, sizes[i], &prop, 0),
                       ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
        assert_int_equal(strncmp(kept_message(), "EL0004", 6), 0);
        assert_null(handle);
    }
    handle = alloc(GIB);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void host_memory_runs_out_too(void **state)
{
    static const size_t sizes[] = {1024 * TIB, SIZE_MAX};
    aclrtPhysicalMemProp prop = located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    for (size_t i = 0; i < 2; i++) {
        assert_refused(aclrtMallocPhysical(&handle, sizes[i], &prop, 0),
                       ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
        assert_message_has(i == 0 ? "host" : "bytes");
        assert_int_equal(strncmp(kept_message(), "EL0004", 6), 0);
    }
    assert_null(handle);
}

static void a_size_is_rounded_up_to_the_granularity(void **state)
{
    static const size_t sizes[] = {1, 512, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 4096};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        aclrtDrvMemHandle handle = alloc(sizes[i]);

        assert_int_equal(free_memory(), GIB - (sizes[i] + CHUNK - 1) / CHUNK * CHUNK);
        assert_acl_ok(aclrtFreePhysical(handle));
    }
}

static void pages_of_one_gibibyte_are_rounded_to_that(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE1G);
    aclrtDrvMemHandle handle = NULL;
    aclrtPtrAttributes attributes;
    char *va;

    start("default", "ACLMEM_MEMORY=4G");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtMallocPhysical(&handle, GIB + 1, &prop, 0));
    assert_int_equal(free_memory(), 2 * GIB);
    va = reserve(4 * GIB);
    assert_refused(aclrtMapMem(va + CHUNK, 2 * GIB, 0, handle, 0),
                   ACL_ERROR_RT_ADDR_UNALIGNED, "virPtr");
    map(va + GIB, 2 * GIB, handle);
    put_pattern(va + 3 * GIB - CHUNK, CHUNK, 1);
    assert_pattern(va + 3 * GIB - CHUNK, CHUNK, 1);
    assert_acl_ok(aclrtPointerGetAttributes(va + GIB, &attributes));
    assert_int_equal(attributes.pageSize, GIB);
    assert_acl_ok(aclrtUnmapMem(va + GIB));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

/* ---- references ---- */

static void retain_gives_the_same_handle_once_more(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtDrvMemHandle again = NULL;

    for (int i = 0; i < 3; i++) {
        again = NULL;
        assert_acl_ok(aclrtMemRetainAllocationHandle(b.va, &again));
        assert_ptr_equal(again, b.handle);
    }
    assert_int_equal(stats().handles, 1);
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclrtFreePhysical(again));
    put_pattern(b.va, CHUNK, 1); /* the first reference is left */
    block_destroy(&b);
}

static void the_last_of_many_references_frees(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtDrvMemHandle again = NULL;

    assert_acl_ok(aclrtMemRetainAllocationHandle(b.va, &again));
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_acl_ok(aclrtFreePhysical(b.handle));
    assert_int_equal(stats().handles, 1);
    assert_int_equal(free_memory(), GIB - CHUNK);
    map(b.va, CHUNK, again);
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_acl_ok(aclrtFreePhysical(again));
    assert_int_equal(stats().handles, 0);
    assert_int_equal(free_memory(), GIB);
    assert_refused(aclrtFreePhysical(again), ACL_ERROR_RT_INVALID_HANDLE, "handle");
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
}

static void retain_takes_an_interior_address(void **state)
{
    struct block b = block_create(2 * CHUNK);
    aclrtDrvMemHandle again = NULL;

    assert_acl_ok(aclrtMemRetainAllocationHandle(b.va + CHUNK + 17, &again));
    assert_ptr_equal(again, b.handle);
    assert_acl_ok(aclrtFreePhysical(again));
    block_destroy(&b);
}

static void retain_wants_a_mapped_address(void **state)
{
    aclrtDrvMemHandle handle = NULL;
    char *va = reserve(2 * CHUNK);
    int here = 0;

    assert_refused(aclrtMemRetainAllocationHandle(va, &handle),
                   ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_message_has_address(va);
    assert_refused(aclrtMemRetainAllocationHandle(&here, &handle),
                   ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_bad_arg(aclrtMemRetainAllocationHandle(NULL, &handle), "virPtr");
    assert_bad_arg(aclrtMemRetainAllocationHandle(va, NULL), "handle");
    assert_null(handle);
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void a_mapping_outlives_its_handle(void **state)
{
    struct block b = block_create(CHUNK);
    void *elsewhere = reserve(CHUNK);

    put_pattern(b.va, CHUNK, 1);
    assert_acl_ok(aclrtFreePhysical(b.handle));
    assert_int_equal(stats().handles, 1); /* the memory is alive */
    assert_int_equal(free_memory(), GIB - CHUNK);
    assert_pattern(b.va, CHUNK, 1);
    assert_refused(aclrtMapMem(elsewhere, CHUNK, 0, b.handle, 0),
                   ACL_ERROR_RT_INVALID_HANDLE, "handle");
    assert_refused(aclrtFreePhysical(b.handle), ACL_ERROR_RT_INVALID_HANDLE, "handle");
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_int_equal(stats().handles, 0);
    assert_int_equal(free_memory(), GIB);
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
    assert_acl_ok(aclrtReleaseMemAddress(elsewhere));
}

/* ---- properties ---- */

static void properties_are_what_was_asked_for(void **state)
{
    aclrtPhysicalMemProp asked[] = {
        device_prop(1, ACL_HBM_MEM_HUGE),
        device_prop(0, ACL_MEM_P2P_HUGE),
        located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_MEM_NORMAL),
        located_prop(ACL_MEM_LOCATION_TYPE_HOST_NUMA, 0, ACL_DDR_MEM_P2P_HUGE),
    };

    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        aclrtDrvMemHandle handle = NULL;
        aclrtPhysicalMemProp prop;

        memset(&prop, 0xff, sizeof(prop));
        assert_acl_ok(aclrtMallocPhysical(&handle, CHUNK, &asked[i], 0));
        assert_acl_ok(aclrtMemGetAllocationPropertiesFromHandle(handle, &prop));
        assert_int_equal(prop.handleType, asked[i].handleType);
        assert_int_equal(prop.allocationType, asked[i].allocationType);
        assert_int_equal(prop.memAttr, asked[i].memAttr);
        assert_int_equal(prop.location.type, asked[i].location.type);
        assert_int_equal(prop.location.id, asked[i].location.id);
        assert_int_equal(prop.reserve, 0);
        assert_acl_ok(aclrtFreePhysical(handle));
        assert_refused(aclrtMemGetAllocationPropertiesFromHandle(handle, &prop),
                       ACL_ERROR_RT_INVALID_HANDLE, "handle");
    }
}

static void properties_want_an_output_and_a_handle(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);

    assert_bad_arg(aclrtMemGetAllocationPropertiesFromHandle(handle, NULL), "prop");
    assert_bad_arg(aclrtMemGetAllocationPropertiesFromHandle(NULL, &prop), "handle");
    assert_acl_ok(aclrtFreePhysical(handle));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_handle_is_freed_once),
        claim_both(a_stale_handle_stays_dead),
        claim(a_number_that_is_not_a_handle_is_refused),
        claim_both(bad_arguments_are_refused),
        claim_both(the_device_must_exist),
        claim_alone(no_device_has_to_be_set),
        claim_alone(all_of_the_memory_can_be_had_and_no_more),
        claim(exhaustion_is_said_as_clients_expect_it),
        claim(host_memory_runs_out_too),
        claim(a_size_is_rounded_up_to_the_granularity),
        claim_alone(pages_of_one_gibibyte_are_rounded_to_that),
        claim(retain_gives_the_same_handle_once_more),
        claim(the_last_of_many_references_frees),
        claim(retain_takes_an_interior_address),
        claim(retain_wants_a_mapped_address),
        claim(a_mapping_outlives_its_handle),
        claim(properties_are_what_was_asked_for),
        claim(properties_want_an_output_and_a_handle),
    };

    return run_claims(claims);
}
