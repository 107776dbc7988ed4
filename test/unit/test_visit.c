/* The importer's connections: which come, which go, and how many there are. */
#include "unit.h"

#include <string.h>

#include "fabric/visit.h"

#define IDLE 1000
#define LEASE 30000
#define N 8

static struct am_visits visits;
static struct am_visit some[N];
static int n_come, n_go;
static struct am_visit *last_gone;

static void note_come(struct am_visit *visit)
{
    n_come++;
}

static void note_go(struct am_visit *visit)
{
    n_go++;
    last_gone = visit;
}

static void begin(size_t limit)
{
    n_come = n_go = 0;
    last_gone = NULL;
    am_visits_init(&visits, limit, IDLE, 1);
    visits.come = note_come;
    visits.go = note_go;
    for (int i = 0; i < N; i++)
        am_visits_add(&visits, &some[i]);
}

static void come(int i, uint64_t now)
{
    am_visit_want(&visits, &some[i], now);
    am_visits_step(&visits, now);
    assert_int_equal(some[i].state, AM_VISIT_COMING);
    am_visit_here(&visits, &some[i], LEASE, now);
    am_visits_step(&visits, now);
    assert_true(am_visit_is_open(&some[i]));
}

static void the_least_used_one_makes_room(void **state)
{
    begin(2);
    come(0, 1);
    come(1, 2);
    am_visit_work(&visits, &some[0], 3);
    am_visit_done(&visits, &some[0], 3);
    am_visit_want(&visits, &some[2], 4);
    am_visits_step(&visits, 4);
    assert_ptr_equal(last_gone, &some[1]);
    assert_int_equal(some[2].state, AM_VISIT_WAITING);
    assert_int_equal(n_come, 2);
    assert_true(am_visit_closed(&visits, &some[1], 5));
    am_visits_step(&visits, 5);
    assert_int_equal(some[2].state, AM_VISIT_COMING);
    assert_int_equal(visits.seats.n, 2);
}

static void work_under_way_is_finished_before_it_goes(void **state)
{
    begin(1);
    come(0, 1);
    am_visit_work(&visits, &some[0], 2);
    am_visit_want(&visits, &some[1], 3);
    am_visits_step(&visits, 3);
    assert_int_equal(n_go, 0);
    assert_false(am_visit_is_open(&some[0])); /* and no new work begins */
    am_visit_want(&visits, &some[0], 4);
    am_visit_done(&visits, &some[0], 5);
    am_visits_step(&visits, 5);
    assert_int_equal(n_go, 1);
    assert_true(am_visit_closed(&visits, &some[0], 6));
    am_visits_step(&visits, 6);
    assert_int_equal(some[1].state, AM_VISIT_COMING);
    assert_int_equal(some[0].state,
                     AM_VISIT_WAITING); /* its work is behind the other's */
    am_visit_work(&visits, &some[1], 7);
    am_visit_here(&visits, &some[1], LEASE, 7);
    am_visits_step(&visits, 7);
    assert_int_equal(n_go, 1); /* what it came for is done first */
    am_visit_done(&visits, &some[1], 8);
    am_visits_step(&visits, 8);
    assert_ptr_equal(last_gone, &some[1]);
}

static void an_idle_one_goes_and_shows_itself_before_its_lease_ends(void **state)
{
    begin(4);
    come(0, 0);
    assert_int_equal(am_visits_next(&visits), IDLE);
    am_visits_step(&visits, IDLE);
    assert_int_equal(n_go, 1);
    assert_true(am_visit_closed(&visits, &some[0], IDLE));
    assert_in_range(some[0].due, IDLE + LEASE / 3, IDLE + 2 * LEASE / 3);
    am_visits_step(&visits, some[0].due - 1);
    assert_int_equal(n_come, 1);
    am_visits_step(&visits, some[0].due);
    assert_int_equal(n_come, 2);
    am_visit_here(&visits, &some[0], LEASE, 20000);
    am_visits_step(&visits, 20000);
    assert_int_equal(n_go, 2); /* at once: it had no work */
}

static void one_that_works_is_not_idle(void **state)
{
    begin(4);
    come(0, 0);
    am_visit_work(&visits, &some[0], 1);
    am_visits_step(&visits, 10 * IDLE);
    assert_int_equal(n_go, 0);
    am_visit_done(&visits, &some[0], 10 * IDLE);
    am_visits_step(&visits, 11 * IDLE);
    assert_int_equal(n_go, 1);
}

