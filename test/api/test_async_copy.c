/* Copies and fills on streams: their order, what they need, and what they keep alive. */
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdlib.h>
#include <string.h>

#define SIZE (64 * KIB)
#define LARGE (8 * MIB) /* not done by the caller, whatever the stream */

static uint8_t *pinned(size_t size)
{
    void *p = NULL;

    assert_acl_ok(aclrtMallocHost(&p, size));
    return p;
}

static void unpin(uint8_t *p)
{
    assert_acl_ok(aclrtFreeHost(p));
}

static aclError copy_async(void *dst, const void *src, size_t size, aclrtMemcpyKind kind,
                           aclrtStream stream)
{
    return aclrtMemcpyAsync(dst, size, src, size, kind, stream);
}

/* ---- in order ---- */

/*
 * Pinned to device, device to device, device to pinned; what is behind the gate has not
 * happened.
 */
static void copy_round(size_t size)
{
    struct gate gate = GATE_INIT;
    struct block a = block_create(LARGE), b = block_create(LARGE);
    uint8_t *from = pinned(size), *to = pinned(size);
    aclrtStream stream = make_stream();

    fill(from, size, 1);
    memset(to, 0, size);
    put_pattern(a.va, size, 2);
    hold(stream, &gate);
    assert_acl_ok(copy_async(a.va, from, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_acl_ok(copy_async(b.va, a.va, size, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    assert_acl_ok(copy_async(to, b.va, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    assert_pattern(a.va, size, 2);
    assert_int_equal(to[0], 0);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_true(is_filled(to, size, 1));
    unpin(from);
    unpin(to);
    end_stream(stream);
    block_destroy(&a);
    block_destroy(&b);
}

static void copies_come_in_their_turn(void **state)
{
    need_locked(64 * MIB);
    copy_round(SIZE);
    copy_round(LARGE);
}

static void a_short_copy_on_an_idle_stream_is_as_good(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t *from = pinned(4096), *to = pinned(4096);
    aclrtStream stream = make_stream();

    for (uint64_t i = 0; i < 100; i++) {
        fill(from, 4096, i);
        assert_acl_ok(copy_async(b.va, from, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        assert_acl_ok(copy_async(to, b.va, 4096, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        assert_acl_ok(aclrtSynchronizeStream(stream));
        assert_true(is_filled(to, 4096, i));
    }
    unpin(from);
    unpin(to);
    end_stream(stream);
    block_destroy(&b);
}

static void fills_come_in_their_turn(void **state)
{
    struct gate gate = GATE_INIT;
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();

    put_pattern(b.va, SIZE, 1);
    hold(stream, &gate);
    assert_acl_ok(aclrtMemsetAsync(b.va, SIZE, 0x11, SIZE, stream));
    assert_acl_ok(aclrtMemsetAsync(b.va, SIZE, 0x22, SIZE / 2, stream));
    assert_acl_ok(aclrtMemsetD32Async(b.va, SIZE, 0x33333333, SIZE / 16, stream));
    assert_pattern(b.va, SIZE, 1);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_all_bytes(b.va, SIZE / 4, 0x33);
    assert_all_bytes(b.va + SIZE / 4, SIZE / 4, 0x22);
    assert_all_bytes(b.va + SIZE / 2, SIZE / 2, 0x11);
    end_stream(stream);
    block_destroy(&b);
}

static void the_default_stream_copies_too(void **state)
{
    struct gate gate = GATE_INIT;
    struct block b = block_create(CHUNK);
    uint8_t *from = pinned(SIZE);

    fill(from, SIZE, 1);
    put_pattern(b.va, SIZE, 2);
    hold(NULL, &gate);
    assert_acl_ok(copy_async(b.va, from, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    assert_acl_ok(aclrtMemcpyAsyncWithCondition(b.va, SIZE, from, SIZE,
                                                ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    assert_pattern(b.va, SIZE, 2);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_pattern(b.va, SIZE, 1);
    unpin(from);
    block_destroy(&b);
}

static void a_copy_crosses_any_number_of_mappings(void **state)
{
    enum { N = 12 };
    aclrtDrvMemHandle handles[N];
    char *va = reserve(N * CHUNK);
    uint8_t *bytes = pinned(N * CHUNK - 2 * 4096);
    aclrtStream stream = make_stream();

    for (int i = 0; i < N; i++) {
        handles[i] = alloc(CHUNK);
        map(va + (size_t)i * CHUNK, CHUNK, handles[i]);
    }
    fill(bytes, N * CHUNK - 2 * 4096, 1);
    assert_acl_ok(copy_async(va + 4096, bytes, N * CHUNK - 2 * 4096,
                             ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_pattern(va + 4096, N * CHUNK - 2 * 4096, 1);
    for (int i = 0; i < N; i++) {
        assert_acl_ok(aclrtUnmapMem(va + (size_t)i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
    unpin(bytes);
    end_stream(stream);
}

/* ---- pageable memory ---- */

struct pageable {
    aclrtContext context;
    aclrtStream stream;
    char *device;
    aclrtMemcpyKind kind;
    uint8_t *bytes;
};

static const char *copy_and_reuse(struct worker *self)
{
    struct pageable *p = self->shared;

    worker_check(aclrtSetCurrentContext(p->context) == ACL_SUCCESS);
    worker_check(copy_async(p->device, p->bytes, SIZE, p->kind, p->stream) ==
                 ACL_SUCCESS);
    memset(p->bytes, 0, SIZE);
    return NULL;
}

/* Until the thread's copy stands behind the gate. */
static void await_two_tasks(aclrtStream stream)
{
    do
        assert_acl(aclrtSynchronizeStreamWithTimeout(stream, 1),
                   ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    while (strstr(kept_message(), "has 2 tasks") == NULL);
}

static void copy_behind_a_gate(aclrtMemcpyKind kind, uint8_t *bytes)
{
    struct pageable p;
    struct gate gate = GATE_INIT;
    struct block b = block_create(CHUNK);
    struct worker worker = {.run = copy_and_reuse, .shared = &p};

    p = (struct pageable){
        .stream = make_stream(), .device = b.va, .kind = kind, .bytes = bytes};
    assert_acl_ok(aclrtGetCurrentContext(&p.context));
    fill(p.bytes, SIZE, 1);
    hold(p.stream, &gate);
    assert_int_equal(worker_start(&worker), 0);
    await_two_tasks(p.stream);
    gate_open(&gate);
    assert_ptr_equal(worker_join(&worker), NULL);
    assert_true(is_idle(p.stream));
    assert_pattern(b.va, SIZE, 1);
    end_stream(p.stream);
    block_destroy(&b);
}

static void pageable_memory_is_free_when_the_call_returns(void **state)
{
    static uint8_t bytes[SIZE];

    copy_behind_a_gate(ACL_MEMCPY_HOST_TO_DEVICE, bytes);
    copy_behind_a_gate(ACL_MEMCPY_DEFAULT, bytes);
}

static void so_is_any_memory_that_is_copied_by_a_buffer(void **state)
{
    uint8_t *bytes = pinned(SIZE);

    copy_behind_a_gate(ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, bytes);
    unpin(bytes);
}

static const char *copy_only(struct worker *self)
{
    struct pageable *p = self->shared;

    worker_check(aclrtSetCurrentContext(p->context) == ACL_SUCCESS);
    worker_check(copy_async(p->device, p->bytes, SIZE, p->kind, p->stream) ==
                 ACL_SUCCESS);
    return NULL;
}

/* What others queue behind it, and never ends, is none of its business. */
static void a_copy_that_is_waited_for_waits_for_nothing_later(void **state)
{
    static uint8_t bytes[SIZE];
    struct gate first = GATE_INIT, second = GATE_INIT;
    struct block b = block_create(CHUNK);
    struct pageable p = {.stream = make_stream(),
                         .device = b.va,
                         .kind = ACL_MEMCPY_HOST_TO_DEVICE,
                         .bytes = bytes};
    struct worker worker = {.run = copy_only, .shared = &p};

    assert_acl_ok(aclrtGetCurrentContext(&p.context));
    fill(bytes, SIZE, 1);
    hold(p.stream, &first);
    assert_int_equal(worker_start(&worker), 0);
    await_two_tasks(p.stream);
    assert_acl_ok(aclrtLaunchHostFunc(p.stream, gate_pass, &second));
    gate_open(&first);
    assert_ptr_equal(worker_join(&worker), NULL);
    assert_pattern(b.va, SIZE, 1);
    gate_open(&second);
    end_stream(p.stream);
    block_destroy(&b);
}

static void pageable_memory_is_written_when_the_call_returns(void **state)
{
    struct block b = block_create(LARGE);
    uint8_t *bytes = calloc(1, LARGE);
    aclrtStream stream = make_stream();

    assert_non_null(bytes);
    put_pattern(b.va, LARGE, 1);
    assert_acl_ok(copy_async(bytes, b.va, LARGE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    assert_true(is_filled(bytes, LARGE, 1));
    end_stream(stream);
    free(bytes);
    block_destroy(&b);
}

/* Long ones are done by several workers: nothing is missing where their pieces meet. */
static void a_long_copy_is_whole(void **state)
{
    const size_t size = 50 * MIB + 12345, at = 777;
    struct block b = block_create(52 * MIB);
    uint8_t *from = pinned(size), *to = pinned(size);
    aclrtStream stream = make_stream();

    fill(from, size, 1);
    memset(to, 0, size);
    assert_acl_ok(copy_async(b.va + at, from, size, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_acl_ok(copy_async(to, b.va + at, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_true(is_filled(to, size, 1));
    memset(to, 0, size);
    fill(from, size, 2);
    assert_acl_ok(aclrtMemcpy(b.va + at, size, from, size, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(aclrtMemcpy(to, size, b.va + at, size, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(is_filled(to, size, 2));
    end_stream(stream);
    unpin(from);
    unpin(to);
    block_destroy(&b);
}

/* ---- refusals ---- */

static void wrong_arguments_are_refused(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    uint8_t *h = pinned(64);
    aclError bad = ACL_ERROR_INVALID_PARAM;

    assert_refused(aclrtMemcpyAsync(NULL, 64, h, 64, 1, stream), bad, "dst is NULL");
    assert_refused(aclrtMemcpyAsync(b.va, 64, NULL, 64, 1, stream), bad, "src is NULL");
    assert_refused(aclrtMemcpyAsync(b.va, 64, h, 0, 1, stream), bad, "count is 0");
    assert_refused(aclrtMemcpyAsync(b.va, 63, h, 64, 1, stream), bad, "destMax 63");
    assert_refused(aclrtMemcpyAsync(b.va, 64, h, 64, (aclrtMemcpyKind)8, stream), bad,
                   "kind is 8");
    assert_refused(aclrtMemcpyAsyncWithCondition(NULL, 64, h, 64, 1, stream), bad,
                   "dst is NULL");
    assert_refused(aclrtMemsetAsync(NULL, 64, 0, 64, stream), bad, "devPtr is NULL");
    assert_refused(aclrtMemsetAsync(b.va, 64, 0, 0, stream), bad, "count is 0");
    assert_refused(aclrtMemsetAsync(b.va, 63, 0, 64, stream), bad, "maxCount 63");
    assert_refused(aclrtMemsetD32Async(NULL, 64, 0, 16, stream), bad, "ptr is NULL");
    assert_refused(aclrtMemsetD32Async(b.va, 64, 0, 17, stream), bad, "N is 17");
    assert_refused(aclrtMemsetD32Async(b.va, 64, 0, 0, stream), bad, "N is 0");
    assert_true(is_idle(stream));
    end_stream(stream);
    bad = ACL_ERROR_RT_INVALID_HANDLE;
    assert_refused(copy_async(b.va, h, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream), bad,
                   "stream");
    assert_refused(aclrtMemsetAsync(b.va, 64, 0, 64, stream), bad, "stream");
    assert_refused(aclrtMemsetD32Async(b.va, 64, 0, 16, stream), bad, "stream");
    unpin(h);
    block_destroy(&b);
}

static void a_hole_is_refused_and_nothing_moves(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    char *va = reserve(2 * CHUNK);
    uint8_t *bytes = pinned(2 * 4096);
    aclrtStream stream = make_stream();

    map(va, CHUNK, handle);
    put_pattern(va, CHUNK, 1);
    fill(bytes, 2 * 4096, 2);
    assert_refused(
        copy_async(va + CHUNK - 4096, bytes, 2 * 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream),
        ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped");
    assert_refused(
        copy_async(bytes, va + CHUNK - 4096, 2 * 4096, ACL_MEMCPY_DEVICE_TO_HOST, stream),
        ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped");
    assert_refused(aclrtMemsetAsync(va + CHUNK - 4096, 2 * 4096, 0, 2 * 4096, stream),
                   ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped");
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_pattern(va, CHUNK, 1);
    assert_true(is_filled(bytes, 2 * 4096, 2));
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
    unpin(bytes);
    end_stream(stream);
}

static void two_host_sides_are_not_for_streams(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t *from = pinned(64), *to = pinned(64);

    assert_refused(copy_async(to, from, 64, ACL_MEMCPY_HOST_TO_HOST, NULL),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "HOST_TO_HOST");
    assert_refused(copy_async(b.va, from, 64, ACL_MEMCPY_HOST_TO_HOST, NULL),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "HOST_TO_HOST");
    assert_refused(copy_async(to, from, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "both sides are host memory");
    unpin(from);
    unpin(to);
    block_destroy(&b);
}

static void strict_rules_want_alignment_and_pinned_memory(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t *h = pinned(256);
    _Alignas(64) static uint8_t plain[64];

    assert_refused(copy_async(b.va + 32, h, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL),
                   ACL_ERROR_RT_ADDR_UNALIGNED, "strict");
    assert_refused(copy_async(b.va, h + 4, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL),
                   ACL_ERROR_RT_ADDR_UNALIGNED, "strict");
    assert_refused(copy_async(b.va, plain, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL),
                   ACL_ERROR_RT_PARAM_INVALID, "aclrtMallocHost");
    assert_refused(copy_async(plain, b.va, 64, ACL_MEMCPY_DEVICE_TO_HOST, NULL),
                   ACL_ERROR_RT_PARAM_INVALID, "aclrtMallocHost");
    assert_acl_ok(copy_async(b.va, h, 64, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    unpin(h);
    block_destroy(&b);
}

/* As aclrtMemcpy: the kind that matches the addresses, or DEFAULT. */
static void strict_rules_want_the_right_kind(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t *h = pinned(256);
    void *const dst[] = {b.va, h, b.va + 64}, *const src[] = {h, b.va, b.va};

    fill(h, 256, 1);
    for (int i = 0; i < 3; i++) {
        for (int kind = ACL_MEMCPY_HOST_TO_DEVICE;
             kind <= ACL_MEMCPY_INTER_DEVICE_TO_DEVICE; kind++) {
            if (kind != ACL_MEMCPY_HOST_TO_DEVICE + i && kind != ACL_MEMCPY_DEFAULT)
                assert_refused(
                    copy_async(dst[i], src[i], 64, (aclrtMemcpyKind)kind, NULL),
                    ACL_ERROR_RT_PARAM_INVALID, "strict");
            else
                assert_acl_ok(
                    copy_async(dst[i], src[i], 64, (aclrtMemcpyKind)kind, NULL));
        }
    }
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    unpin(h);
    block_destroy(&b);
}

static void default_rules_want_neither(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t bytes[100], back[100] = {0};

    fill(bytes, 100, 1);
    assert_acl_ok(copy_async(b.va + 3, bytes, 100, ACL_MEMCPY_HOST_TO_DEVICE, NULL));
    assert_acl_ok(copy_async(back, b.va + 3, 100, ACL_MEMCPY_DEFAULT, NULL));
    assert_memory_equal(bytes, back, 100);
    block_destroy(&b);
}

/* ---- two devices ---- */

static void between_devices_peer_access_decides(void **state)
{
    struct block here = block_create(CHUNK),
                 there = {.size = CHUNK, .handle = alloc_on(1, CHUNK)};
    aclrtStream stream = make_stream();

    there.va = reserve(CHUNK);
    map(there.va, CHUNK, there.handle);
    put_pattern(here.va, CHUNK, 1);
    assert_refused(
        copy_async(there.va, here.va, CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
        ACL_ERROR_RT_PARAM_INVALID, "aclrtDeviceEnablePeerAccess");
    assert_true(is_idle(stream));
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(
        copy_async(there.va, here.va, CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_pattern(there.va, CHUNK, 1);
    end_stream(stream);
    block_destroy(&here);
    block_destroy(&there);
}

/* ---- memory that goes away ---- */

/*
 * Everything else on the device is taken and filled, then the copy runs: what it writes
 * must still be nobody else's.
 */
static void memory_that_is_to_be_written_is_not_allocated_again(void **state)
{
    struct gate gate = GATE_INIT;
    struct block b, rest;
    uint8_t *bytes;
    aclrtStream stream;

    need_locked(64 * MIB);
    b = block_create(64 * MIB);
    bytes = pinned(64 * MIB);
    stream = make_stream();
    fill(bytes, 64 * MIB, 1);
    put_pattern(b.va, 64 * MIB, 5);
    hold(stream, &gate);
    assert_acl_ok(copy_async(b.va, bytes, 64 * MIB, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    block_destroy(&b);
    assert_int_equal(free_memory(), GIB - 64 * MIB); /* the work still has it */
    rest = block_create(GIB - 64 * MIB);
    for (size_t at = 0; at < rest.size; at += 4 * MIB)
        put_pattern(rest.va + at, 4096, at);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    for (size_t at = 0; at < rest.size; at += 4 * MIB)
        assert_pattern(rest.va + at, 4096, at);
    assert_int_equal(free_memory(), 64 * MIB);
    block_destroy(&rest);
    assert_int_equal(free_memory(), GIB);
    unpin(bytes);
    end_stream(stream);
}

static void a_copy_reads_what_was_there_when_it_was_queued(void **state)
{
    struct gate gate = GATE_INIT;
    struct block b;
    aclrtDrvMemHandle other;
    uint8_t *bytes;
    aclrtStream stream;

    need_locked(2 * CHUNK);
    b = block_create(CHUNK);
    other = alloc(CHUNK);
    bytes = pinned(CHUNK);
    stream = make_stream();
    put_pattern(b.va, CHUNK, 1);
    hold(stream, &gate);
    assert_acl_ok(copy_async(bytes, b.va, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    assert_acl_ok(aclrtUnmapMem(b.va)); /* the address means other memory from now on */
    assert_acl_ok(aclrtFreePhysical(b.handle));
    map(b.va, CHUNK, other);
    put_pattern(b.va, CHUNK, 2);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_true(is_filled(bytes, CHUNK, 1));
    assert_pattern(b.va, CHUNK, 2);
    b.handle = other;
    block_destroy(&b);
    unpin(bytes);
    end_stream(stream);
}

static void freed_host_memory_is_nobodys_until_the_copy_is_done(void **state)
{
    enum { N = 64 };
    struct gate gate = GATE_INIT;
    struct block b = block_create(CHUNK);
    uint8_t *bytes = pinned(SIZE), *others[N];
    aclrtStream stream = make_stream();

    put_pattern(b.va, SIZE, 1);
    hold(stream, &gate);
    assert_acl_ok(copy_async(bytes, b.va, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    unpin(bytes);
    for (int i = 0; i < N; i++) {
        others[i] = pinned(SIZE);
        fill(others[i], SIZE, 2 + (uint64_t)i);
    }
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    for (int i = 0; i < N; i++) {
        assert_true(is_filled(others[i], SIZE, 2 + (uint64_t)i));
        unpin(others[i]);
    }
    end_stream(stream);
    block_destroy(&b);
}

static void a_reset_does_the_copies_first(void **state)
{
    struct block b = block_create(CHUNK);
    uint8_t *from = pinned(CHUNK), *to = pinned(CHUNK);
    aclrtStream stream = make_stream();

    fill(from, CHUNK, 1);
    memset(to, 0, CHUNK);
    for (int i = 0; i < 10; i++) {
        assert_acl_ok(copy_async(b.va, from, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        assert_acl_ok(copy_async(to, b.va, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    }
    assert_acl_ok(aclrtResetDevice(0));
    assert_true(is_filled(to, CHUNK, 1));
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), GIB);
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
    unpin(from);
    unpin(to);
    allow_warnings();
}

static const char *force_reset(struct worker *self)
{
    worker_check(aclrtResetDeviceForce(0) == ACL_SUCCESS);
    return NULL;
}

static void a_forced_reset_drops_work_that_has_not_begun(void **state)
{
    struct worker worker = {.run = force_reset};
    struct gate gate = GATE_INIT;
    struct block b = block_create(CHUNK);
    uint8_t *to = pinned(CHUNK);
    aclrtStream stream = make_stream();

    put_pattern(b.va, CHUNK, 1);
    memset(to, 0, CHUNK);
    hold(stream, &gate);
    assert_acl_ok(copy_async(to, b.va, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    assert_int_equal(worker_start(&worker), 0);
    await_closing(stream);
    gate_open(&gate); /* the reset waits for the function that runs, and for no copy */
    assert_ptr_equal(worker_join(&worker), NULL);
    assert_int_equal(to[0], 0);
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), GIB);
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
    unpin(to);
    allow_warnings();
}

/* Dropped with its stream's work, it must not look as if it had been done. */
static void a_copy_that_is_waited_for_says_when_it_was_dropped(void **state)
{
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    char here[64];

    memset(here, 7, sizeof(here));
    put_pattern(b.va, b.size, 1);
    assert_acl_ok(aclrtStreamStop(stream));
    assert_acl(aclrtMemcpyAsync(b.va, b.size, here, sizeof(here),
                                ACL_MEMCPY_HOST_TO_DEVICE, stream),
               ACL_ERROR_RT_STREAM_ABORT);
    assert_message_has("nothing was copied");
    assert_pattern(b.va, b.size, 1);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void host_memory_is_filled_by_words_at_once(void **state)
{
    aclrtStream stream = make_stream();
    aclrtEvent event;
    uint32_t *host = NULL;

    assert_acl_ok(aclrtCreateEvent(&event));
    assert_acl_ok(aclrtMallocHost((void **)&host, 64));
    assert_acl_ok(aclrtStreamWaitEvent(stream, event)); /* nobody has recorded it */
    assert_acl_ok(aclrtMemsetD32Async(host, 64, 0x01020304, 16, stream));
    assert_int_equal(host[0], 0x01020304);
    assert_int_equal(host[15], 0x01020304);
    assert_acl_ok(aclrtMemsetD32(host, 64, 5, 16));
    assert_int_equal(host[15], 5);
    assert_acl_ok(aclrtRecordEvent(event, NULL));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtFreeHost(host));
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtDestroyStream(stream));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(copies_come_in_their_turn),
        claim_both(a_short_copy_on_an_idle_stream_is_as_good),
        claim_both(fills_come_in_their_turn),
        claim_both(the_default_stream_copies_too),
        claim(a_copy_crosses_any_number_of_mappings),
        claim(pageable_memory_is_free_when_the_call_returns),
        claim(a_copy_that_is_waited_for_waits_for_nothing_later),
        claim(a_copy_that_is_waited_for_says_when_it_was_dropped),
        claim_both(host_memory_is_filled_by_words_at_once),
        claim(so_is_any_memory_that_is_copied_by_a_buffer),
        claim(pageable_memory_is_written_when_the_call_returns),
        claim_both(wrong_arguments_are_refused),
        claim(a_hole_is_refused_and_nothing_moves),
        claim_both(two_host_sides_are_not_for_streams),
        claim_strict(strict_rules_want_alignment_and_pinned_memory),
        claim(a_long_copy_is_whole),
        claim_strict(strict_rules_want_the_right_kind),
        claim(default_rules_want_neither),
        claim_both(between_devices_peer_access_decides),
        claim_both(memory_that_is_to_be_written_is_not_allocated_again),
        claim_both(a_copy_reads_what_was_there_when_it_was_queued),
        claim(freed_host_memory_is_nobodys_until_the_copy_is_done),
        claim(a_reset_does_the_copies_first),
        claim(a_forced_reset_drops_work_that_has_not_begun),
    };

    return run_claims(claims);
}
