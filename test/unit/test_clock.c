/* Patience, at times that the test says. */
#include "unit.h"

#include "base/clock.h"

#define START (1000 * AM_SECOND)
#define MOST (AM_SECOND / 10)

static void patience_lasts_as_long_as_it_was_given(void **state)
{
    struct am_patience patience = {.left = AM_SECOND, .looked = START};
    uint64_t now = START;

    assert_true(am_patience_look(&patience, now, MOST));
    while (am_patience_look(&patience, ++now, MOST))
        now += 7 * AM_MILLISECOND;
    assert_in_range(now, START + AM_SECOND, START + AM_SECOND + 8 * AM_MILLISECOND);
}

static void a_thread_that_stood_still_has_waited_for_one_look(void **state)
{
    struct am_patience patience = {.left = AM_SECOND, .looked = START};
    uint64_t now = START;

    for (int n = 1; n < 10; n++)
        assert_true(am_patience_look(&patience, now += 60 * AM_SECOND, MOST));
    assert_true(am_patience_look(&patience, now += MOST - 1, MOST));
    assert_false(am_patience_look(&patience, now + 1, MOST));
}

static void spent_patience_does_not_come_back(void **state)
{
    struct am_patience patience = {.left = AM_MILLISECOND, .looked = START};

    assert_false(am_patience_look(&patience, START + AM_SECOND, MOST));
    assert_false(am_patience_look(&patience, START + AM_SECOND, MOST));
    assert_false(am_patience_look(&patience, START + 2 * AM_SECOND, MOST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patience_lasts_as_long_as_it_was_given),
        cmocka_unit_test(a_thread_that_stood_still_has_waited_for_one_look),
        cmocka_unit_test(spent_patience_does_not_come_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
