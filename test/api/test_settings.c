/* Settings for operators: what is taken, what is kept, and for whom. */
#include "support/process.h"
#include "support/streams.h"
#include "support/support.h"

#define CUBE ACL_RT_DEV_RES_CUBE_CORE
#define VECTOR ACL_RT_DEV_RES_VECTOR_CORE

/* ---- how long an operator may run ---- */

static void the_time_of_operators_is_taken(void **state)
{
    uint64_t actual = 0;

    assert_acl_ok(aclrtSetOpExecuteTimeOut(0));
    assert_acl_ok(aclrtSetOpExecuteTimeOut(600));
    assert_acl_ok(aclrtSetOpExecuteTimeOut(UINT32_MAX));
    assert_acl_ok(aclrtSetOpExecuteTimeOutV2(5000000, &actual));
    assert_int_equal(actual, 5000000);
    assert_acl_ok(aclrtSetOpExecuteTimeOutV2(0, &actual)); /* the maximum */
    assert_int_equal(actual, 1091 * 1000000ull);
    assert_acl_ok(aclrtSetOpExecuteTimeOutV2(UINT64_MAX, &actual));
    assert_int_equal(actual, 1091 * 1000000ull);
}

static void the_time_in_force_needs_a_place(void **state)
{
    assert_bad_arg(aclrtSetOpExecuteTimeOutV2(1, NULL), "actualTimeout is NULL");
}

/* ---- overflows ---- */

static aclrtFloatOverflowMode sat_mode(void)
{
    aclrtFloatOverflowMode mode = ACL_RT_OVERFLOW_MODE_UNDEF;

    assert_acl_ok(aclrtGetDeviceSatMode(&mode));
    return mode;
}

static void each_device_keeps_its_mode(void **state)
{
    assert_int_equal(sat_mode(), ACL_RT_OVERFLOW_MODE_INFNAN);
    assert_acl_ok(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION));
    assert_int_equal(sat_mode(), ACL_RT_OVERFLOW_MODE_SATURATION);
    assert_acl_ok(aclrtSetDevice(1));
    assert_int_equal(sat_mode(), ACL_RT_OVERFLOW_MODE_INFNAN);
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(sat_mode(), ACL_RT_OVERFLOW_MODE_SATURATION);
}

static void a_mode_is_one_of_two(void **state)
{
    assert_bad_arg(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_UNDEF), "mode is 2");
    assert_bad_arg(aclrtGetDeviceSatMode(NULL), "mode is NULL");
    assert_int_equal(sat_mode(), ACL_RT_OVERFLOW_MODE_INFNAN);
}

static void older_products_have_saturation_only(void **state)
{
    start("default", "ACLMEM_PRODUCT=310P");
    assert_refused(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION),
                   ACL_ERROR_RT_CONTEXT_NULL, "");
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(sat_mode(), ACL_RT_OVERFLOW_MODE_SATURATION);
    assert_acl_ok(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION));
    assert_refused(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_INFNAN),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "INFNAN");
}

static void the_overflow_switch_is_an_attribute_of_the_stream(void **state)
{
    aclrtStreamAttrValue value = {.overflowSwitch = 7};
    aclrtStream stream = make_stream();
    uint32_t flag = 7;

    assert_acl_ok(aclrtGetStreamOverflowSwitch(stream, &flag));
    assert_int_equal(flag, 0);
    assert_acl_ok(aclrtSetStreamOverflowSwitch(stream, 1));
    assert_acl_ok(aclrtGetStreamOverflowSwitch(stream, &flag));
    assert_int_equal(flag, 1);
    assert_acl_ok(
        aclrtGetStreamAttribute(stream, ACL_STREAM_ATTR_FLOAT_OVERFLOW_CHECK, &value));
    assert_int_equal(value.overflowSwitch, 1);
    assert_bad_arg(aclrtSetStreamOverflowSwitch(stream, 2), "flag is 2");
    assert_bad_arg(aclrtGetStreamOverflowSwitch(stream, NULL), "flag is NULL");
    end_stream(stream);
    assert_refused(aclrtSetStreamOverflowSwitch(stream, 1), ACL_ERROR_RT_INVALID_HANDLE,
                   "not alive");
}

/* ---- cores ---- */

static uint32_t device_limit(int32_t device, aclrtDevResLimitType type)
{
    uint32_t value = 7777;

    assert_acl_ok(aclrtGetDeviceResLimit(device, type, &value));
    return value;
}

static uint32_t stream_limit(aclrtStream stream, aclrtDevResLimitType type)
{
    uint32_t value = 7777;

    assert_acl_ok(aclrtGetStreamResLimit(stream, type, &value));
    return value;
}

