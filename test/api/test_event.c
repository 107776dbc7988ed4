/* Events: making, arguments, and what records and resets make of them. */
#include "support/events.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

/* ---- making ---- */

static void an_event_is_made_and_ended(void **state)
{
    uint32_t before = available();
    aclrtEvent event = make_event();

    assert_int_equal(available(), before - 1);
    end_event(event);
    assert_int_equal(available(), before);
}

static void making_needs_an_output(void **state)
{
    uint32_t before = available();

    assert_bad_arg(aclrtCreateEvent(NULL), "event is NULL");
    assert_bad_arg(aclrtCreateEventWithFlag(NULL, 1), "event is NULL");
    assert_bad_arg(aclrtCreateEventExWithFlag(NULL, 1), "event is NULL");
    assert_int_equal(available(), before);
}

static void an_event_needs_a_device(void **state)
{
    aclrtEvent event = NULL;
    uint32_t n = 99;

    start("default");
    assert_acl(aclrtCreateEvent(&event), ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl(aclrtGetEventAvailNum(&n), ACL_ERROR_RT_CONTEXT_NULL);
    assert_null(event);
    assert_int_equal(n, 99);
}

static void the_number_is_the_products(void **state)
{
    static const struct {
        const char *option;
        uint32_t n;
    } rows[] = {
        {"ACLMEM_PRODUCT=950", 65536}, {"ACLMEM_PRODUCT=A3", 65536},
        {"ACLMEM_PRODUCT=A2", 65536},  {"ACLMEM_PRODUCT=910", 65535},
        {"ACLMEM_PRODUCT=310P", 1023}, {"ACLMEM_PRODUCT=310B", 65536},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start("default", rows[i].option);
        assert_acl_ok(aclrtSetDevice(0));
        assert_int_equal(available(), rows[i].n);
        assert_acl_ok(aclFinalize());
    }
}

static void one_too_many_is_refused(void **state)
{
    static aclrtEvent events[1023];
    aclrtEvent more = NULL;

    start("default", "ACLMEM_PRODUCT=310P");
    assert_acl_ok(aclrtSetDevice(0));
    for (unsigned i = 0; i < 1023; i++)
        events[i] = i % 2 == 0 ? make_event() : make_ex(ACL_EVENT_SYNC);
    assert_int_equal(available(), 0);
    assert_refused(aclrtCreateEvent(&more), ACL_ERROR_RT_NO_EVENT_RESOURCE, "1023");
    assert_refused(aclrtCreateEventExWithFlag(&more, 1), ACL_ERROR_RT_NO_EVENT_RESOURCE,
                   "1023");
    assert_null(more);
    assert_acl_ok(aclrtSetDevice(1));
    assert_int_equal(available(), 1023);
    assert_acl_ok(aclrtSetDevice(0));
    end_event(events[5]);
    events[5] = make_event();
    for (unsigned i = 0; i < 1023; i++)
        end_event(events[i]);
    assert_int_equal(available(), 1023);
}

static void as_many_as_a_device_has_are_made_quickly(void **state)
{
    static aclrtEvent events[65536];

    for (unsigned i = 0; i < 65536; i++)
        assert_int_equal(aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_SYNC),
                         ACL_SUCCESS);
    assert_int_equal(available(), 0);
    for (unsigned i = 0; i < 65536; i++)
        assert_int_equal(aclrtDestroyEvent(events[i]), ACL_SUCCESS);
}

static void ids_differ(void **state)
{
    aclrtEvent a = make_event(), b = make_event();
    uint32_t first = 0, second = 0;

    assert_acl_ok(aclrtGetEventId(a, &first));
    assert_acl_ok(aclrtGetEventId(b, &second));
    assert_int_not_equal(first, second);
    end_event(a);
    end_event(b);
}

/* ---- handles and arguments ---- */

static void all_refuse(aclrtEvent event, aclError code, const char *words)
{
    aclrtEventRecordedStatus recorded = (aclrtEventRecordedStatus)99;
    aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_RESERVED;
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    aclrtEvent good = make_event();
    uint64_t us = 99;
    uint32_t id = 99;
    float ms = 99;

    assert_refused(aclrtDestroyEvent(event), code, words);
    assert_refused(aclrtRecordEvent(event, NULL), code, words);
    assert_refused(aclrtRecordEventWithFlag(event, NULL, 0), code, words);
    assert_refused(aclrtResetEvent(event, NULL), code, words);
    assert_refused(aclrtQueryEvent(event, &status), code, words);
    assert_refused(aclrtQueryEventStatus(event, &recorded), code, words);
    assert_refused(aclrtQueryEventWaitStatus(event, &waits), code, words);
    assert_refused(aclrtSynchronizeEvent(event), code, words);
    assert_refused(aclrtSynchronizeEventWithTimeout(event, 10), code, words);
    assert_refused(aclrtStreamWaitEvent(NULL, event), code, words);
    assert_refused(aclrtStreamWaitEventWithTimeout(NULL, event, 1), code, words);
    assert_refused(aclrtStreamWaitEventWithFlag(NULL, event, 1, 0), code, words);
    assert_refused(aclrtEventElapsedTime(&ms, event, good), code, words);
    assert_refused(aclrtEventElapsedTime(&ms, good, event), code, words);
    assert_refused(aclrtEventGetTimestamp(event, &us), code, words);
    assert_refused(aclrtGetEventId(event, &id), code, words);
    assert_int_equal(recorded, 99);
    assert_int_equal(waits, ACL_EVENT_WAIT_STATUS_RESERVED);
    assert_int_equal(status, ACL_EVENT_STATUS_RESERVED);
    assert_int_equal(us, 99);
    assert_int_equal(id, 99);
    assert_true(ms == 99);
    end_event(good);
}

