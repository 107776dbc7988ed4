/*
 * Functions of the program between the tasks of a stream: host functions and callbacks.
 */
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdio.h>
#include <string.h>

static uint64_t myself(void)
{
    return (uint64_t)pthread_self();
}

static void nothing(void *arg)
{
}

/* ---- host functions ---- */

static void a_host_function_gets_its_argument_in_another_thread(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream();

    hold(stream, &gate); /* here, that would be for ever */
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_int_equal(gate.n_out, 1);
    end_stream(stream);
}

static void a_host_function_blocks_the_work_behind_it(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream(), other = make_stream();

    assert_acl_ok(mark_on(stream, &marks, 'a'));
    hold(stream, &gate);
    assert_acl_ok(mark_on(stream, &marks, 'b'));
    assert_acl_ok(mark_on(other, &marks, 'o'));
    assert_acl_ok(aclrtSynchronizeStream(other));
    assert_string_equal(marks_now(&marks), "ao");
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "aob");
    end_stream(stream);
    end_stream(other);
}

struct meeting {
    pthread_barrier_t barrier;
};

static void meet(void *arg)
{
    struct meeting *meeting = arg;

    pthread_barrier_wait(&meeting->barrier);
}

/* More than the threads that are made at once: each must get one in the end. */
static void meet_on(unsigned n)
{
    struct meeting meeting;
    aclrtStream streams[40];

    pthread_barrier_init(&meeting.barrier, NULL, n);
    for (unsigned i = 0; i < n; i++)
        streams[i] = make_stream();
    for (unsigned i = 0; i < n; i++)
        assert_acl_ok(aclrtLaunchHostFunc(streams[i], meet, &meeting));
    assert_acl_ok(aclrtSynchronizeDevice());
    for (unsigned i = 0; i < n; i++)
        end_stream(streams[i]);
    pthread_barrier_destroy(&meeting.barrier);
}

static void host_functions_may_wait_for_each_other(void **state)
{
    meet_on(2);
    meet_on(40);
}

static void in_chaos_they_may_too(void **state)
{
    start("default", "ACLMEM_CHAOS=3");
    assert_acl_ok(aclrtSetDevice(0));
    meet_on(2);
    meet_on(3);
}

static void calls_in(void *arg)
{
    aclrtStreamStatus status;
    aclrtEvent event = NULL;
    aclError *rc = arg;

    rc[0] = aclrtSetDevice(0);
    rc[1] = aclrtCreateEvent(&event);
    rc[2] = aclrtDestroyEvent(event);
    rc[3] = aclrtStreamQuery(NULL, &status);
    rc[4] = aclrtResetDevice(0);
}

/* No lock of the library is held. */
static void a_host_function_may_call_in(void **state)
{
    aclError rc[5] = {-1, -1, -1, -1, -1};
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtLaunchHostFunc(stream, calls_in, rc));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    for (int i = 0; i < 5; i++)
        assert_int_equal(rc[i], ACL_SUCCESS);
    end_stream(stream);
}

static void aborts_itself(void *arg)
{
    (void)aclrtStreamAbort(arg);
}

static void a_host_function_may_abort_its_own_stream(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtLaunchHostFunc(stream, aborts_itself, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(mark_on(stream, &marks, 'a'));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "a");
    end_stream(stream);
}

/* ---- what would wait for the function that calls it ---- */

/* Calls that wait for `stream`, from inside a function that it waits for. */
struct inner {
    aclrtContext context;
    aclrtStream stream;
    aclrtStream other;
    aclrtEvent event; /* recorded behind the function */
    void *device;     /* 64 bytes */
    const char *failure;
    aclError aborted; /* synchronising the stream after it was aborted */
    struct gate done; /* passed last */
};

enum { N_INNER = 12 };

