/* Streams: making, waiting, asking.  How they end: test_stream_end.c. */
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static aclrtStream make_flagged(uint32_t flag)
{
    aclrtStream stream = NULL;

    assert_acl_ok(aclrtCreateStreamWithConfig(&stream, 0, flag));
    return stream;
}

static int32_t id_of(aclrtStream stream)
{
    int32_t id = -1;

    assert_acl_ok(aclrtStreamGetId(stream, &id));
    return id;
}

/* ---- making ---- */

static void a_stream_is_made_and_ended(void **state)
{
    uint32_t before = streams_available();
    aclrtStream stream = make_stream();

    assert_int_equal(streams_available(), before - 1);
    assert_int_equal(status_of(stream), ACL_STREAM_STATUS_COMPLETE);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_int_equal(streams_available(), before);
}

static void requested_properties_can_be_read_back(void **state)
{
    aclrtStreamAttrValue value;
    uint32_t priority = 99, flags = 99;
    aclrtStream stream = NULL;

    assert_acl_ok(aclrtCreateStreamWithConfig(&stream, 7,
                                              ACL_STREAM_FAST_LAUNCH | ACL_STREAM_HUGE));
    assert_acl_ok(aclrtStreamGetPriority(stream, &priority));
    assert_int_equal(priority, 7);
    assert_acl_ok(aclrtStreamGetFlags(stream, &flags));
    assert_int_equal(flags, ACL_STREAM_FAST_LAUNCH | ACL_STREAM_HUGE);
    assert_acl_ok(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value));
    assert_int_equal(value.streamPriority, 7);
    assert_acl_ok(aclrtDestroyStream(stream));

    stream = make_stream();
    assert_acl_ok(aclrtStreamGetPriority(stream, &priority));
    assert_int_equal(priority, 0);
    assert_acl_ok(aclrtStreamGetFlags(stream, &flags));
    assert_int_equal(flags, 0);
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void every_flag_is_taken(void **state)
{
    for (uint32_t flag = 0x1; flag <= 0x20; flag <<= 1)
        assert_acl_ok(aclrtDestroyStream(make_flagged(flag)));
    assert_acl_ok(aclrtDestroyStream(make_flagged(0x3f)));
}

static void making_needs_an_output_and_known_values(void **state)
{
    aclrtStream stream = (aclrtStream)&stream;
    uint32_t before = streams_available();

    assert_bad_arg(aclrtCreateStream(NULL), "stream is NULL");
    assert_bad_arg(aclrtCreateStreamWithConfig(NULL, 0, 0), "stream is NULL");
    assert_bad_arg(aclrtCreateStreamWithConfig(&stream, 8, 0), "priority is 8");
    assert_bad_arg(aclrtCreateStreamWithConfig(&stream, 0, 0x40), "0x40");
    assert_ptr_equal(stream, &stream); /* untouched */
    assert_int_equal(streams_available(), before);
}

