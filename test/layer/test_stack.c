/*
 * Layers: how they are merged, what they see, and that every argument of every function
 * arrives.
 */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "echo.h"

static struct {
    const struct am_api *before; /* the table in force when the test began */
    const struct am_api *first_below;
    const struct am_api *second_below;
    char order[64]; /* who was called */
} t;

static int begin(void **state)
{
    const struct am_api *core;

    memset(&t, 0, sizeof t);
    echo_n_calls = 0;
    t.before = am_api_top;
    assert_int_equal(am_stack_build("", &am_api_core, &core),
                     ACL_SUCCESS); /* takes away the layers before */
    assert_ptr_equal(core, &am_api_core);
    return 0;
}

static int end(void **state)
{
    am_api_top = t.before;
    return 0;
}

/* ---- merging ---- */

static aclError first_MapMem(void *virPtr, size_t size, size_t offset,
                             aclrtDrvMemHandle handle, uint64_t flags)
{
    strcat(t.order, "first ");
    return t.first_below->aclrtMapMem(virPtr, size, offset, handle, flags);
}

static aclError second_MapMem(void *virPtr, size_t size, size_t offset,
                              aclrtDrvMemHandle handle, uint64_t flags)
{
    strcat(t.order, "second ");
    return t.second_below->aclrtMapMem(virPtr, size, offset, handle, flags);
}

static aclError second_UnmapMem(void *virPtr)
{
    strcat(t.order, "unmap ");
    return t.second_below->aclrtUnmapMem(virPtr);
}

static void first_attach(const struct am_api *below)
{
    t.first_below = below;
}

static void second_attach(const struct am_api *below)
{
    t.second_below = below;
}

static const struct am_api first_table = {.aclrtMapMem = first_MapMem};
static const struct am_api second_table = {.aclrtMapMem = second_MapMem,
                                           .aclrtUnmapMem = second_UnmapMem};
static const struct am_layer first = {"first", &first_table, first_attach, NULL};
static const struct am_layer second = {"second", &second_table, second_attach, NULL};

/* How many slots of two tables differ. */
static size_t differences(const struct am_api *a, const struct am_api *b)
{
    size_t n = 0;

#define AM_API(ret_, name_, ...) n += a->name_ != b->name_;
#include "api/api.def"
    return n;
}

static void an_empty_slot_of_a_layer_is_filled_from_below(void **state)
{
    const struct am_api *merged = am_stack_push(&first, &am_api_core);

    assert_ptr_equal(merged->aclrtMapMem, first_MapMem);
    assert_int_equal(differences(merged, &am_api_core), 1);
}

static void a_layer_gets_the_table_below_it(void **state)
{
    const struct am_api *lower = am_stack_push(&first, &am_api_core);

    am_stack_push(&second, lower);
    assert_ptr_equal(t.first_below, &am_api_core);
    assert_ptr_equal(t.second_below, lower);
}

static void a_call_goes_from_the_outer_layer_to_the_inner_one(void **state)
{
    const struct am_api *lower = am_stack_push(&first, &am_api_down);
    const struct am_api *upper = am_stack_push(&second, lower);

    assert_int_equal(differences(upper, lower), 2);
    am_api_top = upper;
    assert_int_equal(aclrtMapMem(NULL, 0, 0, NULL, 0), ACL_ERROR_UNINITIALIZE);
    assert_string_equal(t.order, "second first ");
    assert_int_equal(aclrtUnmapMem(NULL), ACL_ERROR_UNINITIALIZE);
    assert_string_equal(t.order, "second first unmap ");
}

static void a_layer_that_was_pushed_first_stays_as_it_was(void **state)
{
    const struct am_api *lower = am_stack_push(&first, &am_api_core);
    struct am_api kept = *lower;

    am_stack_push(&second, lower);
    assert_int_equal(differences(lower, &kept), 0);
}

/* ---- every row ---- */

