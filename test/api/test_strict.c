/*
 * One claim for each row of the two rule sets: what the default takes and strict
 * refuses, in words that say so.  What both refuse is in the other files.
 */
#include "support/vmm.h"

#include <string.h>

static void map_wants_the_whole_handle(void **state)
{
    aclrtDrvMemHandle handle = alloc(4 * CHUNK);
    char *va = reserve(8 * CHUNK);

    assert_refused(aclrtMapMem(va, CHUNK, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "strict");
    assert_refused(aclrtMapMem(va, 2 * CHUNK, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "strict");
    map(va, 4 * CHUNK, handle);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void an_allocation_wants_a_multiple_of_the_granularity(void **state)
{
    static const size_t sizes[] = {1, 512, CHUNK - 1, CHUNK + 1, 3 * MIB};
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        assert_bad_arg(aclrtMallocPhysical(&handle, sizes[i], &prop, 0), "strict");
    assert_null(handle);
}

static void page_flags_must_agree(void **state)
{
    static const struct {
        uint64_t flags;
        aclrtMemAttr attr;
        bool is_good;
    } cases[] = {
        {1, ACL_HBM_MEM_HUGE, true},
        {0, ACL_HBM_MEM_NORMAL, true},
        {0, ACL_HBM_MEM_HUGE, false},
        {1, ACL_HBM_MEM_NORMAL, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        aclrtPhysicalMemProp prop = device_prop(0, cases[i].attr);
        aclrtDrvMemHandle handle = NULL;
        void *va = NULL;

        assert_acl_ok(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, cases[i].flags));
        assert_acl_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
        if (cases[i].is_good) {
            map(va, CHUNK, handle);
            assert_acl_ok(aclrtUnmapMem(va));
        } else {
            assert_refused(aclrtMapMem(va, CHUNK, 0, handle, 0),
                           ACL_ERROR_RT_PARAM_INVALID, "strict");
        }
        assert_acl_ok(aclrtFreePhysical(handle));
        assert_acl_ok(aclrtReleaseMemAddress(va));
    }
}

static void both_page_flags_go_with_any_memory(void **state)
{
    for (uint64_t flags = 0; flags < 2; flags++) {
        for (int attr = ACL_HBM_MEM_HUGE; attr <= ACL_HBM_MEM_NORMAL; attr++) {
            aclrtPhysicalMemProp prop = device_prop(0, (aclrtMemAttr)attr);
            struct block b = {.size = CHUNK};
            void *va = NULL;

            assert_acl_ok(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, flags));
            assert_acl_ok(aclrtMallocPhysical(&b.handle, CHUNK, &prop, 0));
            b.va = va;
            map(b.va, CHUNK, b.handle);
            put_pattern(b.va, CHUNK, flags);
            assert_pattern(b.va, CHUNK, flags);
            block_destroy(&b);
        }
    }
}

static void no_address_may_be_wished_for(void **state)
{
    void *va = reserve(CHUNK), *again = NULL;

    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_bad_arg(aclrtReserveMemAddress(&again, CHUNK, 0, va, 1), "strict");
    assert_message_has("expectPtr");
    assert_null(again);
}

static void one_reservation_takes_one_device(void **state)
{
    aclrtDrvMemHandle a = alloc_on(0, CHUNK), b = alloc_on(1, CHUNK);
    char *va = reserve(2 * CHUNK);

    map(va, CHUNK, a);
    assert_refused(aclrtMapMem(va + CHUNK, CHUNK, 0, b, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "strict");
    assert_message_has("device");
    assert_acl_ok(aclrtUnmapMem(va));
    map(va + CHUNK, CHUNK, b); /* live mappings are what counts */
    assert_refused(aclrtMapMem(va, CHUNK, 0, a, 0), ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_acl_ok(aclrtUnmapMem(va + CHUNK));
    assert_acl_ok(aclrtFreePhysical(a));
    assert_acl_ok(aclrtFreePhysical(b));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void one_reservation_takes_any_devices(void **state)
{
    aclrtDrvMemHandle a = alloc_on(0, CHUNK), b = alloc_on(1, CHUNK);
    char *va = reserve(2 * CHUNK);

    map(va, CHUNK, a);
    map(va + CHUNK, CHUNK, b);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtUnmapMem(va + CHUNK));
    assert_acl_ok(aclrtFreePhysical(a));
    assert_acl_ok(aclrtFreePhysical(b));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void access_is_read_and_write_only(void **state)
{
    struct block b = block_create(CHUNK);

    assert_bad_arg(set_access(b.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                              ACL_RT_MEM_ACCESS_FLAGS_READ),
                   "strict");
    assert_bad_arg(set_access(b.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                              ACL_RT_MEM_ACCESS_FLAGS_NONE),
                   "strict");
    assert_int_equal(get_access(b.va, ACL_MEM_LOCATION_TYPE_DEVICE, 0),
                     ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    assert_acl_ok(set_access(b.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                             ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
    block_destroy(&b);
}

static void a_mapped_handle_is_not_freed(void **state)
{
    struct block b = block_create(CHUNK);

    put_pattern(b.va, CHUNK, 1);
    assert_refused(aclrtFreePhysical(b.handle), ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_message_has("mapped");
    assert_pattern(b.va, CHUNK, 1);
    block_destroy(&b);
}

static void the_host_has_no_physical_memory(void **state)
{
    aclrtPhysicalMemProp prop =
        located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    assert_bad_arg(aclrtMallocPhysical(&handle, CHUNK, &prop, 0),
                   "location.type is HOST (0): editions before 8.5");
    assert_null(handle);
}

static void the_kind_of_a_copy_must_be_right(void **state)
{
    struct block b = block_create(CHUNK);
    char host[64], other[64] = "";
    static const aclrtMemcpyKind right[] = {
        ACL_MEMCPY_HOST_TO_HOST, ACL_MEMCPY_HOST_TO_DEVICE, ACL_MEMCPY_DEVICE_TO_HOST,
        ACL_MEMCPY_DEVICE_TO_DEVICE};
    void *const dst[] = {other, b.va, other, b.va + 64};
    void *const src[] = {host, host, b.va, b.va};

    memset(host, 7, sizeof(host));
    for (size_t i = 0; i < 4; i++) {
        for (size_t kind = 0; kind < 4; kind++) {
            if (kind == i)
                assert_acl_ok(copy(dst[i], src[i], 64, right[kind]));
            else
                assert_refused(copy(dst[i], src[i], 64, right[kind]),
                               ACL_ERROR_RT_PARAM_INVALID, "strict");
        }
    }
    assert_acl_ok(copy(b.va, host, 64, ACL_MEMCPY_DEFAULT));
    for (int kind = ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE;
         kind <= ACL_MEMCPY_INTER_DEVICE_TO_DEVICE; kind++)
        assert_refused(copy(b.va, host, 64, (aclrtMemcpyKind)kind),
                       ACL_ERROR_RT_PARAM_INVALID, "make it HOST_TO_DEVICE (1)");
    assert_bad_arg(copy(b.va, host, 64, (aclrtMemcpyKind)99), "kind");
    assert_all_bytes(b.va, 128, 7);
    block_destroy(&b);
}

static void retain_wants_the_start_of_a_mapping(void **state)
{
    struct block b = block_create(2 * CHUNK);
    aclrtDrvMemHandle again = NULL;

    assert_refused(aclrtMemRetainAllocationHandle(b.va + CHUNK, &again),
                   ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_null(again);
    assert_acl_ok(aclrtMemRetainAllocationHandle(b.va, &again));
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_acl_ok(aclrtFreePhysical(again));
    assert_acl_ok(aclrtFreePhysical(b.handle));
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
}

static void memory_of_the_program_is_not_set(void **state)
{
    char bytes[100] = "as it was";

    assert_refused(aclrtMemset(bytes, sizeof(bytes), 7, sizeof(bytes)),
                   ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_string_equal(bytes, "as it was");
}

/* What the rules refuse in words of their own they refuse in no other case. */
static void the_default_never_says_strict(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    char *va = reserve(CHUNK);

    assert_acl(aclrtMapMem(va, 2 * CHUNK, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID);
    assert_null(strstr(kept_message(), "strict"));
    assert_acl(aclrtMapMem(va, CHUNK, 0, handle, 7), ACL_ERROR_INVALID_PARAM);
    assert_null(strstr(kept_message(), "strict"));
    assert_acl(aclrtUnmapMem(va), ACL_ERROR_RT_PARAM_INVALID);
    assert_null(strstr(kept_message(), "strict"));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_strict(map_wants_the_whole_handle),
        claim_strict(an_allocation_wants_a_multiple_of_the_granularity),
        claim_strict(page_flags_must_agree),
        claim(both_page_flags_go_with_any_memory),
        claim_strict(no_address_may_be_wished_for),
        claim_strict(one_reservation_takes_one_device),
        claim(one_reservation_takes_any_devices),
        claim_strict(access_is_read_and_write_only),
        claim_strict(a_mapped_handle_is_not_freed),
        claim_strict(the_host_has_no_physical_memory),
        claim_strict(the_kind_of_a_copy_must_be_right),
        claim_strict(retain_wants_the_start_of_a_mapping),
        claim_strict(memory_of_the_program_is_not_set),
        claim(the_default_never_says_strict),
    };

    return run_claims(claims);
}
