/* aclrtMemcpy2d and aclrtMemcpy2dAsync. */
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdlib.h>
#include <string.h>

enum { WIDTH = 1000, HEIGHT = 300, DPITCH = 1536, SPITCH = 1024 };

#define EXTENT(pitch_) ((HEIGHT - 1) * (size_t)(pitch_) + WIDTH)

static uint8_t host[HEIGHT * DPITCH];
static uint8_t back[HEIGHT * DPITCH];

/* The pattern in the rows, and `gap` between them. */
static void fill_rows(uint8_t *at, size_t pitch, uint8_t gap, uint64_t seed)
{
    memset(at, gap, EXTENT(pitch));
    for (size_t i = 0; i < HEIGHT; i++)
        fill(at + i * pitch, WIDTH, seed + i);
}

static bool are_rows(const uint8_t *at, size_t pitch, uint8_t gap, uint64_t seed)
{
    for (size_t i = 0; i < HEIGHT; i++) {
        if (!is_filled(at + i * pitch, WIDTH, seed + i))
            return false;
        for (size_t j = WIDTH; j < pitch && i + 1 < HEIGHT; j++) {
            if (at[i * pitch + j] != gap)
                return false;
        }
    }
    return true;
}

static aclError rows_copy(void *dst, size_t dpitch, const void *src, size_t spitch,
                          aclrtMemcpyKind kind)
{
    return aclrtMemcpy2d(dst, dpitch, src, spitch, WIDTH, HEIGHT, kind);
}