/* A value that no other argument of any row has, as wide as the letter says. */
static uint64_t value_for(enum am_api_id id, size_t i, char letter)
{
    uint64_t value = (uint64_t)(id + 1) << 8 | (i + 1);

    switch (letter) {
    case 'i':
    case 'u':
    case 'e':
    case 'f':
        return value;
    case 'h':
        return (uint16_t)value;
    default:
        return UINT64_C(0xa5c3) << 48 | value << 20 | value;
    }
}

static size_t values_from(enum am_api_id id, uint64_t *values)
{
    const char *sig = echo_rows[id].sig;
    size_t n = 0;

    while ((sig = strchr(sig, ':')) != NULL) {
        sig++;
        assert_true(n < ECHO_ARGS_MAX);
        values[n] = value_for(id, n, *sig);
        n++;
    }
    return n;
}

static void every_argument_of_every_function_arrives(void **state)
{
    am_api_top = am_stack_push(&echo_layer, &am_api_core);
    for (enum am_api_id id = 0; id < AM_API_COUNT; id++) {
        uint64_t values[ECHO_ARGS_MAX] = {0};
        size_t n = values_from(id, values);
        const struct echo_call *call = &echo_calls[id];

        if (echo_rows[id].call(values) != echo_result(id))
            fail_msg("%s returns something else", echo_rows[id].name);
        assert_int_equal(echo_n_calls, id + 1);
        if (call->id != id || call->n_args != n)
            fail_msg("%s: %zu arguments of %s arrive", echo_rows[id].name, call->n_args,
                     echo_rows[call->id].name);
        for (size_t i = 0; i < n; i++) {
            if (call->arg[i] != values[i])
                fail_msg("%s: argument %zu is 0x%llx, not 0x%llx", echo_rows[id].name, i,
                         (unsigned long long)call->arg[i], (unsigned long long)values[i]);
        }
    }
}

/* The same through a layer that passes everything on. */
static void a_layer_in_between_changes_nothing(void **state)
{
    const struct am_api *echo = am_stack_push(&echo_layer, &am_api_core);

    am_api_top = am_stack_push(&pass_layer, echo);
    for (enum am_api_id id = 0; id < AM_API_COUNT; id++) {
        uint64_t values[ECHO_ARGS_MAX] = {0};
        size_t n = values_from(id, values);

        echo_n_calls = 0;
        assert_int_equal(echo_rows[id].call(values), echo_result(id));
        assert_int_equal(echo_n_calls, 2);
        assert_int_equal(echo_calls[1].id, id);
        assert_memory_equal(echo_calls[1].arg, echo_calls[0].arg, n * sizeof values[0]);
        assert_memory_equal(echo_calls[1].arg, values, n * sizeof values[0]);
    }
}

/* ---- what a layer sees ---- */

static void assert_seen(enum am_api_id id)
{
    if (echo_n_calls != 1 || echo_calls[0].id != id)
        fail_msg("%s makes a layer see %zu calls, the first of %s", echo_rows[id].name,
                 echo_n_calls, echo_n_calls ? echo_rows[echo_calls[0].id].name : "none");
    echo_n_calls = 0;
}