static void a_dead_event_is_refused_everywhere(void **state)
{
    aclrtEvent event = make_event();

    end_event(event);
    all_refuse(event, ACL_ERROR_RT_INVALID_HANDLE, "not alive");
}

static void every_function_refuses_a_handle_without_an_event(void **state)
{
    aclrtStream stream = make_stream();
    int local = 0;

    all_refuse(stream, ACL_ERROR_RT_INVALID_HANDLE, "is a stream");
    all_refuse(&local, ACL_ERROR_RT_INVALID_HANDLE, "never created");
    all_refuse(NULL, ACL_ERROR_INVALID_PARAM, "NULL");
    end_stream(stream);
}

static void outputs_may_not_be_null(void **state)
{
    aclrtEvent event = make_event();

    assert_bad_arg(aclrtQueryEvent(event, NULL), "status");
    assert_bad_arg(aclrtQueryEventStatus(event, NULL), "status");
    assert_bad_arg(aclrtQueryEventWaitStatus(event, NULL), "status");
    assert_bad_arg(aclrtEventElapsedTime(NULL, event, event), "ms is NULL");
    assert_bad_arg(aclrtEventGetTimestamp(event, NULL), "us is NULL");
    assert_bad_arg(aclrtGetEventId(event, NULL), "eventId");
    assert_bad_arg(aclrtGetEventAvailNum(NULL), "eventCount");
    end_event(event);
}

