/*
 * Copies that go over many handles, which the driver takes in one call where that is safe.
 */
#include <stdlib.h>
#include <string.h>

#include "fake/whole_driver.h"
#include "fake/control.h"
#include "support/support.h"
#include "support/vmm.h"
#include "support/work.h"

#define AM_CU(need_, since_, name_, params_, args_) CUresult name_ params_;
#include "fake/whole_driver.def"
#undef AM_CU

enum { N = 6, SIZE = N * CHUNK };

/* Two rows of handles that lie side by side, and pinned memory for one. */
static struct scene {
    char *row[2];
    aclrtDrvMemHandle handle[2][N];
    uint8_t *host;
    aclrtStream stream;
} s;

static int begin(void **state)
{
    start_default(state);
    for (size_t r = 0; r < 2; r++) {
        s.row[r] = reserve(SIZE);
        for (size_t i = 0; i < N; i++) {
            s.handle[r][i] = alloc(CHUNK);
            map(s.row[r] + i * CHUNK, CHUNK, s.handle[r][i]);
        }
    }
    assert_acl_ok(aclrtMallocHost((void **)&s.host, SIZE));
    assert_acl_ok(aclrtCreateStream(&s.stream));
    return 0;
}

static int end(void **state)
{
    struct fake_cuda_counts counts;

    (void)aclrtResetDeviceForce(0);
    (void)aclFinalize();
    fake_cuda_count(&counts);
    assert_int_equal(counts.handles, 0);
    assert_int_equal(counts.mappings, 0);
    return 0;
}

/* On the stream, or by a call that returns when it is done. */
static void move(void *dst, const void *src, size_t size, aclrtMemcpyKind kind,
                 bool is_async)
{
    if (!is_async) {
        assert_acl_ok(aclrtMemcpy(dst, size, src, size, kind));
        return;
    }
    assert_acl_ok(aclrtMemcpyAsync(dst, size, src, size, kind, s.stream));
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
}

static void assert_no_context(void)
{
    CUcontext context = (CUcontext)1;

    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    assert_null(context);
}

/* What the driver takes without being asked to: a call of its own for each handle. */
static void count_from_now(const char *name)
{
    fake_cuda_fail(name, 0, 0, false);
}

static void a_copy_over_many_handles_is_one_call(void **state)
{
    for (int is_async = 0; is_async < 2; is_async++) {
        fill(s.host, SIZE, 1);
        count_from_now("cuMemcpyAsync");
        move(s.row[0], s.host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, is_async);
        assert_int_equal(fake_cuda_calls(), 1);
        move(s.row[1] + 64, s.row[0] + CHUNK, 3 * CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE,
             is_async);
        assert_int_equal(fake_cuda_calls(), 2);
        memset(s.host, 0, SIZE);
        move(s.host, s.row[1] + 64, 3 * CHUNK, ACL_MEMCPY_DEVICE_TO_HOST, is_async);
        assert_int_equal(fake_cuda_calls(), 3);
        for (size_t i = 0; i < 3 * CHUNK; i += 4093)
            assert_int_equal(s.host[i], pattern(1, CHUNK + i));
        assert_no_context();
    }
}

static void a_fill_of_many_handles_is_one_call(void **state)
{
    count_from_now("cuMemsetD8Async");
    assert_acl_ok(aclrtMemset(s.row[0], SIZE, 5, SIZE));
    assert_int_equal(fake_cuda_calls(), 1);
    assert_all_bytes(s.row[0], SIZE, 5);
    assert_acl_ok(aclrtMemsetAsync(s.row[0] + 3, SIZE - 3, 6, SIZE - 4, s.stream));
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    assert_int_equal(fake_cuda_calls(), 2);
    assert_all_bytes(s.row[0], 3, 5);
    assert_all_bytes(s.row[0] + 3, SIZE - 4, 6);
    assert_all_bytes(s.row[0] + SIZE - 1, 1, 5);
}

/*
 * The first call is short, so that the GPU begins early: the others are made while it works.
 * They are the same bytes, and one that fails fails the copy.
 */
