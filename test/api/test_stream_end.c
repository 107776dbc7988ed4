/* Streams: how they end, are aborted and stopped, and what a failure does to them. */
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void end_made_stream(void)
{
    assert_acl_ok(aclrtDestroyStream(make_stream()));
}

static void nothing(void *arg)
{
}

/* ---- ending ---- */

static const char *destroy_in_thread(struct worker *self)
{
    void **args = self->shared;

    worker_check(aclrtSetCurrentContext(args[0]) == ACL_SUCCESS);
    worker_check(aclrtDestroyStream(args[1]) == ACL_SUCCESS);
    return NULL;
}

static void destroying_waits_for_the_tasks(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    void *args[2] = {NULL, make_stream()};
    struct worker worker = {.run = destroy_in_thread, .shared = args};

    assert_acl_ok(aclrtGetCurrentContext(&args[0]));
    hold(args[1], &gate);
    assert_acl_ok(mark_on(args[1], &marks, 'a'));
    assert_int_equal(worker_start(&worker), 0);
    await_closing(args[1]);
    assert_string_equal(marks_now(&marks), "");
    gate_open(&gate);
    assert_ptr_equal(worker_join(&worker), NULL);
    assert_string_equal(marks_now(&marks), "a");
}

/* A call that ends work, in a thread, while a function stands at the gate. */
struct forced {
    aclError (*call)(struct forced *forced);
    aclrtContext context;
    aclrtStream stream;
    struct gate gate;
};

static aclError force_stream(struct forced *forced)
{
    return aclrtDestroyStreamForce(forced->stream);
}

static aclError force_device(struct forced *forced)
{
    return aclrtResetDeviceForce(0);
}

static const char *force_in_thread(struct worker *self)
{
    struct forced *forced = self->shared;

    worker_check(aclrtSetCurrentContext(forced->context) == ACL_SUCCESS);
    worker_check(forced->call(forced) == ACL_SUCCESS);
    worker_check(gate_passed(&forced->gate) == 1); /* the function has returned */
    return NULL;
}

static void force(aclError (*call)(struct forced *forced))
{
    struct marks marks = MARKS_INIT;
    struct forced forced = {.call = call, .stream = make_stream(), .gate = GATE_INIT};
    struct worker worker = {.run = force_in_thread, .shared = &forced};

    assert_acl_ok(aclrtGetCurrentContext(&forced.context));
    hold(forced.stream, &forced.gate);
    assert_acl_ok(mark_on(forced.stream, &marks, 'a'));
    assert_int_equal(worker_start(&worker), 0);
    await_closing(forced.stream);
    gate_open(&forced.gate);
    assert_ptr_equal(worker_join(&worker), NULL);
    assert_string_equal(marks_now(&marks), "");
}

static void
force_drops_work_that_has_not_begun_and_waits_for_a_running_function(void **state)
{
    uint32_t before = streams_available();

    force(force_stream);
    assert_int_equal(streams_available(), before);
}

/* It is given as long as anything else that may never end. */
static void force_does_not_wait_for_ever(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream();

    hold(stream, &gate);
    capture_stderr();
    assert_acl_ok(aclrtDestroyStreamForce(stream));
    assert_non_null(
        strstr(captured_stderr(), "the function that aclrtLaunchHostFunc queued still"));
    expect_warnings(1);
    gate_open(&gate);
}

static void a_context_ends_with_its_streams_after_their_tasks(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtContext context = make_context(0);
    aclrtStream stream = make_stream();

    for (int i = 0; i < 20; i++)
        assert_acl_ok(mark_on(i % 2 == 0 ? stream : NULL, &marks, 'x'));
    assert_acl_ok(aclrtDestroyContext(context));
    assert_int_equal(strlen(marks_now(&marks)), 20);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
}

static void a_device_is_reset_after_its_tasks(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();

    for (int i = 0; i < 20; i++)
        assert_acl_ok(mark_on(i % 2 == 0 ? stream : NULL, &marks, 'x'));
    assert_acl_ok(aclrtResetDevice(0));
    assert_int_equal(strlen(marks_now(&marks)), 20);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    assert_int_equal(streams_available(), 1984);
}

