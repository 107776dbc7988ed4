/* Events: who waits, how that ends, and times. */
#include "support/events.h"
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <sched.h>

/* ---- the host waits ---- */

static void the_host_waits_no_longer_than_it_wants(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream stream = make_stream();
    aclrtEvent event = make_event();

    assert_refused(aclrtSynchronizeEventWithTimeout(event, 10),
                   ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "no call has recorded it");
    hold(stream, &gate);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_refused(aclrtSynchronizeEventWithTimeout(event, 10),
                   ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, "not complete after 10 ms");
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeEventWithTimeout(event, 60000));
    assert_acl_ok(aclrtSynchronizeEventWithTimeout(event, -1));
    end_stream(stream);
    end_event(event);
}

static const char *sync_event(struct worker *self)
{
    aclError rc = aclrtSynchronizeEvent(self->shared);

    worker_check(rc == ACL_ERROR_RT_INVALID_HANDLE);
    return NULL;
}

static void a_wait_for_a_destroyed_plain_event_fails(void **state)
{
    for (int i = 0; i < 30; i++) { /* before it waits, or while it does */
        aclrtEvent event = make_event();
        struct worker worker = {.run = sync_event, .shared = event};

        assert_int_equal(worker_start(&worker), 0);
        for (int j = 0; j < i; j++)
            sched_yield();
        end_event(event);
        assert_ptr_equal(worker_join(&worker), NULL);
    }
}

static void an_event_may_be_destroyed_before_it_is_complete(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream records = make_stream(), waits = make_stream();
    aclrtEvent event = make_event(), ex = make_ex(ACL_EVENT_SYNC);

    hold(records, &gate);
    assert_acl_ok(mark_on(records, &marks, 'r'));
    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl_ok(aclrtRecordEvent(ex, records));
    assert_acl_ok(aclrtStreamWaitEvent(waits, event));
    assert_acl_ok(aclrtStreamWaitEvent(waits, ex));
    assert_acl_ok(mark_on(waits, &marks, 'w'));
    end_event(event);
    end_event(ex);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(waits));
    assert_string_equal(marks_now(&marks), "rw");
    end_stream(records);
    end_stream(waits);
}

