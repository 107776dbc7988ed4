/* Captured models: the queries of programs that capture nothing. */
#include "support/process.h"
#include "support/streams.h"
#include "support/support.h"

static void no_stream_is_captured(void **state)
{
    aclrtStream stream = make_stream(), both[] = {stream, NULL};

    for (int i = 0; i < 2; i++) {
        aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
        aclmdlRI model = (aclmdlRI)&model;

        assert_acl_ok(aclmdlRICaptureGetInfo(both[i], &status, &model));
        assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
        assert_null(model);
    }
    end_stream(stream);
}

static void the_question_is_about_a_live_stream(void **state)
{
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    aclmdlRI model = (aclmdlRI)&model;
    aclrtStream stream = make_stream();

    assert_bad_arg(aclmdlRICaptureGetInfo(stream, NULL, &model), "status is NULL");
    assert_bad_arg(aclmdlRICaptureGetInfo(stream, &status, NULL), "modelRI is NULL");
    end_stream(stream);
    assert_refused(aclmdlRICaptureGetInfo(stream, &status, &model),
                   ACL_ERROR_RT_INVALID_HANDLE, "not alive");
    assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED);
    assert_ptr_equal(model, &model);
}

static const char *begins_with_global(struct worker *self)
{
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;

    worker_check(aclmdlRICaptureThreadExchangeMode(&mode) == ACL_SUCCESS);
    worker_check(mode == ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
    return NULL;
}

static const char *keeps_its_mode(struct worker *self)
{
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL;

    worker_check(begins_with_global(self) == NULL);
    worker_check(run_thread(begins_with_global, NULL) == NULL);
    worker_check(aclmdlRICaptureThreadExchangeMode(&mode) == ACL_SUCCESS);
    worker_check(mode == ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
    worker_check(aclmdlRICaptureThreadExchangeMode(&mode) == ACL_SUCCESS);
    worker_check(mode == ACL_MODEL_RI_CAPTURE_MODE_THREAD_LOCAL);
    return NULL;
}

static void each_thread_exchanges_a_mode_of_its_own(void **state)
{
    assert_ptr_equal(run_thread(keeps_its_mode, NULL), NULL);
}

static void a_mode_is_one_of_three(void **state)
{
    aclmdlRICaptureMode mode = (aclmdlRICaptureMode)3;

    assert_bad_arg(aclmdlRICaptureThreadExchangeMode(NULL), "mode is NULL");
    assert_bad_arg(aclmdlRICaptureThreadExchangeMode(&mode), "*mode is 3");
    assert_int_equal(mode, 3);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(no_stream_is_captured),
        claim_both(the_question_is_about_a_live_stream),
        claim_both(each_thread_exchanges_a_mode_of_its_own),
        claim_both(a_mode_is_one_of_three),
    };

    return run_claims(claims);
}
