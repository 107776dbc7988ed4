/*
 * What a model and its executions refer to ends at any moment: calls of other threads, work
 * that is dropped, handles that are used once more.
 *
 *     test_api_capture_lifetimes [COUNT [FIRST]]
 *
 * runs COUNT rounds of the last two claims, whose threads take their steps from seed FIRST on.
 */
#include "support/blocks.h"
#include "support/capture.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE 4096

static unsigned count = 4, first_seed = 1;

/* ---- functions of dropped executions ---- */

static unsigned n_called;

static void be_called(void *arg)
{
    n_called++;
}

/* Chaos mode does a step in each query, so the callback is due when the stream is aborted. */
static void a_callback_of_a_dropped_execution_does_not_run(void **state)
{
    aclrtStream stream;
    aclmdlRI model;

    start("default", "ACLMEM_CHAOS=1");
    assert_acl_ok(aclrtSetDevice(0));
    stream = make_stream();
    assert_acl_ok(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    n_called = 0;
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtLaunchCallback(be_called, NULL, ACL_CALLBACK_BLOCK, stream));
    model = end_capture(stream);
    assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
    for (int i = 0; i < 10; i++)
        (void)status_of(stream);
    assert_acl_ok(aclrtStreamAbort(stream));
    assert_acl(aclrtProcessReport(1), ACL_ERROR_RT_REPORT_TIMEOUT);
    assert_int_equal(n_called, 0);
    assert_acl_ok(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
    end_model(model);
    end_stream(stream);
    assert_acl_ok(aclrtResetDevice(0));
}

static void callbacks_that_do_not_block_run_once_for_each_replay(void **state)
{
    aclrtStream stream = make_stream();
    aclmdlRI model;

    assert_acl_ok(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    n_called = 0;
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtLaunchCallback(be_called, NULL, ACL_CALLBACK_NO_BLOCK, stream));
    assert_acl_ok(aclrtLaunchCallback(be_called, NULL, ACL_CALLBACK_NO_BLOCK, stream));
    model = end_capture(stream);
    for (int i = 0; i < 3; i++)
        replay(model, stream);
    assert_int_equal(n_called, 0);
    assert_acl_ok(aclrtProcessReport(1000));
    assert_int_equal(n_called, 6);
    assert_acl_ok(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
    end_model(model);
    end_stream(stream);
}

struct destroyer {
    aclmdlRI model;
    struct gate queued;
    aclError rc;
};

static void destroy_inside(void *arg)
{
    struct destroyer *d = arg;

    gate_pass(&d->queued);
    d->rc = aclmdlRIDestroy(d->model);
}

/* The execution waits behind the function, which would wait for the execution. */
static void a_function_cannot_destroy_a_model_that_waits_for_it(void **state)
{
    struct destroyer d = {.queued = GATE_INIT};
    char *memory = device_malloc(SIZE);
    aclrtStream stream = make_stream();

    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, stream));
    d.model = end_capture(stream);
    assert_acl_ok(aclrtLaunchHostFunc(stream, destroy_inside, &d));
    gate_await(&d.queued, 1);
    assert_acl_ok(aclmdlRIExecuteAsync(d.model, stream));
    gate_open(&d.queued);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_int_equal(d.rc, ACL_ERROR_RT_PARAM_INVALID);
    assert_all_bytes(memory, SIZE, 1);
    end_model(d.model);
    end_stream(stream);
    device_free(memory);
}

/* ---- streams that cannot be captured ---- */

static void a_branch_can_be_captured_after_a_refused_begin(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream(), other = make_stream();
    uint32_t before = streams_available();
    aclmdlRICondTaskParams params = {.type = ACL_MODEL_RI_COND_TYPE_IF, .size = 1};
    aclmdlRI child = NULL, ended = NULL, model;

    params.modelRIArray = &child;
    begin_capture(stream, RELAXED);
    assert_acl_ok(aclmdlRICondHandleCreate(captured_into(stream), 1,
                                           ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT,
                                           &params.handle));
    assert_acl_ok(aclmdlRIAddCondTask(params, stream, 0));
    for (int i = 0; i < 3; i++)
        assert_acl(aclmdlRICaptureToModelRIBegin(stream, child, RELAXED),
                   ACL_ERROR_RT_STREAM_CAPTURED);
    assert_int_equal(streams_available(), before - 1);
    assert_acl_ok(aclmdlRICaptureToModelRIBegin(other, child, RELAXED));
    assert_acl_ok(mark_on(other, &marks, 'b'));
    assert_acl_ok(aclmdlRICaptureEnd(other, &ended));
    assert_ptr_equal(ended, child);
    model = end_capture(stream);
    replay(model, stream);
    assert_string_equal(marks_now(&marks), "b");
    end_model(model);
    assert_int_equal(streams_available(), before);
    end_stream(stream);
    end_stream(other);
}