static void a_stream_needs_a_device(void **state)
{
    aclrtStream stream = NULL;
    uint32_t n = 99;

    start("default");
    assert_acl(aclrtCreateStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl(aclrtSynchronizeStream(NULL), ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl(aclrtCtxGetCurrentDefaultStream(&stream), ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl(aclrtGetStreamAvailableNum(&n), ACL_ERROR_RT_CONTEXT_NULL);
    assert_acl(aclrtSynchronizeDevice(), ACL_ERROR_RT_CONTEXT_NULL);
    assert_message_has("aclrtSetDevice");
    assert_null(stream);
    assert_int_equal(n, 99);
}

static void ids_differ(void **state)
{
    aclrtStream a = make_stream(), b = make_stream();

    assert_true(id_of(a) >= 0);
    assert_int_not_equal(id_of(a), id_of(b));
    assert_acl_ok(aclrtDestroyStream(a));
    assert_acl_ok(aclrtDestroyStream(b));
}

/* ---- how many ---- */

static void the_number_is_the_products(void **state)
{
    static const struct {
        const char *option;
        uint32_t n;
    } rows[] = {
        {"ACLMEM_PRODUCT=950", 1984},  {"ACLMEM_PRODUCT=A3", 1984},
        {"ACLMEM_PRODUCT=A2", 1984},   {"ACLMEM_PRODUCT=910", 2048},
        {"ACLMEM_PRODUCT=310P", 1024}, {"ACLMEM_PRODUCT=310B", 512},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start("default", rows[i].option);
        assert_acl_ok(aclrtSetDevice(0));
        assert_int_equal(streams_available(), rows[i].n);
        assert_acl_ok(aclFinalize());
    }
}

static void one_too_many_is_refused(void **state)
{
    static aclrtStream streams[512];
    aclrtStream more = NULL;

    start("default", "ACLMEM_PRODUCT=310B-EP");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtSynchronizeStream(NULL)); /* the default one is not counted */
    for (unsigned i = 0; i < 512; i++)
        streams[i] = make_stream();
    assert_int_equal(streams_available(), 0);
    assert_refused(aclrtCreateStream(&more), ACL_ERROR_RT_NO_STREAM_RESOURCE, "512");
    assert_null(more);

    assert_acl_ok(aclrtSetDevice(1)); /* which has its own */
    assert_int_equal(streams_available(), 512);
    assert_acl_ok(aclrtDestroyStream(make_stream()));
    assert_acl_ok(aclrtSetDevice(0));

    assert_acl_ok(aclrtDestroyStream(streams[7]));
    assert_int_equal(streams_available(), 1);
    streams[7] = make_stream();
    for (unsigned i = 0; i < 512; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
    assert_int_equal(streams_available(), 512);
}

/* ---- the default stream ---- */

static void null_is_the_default_stream_of_the_current_context(void **state)
{
    aclrtStream first = NULL, second = NULL;
    uint32_t before = streams_available();
    aclrtContext context;

    assert_acl_ok(aclrtCtxGetCurrentDefaultStream(&first));
    assert_non_null(first);
    assert_int_equal(id_of(NULL), id_of(first));
    context = make_context(0);
    assert_acl_ok(aclrtCtxGetCurrentDefaultStream(&second));
    assert_ptr_not_equal(first, second);
    assert_int_equal(id_of(NULL), id_of(second));
    assert_int_equal(streams_available(), before);
    assert_acl_ok(aclrtDestroyContext(context));
    assert_acl(aclrtSynchronizeStream(second), ACL_ERROR_RT_INVALID_HANDLE);
    assert_acl(aclrtCtxGetCurrentDefaultStream(NULL), ACL_ERROR_INVALID_PARAM);
}

static void work_on_null_is_work_on_the_default_stream(void **state)
{
    struct gate gate = GATE_INIT;
    aclrtStream stream = NULL;

    assert_acl_ok(aclrtCtxGetCurrentDefaultStream(&stream));
    hold(NULL, &gate);
    assert_int_equal(status_of(stream), ACL_STREAM_STATUS_NOT_READY);
    assert_int_equal(status_of(NULL), ACL_STREAM_STATUS_NOT_READY);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_int_equal(status_of(stream), ACL_STREAM_STATUS_COMPLETE);
}

static void a_default_stream_cannot_be_destroyed(void **state)
{
    aclrtStream stream = NULL;

    assert_acl_ok(aclrtCtxGetCurrentDefaultStream(&stream));
    assert_refused(aclrtDestroyStream(stream), ACL_ERROR_RT_PARAM_INVALID,
                   "default stream");
    assert_refused(aclrtDestroyStreamForce(stream), ACL_ERROR_RT_PARAM_INVALID,
                   "default stream");
    assert_bad_arg(aclrtDestroyStream(NULL), "NULL");
    assert_bad_arg(aclrtDestroyStreamForce(NULL), "NULL");
    assert_acl_ok(aclrtSynchronizeStream(stream));
}

/* ---- handles ---- */

static void nothing(void *arg)
{
}

/* What each call that takes a stream answers. */
static void all_refuse(aclrtStream stream, const char *words)
{
    aclError code = ACL_ERROR_RT_INVALID_HANDLE;
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
    aclrtStreamAttrValue value = {.failureMode = 0};
    uint32_t number = 99;
    int32_t id = 99;

    assert_refused(aclrtDestroyStream(stream), code, words);
    assert_refused(aclrtDestroyStreamForce(stream), code, words);
    assert_refused(aclrtSynchronizeStream(stream), code, words);
    assert_refused(aclrtSynchronizeStreamWithTimeout(stream, 10), code, words);
    assert_refused(aclrtStreamQuery(stream, &status), code, words);
    assert_refused(aclrtStreamAbort(stream), code, words);
    assert_refused(aclrtStreamStop(stream), code, words);
    assert_refused(aclrtStreamGetId(stream, &id), code, words);
    assert_refused(aclrtStreamGetPriority(stream, &number), code, words);
    assert_refused(aclrtStreamGetFlags(stream, &number), code, words);
    assert_refused(aclrtSetStreamFailureMode(stream, ACL_STOP_ON_FAILURE), code, words);
    assert_refused(
        aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value), code,
        words);
    assert_refused(
        aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_USER_CUSTOM_TAG, &value), code,
        words);
    assert_refused(aclrtLaunchHostFunc(stream, nothing, NULL), code, words);
    assert_refused(aclrtLaunchCallback(nothing, NULL, ACL_CALLBACK_BLOCK, stream), code,
                   words);
    assert_refused(aclrtSubscribeReport((uint64_t)pthread_self(), stream), code, words);
    assert_refused(aclrtUnSubscribeReport((uint64_t)pthread_self(), stream), code, words);
    assert_int_equal(status, ACL_STREAM_STATUS_RESERVED);
    assert_int_equal(number, 99);
    assert_int_equal(id, 99);
}

static void a_dead_stream_is_refused_everywhere(void **state)
{
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtDestroyStream(stream));
    all_refuse(stream, "not alive");
}

