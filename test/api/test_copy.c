/* aclrtMemcpy and aclrtMemset over mapped memory. */
#include "support/process.h"
#include "support/vmm.h"

#include <stdlib.h>
#include <string.h>

/* A row of handles of one chunk each, allocated in an order that scatters them. */
enum { ROW = 8 };
struct row {
    char *va;
    aclrtDrvMemHandle handles[ROW];
};

static struct row row_create(void)
{
    struct row r = {.va = reserve(ROW * CHUNK)};
    aclrtDrvMemHandle gap[ROW];

    for (size_t i = 0; i < ROW; i++) {
        r.handles[ROW - 1 - i] = alloc(CHUNK);
        gap[i] = alloc(CHUNK);
    }
    for (size_t i = 0; i < ROW; i++) {
        assert_acl_ok(aclrtFreePhysical(gap[i]));
        map(r.va + i * CHUNK, CHUNK, r.handles[i]);
    }
    return r;
}

static void row_destroy(struct row *r)
{
    for (size_t i = 0; i < ROW; i++) {
        (void)aclrtUnmapMem(r->va + i * CHUNK); /* some tests unmap one themselves */
        assert_acl_ok(aclrtFreePhysical(r->handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(r->va));
}

static void fresh_memory_reads_zero(void **state)
{
    struct block b = block_create(4 * CHUNK);

    assert_all_bytes(b.va, b.size, 0);
    block_destroy(&b);
}

static void bytes_come_back_as_they_went(void **state)
{
    static const size_t sizes[] = {1,    7,    63,   64,      65,
                                   4095, 4096, 4097, MIB + 1, 4 * CHUNK};
    struct block b = block_create(4 * CHUNK);

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        put_pattern(b.va, sizes[i], i);
        assert_pattern(b.va, sizes[i], i);
    }
    block_destroy(&b);
}

static void a_copy_touches_nothing_beside_it(void **state)
{
    struct block b = block_create(2 * CHUNK);
    static const size_t starts[] = {1, 4096 - 3, CHUNK - 5, CHUNK, CHUNK + 4095};

    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        assert_acl_ok(aclrtMemset(b.va, b.size, 0x5a, b.size));
        put_pattern(b.va + starts[i], 1000, i);
        assert_all_bytes(b.va, starts[i], 0x5a);
        assert_pattern(b.va + starts[i], 1000, i);
        assert_all_bytes(b.va + starts[i] + 1000, b.size - starts[i] - 1000, 0x5a);
    }
    block_destroy(&b);
}

static void one_copy_crosses_many_handles(void **state)
{
    struct row r = row_create();

    put_pattern(r.va, ROW * CHUNK, 1);
    assert_pattern(r.va, ROW * CHUNK, 1);
    put_pattern(r.va + CHUNK - 17, 3 * CHUNK + 40, 2);
    assert_pattern(r.va + CHUNK - 17, 3 * CHUNK + 40, 2);
    row_destroy(&r);
}