static const char *reset_in_thread(struct worker *self)
{
    worker_check(aclrtResetDevice(0) == ACL_SUCCESS);
    return NULL;
}

/* A thread that sets the device while another one's reset waits keeps what it set. */
static void a_device_set_during_its_reset_stays_set(void **state)
{
    struct gate gate = GATE_INIT;
    struct worker worker = {.run = reset_in_thread};
    aclrtStream stream = make_stream();

    hold(stream, &gate);
    assert_int_equal(worker_start(&worker), 0);
    await_closing(stream);
    assert_acl_ok(aclrtSetDevice(0));
    gate_open(&gate);
    assert_ptr_equal(worker_join(&worker), NULL);
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    end_made_stream();
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl(aclrtResetDevice(0), ACL_ERROR_RT_PARAM_INVALID);
}

static void a_forced_reset_waits_only_for_a_function_that_runs(void **state)
{
    force(force_device);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtSynchronizeDevice());
}

static void the_library_stops_after_all_tasks(void **state)
{
    struct marks marks = MARKS_INIT;
    unsigned n_before = n_threads();
    aclrtStream stream;

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    stream = make_stream();
    for (int i = 0; i < 20; i++)
        assert_acl_ok(mark_on(i % 2 == 0 ? stream : NULL, &marks, 'x'));
    assert_acl_ok(aclFinalize());
    assert_int_equal(strlen(marks_now(&marks)), 20);
    assert_int_equal(n_threads(), n_before);
    start("default"); /* and starts again */
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    stream = make_stream();
    assert_acl_ok(mark_on(stream, &marks, 'y'));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_int_equal(strlen(marks_now(&marks)), 21);
}

/* A function that its stream abandoned does not keep the library from stopping. */
static void the_library_stops_without_an_abandoned_function(void **state)
{
    static struct gate gate = GATE_INIT;
    aclrtStream stream;

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    stream = make_stream();
    hold(stream, &gate);
    assert_acl_ok(aclrtStreamAbort(stream));
    capture_stderr();
    assert_acl_ok(aclFinalize());
    assert_non_null(strstr(captured_stderr(), "1 host function has not returned"));
    start("default"); /* and starts again */
    assert_acl_ok(aclrtSetDevice(0));
    stream = make_stream();
    gate_open(&gate);
    assert_acl_ok(aclrtLaunchHostFunc(stream, nothing, NULL));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    while (gate_passed(&gate) == 0)
        sched_yield();
    assert_acl_ok(aclFinalize());
}

/*
 * Streams that wait for what nobody does; all of them together cost the seconds of one:
 * with those of each, no test may take so long.
 */
static void a_reset_gives_up_work_that_waits_for_ever(void **state)
{
    enum { MANY = 1000 };
    aclrtEvent event = NULL;
    struct timespec begin, end;

    assert_acl_ok(aclrtCreateEvent(&event));
    for (int i = 0; i < MANY; i++)
        assert_acl_ok(aclrtStreamWaitEvent(make_stream(), event));
    clock_gettime(CLOCK_MONOTONIC, &begin);
    capture_stderr();
    assert_acl_ok(aclrtResetDevice(0));
    assert_non_null(
        strstr(captured_stderr(), "the wait was queued by aclrtStreamWaitEvent"));
    clock_gettime(CLOCK_MONOTONIC, &end);
    expect_warnings(MANY);
    assert_true(end.tv_sec - begin.tv_sec >= 3);
    assert_acl_ok(aclrtSetDevice(0));
}

/*
 * What else goes on does not matter: nothing of it can record the event.  A function runs
 * elsewhere, a wait has minutes left, and streams of another device work all the time.
 */
