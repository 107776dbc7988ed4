/* The scheduler: waiting from outside, giving up, and draining. */
#include "notes.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/stream/wait.h"
#include "support/process.h"

/* ---- waiting from outside ---- */

static void who_waits_runs_the_tasks_where_there_are_no_workers(void **state)
{
    put_letters(0, "ab");
    put_letters(1, "x");
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    assert_string_equal(t.ran, "axb");
}

static void a_wait_ends_when_its_time_is_over(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    clock_tick = SECOND / 100;
    assert_int_equal(wait_queue(0, SECOND), ETIMEDOUT);
    assert_int_equal(wait_queue(0, 0), ETIMEDOUT);
    clock_tick = 0;
    assert_int_equal(wait_queue(1, 0), 0);
    drop_tasks(0);
}

static void a_wait_with_no_time_left_runs_nothing(void **state)
{
    put_letters(0, "a");
    assert_int_equal(wait_queue(0, 0), ETIMEDOUT);
    assert_string_equal(t.ran, "");
    step_all();
}

static void who_waits_watches_the_deadlines(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){
               .letter = 'a', .gate = &is_open, .list = &list, .task.deadline = SECOND});
    clock_tick = SECOND / 100;
    assert_int_equal(wait_queue(0, 10 * SECOND), 0);
    clock_tick = 0;
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_WAIT_TIMEOUT);
}

static void a_nudge_is_one_step(void **state)
{
    put_letters(0, "ab");
    am_sched_nudge(&t.sched);
    assert_string_equal(t.ran, "a");
    step_all();
}

/* ---- waiting for what nothing queued brings about ---- */

/* The number of warnings during the wait. */
static unsigned warnings_of_wait(unsigned queue, uint64_t timeout)
{
    const char *text;
    unsigned n = 0;
    int rc;

    capture_stderr();
    rc = wait_queue(queue, timeout);
    for (text = captured_stderr(); (text = strstr(text, "has waited")) != NULL; text++)
        n++;
    assert_int_equal(rc, ETIMEDOUT);
    return n;
}

static void a_wait_that_stalls_warns_once_after_five_seconds(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    clock_tick = SECOND / 1000;
    assert_int_equal(warnings_of_wait(0, 4 * SECOND), 0);
    assert_int_equal(warnings_of_wait(0, 20 * SECOND), 1);
    assert_int_equal(warnings_of_wait(0, 20 * SECOND), 0);
    clock_tick = 0;
    drop_tasks(0);
}

/* Queue 0 waits for queue 1, which a deadline moves. */
static void a_wait_for_what_is_queued_does_not_warn(void **state)
{
    struct am_waitlist first, second;
    bool is_open = false;
    bool is_other_open = false;

    am_waitlist_init(&first);
    am_waitlist_init(&second);
    put(0, (struct note){
               .letter = 'a', .gate = &is_open, .list = &first, .source = &t.queue[1]});
    put(1, (struct note){.letter = 'b',
                         .gate = &is_other_open,
                         .list = &second,
                         .task.deadline = 60 * SECOND});
    clock_tick = SECOND / 1000;
    assert_int_equal(warnings_of_wait(0, 30 * SECOND), 0);
    clock_tick = 0;
    drop_tasks(1);
    drop_tasks(0);
}

static void queues_in_a_cycle_warn(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    for (unsigned i = 0; i < 2; i++)
        put(i, (struct note){.letter = 'a',
                             .gate = &is_open,
                             .list = &list,
                             .source = &t.queue[1 - i]});
    clock_tick = SECOND / 1000;
    assert_int_equal(warnings_of_wait(0, 10 * SECOND), 1);
    clock_tick = 0;
    drop_tasks(0);
    drop_tasks(1);
}

/* ---- giving up ---- */

/* Waits as the end of a stream does. */
static int wait_or_give_up(unsigned queue, struct am_stall *stall)
{
    struct am_queue *q = &t.queue[queue];
    int rc;

    am_lock(&q->lock);
    rc = am_stall_wait_locked(q, q->n_queued, AM_FOREVER, stall);
    am_unlock(&q->lock);
    return rc;
}

static struct am_stall stall_now(void)
{
    struct am_stall stall;

    am_stall_start(&stall, &t.sched);
    return stall;
}

