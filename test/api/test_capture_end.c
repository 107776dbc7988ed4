/*
 * A device, a context, a stream or the process ends while models are captured, half
 * captured or running: nothing hangs and nothing is left.
 */
#include "support/blocks.h"
#include "support/capture.h"
#include "support/peer.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE (64 * KIB)

static char *memory;
static aclrtStream stream, side, runs;
static aclmdlRI model;

/* One model captured, the same model running, and a capture under way. */
static void make_everything(void)
{
    memory = device_malloc(8 * MIB);
    stream = make_stream();
    side = make_stream();
    runs = make_stream();
    begin_capture(stream, GLOBAL);
    for (int i = 0; i < 8; i++)
        assert_acl_ok(aclrtMemsetAsync(memory, 8 * MIB, i, 8 * MIB, stream));
    model = end_capture(stream);
    for (int i = 0; i < 4; i++)
        assert_acl_ok(aclmdlRIExecuteAsync(model, runs));
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, stream));
    order_after(side, stream);
    assert_acl_ok(aclrtMemsetAsync(memory, SIZE, 2, SIZE, side));
}

static void a_device_is_reset_under_models(void **state)
{
    uint32_t before = streams_available();

    allow_warnings();
    make_everything();
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(streams_available(), before);
    assert_acl(aclmdlRIDestroy(model), ACL_ERROR_RT_INVALID_HANDLE);
    stream = make_stream();
    begin_capture(stream, GLOBAL);
    end_model(end_capture(stream));
    end_stream(stream);
}

static void a_device_is_reset_by_force_under_models(void **state)
{
    allow_warnings();
    make_everything();
    assert_acl_ok(aclrtResetDeviceForce(0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl(aclmdlRIDestroy(model), ACL_ERROR_RT_INVALID_HANDLE);
}

static void the_library_is_finalized_under_models(void **state)
{
    for (int i = 0; i < 3; i++) {
        start("default");
        allow_warnings();
        assert_acl_ok(aclrtSetDevice(0));
        make_everything();
        assert_acl_ok(aclFinalize());
    }
}

/* The rule of an unsafe call ends with the capture, however the capture ends. */
static void a_capture_that_a_reset_ends_forbids_nothing(void **state)
{
    allow_warnings();
    make_everything();
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtSetDevice(0));
    memory = device_malloc(SIZE);
    assert_acl_ok(aclrtMemset(memory, SIZE, 1, SIZE));
    assert_acl_ok(aclrtSynchronizeDevice());
    device_free(memory);
}

/* The stream that began a capture is destroyed: the capture is over, without a model. */
static void destroy_origin(aclError (*destroy)(aclrtStream))
{
    uint32_t before = streams_available();

    memory = device_malloc(SIZE);
    assert_acl_ok(aclrtMemset(memory, SIZE, 0, SIZE));
    stream = make_stream();
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, stream));
    model = captured_into(stream);
    assert_acl_ok(destroy(stream));
    assert_acl(aclmdlRIDestroy(model), ACL_ERROR_RT_INVALID_HANDLE);
    assert_int_equal(streams_available(), before);
    assert_all_bytes(memory, SIZE, 0);
    device_free(memory);
}

static void a_capture_ends_with_the_stream_that_began_it(void **state)
{
    destroy_origin(aclrtDestroyStream);
    destroy_origin(aclrtDestroyStreamForce);
}

static void a_context_ends_with_its_capture(void **state)
{
    aclrtContext own, context = NULL;

    allow_warnings();
    assert_acl_ok(aclrtGetCurrentContext(&own));
    context = make_context(0);
    assert_acl_ok(aclrtSetCurrentContext(context));
    memory = device_malloc(SIZE);
    stream = make_stream();
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, stream));
    assert_acl_ok(aclrtSetCurrentContext(own));
    assert_acl_ok(aclrtDestroyContext(context));
    assert_acl_ok(aclrtMemset(memory, SIZE, 1, SIZE));
    device_free(memory);
}