static const char *work_on(struct worker *self)
{
    atomic_bool *is_over = self->shared;
    aclrtStream stream = NULL;

    worker_check(aclrtSetDevice(1) == ACL_SUCCESS);
    worker_check(aclrtCreateStream(&stream) == ACL_SUCCESS);
    for (unsigned i = 0; i < 1000000 && !*is_over; i++) {
        worker_check(aclrtLaunchHostFunc(stream, nothing, NULL) == ACL_SUCCESS);
        worker_check(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
    }
    worker_check(aclrtDestroyStream(stream) == ACL_SUCCESS);
    worker_check(aclrtResetDevice(1) == ACL_SUCCESS);
    return NULL;
}

static void a_reset_gives_up_whatever_else_goes_on(void **state)
{
    struct gate gate = GATE_INIT;
    atomic_bool is_over = false;
    struct worker worker = {.run = work_on, .shared = &is_over};
    aclrtStream elsewhere[2], waits;
    aclrtEvent event = NULL, other = NULL;
    aclrtContext here = NULL;

    assert_acl_ok(aclrtGetCurrentContext(&here));
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtCreateEvent(&other));
    for (int i = 0; i < 2; i++)
        elsewhere[i] = make_stream();
    hold(elsewhere[0], &gate);
    assert_acl_ok(aclrtStreamWaitEventWithTimeout(elsewhere[1], other, 1000));
    assert_int_equal(worker_start(&worker), 0);
    assert_acl_ok(aclrtSetCurrentContext(here));
    assert_acl_ok(aclrtCreateEvent(&event));
    waits = make_stream();
    assert_acl_ok(aclrtStreamWaitEvent(waits, event));
    assert_acl_ok(aclrtLaunchHostFunc(waits, nothing, NULL));
    capture_stderr();
    assert_acl_ok(aclrtResetDevice(0));
    assert_non_null(strstr(captured_stderr(), "queued by aclrtStreamWaitEvent, and 1 "));
    expect_warnings(1);
    is_over = true;
    assert_ptr_equal(worker_join(&worker), NULL);
    gate_open(&gate);
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtRecordEvent(other, NULL));
    for (int i = 0; i < 2; i++)
        assert_acl_ok(aclrtDestroyStream(elsewhere[i]));
    assert_acl_ok(aclrtDestroyEvent(other));
    assert_acl_ok(aclrtSetDevice(0));
}

/* In the child: nothing of cmocka is called. */
static int play_child(aclrtStream stream)
{
    aclrtStream made = NULL;
    int bad = 0;

    bad |= aclrtSynchronizeStream(stream) != ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    bad |= aclrtCreateStream(&made) != ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    bad |= aclrtLaunchHostFunc(stream, nothing, NULL) != ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    bad |= aclFinalize() != ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    return bad;
}

static void a_forked_child_is_refused_and_the_streams_go_on(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();
    int status = -1;
    pid_t pid;

    hold(stream, &gate);
    assert_acl_ok(mark_on(stream, &marks, 'a'));
    fflush(NULL);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(play_child(stream));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    gate_open(&gate);
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_string_equal(marks_now(&marks), "a");
}

/* ---- abort, stop ---- */