static aclError inner_call(struct inner *in, int i, const char **ret_name)
{
    static char here[64];
    static const char *const names[N_INNER] = {
        "aclrtSynchronizeStream",  "aclrtSynchronizeStreamWithTimeout",
        "aclrtSynchronizeDevice",  "aclrtDestroyStream",
        "aclrtDestroyStreamForce", "aclrtResetDevice",
        "aclrtResetDeviceForce",   "aclrtDeviceTaskAbort",
        "aclrtFreeWithDevSync",    "aclrtSynchronizeEvent",
        "aclrtMemcpyAsync",        "aclFinalize"};

    *ret_name = names[i];
    switch (i) {
    case 0:
        return aclrtSynchronizeStream(in->stream);
    case 1:
        return aclrtSynchronizeStreamWithTimeout(in->stream, 10);
    case 2:
        return aclrtSynchronizeDevice();
    case 3:
        return aclrtDestroyStream(in->stream);
    case 4:
        return aclrtDestroyStreamForce(in->stream);
    case 5:
        return aclrtResetDevice(0);
    case 6:
        return aclrtResetDeviceForce(0);
    case 7:
        return aclrtDeviceTaskAbort(0, 0);
    case 8:
        return aclrtFreeWithDevSync(in->device);
    case 9:
        return aclrtSynchronizeEvent(in->event);
    case 10: /* pageable memory: the call waits for the copy */
        return aclrtMemcpyAsync(in->device, 64, here, 64, ACL_MEMCPY_HOST_TO_DEVICE,
                                in->stream);
    default:
        return aclFinalize();
    }
}

/* NULL, or what is wrong. */
static const char *inner_check(struct inner *in)
{
    aclrtStreamStatus status;

    worker_check(aclrtSetCurrentContext(in->context) == ACL_SUCCESS);
    for (int i = 0; i < N_INNER; i++) {
        const char *name, *message;

        worker_check(inner_call(in, i, &name) == ACL_ERROR_RT_PARAM_INVALID);
        message = aclGetRecentErrMsg();
        worker_check(message != NULL && strstr(message, name) != NULL);
        worker_check(strstr(message, "itself") != NULL);
    }
    worker_check(aclrtStreamQuery(in->stream, &status) == ACL_SUCCESS);
    worker_check(aclrtSynchronizeStream(in->other) == ACL_SUCCESS);
    return NULL;
}

static void inner_run(void *arg)
{
    struct inner *in = arg;

    in->failure = inner_check(in);
    aclrtStreamAbort(in->stream); /* which does not wait for it any more */
    in->aborted = aclrtSynchronizeStream(in->stream);
    gate_pass(&in->done);
}

static void inner_make(struct inner *in)
{
    *in = (struct inner){.stream = make_stream(),
                         .other = make_stream(),
                         .aborted = -1,
                         .done = GATE_INIT};
    in->failure = "it has not run";
    assert_acl_ok(aclrtGetCurrentContext(&in->context));
    assert_acl_ok(aclrtCreateEvent(&in->event));
    assert_acl_ok(aclrtMalloc(&in->device, 64, ACL_MEM_MALLOC_NORMAL_ONLY));
    assert_acl_ok(aclrtSynchronizeDevice());
}

static void inner_end(struct inner *in)
{
    assert_ptr_equal(in->failure, NULL);
    assert_int_equal(in->aborted, ACL_SUCCESS);
    assert_acl(aclrtSynchronizeEvent(in->event), ACL_ERROR_RT_STREAM_ABORT);
    end_stream(in->stream);
    end_stream(in->other);
    assert_acl_ok(aclrtFree(in->device));
    assert_acl_ok(aclrtDestroyEvent(in->event));
}

static void a_host_function_cannot_wait_for_itself(void **state)
{
    struct gate gate = GATE_INIT;
    struct inner in;

    inner_make(&in);
    hold(in.stream, &gate);
    assert_acl_ok(aclrtLaunchHostFunc(in.stream, inner_run, &in));
    assert_acl_ok(aclrtRecordEvent(in.event, in.stream));
    gate_open(&gate);
    gate_await(&in.done, 1);
    gate_open(&in.done);
    inner_end(&in);
}

/* Streams that wait for one another, and the first for a function. */
struct circle {
    aclrtStream stream[3];
    aclrtEvent event[3]; /* recorded on each */
    struct gate gate;
    const char *failure;
};

