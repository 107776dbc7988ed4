/* The scheduler, step by step: order, parked queues, failures, and dropping tasks. */
#include "notes.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"

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
    t.queue[1].runnable.priority = 7;
    t.queue[2].runnable.priority = 3;
    put_letters(1, "xy");
    put_letters(2, "mn");
    put_letters(0, "ab");
    step_all();
    assert_string_equal(t.ran, "abmnxy");
}

static void a_task_that_fails_does_not_stop_the_queue(void **state)
{
    put_letters(0, "a");
    put(0, (struct note){.letter = 'b', .rc = ACL_ERROR_RT_PARAM_INVALID});
    put_letters(0, "c");
    step_all();
    assert_string_equal(t.ran, "abc");
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
    am_waitlist_wake(&list);
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
    am_waitlist_wake(&list);
    step_all();
    assert_string_equal(t.ran, "ac");
    assert_int_equal(t.queue[1].state, AM_QUEUE_PARKED);
    is_shut = true;
    am_waitlist_wake(&list);
    step_all();
    assert_string_equal(t.ran, "acb");
}

struct changing {
    struct note note;
    struct am_waitlist first, second;
    bool is_open;
};

/* The condition of the first list holds when it is read again after joining the list. */
static enum am_poll changing_poll(struct am_task *task)
{
    struct changing *changing = (struct changing *)task;

    am_waitlist_join(&changing->first, task);
    am_waitlist_join(&changing->second, task);
    return changing->is_open ? AM_POLL_READY : AM_POLL_WAIT;
}

static aclError changing_run(struct am_task *task)
{
    say(t.ran, 'a');
    return ACL_SUCCESS;
}

static const struct am_task_ops changing_ops = {
    .poll = changing_poll, .run = changing_run, .free = note_free};

static void a_queue_waits_in_the_list_that_it_joined_last(void **state)
{
    struct changing *changing = am_task_make(&changing_ops, sizeof *changing);

    assert_non_null(changing);
    changing->note.letter = 'a';
    am_waitlist_init(&changing->first);
    am_waitlist_init(&changing->second);
    changing->is_open = false;
    t.n_live++;
    submit(0, &changing->note.task);
    step_all();
    assert_int_equal(t.queue[0].state, AM_QUEUE_PARKED);
    assert_true(LIST_EMPTY(&changing->first.queues));
    changing->is_open = true;
    am_waitlist_wake(&changing->second);
    assert_int_equal(t.queue[0].state, AM_QUEUE_READY);
    step_all();
    assert_string_equal(t.ran, "a");
}

/* The condition holds when it is read again after joining the list, so the task is over. */
static aclError joining_run(struct am_task *task)
{
    struct changing *joining = (struct changing *)task;

    am_waitlist_join(&joining->first, task);
    say(t.ran, 'a');
    return ACL_SUCCESS;
}

static void joining_free(struct am_task *task)
{
    struct changing *joining = (struct changing *)task;

    assert_true(LIST_EMPTY(&joining->first.queues));
    assert_null(task->queue->waiting_on);
    note_free(task);
}

static const struct am_task_ops joining_ops = {.run = joining_run, .free = joining_free};

