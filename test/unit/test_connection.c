/* Importer connections: when they are opened and closed, and their limit. */
#include "unit.h"

#include <string.h>

#include "fabric/connection.h"

#define IDLE 1000
#define LEASE 30000
#define N 8

static struct am_conns connections;
static struct am_conn some[N];
static int n_opened, n_closed;
static struct am_conn *last_closed;

static void note_open(struct am_conn *connection)
{
    n_opened++;
}

static void note_close(struct am_conn *connection)
{
    n_closed++;
    last_closed = connection;
}

static void begin(size_t limit)
{
    n_opened = n_closed = 0;
    last_closed = NULL;
    am_conns_init(&connections, limit, IDLE, 1);
    connections.open = note_open;
    connections.close = note_close;
    for (int i = 0; i < N; i++)
        am_conns_add(&connections, &some[i]);
}

static void open_now(int i, uint64_t now)
{
    am_conn_request(&some[i], now);
    am_conns_step(&connections, now);
    assert_int_equal(some[i].state, AM_CONN_OPENING);
    am_conn_opened(&some[i], LEASE, now);
    am_conns_step(&connections, now);
    assert_true(am_conn_is_open(&some[i]));
}

static void the_least_recently_used_connection_is_closed(void **state)
{
    begin(2);
    open_now(0, 1);
    open_now(1, 2);
    am_conn_work_begin(&some[0], 3);
    am_conn_work_end(&some[0], 3);
    am_conn_request(&some[2], 4);
    am_conns_step(&connections, 4);
    assert_ptr_equal(last_closed, &some[1]);
    assert_int_equal(some[2].state, AM_CONN_WAITING);
    assert_int_equal(n_opened, 2);
    assert_true(am_conn_closed(&some[1], 5));
    am_conns_step(&connections, 5);
    assert_int_equal(some[2].state, AM_CONN_OPENING);
    assert_int_equal(connections.slots.n, 2);
}

static void work_in_progress_completes_before_the_close(void **state)
{
    begin(1);
    open_now(0, 1);
    am_conn_work_begin(&some[0], 2);
    am_conn_request(&some[1], 3);
    am_conns_step(&connections, 3);
    assert_int_equal(n_closed, 0);
    assert_false(am_conn_is_open(&some[0])); /* and no new work begins */
    am_conn_request(&some[0], 4);
    am_conn_work_end(&some[0], 5);
    am_conns_step(&connections, 5);
    assert_int_equal(n_closed, 1);
    assert_true(am_conn_closed(&some[0], 6));
    am_conns_step(&connections, 6);
    assert_int_equal(some[1].state, AM_CONN_OPENING);
    assert_int_equal(some[0].state, AM_CONN_WAITING); /* its work is behind the other's */
    am_conn_work_begin(&some[1], 7);
    am_conn_opened(&some[1], LEASE, 7);
    am_conns_step(&connections, 7);
    assert_int_equal(n_closed, 1); /* what it came for is done first */
    am_conn_work_end(&some[1], 8);
    am_conns_step(&connections, 8);
    assert_ptr_equal(last_closed, &some[1]);
}

static void an_idle_connection_is_closed_and_renews_its_lease(void **state)
{
    begin(4);
    open_now(0, 0);
    am_conns_step(&connections, IDLE);
    assert_int_equal(n_closed, 1);
    assert_true(am_conn_closed(&some[0], IDLE));
    assert_in_range(some[0].due, IDLE + LEASE / 3, IDLE + 2 * LEASE / 3);
    am_conns_step(&connections, some[0].due - 1);
    assert_int_equal(n_opened, 1);
    am_conns_step(&connections, some[0].due);
    assert_int_equal(n_opened, 2);
    am_conn_opened(&some[0], LEASE, 20000);
    am_conns_step(&connections, 20000);
    assert_int_equal(n_closed, 2); /* at once: it had no work */
}

static void a_busy_connection_is_not_idle(void **state)
{
    begin(4);
    open_now(0, 0);
    am_conn_work_begin(&some[0], 1);
    am_conns_step(&connections, 10 * IDLE);
    assert_int_equal(n_closed, 0);
    am_conn_work_end(&some[0], 10 * IDLE);
    am_conns_step(&connections, 11 * IDLE);
    assert_int_equal(n_closed, 1);
}

static void the_exporter_can_request_the_close(void **state)
{
    begin(4);
    open_now(0, 0);
    am_conn_drain(&some[0]);
    am_conn_drain(&some[0]);
    am_conns_step(&connections, 1);
    assert_int_equal(n_closed, 1);
    /* The connection broke by itself: that is no leave. */
    open_now(1, 2);
    assert_false(am_conn_closed(&some[1], 3));
    am_conn_fail(&some[1]);
    assert_int_equal(connections.slots.n, 1);
    am_conn_fail(&some[0]);
    assert_int_equal(connections.slots.n, 0);
    assert_int_equal(connections.slots.n_draining, 0);
}

