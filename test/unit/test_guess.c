/* How often another user may ask for what it may not have. */
#include "unit.h"

#include "base/clock.h"
#include "base/util.h"
#include "core/exchange/guess.h"

#define BEGIN (1000 * AM_SECOND)

/* How many wrong requests are looked at, of so many at this time. */
static int looked_at(struct am_guesses *guesses, uid_t uid, uint64_t now, int n_asked)
{
    int n = 0;

    for (int i = 0; i < n_asked; i++) {
        if (!am_guess_may(guesses, uid, now))
            continue;
        am_guess_was_wrong(guesses, uid, now);
        n++;
    }
    return n;
}

static void a_few_wrong_ones_are_answered_at_once(void **state)
{
    struct am_guesses guesses = {0};

    assert_int_equal(looked_at(&guesses, 7, BEGIN, 100000), AM_GUESS_MOST);
}

static void then_one_a_second_is(void **state)
{
    struct am_guesses guesses = {0};
    int n = looked_at(&guesses, 7, BEGIN, 100);

    for (uint64_t ms = 1; ms <= 60000; ms++)
        n += looked_at(&guesses, 7, BEGIN + ms * AM_MILLISECOND, 10);
    assert_int_equal(n, AM_GUESS_MOST + 60);
}

static void time_without_guesses_is_not_saved_up(void **state)
{
    struct am_guesses guesses = {0};

    looked_at(&guesses, 7, BEGIN, 100);
    assert_int_equal(looked_at(&guesses, 7, BEGIN + 86400 * AM_SECOND, 100),
                     AM_GUESS_MOST);
}

static void right_ones_cost_nothing(void **state)
{
    struct am_guesses guesses = {0};

    for (int i = 0; i < 100000; i++)
        assert_true(am_guess_may(&guesses, 7, BEGIN));
}

static void one_user_does_not_slow_another_down(void **state)
{
    struct am_guesses guesses = {0};

    looked_at(&guesses, 1000, BEGIN, 100);
    assert_false(am_guess_may(&guesses, 1000, BEGIN));
    assert_true(am_guess_may(&guesses, 1001, BEGIN));
    assert_true(am_guess_may(&guesses, 65534, BEGIN));
}

static void many_users_together_are_slow_too(void **state)
{
    struct am_guesses guesses = {0};
    int n = 0;

    for (uid_t uid = 100000; uid < 165536; uid++)
        n += looked_at(&guesses, uid, BEGIN, 10);
    assert_int_equal(n, AM_GUESS_GROUPS * AM_GUESS_MOST);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_few_wrong_ones_are_answered_at_once),
        cmocka_unit_test(then_one_a_second_is),
        cmocka_unit_test(time_without_guesses_is_not_saved_up),
        cmocka_unit_test(right_ones_cost_nothing),
        cmocka_unit_test(one_user_does_not_slow_another_down),
        cmocka_unit_test(many_users_together_are_slow_too),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
