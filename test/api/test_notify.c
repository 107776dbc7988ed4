/* Notifies: a bit that one stream sets and another waits for and clears. */
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

static aclrtNotify make_notify(void)
{
    aclrtNotify notify = NULL;

    assert_acl_ok(aclrtCreateNotify(&notify, 0));
    assert_non_null(notify);
    return notify;
}

static void making_needs_an_output_and_no_flag(void **state)
{
    aclrtNotify notify = (aclrtNotify)&notify;

    assert_bad_arg(aclrtCreateNotify(NULL, 0), "notify is NULL");
    assert_bad_arg(aclrtCreateNotify(&notify, 1), "flag is 0x1");
    assert_ptr_equal(notify, &notify);
    assert_acl_ok(aclrtDestroyNotify(make_notify()));
}

static void a_notify_needs_a_device(void **state)
{
    aclrtNotify notify = NULL;

    start("default");
    assert_acl(aclrtCreateNotify(&notify, 0), ACL_ERROR_RT_CONTEXT_NULL);
    assert_null(notify);
}

static void ids_differ(void **state)
{
    aclrtNotify a = make_notify(), b = make_notify();
    uint32_t first = 0, second = 0;

    assert_acl_ok(aclrtGetNotifyId(a, &first));
    assert_acl_ok(aclrtGetNotifyId(b, &second));
    assert_int_not_equal(first, second);
    assert_acl_ok(aclrtDestroyNotify(a));
    assert_acl_ok(aclrtDestroyNotify(b));
}

static void all_refuse(aclrtNotify notify, aclError code, const char *words)
{
    uint32_t id = 99;

    assert_refused(aclrtDestroyNotify(notify), code, words);
    assert_refused(aclrtRecordNotify(notify, NULL), code, words);
    assert_refused(aclrtWaitAndResetNotify(notify, NULL, 1), code, words);
    assert_refused(aclrtGetNotifyId(notify, &id), code, words);
    assert_int_equal(id, 99);
}

static void a_handle_without_a_notify_is_refused(void **state)
{
    aclrtNotify notify = make_notify();
    aclrtEvent event = NULL;
    int local = 0;

    assert_bad_arg(aclrtGetNotifyId(notify, NULL), "notifyId");
    assert_acl_ok(aclrtDestroyNotify(notify));
    all_refuse(notify, ACL_ERROR_RT_INVALID_HANDLE, "not alive");
    all_refuse(&local, ACL_ERROR_RT_INVALID_HANDLE, "never created");
    all_refuse(NULL, ACL_ERROR_INVALID_PARAM, "NULL");
    assert_acl_ok(aclrtCreateEvent(&event));
    all_refuse(event, ACL_ERROR_RT_INVALID_HANDLE, "is an event");
    assert_acl_ok(aclrtDestroyEvent(event));
}

static void a_dead_stream_is_refused(void **state)
{
    aclrtNotify notify = make_notify();
    aclrtStream stream = make_stream();

    end_stream(stream);
    assert_refused(aclrtRecordNotify(notify, stream), ACL_ERROR_RT_INVALID_HANDLE,
                   "stream");
    assert_refused(aclrtWaitAndResetNotify(notify, stream, 0),
                   ACL_ERROR_RT_INVALID_HANDLE, "stream");
    assert_acl_ok(aclrtDestroyNotify(notify));
}

static void a_wait_is_for_a_record_before_or_after_it(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream waits = make_stream(), records = make_stream();
    aclrtNotify notify = make_notify();

    assert_acl_ok(aclrtWaitAndResetNotify(notify, waits, 0));
    assert_acl_ok(mark_on(waits, &marks, 'w'));
    assert_acl(aclrtSynchronizeStreamWithTimeout(waits, 10),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_message_has("aclrtWaitAndResetNotify");
    assert_acl_ok(mark_on(records, &marks, 'r'));
    assert_acl_ok(aclrtRecordNotify(notify, records));
    assert_acl_ok(aclrtSynchronizeStream(waits));
    assert_string_equal(marks_now(&marks), "rw");

    assert_acl_ok(aclrtRecordNotify(notify, records));
    assert_acl_ok(aclrtSynchronizeStream(records));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, waits, 0));
    assert_acl_ok(aclrtSynchronizeStream(waits));
    end_stream(waits);
    end_stream(records);
    assert_acl_ok(aclrtDestroyNotify(notify));
}

static void a_record_ends_one_wait(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream waits[2] = {make_stream(), make_stream()}, records = make_stream();
    aclrtNotify notify = make_notify();

    for (int i = 0; i < 2; i++) {
        assert_acl_ok(aclrtWaitAndResetNotify(notify, waits[i], 0));
        assert_acl_ok(mark_on(waits[i], &marks, 'w'));
    }
    assert_acl_ok(aclrtRecordNotify(notify, records));
    marks_await(&marks, 1); /* by the one that passed */
    assert_acl(aclrtSynchronizeDeviceWithTimeout(20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_string_equal(marks_now(&marks), "w");
    assert_acl_ok(aclrtRecordNotify(notify, records));
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_string_equal(marks_now(&marks), "ww");
    end_stream(waits[0]);
    end_stream(waits[1]);
    end_stream(records);
    assert_acl_ok(aclrtDestroyNotify(notify));
}

static void two_records_in_a_row_are_one(void **state)
{
    aclrtStream stream = make_stream();
    aclrtNotify notify = make_notify();

    assert_acl_ok(aclrtRecordNotify(notify, stream));
    assert_acl_ok(aclrtRecordNotify(notify, stream));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 0));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 0));
    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, 10),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl_ok(aclrtDestroyStreamForce(stream));
    assert_acl_ok(aclrtDestroyNotify(notify));
}

