#include "capture.h"

void begin_capture(aclrtStream stream, aclmdlRICaptureMode mode)
{
    assert_acl_ok(aclmdlRICaptureBegin(stream, mode));
}

aclmdlRI end_capture(aclrtStream stream)
{
    aclmdlRI model = NULL;

    assert_acl_ok(aclmdlRICaptureEnd(stream, &model));
    assert_non_null(model);
    return model;
}

void replay(aclmdlRI model, aclrtStream stream)
{
    assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
}

void end_model(aclmdlRI model)
{
    assert_acl_ok(aclmdlRIDestroy(model));
}

aclmdlRICaptureStatus capture_status(aclrtStream stream)
{
    aclmdlRICaptureStatus status = (aclmdlRICaptureStatus)-1;
    aclmdlRI model = NULL;

    assert_acl_ok(aclmdlRICaptureGetInfo(stream, &status, &model));
    return status;
}

aclmdlRI captured_into(aclrtStream stream)
{
    aclmdlRICaptureStatus status = NOT_CAPTURING;
    aclmdlRI model = NULL;

    assert_acl_ok(aclmdlRICaptureGetInfo(stream, &status, &model));
    assert_int_equal(status, CAPTURING);
    assert_non_null(model);
    return model;
}

void order_after(aclrtStream to, aclrtStream from)
{
    aclrtEvent event = make_ex(ACL_EVENT_SYNC);

    assert_acl_ok(aclrtRecordEvent(event, from));
    assert_acl_ok(aclrtStreamWaitEvent(to, event));
    end_event(event);
}
