/*
 * Streams in a capture: the stream that begins it, the streams that join by an event and
 * come back by an event, and how a capture ends.
 */
#include "support/blocks.h"
#include "support/capture.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdio.h>
#include <string.h>

#define SIZE 4096

static void move(void *dst, const void *src, aclrtStream stream)
{
    assert_acl_ok(
        aclrtMemcpyAsync(dst, SIZE, src, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

static void set_now(void *dst, uint8_t byte)
{
    assert_acl_ok(aclrtMemset(dst, SIZE, byte, SIZE));
}

static aclError end_of(aclrtStream stream)
{
    aclmdlRI model = NULL;

    return aclmdlRICaptureEnd(stream, &model);
}

/* ---- joining and coming back ---- */

static void streams_fork_and_join_inside_a_capture(void **state)
{
    char *a = device_malloc(SIZE), *b = device_malloc(SIZE), *c = device_malloc(SIZE);
    char *d = device_malloc(SIZE);
    aclrtStream stream = make_stream(), left = make_stream(), right = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    move(b, a, stream);
    order_after(left, stream);
    order_after(right, stream);
    assert_ptr_equal(captured_into(left), captured_into(stream));
    assert_ptr_equal(captured_into(right), captured_into(stream));
    move(c, b, left);
    move(d, b, right);
    order_after(stream, left);
    order_after(stream, right);
    move(a, d, stream);
    model = captured_into(stream);
    assert_ptr_equal(end_capture(stream), model);
    assert_int_equal(capture_status(left), NOT_CAPTURING);
    assert_int_equal(capture_status(right), NOT_CAPTURING);
    for (uint8_t i = 1; i < 4; i++) {
        set_now(a, i);
        set_now(c, 0);
        replay(model, stream);
        assert_all_bytes(c, SIZE, i);
        assert_all_bytes(d, SIZE, i);
    }
    end_model(model);
    end_stream(stream);
    end_stream(left);
    end_stream(right);
    device_free(a);
    device_free(b);
    device_free(c);
    device_free(d);
}

/* A stream joins through a stream that joined, and comes back through it. */
static void streams_join_through_streams_that_joined(void **state)
{
    enum { N = 6 };
    struct marks marks = MARKS_INIT;
    aclrtStream streams[N];
    aclmdlRI model;

    for (int i = 0; i < N; i++)
        streams[i] = make_stream();
    begin_capture(streams[0], THREAD_LOCAL);
    for (int i = 1; i < N; i++) {
        order_after(streams[i], streams[i - 1]);
        assert_acl_ok(mark_on(streams[i], &marks, (char)('a' + i)));
    }
    for (int i = N - 1; i > 0; i--)
        order_after(streams[i - 1], streams[i]);
    assert_acl_ok(mark_on(streams[0], &marks, '.'));
    model = end_capture(streams[0]);
    replay(model, streams[0]);
    replay(model, streams[3]);
    assert_string_equal(marks_now(&marks), "bcdef.bcdef.");
    end_model(model);
    for (int i = 0; i < N; i++)
        end_stream(streams[i]);
}

/* Between fork and join the branches of a model run at the same time. */
static void branches_of_a_model_run_at_the_same_time(void **state)
{
    struct gate gates[2] = {GATE_INIT, GATE_INIT};
    aclrtStream stream = make_stream(), side = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    order_after(side, stream);
    assert_acl_ok(aclrtLaunchHostFunc(side, gate_pass, &gates[0]));
    assert_acl_ok(aclrtLaunchHostFunc(stream, gate_pass, &gates[1]));
    order_after(stream, side);
    model = end_capture(stream);
    assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
    gate_await(&gates[0], 1);
    gate_await(&gates[1], 1);
    gate_open(&gates[0]);
    gate_open(&gates[1]);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    end_model(model);
    end_stream(stream);
    end_stream(side);
}

static void a_joined_stream_can_be_destroyed_inside_the_capture(void **state)
{
    char *a = device_malloc(SIZE), *b = device_malloc(SIZE);
    aclrtStream stream = make_stream(), side = make_stream();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    order_after(side, stream);
    move(b, a, side);
    order_after(stream, side);
    end_stream(side);
    model = end_capture(stream);
    for (uint8_t i = 1; i < 4; i++) {
        set_now(a, i);
        replay(model, stream);
        assert_all_bytes(b, SIZE, i);
    }
    end_model(model);
    end_stream(stream);
    device_free(a);
    device_free(b);
}

/* One event recorded again in the same capture: a wait names the latest record. */
static void an_event_recorded_again_orders_by_its_latest_record(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream(), side = make_stream();
    aclrtEvent event = make_ex(ACL_EVENT_SYNC);
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl_ok(mark_on(stream, &marks, '1'));
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl_ok(aclrtStreamWaitEvent(side, event));
    assert_acl_ok(mark_on(side, &marks, '2'));
    assert_acl_ok(aclrtRecordEvent(event, side));
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    assert_acl_ok(mark_on(stream, &marks, '3'));
    model = end_capture(stream);
    for (int i = 0; i < 2; i++)
        replay(model, stream);
    assert_string_equal(marks_now(&marks), "123123");
    end_model(model);
    end_event(event);
    end_stream(stream);
    end_stream(side);
}

/* The wait of a stream that is not captured for an event of a capture joins it. */
static void work_of_another_thread_on_a_joined_stream_is_captured(void **state)
{
    char *a = device_malloc(SIZE);
    aclrtStream stream = make_stream(), side = make_stream();
    aclmdlRI model;

    set_now(a, 0);
    begin_capture(stream, GLOBAL);
    order_after(side, stream);
    assert_acl_ok(aclrtMemsetAsync(a, SIZE, 3, SIZE, side));
    order_after(stream, side);
    model = end_capture(stream);
    assert_acl_ok(aclrtSynchronizeStream(side));
    assert_all_bytes(a, SIZE, 0);
    replay(model, side);
    assert_all_bytes(a, SIZE, 3);
    end_model(model);
    end_stream(stream);
    end_stream(side);
    device_free(a);
}

/* ---- streams that did not come back ---- */

static void a_stream_that_did_not_come_back_makes_the_end_fail(void **state)
{
    aclrtStream stream = make_stream(), side = make_stream();
    int32_t id = -1;
    char words[32];

    assert_acl_ok(aclrtStreamGetId(side, &id));
    snprintf(words, sizeof words, "stream %d", id);
    begin_capture(stream, GLOBAL);
    order_after(side, stream);
    assert_acl(end_of(stream), ACL_ERROR_RT_STREAM_UNJOINED);
    assert_message_has(words);
    assert_message_has("record an event");
    assert_int_equal(capture_status(stream), NOT_CAPTURING);
    assert_int_equal(capture_status(side), NOT_CAPTURING);
    assert_acl_ok(aclrtSynchronizeStream(side));
    begin_capture(stream, GLOBAL);
    end_model(end_capture(stream));
    end_stream(stream);
    end_stream(side);
}

static void work_after_the_way_back_makes_the_end_fail(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream(), side = make_stream();

    begin_capture(stream, GLOBAL);
    order_after(side, stream);
    order_after(stream, side);
    assert_acl_ok(mark_on(side, &marks, 'x'));
    assert_acl(end_of(stream), ACL_ERROR_RT_STREAM_UNJOINED);
    assert_acl_ok(aclrtSynchronizeStream(side));
    assert_string_equal(marks_now(&marks), "");
    end_stream(stream);
    end_stream(side);
}

static void a_stream_that_came_back_to_a_lost_one_is_lost(void **state)
{
    aclrtStream stream = make_stream(), side = make_stream(), far = make_stream();

    begin_capture(stream, GLOBAL);
    order_after(side, stream);
    order_after(far, side);
    order_after(side, far);
    assert_acl(end_of(stream), ACL_ERROR_RT_STREAM_UNJOINED);
    end_stream(stream);
    end_stream(side);
    end_stream(far);
}

/* ---- begin and end ---- */

static void a_capture_begins_once_on_a_stream_of_its_own(void **state)
{
    aclrtStream stream = make_stream(), side = make_stream();

    assert_refused(aclmdlRICaptureBegin(NULL, GLOBAL),
                   ACL_ERROR_RT_STREAM_CAPTURE_IMPLICIT, "default stream");
    assert_bad_arg(aclmdlRICaptureBegin(stream, (aclmdlRICaptureMode)3), "mode is 3");
    begin_capture(stream, RELAXED);
    order_after(side, stream);
    assert_acl(aclmdlRICaptureBegin(stream, RELAXED), ACL_ERROR_RT_STREAM_CAPTURED);
    assert_acl(aclmdlRICaptureBegin(side, RELAXED), ACL_ERROR_RT_STREAM_CAPTURED);
    order_after(stream, side);
    end_model(end_capture(stream));
    end_stream(side);
    end_stream(stream);
    assert_acl(aclmdlRICaptureBegin(stream, GLOBAL), ACL_ERROR_RT_INVALID_HANDLE);
}

static void a_capture_ends_on_the_stream_that_began_it(void **state)
{
    aclrtStream stream = make_stream(), side = make_stream();

    assert_refused(end_of(stream), ACL_ERROR_RT_STREAM_NOT_CAPTURED,
                   "aclmdlRICaptureBegin");
    begin_capture(stream, GLOBAL);
    order_after(side, stream);
    assert_acl(end_of(side), ACL_ERROR_RT_STREAM_CAPTURE_UNMATCHED);
    assert_int_equal(capture_status(stream), CAPTURING);
    assert_acl(aclmdlRICaptureEnd(stream, NULL), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(capture_status(stream), CAPTURING);
    order_after(stream, side);
    end_model(end_capture(stream));
    assert_acl(end_of(stream), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
    end_stream(stream);
    end_stream(side);
}

static aclrtContext shared_context;

static const char *end_elsewhere(struct worker *self)
{
    aclmdlRI *model = self->shared;
    aclError rc;

    worker_check(aclrtSetCurrentContext(shared_context) == ACL_SUCCESS);
    rc = aclmdlRICaptureEnd(*model, model);
    worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_STREAM_CAPTURE_WRONG_THREAD);
    if (rc != ACL_SUCCESS)
        *model = NULL;
    return NULL;
}

static void another_thread_ends_relaxed_captures_only(void **state)
{
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtGetCurrentContext(&shared_context));
    for (int mode = GLOBAL; mode <= RELAXED; mode++) {
        aclmdlRI model = stream;

        begin_capture(stream, (aclmdlRICaptureMode)mode);
        assert_ptr_equal(run_thread(end_elsewhere, &model), NULL);
        if (mode == RELAXED) {
            assert_non_null(model);
        } else {
            assert_null(model);
            model = end_capture(stream);
        }
        end_model(model);
    }
    end_stream(stream);
}

/* ---- the model while it is captured ---- */

static void a_model_that_is_being_captured_does_not_run(void **state)
{
    aclrtStream stream = make_stream(), other = make_stream();
    uint32_t id = 0, later = 0;
    aclmdlRI model;

    begin_capture(stream, RELAXED);
    model = captured_into(stream);
    assert_acl_ok(aclmdlRIGetId(model, &id));
    assert_acl(aclmdlRIExecuteAsync(model, other), ACL_ERROR_RT_MODEL_CAPTURED);
    assert_acl(aclmdlRIDestroy(model), ACL_ERROR_RT_MODEL_CAPTURED);
    assert_ptr_equal(end_capture(stream), model);
    assert_acl_ok(aclmdlRIGetId(model, &later));
    assert_int_equal(id, later);
    replay(model, other);
    end_model(model);
    end_stream(stream);
    end_stream(other);
}

static void a_captured_stream_executes_no_model(void **state)
{
    aclrtStream stream = make_stream();
    aclmdlRI model, second = NULL;

    begin_capture(stream, RELAXED);
    model = end_capture(stream);
    begin_capture(stream, RELAXED);
    assert_acl(aclmdlRIExecuteAsync(model, stream),
               ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
    assert_acl(aclmdlRICaptureEnd(stream, &second),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    replay(model, stream);
    end_model(model);
    end_stream(stream);
}

static void models_are_handles(void **state)
{
    aclrtStream stream = make_stream();
    uint32_t id = 99;
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    model = end_capture(stream);
    assert_bad_arg(aclmdlRIExecuteAsync(NULL, stream), "modelRI is NULL");
    assert_bad_arg(aclmdlRIDestroy(NULL), "modelRI is NULL");
    assert_bad_arg(aclmdlRIGetId(model, NULL), "NULL");
    end_model(model);
    assert_refused(aclmdlRIExecuteAsync(model, stream), ACL_ERROR_RT_INVALID_HANDLE,
                   "not alive");
    assert_refused(aclmdlRIDestroy(model), ACL_ERROR_RT_INVALID_HANDLE, "not alive");
    assert_refused(aclmdlRIGetId(model, &id), ACL_ERROR_RT_INVALID_HANDLE, "not alive");
    assert_refused(aclmdlRIDestroy(stream), ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_int_equal(id, 99);
    end_stream(stream);
}

/* ---- two captures ---- */

static void two_captures_do_not_depend_on_each_other(void **state)
{
    aclrtStream stream = make_stream(), other = make_stream();
    aclrtEvent event = make_ex(ACL_EVENT_SYNC);

    begin_capture(stream, RELAXED);
    begin_capture(other, RELAXED);
    assert_ptr_not_equal(captured_into(stream), captured_into(other));
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl(aclrtStreamWaitEvent(other, event), ACL_ERROR_STREAM_CAPTURE_CONFLICT);
    (void)end_of(other);
    (void)end_of(stream);
    assert_int_equal(capture_status(stream), NOT_CAPTURING);
    assert_int_equal(capture_status(other), NOT_CAPTURING);
    end_event(event);
    end_stream(stream);
    end_stream(other);
    assert_acl_ok(aclrtResetDevice(0));
}

/* ---- the limit ---- */

/* A model holds a stream for its origin and for each stream that joined. */
static void a_model_holds_streams_until_it_is_destroyed(void **state)
{
    aclrtStream stream = make_stream(), left = make_stream(), right = make_stream();
    uint32_t before = streams_available();
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    assert_int_equal(streams_available(), before - 1);
    order_after(left, stream);
    order_after(right, stream);
    assert_int_equal(streams_available(), before - 3);
    order_after(stream, left);
    order_after(stream, right);
    assert_int_equal(streams_available(), before - 3);
    model = end_capture(stream);
    assert_int_equal(streams_available(), before - 3);
    end_model(model);
    assert_int_equal(streams_available(), before);
    end_stream(stream);
    end_stream(left);
    end_stream(right);
}

static void a_failed_capture_holds_no_stream(void **state)
{
    aclrtStream stream = make_stream(), side = make_stream();
    uint32_t before = streams_available();

    begin_capture(stream, GLOBAL);
    order_after(side, stream);
    assert_acl(end_of(stream), ACL_ERROR_RT_STREAM_UNJOINED);
    assert_int_equal(streams_available(), before);
    end_stream(stream);
    end_stream(side);
}

static void captures_run_out_of_streams(void **state)
{
    enum { MOST = 2048 };
    static aclmdlRI models[MOST];
    aclrtStream stream = make_stream(), side = make_stream();
    aclrtEvent event = make_ex(ACL_EVENT_SYNC);
    unsigned n = 0;

    while (streams_available() > 1) {
        assert_true(n < MOST);
        begin_capture(stream, GLOBAL);
        models[n++] = end_capture(stream);
    }
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl(aclrtStreamWaitEvent(side, event), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_message_has("stream resource");
    (void)end_of(stream);
    end_model(models[--n]);
    begin_capture(stream, GLOBAL);
    models[n++] = end_capture(stream);
    while (streams_available() > 0) {
        begin_capture(stream, GLOBAL);
        models[n++] = end_capture(stream);
    }
    assert_acl(aclmdlRICaptureBegin(stream, GLOBAL), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_message_has("stream resource");
    assert_message_has("207008");
    assert_message_has(" has 1, and ");
    assert_message_has(" older models; destroy");
    while (n > 0)
        end_model(models[--n]);
    begin_capture(stream, GLOBAL);
    end_model(end_capture(stream));
    end_event(event);
    end_stream(stream);
    end_stream(side);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(streams_fork_and_join_inside_a_capture),
        claim_both(streams_join_through_streams_that_joined),
        claim(branches_of_a_model_run_at_the_same_time),
        claim_both(a_joined_stream_can_be_destroyed_inside_the_capture),
        claim_both(an_event_recorded_again_orders_by_its_latest_record),
        claim_both(work_of_another_thread_on_a_joined_stream_is_captured),
        claim_both(a_stream_that_did_not_come_back_makes_the_end_fail),
        claim_both(work_after_the_way_back_makes_the_end_fail),
        claim_both(a_stream_that_came_back_to_a_lost_one_is_lost),
        claim_both(a_capture_begins_once_on_a_stream_of_its_own),
        claim_both(a_capture_ends_on_the_stream_that_began_it),
        claim_both(another_thread_ends_relaxed_captures_only),
        claim_both(a_model_that_is_being_captured_does_not_run),
        claim_both(a_captured_stream_executes_no_model),
        claim_both(models_are_handles),
        claim(two_captures_do_not_depend_on_each_other),
        claim_both(a_model_holds_streams_until_it_is_destroyed),
        claim_both(a_failed_capture_holds_no_stream),
        claim(captures_run_out_of_streams),
    };

    return run_claims(claims);
}