static void a_number_that_is_no_stream_is_refused_everywhere(void **state)
{
    aclrtEvent event = NULL;
    aclrtContext context = NULL;
    int local = 0;

    assert_acl_ok(aclrtCreateEvent(&event));
    all_refuse(event, "is an event");
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtGetCurrentContext(&context));
    all_refuse(context, "is a context");
    all_refuse(&local, "never created");
}

static void outputs_may_not_be_null(void **state)
{
    aclrtStream stream = make_stream();

    assert_bad_arg(aclrtStreamQuery(stream, NULL), "status");
    assert_bad_arg(aclrtStreamGetId(stream, NULL), "streamId");
    assert_bad_arg(aclrtStreamGetPriority(stream, NULL), "priority");
    assert_bad_arg(aclrtStreamGetFlags(stream, NULL), "flags");
    assert_bad_arg(aclrtGetStreamAvailableNum(NULL), "streamCount");
    assert_bad_arg(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, NULL),
                   "value");
    assert_bad_arg(aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, NULL),
                   "value");
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void only_its_own_context_destroys_a_stream(void **state)
{
    aclrtContext first = NULL, second;
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtGetCurrentContext(&first));
    second = make_context(0);
    assert_refused(aclrtDestroyStream(stream), ACL_ERROR_RT_STREAM_CONTEXT,
                   "another context");
    assert_refused(aclrtDestroyStreamForce(stream), ACL_ERROR_RT_STREAM_CONTEXT,
                   "another context");
    assert_acl_ok(aclrtSynchronizeStream(stream)); /* to wait is everybody's right */
    assert_acl_ok(aclrtDestroyContext(second));
    assert_acl_ok(aclrtSetCurrentContext(first));
    assert_acl_ok(aclrtDestroyStream(stream));
}

/* ---- attributes ---- */

