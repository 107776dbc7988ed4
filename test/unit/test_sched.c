/* The scheduler, step by step: order, parked queues, failures, and dropping tasks. */
#include "notes.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/stream/sched_bypass.h"

/* ---- order ---- */

static void tasks_of_a_queue_run_in_order(void **state)
{
    put_letters(0, "abc");
    assert_string_equal(t.ran, "");
    assert_true(step());
    assert_string_equal(t.ran, "a");
    assert_int_equal(step_all(), 2);
    assert_string_equal(t.ran, "abc");
    assert_string_equal(t.dropped, "abc");
    assert_int_equal(t.queue[0].n_done, 3);
    assert_false(step());
}

static void queues_take_turns(void **state)
{
    put_letters(0, "ab");
    put_letters(1, "AB");
    step_all();
    assert_string_equal(t.ran, "aAbB");
}

static void a_higher_priority_goes_first(void **state)
{
    t.queue[1].priority = 7;
    t.queue[2].priority = 3;
    put_letters(1, "xy");
    put_letters(2, "mn");
    put_letters(0, "ab");
    step_all();
    assert_string_equal(t.ran, "abmnxy");
}

static void a_task_is_finished_when_it_has_run_and_not_when_it_failed(void **state)
{
    put_letters(0, "a");
    put(0, (struct note){.letter = 'b', .rc = ACL_ERROR_RT_PARAM_INVALID});
    put_letters(0, "c");
    step_all();
    assert_string_equal(t.ran, "abc");
    assert_string_equal(t.finished, "ac");
    assert_string_equal(t.dropped, "abc");
}

/* ---- waiting ---- */

static void a_parked_queue_waits_until_it_is_woken(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    put_letters(0, "b");
    put_letters(1, "xy");
    assert_int_equal(step_all(), 3); /* parking is a step */
    assert_string_equal(t.ran, "xy");
    assert_int_equal(t.queue[0].state, AM_QUEUE_PARKED);

    is_open = true;
    assert_false(step()); /* nobody said so */
    wake(&list);
    step_all();
    assert_string_equal(t.ran, "xyab");
}

static void waking_is_for_all_who_wait(void **state)
{
    struct am_waitlist list;
    bool is_open = false, is_shut = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    put(1, (struct note){.letter = 'b', .gate = &is_shut, .list = &list});
    put(2, (struct note){.letter = 'c', .gate = &is_open, .list = &list});
    step_all();
    is_open = true;
    wake(&list);
    step_all();
    assert_string_equal(t.ran, "ac");
    assert_int_equal(t.queue[1].state, AM_QUEUE_PARKED);
    is_shut = true;
    wake(&list);
    step_all();
    assert_string_equal(t.ran, "acb");
}

static void a_task_that_finishes_wakes_another_queue(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    put(1, (struct note){.letter = 'x', .opens = &list, .opened = &is_open});
    step_all();
    assert_string_equal(t.ran, "xa");
}

static void a_deadline_fails_the_task_and_the_queue_goes_on(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0,
        (struct note){
            .letter = 'a', .gate = &is_open, .list = &list, .task.deadline = 5 * SECOND});
    put_letters(0, "b");
    step_all();
    clock_ns += 5 * SECOND - 1;
    assert_false(step());
    clock_ns += 1;
    step_all();
    assert_string_equal(t.ran, "b");
    assert_string_equal(t.dropped, "ab");
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_WAIT_TIMEOUT);
    assert_contains(t.queue[0].why, "work queued by aclrtNote failed");
    assert_contains(t.queue[0].why, "did not come in time");
    assert_true(TAILQ_EMPTY(&list.queues));
}

static void a_deadline_counts_from_when_the_task_is_first(void **state)
{
    struct am_waitlist list;
    bool is_first_open = false, is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_first_open, .list = &list});
    put(0,
        (struct note){
            .letter = 'b', .gate = &is_open, .list = &list, .task.deadline = 5 * SECOND});
    step_all();
    clock_ns += 60 * SECOND;
    is_first_open = true;
    wake(&list);
    step_all();
    clock_ns += 4 * SECOND;
    step_all();
    assert_int_equal(t.queue[0].error, ACL_SUCCESS);
    clock_ns += 1 * SECOND;
    step_all();
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_WAIT_TIMEOUT);
    assert_string_equal(t.ran, "a");
}