static const char *circle_check(struct circle *c)
{
    for (int i = 1; i < 3; i++) {
        worker_check(aclrtSynchronizeStreamWithTimeout(c->stream[i], 1) ==
                     ACL_ERROR_RT_PARAM_INVALID);
        worker_check(strstr(aclGetRecentErrMsg(), "itself") != NULL);
        worker_check(aclrtSynchronizeEventWithTimeout(c->event[i], 1) ==
                     ACL_ERROR_RT_PARAM_INVALID);
        worker_check(strstr(aclGetRecentErrMsg(), "itself") != NULL);
    }
    return NULL;
}

static void circle_run(void *arg)
{
    struct circle *c = arg;

    gate_pass(&c->gate);
    c->failure = circle_check(c);
}

static void circle_make(struct circle *c)
{
    *c = (struct circle){.gate = GATE_INIT, .failure = "it has not run"};
    for (int i = 0; i < 3; i++) {
        c->stream[i] = make_stream();
        assert_acl_ok(aclrtCreateEventExWithFlag(&c->event[i], ACL_EVENT_SYNC));
    }
}

static void circle_end(struct circle *c)
{
    for (int i = 0; i < 3; i++) {
        assert_acl_ok(aclrtSynchronizeStream(c->stream[i]));
        end_stream(c->stream[i]);
        assert_acl_ok(aclrtDestroyEvent(c->event[i]));
    }
    assert_ptr_equal(c->failure, NULL);
}

static void a_host_function_cannot_wait_for_a_stream_that_waits_for_it(void **state)
{
    struct circle c;

    circle_make(&c);
    assert_acl_ok(aclrtLaunchHostFunc(c.stream[0], circle_run, &c));
    gate_await(&c.gate, 1);
    assert_acl_ok(aclrtRecordEvent(c.event[0], c.stream[0]));
    for (int i = 1; i < 3; i++) {
        assert_acl_ok(aclrtStreamWaitEvent(c.stream[i], c.event[i - 1]));
        assert_acl_ok(aclrtRecordEvent(c.event[i], c.stream[i]));
    }
    gate_open(&c.gate);
    circle_end(&c);
}