static void a_long_row_is_a_short_call_and_longer_ones(void **state)
{
    enum { FIRST = 16, LONG = FIRST + 2, START = CHUNK / 2 };
    const size_t size = LONG * CHUNK - START;
    char *row = reserve(LONG * CHUNK);
    uint8_t *host;

    for (size_t i = 0; i < LONG; i++)
        map(row + i * CHUNK, CHUNK, alloc(CHUNK));
    assert_acl_ok(aclrtMallocHost((void **)&host, size));
    for (int is_async = 0; is_async < 2; is_async++) {
        fill(host, size, is_async);
        count_from_now("cuMemcpyAsync");
        move(row + START, host, size, ACL_MEMCPY_HOST_TO_DEVICE, is_async);
        assert_int_equal(fake_cuda_calls(), 2);
        memset(host, 0, size);
        move(host, row + START, size, ACL_MEMCPY_DEVICE_TO_HOST, is_async);
        assert_int_equal(fake_cuda_calls(), 4);
        for (size_t i = 0; i < size; i += 4093)
            assert_int_equal(host[i], pattern(is_async, i));
    }
    count_from_now("cuMemsetD8Async");
    assert_acl_ok(aclrtMemset(row, LONG * CHUNK, 5, LONG * CHUNK));
    assert_int_equal(fake_cuda_calls(), 2);
    assert_all_bytes(row, LONG * CHUNK, 5);
    fake_cuda_fail("cuMemcpyAsync", 2, CUDA_ERROR_OPERATING_SYSTEM, false);
    assert_refused(aclrtMemcpy(host, size, row, size, ACL_MEMCPY_DEVICE_TO_HOST),
                   ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "CUDA_ERROR_OPERATING_SYSTEM");
    fake_cuda_fail(NULL, 0, 0, false);
    assert_acl_ok(aclrtMemcpy(host, size, row, size, ACL_MEMCPY_DEVICE_TO_HOST));
}

/* As memmove: the driver's own copy would not. */
static void a_row_is_copied_over_itself(void **state)
{
    static const struct {
        size_t to;
        size_t from;
        size_t size;
    } moves[] = {{0, CHUNK, SIZE - CHUNK},
                 {CHUNK, 0, SIZE - CHUNK},
                 {0, 4096, SIZE - 4096},
                 {4096, 0, SIZE - 4096},
                 {CHUNK / 2, CHUNK, 2 * CHUNK}};
    uint8_t *expected = malloc(SIZE);

    assert_non_null(expected);
    for (size_t k = 0; k < 2 * sizeof moves / sizeof moves[0]; k++) {
        size_t to = moves[k / 2].to, from = moves[k / 2].from, size = moves[k / 2].size;

        fill(expected, SIZE, k);
        put_pattern(s.row[0], SIZE, k);
        memmove(expected + to, expected + from, size);
        move(s.row[0] + to, s.row[0] + from, size, ACL_MEMCPY_DEVICE_TO_DEVICE, k % 2);
        move(s.host, s.row[0], SIZE, ACL_MEMCPY_DEVICE_TO_HOST, false);
        assert_memory_equal(s.host, expected, SIZE);
    }
    free(expected);
}

/* The addresses do not tell that both sides are the same memory, one handle further on. */
static void a_row_is_copied_from_its_second_addresses(void **state)
{
    for (int is_async = 0; is_async < 2; is_async++) {
        char *second = reserve(SIZE);

        for (size_t i = 0; i < N; i++)
            map(second + i * CHUNK, CHUNK, s.handle[0][i]);
        put_pattern(s.row[0], SIZE, 3);
        fill(s.host, SIZE, 3);
        memmove(s.host, s.host + CHUNK, SIZE - CHUNK);
        move(s.row[0], second + CHUNK, SIZE - CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE,
             is_async);
        for (size_t i = 0; i < SIZE; i += CHUNK / 8) {
            uint8_t byte;

            move(&byte, second + i, 1, ACL_MEMCPY_DEVICE_TO_HOST, false);
            assert_int_equal(byte, s.host[i]);
        }
        for (size_t i = 0; i < N; i++)
            assert_acl_ok(aclrtUnmapMem(second + i * CHUNK));
        assert_acl_ok(aclrtReleaseMemAddress(second));
    }
}

/* Two copies whose memory lies in another order than they do. */
static void copies_of_a_batch_go_each_to_its_place(void **state)
{
    aclrtMemcpyBatchAttr attr = {
        .dstLoc = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
        .srcLoc = {.type = ACL_MEM_LOCATION_TYPE_HOST},
    };
    void *dsts[] = {s.row[1] + CHUNK, s.row[1], s.row[1] + 2 * CHUNK};
    void *srcs[] = {s.host, s.host + CHUNK, s.host + 2 * CHUNK};
    size_t sizes[] = {CHUNK, CHUNK, 2 * CHUNK};
    size_t index = 0;
    size_t fail;

    fill(s.host, CHUNK, 1);
    fill(s.host + CHUNK, CHUNK, 2);
    fill(s.host + 2 * CHUNK, 2 * CHUNK, 3);
    for (int is_async = 0; is_async < 2; is_async++) {
        assert_acl_ok(aclrtMemset(s.row[1], SIZE, 0, SIZE));
        if (is_async) {
            assert_acl_ok(aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 3, &attr,
                                                &index, 1, &fail, s.stream));
            assert_acl_ok(aclrtSynchronizeStream(s.stream));
        } else {
            assert_acl_ok(
                aclrtMemcpyBatch(dsts, sizes, srcs, sizes, 3, &attr, &index, 1, &fail));
        }
        assert_pattern(s.row[1], CHUNK, 2);
        assert_pattern(s.row[1] + CHUNK, CHUNK, 1);
        assert_pattern(s.row[1] + 2 * CHUNK, 2 * CHUNK, 3);
        assert_all_bytes(s.row[1] + 4 * CHUNK, 2 * CHUNK, 0);
    }
}