static void only_the_device_that_made_it_waits(void **state)
{
    aclrtNotify notify = make_notify();
    aclrtStream elsewhere;

    assert_acl_ok(aclrtSetDevice(1));
    elsewhere = make_stream();
    assert_refused(aclrtWaitAndResetNotify(notify, elsewhere, 0),
                   ACL_ERROR_RT_PARAM_INVALID, "made on device 0");
    assert_acl_ok(
        aclrtRecordNotify(notify, elsewhere)); /* to say it is everybody's right */
    assert_acl_ok(aclrtSynchronizeStream(elsewhere));
    end_stream(elsewhere);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, NULL, 0));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_acl_ok(aclrtDestroyNotify(notify));
}

static void a_batch_is_reset_whole_or_not_at_all(void **state)
{
    aclrtStream stream = make_stream();
    aclrtNotify notifies[3] = {make_notify(), make_notify(), make_notify()};
    aclrtNotify with_dead[2] = {notifies[0], notifies[2]};

    for (int i = 0; i < 2; i++)
        assert_acl_ok(aclrtRecordNotify(notifies[i], stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyNotify(notifies[2]));
    assert_refused(aclrtNotifyBatchReset(with_dead, 2), ACL_ERROR_RT_INVALID_HANDLE,
                   "not alive");
    assert_bad_arg(aclrtNotifyBatchReset(NULL, 2), "notifies");
    assert_bad_arg(aclrtNotifyBatchReset(notifies, 0), "num is 0");

    assert_acl_ok(aclrtWaitAndResetNotify(notifies[0], stream, 0)); /* is set still */
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtNotifyBatchReset(notifies, 2));
    assert_acl_ok(aclrtWaitAndResetNotify(notifies[1], stream, 0));
    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, 10),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl_ok(aclrtDestroyStreamForce(stream));
    assert_acl_ok(aclrtDestroyNotify(notifies[0]));
    assert_acl_ok(aclrtDestroyNotify(notifies[1]));
}

/* A second passes here. */
static void a_wait_may_have_an_end(void **state)
{
    aclrtStream stream = make_stream();
    aclrtNotify notify = make_notify();

    assert_acl_ok(aclrtWaitAndResetNotify(notify, stream, 1));
    assert_acl(aclrtSynchronizeStream(stream), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_message_has("work queued by aclrtWaitAndResetNotify failed");
    assert_acl_ok(aclrtSynchronizeStream(stream));
    end_stream(stream);
    assert_acl_ok(aclrtDestroyNotify(notify));
}

static void a_stream_that_waits_for_a_notify_that_is_destroyed_fails(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream waits[2] = {make_stream(), make_stream()}, records = make_stream();
    aclrtNotify notify = make_notify();

    /* Parked, and nobody can set it any more. */
    assert_acl_ok(aclrtWaitAndResetNotify(notify, waits[0], 0));
    assert_acl_ok(aclrtDestroyNotify(notify));
    assert_acl(aclrtSynchronizeStream(waits[0]), ACL_ERROR_RT_INVALID_HANDLE);
    assert_message_has("work queued by aclrtWaitAndResetNotify failed");
    assert_message_has("destroyed while the stream waited");

    /* A record that was queued before still lets one of them pass. */
    notify = make_notify();
    hold(records, &gate);
    assert_acl_ok(aclrtRecordNotify(notify, records));
    for (int i = 0; i < 2; i++)
        assert_acl_ok(aclrtWaitAndResetNotify(notify, waits[i], 0));
    assert_acl_ok(aclrtDestroyNotify(notify));
    gate_open(&gate);
    assert_int_equal(aclrtSynchronizeStream(waits[0]) + aclrtSynchronizeStream(waits[1]),
                     ACL_ERROR_RT_INVALID_HANDLE);

    /* And none when it is dropped. */
    notify = make_notify();
    gate.is_open = false;
    hold(records, &gate);
    assert_acl_ok(aclrtRecordNotify(notify, records));
    assert_acl_ok(aclrtWaitAndResetNotify(notify, waits[0], 0));
    assert_acl_ok(aclrtDestroyNotify(notify));
    assert_acl_ok(aclrtStreamAbort(records));
    assert_acl(aclrtSynchronizeStream(waits[0]), ACL_ERROR_RT_INVALID_HANDLE);
    gate_open(&gate);
    end_stream(waits[0]);
    end_stream(waits[1]);
    end_stream(records);
}

static void notifies_die_with_their_device(void **state)
{
    aclrtNotify notify = make_notify();

    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl(aclrtDestroyNotify(notify), ACL_ERROR_RT_INVALID_HANDLE);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(making_needs_an_output_and_no_flag),
        claim_alone(a_notify_needs_a_device),
        claim(ids_differ),
        claim_both(a_handle_without_a_notify_is_refused),
        claim_both(a_dead_stream_is_refused),
        claim_both(a_wait_is_for_a_record_before_or_after_it),
        claim_both(a_record_ends_one_wait),
        claim_both(two_records_in_a_row_are_one),
        claim_both(only_the_device_that_made_it_waits),
        claim_both(a_batch_is_reset_whole_or_not_at_all),
        claim(a_wait_may_have_an_end),
        claim_both(a_stream_that_waits_for_a_notify_that_is_destroyed_fails),
        claim_both(notifies_die_with_their_device),
    };

    return run_claims(claims);
}