static aclrtStream make_persistent(void)
{
    aclrtStream stream = NULL;

    assert_acl_ok(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT));
    return stream;
}

static void a_model_is_built_without_a_stream_that_was_refused(void **state)
{
    aclrtStream first = make_persistent(), second = make_persistent();
    aclrtStream runs = make_stream();
    uint32_t before = streams_available();
    aclmdlRI one = NULL, two = NULL;

    assert_acl_ok(aclmdlRIBuildBegin(&one, 0));
    assert_acl_ok(aclmdlRIBuildBegin(&two, 0));
    assert_acl_ok(aclmdlRIBindStream(one, first, ACL_MODEL_STREAM_FLAG_HEAD));
    assert_acl_ok(aclmdlRIBindStream(two, second, ACL_MODEL_STREAM_FLAG_HEAD));
    assert_acl(aclmdlRIBindStream(two, first, ACL_MODEL_STREAM_FLAG_HEAD),
               ACL_ERROR_RT_STREAM_CAPTURED);
    assert_int_equal(streams_available(), before - 2);
    assert_acl_ok(aclmdlRIEndTask(two, second));
    assert_acl_ok(aclmdlRIBuildEnd(two, NULL));
    replay(two, runs);
    end_model(two);
    end_model(one);
    assert_int_equal(streams_available(), before);
    end_stream(first);
    end_stream(second);
    end_stream(runs);
}

/* Only streams that were bound stay with the model after the end of the build. */
static void a_stream_that_joined_a_build_is_free_after_its_end(void **state)
{
    char *memory = device_malloc(SIZE);
    aclrtStream bound = make_persistent(), joined = make_stream();
    aclmdlRI model = NULL;

    assert_acl_ok(aclmdlRIBuildBegin(&model, 0));
    assert_acl_ok(aclmdlRIBindStream(model, bound, ACL_MODEL_STREAM_FLAG_HEAD));
    assert_acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, bound));
    order_after(joined, bound);
    assert_acl_ok(aclrtMemsetAsync(memory, SIZE, 2, SIZE, joined));
    assert_acl_ok(aclmdlRIEndTask(model, bound));
    assert_acl_ok(aclmdlRIBuildEnd(model, NULL));
    assert_acl_ok(aclrtMemsetAsync(memory, SIZE, 3, SIZE, joined));
    assert_acl_ok(aclrtSynchronizeStream(joined));
    assert_all_bytes(memory, SIZE, 3);
    replay(model, joined);
    assert_all_bytes(memory, SIZE, 2);
    end_model(model);
    end_stream(bound);
    end_stream(joined);
    device_free(memory);
}

/* ---- threads ---- */

struct race {
    aclrtContext context;
    aclrtStream stream;
    aclmdlRI model;
    struct gate refused; /* once at least */
    atomic_bool is_over;
};

/* Each refusal names the capture while another thread lets streams join it. */
static const char *ask_in_vain(struct worker *self)
{
    struct race *race = self->shared;

    worker_check(aclrtSetCurrentContext(race->context) == ACL_SUCCESS);
    while (!race->is_over) {
        aclError rc = aclmdlRIDestroy(race->model);

        worker_check(rc == ACL_ERROR_RT_MODEL_CAPTURED);
        rc = aclrtStreamQuery(race->stream, &(aclrtStreamStatus){0});
        worker_check(rc == ACL_ERROR_RT_STREAM_CAPTURED);
        gate_pass(&race->refused);
    }
    return NULL;
}

