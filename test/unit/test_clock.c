/* Patience, at times that the test says. */
#include "unit.h"

#include "base/clock.h"

#define START (1000 * AM_SECOND)
#define MOST (AM_SECOND / 10)

static void a_timeout_expires_after_its_time(void **state)
{
    struct am_timeout timeout = {.left = AM_SECOND, .checked = START};
    uint64_t now = START;

    assert_true(am_timeout_check(&timeout, now, MOST));
    while (am_timeout_check(&timeout, ++now, MOST))
        now += 7 * AM_MILLISECOND;
    assert_in_range(now, START + AM_SECOND, START + AM_SECOND + 8 * AM_MILLISECOND);
}

static void a_thread_that_stood_still_has_waited_for_one_look(void **state)
{
    struct am_timeout timeout = {.left = AM_SECOND, .checked = START};
    uint64_t now = START;

    for (int n = 1; n < 10; n++)
        assert_true(am_timeout_check(&timeout, now += 60 * AM_SECOND, MOST));
    assert_true(am_timeout_check(&timeout, now += MOST - 1, MOST));
    assert_false(am_timeout_check(&timeout, now + 1, MOST));
}

static void an_expired_timeout_stays_expired(void **state)
{
    struct am_timeout timeout = {.left = AM_MILLISECOND, .checked = START};

    assert_false(am_timeout_check(&timeout, START + AM_SECOND, MOST));
    assert_false(am_timeout_check(&timeout, START + AM_SECOND, MOST));
    assert_false(am_timeout_check(&timeout, START + 2 * AM_SECOND, MOST));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timeout_expires_after_its_time),
        cmocka_unit_test(a_thread_that_stood_still_has_waited_for_one_look),
        cmocka_unit_test(an_expired_timeout_stays_expired),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
