/* aclInit's file: every way in which it can be wrong, and what of it counts. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "base/options.h"
#include "base/util.h"
#include "support/support.h"

static const char *folder;
static char why[AM_WHY_SIZE];

static int begin(void **state)
{
    folder = folder_make();
    am_options_reset();
    memset(why, 0, sizeof why);
    return 0;
}

static int end(void **state)
{
    folder_remove(folder);
    return 0;
}

static int read_bytes(const void *bytes, size_t size, struct am_config *ret_config)
{
    return am_config_read(file_make(folder, "acl.json", bytes, size), ret_config, why);
}

static int read_text(const char *text, struct am_config *ret_config)
{
    return read_bytes(text, strlen(text), ret_config);
}

/* Refused with rc, a reason with these words, and nothing written. */
static void assert_wrong(const char *text, int rc, const char *words)
{
    struct am_config config = {.share_messages = true, .default_device = 77};
    int got = read_text(text, &config);

    if (got != rc)
        fail_msg("%.60s: %d, not %d (%s)", text, got, rc, why);
    assert_contains(why, words);
    assert_true(config.share_messages && config.default_device == 77);
}

static struct am_config read_good(const char *text)
{
    struct am_config config;

    if (read_text(text, &config) != 0)
        fail_msg("%.60s: %s", text, why);
    return config;
}

/* "{"a":{"a": ... {} ... }}" with n braces. */
static char *braces(int n)
{
    char *text = calloc(1, (size_t)n * 6 + 1);

    assert_non_null(text);
    for (int i = 1; i < n; i++)
        strcat(text, "{\"a\":");
    strcat(text, "{}");
    for (int i = 1; i < n; i++)
        strcat(text, "}");
    return text;
}

/* An object whose key "a" is `inner` in n brackets. */
static char *brackets(int n, const char *inner)
{
    char *text = calloc(1, (size_t)n * 2 + strlen(inner) + 16);

    assert_non_null(text);
    strcpy(text, "{\"a\":");
    memset(text + strlen(text), '[', (size_t)n);
    strcat(text, inner);
    memset(text + strlen(text), ']', (size_t)n);
    strcat(text, "}");
    return text;
}

static void without_a_file_nothing_is_given(void **state)
{
    struct am_config config;

    assert_int_equal(am_config_read(NULL, &config, why), 0);
    assert_false(config.share_messages);
    assert_int_equal(config.default_device, -1);
    config = read_good("{}");
    assert_false(config.share_messages);
    assert_int_equal(config.default_device, -1);
}

static void a_file_that_cannot_be_read_is_named(void **state)
{
    struct am_config config;
    char path[4000];

    assert_int_equal(am_config_read("/nowhere/acl.json", &config, why), -ENOENT);
    assert_contains(why, "\"/nowhere/acl.json\"");
    assert_contains(why, "No such file");
    assert_int_equal(am_config_read(folder, &config, why), -ENOENT);
    assert_contains(why, "directory");
    assert_int_equal(am_config_read("", &config, why), -ENOENT);

    memset(path, 'x', sizeof path);
    path[sizeof path - 1] = '\0';
    assert_int_equal(am_config_read(path, &config, why), -ENOENT);
    assert_true(strlen(why) < AM_WHY_SIZE);
}

static void what_is_not_one_json_object_is_refused(void **state)
{
    assert_wrong("", -EILSEQ, "not legal JSON");
    assert_wrong(" \n\t", -EILSEQ, "not legal JSON");
    assert_wrong("{", -EILSEQ, "line 1");
    assert_wrong("{\n\"a\": 1,\n}", -EILSEQ, "line 3");
    assert_wrong("{} x", -EILSEQ, "not legal JSON");
    assert_wrong("{'a': 1}", -EILSEQ, "not legal JSON");
    assert_wrong("{\"a\": \"\xff\"}", -EILSEQ, "not legal JSON");
    assert_wrong("{\"a\": 1e999}", -EILSEQ, "not legal JSON");
    assert_wrong("[]", -EILSEQ, "one JSON object");
    assert_wrong("[{}]", -EILSEQ, "one JSON object");
    assert_wrong("3", -EILSEQ, "JSON");
    assert_wrong("null", -EILSEQ, "JSON");
}

static void a_zero_byte_is_not_the_end_of_the_file(void **state)
{
    struct am_config config;

    assert_int_equal(read_bytes("{}\0{", 4, &config), -EILSEQ);
    assert_int_equal(read_bytes("{\"a\": \"\0\"}", 10, &config), -EILSEQ);
}