static uint32_t thread_limit(aclrtDevResLimitType type)
{
    uint32_t value = 7777;

    assert_acl_ok(aclrtGetResInCurrentThread(type, &value));
    return value;
}

static void a_device_keeps_its_limits(void **state)
{
    int64_t cube = 0, vector = 0;

    assert_acl_ok(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_CUBE_CORE_NUM, &cube));
    assert_acl_ok(aclrtGetDeviceInfo(0, ACL_DEV_ATTR_VECTOR_CORE_NUM, &vector));
    assert_int_equal(device_limit(0, CUBE), cube);
    assert_int_equal(device_limit(0, VECTOR), vector);
    assert_acl_ok(aclrtSetDeviceResLimit(0, CUBE, 8));
    assert_acl_ok(aclrtSetDeviceResLimit(0, VECTOR, 0));
    assert_int_equal(device_limit(0, CUBE), 8);
    assert_int_equal(device_limit(0, VECTOR), 0);
    assert_int_equal(device_limit(1, CUBE), cube);
    assert_acl_ok(aclrtResetDeviceResLimit(0));
    assert_int_equal(device_limit(0, CUBE), cube);
    assert_int_equal(device_limit(0, VECTOR), vector);
}

static void a_stream_has_the_limits_of_its_device_or_its_own(void **state)
{
    aclrtStream stream = make_stream();

    assert_acl_ok(aclrtSetDeviceResLimit(0, CUBE, 12));
    assert_int_equal(stream_limit(stream, CUBE), 12);
    assert_acl_ok(aclrtSetStreamResLimit(stream, CUBE, 4));
    assert_int_equal(stream_limit(stream, CUBE), 4);
    assert_int_equal(stream_limit(NULL, CUBE), 12);
    assert_int_equal(device_limit(0, CUBE), 12);
    assert_acl_ok(aclrtResetStreamResLimit(stream));
    assert_int_equal(stream_limit(stream, CUBE), 12);
    end_stream(stream);
}

static const char *has_no_stream(struct worker *self)
{
    uint32_t value = 0;

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtGetResInCurrentThread(CUBE, &value) == ACL_SUCCESS);
    worker_check(value == 12);
    return NULL;
}

static void a_thread_uses_the_limits_of_one_stream(void **state)
{
    aclrtStream one = make_stream(), other = make_stream();

    assert_acl_ok(aclrtSetDeviceResLimit(0, CUBE, 12));
    assert_acl_ok(aclrtSetStreamResLimit(one, CUBE, 4));
    assert_acl_ok(aclrtSetStreamResLimit(other, CUBE, 5));
    assert_int_equal(thread_limit(CUBE), 12);
    assert_acl_ok(aclrtUseStreamResInCurrentThread(one));
    assert_int_equal(thread_limit(CUBE), 4);
    assert_int_equal(thread_limit(VECTOR), device_limit(0, VECTOR));
    assert_ptr_equal(run_thread(has_no_stream, NULL), NULL);
    assert_acl_ok(aclrtUseStreamResInCurrentThread(other)); /* the last one counts */
    assert_int_equal(thread_limit(CUBE), 5);
    assert_acl_ok(aclrtUnuseStreamResInCurrentThread(one)); /* was not in use */
    assert_int_equal(thread_limit(CUBE), 5);
    assert_acl_ok(aclrtUnuseStreamResInCurrentThread(other));
    assert_int_equal(thread_limit(CUBE), 12);
    assert_acl_ok(aclrtUseStreamResInCurrentThread(one));
    end_stream(one); /* its limits go with it */
    assert_int_equal(thread_limit(CUBE), 12);
    end_stream(other);
}

