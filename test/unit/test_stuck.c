/*
 * Waits for what nothing queued brings about: after five seconds, by a clock that the test
 * steps, a warning names what is waited for.
 */
#include "unit.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "core/stream/sched.h"
#include "support/process.h"
#include "support/support.h"

#define LONG 9000 /* milliseconds */

static _Atomic uint64_t clock_ns;
static uint64_t clock_step; /* from one look to the next */

static uint64_t clock_now(void)
{
    return atomic_fetch_add(&clock_ns, clock_step);
}

/* Without workers the thread that waits runs the tasks, so that each step is the test's. */
static int begin(int (*setup)(void **), void **state)
{
    int rc = setup(state);

    am_sched.setup.n_workers = 0;
    clock_step = 10 * AM_MILLISECOND;
    return rc;
}

static int begin_default(void **state)
{
    return begin(start_default, state);
}

static int begin_strict(void **state)
{
    return begin(start_strict, state);
}

#define claim_stepped(f_) \
    CLAIM(#f_, f_, begin_default), CLAIM("strict: " #f_, f_, begin_strict)

/* From here on the library's time is the test's. */
static void time_begin(void)
{
    clock_ns = am_clock();
    am_lock(&am_sched.lock);
    am_sched.setup.now = clock_now;
    am_unlock(&am_sched.lock);
    is_time_ours = true;
    capture_stderr();
}

static const char *time_end(void)
{
    const char *text = captured_stderr();

    is_time_ours = false;
    am_lock(&am_sched.lock);
    am_sched.setup.now = am_clock;
    am_unlock(&am_sched.lock);
    return text;
}

static aclrtStream make_stream(void)
{
    aclrtStream stream = NULL;

    assert_acl_ok(aclrtCreateStream(&stream));
    return stream;
}

static int32_t id_of(aclrtStream stream)
{
    int32_t id = -1;

    assert_acl_ok(aclrtStreamGetId(stream, &id));
    return id;
}

static aclrtEvent make_event(void)
{
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEvent(&event));
    return event;
}

static uint32_t event_id(aclrtEvent event)
{
    uint32_t id = 0;

    assert_acl_ok(aclrtGetEventId(event, &id));
    return id;
}

/* Synchronises in vain, twice, and compares what was said: one line, or nothing. */
static void sync_says(aclrtStream stream, const char *expected)
{
    const char *text;

    time_begin();
    for (int i = 0; i < 2; i++)
        if (aclrtSynchronizeStreamWithTimeout(stream, LONG) !=
            ACL_ERROR_RT_STREAM_SYNC_TIMEOUT)
            expected = "not a timeout";
    text = time_end();
    assert_string_equal(text, expected);
}

static void line_of(char *line, size_t size, aclrtStream waited, const char *function,
                    aclrtStream stuck, const char *what)
{
    snprintf(line, size,
             "aclmem: warn: aclrtSynchronizeStreamWithTimeout has waited 5 seconds for "
             "stream %d: %s made stream %d wait until %s, and nothing that is queued "
             "brings that about\n",
             id_of(waited), function, id_of(stuck), what);
}

