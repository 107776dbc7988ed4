/* Events: which flags each function takes, and what an event of those flags can do. */
#include "support/events.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

/* The name that frameworks give to bits 0x2, 0x4 and 0x8; no document has it. */
#define FRAMEWORK_DEFAULT 0xeU

static void each_function_takes_its_flags(void **state)
{
    for (uint32_t flag = 1; flag <= 0xf; flag++) {
        if (flag & 0x4)
            continue;
        end_event(make_flagged(flag));
        end_event(make_ex(flag));
    }
    end_event(make_flagged(ACL_EVENT_DEVICE_USE_ONLY));
    end_event(make_flagged(ACL_EVENT_DEVICE_USE_ONLY | ACL_EVENT_SYNC));
    end_event(make_flagged(ACL_EVENT_EXTERNAL));
    end_event(make_ex(ACL_EVENT_IPC));
}

static void both_functions_take_the_bit_of_frameworks(void **state)
{
    for (uint32_t flag = 0x4; flag <= 0xf; flag++) {
        end_event(make_flagged(flag));
        end_event(make_ex(flag));
    }
}

static void strict_rules_know_no_such_bit(void **state)
{
    aclrtEvent event = (aclrtEvent)&event;

    assert_bad_arg(aclrtCreateEventWithFlag(&event, FRAMEWORK_DEFAULT), "strict");
    assert_bad_arg(aclrtCreateEventExWithFlag(&event, 0x4), "strict");
    assert_ptr_equal(event, &event);
}

static void flags_of_the_other_function_are_refused(void **state)
{
    static const struct {
        aclError (*create)(aclrtEvent *, uint32_t);
        uint32_t flag;
        const char *words;
    } rows[] = {
        {aclrtCreateEventWithFlag, 0, "flag is 0x0"},
        {aclrtCreateEventWithFlag, 0x40, "aclrtCreateEventExWithFlag"},
        {aclrtCreateEventWithFlag, 0x80, "flag is 0x80"},
        {aclrtCreateEventWithFlag, 0x21, "stands alone"},
        {aclrtCreateEventWithFlag, 0x30, "stands alone"},
        {aclrtCreateEventExWithFlag, 0, "flag is 0x0"},
        {aclrtCreateEventExWithFlag, 0x10, "aclrtCreateEventWithFlag"},
        {aclrtCreateEventExWithFlag, 0x20, "aclrtCreateEventWithFlag"},
        {aclrtCreateEventExWithFlag, 0x80, "flag is 0x80"},
        {aclrtCreateEventExWithFlag, 0x41, "stands alone"},
    };
    aclrtEvent event = (aclrtEvent)&event;
    uint32_t before = available();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_bad_arg(rows[i].create(&event, rows[i].flag), rows[i].words);
    assert_ptr_equal(event, &event);
    assert_int_equal(available(), before);
}

/* ---- plain events without ACL_EVENT_SYNC ---- */

/* Wait, reset, and the next record: two rounds. */
static void use_as_a_ring(aclrtEvent event)
{
    aclrtStream records = make_stream(), waits = make_stream();

    for (int round = 0; round < 2; round++) {
        struct marks marks = MARKS_INIT;
        struct gate gate = GATE_INIT;

        hold(records, &gate);
        assert_acl_ok(mark_on(records, &marks, 'r'));
        assert_acl_ok(aclrtRecordEvent(event, records));
        assert_acl_ok(aclrtStreamWaitEvent(waits, event));
        assert_acl_ok(mark_on(waits, &marks, 'w'));
        assert_acl_ok(aclrtResetEvent(event, waits));
        assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_NOT_READY);
        gate_open(&gate);
        assert_acl_ok(aclrtSynchronizeStream(waits));
        assert_string_equal(marks_now(&marks), "rw");
        assert_false(is_complete(event));
        assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_COMPLETE);
    }
    end_stream(records);
    end_stream(waits);
}

static void every_plain_event_may_be_waited_for_and_reset(void **state)
{
    for (uint32_t flag = 1; flag <= 0xf; flag++) {
        aclrtEvent event = make_flagged(flag);

        use_as_a_ring(event);
        end_event(event);
    }
}