static void what_will_not_come_is_given_up_after_some_seconds(void **state)
{
    struct am_stall stall = stall_now();
    struct am_waitlist list;
    bool is_open = false;
    uint64_t start = clock_ns;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    put(1, (struct note){.letter = 'b', .gate = &is_open, .list = &list});
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_or_give_up(0, &stall), ETIMEDOUT);
    assert_in_range(clock_ns - start, 5 * SECOND, 6 * SECOND);
    drop_tasks(0);

    /* For the second one the same seconds count. */
    start = clock_ns;
    assert_int_equal(wait_or_give_up(1, &stall), ETIMEDOUT);
    assert_in_range(clock_ns - start, 0, SECOND);
    clock_tick = 0;
    drop_tasks(1);
}

/* A wait whose end was on its way when it was checked first: no queued task could end it. */
struct late {
    unsigned n_checks;
    bool is_done;
};

static bool late_is_done(void *what)
{
    return ((struct late *)what)->is_done;
}

static bool late_can_end(void *what, const struct am_stall *stall)
{
    struct late *late = what;

    late->is_done = late->n_checks++ > 0;
    return late->is_done;
}

static bool late_stalled(void *what)
{
    return true;
}

static void one_check_gives_up_nothing(void **state)
{
    struct am_stall stall = stall_now();
    struct late late = {0};
    struct am_wait wait = {.sched = &t.sched,
                           .changed = &t.queue[0].changed,
                           .what = &late,
                           .is_done = late_is_done,
                           .can_end = late_can_end,
                           .stalled = late_stalled,
                           .stall = &stall};

    /* As after another wait that was given up. */
    for (clock_tick = SECOND / 5; am_timeout_check(&stall.timeout, clock_now(), SECOND);)
        continue;
    clock_tick = SECOND / 1000;
    am_lock(&t.queue[0].lock);
    assert_int_equal(am_wait_locked(&t.queue[0].lock, &wait, AM_FOREVER), 0);
    am_unlock(&t.queue[0].lock);
    clock_tick = 0;
    assert_int_equal(late.n_checks, 2);
}

static void an_empty_queue_is_quiet_at_once(void **state)
{
    struct am_stall stall = stall_now();

    assert_int_equal(wait_or_give_up(0, &stall), 0);
    put_letters(0, "ab");
    assert_int_equal(wait_or_give_up(0, &stall), 0);
    assert_string_equal(t.ran, "ab");
}

/* The gate opens by the clock, long after the patience would have ended. */
static uint64_t opens_at;
static bool is_open_by_clock;

static uint64_t clock_that_opens(void)
{
    uint64_t now = clock_now();

    if (now >= opens_at)
        is_open_by_clock = true;
    return now;
}

static void wait_for_what_comes_late(void)
{
    struct am_stall stall = stall_now();

    t.sched.setup.now = clock_that_opens;
    is_open_by_clock = false;
    opens_at = clock_ns + 20 * SECOND;
    put(0, (struct note){.letter = 'a', .gate = &is_open_by_clock});
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_or_give_up(0, &stall), 0);
    clock_tick = 0;
    assert_string_equal(t.ran, "a");
}

/* A minute passes between two looks, as in a debugger. */
static uint64_t stands_still_at;

static uint64_t clock_that_stood_still(void)
{
    if (clock_ns >= stands_still_at) {
        clock_ns += 60 * SECOND;
        stands_still_at = AM_FOREVER;
    }
    return clock_that_opens();
}

static void standing_still_is_not_waiting(void **state)
{
    struct am_stall stall = stall_now();

    t.sched.setup.now = clock_that_stood_still;
    is_open_by_clock = false;
    stands_still_at = clock_ns + 2 * SECOND;
    opens_at = clock_ns + 64 * SECOND;
    put(0, (struct note){.letter = 'a', .gate = &is_open_by_clock});
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_or_give_up(0, &stall), 0);
    clock_tick = 0;
    assert_string_equal(t.ran, "a");
    assert_true(stands_still_at == AM_FOREVER);
}

static void nothing_is_given_up_while_a_function_of_the_program_runs(void **state)
{
    t.sched.n_functions = 1;
    wait_for_what_comes_late();
    t.sched.n_functions = 0;
}

static void nothing_is_given_up_while_a_task_runs(void **state)
{
    am_counter_add(&t.sched.n_running, 1);
    wait_for_what_comes_late();
    am_counter_add(&t.sched.n_running, UINT64_MAX);
}