/* What is before the wait does not wait for it; a wait that has its time ends by itself. */
static const char *open_circle_check(struct circle *c)
{
    worker_check(aclrtSynchronizeEvent(c->event[1]) == ACL_SUCCESS);
    worker_check(aclrtSynchronizeStreamWithTimeout(c->stream[2], 1) ==
                 ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    worker_check(aclrtSynchronizeStreamWithTimeout(c->stream[1], 1) ==
                 ACL_ERROR_RT_PARAM_INVALID);
    return NULL;
}

static void open_circle_run(void *arg)
{
    struct circle *c = arg;

    gate_pass(&c->gate);
    c->failure = open_circle_check(c);
}

static void a_host_function_may_wait_for_earlier_work(void **state)
{
    struct circle c;

    circle_make(&c);
    assert_acl_ok(aclrtLaunchHostFunc(c.stream[0], open_circle_run, &c));
    gate_await(&c.gate, 1);
    assert_acl_ok(aclrtRecordEvent(c.event[0], c.stream[0]));
    assert_acl_ok(aclrtRecordEvent(c.event[1], c.stream[1]));
    assert_acl_ok(aclrtStreamWaitEvent(c.stream[1], c.event[0]));
    assert_acl_ok(aclrtStreamWaitEventWithTimeout(c.stream[2], c.event[0], 3600));
    gate_open(&c.gate);
    circle_end(&c);
}

static void a_callback_cannot_either(void **state)
{
    struct inner in;

    inner_make(&in);
    gate_open(&in.done);
    assert_acl_ok(aclrtSubscribeReport(myself(), in.stream));
    assert_acl_ok(aclrtLaunchCallback(inner_run, &in, ACL_CALLBACK_BLOCK, in.stream));
    assert_acl_ok(aclrtRecordEvent(in.event, in.stream));
    assert_acl_ok(aclrtProcessReport(-1));
    assert_acl_ok(aclrtUnSubscribeReport(myself(), in.stream));
    inner_end(&in);
}

static void syncs(void *arg)
{
    struct inner *in = arg;

    in->aborted = aclrtSynchronizeStream(in->stream);
    if (in->aborted == ACL_SUCCESS)
        in->aborted = aclrtSynchronizeDevice();
}

/* Its stream does not wait for it. */
static void a_callback_that_does_not_block_may_wait_for_its_stream(void **state)
{
    struct inner in = {.stream = make_stream(), .aborted = -1};

    assert_acl_ok(aclrtSubscribeReport(myself(), in.stream));
    assert_acl_ok(aclrtLaunchCallback(syncs, &in, ACL_CALLBACK_NO_BLOCK, in.stream));
    assert_acl_ok(aclrtProcessReport(-1));
    assert_int_equal(in.aborted, ACL_SUCCESS);
    assert_acl_ok(aclrtUnSubscribeReport(myself(), in.stream));
    end_stream(in.stream);
}

static void ends_its_context(void *arg)
{
    struct inner *in = arg;

    in->aborted = aclrtDestroyContext(in->context);
}

static void a_host_function_cannot_end_its_context(void **state)
{
    struct inner in = {.aborted = -1};

    assert_acl_ok(aclrtCreateContext(&in.context, 0));
    assert_acl_ok(aclrtLaunchHostFunc(NULL, ends_its_context, &in));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(in.aborted, ACL_ERROR_RT_PARAM_INVALID);
    assert_acl_ok(aclrtDestroyContext(in.context));
    assert_acl_ok(aclrtSetDevice(0));
}

static void a_host_function_needs_a_function_and_a_stream_without_subscriber(void **state)
{
    aclrtStream stream = make_stream();

    assert_bad_arg(aclrtLaunchHostFunc(stream, NULL, NULL), "fn is NULL");
    assert_acl_ok(aclrtSubscribeReport(myself(), stream));
    assert_refused(aclrtLaunchHostFunc(stream, nothing, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "do not mix");
    assert_acl_ok(aclrtUnSubscribeReport(myself(), stream));
    assert_acl_ok(aclrtLaunchHostFunc(stream, nothing, NULL));
    assert_acl_ok(aclrtLaunchHostFunc(NULL, nothing, NULL));
    assert_acl_ok(aclrtSynchronizeDevice());
    end_stream(stream);
}

/* ---- who is subscribed ---- */

static void a_callback_needs_a_subscriber(void **state)
{
    aclrtStream stream = make_stream();

    assert_refused(aclrtLaunchCallback(nothing, NULL, ACL_CALLBACK_BLOCK, stream),
                   ACL_ERROR_RT_STREAM_NO_CB_REG, "aclrtSubscribeReport");
    assert_refused(aclrtProcessReport(10), ACL_ERROR_RT_THREAD_SUBSCRIBE,
                   "aclrtSubscribeReport");
    assert_true(is_idle(stream));
    end_stream(stream);
}

static void a_stream_has_one_subscriber(void **state)
{
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtSubscribeReport(myself(), stream));
    assert_refused(aclrtSubscribeReport(myself(), stream), ACL_ERROR_RT_STREAM_SUBSCRIBE,
                   "already");
    assert_refused(aclrtSubscribeReport(myself() + 1, stream),
                   ACL_ERROR_RT_STREAM_SUBSCRIBE, "already");
    assert_refused(aclrtUnSubscribeReport(myself() + 1, stream),
                   ACL_ERROR_RT_STREAM_SUBSCRIBE, "not subscribed by");
    assert_acl_ok(aclrtUnSubscribeReport(myself(), stream));
    assert_refused(aclrtUnSubscribeReport(myself(), stream),
                   ACL_ERROR_RT_STREAM_SUBSCRIBE, "not subscribed by");
    assert_bad_arg(aclrtSubscribeReport(0, stream), "threadId is 0");
    assert_acl_ok(aclrtSubscribeReport(myself(), stream));
    assert_acl_ok(aclrtUnSubscribeReport(myself(), stream));
    end_stream(stream);
}

static void the_number_of_threads_has_a_limit(void **state)
{
    static aclrtStream streams[1025];

    for (unsigned i = 0; i < 1025; i++)
        streams[i] = make_stream();
    for (unsigned i = 0; i < 1024; i++)
        assert_acl_ok(aclrtSubscribeReport(i + 1, streams[i]));
    assert_refused(aclrtSubscribeReport(1025, streams[1024]),
                   ACL_ERROR_RT_THREAD_SUBSCRIBE, "1024");
    assert_acl_ok(aclrtSubscribeReport(1, streams[1024])); /* one of them may have more */
    for (unsigned i = 0; i < 1025; i++)
        end_stream(streams[i]);
    assert_acl(aclrtProcessReport(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
}

static void callbacks_need_known_values(void **state)
{
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtSubscribeReport(myself(), stream));
    assert_bad_arg(aclrtLaunchCallback(NULL, NULL, ACL_CALLBACK_BLOCK, stream),
                   "fn is NULL");
    assert_bad_arg(aclrtLaunchCallback(nothing, NULL, (aclrtCallbackBlockType)2, stream),
                   "blockType is 2");
    assert_bad_arg(aclrtProcessReport(0), "0 ms");
    assert_bad_arg(aclrtProcessReport(-2), "-2 ms");
    assert_refused(aclrtProcessReport(10), ACL_ERROR_RT_REPORT_TIMEOUT, "10 ms");
    end_stream(stream);
}

/* ---- callbacks ---- */

struct call {
    struct marks *marks;
    char letter;
    uint64_t thread;
};

static void note(void *arg)
{
    struct call *call = arg;

    call->thread = myself();
    mark_down(call->marks, call->letter);
}

static void a_thread_may_have_many_streams(void **state)
{
    struct marks marks = MARKS_INIT;
    struct call calls[5];
    aclrtStream streams[5];

    for (int i = 0; i < 5; i++) {
        calls[i] = (struct call){.marks = &marks, .letter = 'c'};
        streams[i] = make_stream();
        assert_acl_ok(aclrtSubscribeReport(myself(), streams[i]));
        assert_acl_ok(
            aclrtLaunchCallback(note, &calls[i], ACL_CALLBACK_BLOCK, streams[i]));
    }
    while (strlen(marks_now(&marks)) < 5)
        assert_acl_ok(aclrtProcessReport(-1));
    for (int i = 0; i < 5; i++) {
        assert_acl_ok(aclrtUnSubscribeReport(myself(), streams[i]));
        end_stream(streams[i]);
    }
}

static void a_blocking_callback_blocks_its_stream(void **state)
{
    struct marks marks = MARKS_INIT;
    struct call call = {.marks = &marks, .letter = 'c'};
    aclrtStream stream = make_stream();
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEvent(&event));
    assert_acl_ok(aclrtSubscribeReport(myself(), stream));
    assert_acl_ok(aclrtLaunchCallback(note, &call, ACL_CALLBACK_BLOCK, stream));
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl(aclrtSynchronizeEventWithTimeout(event, 10),
               ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_string_equal(marks_now(&marks), "");
    assert_acl_ok(aclrtProcessReport(-1));
    assert_string_equal(marks_now(&marks), "c");
    assert_int_equal(call.thread, myself());
    assert_acl_ok(aclrtSynchronizeEvent(event));
    assert_acl_ok(aclrtUnSubscribeReport(myself(), stream));
    end_stream(stream);
    assert_acl_ok(aclrtDestroyEvent(event));
}

static void another_callback_does_not(void **state)
{
    struct marks marks = MARKS_INIT;
    struct call call = {.marks = &marks, .letter = 'c'};
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtSubscribeReport(myself(), stream));
    assert_acl_ok(aclrtLaunchCallback(note, &call, ACL_CALLBACK_NO_BLOCK, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "");
    assert_acl_ok(aclrtProcessReport(-1));
    assert_string_equal(marks_now(&marks), "c");
    assert_acl_ok(aclrtUnSubscribeReport(myself(), stream));
    end_stream(stream);
}

static void callbacks_come_in_the_order_of_their_stream(void **state)
{
    struct marks marks = MARKS_INIT;
    struct call calls[20];
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtSubscribeReport(myself(), stream));
    for (int i = 0; i < 20; i++) {
        calls[i] = (struct call){.marks = &marks, .letter = (char)('a' + i)};
        assert_acl_ok(aclrtLaunchCallback(
            note, &calls[i], i % 3 == 0 ? ACL_CALLBACK_NO_BLOCK : ACL_CALLBACK_BLOCK,
            stream));
    }
    while (strlen(marks_now(&marks)) < 20)
        assert_acl_ok(aclrtProcessReport(-1));
    assert_string_equal(marks_now(&marks), "abcdefghijklmnopqrst");
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtUnSubscribeReport(myself(), stream));
    end_stream(stream);
}

