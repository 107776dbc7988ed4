/*
 * What may be called on the streams of a capture, and after a refusal.
 *
 * A refused call invalidates the capture: aclmdlRICaptureEnd then fails, and the stream can be
 * used and captured again.  test_capture_elsewhere.c has the calls that name no stream of the
 * capture.
 */
#include "support/blocks.h"
#include "support/capture_rows.h"
#include "support/vmm.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define SIZE ROW_SIZE

/* ---- the calls ---- */

static aclError captured_copy(void)
{
    return copy_device(on.stream);
}

static aclError captured_copy_in(void)
{
    return copy_from(on.pinned, on.stream);
}

static aclError captured_copy_out(void)
{
    return copy_to(on.pinned, on.stream);
}

static aclError captured_copy_2d(void)
{
    return copy_2d_from(on.pinned, on.stream);
}

static aclError captured_copy_batch(void)
{
    return copy_batch_from(on.pinned, on.stream);
}

static aclError captured_copy_desc(void)
{
    return copy_by_desc(on.stream);
}

static aclError captured_copy_addresses(void)
{
    return copy_by_addresses(on.stream);
}

static aclError captured_memset(void)
{
    return aclrtMemsetAsync(on.a, SIZE, 1, SIZE, on.stream);
}

static aclError captured_pageable_in(void)
{
    return copy_from(on.pageable, on.stream);
}

static aclError captured_pageable_out(void)
{
    return copy_to(on.pageable, on.stream);
}

static aclError captured_pageable_2d(void)
{
    return copy_2d_from(on.pageable, on.stream);
}

static aclError captured_pageable_batch(void)
{
    return copy_batch_from(on.pageable, on.stream);
}

static aclError captured_memset_words(void)
{
    return aclrtMemsetD32Async(on.a, SIZE, 1, SIZE / 4, on.stream);
}

static aclError captured_record(void)
{
    return aclrtRecordEvent(on.inside, on.stream);
}

static aclError captured_wait(void)
{
    return aclrtStreamWaitEvent(on.stream, on.inside);
}

/* The record is not in the capture. */
static aclError captured_wait_outside(void)
{
    return aclrtStreamWaitEvent(on.stream, on.outside);
}

static aclError captured_wait_outside_for_a_time(void)
{
    return aclrtStreamWaitEventWithTimeout(on.stream, on.outside, 10);
}

static aclError captured_reset(void)
{
    return aclrtResetEvent(on.inside, on.stream);
}

static aclError captured_value_write(void)
{
    return aclrtValueWrite(on.value, 1, 0, on.stream);
}

static aclError captured_value_wait(void)
{
    return aclrtValueWait(on.value, 1, ACL_STREAM_WAIT_VALUE_EQ, on.stream);
}

static aclError captured_function(void)
{
    return aclrtLaunchHostFunc(on.stream, do_nothing, NULL);
}

static aclError launch_callback(aclrtCallbackBlockType type)
{
    uint64_t self = (uint64_t)pthread_self();
    aclError rc = aclrtSubscribeReport(self, on.stream);

    if (rc == ACL_SUCCESS)
        rc = aclrtLaunchCallback(do_nothing, NULL, type, on.stream);
    return rc != ACL_SUCCESS ? rc : aclrtUnSubscribeReport(self, on.stream);
}

static aclError captured_callback(void)
{
    return launch_callback(ACL_CALLBACK_BLOCK);
}

static aclError captured_callback_that_does_not_block(void)
{
    return launch_callback(ACL_CALLBACK_NO_BLOCK);
}

static aclError captured_notify(void)
{
    return aclrtRecordNotify(on.notify, on.stream);
}

static aclError captured_notify_wait(void)
{
    return aclrtWaitAndResetNotify(on.notify, on.stream, 0);
}

static aclError sync_captured(void)
{
    return aclrtSynchronizeStream(on.stream);
}

static aclError sync_captured_for_a_time(void)
{
    return aclrtSynchronizeStreamWithTimeout(on.stream, 10);
}

static aclError query_captured(void)
{
    aclrtStreamStatus status;

    return aclrtStreamQuery(on.stream, &status);
}