static void attributes_are_kept(void **state)
{
    static const aclrtStreamAttr attrs[] = {
        ACL_STREAM_ATTR_FAILURE_MODE, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK,
        ACL_STREAM_ATTR_USER_CUSTOM_TAG, ACL_STREAM_ATTR_CACHE_OP_INFO};
    aclrtStream stream = make_stream();

    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
        aclrtStreamAttrValue value = {.failureMode = 1}, got;

        assert_acl_ok(aclrtGetStreamAttribute(stream, attrs[i], &got));
        assert_int_equal(got.failureMode, 0);
        assert_acl_ok(aclrtSetStreamAttribute(stream, attrs[i], &value));
        assert_acl_ok(aclrtGetStreamAttribute(stream, attrs[i], &got));
        assert_int_equal(got.failureMode, 1);
    }
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void other_attributes_and_values_are_refused(void **state)
{
    aclrtStreamAttrValue value = {.failureMode = 2};
    aclrtStream stream = make_stream();

    assert_bad_arg(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_FAILURE_MODE, &value),
                   "failure mode is 2");
    assert_bad_arg(aclrtSetStreamFailureMode(stream, 2), "failure mode is 2");
    assert_bad_arg(aclrtSetStreamAttribute(stream, ACL_STREAM_ATTR_PRIORITY, &value),
                   "attribute 5");
    assert_bad_arg(aclrtSetStreamAttribute(stream, (aclrtStreamAttr)0, &value),
                   "attribute 0");
    assert_bad_arg(aclrtGetStreamAttribute(stream, (aclrtStreamAttr)6, &value),
                   "attr is 6");
    assert_int_equal(value.failureMode, 2);
    assert_refused(aclrtSetStreamFailureMode(NULL, ACL_STOP_ON_FAILURE),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "default stream");
    assert_acl_ok(aclrtDestroyStream(stream));
}

/* ---- waiting ---- */

static void a_synchronised_stream_has_done_everything_in_order(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();

    for (char c = 'a'; c <= 'z'; c++)
        assert_acl_ok(mark_on(stream, &marks, c));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_string_equal(marks_now(&marks), "abcdefghijklmnopqrstuvwxyz");
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void a_wait_that_takes_too_long_says_what_it_waited_for(void **state)
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    aclrtStream stream = make_stream();

    hold(stream, &gate);
    assert_acl_ok(mark_on(stream, &marks, 'a'));
    assert_int_equal(status_of(stream), ACL_STREAM_STATUS_NOT_READY);
    assert_refused(
        aclrtSynchronizeStreamWithTimeout(stream, 20), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
        "still has 2 tasks after 20 ms, the first queued by aclrtLaunchHostFunc");
    assert_refused(aclrtSynchronizeDeviceWithTimeout(20),
                   ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, "2 tasks");
    assert_string_equal(marks_now(&marks), "");
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStreamWithTimeout(stream, 60000));
    assert_string_equal(marks_now(&marks), "a");
    assert_acl_ok(aclrtSynchronizeStreamWithTimeout(stream, -1));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void a_timeout_is_minus_one_or_more_than_zero(void **state)
{
    aclrtStream stream = make_stream();
    static const int32_t bad[] = {0, -2, INT32_MIN};

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_bad_arg(aclrtSynchronizeStreamWithTimeout(stream, bad[i]), "timeout");
        assert_bad_arg(aclrtSynchronizeDeviceWithTimeout(bad[i]), "timeout");
    }
    assert_acl_ok(aclrtSynchronizeStreamWithTimeout(stream, INT32_MAX));
    assert_acl_ok(aclrtSynchronizeDeviceWithTimeout(1));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void some_streams_are_never_waited_for(void **state)
{
    static const uint32_t flags[] = {ACL_STREAM_PERSISTENT, ACL_STREAM_CPU_SCHEDULE,
                                     ACL_STREAM_DEVICE_USE_ONLY};
    struct gate gate = GATE_INIT;
    aclrtStream streams[3];

    for (int i = 0; i < 3; i++) {
        streams[i] = make_flagged(flags[i]);
        hold(streams[i], &gate);
        assert_acl_ok(aclrtSynchronizeStream(streams[i]));
        assert_acl_ok(aclrtSynchronizeStreamWithTimeout(streams[i], 1));
        assert_int_equal(status_of(streams[i]), ACL_STREAM_STATUS_NOT_READY);
    }
    assert_acl_ok(aclrtSynchronizeDevice());
    gate_open(&gate);
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
}

