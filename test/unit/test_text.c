/* Text from outside, as it is shown. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "base/util.h"

static const char *cleaned(const char *text)
{
    static char room[64];

    snprintf(room, sizeof room, "%s", text);
    am_text_clean(room);
    return room;
}

static void printable_text_stays_as_it_is(void **state)
{
    static const char *const texts[] = {
        "",
        "host",
        " ~!\"%s\\?",
        "\xc3\xa9t\xc3\xa9",        /* two bytes a letter */
        "\xe6\x98\x87\xe8\x85\xbe", /* three */
        "\xf0\x9f\x98\x80",         /* four */
        "\xc2\xa0\xf4\x8f\xbf\xbf", /* the first and the last */
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(texts); i++)
        assert_string_equal(cleaned(texts[i]), texts[i]);
}

static void what_plays_with_a_terminal_is_marked(void **state)
{
    static const char *const rows[][2] = {
        {"\33[2J", "?[2J"},          {"a\nb\rc\td\be\7f\177g", "a?b?c?d?e?f?g"},
        {"\302\23331m", "??31m"},    /* one control character that begins a sequence */
        {"a\342\200\256b", "a???b"}, /* from right to left from here on */
        {"a\342\201\246b", "a???b"},
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(rows); i++)
        assert_string_equal(cleaned(rows[i][0]), rows[i][1]);
}

static void bytes_that_are_no_characters_are_marked(void **state)
{
    static const char *const rows[][2] = {
        {"\xff\xfe", "??"},
        {"\x80 \xbf", "? ?"},
        {"\xc0\xaf", "??"}, /* a slash in two bytes */
        {"\xe0\x80\xaf", "???"},
        {"\xf0\x80\x80\xaf", "????"},
        {"\xed\xa0\x80", "???"},      /* half of a pair */
        {"\xf4\x90\x80\x80", "????"}, /* above the last one */
        {"\xf8\x88\x80\x80\x80", "?????"},
        {"\xe6\x98", "??"}, /* cut off */
        {"\xe6\x98z", "??z"},
        {"\xf0\x9f\x98", "???"},
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(rows); i++)
        assert_string_equal(cleaned(rows[i][0]), rows[i][1]);
}

static void a_copy_ends_where_the_text_or_the_room_does(void **state)
{
    char room[6];

    memset(room, 'x', sizeof room);
    assert_string_equal(am_text_copy(room, sizeof room, "ab\0cd", 5), "ab");
    assert_string_equal(am_text_copy(room, sizeof room, "abcdefgh", 3), "abc");
    assert_string_equal(am_text_copy(room, sizeof room, "abcdefgh", 8), "abcde");
    assert_string_equal(am_text_copy(room, sizeof room, "abc\xe6\x98\x87", 6), "abc??");
    assert_string_equal(am_text_copy(room, sizeof room, "", 0), "");
}

/* Wherever the bytes come from, a message has none of them. */
static void messages_are_clean(void **state)
{
    (void)am_fail(100000, "\"%.4s\" is wrong", "\33[A\nrest");
    assert_contains(am_error_take_messages(), "\"?[A?\" is wrong");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(printable_text_stays_as_it_is),
        cmocka_unit_test(what_plays_with_a_terminal_is_marked),
        cmocka_unit_test(bytes_that_are_no_characters_are_marked),
        cmocka_unit_test(a_copy_ends_where_the_text_or_the_room_does),
        cmocka_unit_test(messages_are_clean),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
