/*
 * What a reset to zero ends and what it leaves: handles and mappings die, reservations
 * stay.
 */
#include "support/process.h"
#include "support/vmm.h"

static void handles_and_mappings_die_with_their_device(void **state)
{
    struct block b = block_create(2 * CHUNK);
    aclrtDrvMemHandle loose = alloc(CHUNK);
    char byte = 0;

    allow_warnings();
    put_pattern(b.va, b.size, 1);
    assert_acl_ok(aclrtResetDevice(0));
    assert_int_equal(stats().handles, 0);
    assert_int_equal(stats().mappings, 0);
    assert_int_equal(stats().reservations, 1);

    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), GIB);
    assert_refused(aclrtFreePhysical(b.handle), ACL_ERROR_RT_INVALID_HANDLE, "handle");
    assert_refused(aclrtFreePhysical(loose), ACL_ERROR_RT_INVALID_HANDLE, "handle");
    assert_refused(aclrtUnmapMem(b.va), ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_refused(copy(&byte, b.va, 1, ACL_MEMCPY_DEVICE_TO_HOST),
                   ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
}

static void a_reservation_may_be_mapped_again_after_a_reset(void **state)
{
    struct block b = block_create(CHUNK);

    allow_warnings();
    put_pattern(b.va, b.size, 1);
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtSetDevice(0));
    b.handle = alloc(CHUNK);
    map(b.va, CHUNK, b.handle);
    put_pattern(b.va, b.size, 2);
    assert_pattern(b.va, b.size, 2);
    block_destroy(&b);
}

static void a_reset_that_is_not_the_last_changes_nothing(void **state)
{
    struct block b = block_create(CHUNK);

    assert_acl_ok(aclrtSetDevice(0));
    put_pattern(b.va, b.size, 1);
    assert_acl_ok(aclrtResetDevice(0));
    assert_pattern(b.va, b.size, 1);
    block_destroy(&b);
}

static void force_is_as_thorough(void **state)
{
    struct block b = block_create(CHUNK);

    allow_warnings();
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtResetDeviceForce(0));
    assert_int_equal(stats().handles, 0);
    assert_int_equal(stats().mappings, 0);
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
}

static void other_devices_keep_theirs(void **state)
{
    aclrtDrvMemHandle theirs = alloc_on(1, CHUNK);
    void *va = reserve(CHUNK);

    allow_warnings();
    assert_acl_ok(aclrtSetDevice(1));
    map(va, CHUNK, theirs);
    put_pattern(va, CHUNK, 1);
    assert_acl_ok(aclrtResetDevice(0));
    assert_int_equal(stats().handles, 1);
    assert_pattern(va, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(theirs));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void host_memory_is_of_no_device(void **state)
{
    struct block h = block_create_host(CHUNK);

    allow_warnings();
    fill((uint8_t *)h.va, h.size, 1);
    assert_acl_ok(aclrtResetDevice(0));
    assert_true(is_filled((uint8_t *)h.va, h.size, 1));
    assert_acl_ok(aclrtSetDevice(0));
    block_destroy(&h);
}

static void one_reservation_loses_only_the_mappings_of_that_device(void **state)
{
    aclrtDrvMemHandle a = alloc_on(0, CHUNK), b = alloc_on(1, CHUNK);
    char *va = reserve(2 * CHUNK);

    allow_warnings();
    map(va, CHUNK, a);
    map(va + CHUNK, CHUNK, b);
    assert_acl_ok(aclrtSetDevice(1));
    put_pattern(va + CHUNK, CHUNK, 1);
    assert_acl_ok(aclrtResetDevice(0));
    assert_int_equal(stats().mappings, 1);
    assert_pattern(va + CHUNK, CHUNK, 1);
    assert_refused(aclrtReleaseMemAddress(va), ACL_ERROR_RT_PARAM_INVALID, "mapping");
    assert_acl_ok(aclrtUnmapMem(va + CHUNK));
    assert_acl_ok(aclrtFreePhysical(b));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void program_addressable_memory_is_gone_after_a_reset(void **state)
{
    struct block b;

    start("default", "ACLMEM_ISOLATE=0");
    allow_warnings();
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(CHUNK);
    assert_true(can_write(b.va));
    assert_acl_ok(aclrtResetDevice(0));
    assert_false(can_read(b.va));
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
}

/*
 * Memory may be allocated on a device that nobody set; the reset is refused and takes
 * nothing.
 */
static void memory_of_a_device_that_was_never_set_lives_on(void **state)
{
    aclrtDrvMemHandle theirs = alloc_on(1, CHUNK);

    assert_acl_either(aclrtResetDevice(1), ACL_ERROR_RT_PARAM_INVALID,
                      ACL_ERROR_RT_CONTEXT_NULL);
    assert_int_equal(stats().handles, 1);
    assert_acl_ok(aclrtFreePhysical(theirs));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(handles_and_mappings_die_with_their_device),
        claim_both(a_reservation_may_be_mapped_again_after_a_reset),
        claim_both(a_reset_that_is_not_the_last_changes_nothing),
        claim(force_is_as_thorough),
        claim_both(other_devices_keep_theirs),
        claim(host_memory_is_of_no_device),
        claim(one_reservation_loses_only_the_mappings_of_that_device),
        claim_alone(program_addressable_memory_is_gone_after_a_reset),
        claim(memory_of_a_device_that_was_never_set_lives_on),
    };

    return run_claims(claims);
}