static aclError abort_captured(void)
{
    return aclrtStreamAbort(on.stream);
}

static aclError stop_captured(void)
{
    return aclrtStreamStop(on.stream);
}

static aclError sync_captured_event(void)
{
    return aclrtSynchronizeEvent(on.inside);
}

static aclError sync_captured_event_for_a_time(void)
{
    return aclrtSynchronizeEventWithTimeout(on.inside, 10);
}

static aclError query_captured_event(void)
{
    aclrtEventRecordedStatus status;

    return aclrtQueryEventStatus(on.inside, &status);
}

static aclError query_captured_waits(void)
{
    aclrtEventWaitStatus status;

    return aclrtQueryEventWaitStatus(on.inside, &status);
}

static aclError set_overflow(void)
{
    return aclrtSetStreamOverflowSwitch(on.stream, 1);
}

static aclError set_attribute(void)
{
    aclrtStreamAttrValue value;

    memset(&value, 0, sizeof value);
    value.cacheOpInfoSwitch = 1;
    return aclrtSetStreamAttribute(on.stream, ACL_STREAM_ATTR_CACHE_OP_INFO, &value);
}

static aclError record_external(void)
{
    return aclrtRecordEventWithFlag(on.ex, on.stream, ACL_EVENT_RECORD_EXTERNAL);
}

static aclError wait_external(void)
{
    return aclrtStreamWaitEventWithFlag(on.stream, on.external, 0,
                                        ACL_EVENT_WAIT_EXTERNAL);
}

static aclError record_ipc(void)
{
    return aclrtRecordEvent(on.ipc, on.stream);
}

static aclError wait_ipc(void)
{
    return aclrtStreamWaitEvent(on.stream, on.ipc);
}

static aclError joined_copy(void)
{
    aclError rc = join_side();

    if (rc == ACL_SUCCESS)
        rc = copy_device(on.side);
    if (rc == ACL_SUCCESS)
        rc = aclrtRecordEvent(on.ex, on.side);
    return rc != ACL_SUCCESS ? rc : aclrtStreamWaitEvent(on.stream, on.ex);
}

static aclError sync_joined(void)
{
    aclError rc = join_side();

    return rc != ACL_SUCCESS ? rc : aclrtSynchronizeStream(on.side);
}

static aclError abort_joined(void)
{
    aclError rc = join_side();

    return rc != ACL_SUCCESS ? rc : aclrtStreamAbort(on.side);
}

static aclError query_joined(void)
{
    aclrtStreamStatus status;
    aclError rc = join_side();

    return rc != ACL_SUCCESS ? rc : aclrtStreamQuery(on.side, &status);
}

static aclError joined_wait_outside(void)
{
    aclError rc = join_side();

    return rc != ACL_SUCCESS ? rc : aclrtStreamWaitEvent(on.side, on.outside);
}

static aclError joined_pageable(void)
{
    aclError rc = join_side();

    return rc != ACL_SUCCESS ? rc : copy_from(on.pageable, on.side);
}

/* ---- the table ---- */