/* The record never ran: nobody may take what comes before it for done. */
static void a_wait_for_a_dropped_record_fails(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream records = make_stream(), waits = make_stream();
    aclrtEvent event = make_flagged(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    aclrtEventRecordedStatus status;
    uint64_t us = 0;

    hold(records, &gate);
    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl_ok(aclrtStreamWaitEvent(waits, event));
    assert_acl_ok(mark_on(waits, &marks, 'w'));
    assert_acl_ok(aclrtStreamAbort(records));
    gate_open(&gate);
    assert_acl(aclrtSynchronizeEvent(event), ACL_ERROR_RT_STREAM_ABORT);
    assert_message_has("was not recorded");
    assert_acl(aclrtQueryEventStatus(event, &status), ACL_ERROR_RT_STREAM_ABORT);
    assert_acl(aclrtSynchronizeStream(waits), ACL_ERROR_RT_STREAM_ABORT);
    assert_message_has("work queued by aclrtStreamWaitEvent failed");
    assert_acl_ok(aclrtSynchronizeStream(waits));
    assert_string_equal(marks_now(&marks), "w");
    assert_refused(aclrtEventGetTimestamp(event, &us),
                   ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, "no record");
    assert_acl(aclrtSynchronizeEvent(event), ACL_ERROR_RT_STREAM_ABORT); /* and again */

    /* The next record is another matter. */
    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl_ok(aclrtStreamWaitEvent(waits, event));
    assert_acl_ok(aclrtSynchronizeEvent(event));
    assert_acl_ok(aclrtSynchronizeStream(waits));
    end_stream(records);
    end_stream(waits);
    end_event(event);
}

/* Destroying the event changes nothing for who waits for its record. */
static void a_record_may_be_dropped_when_its_event_is_gone(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream records = make_stream(), waits = make_stream();
    aclrtEvent event = make_event();

    hold(records, &gate);
    assert_acl_ok(aclrtRecordEvent(event, records));
    assert_acl_ok(aclrtStreamWaitEvent(waits, event));
    end_event(event);
    assert_acl_ok(aclrtStreamAbort(records));
    gate_open(&gate);
    assert_acl(aclrtSynchronizeStream(waits), ACL_ERROR_RT_STREAM_ABORT);
    assert_message_has("was not recorded");
    end_stream(records);
    end_stream(waits);
}

/* A failure goes along the events with its code; a second stream passes it on. */
static void a_failure_reaches_every_wait_for_the_stopped_work(void **state)
{
    aclrtStream first = make_stream(), second = make_stream();
    aclrtEvent never = make_event(), between = make_ex(ACL_EVENT_SYNC),
               last = make_event();

    assert_acl_ok(aclrtSetStreamFailureMode(first, ACL_STOP_ON_FAILURE));
    assert_acl_ok(aclrtSetStreamFailureMode(second, ACL_STOP_ON_FAILURE));
    assert_acl_ok(aclrtStreamWaitEvent(first, never));
    assert_acl_ok(aclrtRecordEvent(between, first));
    assert_acl_ok(aclrtStreamWaitEvent(second, between));
    assert_acl_ok(aclrtRecordEvent(last, second));
    end_event(never); /* so the first stream's wait fails */
    assert_acl(aclrtSynchronizeEvent(last), ACL_ERROR_RT_INVALID_HANDLE);
    assert_message_has("work that aclrtStreamWaitEvent had queued");
    assert_acl(aclrtSynchronizeEvent(between), ACL_ERROR_RT_INVALID_HANDLE);
    assert_acl(aclrtSynchronizeStream(second), ACL_ERROR_RT_INVALID_HANDLE);
    assert_acl(aclrtSynchronizeStream(first), ACL_ERROR_RT_INVALID_HANDLE);
    assert_message_has("destroyed while the stream waited");
    assert_acl_ok(aclrtSynchronizeDevice());
    end_stream(first);
    end_stream(second);
    end_event(between);
    end_event(last);
}

/* Each wait is told about its own record, not about the latest. */
static void losses_are_distinguished(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream dropped = make_stream(), fine = make_stream();
    aclrtStream waits[2] = {make_stream(), make_stream()};
    aclrtEvent ex = make_ex(ACL_EVENT_SYNC);

    hold(waits[0], &gate);
    hold(waits[1], &gate);
    hold(dropped, &gate);
    assert_acl_ok(aclrtRecordEvent(ex, dropped));
    assert_acl_ok(aclrtStreamWaitEvent(waits[0], ex));
    assert_acl_ok(aclrtRecordEvent(ex, fine));
    assert_acl_ok(aclrtStreamWaitEvent(waits[1], ex));
    assert_acl_ok(aclrtStreamAbort(dropped));
    assert_acl_ok(aclrtSynchronizeEvent(ex));
    gate_open(&gate);
    assert_acl(aclrtSynchronizeStream(waits[0]), ACL_ERROR_RT_STREAM_ABORT);
    assert_acl_ok(aclrtSynchronizeStream(waits[1]));
    end_stream(dropped);
    end_stream(fine);
    end_stream(waits[0]);
    end_stream(waits[1]);
    end_event(ex);
}

static void a_stream_that_waits_for_an_event_that_is_destroyed_fails(void **state)
{
    struct marks marks = MARKS_INIT;
    struct gate gate = GATE_INIT;
    aclrtStream parked = make_stream(), later = make_stream();
    aclrtEvent event = make_event();

    hold(later, &gate); /* which comes to its wait when the event is gone */
    assert_acl_ok(aclrtStreamWaitEvent(later, event));
    assert_acl_ok(aclrtStreamWaitEvent(parked, event));
    assert_acl_ok(mark_on(parked, &marks, 'p'));
    end_event(event);
    gate_open(&gate);
    assert_acl(aclrtSynchronizeStream(parked), ACL_ERROR_RT_INVALID_HANDLE);
    assert_message_has("work queued by aclrtStreamWaitEvent failed");
    assert_message_has("destroyed while the stream waited");
    assert_string_equal(marks_now(&marks), "p");
    assert_acl(aclrtSynchronizeStream(later), ACL_ERROR_RT_INVALID_HANDLE);
    end_stream(parked);
    end_stream(later);
}

static void so_does_one_on_another_device_when_the_events_device_is_reset(void **state)
{
    aclrtStream stream;
    aclrtEvent event = make_event();

    assert_acl_ok(aclrtSetDevice(1));
    stream = make_stream();
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    assert_message_has("destroyed while the stream waited");
    end_stream(stream);
    assert_acl_ok(aclrtResetDevice(1));
    assert_acl_ok(aclrtSetDevice(0));
}

/* ---- times ---- */

/* To a microsecond, and to what a float has of a long time. */
static bool is_near(float ms, uint64_t us)
{
    double difference = (double)ms * 1000 - (double)us;
    double most = 1 + (double)us / (1 << 22);

    return difference > -most && difference < most;
}

static void times_grow_and_their_difference_is_measured(void **state)
{
    aclrtEvent first = make_flagged(ACL_EVENT_TIME_LINE), second = make_event();
    uint64_t from = 0, to = 0;
    float ms = -1;

    assert_acl_ok(aclrtRecordEvent(first, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    do {
        assert_acl_ok(aclrtRecordEvent(second, NULL));
        assert_acl_ok(aclrtSynchronizeStream(NULL));
        assert_acl_ok(aclrtEventGetTimestamp(first, &from));
        assert_acl_ok(aclrtEventGetTimestamp(second, &to));
    } while (to < from + 2000);
    assert_acl_ok(aclrtEventElapsedTime(&ms, first, second));
    assert_true(is_near(ms, to - from));
    assert_acl_ok(aclrtEventElapsedTime(&ms, first, first));
    assert_true(ms == 0);
    assert_refused(aclrtEventElapsedTime(&ms, second, first),
                   ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, "recorded before");
    assert_true(ms == 0);
    end_event(first);
    end_event(second);
}

static void without_a_record_there_is_no_time(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtEvent timed = make_event(), untimed = make_flagged(ACL_EVENT_SYNC);
    aclrtEvent ex = make_ex(ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    aclError code = ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID;
    uint64_t us = 0;
    float ms = -1;

    assert_refused(aclrtEventGetTimestamp(timed, &us), code, "no record");
    assert_acl_ok(aclrtRecordEvent(timed, NULL));
    assert_acl_ok(aclrtRecordEvent(untimed, NULL));
    assert_acl_ok(aclrtRecordEvent(ex, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_refused(aclrtEventGetTimestamp(untimed, &us), code, "ACL_EVENT_TIME_LINE");
    assert_refused(aclrtEventElapsedTime(&ms, timed, untimed), code,
                   "ACL_EVENT_TIME_LINE");
    assert_refused(aclrtEventElapsedTime(&ms, untimed, timed), code,
                   "ACL_EVENT_TIME_LINE");
    assert_acl_ok(aclrtEventElapsedTime(&ms, timed, ex));

    hold(NULL, &gate);
    assert_acl_ok(aclrtRecordEvent(ex, NULL));
    assert_refused(aclrtEventElapsedTime(&ms, timed, ex), code,
                   "synchronise the stream first");
    assert_refused(aclrtEventGetTimestamp(ex, &us), code, "synchronise the stream first");
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_acl_ok(aclrtEventElapsedTime(&ms, timed, ex));
    end_event(timed);
    end_event(untimed);
    end_event(ex);
}

/* Two events, one in each of two streams. */
static void record_in_two_streams(aclrtEvent *first, aclrtEvent *second)
{
    aclrtStream a = make_stream(), b = make_stream();

    *first = make_event();
    *second = make_event();
    assert_acl_ok(aclrtRecordEvent(*first, a));
    assert_acl_ok(aclrtSynchronizeStream(a));
    assert_acl_ok(aclrtRecordEvent(*second, b));
    assert_acl_ok(aclrtSynchronizeStream(b));
    end_stream(a);
    end_stream(b);
}

static void the_time_between_two_streams_is_measured(void **state)
{
    aclrtEvent first, second;
    float ms = -1;

    record_in_two_streams(&first, &second);
    assert_acl_ok(aclrtEventElapsedTime(&ms, first, second));
    assert_true(ms >= 0);
    end_event(first);
    end_event(second);
}

static void strict_rules_want_one_stream_for_it(void **state)
{
    aclrtEvent first, second;
    float ms = -1;

    record_in_two_streams(&first, &second);
    assert_refused(aclrtEventElapsedTime(&ms, first, second), ACL_ERROR_RT_PARAM_INVALID,
                   "strict");
    assert_true(ms == -1);
    end_event(first);
    end_event(second);
}

/* ---- waits that end ---- */

/* A second passes here. */
static void a_wait_of_a_stream_may_have_an_end(void **state)
{
    aclrtStream given = make_stream(), flagged = make_stream(), usual = make_stream();
    aclrtEvent event = make_event();

    assert_acl_ok(aclrtStreamWaitEventWithTimeout(given, event, 1));
    assert_acl_ok(aclrtStreamWaitEventWithFlag(flagged, event, 1, 0));
    assert_acl_ok(aclrtSetOpWaitTimeout(1)); /* for those who say nothing else */
    assert_acl_ok(aclrtStreamWaitEvent(usual, event));
    assert_acl_ok(aclrtSetOpWaitTimeout(0));
    assert_acl(aclrtSynchronizeStream(given), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_message_has("aclrtStreamWaitEventWithTimeout");
    assert_acl(aclrtSynchronizeStream(flagged), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_message_has("aclrtStreamWaitEventWithFlag");
    assert_acl(aclrtSynchronizeStream(usual), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_message_has("aclrtStreamWaitEvent");
    assert_acl_ok(aclrtRecordEvent(event, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(waits_of(event), ACL_EVENT_WAIT_STATUS_COMPLETE);
    end_stream(given);
    end_stream(flagged);
    end_stream(usual);
    end_event(event);
}

static void events_die_with_their_device(void **state)
{
    aclrtEvent event = make_event();

    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE);
    assert_int_equal(available(), 65536);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(the_host_waits_no_longer_than_it_wants),
        claim(a_wait_for_a_destroyed_plain_event_fails),
        claim_both(an_event_may_be_destroyed_before_it_is_complete),
        claim_both(a_wait_for_a_dropped_record_fails),
        claim_both(a_record_may_be_dropped_when_its_event_is_gone),
        claim_both(a_failure_reaches_every_wait_for_the_stopped_work),
        claim_both(losses_are_distinguished),
        claim_both(a_stream_that_waits_for_an_event_that_is_destroyed_fails),
        claim(so_does_one_on_another_device_when_the_events_device_is_reset),
        claim_both(times_grow_and_their_difference_is_measured),
        claim_both(without_a_record_there_is_no_time),
        claim(the_time_between_two_streams_is_measured),
        claim_strict(strict_rules_want_one_stream_for_it),
        claim(a_wait_of_a_stream_may_have_an_end),
        claim_both(events_die_with_their_device),
    };

    return run_claims(claims);
}