static void nothing_is_given_up_while_a_deadline_is_to_come(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(1, (struct note){.letter = 'x',
                         .gate = &is_open,
                         .list = &list,
                         .task.deadline = 30 * SECOND});
    wait_for_what_comes_late();
    drop_tasks(1);
}

/*
 * Given up although a function runs elsewhere, another queue has a deadline and a third
 * one's tasks come and go: nothing of that can help this queue.
 */
static void what_cannot_help_does_not_count(void **state)
{
    struct am_stall stall = stall_now();
    struct am_waitlist list, other;
    bool is_open = false;
    uint64_t start = clock_ns;

    am_waitlist_init(&list);
    am_waitlist_init(&other);
    t.sched.n_functions = 1;
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    put(1, (struct note){.letter = 'x',
                         .gate = &is_open,
                         .list = &other,
                         .task.deadline = 300 * SECOND});
    for (int i = 0; i < 20; i++)
        put_letters(2, "bcdef");
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_or_give_up(0, &stall), ETIMEDOUT);
    clock_tick = 0;
    assert_in_range(clock_ns - start, 5 * SECOND, 6 * SECOND);
    t.sched.n_functions = 0;
    drop_tasks(0);
    drop_tasks(1);
    drop_tasks(2);
}

/*
 * What it waits for is to come from a queue that waits for another, and that one's time
 * comes in the end.
 */
static void what_is_on_its_way_is_waited_for(void **state)
{
    struct am_stall stall = stall_now();
    struct am_waitlist list[3];
    bool is_open[2] = {false, false}, never = false;

    for (int i = 0; i < 3; i++)
        am_waitlist_init(&list[i]);
    put(0,
        (struct note){
            .letter = 'a', .gate = &is_open[0], .list = &list[0], .source = &t.queue[1]});
    put(1, (struct note){.letter = 'b',
                         .gate = &is_open[1],
                         .list = &list[1],
                         .source = &t.queue[2],
                         .opened = &is_open[0],
                         .opens = &list[0]});
    put(2, (struct note){.letter = 'c',
                         .gate = &never,
                         .list = &list[2],
                         .task.deadline = 100 * SECOND});
    put(2, (struct note){.letter = 'd', .opened = &is_open[1], .opens = &list[1]});
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_or_give_up(0, &stall), 0);
    clock_tick = 0;
    assert_string_equal(t.ran, "dba");
}

static void a_function_of_the_queue_itself_is_waited_for(void **state)
{
    struct am_stall stall = stall_now();
    struct am_waitlist list;
    uint64_t start = clock_ns;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    step_all();
    TAILQ_FIRST(&t.queue[0].tasks)->runner = 1;
    put(1, (struct note){.letter = 'b', /* and then it returns */
                         .opens = &list,
                         .opened = &is_open,
                         .gate = &is_open_by_clock});
    t.sched.setup.now = clock_that_opens;
    is_open_by_clock = false;
    opens_at = clock_ns + 20 * SECOND;
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_or_give_up(0, &stall), 0);
    clock_tick = 0;
    assert_true(clock_ns - start >= 20 * SECOND);
}

/* Who waits here cannot return from the function that the other queue waits for. */
static void a_function_that_waits_itself_is_given_up(void **state)
{
    struct am_stall stall = stall_now();
    struct am_waitlist list[2];
    bool is_open = false;

    am_waitlist_init(&list[0]);
    am_waitlist_init(&list[1]);
    put(0, (struct note){
               .letter = 'a', .gate = &is_open, .list = &list[0], .source = &t.queue[1]});
    put(1, (struct note){.letter = 'b', .gate = &is_open, .list = &list[1]});
    step_all();
    TAILQ_FIRST(&t.queue[1].tasks)->runner = (uint64_t)pthread_self();
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_or_give_up(0, &stall), ETIMEDOUT);
    clock_tick = 0;
    drop_tasks(0);
    drop_tasks(1);
}

/* Two that wait for each other will never move. */
static void a_circle_is_given_up(void **state)
{
    struct am_stall stall = stall_now();
    struct am_waitlist list[2];
    bool is_open = false;

    for (unsigned i = 0; i < 2; i++) {
        am_waitlist_init(&list[i]);
        put(i, (struct note){.letter = 'a',
                             .gate = &is_open,
                             .list = &list[i],
                             .source = &t.queue[1 - i]});
    }
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_or_give_up(0, &stall), ETIMEDOUT);
    assert_int_equal(wait_or_give_up(1, &stall), ETIMEDOUT);
    clock_tick = 0;
    drop_tasks(0);
    drop_tasks(1);
}