static void limits_are_for_things_that_exist(void **state)
{
    const aclrtDevResLimitType bad = (aclrtDevResLimitType)2;
    aclrtStream stream = make_stream();
    uint32_t value = 99;

    assert_bad_arg(aclrtSetDeviceResLimit(0, bad, 1), "type");
    assert_bad_arg(aclrtGetDeviceResLimit(0, bad, &value), "type");
    assert_bad_arg(aclrtSetStreamResLimit(stream, bad, 1), "type");
    assert_bad_arg(aclrtGetStreamResLimit(stream, bad, &value), "type");
    assert_bad_arg(aclrtGetResInCurrentThread(bad, &value), "type");
    assert_bad_arg(aclrtGetDeviceResLimit(0, CUBE, NULL), "value");
    assert_bad_arg(aclrtGetStreamResLimit(stream, CUBE, NULL), "value");
    assert_bad_arg(aclrtGetResInCurrentThread(CUBE, NULL), "value");
    assert_refused(aclrtSetDeviceResLimit(99, CUBE, 1), ACL_ERROR_RT_INVALID_DEVICEID,
                   "99");
    assert_refused(aclrtGetDeviceResLimit(99, CUBE, &value),
                   ACL_ERROR_RT_INVALID_DEVICEID, "99");
    assert_refused(aclrtResetDeviceResLimit(99), ACL_ERROR_RT_INVALID_DEVICEID, "99");
    end_stream(stream);
    assert_refused(aclrtSetStreamResLimit(stream, CUBE, 1), ACL_ERROR_RT_INVALID_HANDLE,
                   "not alive");
    assert_refused(aclrtGetStreamResLimit(stream, CUBE, &value),
                   ACL_ERROR_RT_INVALID_HANDLE, "not alive");
    assert_refused(aclrtResetStreamResLimit(stream), ACL_ERROR_RT_INVALID_HANDLE,
                   "not alive");
    assert_refused(aclrtUseStreamResInCurrentThread(stream), ACL_ERROR_RT_INVALID_HANDLE,
                   "not alive");
    assert_refused(aclrtUnuseStreamResInCurrentThread(stream),
                   ACL_ERROR_RT_INVALID_HANDLE, "not alive");
    assert_int_equal(value, 99);
}

static void a_limit_that_was_not_set_is_what_the_product_has(void **state)
{
    static const struct {
        const char *product;
        uint32_t cube;
    } rows[] = {{"ACLMEM_PRODUCT=A3", 24},
                {"ACLMEM_PRODUCT=910", 32},
                {"ACLMEM_PRODUCT=310P", 8}};
    uint32_t value = 99;

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        start("default", rows[i].product);
        assert_int_equal(device_limit(0, CUBE), rows[i].cube);
        assert_acl_ok(aclFinalize());
    }
    start("default", "ACLMEM_PRODUCT=950");
    assert_refused(aclrtGetDeviceResLimit(0, CUBE, &value),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "not published");
    assert_int_equal(value, 99);
    assert_acl_ok(aclrtSetDeviceResLimit(0, CUBE, 20));
    assert_int_equal(device_limit(0, CUBE), 20);
}

static void settings_end_with_the_library(void **state)
{
    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtSetDeviceResLimit(0, CUBE, 3));
    assert_acl_ok(aclrtSetDeviceSatMode(ACL_RT_OVERFLOW_MODE_SATURATION));
    assert_acl_ok(aclFinalize());
    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_not_equal(device_limit(0, CUBE), 3);
    assert_int_equal(sat_mode(), ACL_RT_OVERFLOW_MODE_INFNAN);
}

/* ---- exceptions ---- */

static void hear(aclrtExceptionInfo *info)
{
    fail_msg("no operator runs, and one has failed: %p", (void *)info);
}

static void a_function_for_failures_is_taken(void **state)
{
    assert_acl_ok(aclrtSetExceptionInfoCallback(hear));
    assert_acl_ok(aclrtSetExceptionInfoCallback(hear));
    assert_acl_ok(aclrtSetExceptionInfoCallback(NULL));
}

static void no_exception_reads_as_all_bits(void **state)
{
    assert_true(aclrtGetTaskIdFromExceptionInfo(NULL) == 0xffffffff);
    assert_true(aclrtGetStreamIdFromExceptionInfo(NULL) == 0xffffffff);
    assert_true(aclrtGetThreadIdFromExceptionInfo(NULL) == 0xffffffff);
    assert_true(aclrtGetDeviceIdFromExceptionInfo(NULL) == 0xffffffff);
    assert_true(aclrtGetErrorCodeFromExceptionInfo(NULL) == 0xffffffff);
    assert_acl_ok(aclFinalize());
    assert_true(aclrtGetTaskIdFromExceptionInfo(NULL) == 0xffffffff);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(the_time_of_operators_is_taken),
        claim_both(the_time_in_force_needs_a_place),
        claim_both(each_device_keeps_its_mode),
        claim_both(a_mode_is_one_of_two),
        claim_alone(older_products_have_saturation_only),
        claim_both(the_overflow_switch_is_an_attribute_of_the_stream),
        claim_both(a_device_keeps_its_limits),
        claim_both(a_stream_has_the_limits_of_its_device_or_its_own),
        claim_both(a_thread_uses_the_limits_of_one_stream),
        claim_both(limits_are_for_things_that_exist),
        claim_alone(a_limit_that_was_not_set_is_what_the_product_has),
        claim_alone(settings_end_with_the_library),
        claim_both(a_function_for_failures_is_taken),
        claim_both(no_exception_reads_as_all_bits),
    };

    return run_claims(claims);
}