static const struct row rows[] = {
    {"a captured copy", captured_copy, ALLOWED, 0, NULL},
    {"a captured copy from pinned memory", captured_copy_in, ALLOWED, 0, NULL},
    {"a captured copy to pinned memory", captured_copy_out, ALLOWED, 0, NULL},
    {"a captured copy of rows", captured_copy_2d, ALLOWED, 0, NULL},
    {"a captured batch", captured_copy_batch, ALLOWED, 0, NULL},
    {"a captured copy by a descriptor", captured_copy_desc, ALLOWED, 0, NULL},
    {"a captured copy by addresses", captured_copy_addresses, ALLOWED, 0, NULL},
    {"a captured memset", captured_memset, ALLOWED, 0, NULL},
    {"a captured memset of words", captured_memset_words, ALLOWED, 0, NULL},
    {"a captured copy from pageable memory", captured_pageable_in, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
    {"a captured copy to pageable memory", captured_pageable_out, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
    {"a captured copy of rows from pageable memory", captured_pageable_2d, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
    {"a captured batch from pageable memory", captured_pageable_batch, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
    {"a captured record", captured_record, ALLOWED, 0, NULL},
    {"a captured wait", captured_wait, ALLOWED, 0, NULL},
    {"a captured wait for an event of another stream", captured_wait_outside, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_DEPENDENCY, "EXTERNAL"},
    {"the same for a time", captured_wait_outside_for_a_time, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_DEPENDENCY, "EXTERNAL"},
    {"a captured reset", captured_reset, ALLOWED, 0, NULL},
    {"a captured write of a value", captured_value_write, ALLOWED, 0, NULL},
    {"a captured wait for a value", captured_value_wait, ALLOWED, 0, NULL},
    {"a captured function", captured_function, ALLOWED, 0, NULL},
    {"a captured callback", captured_callback, ALLOWED, 0, NULL},
    {"a captured callback that does not block", captured_callback_that_does_not_block,
     ALLOWED, 0, NULL},
    {"a captured record of a notify", captured_notify, ALLOWED, 0, NULL},
    {"a captured wait for a notify", captured_notify_wait, ALLOWED, 0, NULL},
    {"synchronising the captured stream", sync_captured, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURED, "aclrtSynchronizeStream"},
    {"synchronising the captured stream for a time", sync_captured_for_a_time, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURED, "aclrtSynchronizeStreamWithTimeout"},
    {"querying the captured stream", query_captured, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURED, "aclrtStreamQuery"},
    {"aborting the captured stream", abort_captured, ILLEGAL,
     ACL_ERROR_RT_STREAM_CAPTURED, "aclrtStreamAbort"},
    {"stopping the captured stream", stop_captured, ILLEGAL, ACL_ERROR_RT_STREAM_CAPTURED,
     "aclrtStreamStop"},
    {"synchronising a captured event", sync_captured_event, ILLEGAL,
     ACL_ERROR_RT_EVENT_CAPTURED, "aclrtSynchronizeEvent"},
    {"synchronising a captured event for a time", sync_captured_event_for_a_time, ILLEGAL,
     ACL_ERROR_RT_EVENT_CAPTURED, "aclrtSynchronizeEventWithTimeout"},
    {"querying a captured event", query_captured_event, ILLEGAL,
     ACL_ERROR_RT_EVENT_CAPTURED, "aclrtQueryEventStatus"},
    {"querying waits for a captured event", query_captured_waits, ILLEGAL,
     ACL_ERROR_RT_EVENT_CAPTURED, "aclrtQueryEventWaitStatus"},
    {"an attribute of the captured stream", set_attribute, ALLOWED, 0, NULL},
    {"the overflow switch of the captured stream", set_overflow, ALLOWED, 0, NULL},
    {"an external record", record_external, ALLOWED, 0, NULL},
    {"an external wait", wait_external, ALLOWED, 0, NULL},
    {"a record of an event of several processes", record_ipc, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "other processes"},
    {"a wait for an event of several processes", wait_ipc, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "other processes"},
    {"a copy on a joined stream", joined_copy, ALLOWED, 0, NULL},
    {"synchronising a joined stream", sync_joined, ILLEGAL, ACL_ERROR_RT_STREAM_CAPTURED,
     "aclrtSynchronizeStream"},
    {"aborting a joined stream", abort_joined, ILLEGAL, ACL_ERROR_RT_STREAM_CAPTURED,
     "aclrtStreamAbort"},
    {"querying a joined stream", query_joined, ILLEGAL, ACL_ERROR_RT_STREAM_CAPTURED,
     "aclrtStreamQuery"},
    {"a wait on a joined stream for an event of another stream", joined_wait_outside,
     ILLEGAL, ACL_ERROR_RT_CAPTURE_DEPENDENCY, "EXTERNAL"},
    {"a copy from pageable memory on a joined stream", joined_pageable, ILLEGAL,
     ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost"},
};

static void each_call_on_a_captured_stream_follows_the_table(void **state)
{
    run_rows(rows, sizeof rows / sizeof rows[0]);
}

/* ---- calls that name no stream ---- */

static aclError sync_device(void)
{
    return aclrtSynchronizeDevice();
}

static aclError sync_memset(void)
{
    return aclrtMemset(on.b, SIZE, 1, SIZE);
}

/* ---- a thread's own mode ---- */

/* Whether a synchronous copy is refused: capture's mode, thread's mode, by another. */
static bool mode_refuses(int capture, int thread, bool by_another)
{
    if (capture == RELAXED || thread == RELAXED)
        return false;
    if (capture == GLOBAL)
        return !by_another || thread == GLOBAL;
    return !by_another;
}

static void a_thread_lifts_the_rule_for_itself(void **state)
{
    open_scene();
    for (int capture = GLOBAL; capture <= RELAXED; capture++)
        for (int thread = GLOBAL; thread <= RELAXED; thread++)
            for (int by_another = 0; by_another < 2; by_another++) {
                struct attempt t = {
                    .call = sync_memset, .mode = thread, .by_another = by_another};
                bool refused = mode_refuses(capture, thread, by_another);
                aclmdlRICaptureStatus status;
                char name[100];

                snprintf(name, sizeof name, "capture %d, thread %d, by another %d",
                         capture, thread, by_another);
                status = try_in_capture((aclmdlRICaptureMode)capture, &t);
                check_attempt(name, &t,
                              refused ? ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT : 0,
                              "aclrtMemset", status);
                end_attempt(!refused);
            }
    close_scene();
}

/* ---- after a refusal ---- */

static void an_invalidated_capture_ends_and_the_next_one_works(void **state)
{
    aclmdlRI model = NULL;

    open_scene();
    assert_acl_ok(aclrtMemset(on.a, SIZE, 5, SIZE));
    assert_acl_ok(aclrtMemset(on.b, SIZE, 0, SIZE));
    begin_capture(on.stream, GLOBAL);
    assert_acl_ok(captured_copy());
    assert_acl(sync_captured(), ACL_ERROR_RT_STREAM_CAPTURED);
    assert_int_equal(capture_status(on.stream), INVALIDATED);
    assert_acl(captured_copy(), ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_acl(aclmdlRICaptureEnd(on.stream, &model),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_message_has("aclrtSynchronizeStream");
    assert_acl_ok(aclrtSynchronizeStream(on.stream));
    assert_all_bytes(on.b, SIZE, 0);
    begin_capture(on.stream, GLOBAL);
    assert_acl_ok(captured_copy());
    model = end_capture(on.stream);
    replay(model, on.stream);
    assert_all_bytes(on.b, SIZE, 5);
    end_model(model);
    close_scene();
}

static void a_refusal_invalidates_no_capture_that_allows_the_call(void **state)
{
    aclmdlRI model = NULL;

    open_scene();
    begin_capture(on.stream, GLOBAL);
    begin_capture(on.other, RELAXED);
    assert_acl(sync_memset(), ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT);
    assert_int_equal(capture_status(on.stream), INVALIDATED);
    assert_int_equal(capture_status(on.other), CAPTURING);
    assert_acl(aclmdlRICaptureEnd(on.stream, &model),
               ACL_ERROR_RT_STREAM_CAPTURE_INVALIDATED);
    assert_acl_ok(sync_memset());
    end_model(end_capture(on.other));
    close_scene();
}

/* Frameworks that synchronise after each call skip that when a stream is captured. */
static void synchronising_is_legal_right_after_the_end(void **state)
{
    open_scene();
    begin_capture(on.stream, GLOBAL);
    assert_acl_ok(captured_copy());
    assert_int_equal(capture_status(on.stream), CAPTURING);
    end_model(end_capture(on.stream));
    assert_int_equal(capture_status(on.stream), NOT_CAPTURING);
    assert_acl_ok(sync_captured());
    assert_acl_ok(sync_device());
    assert_acl_ok(sync_memset());
    close_scene();
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(each_call_on_a_captured_stream_follows_the_table),
        claim_both(a_thread_lifts_the_rule_for_itself),
        claim_both(an_invalidated_capture_ends_and_the_next_one_works),
        claim(a_refusal_invalidates_no_capture_that_allows_the_call),
        claim_both(synchronising_is_legal_right_after_the_end),
    };

    return run_claims(claims);
}
