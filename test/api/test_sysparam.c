/*
 * System parameters: of a context, without a value at first, and of the process, 0 at
 * first.
 */
#include "support/process.h"
#include "support/vmm.h"

static int64_t context_value(aclSysParamOpt opt)
{
    int64_t value = -7;

    assert_acl_ok(aclrtCtxGetSysParamOpt(opt, &value));
    return value;
}

static int64_t process_value(aclSysParamOpt opt)
{
    int64_t value = -7;

    assert_acl_ok(aclrtGetSysParamOpt(opt, &value));
    return value;
}

static void context_has_no_value(aclSysParamOpt opt)
{
    int64_t value = 7;

    assert_refused(aclrtCtxGetSysParamOpt(opt, &value), ACL_ERROR_RT_SYSPARAMOPT_NOT_SET,
                   "aclrtCtxSetSysParamOpt");
    assert_int_equal(value, 7);
}

static void a_context_has_no_value_until_it_is_set(void **state)
{
    context_has_no_value(ACL_OPT_DETERMINISTIC);
    context_has_no_value(ACL_OPT_ENABLE_DEBUG_KERNEL);
    assert_acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    assert_int_equal(context_value(ACL_OPT_DETERMINISTIC), 1);
    context_has_no_value(ACL_OPT_ENABLE_DEBUG_KERNEL);
    assert_acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 0));
    assert_int_equal(context_value(ACL_OPT_ENABLE_DEBUG_KERNEL), 0);
    assert_acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
    assert_int_equal(context_value(ACL_OPT_DETERMINISTIC), 0);
}

static void the_process_has_zero_until_it_is_set(void **state)
{
    assert_int_equal(process_value(ACL_OPT_DETERMINISTIC), 0);
    assert_int_equal(process_value(ACL_OPT_ENABLE_DEBUG_KERNEL), 0);
    assert_acl_ok(aclrtSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 1));
    assert_int_equal(process_value(ACL_OPT_ENABLE_DEBUG_KERNEL), 1);
    assert_int_equal(process_value(ACL_OPT_DETERMINISTIC), 0);
}

static void the_two_do_not_mix(void **state)
{
    assert_acl_ok(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    context_has_no_value(ACL_OPT_DETERMINISTIC);
    assert_acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
    assert_int_equal(process_value(ACL_OPT_DETERMINISTIC), 1);
    assert_int_equal(context_value(ACL_OPT_DETERMINISTIC), 0);
}

static void each_context_has_its_own(void **state)
{
    aclrtContext standard = NULL, made = NULL;

    assert_acl_ok(aclrtGetCurrentContext(&standard));
    assert_acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    assert_acl_ok(aclrtCreateContext(&made, 0));
    context_has_no_value(ACL_OPT_DETERMINISTIC);
    assert_acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
    assert_acl_ok(aclrtSetCurrentContext(standard));
    assert_int_equal(context_value(ACL_OPT_DETERMINISTIC), 1);
    assert_acl_ok(aclrtDestroyContext(made));
    assert_acl_ok(
        aclrtCreateContext(&made, 0)); /* in the memory of the one that is gone */
    context_has_no_value(ACL_OPT_DETERMINISTIC);
    assert_acl_ok(aclrtDestroyContext(made));
}

static const char *see_the_settings(struct worker *self)
{
    int64_t value = -7;

    worker_check(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value) == ACL_SUCCESS);
    worker_check(value == 1);
    worker_check(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value) ==
                 ACL_ERROR_RT_CONTEXT_NULL);
    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value) == ACL_SUCCESS);
    worker_check(value == 0);
    worker_check(aclrtResetDevice(0) == ACL_SUCCESS);
    return NULL;
}

static void threads_of_a_context_share_it(void **state)
{
    assert_acl_ok(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    assert_acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 0));
    assert_null(run_thread(see_the_settings, NULL));
}

static void a_reset_forgets_the_context_and_finalize_the_process(void **state)
{
    assert_acl_ok(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    assert_acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclrtSetDevice(0));
    context_has_no_value(ACL_OPT_DETERMINISTIC);
    assert_int_equal(process_value(ACL_OPT_DETERMINISTIC), 1);
    assert_acl_ok(aclFinalize());
    start("default");
    assert_int_equal(process_value(ACL_OPT_DETERMINISTIC), 0);
}

static void a_context_is_needed_for_one_of_them(void **state)
{
    int64_t value = 7;

    start("default");
    assert_refused(aclrtCtxSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1),
                   ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
    assert_refused(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value),
                   ACL_ERROR_RT_CONTEXT_NULL, "aclrtSetDevice");
    assert_acl_ok(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1));
    assert_int_equal(process_value(ACL_OPT_DETERMINISTIC), 1);
    assert_int_equal(value, 7);
}

static void newer_values_are_taken(void **state)
{
    for (int64_t i = 0; i <= 3; i++) {
        assert_acl_ok(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, i));
        assert_int_equal(process_value(ACL_OPT_DETERMINISTIC), i);
    }
    assert_acl_ok(aclrtCtxSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, 1));
    assert_int_equal(context_value(ACL_OPT_STRONG_CONSISTENCY), 1);
}

static void newer_values_are_not_in_every_edition(void **state)
{
    int64_t value = 7;

    assert_bad_arg(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 2), "strict");
    assert_bad_arg(aclrtCtxSetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, 1), "strict");
    assert_bad_arg(aclrtGetSysParamOpt(ACL_OPT_STRONG_CONSISTENCY, &value), "strict");
    assert_int_equal(value, 7);
}

static void bad_arguments_are_refused(void **state)
{
    static const int opts[] = {-1, 3, 100};
    int64_t value = 7;

    for (size_t i = 0; i < sizeof(opts) / sizeof(opts[0]); i++) {
        aclSysParamOpt opt = (aclSysParamOpt)opts[i];

        assert_bad_arg(aclrtSetSysParamOpt(opt, 0), "opt");
        assert_bad_arg(aclrtGetSysParamOpt(opt, &value), "opt");
        assert_bad_arg(aclrtCtxSetSysParamOpt(opt, 0), "opt");
        assert_bad_arg(aclrtCtxGetSysParamOpt(opt, &value), "opt");
    }
    assert_bad_arg(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, -1), "value");
    assert_bad_arg(aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 4), "value");
    assert_bad_arg(aclrtCtxSetSysParamOpt(ACL_OPT_ENABLE_DEBUG_KERNEL, 2), "value");
    assert_bad_arg(aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL), "value");
    assert_bad_arg(aclrtCtxGetSysParamOpt(ACL_OPT_DETERMINISTIC, NULL), "value");
    assert_int_equal(process_value(ACL_OPT_DETERMINISTIC), 0);
    context_has_no_value(ACL_OPT_ENABLE_DEBUG_KERNEL);
    assert_int_equal(value, 7);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_context_has_no_value_until_it_is_set),
        claim_both(the_process_has_zero_until_it_is_set),
        claim_both(the_two_do_not_mix),
        claim_both(each_context_has_its_own),
        claim_both(threads_of_a_context_share_it),
        claim(a_reset_forgets_the_context_and_finalize_the_process),
        claim_alone(a_context_is_needed_for_one_of_them),
        claim(newer_values_are_taken),
        claim_strict(newer_values_are_not_in_every_edition),
        claim_both(bad_arguments_are_refused),
    };

    return run_claims(claims);
}