static void a_device_waits_for_its_own_streams_only(void **state)
{
    struct gate gate = GATE_INIT, other = GATE_INIT;
    aclrtContext context = NULL, second;
    aclrtStream mine = make_stream(), theirs, elsewhere;

    assert_acl_ok(aclrtGetCurrentContext(&context));
    second = make_context(0);
    theirs = make_stream();
    assert_acl_ok(aclrtSetDevice(1));
    elsewhere = make_stream();
    hold(elsewhere, &other);
    assert_acl_ok(aclrtSetCurrentContext(context));
    assert_acl_ok(aclrtSynchronizeDevice());

    hold(theirs, &gate);
    assert_acl(aclrtSynchronizeDeviceWithTimeout(10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl_ok(aclrtSynchronizeStream(mine));
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeDevice());
    gate_open(&other);
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtDestroyStream(elsewhere));
    assert_acl_ok(aclrtDestroyContext(second));
    assert_acl_ok(aclrtSetCurrentContext(context));
    assert_acl_ok(aclrtDestroyStream(mine));
}

static const char *sync_device(struct worker *self)
{
    worker_check(aclrtSetCurrentContext(self->shared) == ACL_SUCCESS);
    worker_check(aclrtSynchronizeDeviceWithTimeout(50) ==
                 ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    return NULL;
}

/* Each of them looks at every stream, whoever else looks at the same time. */
static void two_threads_wait_for_the_device_at_once(void **state)
{
    struct gate gate = GATE_INIT;
    struct worker workers[6];
    aclrtContext context = NULL;
    aclrtStream streams[8];

    assert_acl_ok(aclrtGetCurrentContext(&context));
    for (int i = 0; i < 8; i++)
        streams[i] = make_stream();
    hold(streams[0], &gate); /* the one that a walk meets last */
    for (int i = 0; i < 6; i++)
        workers[i] = (struct worker){.run = sync_device, .shared = context};
    assert_ptr_equal(run_workers(workers, 6), NULL);
    gate_open(&gate);
    for (int i = 0; i < 8; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_stream_is_made_and_ended),
        claim_both(requested_properties_can_be_read_back),
        claim_both(every_flag_is_taken),
        claim_both(making_needs_an_output_and_known_values),
        claim_alone(a_stream_needs_a_device),
        claim(ids_differ),
        claim_alone(the_number_is_the_products),
        claim_alone(one_too_many_is_refused),
        claim_both(null_is_the_default_stream_of_the_current_context),
        claim_both(work_on_null_is_work_on_the_default_stream),
        claim_both(a_default_stream_cannot_be_destroyed),
        claim_both(a_dead_stream_is_refused_everywhere),
        claim_both(a_number_that_is_no_stream_is_refused_everywhere),
        claim_both(outputs_may_not_be_null),
        claim_both(only_its_own_context_destroys_a_stream),
        claim_both(attributes_are_kept),
        claim_both(other_attributes_and_values_are_refused),
        claim_both(a_synchronised_stream_has_done_everything_in_order),
        claim_both(a_wait_that_takes_too_long_says_what_it_waited_for),
        claim_both(a_timeout_is_minus_one_or_more_than_zero),
        claim_both(some_streams_are_never_waited_for),
        claim_both(a_device_waits_for_its_own_streams_only),
        claim(two_threads_wait_for_the_device_at_once),
    };

    return run_claims(claims);
}