static void what_comes_in_time_is_no_failure(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){
               .letter = 'a', .gate = &is_open, .list = &list, .task.deadline = SECOND});
    step_all();
    is_open = true;
    wake(&list);
    step_all();
    clock_ns += 10 * SECOND;
    step_all();
    assert_string_equal(t.ran, "a");
    assert_int_equal(t.queue[0].error, ACL_SUCCESS);
    assert_true(RB_EMPTY(&t.sched.timed));
}

static void memory_is_looked_at_again_and_again(void **state)
{
    bool is_open = false;

    put(0, (struct note){.letter = 'a', .gate = &is_open});
    put_letters(0, "b");
    assert_true(step());
    assert_int_equal(t.sched.n_polled, 1);
    assert_false(step());
    is_open = true; /* and nobody says so */
    step_all();
    assert_string_equal(t.ran, "ab");
    assert_int_equal(t.sched.n_polled, 0);
}

static void a_look_at_memory_may_have_a_deadline(void **state)
{
    bool is_open = false;

    put(0, (struct note){.letter = 'a', .gate = &is_open, .task.deadline = SECOND});
    step_all();
    clock_ns += SECOND;
    step_all();
    assert_string_equal(t.ran, "");
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_WAIT_TIMEOUT);
    assert_int_equal(t.sched.n_polled, 0);
}

/* ---- checks ---- */

/* A task that is checked, and what happens to it meanwhile. */
struct watched {
    struct note note;
    unsigned n_checks;
    unsigned n_wanted; /* it may run at that check */
    bool must_drop;    /* another thread drops it during the check */
};

static bool watched_check(struct am_task *task)
{
    struct watched *watched = (struct watched *)task;

    am_lock(&t.sched.lock); /* which is free, and the queue in no other hands */
    assert_true(t.queue[0].state == AM_QUEUE_RUNNING ||
                t.queue[0].state == AM_QUEUE_CHECKED);
    if (watched->must_drop)
        assert_int_equal(am_sched_drain_locked(&t.sched, &t.queue[0], 0), ETIMEDOUT);
    am_unlock(&t.sched.lock);
    return ++watched->n_checks == watched->n_wanted;
}

static struct watched *watched_put(unsigned n_wanted, bool must_drop)
{
    static struct am_task_ops ops;
    struct watched *watched = calloc(1, sizeof *watched);

    assert_non_null(watched);
    ops = note_ops;
    ops.check = watched_check;
    watched->note.letter = 'w';
    watched->note.task.deadline = AM_FOREVER;
    watched->note.task.ops = &ops;
    watched->n_wanted = n_wanted;
    watched->must_drop = must_drop;
    t.n_live++;
    assert_int_equal(submit(0, &watched->note.task), ACL_SUCCESS);
    return watched;
}

static void a_check_is_made_again_until_it_holds(void **state)
{
    struct watched *watched = watched_put(4, false);

    put_letters(0, "b");
    assert_true(step()); /* the first check, and the queue is parked */
    assert_int_equal(watched->n_checks, 1);
    assert_false(step());
    assert_false(step());
    assert_int_equal(watched->n_checks, 3);
    assert_int_equal(t.sched.n_polled, 1);
    step_all();
    assert_string_equal(t.ran, "wb");
    assert_int_equal(t.sched.n_polled, 0);
}

static void a_task_may_be_dropped_while_it_is_checked(void **state)
{
    watched_put(2, true);
    put_letters(0, "b");
    step_all();
    assert_string_equal(t.ran, "");
    assert_string_equal(t.lost, "wb");
    assert_int_equal(t.sched.n_polled, 0);
}

static void deadlines_come_in_their_order(void **state)
{
    static const unsigned order[] = {2, 0, 3, 1}; /* of the queues */
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    for (unsigned i = 0; i < 4; i++)
        put(order[i], (struct note){.letter = (char)('a' + i),
                                    .gate = &is_open,
                                    .list = i % 2 == 0 ? &list : NULL,
                                    .task.deadline = (i + 1) * SECOND});
    step_all();
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(strlen(t.dropped), i);
        clock_ns += SECOND;
        step_all();
        assert_int_equal(t.queue[order[i]].error, ACL_ERROR_RT_WAIT_TIMEOUT);
    }
    assert_string_equal(t.dropped, "abcd");
    assert_true(RB_EMPTY(&t.sched.timed));
}

/* ---- failures ---- */