static void rows_go_there_and_back_and_gaps_stay(void **state)
{
    struct block b = block_create(CHUNK);

    fill_rows(host, SPITCH, 1, 7);
    assert_acl_ok(aclrtMemset(b.va, CHUNK, 2, CHUNK));
    assert_acl_ok(rows_copy(b.va + 3, DPITCH, host, SPITCH, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(copy(back, b.va + 3, EXTENT(DPITCH), ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(are_rows(back, DPITCH, 2, 7));
    assert_all_bytes(b.va, 3, 2);
    assert_all_bytes(b.va + 3 + EXTENT(DPITCH), 100, 2);

    memset(back, 3, sizeof(back));
    assert_acl_ok(rows_copy(back, SPITCH, b.va + 3, DPITCH, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(are_rows(back, SPITCH, 3, 7));
    block_destroy(&b);
}

/*
 * Three handles of one chunk: rows lie across their borders, and whole chunks are
 * skipped.
 */
static void rows_may_lie_in_many_handles(void **state)
{
    const size_t pitch = CHUNK - 100, width = 200, height = 3;
    char *va = reserve(4 * CHUNK);
    aclrtDrvMemHandle handles[4];
    uint8_t rows[3 * 200];

    for (int i = 0; i < 4; i++) {
        handles[i] = alloc(CHUNK);
        map(va + (size_t)i * CHUNK, CHUNK, handles[i]);
    }
    fill(rows, sizeof(rows), 5);
    assert_acl_ok(aclrtMemcpy2d(va + pitch, pitch, rows, width, width, height,
                                ACL_MEMCPY_HOST_TO_DEVICE));
    for (size_t i = 0; i < height; i++) {
        assert_acl_ok(copy(back, va + (i + 1) * pitch, width, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_memory_equal(back, rows + i * width, width);
        assert_all_bytes(va + (i + 1) * pitch + width, 1000, 0);
    }
    memset(back, 0, sizeof(rows));
    assert_acl_ok(aclrtMemcpy2d(back, width, va + pitch, pitch, width, height,
                                ACL_MEMCPY_DEVICE_TO_HOST));
    assert_memory_equal(back, rows, sizeof(rows));
    for (int i = 0; i < 4; i++) {
        assert_acl_ok(aclrtUnmapMem(va + (size_t)i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void rows_without_gaps_are_one_piece(void **state)
{
    struct block b = block_create(CHUNK);

    fill(host, HEIGHT * WIDTH, 9);
    assert_acl_ok(rows_copy(b.va, WIDTH, host, WIDTH, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_pattern(b.va, HEIGHT * WIDTH, 9);
    assert_all_bytes(b.va + HEIGHT * WIDTH, 100, 0);
    block_destroy(&b);
}

static void numbers_that_make_no_rows_are_refused(void **state)
{
    struct block b = block_create(CHUNK);
    const aclrtMemcpyKind h2d = ACL_MEMCPY_HOST_TO_DEVICE;

    memset(host, 1, sizeof(host));
    assert_bad_arg(rows_copy(NULL, 1024, host, 1024, h2d), "dst is NULL");
    assert_bad_arg(rows_copy(b.va, 1024, NULL, 1024, h2d), "src is NULL");
    assert_bad_arg(aclrtMemcpy2d(b.va, 8, host, 8, 0, 8, h2d), "width");
    assert_bad_arg(aclrtMemcpy2d(b.va, 8, host, 8, 8, 0, h2d), "height");
    assert_bad_arg(rows_copy(b.va, WIDTH - 1, host, 1024, h2d), "dpitch");
    assert_bad_arg(rows_copy(b.va, 1024, host, WIDTH - 1, h2d), "spitch");
    assert_bad_arg(aclrtMemcpy2d(b.va, 5000001, host, 5000001, 5000001, 1, h2d), "width");
    assert_bad_arg(aclrtMemcpy2d(b.va, 1, host, 1, 1, 5242881, h2d), "height");
    assert_bad_arg(aclrtMemcpy2d(b.va, SIZE_MAX, host, 8, 8, 2, h2d), "pitch");
    assert_bad_arg(aclrtMemcpy2d(b.va, 8, host, SIZE_MAX / 2, 8, 4, h2d), "pitch");
    assert_all_bytes(b.va, CHUNK, 0);
    block_destroy(&b);
}

static void the_largest_width_and_height_are_taken(void **state)
{
    struct block b = block_create(8 * MIB);
    uint8_t *bytes = calloc(1, 5242880);

    assert_non_null(bytes);
    fill(bytes, 5242880, 4);
    assert_acl_ok(aclrtMemcpy2d(b.va, 5000000, bytes, 5000000, 5000000, 1,
                                ACL_MEMCPY_HOST_TO_DEVICE));
    assert_pattern(b.va, 5000000, 4);
    assert_acl_ok(aclrtMemset(b.va, b.size, 0, b.size));
    assert_acl_ok(
        aclrtMemcpy2d(b.va, 1, bytes, 1, 1, 5242880, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_pattern(b.va, 5242880, 4);
    free(bytes);
    block_destroy(&b);
}

static void only_the_documented_kinds_are_taken(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();

    for (int kind = 0; kind <= 8; kind++) {
        if (kind == ACL_MEMCPY_HOST_TO_DEVICE || kind == ACL_MEMCPY_DEVICE_TO_HOST)
            continue;
        assert_bad_arg(rows_copy(b.va, SPITCH, host, SPITCH, (aclrtMemcpyKind)kind),
                       "kind");
        if (kind == ACL_MEMCPY_DEVICE_TO_DEVICE)
            continue;
        assert_bad_arg(aclrtMemcpy2dAsync(b.va, SPITCH, host, SPITCH, WIDTH, HEIGHT,
                                          (aclrtMemcpyKind)kind, stream),
                       "kind");
    }
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void the_kind_must_be_true(void **state)
{
    struct block b = block_create(CHUNK);

    assert_refused(rows_copy(b.va, SPITCH, host, SPITCH, ACL_MEMCPY_DEVICE_TO_HOST),
                   ACL_ERROR_RT_PARAM_INVALID, "dst");
    assert_refused(rows_copy(host, SPITCH, b.va, SPITCH, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "dst");
    assert_refused(rows_copy(b.va, SPITCH, b.va, SPITCH, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "src");
    block_destroy(&b);
}

static void the_last_row_must_lie_in_mapped_memory_too(void **state)
{
    struct block b = block_create(CHUNK);

    memset(host, 1, sizeof(host));
    assert_refused(rows_copy(b.va + CHUNK - EXTENT(DPITCH) + 1, DPITCH, host, SPITCH,
                             ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "dst");
    memset(back, 9, sizeof(back));
    assert_refused(rows_copy(back, SPITCH, b.va + CHUNK - EXTENT(DPITCH) + 1, DPITCH,
                             ACL_MEMCPY_DEVICE_TO_HOST),
                   ACL_ERROR_RT_PARAM_INVALID, "src");
    for (size_t i = 0; i < sizeof(back); i++)
        assert_int_equal(back[i], 9);
    assert_all_bytes(b.va, CHUNK, 0);
    assert_acl_ok(rows_copy(b.va + CHUNK - EXTENT(DPITCH), DPITCH, host, SPITCH,
                            ACL_MEMCPY_HOST_TO_DEVICE));
    block_destroy(&b);
}

/* ---- on a stream ---- */

static void rows_on_a_stream_come_in_order(void **state)
{
    struct block a = block_create(CHUNK), b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    struct gate *gate = gate_close(stream);

    fill_rows(host, SPITCH, 1, 3);
    put_pattern(a.va, CHUNK, 1);
    assert_acl_ok(aclrtMemsetAsync(a.va, CHUNK, 4, CHUNK, stream));
    assert_acl_ok(aclrtMemcpy2dAsync(b.va, DPITCH, a.va, SPITCH, WIDTH, HEIGHT,
                                     ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    assert_all_bytes(b.va, CHUNK, 0);
    gate_end(gate);
    assert_all_bytes(b.va, WIDTH, 4);
    assert_all_bytes(b.va + WIDTH, DPITCH - WIDTH, 0);
    assert_all_bytes(b.va + (HEIGHT - 1) * DPITCH, WIDTH, 4);

    /* Memory that is not pinned is copied before the call returns. */
    assert_acl_ok(aclrtMemcpy2dAsync(b.va, DPITCH, host, SPITCH, WIDTH, HEIGHT,
                                     ACL_MEMCPY_HOST_TO_DEVICE, stream));
    memset(host, 0, sizeof(host));
    assert_acl_ok(aclrtMemcpy2dAsync(back, SPITCH, b.va, DPITCH, WIDTH, HEIGHT,
                                     ACL_MEMCPY_DEVICE_TO_HOST, stream));
    assert_true(is_filled(back, WIDTH, 3));
    assert_true(is_filled(back + (HEIGHT - 1) * SPITCH, WIDTH, 3 + HEIGHT - 1));
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&a);
    block_destroy(&b);
}

static void rows_in_pinned_memory_do_not_wait(void **state)
{
    aclrtStream stream;
    struct gate *gate;
    struct block b;
    void *pinned = NULL;

    need_locked(2 * CHUNK);
    b = block_create(CHUNK);
    stream = make_stream();
    gate = gate_close(stream);
    assert_acl_ok(aclrtMallocHost(&pinned, HEIGHT * SPITCH));
    fill_rows(pinned, SPITCH, 1, 8);
    assert_acl_ok(aclrtMemcpy2dAsync(b.va, DPITCH, pinned, SPITCH, WIDTH, HEIGHT,
                                     ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_all_bytes(b.va, CHUNK, 0);
    gate_end(gate);
    assert_acl_ok(copy(back, b.va, EXTENT(DPITCH), ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(are_rows(back, DPITCH, 0, 8));
    assert_acl_ok(aclrtFreeHost(pinned));
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void rows_end_with_their_block(void **state)
{
    char *ptr = NULL, *next = NULL;

    assert_acl_ok(aclrtMalloc((void **)&ptr, 1000, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMalloc((void **)&next, 1000, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMemcpy2d(ptr, 100, host, 100, 100, 10, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_refused(aclrtMemcpy2d(ptr, 100, host, 100, 100, 20, ACL_MEMCPY_HOST_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "dst");
    assert_acl_ok(aclrtFree(ptr));
    assert_acl_ok(aclrtFree(next));
}

static void queued_rows_keep_their_memory(void **state)
{
    struct block a = block_create(CHUNK), b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    struct gate *gate = gate_close(stream);
    aclrtDrvMemHandle handle;

    put_pattern(a.va, CHUNK, 6);
    assert_acl_ok(aclrtMemcpy2dAsync(b.va, SPITCH, a.va, SPITCH, SPITCH, 100,
                                     ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    assert_acl_ok(aclrtUnmapMem(a.va));
    assert_acl_ok(aclrtFreePhysical(a.handle));
    assert_int_equal(stats().handles, 2);
    handle = alloc(CHUNK); /* gets other memory: the queued copy still reads the first */
    map(a.va, CHUNK, handle);
    assert_acl_ok(aclrtMemset(a.va, CHUNK, 0xff, CHUNK));
    gate_end(gate);
    assert_pattern(b.va, 100 * SPITCH, 6);
    a.handle = handle;
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&a);
    block_destroy(&b);
}

static void a_refused_call_queues_nothing(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    aclrtStreamStatus status;

    assert_refused(aclrtMemcpy2dAsync(b.va, CHUNK, b.va, CHUNK, 100, 2,
                                      ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
                   ACL_ERROR_RT_PARAM_INVALID, "dst");
    assert_bad_arg(
        aclrtMemcpy2dAsync(b.va, 8, b.va, 8, 9, 2, ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
        "width");
    assert_refused(
        aclrtMemcpy2dAsync(b.va, 8, b.va, 8, 8, 2, ACL_MEMCPY_DEVICE_TO_DEVICE, b.va),
        ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_acl_ok(aclrtStreamQuery(stream, &status));
    assert_int_equal(status, ACL_STREAM_STATUS_COMPLETE);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void older_products_copy_no_rows_inside_a_device(void **state)
{
    struct block b;

    start("default", "ACLMEM_PRODUCT=310P");
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(CHUNK);
    assert_bad_arg(aclrtMemcpy2dAsync(b.va, 8, b.va + 100, 8, 8, 2,
                                      ACL_MEMCPY_DEVICE_TO_DEVICE, NULL),
                   "DEVICE_TO_DEVICE");
    assert_acl_ok(
        aclrtMemcpy2dAsync(b.va, 8, host, 8, 8, 2, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    block_destroy(&b);
}

static void rows_between_devices_need_peers(void **state)
{
    struct block a = block_create(CHUNK),
                 b = {.size = CHUNK, .handle = alloc_on(1, CHUNK)};
    aclrtStream stream = make_stream();

    b.va = reserve(CHUNK);
    map(b.va, CHUNK, b.handle);
    put_pattern(a.va, CHUNK, 2);
    assert_refused(aclrtMemcpy2dAsync(b.va, 100, a.va, 100, 100, 10,
                                      ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
                   ACL_ERROR_RT_PARAM_INVALID, "peer");
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(aclrtMemcpy2dAsync(b.va, 100, a.va, 100, 100, 10,
                                     ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_pattern(b.va, 1000, 2);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&a);
    block_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(rows_go_there_and_back_and_gaps_stay),
        claim_both(rows_may_lie_in_many_handles),
        claim_both(rows_without_gaps_are_one_piece),
        claim_both(numbers_that_make_no_rows_are_refused),
        claim(the_largest_width_and_height_are_taken),
        claim_both(only_the_documented_kinds_are_taken),
        claim_both(the_kind_must_be_true),
        claim_both(the_last_row_must_lie_in_mapped_memory_too),
        claim_both(rows_on_a_stream_come_in_order),
        claim_both(rows_in_pinned_memory_do_not_wait),
        claim_both(rows_end_with_their_block),
        claim_both(queued_rows_keep_their_memory),
        claim_both(a_refused_call_queues_nothing),
        claim_alone(older_products_copy_no_rows_inside_a_device),
        claim(rows_between_devices_need_peers),
    };

    return run_claims(claims);
}
