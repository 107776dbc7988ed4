/* aclmem_host_view(): device memory through an address that the program may use. */
#include "support/process.h"
#include "support/vmm.h"

#include <string.h>

static uint8_t *view_of(const void *va, size_t size)
{
    void *view = NULL;

    assert_acl_ok(aclmem_host_view(va, size, &view));
    assert_non_null(view);
    return view;
}

static void a_view_and_copies_agree(void **state)
{
    struct block b = block_create(4 * CHUNK);
    uint8_t *view = view_of(b.va, b.size);

    put_pattern(b.va, b.size, 1);
    assert_true(is_filled(view, b.size, 1));
    fill(view, b.size, 2);
    assert_pattern(b.va, b.size, 2);
    assert_acl_ok(aclmem_host_view_end(view));
    assert_pattern(b.va, b.size, 2);
    block_destroy(&b);
}

static void fresh_memory_reads_zero_through_a_view(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t *view = view_of(b.va, b.size);

    for (size_t i = 0; i < b.size; i++)
        assert_int_equal(view[i], 0);
    assert_acl_ok(aclmem_host_view_end(view));
    block_destroy(&b);
}

static void writes_through_a_view_are_seen_by_the_next_copy(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t *view = view_of(b.va + 4096, 100);

    memset(view, 7, 100); /* the first write to this memory */
    assert_acl_ok(aclmem_host_view_end(view));
    assert_all_bytes(b.va, 4096, 0);
    assert_all_bytes(b.va + 4096, 100, 7);
    assert_all_bytes(b.va + 4196, CHUNK - 4196, 0);
    block_destroy(&b);
}

