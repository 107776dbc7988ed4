/* aclrtMapMem and aclrtUnmapMem. */
#include "support/process.h"
#include "support/vmm.h"

#include <stdlib.h>

static void seven_steps(void **state)
{
    void *va = reserve(4 * CHUNK);
    aclrtDrvMemHandle handle = alloc(4 * CHUNK);

    map(va, 4 * CHUNK, handle);
    put_pattern(va, 4 * CHUNK, 1);
    assert_pattern(va, 4 * CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

/*
 * The developer guide's order: physical first, access granted again, addresses given back
 * first.
 */
static void the_other_documented_order(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    void *va = reserve(CHUNK);

    map(va, CHUNK, handle);
    assert_acl_ok(set_access(va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                             ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
    put_pattern(va, CHUNK, 1);
    assert_pattern(va, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void mapping_needs_no_current_device(void **state)
{
    void *va;
    aclrtDrvMemHandle handle;

    start("default");
    va = reserve(CHUNK);
    handle = alloc_on(1, CHUNK);
    map(va, CHUNK, handle);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void any_part_of_a_reservation_may_be_mapped(void **state)
{
    char *va = reserve(8 * CHUNK);
    static const size_t order[] = {5, 0, 7, 3};
    aclrtDrvMemHandle handles[4];

    for (size_t i = 0; i < 4; i++) {
        handles[i] = alloc(CHUNK);
        map(va + order[i] * CHUNK, CHUNK, handles[i]);
        put_pattern(va + order[i] * CHUNK, CHUNK, i);
    }
    for (size_t i = 0; i < 4; i++) {
        assert_pattern(va + order[i] * CHUNK, CHUNK, i);
        assert_acl_ok(aclrtUnmapMem(va + order[i] * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void bytes_survive_a_move_to_other_addresses(void **state)
{
    struct block b = block_create(3 * CHUNK);
    char *elsewhere = reserve(16 * CHUNK);

    put_pattern(b.va, b.size, 9);
    for (size_t i = 0; i < 8; i++) {
        assert_acl_ok(aclrtUnmapMem(i == 0 ? b.va : elsewhere + (i - 1) * CHUNK));
        map(elsewhere + i * CHUNK, b.size, b.handle);
        assert_pattern(elsewhere + i * CHUNK, b.size, 9);
    }
    assert_acl_ok(aclrtUnmapMem(elsewhere + 7 * CHUNK));
    map(b.va, b.size, b.handle);
    assert_pattern(b.va, b.size, 9);
    assert_acl_ok(aclrtReleaseMemAddress(elsewhere));
    block_destroy(&b);
}

static void one_handle_shows_at_many_addresses(void **state)
{
    enum { N = 5 };
    aclrtDrvMemHandle handle = alloc(CHUNK);
    char *va = reserve((N + 1) * CHUNK), *other = reserve(CHUNK);

    for (size_t i = 0; i < N; i++)
        map(va + i * CHUNK, CHUNK, handle);
    map(other, CHUNK, handle);
    for (size_t i = 0; i < N; i++) {
        put_pattern(va + i * CHUNK, CHUNK, i);
        assert_pattern(other, CHUNK, i);
        assert_pattern(va, CHUNK, i);
    }
    assert_int_equal(stats().mappings, N + 1);
    assert_int_equal(free_memory(), GIB - CHUNK);
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
    assert_pattern(other, CHUNK, N - 1);
    assert_acl_ok(aclrtUnmapMem(other));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(other));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void the_head_of_a_handle_may_be_mapped_alone(void **state)
{
    aclrtDrvMemHandle handle = alloc(4 * CHUNK);
    char *va = reserve(8 * CHUNK);

    map(va, 4 * CHUNK, handle);
    put_pattern(va, 4 * CHUNK, 1);
    map(va + 4 * CHUNK, CHUNK, handle);
    assert_pattern(va + 4 * CHUNK, CHUNK, 1);
    map(va + 5 * CHUNK, 2 * CHUNK, handle);
    assert_pattern(va + 5 * CHUNK, 2 * CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtUnmapMem(va + 4 * CHUNK));
    assert_acl_ok(aclrtUnmapMem(va + 5 * CHUNK));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void the_size_that_was_asked_for_may_be_mapped(void **state)
{
    const size_t asked = CHUNK + 4096 + 512;
    aclrtDrvMemHandle handle = alloc(asked);
    char *va = reserve(asked);

    map(va, asked, handle);
    put_pattern(va, asked, 1);
    assert_pattern(va, asked, 1);
    assert_acl_ok(set_access(va, asked, ACL_MEM_LOCATION_TYPE_DEVICE, 0,
                             ACL_RT_MEM_ACCESS_FLAGS_READWRITE));
    assert_acl_ok(aclrtUnmapMem(va));
    map(va, 2 * CHUNK, handle); /* and so may what it was rounded to */
    assert_pattern(va, asked, 1);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_refused(aclrtMapMem(va, CHUNK + 4096, 0, handle, 0),
                   ACL_ERROR_RT_PARAM_INVALID, "size");
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

/* ---- refusals of map ---- */

static void bad_arguments_are_refused(void **state)
{
    aclrtDrvMemHandle handle = alloc(2 * CHUNK);
    char *va = reserve(4 * CHUNK);
    aclError (*const calls[])(void *, size_t, size_t, aclrtDrvMemHandle,
                              uint64_t) = {aclrtMapMem, aclrtMemMapNoAccess};

    for (size_t i = 0; i < 2; i++) {
        assert_bad_arg(calls[i](NULL, CHUNK, 0, handle, 0), "virPtr");
        assert_bad_arg(calls[i](va, 0, 0, handle, 0), "size");
        assert_bad_arg(calls[i](va, CHUNK, CHUNK, handle, 0), "offset");
        assert_bad_arg(calls[i](va, CHUNK, 0, handle, 1), "flags");
        assert_bad_arg(calls[i](va, CHUNK, 0, NULL, 0), "handle");
    }
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void a_misaligned_address_is_refused(void **state)
{
    static const size_t offsets[] = {1, 512, 4096, MIB, CHUNK - 1};
    aclrtDrvMemHandle handle = alloc(CHUNK);
    char *va = reserve(4 * CHUNK);

    for (size_t i = 0; i < sizeof(offsets) / sizeof(offsets[0]); i++) {
        assert_refused(aclrtMapMem(va + offsets[i], CHUNK, 0, handle, 0),
                       ACL_ERROR_RT_ADDR_UNALIGNED, "virPtr");
        assert_message_has_address(va + offsets[i]);
    }
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void more_than_the_handle_is_refused(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    char *va = reserve(4 * CHUNK);
    static const size_t sizes[] = {2 * CHUNK, CHUNK + 1, 1,
                                   4096,      SIZE_MAX,  SIZE_MAX - CHUNK + 1};

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
        assert_refused(aclrtMapMem(va, sizes[i], 0, handle, 0),
                       ACL_ERROR_RT_PARAM_INVALID, "size");
    map(va, CHUNK, handle);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void addresses_that_were_not_reserved_are_refused(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    char *va = reserve(4 * CHUNK);
    void *mine = aligned_alloc(CHUNK, CHUNK);

    assert_non_null(mine);
    assert_refused(aclrtMapMem(mine, CHUNK, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "reserv");
    assert_message_has_address(mine);
    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_refused(aclrtMapMem(va, CHUNK, 0, handle, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "reserv");
    assert_refused(aclrtMapMem((void *)(UINTPTR_MAX - CHUNK + 1), CHUNK, 0, handle, 0),
                   ACL_ERROR_RT_PARAM_INVALID, "reserv");
    assert_acl_ok(aclrtFreePhysical(handle));
    free(mine);
}

static void mapping_mapped_memory_is_refused(void **state)
{
    aclrtDrvMemHandle handle = alloc(4 * CHUNK), small = alloc(CHUNK);
    char *va = reserve(16 * CHUNK);

    map(va + 4 * CHUNK, 4 * CHUNK, handle);
    put_pattern(va + 4 * CHUNK, 4 * CHUNK, 1);
    for (size_t at = 1; at < 8; at++)
        assert_refused(aclrtMapMem(va + at * CHUNK, 4 * CHUNK, 0, handle, 0),
                       ACL_ERROR_RT_PARAM_INVALID, "mapped");
    for (size_t at = 4; at < 8; at++)
        assert_refused(aclrtMapMem(va + at * CHUNK, CHUNK, 0, small, 0),
                       ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_pattern(va + 4 * CHUNK, 4 * CHUNK, 1);
    map(va + 3 * CHUNK, CHUNK, small); /* close beside it is fine */
    assert_acl_ok(aclrtUnmapMem(va + 3 * CHUNK));
    assert_acl_ok(aclrtUnmapMem(va + 4 * CHUNK));
    assert_acl_ok(aclrtFreePhysical(small));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void a_mapping_stays_inside_one_reservation(void **state)
{
    aclrtDrvMemHandle handle = alloc(4 * CHUNK);
    char *base = reserve(8 * CHUNK);

    assert_refused(aclrtMapMem(base + 6 * CHUNK, 4 * CHUNK, 0, handle, 0),
                   ACL_ERROR_RT_PARAM_INVALID, "reserv");
    assert_acl_ok(aclrtReleaseMemAddress(base));
    reserve_at(base, 4 * CHUNK);
    reserve_at(base + 4 * CHUNK, 4 * CHUNK); /* close beside it, and still another */
    assert_refused(aclrtMapMem(base + 2 * CHUNK, 4 * CHUNK, 0, handle, 0),
                   ACL_ERROR_RT_PARAM_INVALID, "reserv");
    map(base, 4 * CHUNK, handle);
    map(base + 4 * CHUNK, 4 * CHUNK, handle);
    assert_acl_ok(aclrtUnmapMem(base));
    assert_acl_ok(aclrtUnmapMem(base + 4 * CHUNK));
    assert_acl_ok(aclrtReleaseMemAddress(base + 4 * CHUNK));
    assert_acl_ok(aclrtReleaseMemAddress(base));
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* ---- refusals of unmap ---- */

static void unmap_wants_a_start_address(void **state)
{
    struct block b = block_create(4 * CHUNK);
    char *empty = reserve(CHUNK);
    int here = 0;

    put_pattern(b.va, b.size, 1);
    assert_bad_arg(aclrtUnmapMem(NULL), "virPtr");
    assert_refused(aclrtUnmapMem(b.va + CHUNK), ACL_ERROR_RT_PARAM_INVALID, "start");
    assert_message_has_address(b.va + CHUNK);
    assert_refused(aclrtUnmapMem(empty), ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_refused_either(aclrtUnmapMem(&here), ACL_ERROR_RT_PARAM_INVALID,
                          ACL_ERROR_RT_ADDR_UNALIGNED, "mapped");
    assert_refused_either(aclrtUnmapMem(b.va + 1), ACL_ERROR_RT_PARAM_INVALID,
                          ACL_ERROR_RT_ADDR_UNALIGNED, "");
    assert_pattern(b.va, b.size, 1);
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_refused(aclrtUnmapMem(b.va), ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_acl_ok(aclrtFreePhysical(b.handle));
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
    assert_refused(aclrtUnmapMem(b.va), ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_acl_ok(aclrtReleaseMemAddress(empty));
}

static void unmapping_leaves_the_neighbours(void **state)
{
    char *va = reserve(3 * CHUNK);
    aclrtDrvMemHandle handles[3];

    for (size_t i = 0; i < 3; i++) {
        handles[i] = alloc(CHUNK);
        map(va + i * CHUNK, CHUNK, handles[i]);
        put_pattern(va + i * CHUNK, CHUNK, i);
    }
    assert_acl_ok(aclrtUnmapMem(va + CHUNK));
    assert_pattern(va, CHUNK, 0);
    assert_pattern(va + 2 * CHUNK, CHUNK, 2);
    map(va + CHUNK, CHUNK, handles[1]);
    assert_pattern(va + CHUNK, CHUNK, 1);
    for (size_t i = 0; i < 3; i++) {
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(seven_steps),
        claim_both(the_other_documented_order),
        claim_alone(mapping_needs_no_current_device),
        claim_both(any_part_of_a_reservation_may_be_mapped),
        claim_both(bytes_survive_a_move_to_other_addresses),
        claim_both(one_handle_shows_at_many_addresses),
        claim(the_head_of_a_handle_may_be_mapped_alone),
        claim(the_size_that_was_asked_for_may_be_mapped),
        claim_both(bad_arguments_are_refused),
        claim_both(a_misaligned_address_is_refused),
        claim(more_than_the_handle_is_refused),
        claim_both(addresses_that_were_not_reserved_are_refused),
        claim_both(mapping_mapped_memory_is_refused),
        claim(a_mapping_stays_inside_one_reservation),
        claim_both(unmap_wants_a_start_address),
        claim_both(unmapping_leaves_the_neighbours),
    };

    return run_claims(claims);
}