/* ---- draining ---- */

static int drain(unsigned queue, uint64_t until)
{
    return am_queue_drop(&t.queue[queue], true, until);
}

/* It is spared, and what is behind it goes when it is over. */
static void draining_waits_for_a_function(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    put_letters(0, "bc");
    step_all();
    TAILQ_FIRST(&t.queue[0].tasks)->runner = 1;
    assert_int_equal(drain(0, clock_ns), ETIMEDOUT);
    assert_string_equal(t.dropped, "");
    TAILQ_FIRST(&t.queue[0].tasks)->runner = 0;
    am_waitlist_wake(&list);
    step_all();
    assert_string_equal(t.ran, "");
    assert_string_equal(t.lost, "abc");
    assert_int_equal(drain(0, clock_ns), 0);
}

static void draining_drops_what_has_not_begun(void **state)
{
    put_letters(0, "abc");
    step();
    assert_int_equal(drain(0, 0), 0);
    assert_string_equal(t.ran, "a");
    assert_string_equal(t.lost, "bc");
    assert_int_equal(t.cause.rc, ACL_ERROR_RT_STREAM_ABORT);
    assert_null(t.cause.function);
}

/* ---- failures ---- */

static void what_is_dropped_knows_the_failure(void **state)
{
    t.queue[0].stop_on_failure = true;
    put(0, (struct note){.letter = 'a', .rc = ACL_ERROR_RT_PARAM_INVALID});
    put_letters(0, "b");
    step_all();
    assert_string_equal(t.lost, "b");
    assert_int_equal(t.cause.rc, ACL_ERROR_RT_PARAM_INVALID);
    assert_string_equal(t.cause.function, "aclrtNote");
}

static aclError tell(uint64_t seen)
{
    aclError rc;

    am_lock(&t.queue[0].lock);
    rc = am_queue_report_locked(&t.queue[0], seen);
    am_unlock(&t.queue[0].lock);
    return rc;
}

/* Two began to wait before the first was told; a third came after. */
static void all_who_waited_are_told_the_failure(void **state)
{
    uint64_t seen = t.queue[0].n_reported;

    put(0, (struct note){.letter = 'a', .rc = ACL_ERROR_RT_PARAM_INVALID});
    step_all();
    assert_int_equal(tell(seen), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(tell(seen), ACL_ERROR_RT_PARAM_INVALID);
    seen = t.queue[0].n_reported;
    assert_int_equal(tell(seen), ACL_SUCCESS);

    /* The next failure is a new one. */
    put(0, (struct note){.letter = 'b', .rc = ACL_ERROR_RT_INVALID_HANDLE});
    step_all();
    assert_int_equal(tell(seen), ACL_ERROR_RT_INVALID_HANDLE);
    assert_int_equal(tell(seen), ACL_ERROR_RT_INVALID_HANDLE);
    assert_int_equal(tell(t.queue[0].n_reported), ACL_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        stepped(who_waits_runs_the_tasks_where_there_are_no_workers),
        stepped(a_wait_ends_when_its_time_is_over),
        stepped(a_wait_with_no_time_left_runs_nothing),
        stepped(who_waits_watches_the_deadlines),
        stepped(a_nudge_is_one_step),
        stepped(a_wait_that_stalls_warns_once_after_five_seconds),
        stepped(a_wait_for_what_is_queued_does_not_warn),
        stepped(queues_in_a_cycle_warn),
        stepped(what_will_not_come_is_given_up_after_some_seconds),
        stepped(one_check_gives_up_nothing),
        stepped(an_empty_queue_is_quiet_at_once),
        stepped(standing_still_is_not_waiting),
        stepped(nothing_is_given_up_while_a_function_of_the_program_runs),
        stepped(nothing_is_given_up_while_a_task_runs),
        stepped(nothing_is_given_up_while_a_deadline_is_to_come),
        stepped(what_cannot_help_does_not_count),
        stepped(what_is_on_its_way_is_waited_for),
        stepped(a_function_of_the_queue_itself_is_waited_for),
        stepped(a_function_that_waits_itself_is_given_up),
        stepped(a_circle_is_given_up),
        stepped(draining_waits_for_a_function),
        stepped(draining_drops_what_has_not_begun),
        stepped(what_is_dropped_knows_the_failure),
        stepped(all_who_waited_are_told_the_failure),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