static void a_view_of_scattered_memory_is_contiguous(void **state)
{
    enum { N = 6 };
    aclrtDrvMemHandle handles[N], gap[N];
    char *va = reserve(N * CHUNK);
    uint8_t *view;

    for (size_t i = 0; i < N; i++) {
        handles[N - 1 - i] = alloc(CHUNK);
        gap[i] = alloc(CHUNK);
    }
    for (size_t i = 0; i < N; i++)
        map(va + i * CHUNK, CHUNK, handles[i]);
    put_pattern(va, N * CHUNK, 1);
    view = view_of(va, N * CHUNK);
    assert_true(is_filled(view, N * CHUNK, 1));
    fill(view, N * CHUNK, 2);
    assert_pattern(va, N * CHUNK, 2);
    assert_acl_ok(aclmem_host_view_end(view));

    view =
        view_of(va + CHUNK - 5, 2 * CHUNK + 10); /* from inside one to inside another */
    for (size_t i = 0; i < 2 * CHUNK + 10; i++)
        assert_int_equal(view[i], pattern(2, CHUNK - 5 + i));
    assert_acl_ok(aclmem_host_view_end(view));
    for (size_t i = 0; i < N; i++) {
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
        assert_acl_ok(aclrtFreePhysical(gap[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void one_handle_twice_in_a_row_shows_twice(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    char *va = reserve(2 * CHUNK);
    volatile uint8_t *view; /* two of its bytes are one */

    map(va, CHUNK, handle);
    map(va + CHUNK, CHUNK, handle);
    view = view_of(va, 2 * CHUNK);
    view[17] = 42;
    assert_int_equal(view[CHUNK + 17], 42);
    view[CHUNK + 18] = 43;
    assert_int_equal(view[18], 43);
    assert_acl_ok(aclmem_host_view_end((void *)(uintptr_t)view));
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtUnmapMem(va + CHUNK));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void a_view_keeps_its_memory_alive(void **state)
{
    struct block b = block_create(2 * CHUNK);
    uint8_t *view;

    put_pattern(b.va, b.size, 1);
    view = view_of(b.va, b.size);
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_acl_ok(aclrtFreePhysical(b.handle));
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
    assert_int_equal(stats().handles, 1);
    assert_int_equal(stats().views, 1);
    assert_int_equal(free_memory(), GIB - b.size);

    /* Nobody else is given these bytes meanwhile. */
    b = block_create(GIB - 2 * CHUNK);
    assert_acl_ok(aclrtMemset(b.va, b.size, 9, 64 * MIB));
    assert_true(is_filled(view, 2 * CHUNK, 1));
    fill(view, 2 * CHUNK, 2);
    assert_all_bytes(b.va, 64 * MIB, 9);
    block_destroy(&b);

    assert_acl_ok(aclmem_host_view_end(view));
    assert_int_equal(stats().handles, 0);
    assert_int_equal(free_memory(), GIB);
}

static void a_scattered_view_keeps_its_memory_alive(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtDrvMemHandle gap = alloc(CHUNK), other = alloc(CHUNK);
    char *va = reserve(2 * CHUNK);
    uint8_t *view;

    map(va, CHUNK, other);
    map(va + CHUNK, CHUNK, b.handle);
    put_pattern(va, 2 * CHUNK, 1);
    view = view_of(va, 2 * CHUNK);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtUnmapMem(va + CHUNK));
    assert_acl_ok(aclrtFreePhysical(other));
    block_destroy(&b);
    assert_int_equal(stats().handles, 3);
    assert_true(is_filled(view, 2 * CHUNK, 1));
    assert_acl_ok(aclmem_host_view_end(view));
    assert_int_equal(stats().handles, 1);
    assert_acl_ok(aclrtFreePhysical(gap));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void many_views_of_the_same_memory(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t *views[10];

    for (size_t i = 0; i < 10; i++)
        views[i] = view_of(b.va, CHUNK);
    assert_int_equal(stats().views, 10);
    for (size_t i = 0; i < 10; i++) {
        views[i][0] = (uint8_t)i;
        assert_int_equal(views[9 - i][0], i);
    }
    for (size_t i = 0; i < 10; i++)
        assert_acl_ok(aclmem_host_view_end(views[i]));
    block_destroy(&b);
}

static void without_isolation_a_view_works_as_well(void **state)
{
    struct block b;
    uint8_t *view;

    start("default", "ACLMEM_ISOLATE=0");
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(2 * CHUNK);
    put_pattern(b.va, b.size, 1);
    view = view_of(b.va, b.size);
    assert_true(is_filled(view, b.size, 1));
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_true(is_filled(view, b.size, 1));
    assert_acl_ok(aclmem_host_view_end(view));
    map(b.va, b.size, b.handle);
    block_destroy(&b);
}

/* ---- refusals ---- */

static void a_hole_is_refused(void **state)
{
    struct block b = block_create(CHUNK);
    char *va = reserve(3 * CHUNK);
    void *view = NULL;

    map(va, CHUNK, b.handle);
    map(va + 2 * CHUNK, CHUNK, b.handle);
    assert_refused(aclmem_host_view(va, 3 * CHUNK, &view), ACL_ERROR_RT_PARAM_INVALID,
                   "mapped");
    assert_refused(aclmem_host_view(va + CHUNK, 1, &view), ACL_ERROR_RT_PARAM_INVALID,
                   "mapped");
    assert_refused(aclmem_host_view(va + 2 * CHUNK, CHUNK + 1, &view),
                   ACL_ERROR_RT_PARAM_INVALID, "");
    assert_refused(aclmem_host_view(va, SIZE_MAX, &view), ACL_ERROR_RT_PARAM_INVALID, "");
    assert_null(view);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtUnmapMem(va + 2 * CHUNK));
    assert_acl_ok(aclrtReleaseMemAddress(va));
    block_destroy(&b);
}

static void memory_of_the_program_is_no_device_memory(void **state)
{
    void *view = NULL;
    int here = 0;

    assert_refused(aclmem_host_view(&here, sizeof(here), &view),
                   ACL_ERROR_RT_PARAM_INVALID, "memory");
    assert_null(view);
}

static void bad_arguments_are_refused(void **state)
{
    struct block b = block_create(CHUNK);
    void *view = NULL;

    assert_bad_arg(aclmem_host_view(NULL, 1, &view), "devPtr");
    assert_bad_arg(aclmem_host_view(b.va, 0, &view), "size");
    assert_bad_arg(aclmem_host_view(b.va, 1, NULL), "hostPtr");
    assert_bad_arg(aclmem_host_view_end(NULL), "hostPtr");
    assert_null(view);
    block_destroy(&b);
}

static void a_view_ends_once_and_by_its_address(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t *view = view_of(b.va, b.size);
    int here = 0;

    assert_refused(aclmem_host_view_end(&here), ACL_ERROR_RT_PARAM_INVALID, "view");
    assert_refused(aclmem_host_view_end(view + 1), ACL_ERROR_RT_PARAM_INVALID, "view");
    assert_refused(aclmem_host_view_end(b.va), ACL_ERROR_RT_PARAM_INVALID, "view");
    assert_acl_ok(aclmem_host_view_end(view));
    assert_refused(aclmem_host_view_end(view), ACL_ERROR_RT_PARAM_INVALID, "view");
    block_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_view_and_copies_agree),
        claim(fresh_memory_reads_zero_through_a_view),
        claim(writes_through_a_view_are_seen_by_the_next_copy),
        claim_both(a_view_of_scattered_memory_is_contiguous),
        claim(one_handle_twice_in_a_row_shows_twice),
        claim_both(a_view_keeps_its_memory_alive),
        claim(a_scattered_view_keeps_its_memory_alive),
        claim(many_views_of_the_same_memory),
        claim_alone(without_isolation_a_view_works_as_well),
        claim_both(a_hole_is_refused),
        claim_both(memory_of_the_program_is_no_device_memory),
        claim_both(bad_arguments_are_refused),
        claim_both(a_view_ends_once_and_by_its_address),
    };

    return run_claims(claims);
}
