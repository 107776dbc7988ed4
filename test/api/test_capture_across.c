/*
 * Captured work and streams outside of its model: values, events and notifies that one of
 * them sets and the other waits for.
 */
#include "support/blocks.h"
#include "support/capture.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <string.h>

static uint64_t *value_make(void)
{
    void *p = NULL;

    assert_acl_ok(aclrtMallocAlign32(&p, 32, ACL_MEM_MALLOC_NORMAL_ONLY));
    assert_acl_ok(aclrtMemset(p, 32, 0, 32));
    return p;
}

/* ---- values: an update stream lets the model go on ---- */

struct update {
    aclrtContext context;
    aclrtStream stream;
    uint64_t *value;
    aclrtEvent event;
};

static const char *write_value(struct worker *self)
{
    struct update *u = self->shared;

    worker_check(aclrtSetCurrentContext(u->context) == ACL_SUCCESS);
    worker_check(aclrtValueWrite(u->value, 1, 0, u->stream) == ACL_SUCCESS);
    return NULL;
}

static void a_model_waits_for_a_value_that_another_thread_writes(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();
    struct update u = {.stream = make_stream(), .value = value_make()};
    aclmdlRI model;

    assert_acl_ok(aclrtGetCurrentContext(&u.context));
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtValueWait(u.value, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    assert_acl_ok(aclrtValueWrite(u.value, 0, 0, stream));
    assert_acl_ok(mark_on(stream, &marks, 'm'));
    model = end_capture(stream);
    for (int round = 0; round < 3; round++) {
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        assert_int_equal(strlen(marks_now(&marks)), 2 * round);
        assert_ptr_equal(run_thread(write_value, &u), NULL);
        assert_acl_ok(aclrtSynchronizeStream(stream));
        assert_ptr_equal(run_thread(write_value, &u), NULL);
        assert_acl_ok(aclrtSynchronizeStream(u.stream));
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        assert_acl_ok(aclrtSynchronizeStream(stream));
    }
    assert_string_equal(marks_now(&marks), "mmmmmm");
    end_model(model);
    device_free(u.value);
    end_stream(stream);
    end_stream(u.stream);
}

/* A value is cleared inside a capture by a thread that lifts the rule for itself. */
static void a_value_is_made_inside_a_capture(void **state)
{
    aclrtStream stream = make_stream();
    aclmdlRICaptureMode mode = RELAXED;
    uint64_t *value;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclmdlRICaptureThreadExchangeMode(&mode));
    assert_int_equal(mode, GLOBAL);
    value = value_make();
    assert_acl_ok(aclmdlRICaptureThreadExchangeMode(&mode));
    assert_int_equal(mode, RELAXED);
    assert_int_equal(capture_status(stream), CAPTURING);
    end_model(end_capture(stream));
    device_free(value);
    end_stream(stream);
}

/* ---- events across the border ---- */

static const char *record_outside(struct worker *self)
{
    struct update *u = self->shared;

    worker_check(aclrtSetCurrentContext(u->context) == ACL_SUCCESS);
    worker_check(aclrtRecordEvent(u->event, u->stream) == ACL_SUCCESS);
    return NULL;
}

/* The older generation: an EXTERNAL event that the model waits for and resets. */
static void a_model_waits_for_an_external_event(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();
    struct update u = {.stream = make_stream(),
                       .event = make_flagged(ACL_EVENT_EXTERNAL)};
    aclmdlRI model;

    assert_acl_ok(aclrtGetCurrentContext(&u.context));
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtStreamWaitEvent(stream, u.event));
    assert_acl_ok(aclrtResetEvent(u.event, stream));
    assert_acl_ok(mark_on(stream, &marks, 'm'));
    model = end_capture(stream);
    for (int round = 0; round < 3; round++) {
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        assert_acl(aclrtSynchronizeStreamWithTimeout(stream, 1),
                   ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        assert_ptr_equal(run_thread(record_outside, &u), NULL);
        assert_acl_ok(aclrtSynchronizeStream(stream));
    }
    assert_string_equal(marks_now(&marks), "mmm");
    end_model(model);
    end_event(u.event);
    end_stream(stream);
    end_stream(u.stream);
}

static void an_external_event_joins_no_stream(void **state)
{
    aclrtStream stream = make_stream(), other = make_stream();
    aclrtEvent event = make_flagged(ACL_EVENT_EXTERNAL);
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    assert_acl_ok(aclrtResetEvent(event, stream));
    assert_acl_ok(aclrtRecordEvent(event, other));
    assert_int_equal(capture_status(other), NOT_CAPTURING);
    model = end_capture(stream);
    replay(model, stream);
    end_model(model);
    end_event(event);
    end_stream(stream);
    end_stream(other);
}

