/*
 * What an address is: aclrtPointerGetAttributes, aclrtMemGetAddressRange,
 * aclrtCheckMemType.
 */
#include "support/vmm.h"

#include <stdlib.h>
#include <string.h>

static aclrtPtrAttributes attributes_of(const void *p)
{
    aclrtPtrAttributes a;

    memset(&a, 0xff, sizeof(a));
    assert_acl_ok(aclrtPointerGetAttributes(p, &a));
    for (size_t i = 0; i < sizeof(a.rsv) / sizeof(a.rsv[0]); i++)
        assert_int_equal(a.rsv[i], 0);
    return a;
}

/* torch_npu throws when this fails. */
static void unknown_memory_is_unregistered(void **state)
{
    void *mine = malloc(100), *va = reserve(CHUNK);
    const void *unknown[] = {mine, &mine, "text", va, (char *)va + 4096, (void *)64};

    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
        aclrtPtrAttributes a = attributes_of(unknown[i]);

        assert_int_equal(a.location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
        assert_int_equal(a.pageSize, 0);
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
    free(mine);
}

static void mapped_device_memory_knows_its_device(void **state)
{
    aclrtDrvMemHandle handle = alloc_on(1, 2 * CHUNK);
    char *va = reserve(4 * CHUNK);
    aclrtPtrAttributes a;

    map(va, 2 * CHUNK, handle);
    a = attributes_of(va + CHUNK + 12345);
    assert_int_equal(a.location.type, ACL_MEM_LOCATION_TYPE_DEVICE);
    assert_int_equal(a.location.id, 1);
    assert_int_equal(a.pageSize, CHUNK);
    assert_int_equal(attributes_of(va + 2 * CHUNK).location.type,
                     ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_int_equal(attributes_of(va).location.type, ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void mapped_host_memory_is_the_hosts(void **state)
{
    struct block h = block_create_host(CHUNK);

    assert_int_equal(attributes_of(h.va).location.type, ACL_MEM_LOCATION_TYPE_HOST);
    assert_true(attributes_of(h.va).pageSize > 0);
    block_destroy(&h);
}

static void attributes_want_an_output_and_know_no_null(void **state)
{
    int here = 0;

    assert_int_equal(attributes_of(NULL).location.type,
                     ACL_MEM_LOCATION_TYPE_UNREGISTERED);
    assert_bad_arg(aclrtPointerGetAttributes(&here, NULL), "attributes");
}

/* ---- ranges ---- */

static void any_address_of_a_mapping_knows_the_whole(void **state)
{
    aclrtDrvMemHandle handle = alloc(4 * CHUNK);
    char *va = reserve(8 * CHUNK), *start = va + 2 * CHUNK;
    static const size_t inside[] = {0, 1, CHUNK, 2 * CHUNK + 77, 4 * CHUNK - 1};

    map(start, 4 * CHUNK, handle);
    for (size_t i = 0; i < sizeof(inside) / sizeof(inside[0]); i++) {
        void *base = NULL;
        size_t size = 0;

        assert_acl_ok(aclrtMemGetAddressRange(start + inside[i], &base, &size));
        assert_ptr_equal(base, start);
        assert_int_equal(size, 4 * CHUNK);
        base = NULL;
        size = 0;
        assert_acl_ok(aclrtMemGetAddressRange(start + inside[i], NULL, &size));
        assert_acl_ok(aclrtMemGetAddressRange(start + inside[i], &base, NULL));
        assert_ptr_equal(base, start);
        assert_int_equal(size, 4 * CHUNK);
    }
    assert_acl_ok(aclrtUnmapMem(start));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void neighbours_have_ranges_of_their_own(void **state)
{
    aclrtDrvMemHandle a = alloc(CHUNK), b = alloc(CHUNK);
    char *va = reserve(2 * CHUNK);
    void *base = NULL;
    size_t size = 0;

    map(va, CHUNK, a);
    map(va + CHUNK, CHUNK, b);
    assert_acl_ok(aclrtMemGetAddressRange(va + CHUNK, &base, &size));
    assert_ptr_equal(base, va + CHUNK);
    assert_int_equal(size, CHUNK);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtUnmapMem(va + CHUNK));
    assert_acl_ok(aclrtFreePhysical(a));
    assert_acl_ok(aclrtFreePhysical(b));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void a_range_is_refused_where_nothing_is_mapped(void **state)
{
    struct block b = block_create(CHUNK);
    char *va = reserve(CHUNK);
    void *base = NULL;
    size_t size = 7;

    assert_refused(aclrtMemGetAddressRange(va, &base, &size), ACL_ERROR_RT_PARAM_INVALID,
                   "");
    assert_message_has_address(va);
    assert_refused(aclrtMemGetAddressRange(&base, &base, &size),
                   ACL_ERROR_RT_PARAM_INVALID, "");
    assert_refused(aclrtMemGetAddressRange(b.va + CHUNK, &base, &size),
                   ACL_ERROR_RT_PARAM_INVALID, "");
    assert_bad_arg(aclrtMemGetAddressRange(NULL, &base, &size), "ptr");
    assert_bad_arg(aclrtMemGetAddressRange(b.va, NULL, NULL), "psize");
    assert_null(base);
    assert_int_equal(size, 7);
    assert_acl_ok(aclrtReleaseMemAddress(va));
    block_destroy(&b);
}

/* ---- kinds ---- */

static uint32_t check_type(void **list, uint32_t n, uint32_t type)
{
    uint32_t result = 99;

    assert_acl_ok(aclrtCheckMemType(list, n, type, &result, 0));
    return result;
}

static void reserved_addresses_are_distinguished_from_other_addresses(void **state)
{
    struct block b = block_create(2 * CHUNK);
    char *va = reserve(CHUNK);
    int here = 0;
    void *reserved[] = {b.va, b.va + CHUNK + 5, va};
    void *mixed[] = {b.va, &here};
    void *unknown[] = {&here};
    const uint32_t any =
        ACL_RT_MEM_TYPE_DEV | ACL_RT_MEM_TYPE_DVPP | ACL_RT_MEM_TYPE_RSVD;

    assert_int_equal(check_type(reserved, 3, ACL_RT_MEM_TYPE_RSVD), 1);
    assert_int_equal(check_type(reserved, 3, any), 1);
    assert_int_equal(check_type(reserved, 3, ACL_RT_MEM_TYPE_DVPP), 0);
    assert_int_equal(check_type(mixed, 2, any), 0);
    assert_int_equal(check_type(mixed, 1, ACL_RT_MEM_TYPE_RSVD), 1);
    assert_int_equal(check_type(unknown, 1, any), 0);
    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_int_equal(check_type(reserved, 3, ACL_RT_MEM_TYPE_RSVD), 0);
    block_destroy(&b);
}

static void checking_wants_good_arguments(void **state)
{
    void *list[] = {&list};
    uint32_t result = 99;

    assert_bad_arg(aclrtCheckMemType(NULL, 1, ACL_RT_MEM_TYPE_DEV, &result, 0),
                   "addrList");
    assert_bad_arg(aclrtCheckMemType(list, 0, ACL_RT_MEM_TYPE_DEV, &result, 0), "size");
    assert_bad_arg(aclrtCheckMemType(list, 1, 0, &result, 0), "memType");
    assert_bad_arg(aclrtCheckMemType(list, 1, 0x1, &result, 0), "memType");
    assert_bad_arg(aclrtCheckMemType(list, 1, ACL_RT_MEM_TYPE_DEV, NULL, 0),
                   "checkResult");
    assert_bad_arg(aclrtCheckMemType(list, 1, ACL_RT_MEM_TYPE_DEV, &result, 1),
                   "reserve");
    assert_int_equal(result, 99);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(unknown_memory_is_unregistered),
        claim_both(mapped_device_memory_knows_its_device),
        claim(mapped_host_memory_is_the_hosts),
        claim_both(attributes_want_an_output_and_know_no_null),
        claim(any_address_of_a_mapping_knows_the_whole),
        claim(neighbours_have_ranges_of_their_own),
        claim(a_range_is_refused_where_nothing_is_mapped),
        claim(reserved_addresses_are_distinguished_from_other_addresses),
        claim(checking_wants_good_arguments),
    };

    return run_claims(claims);
}
