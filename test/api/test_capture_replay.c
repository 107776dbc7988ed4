/*
 * Replaying a captured model: nothing runs before the first replay, each replay reads
 * memory as it is then, and replays are ordered like other work of their stream.
 */
#include "support/blocks.h"
#include "support/capture.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4096

static aclError copy_async(void *dst, const void *src, size_t size, aclrtMemcpyKind kind,
                           aclrtStream stream)
{
    return aclrtMemcpyAsync(dst, size, src, size, kind, stream);
}

/* Queues dst = src within a device. */
static void move(void *dst, const void *src, aclrtStream stream)
{
    assert_acl_ok(copy_async(dst, src, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

static void set(void *dst, uint8_t byte, size_t size, aclrtStream stream)
{
    assert_acl_ok(aclrtMemsetAsync(dst, size, byte, size, stream));
}

static void set_now(void *dst, uint8_t byte)
{
    assert_acl_ok(aclrtMemset(dst, SIZE, byte, SIZE));
}

/* ---- one model ---- */

static void captured_work_runs_at_each_replay(void **state)
{
    char *a = device_malloc(SIZE), *b = device_malloc(SIZE), *c = device_malloc(SIZE);
    aclrtStream stream = make_stream();
    aclmdlRI model;

    set_now(a, 1);
    set_now(b, 2);
    set_now(c, 3);
    begin_capture(stream, GLOBAL);
    move(b, a, stream);
    set(c, 9, SIZE, stream);
    model = end_capture(stream);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_all_bytes(b, SIZE, 2);
    assert_all_bytes(c, SIZE, 3);
    for (uint8_t round = 10; round < 15; round++) {
        set_now(a, round);
        set_now(c, 0);
        replay(model, stream);
        assert_all_bytes(b, SIZE, round);
        assert_all_bytes(c, SIZE, 9);
    }
    end_model(model);
    end_stream(stream);
    device_free(a);
    device_free(b);
    device_free(c);
}

static void work_queued_before_the_capture_runs_as_usual(void **state)
{
    struct gate gate = GATE_INIT;
    char *a = device_malloc(SIZE);
    aclrtStream stream = make_stream();
    struct marks marks = MARKS_INIT;
    aclmdlRI model;

    set_now(a, 0);
    hold(stream, &gate);
    assert_acl_ok(mark_on(stream, &marks, 'b'));
    begin_capture(stream, GLOBAL);
    assert_acl_ok(mark_on(stream, &marks, 'c'));
    gate_open(&gate);
    marks_await(&marks, 1);
    model = end_capture(stream);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "b");
    replay(model, stream);
    assert_string_equal(marks_now(&marks), "bc");
    end_model(model);
    end_stream(stream);
    device_free(a);
}

static void a_replay_keeps_the_order_of_its_stream(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(mark_on(stream, &marks, 'x'));
    assert_acl_ok(mark_on(stream, &marks, 'y'));
    model = end_capture(stream);
    for (int i = 0; i < 3; i++) {
        assert_acl_ok(mark_on(stream, &marks, '('));
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        assert_acl_ok(mark_on(stream, &marks, ')'));
    }
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "(xy)(xy)(xy)");
    end_model(model);
    end_stream(stream);
}

static void an_empty_model_replays(void **state)
{
    aclrtStream stream = make_stream();
    aclmdlRI model;

    begin_capture(stream, RELAXED);
    model = end_capture(stream);
    replay(model, stream);
    replay(model, NULL);
    end_model(model);
    end_stream(stream);
}

static void a_model_runs_on_any_stream(void **state)
{
    char *a = device_malloc(SIZE);
    aclrtStream stream = make_stream(), other = make_stream();
    aclrtStream on[] = {stream, other, NULL};
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    set(a, 7, SIZE, stream);
    model = end_capture(stream);
    for (int i = 0; i < 3; i++) {
        set_now(a, 0);
        replay(model, on[i]);
        assert_all_bytes(a, SIZE, 7);
    }
    end_stream(stream);
    set_now(a, 0);
    replay(model, other);
    assert_all_bytes(a, SIZE, 7);
    end_model(model);
    end_stream(other);
    device_free(a);
}

struct replayer {
    aclrtContext context;
    aclmdlRI model;
    unsigned *count;
};

static void count_up(void *count)
{
    ++*(unsigned *)count; /* replays of one model never overlap */
}

static const char *replay_often(struct worker *self)
{
    struct replayer *r = self->shared;
    aclrtStream stream = NULL;

    worker_check(aclrtSetCurrentContext(r->context) == ACL_SUCCESS);
    worker_check(aclrtCreateStream(&stream) == ACL_SUCCESS);
    for (int i = 0; i < 50; i++)
        worker_check(aclmdlRIExecuteAsync(r->model, stream) == ACL_SUCCESS);
    worker_check(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    worker_check(aclrtDestroyStream(stream) == ACL_SUCCESS);
    return NULL;
}

static void replays_of_one_model_run_one_after_another(void **state)
{
    unsigned count = 0;
    struct replayer r = {.count = &count};
    struct worker workers[4];
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtGetCurrentContext(&r.context));
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtLaunchHostFunc(stream, count_up, &count));
    assert_acl_ok(aclrtLaunchHostFunc(stream, count_up, &count));
    r.model = end_capture(stream);
    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = replay_often, .shared = &r};
    assert_ptr_equal(run_workers(workers, 4), NULL);
    assert_int_equal(count, 4 * 50 * 2);
    end_model(r.model);
    end_stream(stream);
}