#define seen(name_, args_) \
    do { \
        assert_int_equal(name_ args_, ACL_SUCCESS); \
        assert_seen(AM_API_##name_); \
    } while (0)

/*
 * The library never calls itself, so a layer sees the program's calls and nothing else.
 */
static void a_layer_sees_each_call_of_the_program_once(void **state)
{
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtMemAccessDesc desc = {.flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
                               .location.type = ACL_MEM_LOCATION_TYPE_DEVICE};
    aclrtDrvMemHandle handle;
    aclrtContext context;
    size_t size;
    int32_t device;
    char bytes[64];
    void *va;

    am_api_top = am_stack_push(&pass_layer, am_api_top);
    seen(aclrtSetDevice, (0));
    seen(aclrtGetDevice, (&device));
    seen(aclrtMemGetAllocationGranularity,
         (&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &size));
    seen(aclrtReserveMemAddress, (&va, size, 0, NULL, 1));
    seen(aclrtMallocPhysical, (&handle, size, &prop, 0));
    seen(aclrtMapMem, (va, size, 0, handle, 0));
    seen(aclrtMemSetAccess, (va, size, &desc, 1));
    seen(aclrtMemset, (va, size, 1, size));
    seen(aclrtMemcpy, (bytes, sizeof bytes, va, sizeof bytes, ACL_MEMCPY_DEVICE_TO_HOST));
    seen(aclrtMemRetainAllocationHandle, (va, &handle));
    seen(aclrtFreePhysical, (handle));
    seen(aclrtUnmapMem, (va));
    seen(aclrtFreePhysical, (handle));
    seen(aclrtReleaseMemAddress, (va));
    seen(aclrtCreateContext, (&context, 0));
    seen(aclrtDestroyContext, (context));
    seen(aclrtResetDevice, (0));
    assert_int_equal(bytes[63], 1);
}

static void a_layer_sees_refusals_and_questions_about_them(void **state)
{
    am_api_top = am_stack_push(&pass_layer, am_api_top);
    assert_int_equal(aclrtUnmapMem(NULL), ACL_ERROR_INVALID_PARAM);
    assert_seen(AM_API_aclrtUnmapMem);
    assert_non_null(strstr(aclGetRecentErrMsg(), "aclrtUnmapMem: virPtr is NULL"));
    assert_seen(AM_API_aclGetRecentErrMsg);
}

static void after_aclFinalize_no_layer_is_in_the_way(void **state)
{
    am_api_top = am_stack_push(&pass_layer, am_api_top);
    assert_int_equal(aclFinalize(), ACL_SUCCESS);
    assert_seen(AM_API_aclFinalize);
    assert_ptr_equal(am_api_top, &am_api_down);
    assert_int_equal(aclrtSetDevice(0), ACL_ERROR_UNINITIALIZE);
    assert_int_equal(echo_n_calls, 0);
}

/* ---- ACLMEM_LAYERS ---- */

static void an_unknown_layer_is_refused_by_name(void **state)
{
    static const struct {
        const char *option;
        const char *named;
    } wrong[] = {
        {"ACLMEM_LAYERS=tracy", "no layer \"tracy\""},
        {"ACLMEM_LAYERS=one,two", "no layer \"two\""},
        {"ACLMEM_LAYERS=,", "no layer \"\""},
        {"ACLMEM_LAYERS= ", "no layer \" \""},
    };

    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        set_options("default", wrong[i].option);
        assert_acl(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
        assert_message_has("ACLMEM_LAYERS");
        assert_message_has(wrong[i].named);
        assert_acl(aclFinalize(), ACL_ERROR_UNINITIALIZE); /* nothing is up */
    }
}

static void no_layers_are_the_core_alone(void **state)
{
    start("default", "ACLMEM_LAYERS=");
    assert_ptr_equal(am_api_top, &am_api_core);
}

static int begin_up(void **state)
{
    start("default");
    return begin(state);
}

static int end_up(void **state)
{
    end(state);
    return finish(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* The first is the first call of the process: nothing was started before. */
        cmocka_unit_test(an_unknown_layer_is_refused_by_name),
        cmocka_unit_test_setup_teardown(an_empty_slot_of_a_layer_is_filled_from_below,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_layer_gets_the_table_below_it, begin, end),
        cmocka_unit_test_setup_teardown(a_call_goes_from_the_outer_layer_to_the_inner_one,
                                        begin, end),
        cmocka_unit_test_setup_teardown(a_layer_that_was_pushed_first_stays_as_it_was,
                                        begin, end),
        cmocka_unit_test_setup_teardown(every_argument_of_every_function_arrives, begin,
                                        end),
        cmocka_unit_test_setup_teardown(a_layer_in_between_changes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(a_layer_sees_each_call_of_the_program_once,
                                        begin_up, end_up),
        cmocka_unit_test_setup_teardown(a_layer_sees_refusals_and_questions_about_them,
                                        begin_up, end_up),
        cmocka_unit_test_setup_teardown(after_aclFinalize_no_layer_is_in_the_way,
                                        begin_up, end),
        cmocka_unit_test_teardown(no_layers_are_the_core_alone, finish),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
