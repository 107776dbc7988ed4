/* The heads of messages: MAC, number and replay window. */
#include "unit.h"

#include <string.h>

#include "fabric/message.h"

static struct am_session importer, exporter;

static int begin(void **state)
{
    importer = exporter = (struct am_session){.token = {7}};
    memset(importer.out_key, 1, sizeof importer.out_key);
    memset(importer.in_key, 2, sizeof importer.in_key);
    memcpy(exporter.in_key, importer.out_key, sizeof importer.out_key);
    memcpy(exporter.out_key, importer.in_key, sizeof importer.in_key);
    return 0;
}

static struct am_message sealed(void)
{
    struct am_message message = {
        .kind = AM_MESSAGE_PUT, .grant = 3, .offset = 100, .size = 5};

    am_message_seal(&importer, &message);
    return message;
}

static void the_receiver_accepts_each_message_once(void **state)
{
    for (uint64_t i = 1; i <= 100; i++) {
        struct am_message message = sealed();

        assert_int_equal(message.number, i);
        assert_true(am_message_open(&exporter, &message, 5));
        assert_false(am_message_open(&exporter, &message, 5));
        assert_int_equal(exporter.n_received, i);
    }
}

/* Every bit of the head, and the number of bytes behind it. */
static void a_changed_head_is_invalid(void **state)
{
    struct am_message message = sealed();

    for (size_t bit = 0; bit < 8 * sizeof message; bit++) {
        struct am_message changed = message;

        ((uint8_t *)&changed)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        assert_false(am_message_open(&exporter, &changed, changed.size));
    }
    assert_false(am_message_open(&exporter, &message, 4));
    assert_false(am_message_open(&exporter, &message, 6));
    assert_true(am_message_open(&exporter, &message, 5));
}

/* A message that is sent back to its sender has the wrong key. */
static void a_message_is_valid_in_one_direction(void **state)
{
    struct am_message message = sealed();

    assert_false(am_message_open(&importer, &message, 5));
}

static void messages_may_overtake_each_other_by_63(void **state)
{
    struct am_message message[66];

    for (int i = 1; i <= 65; i++)
        message[i] = sealed();
    assert_true(am_message_open(&exporter, &message[65], 5));
    assert_false(am_message_open(&exporter, &message[1], 5)); /* too old to know */
    for (int i = 64; i >= 2; i--)
        assert_true(am_message_open(&exporter, &message[i], 5));
    for (int i = 2; i <= 65; i++)
        assert_false(am_message_open(&exporter, &message[i], 5));
    assert_int_equal(exporter.n_received, 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define afresh(f_) cmocka_unit_test_setup(f_, begin)
        afresh(the_receiver_accepts_each_message_once),
        afresh(a_changed_head_is_invalid),
        afresh(a_message_is_valid_in_one_direction),
        afresh(messages_may_overtake_each_other_by_63),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