static void a_key_given_twice_is_refused(void **state)
{
    assert_wrong("{\"a\": 1, \"a\": 2}", -EILSEQ, "duplicate");
    assert_wrong("{\"dump\": {\"a\": 1, \"b\": 2, \"a\": 2}}", -EILSEQ, "duplicate");
    read_good("{\"a\": {\"k\": 1}, \"b\": {\"k\": 1}}");
}

static void ten_levels_of_braces_are_legal_and_eleven_are_not(void **state)
{
    char *ten = braces(10);
    char *eleven = braces(11);

    read_good(ten);
    assert_wrong(eleven, -EILSEQ, "at most 10 levels of braces");
    free(ten);
    free(eleven);
}

static void ten_levels_of_brackets_are_legal_and_eleven_are_not(void **state)
{
    char *ten = brackets(10, "1");
    char *eleven = brackets(11, "1");

    read_good(ten);
    assert_wrong(eleven, -EILSEQ, "10 of brackets");
    free(ten);
    free(eleven);
}

static void braces_and_brackets_are_counted_apart(void **state)
{
    char *inner = braces(9);
    char *ten_of_each = brackets(10, inner);
    char *inner_deeper = braces(10);
    char *too_deep = brackets(10, inner_deeper);

    read_good(ten_of_each);
    assert_wrong(too_deep, -EILSEQ, "braces");
    free(inner);
    free(ten_of_each);
    free(inner_deeper);
    free(too_deep);
}

static void nesting_without_end_is_refused_and_not_followed(void **state)
{
    char *deep = calloc(1, AM_MIB + 1);

    assert_non_null(deep);
    memset(deep, '[', AM_MIB);
    assert_wrong(deep, -EILSEQ, "not legal JSON");
    for (size_t i = 0; i + 5 <= AM_MIB; i += 5)
        memcpy(deep + i, "{\"a\":", 5);
    assert_wrong(deep, -EILSEQ, "not legal JSON");
    free(deep);
}

static void one_mebibyte_is_read_and_a_byte_more_is_not(void **state)
{
    char *text = malloc(AM_MIB + 1);
    struct am_config config;

    assert_non_null(text);
    memset(text, ' ', AM_MIB + 1);
    memcpy(text, "{}", 2);
    assert_int_equal(read_bytes(text, AM_MIB, &config), 0);
    assert_int_equal(read_bytes(text, AM_MIB + 1, &config), -EFBIG);
    assert_contains(why, "larger than 1 MiB");
    assert_int_equal(am_config_read("/dev/zero", &config, why), -ENOENT);
    assert_contains(why, "not a regular file");
    free(text);
}

static void the_vendors_numbers_are_strings(void **state)
{
    assert_true(read_good("{\"err_msg_mode\": \"1\"}").share_messages);
    assert_false(read_good("{\"err_msg_mode\": \"0\"}").share_messages);
    assert_wrong("{\"err_msg_mode\": 1}", -EINVAL, "err_msg_mode");
    assert_wrong("{\"err_msg_mode\": \"2\"}", -EINVAL, "\"0\" or \"1\"");
    assert_wrong("{\"err_msg_mode\": \"-1\"}", -EINVAL, "err_msg_mode");
    assert_wrong("{\"err_msg_mode\": \"1 \"}", -EINVAL, "err_msg_mode");
    assert_wrong("{\"err_msg_mode\": \"\"}", -EINVAL, "err_msg_mode");
    assert_wrong("{\"err_msg_mode\": null}", -EINVAL, "err_msg_mode");
    assert_wrong("{\"err_msg_mode\": \"99999999999999999999\"}", -EINVAL, "err_msg_mode");
}

static void the_default_device_is_a_number_as_a_string(void **state)
{
#define DEVICE(text_) "{\"defaultDevice\": {\"default_device\": " text_ "}}"
    assert_int_equal(read_good(DEVICE("\"0\"")).default_device, 0);
    assert_int_equal(read_good(DEVICE("\"62\"")).default_device, 62);
    assert_wrong(DEVICE("0"), -EINVAL, "default_device");
    assert_wrong(DEVICE("\"-1\""), -EINVAL, "default_device");
    assert_wrong(DEVICE("\"32768\""), -EINVAL, "default_device");
    assert_wrong(DEVICE("\"99999999999999999999\""), -EINVAL, "default_device");
    assert_wrong(DEVICE("\"one\""), -EINVAL, "default_device");
    assert_wrong("{\"defaultDevice\": {}}", -EINVAL, "default_device");
    assert_wrong("{\"defaultDevice\": \"0\"}", -EINVAL, "default_device");
    assert_wrong("{\"defaultDevice\": []}", -EINVAL, "default_device");
}

