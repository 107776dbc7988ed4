/* Options: what each type takes, who wins, and what a refusal says. */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/util.h"
#include "support/support.h"

/* Room for a reason, and a byte behind it that nobody may write. */
static struct {
    char why[AM_WHY_SIZE];
    char behind;
} room;

static int reset(void **state)
{
    clear_options();
    unsetenv("ACLMEM_LOG");
    unsetenv("ACLMEM_BACKEND");
    am_options_reset();
    memset(&room, 0x5a, sizeof room);
    return 0;
}

static int reset_after(void **state)
{
    assert_int_equal(room.behind, 0x5a);
    return reset(state);
}

static void assert_taken(enum am_option option, const char *id, const char *value,
                         int64_t number)
{
    assert_int_equal(am_options_set(id, value, room.why), 0);
    assert_string_equal(am_option_text(option), value);
    if (am_option_number(option) != number)
        fail_msg("%s=%s is %lld, not %lld", id, value,
                 (long long)am_option_number(option), (long long)number);
    assert_true(am_option_is_set(option));
}

/* Refused, the value named, and the option as it was. */
static void assert_refused_value(enum am_option option, const char *id, const char *value)
{
    char text[128];
    int64_t number = am_option_number(option);
    bool is_set = am_option_is_set(option);

    snprintf(text, sizeof text, "%s", am_option_text(option));
    memset(room.why, 0x5a, sizeof room.why);
    if (am_options_set(id, value, room.why) != -EINVAL)
        fail_msg("%s takes \"%s\"", id, value);
    assert_true(memchr(room.why, '\0', sizeof room.why) != NULL);
    assert_contains(room.why, id);
    assert_string_equal(am_option_text(option), text);
    assert_true(am_option_number(option) == number);
    assert_int_equal(am_option_is_set(option), is_set);
}