/* ---- a failed task ---- */

static void a_failed_replay_reports_and_the_next_one_works(void **state)
{
    struct block a = block_create(CHUNK);

    memory = device_malloc(SIZE);
    stream = make_stream();
    begin_capture(stream, GLOBAL);
    assert_acl_ok(
        aclrtMemcpyAsync(memory, SIZE, a.va, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    model = end_capture(stream);
    assert_acl_ok(aclrtUnmapMem(a.va));
    for (int i = 0; i < 3; i++) {
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_MODEL_EXECUTE);
    }
    map(a.va, CHUNK, a.handle);
    replay(model, stream);
    end_model(model);
    end_stream(stream);
    device_free(memory);
    block_destroy(&a);
}

static void an_aborted_stream_drops_its_replays(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;

    stream = make_stream();
    begin_capture(stream, GLOBAL);
    assert_acl_ok(mark_on(stream, &marks, 'm'));
    model = end_capture(stream);
    hold(stream, &gate);
    assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
    assert_acl_ok(aclrtStreamAbort(stream));
    gate_open(&gate);
    (void)aclrtSynchronizeStream(stream);
    assert_string_equal(marks_now(&marks), "");
    replay(model, stream);
    assert_string_equal(marks_now(&marks), "m");
    end_model(model);
    end_stream(stream);
}

/* ---- processes ---- */

static void a_forked_child_is_refused_and_the_parent_replays(void **state)
{
    int status = -1;
    pid_t pid;

    allow_warnings();
    make_everything();
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        aclmdlRI ended = NULL;

        if (aclmdlRIExecuteAsync(model, runs) != ACL_ERROR_RT_FEATURE_NOT_SUPPORT ||
            aclmdlRICaptureEnd(stream, &ended) != ACL_ERROR_RT_FEATURE_NOT_SUPPORT ||
            aclmdlRIDestroy(model) != ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
            _exit(1);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    order_after(stream, side);
    end_model(end_capture(stream));
    replay(model, runs);
    assert_all_bytes(memory, 8 * MIB, 7);
    end_model(model);
    end_stream(stream);
    end_stream(side);
    end_stream(runs);
    device_free(memory);
}

/* The program again: it ends without aclFinalize. */
static int end_as(void)
{
    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    make_everything();
    exit(7);
}

static void a_process_ends_with_models(void **state)
{
    assert_int_equal(run_self_silently("exit"), 7);
}

/* The program again: it holds models until it is killed. */
static int hold_models(void)
{
    uint64_t number;

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    make_everything();
    while (peer_next(&number))
        peer_answer(number);
    return 0;
}

static void a_killed_process_leaves_the_device_usable(void **state)
{
    struct peer other;
    size_t before;

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    other = peer_start("hold");
    assert_int_equal(peer_ask(&other, 1), 1);
    before = free_memory();
    peer_kill(&other, SIGKILL);
    assert_true(free_memory() > before);
    stream = make_stream();
    begin_capture(stream, GLOBAL);
    end_model(end_capture(stream));
    end_stream(stream);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        claim(a_device_is_reset_under_models),
        claim(a_device_is_reset_by_force_under_models),
        claim_alone(the_library_is_finalized_under_models),
        claim(a_capture_that_a_reset_ends_forbids_nothing),
        claim_both(a_capture_ends_with_the_stream_that_began_it),
        claim(a_context_ends_with_its_capture),
        claim_both(a_failed_replay_reports_and_the_next_one_works),
        claim_both(an_aborted_stream_drops_its_replays),
        claim(a_forked_child_is_refused_and_the_parent_replays),
        claim_alone(a_process_ends_with_models),
        claim_alone(a_killed_process_leaves_the_device_usable),
    };

    if (argc == 2)
        return strcmp(argv[1], "hold") == 0 ? hold_models() : end_as();
    return run_claims(claims);
}