static void an_event_without_a_record_is_named(void **state)
{
    aclrtStream stream = make_stream();
    aclrtEvent event = make_event();
    char what[64];
    char line[512];

    expect_warnings(1);
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    snprintf(what, sizeof what, "event %u is recorded", event_id(event));
    line_of(line, sizeof line, stream, "aclrtStreamWaitEvent", stream, what);
    sync_says(stream, line);
    assert_acl_ok(aclrtDestroyEvent(event)); /* ends the wait */
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void the_last_of_streams_that_wait_for_each_other_is_named(void **state)
{
    aclrtStream a = make_stream(), b = make_stream();
    aclrtEvent first = make_event(), second = make_event();
    char what[64];
    char line[512];

    expect_warnings(1);
    assert_acl_ok(aclrtStreamWaitEvent(b, second)); /* which is never recorded */
    assert_acl_ok(aclrtRecordEvent(first, b));
    assert_acl_ok(aclrtStreamWaitEvent(a, first));
    snprintf(what, sizeof what, "event %u is recorded", event_id(second));
    line_of(line, sizeof line, a, "aclrtStreamWaitEvent", b, what);
    sync_says(a, line);
    assert_acl_ok(aclrtRecordEvent(second, NULL));
    assert_acl_ok(aclrtSynchronizeStream(a));
    assert_acl_ok(aclrtDestroyEvent(first));
    assert_acl_ok(aclrtDestroyEvent(second));
    assert_acl_ok(aclrtDestroyStream(a));
    assert_acl_ok(aclrtDestroyStream(b));
}

static void a_circle_is_named(void **state)
{
    aclrtStream a = make_stream(), b = make_stream();
    aclrtEvent first = make_event(), second = make_event();
    const char *text;

    expect_warnings(1);
    assert_acl_ok(aclrtStreamWaitEvent(a, second));
    assert_acl_ok(aclrtRecordEvent(first, a));
    assert_acl_ok(aclrtStreamWaitEvent(b, first));
    assert_acl_ok(aclrtRecordEvent(second, b));
    time_begin();
    aclrtSynchronizeStreamWithTimeout(a, LONG);
    text = time_end();
    assert_contains(text, "aclrtStreamWaitEvent made stream ");
    assert_contains(text, ", and that comes only after this wait\n");
    assert_acl_ok(aclrtStreamAbort(a));
    assert_acl_ok(aclrtStreamAbort(b));
    assert_acl_ok(aclrtDestroyEvent(first));
    assert_acl_ok(aclrtDestroyEvent(second));
    assert_acl_ok(aclrtDestroyStreamForce(a));
    assert_acl_ok(aclrtDestroyStreamForce(b));
}

static void a_notify_without_a_record_is_named(void **state)
{
    aclrtStream stream = make_stream();
    aclrtNotify notify = NULL;
    uint32_t id = 0;
    char what[64];
    char line[512];

    expect_warnings(1);
    assert_acl_ok(aclrtCreateNotify(&notify, 0));
    assert_acl_ok(aclrtGetNotifyId(notify, &id));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 0));
    snprintf(what, sizeof what, "notify %u is recorded", id);
    line_of(line, sizeof line, stream, "aclrtWaitAndResetNotify", stream, what);
    sync_says(stream, line);
    assert_acl_ok(aclrtDestroyNotify(notify));
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void a_value_that_is_never_written_is_named(void **state)
{
    aclrtStream stream = make_stream();
    void *cell = NULL;
    char what[96];
    char line[512];

    expect_warnings(1);
    assert_acl_ok(aclrtMalloc(&cell, 8, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMemset(cell, 8, 0, 8));
    assert_acl_ok(aclrtValueWait(cell, 0x2a, ACL_STREAM_WAIT_VALUE_EQ, stream));
    snprintf(what, sizeof what, "the value at %p is 0x2a", cell);
    line_of(line, sizeof line, stream, "aclrtValueWait", stream, what);
    sync_says(stream, line);
    assert_acl_ok(aclrtValueWrite(cell, 0x2a, 0, NULL));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtFree(cell));
}

static void a_thread_that_waits_for_an_event_gets_the_failure(void **state)
{
    aclrtEvent event = make_event();
    const char *text;
    char line[256];

    expect_warnings(1);
    snprintf(line, sizeof line,
             "aclmem: warn: aclrtSynchronizeEventWithTimeout has waited 5 seconds until "
             "event %u is recorded: nothing that is queued records it\n",
             event_id(event));
    time_begin();
    for (int i = 0; i < 2; i++)
        assert_int_equal(aclrtSynchronizeEventWithTimeout(event, LONG),
                         ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    text = time_end();
    assert_string_equal(text, line);
    assert_acl_ok(aclrtDestroyEvent(event));
}

static void an_event_behind_a_stuck_stream_names_that(void **state)
{
    aclrtStream stream = make_stream();
    aclrtEvent event = make_event(), never = make_event();
    const char *text;
    char line[512];

    expect_warnings(1);
    assert_acl_ok(aclrtStreamWaitEvent(stream, never));
    assert_acl_ok(aclrtRecordEvent(event, stream));
    snprintf(line, sizeof line,
             "aclmem: warn: aclrtSynchronizeEventWithTimeout has waited 5 seconds until "
             "event %u is recorded, as is queued: aclrtStreamWaitEvent made stream %d "
             "wait until event %u is recorded, and nothing that is queued brings that "
             "about\n",
             event_id(event), id_of(stream), event_id(never));
    time_begin();
    assert_int_equal(aclrtSynchronizeEventWithTimeout(event, LONG),
                     ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    text = time_end();
    assert_string_equal(text, line);
    assert_acl_ok(aclrtRecordEvent(never, NULL));
    assert_acl_ok(aclrtSynchronizeEvent(event));
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtDestroyEvent(never));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void nothing(void *data)
{
}

/* A thread that subscribed, but never calls aclrtProcessReport. */
static void a_callback_that_no_thread_runs_is_named(void **state)
{
    aclrtStream stream = make_stream();
    char line[512];

    expect_warnings(1);
    assert_acl_ok(aclrtSubscribeReport((uint64_t)pthread_self(), stream));
    assert_acl_ok(aclrtLaunchCallback(nothing, NULL, ACL_CALLBACK_BLOCK, stream));
    line_of(line, sizeof line, stream, "aclrtLaunchCallback", stream,
            "the thread that subscribed runs the callback in aclrtProcessReport");
    sync_says(stream, line);
    assert_acl_ok(aclrtProcessReport(1000));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream));
    assert_acl_ok(aclrtDestroyStream(stream));
}

