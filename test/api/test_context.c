/* Contexts, and what a reset of their device does to them. */
#include "support/process.h"
#include "support/vmm.h"

static void without_a_context_null_is_stored(void **state)
{
    aclrtContext context = (aclrtContext)state; /* garbage, as a careless caller has it */

    start("default");
    assert_acl(aclrtGetCurrentContext(&context), ACL_ERROR_RT_CONTEXT_NULL);
    assert_null(context);
}

static void setting_a_device_makes_its_default_context_current(void **state)
{
    aclrtContext a = NULL, b = NULL, again = NULL;

    assert_acl_ok(aclrtGetCurrentContext(&a));
    assert_non_null(a);
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtGetCurrentContext(&b));
    assert_non_null(b);
    assert_ptr_not_equal(a, b);
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtGetCurrentContext(&again));
    assert_ptr_equal(a, again);
    assert_int_equal(stats().contexts, 0);
}

static void a_created_context_is_current(void **state)
{
    aclrtContext context = NULL, current = NULL;
    int32_t device = 7;

    start("default");
    assert_acl_ok(aclrtCreateContext(&context, 1));
    assert_non_null(context);
    assert_acl_ok(aclrtGetCurrentContext(&current));
    assert_ptr_equal(current, context);
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 1);
    assert_int_equal(total_memory(), GIB);
    assert_acl_ok(aclrtDestroyContext(context));
}

static void switching_contexts_switches_the_device(void **state)
{
    aclrtContext on_0 = NULL, on_1 = NULL;
    int32_t device = 7;

    assert_acl_ok(aclrtCreateContext(&on_1, 1));
    assert_acl_ok(aclrtCreateContext(&on_0, 0));
    assert_acl_ok(aclrtSetCurrentContext(on_1));
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 1);
    assert_acl_ok(aclrtSetCurrentContext(on_0));
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
    assert_acl_ok(aclrtDestroyContext(on_1));
    assert_acl_ok(aclrtGetDevice(&device));
    assert_int_equal(device, 0);
    assert_acl_ok(aclrtDestroyContext(on_0));
}

static void a_default_context_may_be_made_current_again(void **state)
{
    aclrtContext first = NULL, made = NULL, current = NULL;

    assert_acl_ok(aclrtGetCurrentContext(&first));
    assert_acl_ok(aclrtCreateContext(&made, 1));
    assert_acl_ok(aclrtSetCurrentContext(first));
    assert_acl_ok(aclrtGetCurrentContext(&current));
    assert_ptr_equal(current, first);
    assert_acl_ok(aclrtDestroyContext(made));
}

static void a_default_context_cannot_be_destroyed(void **state)
{
    aclrtContext context = NULL, current = NULL;

    assert_acl_ok(aclrtGetCurrentContext(&context));
    assert_refused_either(aclrtDestroyContext(context), ACL_ERROR_RT_PARAM_INVALID,
                          ACL_ERROR_RT_INVALID_HANDLE, "default");
    assert_acl_ok(aclrtGetCurrentContext(&current));
    assert_ptr_equal(current, context);
}

static void a_destroyed_context_is_dead(void **state)
{
    aclrtContext context = NULL, current = NULL;

    assert_acl_ok(aclrtCreateContext(&context, 0));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtDestroyContext(context));
    assert_refused(aclrtSetCurrentContext(context), ACL_ERROR_RT_INVALID_HANDLE,
                   "context");
    assert_refused(aclrtDestroyContext(context), ACL_ERROR_RT_INVALID_HANDLE, "context");
    assert_acl_ok(aclrtGetCurrentContext(&current));
    assert_ptr_not_equal(current, context);
}

