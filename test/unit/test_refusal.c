/* Refusals: what makes two of them one, and how many are kept. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "base/log.h"
#include "base/refusal.h"
#include "support/process.h"

static int loud(void **state)
{
    am_refusal_end();
    am_log_set_level(AM_LOG_REFUSAL);
    return 0;
}

static int quiet(void **state)
{
    am_log_set_level(AM_LOG_WARN);
    return 0;
}

static unsigned lines(const char *text)
{
    unsigned n = 0;

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

static void note(const char *message)
{
    am_refusal_note(ACL_ERROR_RT_PARAM_INVALID, "ACL_ERROR_RT_PARAM_INVALID", "aclrtFree",
                    message);
}

/* Numbers are what begins with a digit, also in the middle of a word with a sign. */
static void messages_that_differ_in_numbers_are_one(void **state)
{
    capture_stderr();
    note("free: 0x7f00 holds 12 bytes, of -1");
    note("free: 0xabcdef holds 4096 bytes, of -77");
    note("free: 0 holds 1 bytes, of -2");
    note("free: 0 holds 1 chunks, of -2");
    assert_int_equal(lines(captured_stderr()), 2);
}

static void a_digit_in_a_name_is_part_of_it(void **state)
{
    capture_stderr();
    note("name: int8");
    note("name: int16");
    assert_int_equal(lines(captured_stderr()), 2);
}

static void codes_tell_refusals_apart(void **state)
{
    capture_stderr();
    am_refusal_note(ACL_ERROR_RT_PARAM_INVALID, "ACL_ERROR_RT_PARAM_INVALID",
                    "aclrtMalloc", "codes");
    am_refusal_note(ACL_ERROR_INVALID_PARAM, "ACL_ERROR_INVALID_PARAM", "aclrtMalloc",
                    "codes");
    am_refusal_note(ACL_ERROR_INVALID_PARAM, "ACL_ERROR_INVALID_PARAM", NULL, "codes");
    assert_int_equal(lines(captured_stderr()), 2);
    capture_stderr();
    am_refusal_end();
    assert_contains(captured_stderr(), "aclrtMalloc was refused 2 times in all [100000 "
                                       "ACL_ERROR_INVALID_PARAM]\n");
    capture_stderr();
    am_refusal_end();
    assert_string_equal(captured_stderr(), "");
}

/* A name that is no function of the interface does not compile. */
static void ordinary_answers_are_not_printed(void **state)
{
    static void *const functions[] = {
#define AM_EXPECTED(function_, code_) (void *)function_,
#include "base/expected_codes.def"
#undef AM_EXPECTED
    };

    assert_non_null(functions[0]);
    capture_stderr();
#define AM_EXPECTED(function_, code_) \
    am_refusal_note(code_, #code_, #function_, "expected");
#include "base/expected_codes.def"
#undef AM_EXPECTED
    assert_string_equal(captured_stderr(), "");
}

/* The last test: it fills the table. */
static void refusals_beyond_the_table_are_counted(void **state)
{
    char message[] = "full aa";
    const char *text;
    unsigned n;

    capture_stderr();
    for (int i = 0; i < 20 * 20; i++) {
        message[5] = (char)('a' + i / 20);
        message[6] = (char)('a' + i % 20);
        note(message);
    }
    n = lines(captured_stderr());
    assert_in_range(n, 200, 256);
    capture_stderr();
    am_refusal_end();
    text = captured_stderr();
    snprintf(message, sizeof message, " %u ", 400 - n);
    assert_contains(text, message);
    assert_contains(text, "more calls were refused");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(messages_that_differ_in_numbers_are_one, loud,
                                        quiet),
        cmocka_unit_test_setup_teardown(a_digit_in_a_name_is_part_of_it, loud, quiet),
        cmocka_unit_test_setup_teardown(codes_tell_refusals_apart, loud, quiet),
        cmocka_unit_test_setup_teardown(ordinary_answers_are_not_printed, loud, quiet),
        cmocka_unit_test_setup_teardown(refusals_beyond_the_table_are_counted, loud,
                                        quiet),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