/* The third handle is elsewhere when the copy's turn comes: that is where it goes. */
static void a_handle_of_the_row_moves_before_the_copy(void **state)
{
    char *elsewhere = reserve(CHUNK);
    struct gate *gate;

    fill(s.host, SIZE, 8);
    gate = gate_close(s.stream);
    assert_acl_ok(aclrtMemcpyAsync(s.row[0], SIZE, s.host, SIZE,
                                   ACL_MEMCPY_HOST_TO_DEVICE, s.stream));
    assert_acl_ok(aclrtUnmapMem(s.row[0] + 2 * CHUNK));
    map(elsewhere, CHUNK, s.handle[0][2]);
    gate_end(gate);
    memset(s.host, 0, SIZE);
    move(s.host, s.row[0], 2 * CHUNK, ACL_MEMCPY_DEVICE_TO_HOST, false);
    move(s.host + 2 * CHUNK, elsewhere, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST, false);
    move(s.host + 3 * CHUNK, s.row[0] + 3 * CHUNK, 3 * CHUNK, ACL_MEMCPY_DEVICE_TO_HOST,
         false);
    assert_true(is_filled(s.host, SIZE, 8));
}

/* The same for a fill. */
static void a_handle_of_the_row_moves_before_the_fill(void **state)
{
    char *elsewhere = reserve(CHUNK);
    aclrtDrvMemHandle other = alloc(CHUNK);
    struct gate *gate;

    assert_acl_ok(aclrtMemset(s.row[0], SIZE, 1, SIZE));
    gate = gate_close(s.stream);
    assert_acl_ok(aclrtMemsetAsync(s.row[0], SIZE, 2, SIZE, s.stream));
    assert_acl_ok(aclrtUnmapMem(s.row[0] + 2 * CHUNK));
    map(elsewhere, CHUNK, s.handle[0][2]);
    map(s.row[0] + 2 * CHUNK, CHUNK, other);
    assert_acl_ok(aclrtMemset(s.row[0] + 2 * CHUNK, CHUNK, 3, CHUNK));
    gate_end(gate);
    assert_all_bytes(s.row[0], 2 * CHUNK, 2);
    assert_all_bytes(s.row[0] + 2 * CHUNK, CHUNK, 3);
    assert_all_bytes(s.row[0] + 3 * CHUNK, 3 * CHUNK, 2);
    assert_all_bytes(elsewhere, CHUNK, 2);
}

/* The bytes are in the buffer, and the call that writes them back fails. */
static void a_copy_over_itself_that_fails_half_way_is_not_begun_anew(void **state)
{
    struct gate *gate = gate_close(s.stream);

    assert_acl_ok(aclrtMemcpyAsync(s.row[0], SIZE, s.row[0] + CHUNK, SIZE - CHUNK,
                                   ACL_MEMCPY_DEVICE_TO_DEVICE, s.stream));
    fake_cuda_fail("cuMemcpyAsync", 2, CUDA_ERROR_OUT_OF_MEMORY, false);
    gate_end_to(gate, ACL_ERROR_RT_MEMORY_ALLOCATION);
    fake_cuda_fail(NULL, 0, 0, false);
}

/* Each GPU copies its own, and the host's has other addresses for a copy. */
static void a_row_of_several_memories_is_copied_and_filled(void **state)
{
    char *row = reserve(SIZE);

    for (size_t i = 0; i < N; i++)
        map(row + i * CHUNK, CHUNK,
            i % 3 == 2 ? alloc_host(CHUNK) : alloc_on((uint32_t)(i % 3), CHUNK));
    fill(s.host, SIZE, 9);
    move(row, s.host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, false);
    memset(s.host, 0, SIZE);
    move(s.host, row, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, false);
    assert_true(is_filled(s.host, SIZE, 9));
    move(row, s.host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, true);
    assert_pattern(row, SIZE, 9);
    assert_acl_ok(aclrtMemset(row, SIZE, 4, SIZE));
    assert_all_bytes(row, SIZE, 4);
    assert_no_context();
}

#define join_claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)

int main(void)
{
    const struct CMUnitTest tests[] = {
        join_claim(a_copy_over_many_handles_is_one_call),
        join_claim(a_fill_of_many_handles_is_one_call),
        join_claim(a_long_row_is_a_short_call_and_longer_ones),
        join_claim(a_row_is_copied_over_itself),
        join_claim(a_row_is_copied_from_its_second_addresses),
        join_claim(copies_of_a_batch_go_each_to_its_place),
        join_claim(a_handle_of_the_row_moves_before_the_copy),
        join_claim(a_handle_of_the_row_moves_before_the_fill),
        join_claim(a_row_of_several_memories_is_copied_and_filled),
        join_claim(a_copy_over_itself_that_fails_half_way_is_not_begun_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