static void a_connection_that_is_not_opened_becomes_late(void **state)
{
    begin(1);
    am_conn_request(&some[0], 10);
    am_conns_step(&connections, 10);
    am_conn_retry(&some[0], 20);
    assert_int_equal(connections.slots.n, 0);
    am_conns_step(&connections, 19);
    assert_int_equal(n_opened, 1);
    am_conns_step(&connections, 20);
    assert_int_equal(n_opened, 2);
    assert_false(am_conn_is_late(&some[0], 109, 100));
    assert_true(am_conn_is_late(&some[0], 110, 100)); /* since it was wanted first */
    am_conn_fail(&some[0]);
    assert_false(am_conn_is_late(&some[0], 1000, 100));
}

/* Every connection has work again and again, and there are too few slots. */
static void waiting_connections_are_opened_in_order(void **state)
{
    int n_turns[N] = {0};
    uint64_t now = 0;

    begin(2);
    for (int i = 0; i < N; i++)
        am_conn_request(&some[i], now);
    for (int round = 0; round < 400; round++) {
        am_conns_step(&connections, ++now);
        assert_true(connections.slots.n <= 2);
        for (int i = 0; i < N; i++) {
            if (some[i].state == AM_CONN_CLOSING) {
                assert_true(am_conn_closed(&some[i], now));
            } else if (some[i].state == AM_CONN_OPENING) {
                am_conn_opened(&some[i], LEASE, now);
                am_conn_work_begin(&some[i], now);
                n_turns[i]++;
            } else if (some[i].state == AM_CONN_OPEN && some[i].n_busy > 0) {
                am_conn_work_end(&some[i], now);
                am_conn_request(&some[i], now);
            }
        }
    }
    for (int i = 0; i < N; i++)
        assert_true(n_turns[i] >= 10 && n_turns[i] - n_turns[0] <= 1 &&
                    n_turns[0] - n_turns[i] <= 1);
}

/* At the exporter: connections that have not proved the key, and importers. */
static void new_handshakes_do_not_evict_each_other_at_once(void **state)
{
    static struct am_conn_slot newcomers[AM_HANDSHAKES_MAX + 1],
        importer_slots[2 + AM_DRAINING_MAX];
    struct am_conn_slots handshakes, importers;

    am_conn_slots_init(&handshakes, AM_HANDSHAKES_MAX);
    am_conn_slots_init(&importers, 2);
    for (int i = 0; i < AM_HANDSHAKES_MAX; i++) {
        assert_int_equal(am_conn_admission(&handshakes, &importers, 5),
                         AM_ADMISSION_OPEN);
        am_conn_slot_acquire(&newcomers[i], &handshakes, 5);
    }
    assert_int_equal(am_conn_admission(&handshakes, &importers, 6), AM_ADMISSION_PAUSED);
    /* One that does not prove the key keeps others out for a moment only. */
    assert_int_equal(am_conn_admission(&handshakes, &importers, 5 + AM_HANDSHAKE_MIN_NS),
                     AM_ADMISSION_EVICT);
    am_conn_slot_drain(am_conn_slots_lru(&handshakes));
    am_conn_slot_acquire(&newcomers[AM_HANDSHAKES_MAX], &handshakes,
                         5 + AM_HANDSHAKE_MIN_NS);
    am_conn_slot_release(&newcomers[0]);
    assert_int_equal(handshakes.n, AM_HANDSHAKES_MAX);
    assert_int_equal(handshakes.n_draining, 0);
    am_conn_slot_release(&newcomers[1]);
    assert_int_equal(am_conn_admission(&handshakes, &importers, 6), AM_ADMISSION_OPEN);
    for (int i = 0; i < 2 + AM_DRAINING_MAX; i++)
        am_conn_slot_acquire(&importer_slots[i], &importers, 6);
    assert_int_equal(
        am_conn_admission(&handshakes, &importers, 5 + 2 * AM_HANDSHAKE_MIN_NS),
        AM_ADMISSION_PAUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_recently_used_connection_is_closed),
        cmocka_unit_test(work_in_progress_completes_before_the_close),
        cmocka_unit_test(an_idle_connection_is_closed_and_renews_its_lease),
        cmocka_unit_test(a_busy_connection_is_not_idle),
        cmocka_unit_test(the_exporter_can_request_the_close),
        cmocka_unit_test(a_connection_that_is_not_opened_becomes_late),
        cmocka_unit_test(waiting_connections_are_opened_in_order),
        cmocka_unit_test(new_handshakes_do_not_evict_each_other_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