/* 20 MB handles, as torch_npu has them: not a power of two. */
static void sixty_megabytes_over_three_handles(void **state)
{
    const size_t segment = 20 * MIB;
    char *va = reserve(3 * segment);
    aclrtDrvMemHandle handles[3];

    for (size_t i = 0; i < 3; i++) {
        handles[i] = alloc(segment);
        map(va + i * segment, segment, handles[i]);
    }
    put_pattern(va, 3 * segment, 1);
    assert_pattern(va, 3 * segment, 1);
    for (size_t i = 0; i < 3; i++) {
        assert_acl_ok(aclrtUnmapMem(va + i * segment));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void device_to_device_over_pieces_of_other_sizes(void **state)
{
    struct row r = row_create();
    struct block b = block_create(4 * CHUNK);

    put_pattern(b.va, b.size, 3);
    assert_acl_ok(copy(r.va + CHUNK + 100, b.va, b.size, ACL_MEMCPY_DEVICE_TO_DEVICE));
    assert_pattern(r.va + CHUNK + 100, b.size, 3);
    assert_acl_ok(aclrtMemset(b.va, b.size, 0, b.size));
    assert_acl_ok(
        copy(b.va + 1, r.va + CHUNK + 100, b.size - 1, ACL_MEMCPY_DEVICE_TO_DEVICE));
    assert_pattern(b.va + 1, b.size - 1, 3);
    block_destroy(&b);
    row_destroy(&r);
}

static void host_to_host_is_a_copy_too(void **state)
{
    uint8_t *a = malloc(CHUNK), *b = malloc(CHUNK);

    assert_non_null(a);
    assert_non_null(b);
    fill(a, CHUNK, 1);
    assert_acl_ok(copy(b, a, CHUNK, ACL_MEMCPY_HOST_TO_HOST));
    assert_true(is_filled(b, CHUNK, 1));
    free(a);
    free(b);
}

static void the_direction_comes_from_the_addresses(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t in[100], out[100];

    for (int kind = ACL_MEMCPY_HOST_TO_HOST; kind <= 7; kind++) {
        fill(in, sizeof(in), (uint64_t)kind);
        assert_acl_ok(copy(b.va, in, sizeof(in), (aclrtMemcpyKind)kind));
        assert_acl_ok(copy(out, b.va, sizeof(out), (aclrtMemcpyKind)kind));
        assert_true(is_filled(out, sizeof(out), (uint64_t)kind));
    }
    block_destroy(&b);
}

static void default_kind_is_always_taken(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t in[100], out[100];

    fill(in, sizeof(in), 1);
    assert_acl_ok(copy(b.va, in, sizeof(in), ACL_MEMCPY_DEFAULT));
    assert_acl_ok(copy(b.va + 200, b.va, sizeof(in), ACL_MEMCPY_DEFAULT));
    assert_acl_ok(copy(out, b.va + 200, sizeof(out), ACL_MEMCPY_DEFAULT));
    assert_true(is_filled(out, sizeof(out), 1));
    block_destroy(&b);
}

/* ---- refusals; nothing has moved after any of them ---- */

/* vLLM-Ascend passes an address plus twice the size: only count <= destMax is checked. */
static void dest_max_bounds_the_count_and_nothing_else(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t bytes[100];

    fill(bytes, sizeof(bytes), 1);
    assert_acl_ok(aclrtMemcpy(b.va, (uintptr_t)b.va + 2 * CHUNK, bytes, sizeof(bytes),
                              ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(
        aclrtMemcpy(b.va, SIZE_MAX, bytes, sizeof(bytes), ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(aclrtMemset(b.va, SIZE_MAX, 7, 100));
    assert_bad_arg(aclrtMemcpy(b.va, 99, bytes, 100, ACL_MEMCPY_HOST_TO_DEVICE),
                   "destMax");
    assert_bad_arg(aclrtMemset(b.va, 99, 1, 100), "maxCount");
    assert_all_bytes(b.va, 100, 7);
    block_destroy(&b);
}

static void bad_arguments_are_refused(void **state)
{
    struct block b = block_create(CHUNK);
    char byte = 1;

    assert_bad_arg(copy(NULL, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE), "dst");
    assert_bad_arg(copy(b.va, NULL, 1, ACL_MEMCPY_HOST_TO_DEVICE), "src");
    assert_bad_arg(aclrtMemcpy(b.va, CHUNK, &byte, 0, ACL_MEMCPY_HOST_TO_DEVICE),
                   "count");
    assert_bad_arg(aclrtMemset(NULL, 1, 0, 1), "devPtr");
    assert_bad_arg(aclrtMemset(b.va, 1, 0, 0), "count");
    assert_all_bytes(b.va, CHUNK, 0);
    block_destroy(&b);
}

static void a_hole_stops_a_copy_before_a_byte_moves(void **state)
{
    struct row r = row_create();
    uint8_t *bytes = malloc(ROW * CHUNK);

    assert_non_null(bytes);
    assert_acl_ok(aclrtMemset(r.va, ROW * CHUNK, 7, ROW * CHUNK));
    memset(bytes, 9, ROW * CHUNK);
    assert_acl_ok(aclrtUnmapMem(r.va + 5 * CHUNK));

    assert_refused(copy(r.va, bytes, ROW * CHUNK, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_message_has_address(r.va + 5 * CHUNK);
    assert_refused(aclrtMemset(r.va, ROW * CHUNK, 9, ROW * CHUNK),
                   ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_all_bytes(r.va, 5 * CHUNK, 7);
    assert_all_bytes(r.va + 6 * CHUNK, 2 * CHUNK, 7);
    assert_refused(copy(bytes, r.va, ROW * CHUNK, ACL_MEMCPY_DEVICE_TO_HOST),
                   ACL_ERROR_RT_PARAM_INVALID, "mapped");
    for (size_t i = 0; i < ROW * CHUNK; i++)
        assert_int_equal(bytes[i], 9);
    assert_refused(
        copy(r.va + 6 * CHUNK, r.va + 4 * CHUNK, 2 * CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE),
        ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_all_bytes(r.va + 6 * CHUNK, 2 * CHUNK, 7);
    free(bytes);
    row_destroy(&r);
}

static void the_end_of_the_mapped_memory_is_a_bound(void **state)
{
    struct block b = block_create(2 * CHUNK);
    static uint8_t bytes[2 * CHUNK + 64];

    assert_acl_ok(copy(bytes, b.va, 2 * CHUNK, ACL_MEMCPY_DEVICE_TO_HOST));
    memset(bytes, 9, sizeof(bytes));
    assert_refused(copy(b.va, bytes, 2 * CHUNK + 1, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "");
    assert_refused(copy(b.va + 2 * CHUNK - 1, bytes, 2, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "");
    assert_refused(copy(b.va, bytes, SIZE_MAX, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "");
    assert_refused(aclrtMemset(b.va + CHUNK, CHUNK + 1, 1, CHUNK + 1),
                   ACL_ERROR_RT_PARAM_INVALID, "");
    assert_refused(aclrtMemset(b.va, SIZE_MAX, 1, SIZE_MAX), ACL_ERROR_RT_PARAM_INVALID,
                   "");
    assert_all_bytes(b.va, 2 * CHUNK, 0);
    assert_acl_ok(aclrtMemset(b.va + 2 * CHUNK - 1, 1, 3, 1));
    assert_all_bytes(b.va + 2 * CHUNK - 1, 1, 3);
    block_destroy(&b);
}

static void reserved_addresses_hold_nothing_to_copy(void **state)
{
    char *va = reserve(CHUNK);
    char byte = 1;

    assert_refused(copy(va, &byte, 1, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_refused(copy(&byte, va, 1, ACL_MEMCPY_DEVICE_TO_HOST),
                   ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_refused(aclrtMemset(va, 1, 0, 1), ACL_ERROR_RT_PARAM_INVALID, "mapped");
    assert_int_equal(byte, 1);
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void two_devices_want_the_asynchronous_copy(void **state)
{
    struct block a = block_create(CHUNK),
                 b = {.size = CHUNK, .handle = alloc_on(1, CHUNK)};

    b.va = reserve(CHUNK);
    map(b.va, CHUNK, b.handle);
    put_pattern(a.va, CHUNK, 1);
    assert_refused(copy(b.va, a.va, CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtMemcpyAsync");
    assert_refused(copy(a.va, b.va, CHUNK, ACL_MEMCPY_DEFAULT),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtMemcpyAsync");
    assert_acl_ok(aclrtSetDevice(1));
    assert_all_bytes(b.va, CHUNK, 0);
    block_destroy(&b);
    assert_acl_ok(aclrtSetDevice(0));
    assert_pattern(a.va, CHUNK, 1);
    block_destroy(&a);
}

/* ---- memset ---- */

static void memset_writes_bytes(void **state)
{
    struct row r = row_create();

    assert_acl_ok(aclrtMemset(r.va, ROW * CHUNK, 0x1234ab, ROW * CHUNK));
    assert_all_bytes(r.va, ROW * CHUNK, 0xab);
    assert_acl_ok(aclrtMemset(r.va + CHUNK - 3, CHUNK, 0, 3 + CHUNK / 2));
    assert_all_bytes(r.va + CHUNK - 4, 1, 0xab);
    assert_all_bytes(r.va + CHUNK - 3, 3 + CHUNK / 2, 0);
    assert_all_bytes(r.va + CHUNK + CHUNK / 2, 1, 0xab);
    assert_acl_ok(aclrtMemset(r.va, 100, -1, 100));
    assert_all_bytes(r.va, 100, 0xff);
    row_destroy(&r);
}

/* The documents leave it undefined. */
static void memset_takes_memory_of_the_program(void **state)
{
    uint8_t bytes[100] = {0};

    assert_acl_ok(aclrtMemset(bytes, sizeof(bytes), 7, sizeof(bytes)));
    assert_int_equal(bytes[0], 7);
    assert_int_equal(bytes[99], 7);
}

/* The documents name aclrtMalloc and aclrtMallocHost, and nothing else. */
static void words_are_filled_in_memory_of_the_library_only(void **state)
{
    static _Alignas(4096) uint8_t bytes[4096];
    struct block b = block_create(CHUNK);
    void *pinned = NULL;
    void *device = NULL;

    assert_acl_ok(aclrtMallocHost(&pinned, 4096));
    assert_acl_ok(aclrtMalloc(&device, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMemsetD32(pinned, 4096, 0x07070707, 1024));
    assert_acl_ok(aclrtMemsetD32(device, 4096, 0x07070707, 1024));
    assert_acl_ok(aclrtMemsetD32(b.va, 4096, 0x07070707, 1024));
    assert_all_bytes(device, 4096, 7);
    assert_all_bytes(b.va, 4096, 7);
    assert_refused(aclrtMemsetD32(bytes, 4096, 1, 1024), ACL_ERROR_RT_PARAM_INVALID,
                   "program's own memory");
    assert_refused(aclrtMemsetD32Async(bytes, 4096, 1, 1024, NULL),
                   ACL_ERROR_RT_PARAM_INVALID, "program's own memory");
    assert_acl_ok(aclrtHostRegisterV2(bytes, 4096, ACL_HOST_REG_MAPPED));
    assert_refused(aclrtMemsetD32(bytes, 4096, 1, 1024), ACL_ERROR_RT_PARAM_INVALID,
                   "program's own memory");
    assert_acl_ok(aclrtHostUnregister(bytes));
    assert_int_equal(bytes[0], 0);
    assert_acl_ok(aclrtFree(device));
    assert_acl_ok(aclrtFreeHost(pinned));
    block_destroy(&b);
}

static void zero_over_fresh_memory_keeps_it_zero(void **state)
{
    struct block b = block_create(4 * CHUNK);

    assert_acl_ok(aclrtMemset(b.va, b.size, 0, b.size));
    assert_all_bytes(b.va, b.size, 0);
    block_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(fresh_memory_reads_zero),
        claim_both(bytes_come_back_as_they_went),
        claim(a_copy_touches_nothing_beside_it),
        claim_both(one_copy_crosses_many_handles),
        claim(sixty_megabytes_over_three_handles),
        claim_both(device_to_device_over_pieces_of_other_sizes),
        claim_both(host_to_host_is_a_copy_too),
        claim(the_direction_comes_from_the_addresses),
        claim(default_kind_is_always_taken),
        claim_both(dest_max_bounds_the_count_and_nothing_else),
        claim_both(bad_arguments_are_refused),
        claim_both(a_hole_stops_a_copy_before_a_byte_moves),
        claim_both(the_end_of_the_mapped_memory_is_a_bound),
        claim_both(reserved_addresses_hold_nothing_to_copy),
        claim_both(two_devices_want_the_asynchronous_copy),
        claim(memset_writes_bytes),
        claim(memset_takes_memory_of_the_program),
        claim_both(words_are_filled_in_memory_of_the_library_only),
        claim(zero_over_fresh_memory_keeps_it_zero),
    };

    return run_claims(claims);
}
