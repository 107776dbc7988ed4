/*
 * Faults while streams are captured, captures end, and models run.
 *
 * A call that fails inside a capture either leaves the capture as it was, so that the
 * same call succeeds next, or invalidates it; a step that captures more than one call
 * ends its capture in each case.
 */
#include "faulted.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SIZE 4096

static aclrtStream stream, side;
static aclrtEvent event;
static aclmdlRI model;
static char *a, *b, *pinned;
static unsigned n_called;

static void be_called(void *arg)
{
    __atomic_fetch_add(&n_called, 1, __ATOMIC_SEQ_CST);
}

static uint32_t streams_left(void)
{
    uint32_t n = 0;

    assert_acl_ok(aclrtGetStreamAvailableNum(&n));
    return n;
}

static void have_all(struct scene *s)
{
    void *p = NULL;

    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtCreateStream(&side));
    assert_acl_ok(aclrtCreateEventWithFlag(&event, ACL_EVENT_SYNC));
    assert_acl_ok(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    a = p;
    assert_acl_ok(aclrtMalloc(&p, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    b = p;
    assert_acl_ok(aclrtMallocHost(&p, SIZE));
    pinned = p;
    memset(pinned, 3, SIZE);
    assert_acl_ok(aclrtMemset(a, SIZE, 1, SIZE));
    assert_acl_ok(aclrtMemset(b, SIZE, 0, SIZE));
    assert_int_equal(streams_left(), 1982);
}

static void end_all(struct scene *s)
{
    if (model != NULL)
        assert_acl_ok(aclmdlRIDestroy(model));
    assert_int_equal(streams_left(), 1982);
    assert_acl_ok(aclrtFree(a));
    assert_acl_ok(aclrtFree(b));
    assert_acl_ok(aclrtFreeHost(pinned));
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtDestroyStream(side));
    assert_acl_ok(aclrtDestroyStream(stream));
}

/* ---- begin ---- */

static aclError do_begin(struct scene *s)
{
    return aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
}

static aclmdlRICaptureStatus status_now(void)
{
    aclmdlRICaptureStatus status = (aclmdlRICaptureStatus)-1;
    aclmdlRI ignored = NULL;

    assert_acl_ok(aclmdlRICaptureGetInfo(stream, &status, &ignored));
    return status;
}

static void nothing_is_captured(struct scene *s)
{
    assert_int_equal(status_now(), ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    assert_int_equal(streams_left(), 1982);
}

static void end_capture(struct scene *s)
{
    assert_acl_ok(aclmdlRICaptureEnd(stream, &model));
    end_all(s);
}

static void have_capture(struct scene *s)
{
    have_all(s);
    assert_acl_ok(do_begin(s));
}

/* ---- each captured call ---- */

static void it_is_still_captured(struct scene *s)
{
    assert_int_equal(status_now(), ACL_MODEL_RI_CAPTURE_STATUS_ACTIVE);
}

static aclError do_copy(struct scene *s)
{
    return aclrtMemcpyAsync(b, SIZE, a, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
}

static aclError do_copy_in(struct scene *s)
{
    return aclrtMemcpyAsync(b, SIZE, pinned, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

static aclError do_copy_rows(struct scene *s)
{
    return aclrtMemcpy2dAsync(b, 64, pinned, 64, 32, 4, ACL_MEMCPY_HOST_TO_DEVICE,
                              stream);
}

static aclError do_copy_batch(struct scene *s)
{
    aclrtMemcpyBatchAttr attr = {.dstLoc = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                                 .srcLoc = {0, ACL_MEM_LOCATION_TYPE_HOST}};
    void *dsts[2] = {a, b}, *srcs[2] = {pinned, pinned};
    size_t sizes[2] = {SIZE, SIZE}, at = 0, failed = 0;

    return aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, &attr, &at, 1, &failed,
                                 stream);
}

static aclError do_memset(struct scene *s)
{
    return aclrtMemsetAsync(b, SIZE, 9, SIZE, stream);
}

static aclError do_record(struct scene *s)
{
    return aclrtRecordEvent(event, stream);
}

static aclError do_value_write(struct scene *s)
{
    return aclrtValueWrite(b, 5, 0, stream);
}

static aclError do_function(struct scene *s)
{
    return aclrtLaunchHostFunc(stream, be_called, NULL);
}

static aclError do_group_begin(struct scene *s)
{
    return aclmdlRICaptureTaskGrpBegin(stream);
}

static aclError do_group_end(struct scene *s)
{
    aclrtTaskGrp group = NULL;

    return aclmdlRICaptureTaskGrpEnd(stream, &group);
}

static void have_group(struct scene *s)
{
    have_capture(s);
    assert_acl_ok(do_group_begin(s));
}

static void end_group(struct scene *s)
{
    assert_acl_ok(do_group_end(s));
    end_capture(s);
}

/* ---- joining and coming back ---- */

static void have_record(struct scene *s)
{
    have_capture(s);
    assert_acl_ok(do_record(s));
}

static aclError do_join(struct scene *s)
{
    return aclrtStreamWaitEvent(side, event);
}

static void side_is_not_captured(struct scene *s)
{
    aclmdlRICaptureStatus status = (aclmdlRICaptureStatus)-1;
    aclmdlRI ignored = NULL;

    assert_acl_ok(aclmdlRICaptureGetInfo(side, &status, &ignored));
    assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    assert_int_equal(streams_left(), 1981);
}

static void come_back_and_end(struct scene *s)
{
    assert_acl_ok(aclrtRecordEvent(event, side));
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    end_capture(s);
}

/* ---- end, execute, destroy ---- */

static void have_work(struct scene *s)
{
    have_capture(s);
    assert_acl_ok(do_copy_in(s));
    assert_acl_ok(do_record(s));
    assert_acl_ok(aclrtStreamWaitEvent(side, event));
    assert_acl_ok(aclrtLaunchHostFunc(side, be_called, NULL));
    assert_acl_ok(aclrtRecordEvent(event, side));
    assert_acl_ok(aclrtStreamWaitEvent(stream, event));
    assert_acl_ok(do_function(s));
}

/* A capture is over even when its end fails: then it is made again. */
static aclError do_end(struct scene *s)
{
    if (s->arg++ > 0 && status_now() == ACL_MODEL_RI_CAPTURE_STATUS_NONE) {
        struct scene again = {.arg = 0};

        end_all(s);
        have_work(&again);
    }
    return aclmdlRICaptureEnd(stream, &model);
}

static void have_model(struct scene *s)
{
    have_work(s);
    assert_acl_ok(aclmdlRICaptureEnd(stream, &model));
}

static void have_model_that_ran(struct scene *s)
{
    have_model(s);
    assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    n_called = 0;
}

static aclError do_execute(struct scene *s)
{
    aclError rc = aclmdlRIExecuteAsync(model, stream);
    aclError waited = aclrtSynchronizeStream(stream);

    return rc != ACL_SUCCESS ? rc : waited;
}

static aclError do_execute_and_wait(struct scene *s)
{
    return aclmdlRIExecute(model, -1);
}

static void forget_calls(struct scene *s)
{
    n_called = 0; /* a run that failed may have done a part */
}

static void it_ran(struct scene *s)
{
    assert_int_equal(n_called, 2);
    assert_all_bytes(b, SIZE, 3);
}

/* Copies and a fill alone, in an order: a device may execute them without a worker. */
static void have_copies(struct scene *s)
{
    const aclrtMemcpyKind in = ACL_MEMCPY_HOST_TO_DEVICE;
    const size_t half = SIZE / 2;

    have_capture(s);
    assert_acl_ok(aclrtMemsetAsync(b, SIZE, 7, SIZE, stream));
    assert_acl_ok(aclrtMemcpyAsync(a, half, pinned, half, in, stream));
    assert_acl_ok(aclrtMemcpyAsync(a + half, half, pinned + half, half, in, stream));
    assert_acl_ok(
        aclrtMemcpyAsync(b, SIZE, a, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    assert_acl_ok(aclmdlRICaptureEnd(stream, &model));
}

static void have_copies_that_ran(struct scene *s)
{
    have_copies(s);
    assert_acl_ok(do_execute(s));
    assert_acl_ok(aclrtMemset(b, SIZE, 0, SIZE));
}

static void copies_ran(struct scene *s)
{
    assert_all_bytes(b, SIZE, 3);
}

static aclError do_destroy(struct scene *s)
{
    return aclmdlRIDestroy(model);
}

static void end_destroyed(struct scene *s)
{
    model = NULL;
    end_all(s);
}

static aclError do_print(struct scene *s)
{
    snprintf(s->path, sizeof s->path, "/tmp/aclmem_fault_%d.json", (int)getpid());
    return aclmdlRIDebugJsonPrint(model, s->path, 0);
}

static void end_printed(struct scene *s)
{
    unlink(s->path);
    end_all(s);
}

static aclError do_register(struct scene *s)
{
    return aclmdlRIDestroyRegisterCallback(model, be_called, NULL);
}

static aclmdlRICondHandle condition;

static aclError do_condition(struct scene *s)
{
    aclmdlRICaptureStatus status;
    aclmdlRI current = NULL;
    aclError rc = aclmdlRICaptureGetInfo(stream, &status, &current);

    return rc != ACL_SUCCESS
               ? rc
               : aclmdlRICondHandleCreate(
                     current, 1, ACL_MODEL_RI_COND_HANDLE_ASSIGN_DEFAULT, &condition);
}

static void have_condition(struct scene *s)
{
    have_capture(s);
    assert_acl_ok(do_condition(s));
}

static aclError do_branch(struct scene *s)
{
    aclmdlRI child = NULL;
    aclmdlRICondTaskParams params = {.handle = condition,
                                     .type = ACL_MODEL_RI_COND_TYPE_IF,
                                     .size = 1,
                                     .modelRIArray = &child};

    return aclmdlRIAddCondTask(params, stream, 0);
}

#define CAPTURED(name_, call_) \
    { \
        name_, NULL, have_capture, call_, it_is_still_captured, NULL, end_capture \
    }

/* A task of the model that fails is reported by the synchronisation. */
#define RUN(name_, prepare_, call_, check_) \
    { \
        .claim = name_, .prepare = prepare_, .run = call_, .check_failed = forget_calls, \
        .check = check_, .clean = end_all, .other_code = ACL_ERROR_RT_MODEL_EXECUTE \
    }

static const struct step steps[] = {
    {"beginning a capture", NULL, have_all, do_begin, nothing_is_captured, NULL,
     end_capture},
    CAPTURED("capturing a copy", do_copy),
    CAPTURED("capturing a copy from pinned memory", do_copy_in),
    CAPTURED("capturing a copy of rows", do_copy_rows),
    CAPTURED("capturing a batch", do_copy_batch),
    CAPTURED("capturing a memset", do_memset),
    CAPTURED("capturing a record", do_record),
    CAPTURED("capturing the write of a value", do_value_write),
    CAPTURED("capturing a function", do_function),
    {"beginning a group", NULL, have_capture, do_group_begin, it_is_still_captured, NULL,
     end_group},
    {"ending a group", NULL, have_group, do_group_end, it_is_still_captured, NULL,
     end_capture},
    {"joining a capture", NULL, have_record, do_join, side_is_not_captured, NULL,
     come_back_and_end},
    {"ending a capture", NULL, have_work, do_end, NULL, NULL, end_all},
    RUN("the first run of a model", have_model, do_execute, it_ran),
    RUN("a later run of a model", have_model_that_ran, do_execute, it_ran),
    RUN("a run that the call waits for", have_model, do_execute_and_wait, it_ran),
    RUN("the first run of copies", have_copies, do_execute, copies_ran),
    RUN("a later run of copies", have_copies_that_ran, do_execute, copies_ran),
    {"destroying a model", NULL, have_model, do_destroy, NULL, NULL, end_destroyed},
    {"printing a model",
     NULL,
     have_model,
     do_print,
     NULL,
     NULL,
     end_printed,
     NULL,
     {NULL, NULL},
     false,
     ACL_ERROR_RT_PARAM_INVALID},
    {"a callback of a model's end", NULL, have_model, do_register, NULL, NULL, end_all},
    CAPTURED("a condition", do_condition),
    {"a conditional task", NULL, have_condition, do_branch, it_is_still_captured, NULL,
     end_capture},
};

int main(int argc, char **argv)
{
    return run_faulted(steps, argc, argv);
}
