/*
 * am_spans_are_reachable(): whose memory a device that copies between devices can reach.
 */
#include "support/vmm.h"

#include "core/copy/span.h"
#include "core/device/device.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

static struct block block_on(uint32_t device, bool has_access)
{
    struct block b = {
        .size = CHUNK, .handle = alloc_on(device, CHUNK), .va = reserve(CHUNK)};

    if (has_access)
        map(b.va, CHUNK, b.handle);
    else
        assert_acl_ok(aclrtMemMapNoAccess(b.va, CHUNK, 0, b.handle, 0));
    return b;
}

/*
 * AM_ACCESS_* that `device` itself has to the block; a look at it is not refused before.
 */
static unsigned reach(const struct block *b, int32_t device)
{
    struct am_mapping *mapping = am_mapping_get((uintptr_t)b->va);
    struct am_spans spans = {
        .n = 1,
        .inline_list = {{.addr = b->va, .mem = &mapping->phys->mem, .owner = mapping}}};
    unsigned access = 0;

    spans.list = spans.inline_list;
    assert_non_null(mapping);
    if (am_spans_are_reachable(&spans, AM_ACCESS_READ, device))
        access |= AM_ACCESS_READ;
    if (am_spans_are_reachable(&spans, AM_ACCESS_WRITE, device))
        access |= AM_ACCESS_WRITE;
    assert_int_equal(am_spans_are_reachable(&spans, AM_ACCESS_ALL, device),
                     access == AM_ACCESS_ALL);
    am_mapping_put(mapping);
    return access;
}

static void a_device_reaches_its_own_memory(void **state)
{
    struct block own = block_on(0, true), none = block_on(0, false);

    assert_int_equal(reach(&own, 0), AM_ACCESS_ALL);
    assert_int_equal(reach(&none, 0), 0);
    assert_true(am_peer_is_enabled(0, 0) && am_peer_is_enabled(1, 1));
    assert_false(am_peer_is_enabled(0, 1) || am_peer_is_enabled(1, 0));
    block_destroy(&own);
    block_destroy(&none);
}

static void a_peer_reaches_plain_mappings(void **state)
{
    struct block theirs = block_on(1, true), none = block_on(1, false);

    assert_int_equal(reach(&theirs, 0), 0);
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_int_equal(reach(&theirs, 0), AM_ACCESS_ALL);
    assert_int_equal(reach(&none, 0), 0);
    assert_acl_ok(aclrtDeviceDisablePeerAccess(1));
    assert_int_equal(reach(&theirs, 0), 0);
    block_destroy(&theirs);
    block_destroy(&none);
}

static void the_other_direction_does_not_count(void **state)
{
    struct block own = block_on(0, true), theirs = block_on(1, true);

    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_int_equal(reach(&theirs, 0), AM_ACCESS_ALL);
    assert_int_equal(reach(&own, 1), 0);
    block_destroy(&own);
    block_destroy(&theirs);
}

static void a_grant_of_the_mapping_does_without_peers(void **state)
{
    struct block theirs = block_on(1, true);

    assert_acl_ok(set_access(theirs.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                             ACL_RT_MEM_ACCESS_FLAGS_READ));
    assert_int_equal(reach(&theirs, 0), AM_ACCESS_READ);
    assert_acl_ok(set_access(theirs.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                             ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
    assert_int_equal(reach(&theirs, 0), AM_ACCESS_ALL);
    block_destroy(&theirs);
}

static void a_peer_has_no_more_than_the_owner(void **state)
{
    struct block theirs = block_on(1, true);

    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(set_access(theirs.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 1,
                             ACL_RT_MEM_ACCESS_FLAGS_READ));
    assert_int_equal(reach(&theirs, 0), AM_ACCESS_READ);
    block_destroy(&theirs);
}

static void every_device_reaches_the_host(void **state)
{
    struct block host = block_create_host(CHUNK);
    struct am_spans none = {.n = 1, .inline_list = {{.addr = &none}}};

    none.list = none.inline_list;
    assert_int_equal(reach(&host, 1), AM_ACCESS_ALL);
    assert_true(am_spans_are_reachable(&none, AM_ACCESS_ALL, 1));
    block_destroy(&host);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(a_device_reaches_its_own_memory),
        claim(a_peer_reaches_plain_mappings),
        claim(the_other_direction_does_not_count),
        claim(a_grant_of_the_mapping_does_without_peers),
        claim(a_peer_has_no_more_than_the_owner),
        claim(every_device_reaches_the_host),
    };

    return run_claims(claims);
}