/*
 * The usual shape: a thread of the program that does nothing else, until the last stream
 * leaves it.
 */
static const char *report_thread(struct worker *self)
{
    struct gate *gate = self->shared;
    aclError rc;

    gate_pass(gate); /* the main thread has subscribed it by then */
    do
        rc = aclrtProcessReport(-1);
    while (rc == ACL_SUCCESS);
    worker_check(rc == ACL_ERROR_RT_THREAD_SUBSCRIBE);
    return NULL;
}

static void a_report_thread_ends_with_its_last_stream(void **state)
{
    struct marks marks = MARKS_INIT;
    struct gate gate = GATE_INIT;
    struct worker worker = {.run = report_thread, .shared = &gate};
    struct call calls[2] = {{&marks, 'a', 0}, {&marks, 'b', 0}};
    aclrtStream streams[2] = {make_stream(), make_stream()};

    assert_int_equal(worker_start(&worker), 0);
    for (int i = 0; i < 2; i++) {
        assert_acl_ok(aclrtSubscribeReport((uint64_t)worker.thread, streams[i]));
        assert_acl_ok(
            aclrtLaunchCallback(note, &calls[i], ACL_CALLBACK_BLOCK, streams[i]));
    }
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_int_equal(calls[0].thread, (uint64_t)worker.thread);
    assert_acl_ok(aclrtUnSubscribeReport((uint64_t)worker.thread, streams[0]));
    end_stream(streams[1]); /* as good as to unsubscribe */
    assert_ptr_equal(worker_join(&worker), NULL);
    end_stream(streams[0]);
}