static void streams_join_while_calls_are_refused(void **state)
{
    enum { N = 60 };
    struct race race = {.stream = make_stream(), .refused = GATE_INIT};
    struct worker thread = {.run = ask_in_vain, .shared = &race};
    aclrtStream streams[N];
    aclrtEvent event = make_event();
    aclmdlRI model = NULL;

    assert_acl_ok(aclrtGetCurrentContext(&race.context));
    for (int i = 0; i < N; i++)
        streams[i] = make_stream();
    begin_capture(race.stream, RELAXED);
    assert_acl_ok(aclrtRecordEvent(event, race.stream));
    race.model = captured_into(race.stream);
    race.refused.is_open = true;
    assert_int_equal(worker_start(&thread), 0);
    for (int i = 0; i < N; i++) {
        if (i == N / 2) /* half of them join a capture that is valid still, perhaps */
            gate_await(&race.refused, 1);
        aclError rc = aclrtStreamWaitEvent(streams[i], event);

        assert_true(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    }
    race.is_over = true;
    assert_ptr_equal(worker_join(&thread), NULL);
    assert_acl(aclmdlRICaptureEnd(race.stream, &model),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    for (int i = 0; i < N; i++)
        end_stream(streams[i]);
    end_stream(race.stream);
    end_event(event);
}

/*
 * Threads that do anything to the same streams and models.  Each result is right, as long as
 * the process goes on, each wait ends, and nothing is left at the end.
 */
enum { N_THREADS = 6, N_SHARED = 4, N_STEPS = 150, SLOT = 64, N_SLOTS = 4096 };

static struct {
    _Atomic(aclmdlRI) models[N_SHARED];
    _Atomic(aclmdlRI) parts[N_SHARED]; /* children of models */
    _Atomic(aclrtTaskGrp) groups[N_SHARED];
    _Atomic(aclrtStream) stream[N_SHARED];
    char *memory;
    char *pinned;
    atomic_bool resets;
    atomic_uint n_done;
    atomic_uint n_slots;
} all;

struct stepper {
    uint64_t seed;
    aclrtStream own, side;
    size_t slot;
};

static unsigned draw(struct stepper *s, unsigned n)
{
    return (unsigned)random_to(&s->seed, n);
}

static void nothing(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* Nothing else orders two models, so each has a slot, and each of its streams half of it. */
static void work_put(struct stepper *s, aclrtStream stream)
{
    size_t at = 2 * SLOT * (s->slot % N_SLOTS) + (stream == s->side ? SLOT : 0);
    aclrtMemcpyKind within =
        all.resets ? ACL_MEMCPY_HOST_TO_HOST : ACL_MEMCPY_DEVICE_TO_DEVICE;
    aclrtMemcpyKind back =
        all.resets ? ACL_MEMCPY_HOST_TO_HOST : ACL_MEMCPY_DEVICE_TO_HOST;
    char *memory = all.memory + at, *pinned = all.pinned + at;

    switch (draw(s, 5)) {
    case 0:
        (void)aclrtMemsetAsync(memory, SLOT, 1, SLOT, stream);
        break;
    case 1:
        (void)aclrtMemcpyAsync(pinned, SLOT, memory, SLOT, back, stream);
        break;
    case 2:
        (void)aclrtLaunchHostFunc(stream, nothing, &all.n_done);
        break;
    case 3:
        (void)aclrtMemcpyAsync(memory, SLOT / 2, memory + SLOT / 2, SLOT / 2, within,
                               stream);
        break;
    default:
        (void)aclrtValueWrite(memory, 1, 0, stream);
    }
}

static void fork_and_join(struct stepper *s, aclrtStream from, aclrtStream to)
{
    aclrtEvent event = NULL;

    if (aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC) != ACL_SUCCESS)
        return;
    (void)aclrtRecordEvent(event, from);
    (void)aclrtStreamWaitEvent(to, event);
    (void)aclrtDestroyEvent(event);
}

static void branch_add(struct stepper *s)
{
    aclmdlRICondTaskParams params = {.type = (aclmdlRICondTaskType)draw(s, 3), .size = 1};
    aclmdlRICaptureStatus status;
    aclmdlRI child = NULL, parent = NULL;
    aclrtStream stream = NULL;

    if (params.type == ACL_MODEL_RI_COND_TYPE_WHILE)
        params.type = ACL_MODEL_RI_COND_TYPE_IF; /* it would run for ever */
    params.modelRIArray = &child;
    if (aclmdlRICaptureGetInfo(s->own, &status, &parent) != ACL_SUCCESS ||
        aclmdlRICondHandleCreate(parent, draw(s, 2), 1, &params.handle) != ACL_SUCCESS ||
        aclmdlRIAddCondTask(params, s->own, 0) != ACL_SUCCESS)
        return;
    all.parts[draw(s, N_SHARED)] = child;
    if (aclrtCreateStream(&stream) != ACL_SUCCESS)
        return;
    (void)aclmdlRICaptureToModelRIBegin(stream, child, RELAXED);
    work_put(s, stream);
    if (draw(s, 4) != 0) /* or it is half captured when its parent ends */
        (void)aclmdlRICaptureEnd(stream, &child);
    if (draw(s, 8) != 0)
        (void)aclrtDestroyStream(stream);
}

static void group_add(struct stepper *s)
{
    aclrtTaskGrp group = NULL;

    if (aclmdlRICaptureTaskGrpBegin(s->own) == ACL_SUCCESS &&
        aclmdlRICaptureTaskGrpEnd(s->own, &group) == ACL_SUCCESS)
        all.groups[draw(s, N_SHARED)] = group;
}

static void model_put(struct stepper *s, aclmdlRI model)
{
    aclmdlRI before = atomic_exchange(&all.models[draw(s, N_SHARED)], model);

    if (before != NULL)
        (void)aclmdlRIDestroy(before);
}

static void capture_step(struct stepper *s)
{
    aclmdlRI model = NULL;
    unsigned n = 1 + draw(s, 6);

    if (aclmdlRICaptureBegin(s->own, RELAXED) != ACL_SUCCESS)
        return;
    s->slot = all.n_slots++;
    for (unsigned i = 0; i < n; i++)
        work_put(s, s->own);
    if (draw(s, 2) == 0) {
        fork_and_join(s, s->own, s->side);
        work_put(s, s->side);
        work_put(s, s->own);
        fork_and_join(s, s->side, s->own);
    }
    if (draw(s, 3) == 0)
        branch_add(s);
    if (draw(s, 3) == 0)
        group_add(s);
    if (aclmdlRICaptureEnd(s->own, &model) != ACL_SUCCESS)
        return;
    (void)aclmdlRIDestroyRegisterCallback(model, nothing, &all.n_done);
    model_put(s, model);
}

static void shared_stream_replace(struct stepper *s, bool is_forced)
{
    aclrtStream stream = NULL, before;

    if (aclrtCreateStream(&stream) != ACL_SUCCESS)
        return;
    before = atomic_exchange(&all.stream[draw(s, N_SHARED)], stream);
    if (before == NULL)
        return;
    (void)(is_forced ? aclrtDestroyStreamForce(before) : aclrtDestroyStream(before));
}

/* Calls about a model that may be destroyed meanwhile. */
static void model_ask(struct stepper *s, aclmdlRI model, aclrtStream stream)
{
    aclrtTaskGrp group = all.groups[draw(s, N_SHARED)];
    aclrtStream streams[8];
    aclmdlRITask tasks[64];
    uint32_t n_streams = 8, n_tasks = 64;

    if (draw(s, 4) == 0)
        model = all.parts[draw(s, N_SHARED)];

    switch (draw(s, 5)) {
    case 0:
        if (aclmdlRIGetStreams(model, streams, &n_streams) == ACL_SUCCESS &&
            aclmdlRIGetTasksByStream(streams[0], tasks, &n_tasks) == ACL_SUCCESS &&
            n_tasks > 0)
            (void)aclmdlRITaskDisable(tasks[0]);
        break;
    case 1:
        (void)aclmdlRIUpdate(model);
        break;
    case 2:
        (void)aclmdlRIDestroyUnregisterCallback(model, nothing);
        break;
    case 3:
        if (aclmdlRICaptureTaskUpdateBegin(stream, group) == ACL_SUCCESS)
            (void)aclmdlRICaptureTaskUpdateEnd(stream);
        break;
    default:
        if (aclmdlRICaptureToModelRIBegin(s->side, all.parts[draw(s, N_SHARED)],
                                          RELAXED) == ACL_SUCCESS)
            (void)aclmdlRICaptureEnd(s->side, &model);
    }
}

static void step(struct stepper *s)
{
    aclmdlRI model = all.models[draw(s, N_SHARED)];
    aclrtStream stream = all.stream[draw(s, N_SHARED)];
    unsigned what = draw(s, 100);

    if (what < 20)
        capture_step(s);
    else if (what < 60)
        (void)aclmdlRIExecuteAsync(model, draw(s, 2) ? stream : s->own);
    else if (what < 66)
        model_put(s, NULL);
    else if (what < 72)
        (void)aclrtStreamAbort(stream);
    else if (what < 78)
        shared_stream_replace(s, draw(s, 2));
    else if (what < 90)
        model_ask(s, model, stream);
    else if (what < 96)
        (void)aclrtSynchronizeStream(draw(s, 2) ? stream : s->own);
    else if (what < 98)
        fork_and_join(s, stream, s->own);
    else if (what < 99 && all.resets)
        (void)aclrtResetDeviceForce(0);
    else
        (void)aclrtSynchronizeDevice();
}

static const char *take_steps(struct worker *self)
{
    struct stepper *s = self->shared;

    for (int i = 0; i < N_STEPS; i++) {
        if (i % 8 == 0)
            (void)aclrtSetDevice(0);
        if (i % 32 == 0) { /* a reset may have ended them */
            (void)aclrtDestroyStream(s->own);
            (void)aclrtDestroyStream(s->side);
            (void)aclrtCreateStream(&s->own);
            (void)aclrtCreateStream(&s->side);
        }
        step(s);
    }
    return NULL;
}

static void run_round(uint64_t seed, const char *option, bool resets)
{
    struct stepper steppers[N_THREADS];
    struct worker workers[N_THREADS];
    size_t size = 2 * SLOT * N_SLOTS;
    uint32_t before;

    start("default", option);
    allow_warnings();
    assert_acl_ok(aclrtSetDevice(0));
    before = streams_available();
    memset(&all, 0, sizeof all);
    all.resets = resets;
    /* A reset frees memory of the device. */
    all.memory = resets ? host_malloc(size) : device_malloc(size);
    all.pinned = host_malloc(size);
    for (unsigned i = 0; i < N_THREADS; i++) {
        steppers[i] = (struct stepper){.seed = seed * 2654435761U + i};
        workers[i] = (struct worker){.run = take_steps, .shared = &steppers[i]};
    }
    assert_ptr_equal(run_workers(workers, N_THREADS), NULL);
    (void)aclrtSetDevice(0);
    assert_acl_ok(aclrtResetDeviceForce(0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(streams_available(), before);
    assert_acl_ok(aclFinalize());
}

static void run_rounds(bool resets)
{
    for (unsigned i = 0; i < count; i++) {
        uint64_t seed = first_seed + i;
        char option[40] = "ACLMEM_LOG=error";

        if (i % 2 == 1)
            snprintf(option, sizeof option, "ACLMEM_CHAOS=%u", 1 + first_seed + i);
        run_round(seed, option, resets);
    }
}

static void threads_do_anything_to_models(void **state)
{
    run_rounds(false);
}

static void threads_do_anything_to_models_and_reset_the_device(void **state)
{
    run_rounds(true);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        claim_alone(a_callback_of_a_dropped_execution_does_not_run),
        claim_both(callbacks_that_do_not_block_run_once_for_each_replay),
        claim_both(a_function_cannot_destroy_a_model_that_waits_for_it),
        claim_both(a_branch_can_be_captured_after_a_refused_begin),
        claim_both(a_model_is_built_without_a_stream_that_was_refused),
        claim_both(a_stream_that_joined_a_build_is_free_after_its_end),
        claim_both(streams_join_while_calls_are_refused),
        claim_alone(threads_do_anything_to_models),
        claim_alone(threads_do_anything_to_models_and_reset_the_device),
    };

    if (argc > 1)
        count = (unsigned)strtoul(argv[1], NULL, 10);
    if (argc > 2)
        first_seed = (unsigned)strtoul(argv[2], NULL, 10);
    return run_claims(claims);
}
