/* Models that are built without a capture, from streams that the program binds to them. */
#include "support/blocks.h"
#include "support/capture.h"
#include "support/vmm.h"
#include "support/work.h"

#define SIZE 4096

static aclrtStream make_persistent(void)
{
    aclrtStream stream = NULL;

    assert_acl_ok(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_PERSISTENT));
    return stream;
}

static aclmdlRI begin_build(void)
{
    aclmdlRI model = NULL;

    assert_acl_ok(aclmdlRIBuildBegin(&model, 0));
    assert_non_null(model);
    return model;
}

static void bind(aclmdlRI model, aclrtStream stream)
{
    assert_acl_ok(aclmdlRIBindStream(model, stream, ACL_MODEL_STREAM_FLAG_HEAD));
}

static void move(void *dst, const void *src, aclrtStream stream)
{
    assert_acl_ok(
        aclrtMemcpyAsync(dst, SIZE, src, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
}

static void set_now(void *dst, int byte)
{
    assert_acl_ok(aclrtMemset(dst, SIZE, byte, SIZE));
}

static void bound_streams_make_a_model(void **state)
{
    char *a = device_malloc(SIZE), *b = device_malloc(SIZE), *c = device_malloc(SIZE);
    aclrtStream first = make_persistent(), second = make_persistent();
    aclrtStream runs = make_stream();
    uint32_t before = streams_available();
    aclmdlRI model = begin_build();

    bind(model, first);
    bind(model, second);
    set_now(a, 1); /* a build has no unsafe calls */
    set_now(c, 9);
    move(b, a, first);
    order_after(second, first);
    move(c, b, second);
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_acl_ok(aclmdlRIEndTask(model, first));
    assert_acl_ok(aclmdlRIEndTask(model, second));
    assert_acl_ok(aclmdlRIBuildEnd(model, NULL));
    assert_all_bytes(c, SIZE, 9);
    assert_acl_ok(aclmdlRIExecute(model, -1));
    assert_all_bytes(c, SIZE, 1);
    for (uint8_t i = 2; i < 5; i++) {
        set_now(a, i);
        replay(model, runs);
        assert_all_bytes(c, SIZE, i);
    }
    assert_acl_ok(aclmdlRIUnbindStream(model, first));
    assert_acl_ok(aclmdlRIUnbindStream(model, second));
    move(b, c, first);
    assert_acl_ok(aclrtDestroyStream(first));
    assert_all_bytes(b, SIZE, 4);
    end_model(model);
    assert_int_equal(streams_available(), before + 1);
    end_stream(second);
    end_stream(runs);
    device_free(a);
    device_free(b);
    device_free(c);
}

static void only_persistent_streams_are_bound_once(void **state)
{
    aclrtStream plain = make_stream(), stream = make_persistent();
    aclmdlRI model = begin_build(), other = begin_build();

    assert_refused(aclmdlRIBindStream(model, plain, ACL_MODEL_STREAM_FLAG_HEAD),
                   ACL_ERROR_RT_PARAM_INVALID, "ACL_STREAM_PERSISTENT");
    assert_bad_arg(aclmdlRIBindStream(model, NULL, ACL_MODEL_STREAM_FLAG_HEAD), "stream");
    assert_bad_arg(aclmdlRIBindStream(model, stream, 1), "flag");
    assert_refused(aclmdlRIBindStream(model, stream, ACL_MODEL_STREAM_FLAG_DEFAULT),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "ACL_MODEL_STREAM_FLAG_HEAD");
    bind(model, stream);
    assert_acl(aclmdlRIBindStream(other, stream, ACL_MODEL_STREAM_FLAG_HEAD),
               ACL_ERROR_RT_STREAM_CAPTURED);
    end_model(model); /* a build that is not ended ends here */
    end_model(other);
    end_stream(plain);
    end_stream(stream);
}

static void a_build_ends_when_the_work_of_each_stream_has_ended(void **state)
{
    aclrtStream stream = make_persistent();
    struct marks marks = MARKS_INIT;
    aclmdlRI model = begin_build();

    assert_bad_arg(aclmdlRIBuildBegin(&model, 1), "flag");
    assert_refused(aclmdlRIBuildEnd(model, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "aclmdlRIBindStream");
    assert_refused(aclmdlRIEndTask(model, stream), ACL_ERROR_RT_PARAM_INVALID,
                   "is not bound");
    bind(model, stream);
    assert_acl_ok(mark_on(stream, &marks, 'm'));
    assert_refused(aclmdlRIBuildEnd(model, NULL), ACL_ERROR_RT_PARAM_INVALID,
                   "aclmdlRIEndTask");
    assert_acl(aclmdlRIUnbindStream(model, stream), ACL_ERROR_RT_MODEL_CAPTURED);
    assert_refused(aclmdlRIExecute(model, -1), ACL_ERROR_RT_MODEL_CAPTURED,
                   "call aclmdlRIBuildEnd first");
    assert_refused(aclmdlRIDebugPrint(model), ACL_ERROR_RT_MODEL_CAPTURED,
                   "call aclmdlRIBuildEnd first");
    assert_acl_ok(aclmdlRIEndTask(model, stream));
    assert_acl(mark_on(stream, &marks, 'x'), ACL_ERROR_RT_PARAM_INVALID);
    assert_bad_arg(aclmdlRIBuildEnd(model, &marks), "reserve");
    assert_acl_ok(aclmdlRIBuildEnd(model, NULL));
    assert_acl(mark_on(stream, &marks, 'x'), ACL_ERROR_RT_PARAM_INVALID);
    assert_acl(aclmdlRIBuildEnd(model, NULL), ACL_ERROR_RT_PARAM_INVALID);
    assert_acl_ok(aclmdlRIExecute(model, -1));
    assert_string_equal(marks_now(&marks), "m");
    end_stream(stream); /* the model does not need the stream */
    assert_acl_ok(aclmdlRIExecute(model, -1));
    assert_string_equal(marks_now(&marks), "mm");
    end_model(model);
}

/* What is refused is not in the model, and the build goes on. */
static void work_that_cannot_be_captured_is_refused(void **state)
{
    static char pageable[SIZE];
    char *device = device_malloc(SIZE);
    aclrtStream stream = make_persistent(), other = make_stream();
    aclrtEvent event = make_ex(ACL_EVENT_SYNC);
    aclmdlRI model = begin_build();

    assert_acl_ok(aclrtRecordEvent(event, other));
    bind(model, stream);
    if (!rules_are_strict())
        assert_refused(aclrtMemcpyAsync(device, SIZE, pageable, SIZE,
                                        ACL_MEMCPY_HOST_TO_DEVICE, stream),
                       ACL_ERROR_RT_CAPTURE_MODE_NOT_SUPPORT, "aclrtMallocHost");
    assert_refused(aclrtStreamWaitEvent(stream, event), ACL_ERROR_RT_CAPTURE_DEPENDENCY,
                   "EXTERNAL");
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtMemsetAsync(device, SIZE, 3, SIZE, stream));
    assert_acl_ok(aclrtMemsetAsync(device, SIZE, 1, SIZE, NULL)); /* the default stream */
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_all_bytes(device, SIZE, 1);
    assert_acl_ok(aclmdlRIEndTask(model, stream));
    assert_acl_ok(aclmdlRIBuildEnd(model, NULL));
    assert_acl_ok(aclmdlRIExecute(model, -1));
    assert_all_bytes(device, SIZE, 3);
    end_model(model);
    end_event(event);
    end_stream(stream);
    end_stream(other);
    device_free(device);
}

static void a_bound_stream_is_not_captured_by_others(void **state)
{
    aclrtStream stream = make_persistent();
    aclmdlRI model = begin_build(), captured = NULL;

    bind(model, stream);
    assert_acl(aclmdlRICaptureBegin(stream, RELAXED), ACL_ERROR_RT_STREAM_CAPTURED);
    assert_acl(aclmdlRICaptureEnd(stream, &captured), ACL_ERROR_RT_STREAM_NOT_CAPTURED);
    assert_ptr_equal(captured_into(stream), model);
    assert_acl_ok(aclmdlRIEndTask(model, stream));
    assert_acl_ok(aclmdlRIBuildEnd(model, NULL));
    assert_int_equal(capture_status(stream), NOT_CAPTURING);
    end_model(model);
    end_stream(stream);
}

static void a_device_is_reset_under_a_build(void **state)
{
    aclrtStream stream = make_persistent();
    aclmdlRI model = begin_build();
    char *memory = device_malloc(SIZE);

    allow_warnings();
    bind(model, stream);
    assert_acl_ok(aclrtMemsetAsync(memory, SIZE, 1, SIZE, stream));
    begin_build();
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl(aclmdlRIDestroy(model), ACL_ERROR_RT_INVALID_HANDLE);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(bound_streams_make_a_model),
        claim_both(only_persistent_streams_are_bound_once),
        claim_both(a_build_ends_when_the_work_of_each_stream_has_ended),
        claim_both(work_that_cannot_be_captured_is_refused),
        claim_both(a_bound_stream_is_not_captured_by_others),
        claim(a_device_is_reset_under_a_build),
    };

    return run_claims(claims);
}