/* The newer generation: flags of the record and of the wait. */
static void a_record_with_the_flag_is_visible_outside(void **state)
{
    struct marks marks = MARKS_INIT;
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream(), other = make_stream();
    aclrtEvent event = make_ex(ACL_EVENT_SYNC);
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtLaunchHostFunc(stream, gate_pass, &gate));
    assert_acl_ok(mark_on(stream, &marks, 'm'));
    assert_acl_ok(aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_EXTERNAL));
    model = end_capture(stream);
    assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
    assert_acl_ok(aclrtStreamWaitEvent(other, event));
    assert_int_equal(capture_status(other), NOT_CAPTURING);
    assert_acl_ok(mark_on(other, &marks, 'o'));
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(other));
    assert_string_equal(marks_now(&marks), "mo");
    assert_acl_ok(aclrtSynchronizeStream(stream));
    end_model(model);
    end_event(event);
    end_stream(stream);
    end_stream(other);
}

static void a_wait_with_the_flag_sees_records_from_outside(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream(), other = make_stream();
    aclrtEvent event = make_ex(ACL_EVENT_SYNC);
    aclmdlRI model;

    begin_capture(stream, GLOBAL);
    assert_acl_ok(
        aclrtStreamWaitEventWithFlag(stream, event, 0, ACL_EVENT_WAIT_EXTERNAL));
    assert_acl_ok(mark_on(stream, &marks, 'm'));
    model = end_capture(stream);
    for (int round = 0; round < 2; round++) {
        struct gate gate = GATE_INIT;

        hold(other, &gate);
        assert_acl_ok(mark_on(other, &marks, 'o'));
        assert_acl_ok(aclrtRecordEvent(event, other));
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        gate_open(&gate);
        assert_acl_ok(aclrtSynchronizeStream(stream));
    }
    assert_string_equal(marks_now(&marks), "omom");
    end_model(model);
    end_event(event);
    end_stream(stream);
    end_stream(other);
}

/* One model records, another one waits: an order between two graphs. */
static void two_models_are_ordered_by_an_external_event(void **state)
{
    struct marks marks = MARKS_INIT;
    struct gate gate = GATE_INIT;
    aclrtStream first = make_stream(), second = make_stream();
    aclrtEvent event = make_ex(ACL_EVENT_SYNC);
    aclmdlRI records, waits;

    begin_capture(first, GLOBAL);
    assert_acl_ok(aclrtLaunchHostFunc(first, gate_pass, &gate));
    assert_acl_ok(mark_on(first, &marks, '1'));
    assert_acl_ok(aclrtRecordEventWithFlag(event, first, ACL_EVENT_RECORD_EXTERNAL));
    records = end_capture(first);
    begin_capture(second, GLOBAL);
    assert_acl_ok(
        aclrtStreamWaitEventWithFlag(second, event, 0, ACL_EVENT_WAIT_EXTERNAL));
    assert_acl_ok(mark_on(second, &marks, '2'));
    waits = end_capture(second);
    assert_acl_ok(aclmdlRIExecuteAsync(records, first));
    gate_await(&gate, 1);
    assert_acl_ok(aclmdlRIExecuteAsync(waits, second));
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(second));
    assert_string_equal(marks_now(&marks), "12");
    assert_acl_ok(aclrtSynchronizeStream(first));
    end_model(records);
    end_model(waits);
    end_event(event);
    end_stream(first);
    end_stream(second);
}

/* ---- notifies ---- */

static void a_notify_is_captured(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream(), other = make_stream();
    aclrtNotify notify = NULL;
    aclmdlRI model;

    assert_acl_ok(aclrtCreateNotify(&notify, 0));
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 0));
    assert_acl_ok(mark_on(stream, &marks, 'n'));
    model = end_capture(stream);
    for (int i = 0; i < 2; i++) {
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        assert_acl_ok(aclrtRecordNotify(notify, other));
        assert_acl_ok(aclrtSynchronizeStream(stream));
    }
    assert_string_equal(marks_now(&marks), "nn");
    end_model(model);
    assert_acl_ok(aclrtDestroyNotify(notify));
    end_stream(stream);
    end_stream(other);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_model_waits_for_a_value_that_another_thread_writes),
        claim_both(a_value_is_made_inside_a_capture),
        claim(a_model_waits_for_an_external_event),
        claim_both(an_external_event_joins_no_stream),
        claim_both(a_record_with_the_flag_is_visible_outside),
        claim_both(a_wait_with_the_flag_sees_records_from_outside),
        claim_both(two_models_are_ordered_by_an_external_event),
        claim_both(a_notify_is_captured),
    };

    return run_claims(claims);
}