static void the_first_failure_is_kept(void **state)
{
    put(0, (struct note){.letter = 'a', .rc = ACL_ERROR_RT_PARAM_INVALID});
    put(0, (struct note){.letter = 'b', .rc = ACL_ERROR_RT_INVALID_HANDLE});
    put_letters(0, "c");
    step_all();
    assert_string_equal(t.ran, "abc");
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_PARAM_INVALID);
    assert_contains(t.queue[0].why, "note a");
    assert_contains(t.queue[0].why, "aclrtNote");
    assert_null(am_error_take_messages()); /* it is not this thread's failure */
    assert_int_equal(am_error_last(true), 0);
}

static void a_queue_that_stops_on_failure_drops_the_rest(void **state)
{
    t.queue[0].stop_on_failure = true;
    put_letters(0, "a");
    put(0, (struct note){.letter = 'b', .rc = ACL_ERROR_RT_PARAM_INVALID});
    put_letters(0, "cd");
    step_all();
    put_letters(0, "e");
    step_all();
    assert_string_equal(t.ran, "ab");
    assert_string_equal(t.dropped, "abcde");
    assert_int_equal(t.queue[0].n_done, 5);

    t.queue[0].is_stopped = false;
    put_letters(0, "f");
    step_all();
    assert_string_equal(t.ran, "abf");
}

/* ---- dropping ---- */

static void dropping_from_an_idle_queue_does_nothing(void **state)
{
    drop_tasks(0);
    put_letters(0, "a");
    step_all();
    drop_tasks(0);
    put_letters(0, "b");
    step_all();
    assert_string_equal(t.ran, "ab");
}

static void dropping_from_a_ready_queue_empties_it(void **state)
{
    put_letters(0, "abc");
    put_letters(1, "x");
    step(); /* a */
    drop_tasks(0);
    assert_string_equal(t.dropped, "abc");
    assert_int_equal(t.queue[0].state, AM_QUEUE_IDLE);
    assert_int_equal(t.queue[0].n_done, 3);
    put_letters(0, "d");
    step_all();
    assert_string_equal(t.ran, "axd");
}

static void dropping_from_a_parked_queue_takes_it_out_of_the_list(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){
               .letter = 'a', .gate = &is_open, .list = &list, .task.deadline = SECOND});
    put_letters(0, "b");
    step_all();
    drop_tasks(0);
    assert_true(TAILQ_EMPTY(&list.queues));
    assert_true(RB_EMPTY(&t.sched.timed));
    assert_string_equal(t.dropped, "ab");
    assert_string_equal(t.ran, "");
    assert_int_equal(t.queue[0].error, ACL_SUCCESS);
}

static void dropping_from_a_queue_that_looks_at_memory_ends_the_looks(void **state)
{
    bool is_open = false;

    put(0, (struct note){.letter = 'a', .gate = &is_open});
    step_all();
    drop_tasks(0);
    assert_int_equal(t.sched.n_polled, 0);
    assert_string_equal(t.dropped, "a");
}

static void *step_main(void *arg)
{
    step();
    return NULL;
}

static void *drop_main(void *arg)
{
    drop_tasks(0);
    return NULL;
}

/* Until as many tasks are marked to be dropped as are queued. */
static void wait_until_marked(void)
{
    bool is_marked;

    do {
        sched_yield();
        am_lock(&t.sched.lock);
        is_marked = t.queue[0].drop_until == t.queue[0].n_queued;
        am_unlock(&t.sched.lock);
    } while (!is_marked);
}

static void dropping_from_a_running_queue_waits_for_the_task(void **state)
{
    pthread_barrier_t barrier;
    pthread_t stepper, dropper;

    pthread_barrier_init(&barrier, NULL, 2);
    put(0, (struct note){.letter = 'a', .barrier = &barrier});
    put_letters(0, "bc");
    stepper = thread_start(step_main);
    pthread_barrier_wait(&barrier); /* it runs */
    dropper = thread_start(drop_main);
    wait_until_marked();
    assert_string_equal(t.dropped, "");
    pthread_barrier_wait(&barrier);
    pthread_join(stepper, NULL);
    pthread_join(dropper, NULL);
    assert_string_equal(t.ran, "a");
    assert_string_equal(t.dropped, "abc");
    put_letters(0, "d");
    step_all();
    assert_string_equal(t.ran, "ad");
    pthread_barrier_destroy(&barrier);
}