static void every_option_begins_with_its_default(void **state)
{
#define AM_OPTION(id_, type_, default_, choices_, help_) \
    assert_string_equal(am_option_text(AM_OPTION_##id_), default_); \
    assert_true(am_option_number(AM_OPTION_##id_) >= 0); \
    assert_false(am_option_is_set(AM_OPTION_##id_));
#include "base/options.def"
#undef AM_OPTION
}

static void a_choice_is_its_place_in_the_list_in_any_case(void **state)
{
    assert_taken(AM_OPTION_rules, "rules", "default", 0);
    assert_taken(AM_OPTION_rules, "rules", "strict", 1);
    assert_taken(AM_OPTION_rules, "rules", "STRICT", 1);
    assert_taken(AM_OPTION_log, "log", "error", 0);
    assert_taken(AM_OPTION_log, "log", "Debug", 4);
}

static void a_word_that_is_no_choice_is_refused_with_the_list(void **state)
{
    static const char *const wrong[] = {"",  "stric",  "strictly", "default|strict",
                                        "|", " strict"};

    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++) {
        assert_refused_value(AM_OPTION_rules, "rules", wrong[i]);
        assert_contains(room.why, "default|strict");
    }
}

static void a_count_lies_within_its_limits(void **state)
{
    static const char *const wrong[] = {
        "",
        "0",
        "64",
        "-1",
        "+2",
        " 2",
        "2 ",
        "2x",
        "0x2",
        "two",
        "1.5",
        "18446744073709551617",
        "9223372036854775808",
    };

    assert_taken(AM_OPTION_devices, "devices", "1", 1);
    assert_taken(AM_OPTION_devices, "devices", "63", 63);
    assert_taken(AM_OPTION_devices, "devices", "007", 7);
    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++) {
        assert_refused_value(AM_OPTION_devices, "devices", wrong[i]);
        assert_contains(room.why, "1-63");
    }
}

static void a_size_is_bytes_or_has_a_unit(void **state)
{
    static const struct {
        const char *text;
        int64_t bytes;
    } good[] = {
        {"", 0},
        {"1", 1},
        {"4096", 4096},
        {"1K", 1 << 10},
        {"3m", 3 << 20},
        {"64G", INT64_C(64) << 30},
        {"2T", INT64_C(2) << 40},
        {"1KB", 1 << 10},
        {"1kb", 1 << 10},
        {"1MiB", 1 << 20},
        {"1gib", 1 << 30},
        {"8388607T", INT64_C(8388607) << 40},
        {"9223372036854775807", INT64_MAX},
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(good); i++)
        assert_taken(AM_OPTION_memory, "memory", good[i].text, good[i].bytes);
}

static void what_is_no_size_or_too_large_is_refused(void **state)
{
    static const char *const wrong[] = {
        "0",
        "0G",
        "-1",
        "+1",
        "G",
        "1X",
        "1KK",
        "1 K",
        "1K ",
        "1KBB",
        "1Ki",
        "1B",
        "1.5G",
        "0x10",
        "8388608T",
        "16777217T",
        "18014398509481985K",
        "9007199254740992K",
        "9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "99999999999999999999T",
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++) {
        assert_refused_value(AM_OPTION_memory, "memory", wrong[i]);
        assert_contains(room.why, "64G");
    }
}

static void a_flag_is_1_or_0(void **state)
{
    static const char *const wrong[] = {"", "2", "01", "true", "yes", "-1", "0 "};

    assert_taken(AM_OPTION_isolate, "isolate", "0", 0);
    assert_taken(AM_OPTION_isolate, "isolate", "1", 1);
    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++) {
        assert_refused_value(AM_OPTION_isolate, "isolate", wrong[i]);
        assert_contains(room.why, "1 or 0");
    }
}

static void text_may_have_127_characters(void **state)
{
    char text[129];

    memset(text, 'x', sizeof text);
    text[127] = '\0';
    assert_taken(AM_OPTION_layers, "layers", text, 1); /* there is one */
    assert_taken(AM_OPTION_layers, "layers", "", 0);
    text[127] = 'x';
    text[128] = '\0';
    assert_refused_value(AM_OPTION_layers, "layers", text);
    assert_contains(room.why, "fewer than 128");
}

/*
 * Values come from outside; the reason shows their beginning and stays within its room.
 */
static void a_very_long_value_is_refused_by_every_type(void **state)
{
    static char text[100000];
    static const char *const ids[] = {
#define AM_OPTION(id_, type_, default_, choices_, help_) #id_,
#include "base/options.def"
#undef AM_OPTION
    };

    memset(text, '1', sizeof text - 1);
    for (int i = 0; i < AM_OPTION_COUNT; i++) {
        assert_refused_value((enum am_option)i, ids[i], text);
        assert_true(strlen(room.why) < 300);
    }
}

static void an_unknown_option_is_refused_with_the_nearest(void **state)
{
    static const struct {
        const char *id;
        const char *nearest;
    } wrong[] = {
        {"rule", "\"rules\""},       {"rulse", "\"rules\""},  {"DEVICE", "\"devices\""},
        {"memroy", "\"memory\""},    {"comit", "\"commit\""}, {"isolated", "\"isolate\""},
        {"products", "\"product\""},
    };
    static char text[100000];

    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++) {
        assert_int_equal(am_options_set(wrong[i].id, "1", room.why), -ENOENT);
        assert_contains(room.why, wrong[i].id);
        assert_contains(room.why, wrong[i].nearest);
    }
    memset(text, 'x', sizeof text - 1);
    assert_int_equal(am_options_set(text, "1", room.why), -ENOENT);
    assert_null(strstr(room.why, "did you mean"));
    assert_int_equal(am_options_set("", "1", room.why), -ENOENT);
}

static void the_environment_wins_over_the_file_and_the_file_over_the_default(void **state)
{
    setenv("ACLMEM_DEVICES", "5", 1);
    assert_int_equal(am_options_set("devices", "3", room.why), 0);
    assert_int_equal(am_options_set("rules", "strict", room.why), 0);
    assert_int_equal(am_options_read_environment(room.why), 0);
    assert_int_equal(am_option_number(AM_OPTION_devices), 5);
    assert_int_equal(am_option_number(AM_OPTION_rules), 1);
    assert_int_equal(am_option_number(AM_OPTION_isolate), 1);

    am_options_reset();
    assert_int_equal(am_option_number(AM_OPTION_devices), 2);
    assert_int_equal(am_option_number(AM_OPTION_rules), 0);
    assert_false(am_option_is_set(AM_OPTION_devices));
}

static void an_old_name_counts_where_the_new_one_is_not_set(void **state)
{
    setenv("ACLMEM_PATIENCE", "7", 1);
    assert_int_equal(am_options_read_environment(room.why), 0);
    assert_int_equal(am_option_number(AM_OPTION_stall_timeout), 7);
    am_options_reset();
    setenv("ACLMEM_STALL_TIMEOUT", "9", 1);
    assert_int_equal(am_options_read_environment(room.why), 0);
    assert_int_equal(am_option_number(AM_OPTION_stall_timeout), 9);
    unsetenv("ACLMEM_PATIENCE");
    unsetenv("ACLMEM_STALL_TIMEOUT");
}

static void a_wrong_variable_is_named_in_full(void **state)
{
    setenv("ACLMEM_RULES", "lax", 1);
    assert_int_equal(am_options_read_environment(room.why), -EINVAL);
    assert_contains(room.why, "ACLMEM_RULES");
    assert_contains(room.why, "\"lax\"");
    assert_contains(room.why, "default|strict");
}

static void the_walk_gives_each_unknown_variable_once_with_the_nearest(void **state)
{
    static const char *const names[] = {"ACLMEM_RULSE", "ACLMEM_MEMROY", "ACLMEM_"};
    static const char *const nearest[] = {"ACLMEM_RULES", "ACLMEM_MEMORY", "ACLMEM_LOG"};
    int seen[3] = {0};
    const char *name;
    const char *near;
    size_t pos = 0;

    setenv("ACLMEM_RULES", "strict", 1);
    setenv("aclmem_rules", "strict", 1);
    setenv("XACLMEM_RULES", "strict", 1);
    for (size_t i = 0; i < AM_ARRAY_SIZE(names); i++)
        setenv(names[i], "1", 1);
    while ((name = am_options_next_unknown(&pos, &near)) != NULL) {
        size_t i = 0;

        while (i < AM_ARRAY_SIZE(names) && strcmp(name, names[i]) != 0)
            i++;
        if (i == AM_ARRAY_SIZE(names))
            fail_msg("%s is not unknown", name);
        assert_string_equal(near, nearest[i]);
        seen[i]++;
    }
    for (size_t i = 0; i < AM_ARRAY_SIZE(names); i++) {
        assert_int_equal(seen[i], 1);
        unsetenv(names[i]);
    }
    unsetenv("aclmem_rules");
    unsetenv("XACLMEM_RULES");
}

static void a_name_longer_than_any_option_is_named_by_its_beginning(void **state)
{
    char name[1000] = "ACLMEM_RULES";
    const char *near;
    const char *found;
    size_t pos = 0;

    memset(name + 12, 'X', sizeof name - 13);
    setenv(name, "1", 1);
    found = am_options_next_unknown(&pos, &near);
    unsetenv(name);
    assert_non_null(found);
    assert_int_equal(strncmp(found, name, strlen(found)), 0);
    assert_true(strlen(found) > 32);
}

static void a_variable_of_the_python_module_is_not_unknown(void **state)
{
    const char *near;
    size_t pos = 0;

    setenv("ACLMEM_TORCH_LIBRARY", "/x/libaclmem_torch.so", 1);
    assert_null(am_options_next_unknown(&pos, &near));
    unsetenv("ACLMEM_TORCH_LIBRARY");
}

static void a_text_stays_valid_when_the_options_change(void **state)
{
    const char *before;

    assert_int_equal(am_options_set("layers", "check", room.why), 0);
    before = am_option_give("ACLMEM_LAYERS");
    assert_int_equal(am_options_set("layers", "trace", room.why), 0);
    am_options_reset();
    assert_string_equal(before, "check");
    assert_int_equal(am_options_set("layers", "check", room.why), 0);
    assert_ptr_equal(am_option_give("ACLMEM_LAYERS"), before); /* one copy of each */
}

static void a_value_is_found_by_the_full_name_only(void **state)
{
    assert_int_equal(am_options_set("rules", "strict", room.why), 0);
    assert_string_equal(am_option_give("ACLMEM_RULES"), "strict");
    assert_string_equal(am_option_give("ACLMEM_MEMORY"), "");
    assert_null(am_option_give("rules"));
    assert_null(am_option_give("ACLMEM_rules"));
    assert_null(am_option_give("ACLMEM_"));
    assert_null(am_option_give(""));
}

static void the_nearest_word_is_the_one_with_the_fewest_edits(void **state)
{
    static const char *const known[] = {"trace", "check", "count"};
    char longer[64];

    assert_string_equal(am_nearest("chekc", known, 3), "check");
    assert_string_equal(am_nearest("TRACES", known, 3), "trace");
    assert_string_equal(am_nearest("ount", known, 3), "count");
    assert_null(am_nearest("", known, 3)); /* none is near */
    assert_null(am_nearest("sanitize", known, 3));
    memset(longer, 'c', sizeof longer - 1);
    longer[63] = '\0';
    assert_null(am_nearest(longer, known, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define from_defaults(f_) cmocka_unit_test_setup_teardown(f_, reset, reset_after)
        from_defaults(every_option_begins_with_its_default),
        from_defaults(a_choice_is_its_place_in_the_list_in_any_case),
        from_defaults(a_word_that_is_no_choice_is_refused_with_the_list),
        from_defaults(a_count_lies_within_its_limits),
        from_defaults(a_size_is_bytes_or_has_a_unit),
        from_defaults(what_is_no_size_or_too_large_is_refused),
        from_defaults(a_flag_is_1_or_0),
        from_defaults(text_may_have_127_characters),
        from_defaults(a_very_long_value_is_refused_by_every_type),
        from_defaults(an_unknown_option_is_refused_with_the_nearest),
        from_defaults(the_environment_wins_over_the_file_and_the_file_over_the_default),
        from_defaults(an_old_name_counts_where_the_new_one_is_not_set),
        from_defaults(a_wrong_variable_is_named_in_full),
        from_defaults(the_walk_gives_each_unknown_variable_once_with_the_nearest),
        from_defaults(a_name_longer_than_any_option_is_named_by_its_beginning),
        from_defaults(a_variable_of_the_python_module_is_not_unknown),
        from_defaults(a_text_stays_valid_when_the_options_change),
        from_defaults(a_value_is_found_by_the_full_name_only),
        from_defaults(the_nearest_word_is_the_one_with_the_fewest_edits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