static void an_aborted_stream_drops_work_that_has_not_begun_and_goes_on(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();

    hold(stream, &gate);
    assert_acl_ok(mark_on(stream, &marks, 'a'));
    assert_acl_ok(mark_on(stream, &marks, 'b'));
    assert_acl_ok(aclrtStreamAbort(stream));
    assert_int_equal(status_of(stream), ACL_STREAM_STATUS_COMPLETE);
    assert_acl_ok(mark_on(stream, &marks, 'c'));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "c");
    gate_open(&gate); /* its function stands there still, and hurts nobody */
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void a_stopped_stream_takes_nothing_until_it_is_synchronised(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtStreamStop(stream));
    assert_acl_ok(mark_on(stream, &marks, 'a'));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "");
    assert_acl_ok(mark_on(stream, &marks, 'b'));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "b");
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void an_abort_of_a_device_is_for_all_its_streams(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream streams[3], elsewhere;

    for (int i = 0; i < 3; i++) {
        streams[i] = make_stream();
        hold(streams[i], &gate);
        assert_acl_ok(mark_on(streams[i], &marks, 'a'));
    }
    assert_acl_ok(aclrtSetDevice(1));
    elsewhere = make_stream();
    hold(elsewhere, &gate);
    assert_acl_ok(mark_on(elsewhere, &marks, 'b'));
    assert_acl_ok(aclrtSetDevice(0));

    /* The functions go on; what is behind them does not, whether in time or not. */
    assert_acl(aclrtDeviceTaskAbort(0, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_message_has("20 ms");
    gate_open(&gate);
    assert_acl_ok(aclrtDeviceTaskAbort(0, 0));
    assert_acl_ok(aclrtSynchronizeDevice());
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtDestroyStream(elsewhere));
    assert_string_equal(marks_now(&marks), "b");
    assert_acl_ok(aclrtDeviceTaskAbort(1, 36 * 60 * 1000));
}

static void an_abort_needs_a_device_and_a_time_that_is_allowed(void **state)
{
    assert_refused(aclrtDeviceTaskAbort(2, 0), ACL_ERROR_RT_INVALID_DEVICEID, "device 2");
    assert_refused(aclrtDeviceTaskAbort(-1, 0), ACL_ERROR_RT_INVALID_DEVICEID,
                   "device -1");
    assert_bad_arg(aclrtDeviceTaskAbort(0, 36 * 60 * 1000 + 1), "2160001");
}

/* ---- failures ---- */

/* A second passes here: a wait's shortest time. */
static void a_failure_is_reported_once_and_the_mode_decides_what_follows(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream goes_on = make_stream(), stops = make_stream();
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEvent(&event));
    assert_acl_ok(aclrtSetStreamFailureMode(stops, ACL_STOP_ON_FAILURE));
    for (int i = 0; i < 2; i++) {
        aclrtStream stream = i == 0 ? goes_on : stops;

        assert_acl_ok(aclrtStreamWaitEventWithTimeout(stream, event, 1));
        assert_acl_ok(mark_on(stream, &marks, i == 0 ? 'g' : 's'));
    }
    assert_acl(aclrtSynchronizeStream(goes_on), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_message_has("work queued by aclrtStreamWaitEventWithTimeout failed");
    assert_message_has("did not come in time");
    assert_acl_ok(aclrtSynchronizeStream(goes_on));
    assert_string_equal(marks_now(&marks), "g");

    /* For all streams of a device at once. */
    assert_acl(aclrtSynchronizeDevice(), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_string_equal(marks_now(&marks), "g");
    assert_acl_ok(mark_on(stops, &marks, 't'));
    assert_acl_ok(aclrtSynchronizeStream(stops));
    assert_string_equal(marks_now(&marks), "gt");
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtDestroyStream(goes_on));
    assert_acl_ok(aclrtDestroyStream(stops));
}

/* Nobody synchronised, so nobody was told. */
static void a_stream_that_ends_with_a_failure_says_so(void **state)
{
    aclrtStream stream = make_stream();
    aclrtEvent event = NULL;
    const char *text;

    assert_acl_ok(aclrtCreateEvent(&event));
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    assert_acl_ok(aclrtDestroyEvent(event));
    capture_stderr();
    assert_acl_ok(aclrtDestroyStream(stream));
    text = captured_stderr();
    assert_non_null(strstr(text, "107017"));
    assert_non_null(strstr(text, "work queued by aclrtStreamWaitEvent"));
    expect_warnings(1);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(destroying_waits_for_the_tasks),
        claim_both(force_drops_work_that_has_not_begun_and_waits_for_a_running_function),
        claim(force_does_not_wait_for_ever),
        claim_both(a_context_ends_with_its_streams_after_their_tasks),
        claim_both(a_device_is_reset_after_its_tasks),
        claim_both(a_device_set_during_its_reset_stays_set),
        claim_both(a_forced_reset_waits_only_for_a_function_that_runs),
        claim_alone(the_library_stops_after_all_tasks),
        claim_alone(the_library_stops_without_an_abandoned_function),
        claim(a_reset_gives_up_work_that_waits_for_ever),
        claim(a_reset_gives_up_whatever_else_goes_on),
        claim_both(a_forked_child_is_refused_and_the_streams_go_on),
        claim_both(an_aborted_stream_drops_work_that_has_not_begun_and_goes_on),
        claim_both(a_stopped_stream_takes_nothing_until_it_is_synchronised),
        claim_both(an_abort_of_a_device_is_for_all_its_streams),
        claim_both(an_abort_needs_a_device_and_a_time_that_is_allowed),
        claim_both(a_failure_is_reported_once_and_the_mode_decides_what_follows),
        claim_both(a_stream_that_ends_with_a_failure_says_so),
    };

    return run_claims(claims);
}
