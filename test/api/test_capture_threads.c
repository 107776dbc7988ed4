/*
 * Threads that capture, replay and destroy models beside threads that do other work: no
 * call of one thread changes a result of another.
 */
#include "support/blocks.h"
#include "support/capture.h"
#include "support/process.h"
#include "support/work.h"

#include <stdatomic.h>
#include <string.h>

enum { ROUNDS = 60, SIZE = 256 };

static aclrtContext context;

static bool is_filled_with(const uint8_t *bytes, uint8_t byte)
{
    for (size_t i = 0; i < SIZE; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

/* What a thread works on. */
struct own {
    aclrtStream stream, side;
    aclrtEvent event;
    uint8_t *device;
    uint8_t *pinned;
};

static bool own_open(struct own *own)
{
    return aclrtSetCurrentContext(context) == ACL_SUCCESS &&
           aclrtCreateStream(&own->stream) == ACL_SUCCESS &&
           aclrtCreateStream(&own->side) == ACL_SUCCESS &&
           aclrtCreateEventExWithFlag(&own->event, ACL_EVENT_SYNC) == ACL_SUCCESS &&
           aclrtMalloc((void **)&own->device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST) ==
               ACL_SUCCESS &&
           aclrtMallocHost((void **)&own->pinned, SIZE) == ACL_SUCCESS;
}

static bool own_close(struct own *own)
{
    return aclrtDestroyEvent(own->event) == ACL_SUCCESS &&
           aclrtDestroyStream(own->side) == ACL_SUCCESS &&
           aclrtDestroyStream(own->stream) == ACL_SUCCESS &&
           aclrtFree(own->device) == ACL_SUCCESS &&
           aclrtFreeHost(own->pinned) == ACL_SUCCESS;
}

static bool capture_round(struct own *own, uint8_t byte, aclmdlRI *ret_model)
{
    return aclmdlRICaptureBegin(own->stream, THREAD_LOCAL) == ACL_SUCCESS &&
           aclrtMemsetAsync(own->device, SIZE, byte, SIZE, own->stream) == ACL_SUCCESS &&
           aclrtRecordEvent(own->event, own->stream) == ACL_SUCCESS &&
           aclrtStreamWaitEvent(own->side, own->event) == ACL_SUCCESS &&
           aclrtMemcpyAsync(own->pinned, SIZE, own->device, SIZE,
                            ACL_MEMCPY_DEVICE_TO_HOST, own->side) == ACL_SUCCESS &&
           aclrtRecordEvent(own->event, own->side) == ACL_SUCCESS &&
           aclrtStreamWaitEvent(own->stream, own->event) == ACL_SUCCESS &&
           aclmdlRICaptureEnd(own->stream, ret_model) == ACL_SUCCESS;
}

static const char *capture_and_replay(struct worker *self)
{
    struct own own;

    worker_check(own_open(&own));
    for (uint8_t round = 1; round <= ROUNDS; round++) {
        aclmdlRI model = NULL;

        worker_check(capture_round(&own, round, &model));
        for (int i = 0; i < 3; i++) {
            memset(own.pinned, 0, SIZE);
            worker_check(aclmdlRIExecuteAsync(model, own.stream) == ACL_SUCCESS);
            worker_check(aclrtSynchronizeStream(own.stream) == ACL_SUCCESS);
            worker_check(is_filled_with(own.pinned, round));
        }
        worker_check(aclmdlRIExecuteAsync(model, own.side) == ACL_SUCCESS);
        worker_check(aclmdlRIDestroy(model) == ACL_SUCCESS);
        worker_check(aclrtSynchronizeStream(own.side) == ACL_SUCCESS);
    }
    worker_check(own_close(&own));
    return NULL;
}

/* Eager work, also the unsafe calls that captures of other threads do not forbid. */
static const char *work_eagerly(struct worker *self)
{
    aclmdlRICaptureStatus status;
    struct own own;
    aclmdlRI model;

    worker_check(own_open(&own));
    for (uint8_t round = 1; round <= ROUNDS; round++) {
        worker_check(aclrtMemset(own.device, SIZE, round, SIZE) == ACL_SUCCESS);
        worker_check(aclrtMemcpyAsync(own.pinned, SIZE, own.device, SIZE,
                                      ACL_MEMCPY_DEVICE_TO_HOST,
                                      own.stream) == ACL_SUCCESS);
        worker_check(aclrtRecordEvent(own.event, own.stream) == ACL_SUCCESS);
        worker_check(aclmdlRICaptureGetInfo(own.stream, &status, &model) == ACL_SUCCESS);
        worker_check(status == NOT_CAPTURING);
        worker_check(aclrtSynchronizeEvent(own.event) == ACL_SUCCESS);
        worker_check(is_filled_with(own.pinned, round));
    }
    worker_check(own_close(&own));
    return NULL;
}

static void captures_of_threads_do_not_disturb_each_other(void **state)
{
    enum { N = 6 };
    struct worker workers[N];
    uint32_t before = streams_available();

    assert_acl_ok(aclrtGetCurrentContext(&context));
    for (unsigned i = 0; i < N; i++)
        workers[i] =
            (struct worker){.run = i % 3 == 2 ? work_eagerly : capture_and_replay};
    assert_ptr_equal(run_workers(workers, N), NULL);
    assert_int_equal(streams_available(), before);
}

/* Threads that replay, ask and print one model, and one that destroys it at the end. */
static aclmdlRI shared_model;
static unsigned n_runs;

static void count_run(void *arg)
{
    n_runs++; /* replays of a model run one after another */
}

static const char *replay_shared(struct worker *self)
{
    struct own own;
    uint32_t id;

    worker_check(own_open(&own));
    for (int i = 0; i < ROUNDS; i++) {
        worker_check(aclmdlRIExecuteAsync(shared_model, own.stream) == ACL_SUCCESS);
        worker_check(aclmdlRIGetId(shared_model, &id) == ACL_SUCCESS);
    }
    worker_check(aclrtSynchronizeStream(own.stream) == ACL_SUCCESS);
    worker_check(own_close(&own));
    return NULL;
}

static void threads_replay_one_model(void **state)
{
    struct worker workers[4];
    aclrtStream stream = make_stream();

    n_runs = 0;
    assert_acl_ok(aclrtGetCurrentContext(&context));
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtLaunchHostFunc(stream, count_run, NULL));
    shared_model = end_capture(stream);
    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = replay_shared};
    assert_ptr_equal(run_workers(workers, 4), NULL);
    assert_int_equal(n_runs, 4 * ROUNDS);
    end_model(shared_model);
    end_stream(stream);
}