static void the_exporter_may_ask_for_the_connection(void **state)
{
    begin(4);
    come(0, 0);
    am_visit_ask(&visits, &some[0]);
    am_visit_ask(&visits, &some[0]);
    am_visits_step(&visits, 1);
    assert_int_equal(n_go, 1);
    /* The connection broke by itself: that is no leave. */
    come(1, 2);
    assert_false(am_visit_closed(&visits, &some[1], 3));
    am_visit_end(&visits, &some[1]);
    assert_int_equal(visits.seats.n, 1);
    am_visit_end(&visits, &some[0]);
    assert_int_equal(visits.seats.n, 0);
    assert_int_equal(visits.seats.n_leaving, 0);
}

static void one_that_cannot_come_is_late_in_the_end(void **state)
{
    begin(1);
    am_visit_want(&visits, &some[0], 10);
    am_visits_step(&visits, 10);
    am_visit_retry(&visits, &some[0], 20);
    assert_int_equal(visits.seats.n, 0);
    am_visits_step(&visits, 19);
    assert_int_equal(n_come, 1);
    am_visits_step(&visits, 20);
    assert_int_equal(n_come, 2);
    assert_false(am_visit_is_late(&some[0], 109, 100));
    assert_true(am_visit_is_late(&some[0], 110, 100)); /* since it was wanted first */
    am_visit_end(&visits, &some[0]);
    assert_false(am_visit_is_late(&some[0], 1000, 100));
}

/* Every visit has work again and again, and there are too few seats. */
static void each_one_has_its_turn(void **state)
{
    int n_turns[N] = {0};
    uint64_t now = 0;

    begin(2);
    for (int i = 0; i < N; i++)
        am_visit_want(&visits, &some[i], now);
    for (int round = 0; round < 400; round++) {
        am_visits_step(&visits, ++now);
        assert_true(visits.seats.n <= 2);
        for (int i = 0; i < N; i++) {
            if (some[i].state == AM_VISIT_GOING) {
                assert_true(am_visit_closed(&visits, &some[i], now));
            } else if (some[i].state == AM_VISIT_COMING) {
                am_visit_here(&visits, &some[i], LEASE, now);
                am_visit_work(&visits, &some[i], now);
                n_turns[i]++;
            } else if (some[i].state == AM_VISIT_HERE && some[i].n_busy > 0) {
                am_visit_done(&visits, &some[i], now);
                am_visit_want(&visits, &some[i], now);
            }
        }
    }
    for (int i = 0; i < N; i++)
        assert_true(n_turns[i] >= 10 && n_turns[i] - n_turns[0] <= 1 &&
                    n_turns[0] - n_turns[i] <= 1);
}

/* At the exporter: connections that have not proved the key, and guests. */
static void honest_newcomers_do_not_push_each_other_out(void **state)
{
    static struct am_seat newcomers[AM_DOOR_SHAKING + 1],
        guest_seats[2 + AM_DOOR_LEAVING];
    struct am_seats shaking, guests;

    am_seats_init(&shaking, AM_DOOR_SHAKING);
    am_seats_init(&guests, 2);
    for (int i = 0; i < AM_DOOR_SHAKING; i++) {
        assert_int_equal(am_seats_door(&shaking, &guests, 5), AM_DOOR_OPEN);
        am_seats_take(&shaking, &newcomers[i], 5);
    }
    assert_int_equal(am_seats_door(&shaking, &guests, 6), AM_DOOR_SHUT);
    /* One that does not prove the key keeps others out for a moment only. */
    assert_int_equal(am_seats_door(&shaking, &guests, 5 + AM_DOOR_NS), AM_DOOR_FULL);
    am_seats_leave(&shaking, am_seats_least(&shaking));
    am_seats_take(&shaking, &newcomers[AM_DOOR_SHAKING], 5 + AM_DOOR_NS);
    am_seats_give(&shaking, &newcomers[0]);
    assert_int_equal(shaking.n, AM_DOOR_SHAKING);
    assert_int_equal(shaking.n_leaving, 0);
    am_seats_give(&shaking, &newcomers[1]);
    assert_int_equal(am_seats_door(&shaking, &guests, 6), AM_DOOR_OPEN);
    for (int i = 0; i < 2 + AM_DOOR_LEAVING; i++)
        am_seats_take(&guests, &guest_seats[i], 6);
    assert_int_equal(am_seats_door(&shaking, &guests, 5 + 2 * AM_DOOR_NS), AM_DOOR_SHUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_used_one_makes_room),
        cmocka_unit_test(work_under_way_is_finished_before_it_goes),
        cmocka_unit_test(an_idle_one_goes_and_shows_itself_before_its_lease_ends),
        cmocka_unit_test(one_that_works_is_not_idle),
        cmocka_unit_test(the_exporter_may_ask_for_the_connection),
        cmocka_unit_test(one_that_cannot_come_is_late_in_the_end),
        cmocka_unit_test(each_one_has_its_turn),
        cmocka_unit_test(honest_newcomers_do_not_push_each_other_out),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