/* Waits that have a time of their own are not worried about. */
static void a_wait_with_a_deadline_says_nothing(void **state)
{
    aclrtStream stream = make_stream();
    aclrtNotify notify = NULL;

    assert_acl_ok(aclrtCreateNotify(&notify, 0));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 3600));
    sync_says(stream, "");
    assert_acl_ok(aclrtRecordNotify(notify, NULL));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyNotify(notify));
    assert_acl_ok(aclrtDestroyStream(stream));
}

#define N_LOOPS 1000
#define STRIDE 8 /* words; the strict rules ask for 64 bytes */

/* The loop goes on while words[0] is not 0, and each turn moves the words down by STRIDE. */
static aclmdlRI loop_capture(aclrtStream stream, uint64_t *words, uint64_t *other)
{
    const size_t size = N_LOOPS * STRIDE * sizeof *words;
    aclrtStream body = make_stream();
    aclmdlRICaptureStatus status;
    aclmdlRICondHandle handle;
    aclmdlRI model, child, ended;
    uint64_t *condition;

    assert_acl_ok(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    assert_acl_ok(aclmdlRICaptureGetInfo(stream, &status, &model));
    assert_acl_ok(aclmdlRICondHandleCreate(
        model, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &handle));
    assert_acl_ok(aclmdlRICondHandleGetCondPtr(handle, &condition));
    assert_acl_ok(aclmdlRIAddCondTask(
        (aclmdlRICondTaskParams){handle, ACL_MODEL_RI_COND_TYPE_WHILE, 1, &child}, stream,
        0));
    assert_acl_ok(
        aclmdlRICaptureToModelRIBegin(body, child, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    assert_acl_ok(aclrtMemcpyAsync(other, size, words + STRIDE, size,
                                   ACL_MEMCPY_DEVICE_TO_DEVICE, body));
    assert_acl_ok(
        aclrtMemcpyAsync(words, size, other, size, ACL_MEMCPY_DEVICE_TO_DEVICE, body));
    assert_acl_ok(aclrtMemcpyAsync(condition, sizeof *condition, words, sizeof *words,
                                   ACL_MEMCPY_DEVICE_TO_DEVICE, body));
    assert_acl_ok(aclmdlRICaptureEnd(body, &ended));
    assert_acl_ok(aclmdlRICaptureEnd(stream, &model));
    assert_acl_ok(aclrtDestroyStream(body));
    return model;
}

/* However long it takes: no work of the program is dropped while other work runs. */
static void a_loop_that_runs_is_no_stalled_wait(void **state)
{
    const size_t size = (N_LOOPS + 1) * STRIDE * sizeof(uint64_t);
    aclrtStream stream = make_stream();
    uint64_t *words, *other, *on_host;
    const char *text;
    aclmdlRI model;

    assert_acl_ok(aclrtMalloc((void **)&words, size, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMalloc((void **)&other, size, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMallocHost((void **)&on_host, size));
    for (size_t i = 0; i < size / sizeof(uint64_t); i++)
        on_host[i] = i < N_LOOPS * STRIDE;
    assert_acl_ok(aclrtMemcpy(words, size, on_host, size, ACL_MEMCPY_HOST_TO_DEVICE));
    model = loop_capture(stream, words, other);
    am_sched.setup.n_workers = 1; /* the test's thread waits for the stream */
    clock_step = AM_SECOND;
    time_begin();
    assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    text = time_end();
    assert_string_equal(text, "");
    assert_acl_ok(aclrtMemcpy(on_host, size, words, size, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(on_host[0], 0);
    assert_acl_ok(aclmdlRIDestroy(model));
    assert_acl_ok(aclrtFreeHost(on_host));
    assert_acl_ok(aclrtFree(other));
    assert_acl_ok(aclrtFree(words));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_stepped(an_event_without_a_record_is_named),
        claim_stepped(the_last_of_streams_that_wait_for_each_other_is_named),
        claim_stepped(a_circle_is_named),
        claim_stepped(a_notify_without_a_record_is_named),
        claim_stepped(a_value_that_is_never_written_is_named),
        claim_stepped(a_thread_that_waits_for_an_event_gets_the_failure),
        claim_stepped(an_event_behind_a_stuck_stream_names_that),
        claim_stepped(a_callback_that_no_thread_runs_is_named),
        claim_stepped(a_wait_with_a_deadline_says_nothing),
        claim_stepped(a_loop_that_runs_is_no_stalled_wait),
    };

    return run_claims(claims);
}