static struct gate replayed; /* once at least */
static atomic_bool is_over;

/* A branch has its capture's result, nothing, or, during its capture, no result. */
static const char *replay_until_over(struct worker *self)
{
    aclrtStream stream;

    worker_check(aclrtSetCurrentContext(context) == ACL_SUCCESS);
    worker_check(aclrtCreateStream(&stream) == ACL_SUCCESS);
    while (!is_over) {
        aclError rc;

        worker_check(aclmdlRIExecuteAsync(shared_model, stream) == ACL_SUCCESS);
        rc = aclrtSynchronizeStream(stream);
        worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_MODEL_EXECUTE);
        gate_pass(&replayed);
    }
    worker_check(aclrtDestroyStream(stream) == ACL_SUCCESS);
    return NULL;
}

/* A model with an empty branch that each replay selects. */
static aclmdlRI capture_condition(aclrtStream stream, aclmdlRI *ret_branch)
{
    aclmdlRICondTaskParams params = {.type = ACL_MODEL_RI_COND_TYPE_IF, .size = 1};

    params.modelRIArray = ret_branch;
    begin_capture(stream, RELAXED);
    assert_acl_ok(aclmdlRICondHandleCreate(captured_into(stream), 1,
                                           ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT,
                                           &params.handle));
    assert_acl_ok(aclmdlRIAddCondTask(params, stream, 0));
    return end_capture(stream);
}

static void a_branch_is_captured_while_its_model_runs(void **state)
{
    struct worker thread = {.run = replay_until_over};
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtGetCurrentContext(&context));
    for (int i = 0; i < ROUNDS; i++) {
        aclmdlRI branch = NULL;

        replayed = (struct gate)GATE_INIT;
        replayed.is_open = true;
        is_over = false;
        n_runs = 0;
        shared_model = capture_condition(stream, &branch);
        assert_int_equal(worker_start(&thread), 0);
        gate_await(&replayed, 1);
        assert_acl_ok(aclmdlRICaptureToModelRIBegin(stream, branch, RELAXED));
        assert_acl_ok(aclrtLaunchHostFunc(stream, count_run, NULL));
        assert_ptr_equal(end_capture(stream), branch);
        is_over = true;
        assert_ptr_equal(worker_join(&thread), NULL);
        n_runs = 0;
        replay(shared_model, stream);
        assert_int_equal(n_runs, 1);
        end_model(shared_model);
    }
    end_stream(stream);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(captures_of_threads_do_not_disturb_each_other),
        claim(threads_replay_one_model),
        claim(a_branch_is_captured_while_its_model_runs),
    };

    return run_claims(claims);
}