static void a_task_queued_while_others_are_dropped_runs(void **state)
{
    pthread_barrier_t barrier;
    pthread_t stepper, dropper;

    pthread_barrier_init(&barrier, NULL, 2);
    put(0, (struct note){.letter = 'a', .barrier = &barrier});
    put_letters(0, "b");
    stepper = thread_start(step_main);
    pthread_barrier_wait(&barrier);
    dropper = thread_start(drop_main);
    wait_until_marked();
    put_letters(0, "c");
    pthread_barrier_wait(&barrier);
    pthread_join(stepper, NULL);
    pthread_join(dropper, NULL);
    step_all();
    assert_string_equal(t.ran, "ac");
    pthread_barrier_destroy(&barrier);
}

static void two_who_drop_at_once_leave_the_queue_usable(void **state)
{
    pthread_barrier_t barrier;
    pthread_t stepper, dropper[2];

    pthread_barrier_init(&barrier, NULL, 2);
    put(0, (struct note){.letter = 'a', .barrier = &barrier});
    put_letters(0, "b");
    stepper = thread_start(step_main);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < 2; i++)
        dropper[i] = thread_start(drop_main);
    wait_until_marked();
    pthread_barrier_wait(&barrier);
    pthread_join(stepper, NULL);
    for (int i = 0; i < 2; i++)
        pthread_join(dropper[i], NULL);
    assert_false(t.queue[0].is_stopped);
    put_letters(0, "c");
    step_all();
    assert_string_equal(t.ran, "ac");
    pthread_barrier_destroy(&barrier);
}

static void a_closed_queue_takes_nothing(void **state)
{
    t.queue[0].is_closed = true;
    assert_int_equal(put(0, (struct note){.letter = 'a'}), ACL_ERROR_RT_INVALID_HANDLE);
    assert_contains(am_error_take_messages(), "destroyed");
    assert_string_equal(t.dropped, "a");
    assert_int_equal(t.queue[0].n_queued, 0);
    assert_false(am_sched_try_begin(&t.sched, &t.queue[0], true));
}

/* ---- work that the caller does ---- */

static void an_idle_queue_lets_its_caller_work(void **state)
{
    assert_true(am_sched_try_begin(&t.sched, &t.queue[0], true));
    assert_false(am_sched_try_begin(&t.sched, &t.queue[0], true));
    put_letters(0, "a");
    assert_false(step()); /* not before the caller is done */
    assert_int_equal(t.queue[0].n_done, 0);
    am_sched_end(&t.sched, &t.queue[0]);
    assert_int_equal(t.queue[0].n_done, 1);
    assert_false(am_sched_try_begin(&t.sched, &t.queue[0], true));
    step_all();
    assert_string_equal(t.ran, "a");
    assert_int_equal(t.queue[0].n_done, 2);
    assert_int_equal(t.sched.n_running, 0);
}

static void a_stopped_queue_does_not(void **state)
{
    t.queue[0].is_stopped = true;
    assert_false(am_sched_try_begin(&t.sched, &t.queue[0], true));
}

/* ---- without the scheduler's lock ---- */

static void bypass_open(unsigned queue)
{
    am_lock(&t.sched.lock);
    am_bypass_open_locked(&t.sched, &t.queue[queue]);
    am_unlock(&t.sched.lock);
}

static void bypass_close(unsigned queue)
{
    am_lock(&t.sched.lock);
    am_bypass_close_locked(&t.sched, &t.queue[queue]);
    am_unlock(&t.sched.lock);
}

static void short_tasks_of_an_idle_queue_are_counted_when_the_bypass_closes(void **state)
{
    bypass_open(0);
    assert_true(am_bypass_is_quiet(&t.queue[0]));
    assert_true(am_sched_try_begin(&t.sched, &t.queue[0], true));
    assert_false(am_bypass_is_quiet(&t.queue[0]));
    assert_false(am_bypass_pass(&t.sched, &t.queue[0]));
    am_sched_end(&t.sched, &t.queue[0]);
    assert_true(am_bypass_pass(&t.sched, &t.queue[0]));
    assert_int_equal(t.queue[0].n_done, 0);
    bypass_close(0);
    assert_int_equal(t.queue[0].n_queued, 2);
    assert_int_equal(t.queue[0].n_done, 2);
    am_lock(&t.sched.lock);
    assert_int_equal(am_tally_sum(&t.sched.moves), 2);
    am_unlock(&t.sched.lock);
    assert_false(am_bypass_pass(&t.sched, &t.queue[0]));
}