static void an_aborted_stream_takes_its_callback_back(void **state)
{
    struct marks marks = MARKS_INIT;
    struct call call = {.marks = &marks, .letter = 'c'};
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtSubscribeReport(myself(), stream));
    assert_acl_ok(aclrtLaunchCallback(note, &call, ACL_CALLBACK_BLOCK, stream));
    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, 10),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl_ok(aclrtStreamAbort(stream));
    assert_acl(aclrtProcessReport(10), ACL_ERROR_RT_REPORT_TIMEOUT);
    assert_string_equal(marks_now(&marks), "");
    assert_acl_ok(aclrtDestroyStreamForce(stream));
}

static void callbacks_that_no_thread_processed_end_with_the_library(void **state)
{
    struct marks marks = MARKS_INIT;
    struct call call = {.marks = &marks, .letter = 'c'};
    aclrtStream stream;

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    stream = make_stream();
    assert_acl_ok(aclrtSubscribeReport(myself(), stream));
    assert_acl_ok(aclrtLaunchCallback(note, &call, ACL_CALLBACK_NO_BLOCK, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclFinalize());
    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl(aclrtProcessReport(10), ACL_ERROR_RT_THREAD_SUBSCRIBE);
    assert_string_equal(marks_now(&marks), "");
}

static void end_thread(void *arg)
{
    pthread_exit(NULL);
}

static void a_host_function_may_end_its_thread(void **state)
{
    struct marks marks = MARKS_INIT;
    struct call call = {.marks = &marks, .letter = 'c'};
    aclrtStream stream = make_stream();

    for (int i = 0; i < 20; i++) /* more than threads are made without need */
        assert_acl_ok(aclrtLaunchHostFunc(stream, end_thread, NULL));
    assert_acl_ok(aclrtLaunchHostFunc(stream, note, &call));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "c");
    end_stream(stream);
}