static void strict_rules_ask_for_the_flag(void **state)
{
    aclrtEvent timing = make_flagged(ACL_EVENT_TIME_LINE);
    aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_RESERVED;

    assert_refused(aclrtStreamWaitEvent(NULL, timing), ACL_ERROR_RT_PARAM_INVALID,
                   "strict");
    assert_refused(aclrtResetEvent(timing, NULL), ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_refused(aclrtQueryEventWaitStatus(timing, &waits), ACL_ERROR_RT_PARAM_INVALID,
                   "strict");
    assert_int_equal(waits, ACL_EVENT_WAIT_STATUS_RESERVED);
    assert_acl_ok(aclrtRecordEvent(timing, NULL));
    assert_acl_ok(aclrtSynchronizeEvent(timing));
    end_event(timing);
}

static void a_stream_waits_for_no_extended_event_without_the_flag(void **state)
{
    aclrtEvent timing = make_ex(ACL_EVENT_TIME_LINE);

    assert_refused(aclrtStreamWaitEvent(NULL, timing), ACL_ERROR_RT_PARAM_INVALID,
                   "ACL_EVENT_SYNC");
    assert_acl_ok(aclrtRecordEvent(timing, NULL));
    assert_acl_ok(aclrtSynchronizeEvent(timing));
    end_event(timing);
}

static void an_event_between_processes_has_no_id_and_no_time(void **state)
{
    aclrtEvent event = make_ex(ACL_EVENT_IPC);
    uint64_t us = 99;
    uint32_t id = 99;

    assert_refused(aclrtGetEventId(event, &id), ACL_ERROR_RT_PARAM_INVALID,
                   "ACL_EVENT_IPC");
    assert_refused(aclrtEventGetTimestamp(event, &us),
                   ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "ACL_EVENT_TIME_LINE");
    assert_int_equal(id, 99);
    assert_int_equal(us, 99);
    end_event(event);
}

/* ---- the wait status ---- */

static void the_wait_status_is_complete_once_the_record_has_run(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream();
    aclrtEvent event = make_flagged(ACL_EVENT_SYNC);

    assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_NOT_READY);
    for (int round = 0; round < 2; round++) {
        gate.is_open = false;
        hold(stream, &gate);
        assert_acl_ok(aclrtRecordEvent(event, stream));
        assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_NOT_READY);
        gate_open(&gate);
        assert_acl_ok(aclrtSynchronizeStream(stream));
        assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_COMPLETE);
    }
    end_stream(stream);
    end_event(event);
}

static void a_wait_that_is_not_over_holds_the_wait_status_back(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream waits = make_stream();
    aclrtEvent event = make_event();

    hold(waits, &gate);
    assert_acl_ok(aclrtStreamWaitEvent(waits, event));
    assert_acl_ok(aclrtRecordEvent(event, NULL));
    assert_acl_ok(aclrtSynchronizeEvent(event));
    assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_NOT_READY);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(waits));
    assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_COMPLETE);
    end_stream(waits);
    end_event(event);
}

static void the_wait_status_reports_a_dropped_record(void **state)
{
    aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_RESERVED;
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream();
    aclrtEvent event = make_event();

    hold(stream, &gate);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl_ok(aclrtStreamAbort(stream));
    gate_open(&gate);
    assert_acl(aclrtSynchronizeEvent(event), ACL_ERROR_RT_STREAM_ABORT);
    assert_refused(aclrtQueryEventWaitStatus(event, &waits), ACL_ERROR_RT_STREAM_ABORT,
                   "was not recorded");
    assert_int_equal(waits, ACL_EVENT_WAIT_STATUS_RESERVED);
    end_stream(stream);
    end_event(event);
}

static void strict_rules_ask_for_the_waits_alone(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream();
    aclrtEvent event = make_event();

    assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_COMPLETE);
    hold(stream, &gate);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_COMPLETE);
    gate_open(&gate);
    end_stream(stream);
    end_event(event);
}

/* ---- flags of a record and a wait ---- */

static void the_flags_for_captured_streams_change_nothing(void **state)
{
    aclrtEvent event = make_event();

    assert_acl_ok(aclrtRecordEventWithFlag(event, NULL, ACL_EVENT_RECORD_EXTERNAL));
    assert_acl_ok(aclrtStreamWaitEventWithFlag(NULL, event, 60, ACL_EVENT_WAIT_EXTERNAL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    end_event(event);
}

static void strict_rules_keep_them_to_captured_streams(void **state)
{
    aclrtEvent ex = make_ex(ACL_EVENT_SYNC);

    assert_refused(aclrtRecordEventWithFlag(ex, NULL, ACL_EVENT_RECORD_EXTERNAL),
                   ACL_ERROR_RT_PARAM_INVALID, "strict");
    assert_refused(aclrtStreamWaitEventWithFlag(NULL, ex, 0, ACL_EVENT_WAIT_EXTERNAL),
                   ACL_ERROR_RT_PARAM_INVALID, "strict");
    end_event(ex);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(each_function_takes_its_flags),
        claim(both_functions_take_the_bit_of_frameworks),
        claim_strict(strict_rules_know_no_such_bit),
        claim_both(flags_of_the_other_function_are_refused),
        claim(every_plain_event_may_be_waited_for_and_reset),
        claim_strict(strict_rules_ask_for_the_flag),
        claim_both(a_stream_waits_for_no_extended_event_without_the_flag),
        claim_both(an_event_between_processes_has_no_id_and_no_time),
        claim(the_wait_status_is_complete_once_the_record_has_run),
        claim_both(a_wait_that_is_not_over_holds_the_wait_status_back),
        claim(the_wait_status_reports_a_dropped_record),
        claim_strict(strict_rules_ask_for_the_waits_alone),
        claim(the_flags_for_captured_streams_change_nothing),
        claim_strict(strict_rules_keep_them_to_captured_streams),
    };

    return run_claims(claims);
}