static void a_handle_without_a_context_is_refused(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    int here = 0;

    assert_refused(aclrtSetCurrentContext(handle), ACL_ERROR_RT_INVALID_HANDLE,
                   "context");
    assert_refused(aclrtDestroyContext(handle), ACL_ERROR_RT_INVALID_HANDLE, "context");
    assert_refused(aclrtSetCurrentContext(&here), ACL_ERROR_RT_INVALID_HANDLE, "context");
    assert_refused(aclrtDestroyContext((aclrtContext)UINTPTR_MAX),
                   ACL_ERROR_RT_INVALID_HANDLE, "context");
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void bad_arguments_are_refused(void **state)
{
    aclrtContext context = NULL;

    assert_bad_arg(aclrtCreateContext(NULL, 0), "context");
    assert_refused(aclrtCreateContext(&context, 2), ACL_ERROR_RT_INVALID_DEVICEID, "2");
    assert_refused(aclrtCreateContext(&context, -1), ACL_ERROR_RT_INVALID_DEVICEID, "-1");
    assert_bad_arg(aclrtDestroyContext(NULL), "context");
    assert_bad_arg(aclrtSetCurrentContext(NULL), "context");
    assert_bad_arg(aclrtGetCurrentContext(NULL), "context");
    assert_null(context);
}

static const char *borrow_context(struct worker *self)
{
    aclrtContext current = NULL;
    int32_t device = 7;

    worker_check(aclrtSetCurrentContext(self->shared) == ACL_SUCCESS);
    worker_check(aclrtGetCurrentContext(&current) == ACL_SUCCESS &&
                 current == self->shared);
    worker_check(aclrtGetDevice(&device) == ACL_SUCCESS && device == 1);
    return NULL;
}

static void another_thread_may_use_a_context(void **state)
{
    aclrtContext context = NULL;

    assert_acl_ok(aclrtCreateContext(&context, 1));
    assert_null(run_thread(borrow_context, context));
    assert_acl_ok(aclrtDestroyContext(context));
}

static void a_context_of_a_reset_device_cannot_be_set(void **state)
{
    aclrtContext made = NULL, standard = NULL;

    start("default");
    allow_warnings();
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtGetCurrentContext(&standard));
    assert_acl_ok(aclrtCreateContext(&made, 1));
    assert_acl_ok(aclrtResetDevice(1));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_either(aclrtSetCurrentContext(standard), ACL_ERROR_RT_INVALID_HANDLE,
                      ACL_ERROR_RT_PARAM_INVALID);
    assert_acl_either(aclrtSetCurrentContext(made), ACL_ERROR_RT_INVALID_HANDLE,
                      ACL_ERROR_RT_PARAM_INVALID);
    (void)aclrtDestroyContext(
        made); /* dead already, or to be destroyed: both are sound */
    assert_int_equal(stats().contexts, 0);
}

static void primary_state_does_not_count_created_contexts(void **state)
{
    aclrtContext context = NULL;
    int32_t active = 7;

    start("default");
    assert_acl_ok(aclrtCreateContext(&context, 1));
    assert_acl_ok(aclrtGetPrimaryCtxState(1, NULL, &active));
    assert_int_equal(active, 0);
    assert_acl_ok(aclrtSetDevice(1));
    assert_acl_ok(aclrtGetPrimaryCtxState(1, NULL, &active));
    assert_int_equal(active, 1);
    assert_acl_ok(aclrtDestroyContext(context));
}

/* The documents say to pass NULL for the flags. */
static void primary_state_takes_a_place_for_flags(void **state)
{
    uint32_t flags = 7;
    int32_t active = 7;

    assert_acl_ok(aclrtGetPrimaryCtxState(0, &flags, &active));
    assert_int_equal(active, 1);
}

static void strict_wants_no_place_for_flags(void **state)
{
    uint32_t flags = 7;
    int32_t active = 7;

    assert_bad_arg(aclrtGetPrimaryCtxState(0, &flags, &active), "strict");
    assert_int_equal(active, 7);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(without_a_context_null_is_stored),
        claim_both(setting_a_device_makes_its_default_context_current),
        claim_alone(a_created_context_is_current),
        claim_both(switching_contexts_switches_the_device),
        claim_both(a_default_context_may_be_made_current_again),
        claim_both(a_default_context_cannot_be_destroyed),
        claim_both(a_destroyed_context_is_dead),
        claim_both(a_handle_without_a_context_is_refused),
        claim_both(bad_arguments_are_refused),
        claim_both(another_thread_may_use_a_context),
        claim_alone(a_context_of_a_reset_device_cannot_be_set),
        claim_alone(primary_state_does_not_count_created_contexts),
        claim(primary_state_takes_a_place_for_flags),
        claim_strict(strict_wants_no_place_for_flags),
    };

    return run_claims(claims);
}