/* A thread that subscribes to the stream and ends in the first callback. */
static void *report_and_end(void *arg)
{
    struct gate *gate = arg;

    gate_pass(gate);
    aclrtProcessReport(-1);
    return NULL;
}

static void a_callback_may_end_its_thread(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream();
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, report_and_end, &gate), 0);
    assert_acl_ok(aclrtSubscribeReport((uint64_t)thread, stream));
    assert_acl_ok(aclrtLaunchCallback(end_thread, NULL, ACL_CALLBACK_BLOCK, stream));
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_acl_ok(aclrtUnSubscribeReport((uint64_t)thread, stream));
    end_stream(stream);
}

/* Calls that are made while aclFinalize, in another thread, waits for the caller. */
struct late {
    aclError init;
    aclError info;
    const char *option;
    char message[256]; /* of the first */
};

static void late_run(void *arg)
{
    struct late *late = arg;
    const char *message;
    char *json = NULL;
    uint32_t n;

    while (aclrtGetDeviceCount(&n) != ACL_ERROR_UNINITIALIZE)
        ;
    late->init = aclInit(NULL);
    message = aclGetRecentErrMsg();
    snprintf(late->message, sizeof late->message, "%s", message != NULL ? message : "");
    late->info = aclmem_info(&json);
    late->option = aclmem_option("ACLMEM_RULES");
}

static void a_host_function_does_not_wait_for_the_end_that_waits_for_it(void **state)
{
    struct late late = {.option = "it has not run"};

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtLaunchHostFunc(make_stream(), late_run, &late));
    assert_acl_ok(aclFinalize());
    assert_int_equal(late.init, ACL_ERROR_RT_PARAM_INVALID);
    assert_non_null(strstr(late.message, "aclFinalize"));
    assert_int_equal(late.info, ACL_ERROR_RT_PARAM_INVALID);
    assert_null(late.option);
    assert_acl_ok(aclInit(NULL));
    assert_string_equal(aclmem_option("ACLMEM_RULES"), "default");
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_host_function_gets_its_argument_in_another_thread),
        claim_both(a_host_function_blocks_the_work_behind_it),
        claim_both(host_functions_may_wait_for_each_other),
        claim_alone(in_chaos_they_may_too),
        claim_both(a_host_function_may_call_in),
        claim(a_host_function_may_abort_its_own_stream),
        claim(a_host_function_cannot_wait_for_itself),
        claim(a_host_function_cannot_wait_for_a_stream_that_waits_for_it),
        claim(a_host_function_may_wait_for_earlier_work),
        claim(a_callback_cannot_either),
        claim_both(a_callback_that_does_not_block_may_wait_for_its_stream),
        claim_both(a_host_function_cannot_end_its_context),
        claim_both(a_host_function_needs_a_function_and_a_stream_without_subscriber),
        claim_both(a_callback_needs_a_subscriber),
        claim_both(a_stream_has_one_subscriber),
        claim_both(a_thread_may_have_many_streams),
        claim(the_number_of_threads_has_a_limit),
        claim_both(callbacks_need_known_values),
        claim_both(a_blocking_callback_blocks_its_stream),
        claim_both(another_callback_does_not),
        claim_both(callbacks_come_in_the_order_of_their_stream),
        claim_both(a_report_thread_ends_with_its_last_stream),
        claim_both(an_aborted_stream_takes_its_callback_back),
        claim(a_host_function_may_end_its_thread),
        claim(a_callback_may_end_its_thread),
        claim_alone(callbacks_that_no_thread_processed_end_with_the_library),
        claim_alone(a_host_function_does_not_wait_for_the_end_that_waits_for_it),
    };

    return run_claims(claims);
}