/* ---- every captured form of copies and fills ---- */

static void every_form_of_a_copy_is_captured(void **state)
{
    char *a = device_malloc(16 * KIB), *b = device_malloc(16 * KIB);
    char *in = host_malloc(16 * KIB), *out = host_malloc(16 * KIB);
    void *dsts[2] = {b + 8192, b + 9216}, *srcs[2] = {in + 8192, in + 9216};
    size_t sizes[2] = {512, 512}, at[2] = {0, 1}, fail = 0;
    aclrtMemcpyBatchAttr attrs[2];
    aclrtStream stream = make_stream();
    aclmdlRI model;

    memset(attrs, 0, sizeof attrs);
    for (int i = 0; i < 2; i++) {
        attrs[i].srcLoc = (aclrtMemLocation){0, ACL_MEM_LOCATION_TYPE_HOST};
        attrs[i].dstLoc = (aclrtMemLocation){0, ACL_MEM_LOCATION_TYPE_DEVICE};
    }
    assert_acl_ok(aclrtMemset(a, 16 * KIB, 0, 16 * KIB));
    assert_acl_ok(aclrtMemset(b, 16 * KIB, 0, 16 * KIB));
    memset(out, 0, 16 * KIB);
    begin_capture(stream, GLOBAL);
    assert_acl_ok(copy_async(a, in, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_acl_ok(aclrtMemcpy2dAsync(a + SIZE, 128, in + SIZE, 64, 64, 4,
                                     ACL_MEMCPY_HOST_TO_DEVICE, stream));
    assert_acl_ok(
        aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, attrs, at, 2, &fail, stream));
    move(b, a, stream);
    assert_acl_ok(aclrtMemsetD32Async(b + SIZE, SIZE, 0x05050505, SIZE / 4, stream));
    set(b + 2048, 6, 16, stream);
    assert_acl_ok(copy_async(out, b, 16 * KIB, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    model = end_capture(stream);
    for (uint64_t seed = 1; seed < 4; seed++) {
        fill((uint8_t *)in, 16 * KIB, seed);
        replay(model, stream);
        assert_memory_equal(out, in, 2048);
        assert_int_equal(out[2048], 6);
        assert_int_equal(out[SIZE], 5);
        assert_int_equal(out[2 * SIZE - 1], 5);
        assert_memory_equal(out + 8192, in + 8192, 512);
        assert_memory_equal(out + 9216, in + 9216, 512);
        for (size_t row = 0; row < 4; row++) {
            char bytes[64];

            assert_acl_ok(
                copy(bytes, a + SIZE + 128 * row, 64, ACL_MEMCPY_DEVICE_TO_HOST));
            assert_memory_equal(bytes, in + SIZE + 64 * row, 64);
        }
    }
    end_model(model);
    end_stream(stream);
    device_free(a);
    device_free(b);
    host_free(in);
    host_free(out);
}

/* ---- memory behind the addresses ---- */

/* Pinned memory that the program made inside the capture and wrote later. */
static void a_pinned_block_made_inside_the_capture_is_read_at_each_replay(void **state)
{
    char *device = device_malloc(SIZE), *more[32], *pinned;
    aclrtStream stream = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    pinned = host_malloc(SIZE);
    assert_acl_ok(copy_async(device, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    model = end_capture(stream);
    for (int i = 0; i < 32; i++) {
        more[i] = host_malloc(SIZE);
        memset(more[i], 0xee, SIZE);
    }
    for (uint64_t seed = 1; seed <= 5; seed++) {
        fill((uint8_t *)pinned, SIZE, seed);
        replay(model, stream);
        assert_pattern(device, SIZE, seed);
    }
    end_model(model);
    for (int i = 0; i < 32; i++)
        host_free(more[i]);
    host_free(pinned);
    end_stream(stream);
    device_free(device);
}

/* Sleep frees the physical memory, wake maps other memory at the same addresses. */
static void a_replay_uses_the_memory_that_is_mapped_when_it_runs(void **state)
{
    struct block a = block_create(CHUNK), b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    aclmdlRI model;

    put_pattern(a.va, CHUNK, 1);
    begin_capture(stream, GLOBAL);
    assert_acl_ok(copy_async(b.va, a.va, CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    model = end_capture(stream);
    for (uint64_t seed = 2; seed < 5; seed++) {
        replay(model, stream);
        assert_pattern(b.va, CHUNK, seed - 1);
        assert_acl_ok(aclrtUnmapMem(a.va));
        assert_acl_ok(aclrtFreePhysical(a.handle));
        assert_acl_ok(aclrtUnmapMem(b.va));
        assert_acl_ok(aclrtFreePhysical(b.handle));
        b.handle = alloc(CHUNK);
        a.handle = alloc(CHUNK);
        map(a.va, CHUNK, a.handle);
        map(b.va, CHUNK, b.handle);
        put_pattern(a.va, CHUNK, seed);
    }
    replay(model, stream);
    assert_pattern(b.va, CHUNK, 4);
    end_model(model);
    end_stream(stream);
    block_destroy(&a);
    block_destroy(&b);
}

static void a_replay_over_unmapped_memory_fails_and_names_the_address(void **state)
{
    struct block a = block_create(CHUNK);
    char *b = device_malloc(SIZE);
    aclrtStream stream = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    move(b, a.va, stream);
    model = end_capture(stream);
    assert_acl_ok(aclrtUnmapMem(a.va));
    assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_MODEL_EXECUTE);
    assert_message_has_address(a.va);
    map(a.va, CHUNK, a.handle);
    put_pattern(a.va, SIZE, 3);
    replay(model, stream);
    assert_pattern(b, SIZE, 3);
    end_model(model);
    end_stream(stream);
    device_free(b);
    block_destroy(&a);
}

enum { N_NEAR = 16, NEAR = 1024 };

/* Blocks of one size lie side by side, often in one mapping. */
static void a_replay_fails_at_the_block_that_was_freed(void **state)
{
    aclrtStream stream = make_stream();
    char *blocks[N_NEAR];
    char text[64];
    aclmdlRI model;

    for (int i = 0; i < N_NEAR; i++)
        blocks[i] = device_malloc(NEAR);
    begin_capture(stream, GLOBAL);
    for (int i = 0; i < N_NEAR; i++) {
        set(blocks[i], 1, NEAR / 2, stream);
        set(blocks[i] + NEAR / 2, 2, NEAR / 2, stream);
    }
    model = end_capture(stream);
    replay(model, stream);
    for (int i = 0; i < N_NEAR; i++) {
        assert_all_bytes(blocks[i], NEAR / 2, 1);
        assert_all_bytes(blocks[i] + NEAR / 2, NEAR / 2, 2);
    }
    for (int i = N_NEAR - 1; i >= 0; i--) {
        device_free(blocks[i]);
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_MODEL_EXECUTE);
        snprintf(text, sizeof text, "task %d,", 2 * i);
        assert_message_has(text);
    }
    end_model(model);
    end_stream(stream);
}

static void memory_that_a_model_names_can_be_freed_first(void **state)
{
    char *a = device_malloc(SIZE), *host = host_malloc(SIZE);
    struct block b = block_create(CHUNK);
    aclrtStream stream = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(copy_async(a, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    move(b.va, a, stream);
    model = end_capture(stream);
    replay(model, stream);
    device_free(a);
    host_free(host);
    block_destroy(&b);
    end_model(model);
    end_stream(stream);
}

/* ---- two models ---- */

static void two_models_share_memory_in_any_order(void **state)
{
    static const unsigned order[] = {1, 0, 0, 1};
    char *a = device_malloc(SIZE), *b = device_malloc(SIZE);
    aclrtStream stream = make_stream();
    aclmdlRI models[2];
    uint32_t ids[2] = {0, 0};

    for (uint8_t i = 0; i < 2; i++) {
        begin_capture(stream, GLOBAL);
        set(a, (uint8_t)(i + 1), SIZE, stream);
        move(b, a, stream);
        models[i] = end_capture(stream);
        assert_acl_ok(aclmdlRIGetId(models[i], &ids[i]));
    }
    assert_ptr_not_equal(models[0], models[1]);
    assert_int_not_equal(ids[0], ids[1]);
    for (int i = 0; i < 4; i++) {
        replay(models[order[i]], stream);
        assert_all_bytes(b, SIZE, (uint8_t)(order[i] + 1));
    }
    end_model(models[0]);
    replay(models[1], stream);
    assert_all_bytes(b, SIZE, 2);
    end_model(models[1]);
    end_stream(stream);
    device_free(a);
    device_free(b);
}

static void two_models_run_at_the_same_time(void **state)
{
    struct gate gates[2] = {GATE_INIT, GATE_INIT};
    aclrtStream streams[2];
    aclmdlRI models[2];

    for (int i = 0; i < 2; i++) {
        streams[i] = make_stream();
        begin_capture(streams[i], GLOBAL);
        assert_acl_ok(aclrtLaunchHostFunc(streams[i], gate_pass, &gates[i]));
        models[i] = end_capture(streams[i]);
        assert_acl_ok(aclmdlRIExecuteAsync(models[i], streams[i]));
    }
    gate_await(&gates[0], 1);
    gate_await(&gates[1], 1);
    for (int i = 0; i < 2; i++) {
        gate_open(&gates[i]);
        assert_acl_ok(aclrtSynchronizeStream(streams[i]));
        end_model(models[i]);
        end_stream(streams[i]);
    }
}

static void a_running_model_is_destroyed_after_its_run(void **state)
{
    struct marks marks = MARKS_INIT;
    char *a = device_malloc(8 * MIB);
    aclrtStream stream = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    for (int i = 0; i < 8; i++)
        assert_acl_ok(aclrtMemsetAsync(a, 8 * MIB, i, 8 * MIB, stream));
    assert_acl_ok(mark_on(stream, &marks, 'e'));
    model = end_capture(stream);
    assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
    end_model(model);
    assert_string_equal(marks_now(&marks), "e");
    assert_acl(aclmdlRIExecuteAsync(model, stream), ACL_ERROR_RT_INVALID_HANDLE);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_all_bytes(a, 8 * MIB, 7);
    end_stream(stream);
    device_free(a);
}

/* ---- host functions ---- */

static void many_host_functions_are_captured(void **state)
{
    enum { N = 10000 };
    unsigned count = 0;
    aclrtStream stream = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    for (int i = 0; i < N; i++)
        assert_acl_ok(aclrtLaunchHostFunc(stream, count_up, &count));
    model = end_capture(stream);
    assert_int_equal(count, 0);
    for (unsigned round = 1; round <= 3; round++) {
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        assert_acl_ok(aclrtSynchronizeDevice());
        assert_int_equal(count, round * N);
    }
    end_model(model);
    end_stream(stream);
}

struct reporter {
    aclrtStream stream;
    _Atomic int state; /* 1: subscribed; 2: the program is done */
    unsigned calls;
    struct gate ready;
};

static void be_called(void *arg)
{
    ((struct reporter *)arg)->calls++;
}

static const char *process_reports(struct worker *self)
{
    struct reporter *r = self->shared;

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtSubscribeReport((uint64_t)pthread_self(), r->stream) ==
                 ACL_SUCCESS);
    r->state = 1;
    gate_pass(&r->ready);
    while (r->state != 2) {
        aclError rc = aclrtProcessReport(100);

        worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_REPORT_TIMEOUT);
    }
    worker_check(aclrtUnSubscribeReport((uint64_t)pthread_self(), r->stream) ==
                 ACL_SUCCESS);
    return NULL;
}

static void captured_callbacks_run_in_the_subscribed_thread(void **state)
{
    enum { N = 200 };
    struct reporter r = {.stream = make_stream(), .ready = GATE_INIT};
    struct worker thread = {.run = process_reports, .shared = &r};
    aclmdlRI model;

    r.ready.is_open = true;
    assert_int_equal(worker_start(&thread), 0);
    gate_await(&r.ready, 1);
    begin_capture(r.stream, GLOBAL);
    for (int i = 0; i < N; i++)
        assert_acl_ok(aclrtLaunchCallback(be_called, &r, ACL_CALLBACK_BLOCK, r.stream));
    model = end_capture(r.stream);
    for (unsigned round = 1; round <= 5; round++) {
        assert_acl_ok(aclmdlRIExecuteAsync(model, r.stream));
        assert_acl_ok(aclrtSynchronizeDevice());
        assert_int_equal(r.calls, round * N);
    }
    r.state = 2;
    assert_ptr_equal(worker_join(&thread), NULL);
    end_model(model);
    end_stream(r.stream);
}

/* ---- nothing is left ---- */

static void ten_rounds_leave_nothing_behind(void **state)
{
    aclrtStream stream = make_stream(), side = make_stream();
    char *a = device_malloc(SIZE);
    uint32_t before = streams_available();
    struct snapshot memory = take_snapshot();

    for (int i = 0; i < 10; i++) {
        aclmdlRI model;

        begin_capture(stream, GLOBAL);
        order_after(side, stream);
        set(a, 1, SIZE, side);
        order_after(stream, side);
        model = end_capture(stream);
        assert_true(streams_available() < before);
        replay(model, stream);
        end_model(model);
        assert_int_equal(streams_available(), before);
        assert_unchanged(memory);
    }
    end_stream(stream);
    end_stream(side);
    device_free(a);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(captured_work_runs_at_each_replay),
        claim(work_queued_before_the_capture_runs_as_usual),
        claim_both(a_replay_keeps_the_order_of_its_stream),
        claim_both(an_empty_model_replays),
        claim_both(a_model_runs_on_any_stream),
        claim(replays_of_one_model_run_one_after_another),
        claim_both(every_form_of_a_copy_is_captured),
        claim_both(a_pinned_block_made_inside_the_capture_is_read_at_each_replay),
        claim_both(a_replay_uses_the_memory_that_is_mapped_when_it_runs),
        claim(a_replay_over_unmapped_memory_fails_and_names_the_address),
        claim_both(a_replay_fails_at_the_block_that_was_freed),
        claim_both(memory_that_a_model_names_can_be_freed_first),
        claim_both(two_models_share_memory_in_any_order),
        claim(two_models_run_at_the_same_time),
        claim_both(a_running_model_is_destroyed_after_its_run),
        claim(many_host_functions_are_captured),
        claim(captured_callbacks_run_in_the_subscribed_thread),
        claim_both(ten_rounds_leave_nothing_behind),
    };

    return run_claims(claims);
}