static void a_queue_has_left_the_list_when_its_task_is_freed(void **state)
{
    struct changing *joining = am_task_make(&joining_ops, sizeof *joining);

    assert_non_null(joining);
    joining->note.letter = 'a';
    am_waitlist_init(&joining->first);
    t.n_live++;
    submit(0, &joining->note.task);
    put_letters(0, "b");
    step_all();
    assert_string_equal(t.ran, "ab");
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
    assert_true(LIST_EMPTY(&list.queues));
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
    am_waitlist_wake(&list);
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
    am_waitlist_wake(&list);
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

static enum am_poll watched_poll(struct am_task *task)
{
    struct watched *watched = (struct watched *)task;

    am_lock(&t.queue[0].lock); /* which is free, and this thread owns the queue */
    assert_int_equal(t.queue[0].state, AM_QUEUE_RUNNING);
    am_unlock(&t.queue[0].lock);
    if (watched->must_drop)
        assert_int_equal(am_queue_drop(&t.queue[0], true, 0), ETIMEDOUT);
    return ++watched->n_checks == watched->n_wanted ? AM_POLL_READY : AM_POLL_AGAIN;
}

static struct watched *watched_put(unsigned n_wanted, bool must_drop)
{
    static struct am_task_ops ops;
    struct watched *watched = calloc(1, sizeof *watched);

    assert_non_null(watched);
    ops = note_ops;
    ops.poll = watched_poll;
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
    assert_true(LIST_EMPTY(&list.queues));
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
        am_lock(&t.queue[0].lock);
        is_marked = t.queue[0].drop_until == t.queue[0].n_queued;
        am_unlock(&t.queue[0].lock);
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
}

/* ---- inline tasks ---- */

static aclError put_short(unsigned queue, struct note like)
{
    like.task.is_short = true;
    return put(queue, like);
}

static void a_short_task_of_an_empty_queue_runs_inline(void **state)
{
    put_short(0, (struct note){.letter = 'a'});
    assert_string_equal(t.ran, "a");
    assert_string_equal(t.dropped, "a");
    assert_int_equal(t.queue[0].n_done, 1);
    assert_int_equal(am_counter_sum(&t.sched.n_completed), 1);
    assert_false(step());
}

static void a_short_task_waits_for_the_tasks_before_it(void **state)
{
    put_letters(0, "a");
    put_short(0, (struct note){.letter = 'b'});
    assert_string_equal(t.ran, "");
    step_all();
    assert_string_equal(t.ran, "ab");
}

static void an_inline_task_that_is_not_ready_parks_the_queue(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put_short(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    assert_int_equal(t.queue[0].state, AM_QUEUE_PARKED);
    is_open = true;
    am_waitlist_wake(&list);
    step_all();
    assert_string_equal(t.ran, "a");
}

static void a_stopped_queue_drops_a_short_task(void **state)
{
    t.queue[0].is_stopped = true;
    put_short(0, (struct note){.letter = 'a'});
    step_all();
    assert_string_equal(t.ran, "");
    assert_string_equal(t.lost, "a");
}

static void the_failure_of_an_inline_task_is_kept(void **state)
{
    put_short(0, (struct note){.letter = 'a', .rc = ACL_ERROR_RT_PARAM_INVALID});
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_PARAM_INVALID);
    assert_null(am_error_take_messages());
}

static void *inline_main(void *barrier)
{
    put_short(0, (struct note){.letter = 'a', .barrier = barrier});
    return NULL;
}

static void tasks_behind_an_inline_task_wait_for_it(void **state)
{
    pthread_barrier_t barrier;
    pthread_t caller;

    pthread_barrier_init(&barrier, NULL, 2);
    assert_int_equal(pthread_create(&caller, NULL, inline_main, &barrier), 0);
    pthread_barrier_wait(&barrier);
    put_letters(0, "b");
    assert_false(step());
    assert_int_equal(am_counter_sum(&t.sched.n_running), 1);
    pthread_barrier_wait(&barrier);
    pthread_join(caller, NULL);
    step_all();
    assert_string_equal(t.ran, "ab");
    pthread_barrier_destroy(&barrier);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        stepped(tasks_of_a_queue_run_in_order),
        stepped(queues_take_turns),
        stepped(a_higher_priority_goes_first),
        stepped(a_task_that_fails_does_not_stop_the_queue),
        stepped(a_parked_queue_waits_until_it_is_woken),
        stepped(waking_is_for_all_who_wait),
        stepped(a_queue_waits_in_the_list_that_it_joined_last),
        stepped(a_queue_has_left_the_list_when_its_task_is_freed),
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
        stepped(a_short_task_of_an_empty_queue_runs_inline),
        stepped(a_short_task_waits_for_the_tasks_before_it),
        stepped(an_inline_task_that_is_not_ready_parks_the_queue),
        stepped(a_stopped_queue_drops_a_short_task),
        stepped(the_failure_of_an_inline_task_is_kept),
        stepped(tasks_behind_an_inline_task_wait_for_it),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