static void a_dead_stream_records_and_waits_for_nothing(void **state)
{
    aclrtEvent event = make_event(), ex = make_ex(ACL_EVENT_SYNC);
    aclrtStream stream = make_stream();

    end_stream(stream);
    assert_refused(aclrtRecordEvent(event, stream), ACL_ERROR_RT_INVALID_HANDLE,
                   "stream");
    assert_refused(aclrtResetEvent(event, stream), ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_refused(aclrtStreamWaitEvent(stream, event), ACL_ERROR_RT_INVALID_HANDLE,
                   "stream");
    assert_refused(aclrtRecordEvent(ex, stream), ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_false(is_complete(event));
    assert_true(is_complete(ex)); /* as before its first record, which this was not */
    assert_acl_ok(aclrtRecordEvent(event, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_COMPLETE);
    end_event(event);
    end_event(ex);
}

static void flags_and_times_out_of_range_are_refused(void **state)
{
    aclrtEvent event = make_event();

    assert_bad_arg(aclrtRecordEventWithFlag(event, NULL, 2), "flag is 2");
    assert_bad_arg(aclrtStreamWaitEventWithFlag(NULL, event, 0, 2), "flag is 2");
    assert_bad_arg(aclrtStreamWaitEventWithTimeout(NULL, event, -1), "-1");
    assert_bad_arg(aclrtSynchronizeEventWithTimeout(event, 0), "0 ms");
    assert_bad_arg(aclrtSynchronizeEventWithTimeout(event, -2), "-2 ms");
    assert_acl_ok(aclrtRecordEventWithFlag(event, NULL, ACL_EVENT_RECORD_DEFAULT));
    assert_acl_ok(aclrtStreamWaitEventWithFlag(NULL, event, 60, ACL_EVENT_WAIT_DEFAULT));
    assert_acl_ok(aclrtStreamWaitEventWithTimeout(NULL, event, 0));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    end_event(event);
}

static void extended_events_are_not_for_the_old_questions(void **state)
{
    aclrtEvent ex = make_ex(ACL_EVENT_SYNC);
    aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_RESERVED;
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;

    assert_refused(aclrtQueryEvent(ex, &status), ACL_ERROR_RT_PARAM_INVALID,
                   "aclrtQueryEventStatus");
    assert_refused(aclrtQueryEventWaitStatus(ex, &waits), ACL_ERROR_RT_PARAM_INVALID,
                   "Ex");
    assert_refused(aclrtResetEvent(ex, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "cannot be reset");
    end_event(ex);
}

/* ---- plain events ---- */

static void a_plain_event_is_complete_after_its_record(void **state)
{
    aclrtEventStatus status = ACL_EVENT_STATUS_RESERVED;
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream();
    aclrtEvent event = make_event();

    assert_acl_ok(aclrtQueryEvent(event, &status));
    assert_int_equal(status, ACL_EVENT_STATUS_NOT_READY);
    assert_false(is_complete(event));
    hold(stream, &gate);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_false(is_complete(event));
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeEvent(event));
    assert_true(is_complete(event));
    assert_acl_ok(aclrtQueryEvent(event, &status));
    assert_int_equal(status, ACL_EVENT_STATUS_COMPLETE);
    end_stream(stream);
    end_event(event);
}

static void a_wait_before_the_record_waits_for_it(void **state)
{
    struct marks marks = MARKS_INIT;
    struct gate gate = GATE_INIT;
    aclrtStream waits = make_stream(), records = make_stream();
    aclrtEvent event = make_event();

    assert_acl_ok(aclrtStreamWaitEvent(waits, event));
    assert_acl_ok(mark_on(waits, &marks, 'w'));
    assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_NOT_READY);
    hold(records, &gate);
    assert_acl_ok(mark_on(records, &marks, 'r'));
    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl(aclrtSynchronizeStreamWithTimeout(waits, 10),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_message_has("aclrtStreamWaitEvent");
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(waits));
    assert_string_equal(marks_now(&marks), "rw");
    assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_COMPLETE);
    end_stream(waits);
    end_stream(records);
    end_event(event);
}

static void a_reset_makes_a_plain_event_incomplete(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream waits = make_stream(), records = make_stream();
    aclrtEvent event = make_event();

    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl_ok(aclrtSynchronizeStream(records));
    assert_true(is_complete(event));
    assert_acl_ok(aclrtResetEvent(event, records));
    assert_acl_ok(aclrtSynchronizeStream(records));
    assert_false(is_complete(event));
    assert_acl_ok(aclrtStreamWaitEvent(waits, event));
    assert_acl_ok(mark_on(waits, &marks, 'w'));
    assert_acl(aclrtSynchronizeStreamWithTimeout(waits, 10),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl_ok(mark_on(records, &marks, 'r'));
    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl_ok(aclrtSynchronizeStream(waits));
    assert_string_equal(marks_now(&marks), "rw");
    end_stream(waits);
    end_stream(records);
    end_event(event);
}

/* The usual ring: wait, reset, wait again, all queued before the first record has run. */
static void a_wait_behind_a_reset_waits_for_the_next_record(void **state)
{
    struct marks marks = MARKS_INIT;
    struct gate gate = GATE_INIT;
    aclrtStream waits = make_stream(), records = make_stream();
    aclrtEvent event = make_event();

    hold(records, &gate);
    assert_acl_ok(aclrtRecordEvent(event, records));
    for (int i = 0; i < 2; i++) {
        assert_acl_ok(aclrtStreamWaitEvent(waits, event));
        assert_acl_ok(mark_on(waits, &marks, i == 0 ? 'a' : 'b'));
        assert_acl_ok(aclrtResetEvent(event, waits));
    }
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(records));
    marks_await(&marks, 1);
    assert_acl(aclrtSynchronizeStreamWithTimeout(waits, 10),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_string_equal(marks_now(&marks), "a");
    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl_ok(aclrtSynchronizeStream(waits));
    assert_string_equal(marks_now(&marks), "ab");
    assert_false(is_complete(event));
    end_stream(waits);
    end_stream(records);
    end_event(event);
}

static void a_record_after_the_reset_is_not_undone_by_it(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream resets = make_stream(), records = make_stream();
    aclrtEvent event = make_event();

    hold(resets, &gate);
    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl_ok(aclrtResetEvent(event, resets));
    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl_ok(aclrtSynchronizeStream(records));
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(resets));
    assert_true(is_complete(event));
    end_stream(resets);
    end_stream(records);
    end_event(event);
}

/* ---- extended events ---- */

static void an_extended_event_is_complete_before_its_first_record(void **state)
{
    aclrtEvent ex = make_ex(ACL_EVENT_SYNC);

    assert_true(is_complete(ex));
    assert_acl_ok(aclrtSynchronizeEvent(ex));
    assert_acl_ok(aclrtStreamWaitEvent(NULL, ex));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    end_event(ex);
}

static void an_extended_event_may_be_recorded_again(void **state)
{
    aclrtEvent ex = make_ex(ACL_EVENT_SYNC);
    aclrtStream stream = make_stream();

    for (int i = 0; i < 3; i++) {
        struct gate gate = GATE_INIT;

        hold(stream, &gate);
        assert_acl_ok(aclrtRecordEvent(ex, stream));
        assert_false(is_complete(ex));
        gate_open(&gate);
        assert_acl_ok(aclrtSynchronizeEvent(ex));
        assert_true(is_complete(ex));
    }
    end_stream(stream);
    end_event(ex);
}

static void a_wait_is_for_the_latest_record_at_the_call(void **state)
{
    struct gate first = GATE_INIT, second = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream a = make_stream(), b = make_stream(), waits = make_stream();
    aclrtEvent ex = make_ex(ACL_EVENT_SYNC);

    hold(a, &first);
    hold(b, &second);
    assert_acl_ok(aclrtRecordEvent(ex, a));
    assert_acl_ok(aclrtStreamWaitEvent(waits, ex));
    assert_acl_ok(mark_on(waits, &marks, 'w'));
    assert_acl_ok(aclrtRecordEvent(ex, b));
    gate_open(&first); /* the second record is none of its business */
    assert_acl_ok(aclrtSynchronizeStream(waits));
    assert_string_equal(marks_now(&marks), "w");
    assert_false(is_complete(ex));
    gate_open(&second);
    assert_acl_ok(aclrtSynchronizeEvent(ex));
    end_stream(a);
    end_stream(b);
    end_stream(waits);
    end_event(ex);
}

static void a_later_record_that_runs_first_does_not_end_the_wait(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream slow = make_stream(), quick = make_stream(), waits = make_stream();
    aclrtEvent ex = make_ex(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    uint64_t before = 0, after = 1;

    hold(slow, &gate);
    assert_acl_ok(mark_on(slow, &marks, 's'));
    assert_acl_ok(aclrtRecordEvent(ex, slow));
    assert_acl_ok(aclrtStreamWaitEvent(waits, ex));
    assert_acl_ok(mark_on(waits, &marks, 'w'));
    assert_acl_ok(aclrtRecordEvent(ex, quick));
    assert_acl_ok(aclrtSynchronizeEvent(ex)); /* the latest one has run, */
    assert_true(is_complete(ex));
    assert_acl_ok(aclrtEventGetTimestamp(ex, &before));
    assert_acl(aclrtSynchronizeStreamWithTimeout(waits, 10),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    gate_open(&gate); /* and the one that is waited for, now */
    assert_acl_ok(aclrtSynchronizeStream(waits));
    assert_string_equal(marks_now(&marks), "sw");
    assert_acl_ok(aclrtEventGetTimestamp(ex, &after));
    assert_int_equal(before, after); /* the time is the latest one's */
    end_stream(slow);
    end_stream(quick);
    end_stream(waits);
    end_event(ex);
}

static void an_event_joins_streams_of_two_devices(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream here = make_stream(), there;
    aclrtEvent ex = make_ex(ACL_EVENT_SYNC);

    assert_acl_ok(aclrtSetDevice(1));
    there = make_stream();
    hold(here, &gate);
    assert_acl_ok(mark_on(here, &marks, 'h'));
    assert_acl_ok(aclrtRecordEvent(ex, here));
    assert_acl_ok(aclrtStreamWaitEvent(there, ex));
    assert_acl_ok(mark_on(there, &marks, 't'));
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(there));
    assert_string_equal(marks_now(&marks), "ht");
    end_stream(there);
    assert_acl_ok(aclrtSetDevice(0));
    end_stream(here);
    end_event(ex);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(an_event_is_made_and_ended),
        claim_both(making_needs_an_output),
        claim_alone(an_event_needs_a_device),
        claim_alone(the_number_is_the_products),
        claim_alone(one_too_many_is_refused),
        claim(as_many_as_a_device_has_are_made_quickly),
        claim(ids_differ),
        claim_both(a_dead_event_is_refused_everywhere),
        claim_both(every_function_refuses_a_handle_without_an_event),
        claim_both(outputs_may_not_be_null),
        claim_both(a_dead_stream_records_and_waits_for_nothing),
        claim_both(flags_and_times_out_of_range_are_refused),
        claim_both(extended_events_are_not_for_the_old_questions),
        claim_both(a_plain_event_is_complete_after_its_record),
        claim_both(a_wait_before_the_record_waits_for_it),
        claim_both(a_reset_makes_a_plain_event_incomplete),
        claim_both(a_wait_behind_a_reset_waits_for_the_next_record),
        claim_both(a_record_after_the_reset_is_not_undone_by_it),
        claim_both(an_extended_event_is_complete_before_its_first_record),
        claim_both(an_extended_event_may_be_recorded_again),
        claim_both(a_wait_is_for_the_latest_record_at_the_call),
        claim_both(a_later_record_that_runs_first_does_not_end_the_wait),
        claim_both(an_event_joins_streams_of_two_devices),
    };

    return run_claims(claims);
}