static void a_task_inside_the_bypass_is_waited_for_by_the_next_one(void **state)
{
    bypass_open(0);
    assert_true(am_sched_try_begin(&t.sched, &t.queue[0], true));
    put_letters(0, "a");
    assert_int_equal(t.queue[0].state, AM_QUEUE_RUNNING);
    assert_int_equal(t.sched.n_running, 1);
    assert_false(step());
    am_sched_end(&t.sched, &t.queue[0]);
    assert_int_equal(t.sched.n_running, 0);
    step_all();
    assert_string_equal(t.ran, "a");
    assert_int_equal(t.queue[0].n_done, 2);
    assert_true(am_bypass_is_quiet(&t.queue[0])); /* idle again */
}

/* Two threads may have waited for a queue; both open it, and a task may come between. */
static void a_task_inside_the_bypass_stays_there_when_it_is_opened_again(void **state)
{
    bypass_open(0);
    assert_true(am_sched_try_begin(&t.sched, &t.queue[0], true));
    bypass_open(0);
    assert_false(am_bypass_is_quiet(&t.queue[0]));
    assert_false(am_bypass_pass(&t.sched, &t.queue[0]));
    am_sched_end(&t.sched, &t.queue[0]);
    assert_true(am_bypass_is_quiet(&t.queue[0]));
}

/* The caller who synchronises must come by. */
static void a_queue_with_something_to_report_keeps_its_bypass_closed(void **state)
{
    put(0, (struct note){.letter = 'a', .rc = ACL_ERROR_RT_PARAM_INVALID});
    step_all();
    assert_int_equal(t.queue[0].state, AM_QUEUE_IDLE);
    assert_false(am_bypass_is_quiet(&t.queue[0]));
    am_lock(&t.sched.lock);
    assert_int_equal(am_queue_report_locked(&t.queue[0], 0), ACL_ERROR_RT_PARAM_INVALID);
    am_bypass_open_locked(&t.sched, &t.queue[0]);
    am_unlock(&t.sched.lock);
    assert_true(am_bypass_is_quiet(&t.queue[0]));
}

static void a_long_task_goes_by_the_scheduler(void **state)
{
    bypass_open(0);
    assert_true(am_sched_try_begin(&t.sched, &t.queue[0], false));
    assert_int_equal(t.sched.n_running, 1);
    am_sched_end(&t.sched, &t.queue[0]);
    assert_int_equal(t.sched.n_running, 0);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        stepped(tasks_of_a_queue_run_in_order),
        stepped(queues_take_turns),
        stepped(a_higher_priority_goes_first),
        stepped(a_task_is_finished_when_it_has_run_and_not_when_it_failed),
        stepped(a_parked_queue_waits_until_it_is_woken),
        stepped(waking_is_for_all_who_wait),
        stepped(a_task_that_finishes_wakes_another_queue),
        stepped(a_deadline_fails_the_task_and_the_queue_goes_on),
        stepped(a_deadline_counts_from_when_the_task_is_first),
        stepped(what_comes_in_time_is_no_failure),
        stepped(memory_is_looked_at_again_and_again),
        stepped(a_look_at_memory_may_have_a_deadline),
        stepped(a_check_is_made_again_until_it_holds),
        stepped(a_task_may_be_dropped_while_it_is_checked),
        stepped(deadlines_come_in_their_order),
        stepped(the_first_failure_is_kept),
        stepped(a_queue_that_stops_on_failure_drops_the_rest),
        stepped(dropping_from_an_idle_queue_does_nothing),
        stepped(dropping_from_a_ready_queue_empties_it),
        stepped(dropping_from_a_parked_queue_takes_it_out_of_the_list),
        stepped(dropping_from_a_queue_that_looks_at_memory_ends_the_looks),
        stepped(dropping_from_a_running_queue_waits_for_the_task),
        stepped(a_task_queued_while_others_are_dropped_runs),
        stepped(two_who_drop_at_once_leave_the_queue_usable),
        stepped(a_closed_queue_takes_nothing),
        stepped(an_idle_queue_lets_its_caller_work),
        stepped(a_stopped_queue_does_not),
        stepped(short_tasks_of_an_idle_queue_are_counted_when_the_bypass_closes),
        stepped(a_task_inside_the_bypass_is_waited_for_by_the_next_one),
        stepped(a_task_inside_the_bypass_stays_there_when_it_is_opened_again),
        stepped(a_queue_with_something_to_report_keeps_its_bypass_closed),
        stepped(a_long_task_goes_by_the_scheduler),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
