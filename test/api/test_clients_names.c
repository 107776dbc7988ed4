/*
 * What well-known programs conclude from names: they look a function up, and take its
 * presence for a promise.  Only the order and shape of their calls is theirs.
 */
#include "support/streams.h"
#include "support/support.h"

#include <dlfcn.h>
#include <string.h>

/* As with every dlsym: ISO C has no cast from its result to a function. */
#define LOOK_UP(fn_, name_) \
    do { \
        void *address_ = dlsym(RTLD_DEFAULT, name_); \
        memcpy(&(fn_), &address_, sizeof(fn_)); \
    } while (0)

/* ---- torch_npu ---- */

/* It takes the newest function that is there, and does not start when that fails. */
static void torch_sets_the_time_of_operators_first(void **state)
{
    aclError (*newest)(uint64_t, uint64_t *);
    aclError (*older)(uint32_t);
    uint64_t actual = 0;

    LOOK_UP(newest, "aclrtSetOpExecuteTimeOutV2");
    LOOK_UP(older, "aclrtSetOpExecuteTimeOut");
    if (newest != NULL)
        assert_acl_ok(newest(547 * 1000000ull, &actual));
    else
        assert_acl_ok(older(547));
    assert_acl_ok(aclrtSetOpWaitTimeout(547));
    (void)aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN);
    assert_acl_ok(aclrtSetOpWaitTimeout(0));
}

/* It asks before each collective and each random number, and throws at any code but 0. */
static void torch_asks_whether_its_stream_is_captured(void **state)
{
    aclError (*ask)(aclrtStream, aclmdlRICaptureStatus *, aclmdlRI *);
    aclmdlRICaptureStatus status = ACL_MODEL_RI_CAPTURE_STATUS_INVALIDATED;
    aclrtStream stream = make_stream();
    aclmdlRI model = NULL;

    LOOK_UP(ask, "aclmdlRICaptureGetInfo");
    if (ask != NULL) {
        assert_acl_ok(ask(stream, &status, &model));
        assert_int_equal(status, ACL_MODEL_RI_CAPTURE_STATUS_NONE);
    }
    end_stream(stream);
}

/* An event of its own making; its memory is cleared outside of any capture. */
static void torch_makes_an_external_event_of_a_value(void **state)
{
    aclmdlRICaptureMode mode = ACL_MODEL_RI_CAPTURE_MODE_RELAXED;
    aclrtStream sets = make_stream(), waits = make_stream();
    void *value = NULL;

    assert_acl_ok(aclmdlRICaptureThreadExchangeMode(&mode));
    assert_acl_ok(aclrtMallocAlign32(&value, 32, ACL_MEM_MALLOC_NORMAL_ONLY));
    assert_acl_ok(aclrtMemset(value, 32, 0, 32));
    assert_acl_ok(aclmdlRICaptureThreadExchangeMode(&mode));
    assert_int_equal(mode, ACL_MODEL_RI_CAPTURE_MODE_RELAXED);
    assert_acl_ok(aclrtValueWait(value, 1, ACL_STREAM_WAIT_VALUE_EQ, waits));
    assert_acl_ok(aclrtValueWrite(value, 1, 0, sets));
    assert_acl_ok(aclrtSynchronizeStream(waits));
    end_stream(sets);
    end_stream(waits);
    assert_acl_ok(aclrtFree(value));
}

/* Functions that make something are called through pointers to functions of that kind. */
static void torch_gets_no_object_of_the_profiler(void **state)
{
    void *(*config)(uint32_t *, uint32_t, int, const void *, uint64_t);
    void *(*step)(void);
    uint32_t device = 0;

    LOOK_UP(config, "aclprofCreateConfig");
    LOOK_UP(step, "aclprofCreateStepInfo");
    assert_non_null(config);
    assert_non_null(step);
    assert_null(config(&device, 1, 1, NULL, 0));
    assert_non_null(strstr(aclGetRecentErrMsg(), "aclprofCreateConfig"));
    assert_null(step());
    assert_non_null(strstr(aclGetRecentErrMsg(), "aclprofCreateStepInfo"));
}

/* ---- MindSpore: at its start, each with a check ---- */

static void say(aclrtExceptionInfo *info)
{
    print_message("task %u\n", aclrtGetTaskIdFromExceptionInfo(info));
}

static void mindspore_sets_all_of_it_at_its_start(void **state)
{
    uint32_t flag = 7;
    aclrtStream stream;

    assert_acl_ok(aclrtSetExceptionInfoCallback(say));
    assert_acl_ok(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN));
    assert_acl_ok(aclrtSetOpExecuteTimeOut(900));
    assert_acl_ok(aclrtSetOpWaitTimeout(910));
    stream = make_stream();
    assert_acl_ok(aclrtSetStreamOverflowSwitch(stream, 1));
    assert_acl_ok(aclrtGetStreamOverflowSwitch(stream, &flag));
    assert_int_equal(flag, 1);
    end_stream(stream);
    assert_acl_ok(aclrtSetOpWaitTimeout(0));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(torch_sets_the_time_of_operators_first),
        claim(torch_asks_whether_its_stream_is_captured),
        claim(torch_makes_an_external_event_of_a_value),
        claim(torch_gets_no_object_of_the_profiler),
        claim(mindspore_sets_all_of_it_at_its_start),
    };

    return run_claims(claims);
}