static void keys_of_other_parts_have_no_effect(void **state)
{
    struct am_config config =
        read_good("{\"dump\": {\"dump_list\": [{\"model_name\": \"m\"}]}, "
                  "\"profiler\": {\"switch\": \"on\"}, "
                  "\"max_opqueue_num\": \"20000\", \"rules\": 3}");

    assert_false(config.share_messages);
    assert_int_equal(config.default_device, -1);
    assert_false(am_option_is_set(AM_OPTION_rules));
}

static void a_slip_in_the_name_of_our_object_is_refused(void **state)
{
    assert_wrong("{\"aclmen\": {\"rules\": \"strict\"}}", -EINVAL,
                 "did you mean \"aclmem\"");
    assert_wrong("{\"ACLMEM\": {}}", -EINVAL, "did you mean \"aclmem\"");
}

static void our_object_sets_options_from_text_numbers_and_booleans(void **state)
{
    read_good("{\"aclmem\": {\"rules\": \"strict\", \"devices\": 4, \"isolate\": false, "
              "\"memory\": \"64G\", \"commit\": \"now\"}}");
    assert_int_equal(am_option_number(AM_OPTION_rules), 1);
    assert_int_equal(am_option_number(AM_OPTION_devices), 4);
    assert_int_equal(am_option_number(AM_OPTION_isolate), 0);
    assert_int_equal(am_option_number(AM_OPTION_memory), INT64_C(64) << 30);
    assert_int_equal(am_option_number(AM_OPTION_commit), 1);
    read_good("{\"aclmem\": {\"isolate\": true, \"memory\": 4194304}}");
    assert_int_equal(am_option_number(AM_OPTION_isolate), 1);
    assert_int_equal(am_option_number(AM_OPTION_memory), 4194304);
}

static void a_wrong_option_in_our_object_is_refused_with_its_name(void **state)
{
    assert_wrong("{\"aclmem\": 1}", -EINVAL, "must be an object");
    assert_wrong("{\"aclmem\": []}", -EINVAL, "must be an object");
    assert_wrong("{\"aclmem\": {\"rulse\": \"strict\"}}", -EINVAL, "\"rules\"");
    assert_wrong("{\"aclmem\": {\"rules\": \"lax\"}}", -EINVAL, "default|strict");
    assert_wrong("{\"aclmem\": {\"devices\": 0}}", -EINVAL, "1-63");
    assert_wrong("{\"aclmem\": {\"devices\": -9223372036854775808}}", -EINVAL, "1-63");
    assert_wrong("{\"aclmem\": {\"rules\": {}}}", -EINVAL, "must be a string");
    assert_wrong("{\"aclmem\": {\"rules\": null}}", -EINVAL, "must be a string");
    assert_wrong("{\"aclmem\": {\"devices\": 2.0}}", -EINVAL, "must be a string");
}

static void a_failed_read_leaves_no_descriptor_and_no_result(void **state)
{
    const char *path = file_make_text(folder, "acl.json", "{\"err_msg_mode\": \"1\"}");
    size_t n_open = open_descriptors();
    size_t n_failed = 0;

    for_each_fault (n) {
        struct am_config config = {.default_device = 77};
        int rc = am_config_read(path, &config, why);

        assert_int_equal(rc == 0, !am_fault_fired());
        if (rc != 0) {
            assert_true(rc == -ENOENT || rc == -ENOMEM);
            assert_contains(why, path);
            assert_int_equal(config.default_device, 77);
            n_failed++;
        }
        assert_int_equal(open_descriptors(), n_open);
    }
    assert_true(n_failed >= 3); /* open, malloc, read */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define in_a_folder(f_) cmocka_unit_test_setup_teardown(f_, begin, end)
        in_a_folder(without_a_file_nothing_is_given),
        in_a_folder(a_file_that_cannot_be_read_is_named),
        in_a_folder(what_is_not_one_json_object_is_refused),
        in_a_folder(a_zero_byte_is_not_the_end_of_the_file),
        in_a_folder(a_key_given_twice_is_refused),
        in_a_folder(ten_levels_of_braces_are_legal_and_eleven_are_not),
        in_a_folder(ten_levels_of_brackets_are_legal_and_eleven_are_not),
        in_a_folder(braces_and_brackets_are_counted_apart),
        in_a_folder(nesting_without_end_is_refused_and_not_followed),
        in_a_folder(one_mebibyte_is_read_and_a_byte_more_is_not),
        in_a_folder(the_vendors_numbers_are_strings),
        in_a_folder(the_default_device_is_a_number_as_a_string),
        in_a_folder(keys_of_other_parts_have_no_effect),
        in_a_folder(a_slip_in_the_name_of_our_object_is_refused),
        in_a_folder(our_object_sets_options_from_text_numbers_and_booleans),
        in_a_folder(a_wrong_option_in_our_object_is_refused_with_its_name),
        in_a_folder(a_failed_read_leaves_no_descriptor_and_no_result),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
