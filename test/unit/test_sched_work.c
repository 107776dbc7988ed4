/* The scheduler: work at once, chaos, and workers. */
#include "notes.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"

/* ---- chaos ---- */

/* What a seed makes of four queues of six tasks, with a wait in the middle. */
static void run_chaos(uint64_t seed, char ret_order[64])
{
    static const char *const letters[4] = {"abcdef", "ABCDEF", "012345", "uvwxyz"};

    begin(&(struct am_sched_setup){.now = clock_now, .is_chaotic = true, .seed = seed});
    t.sched.n_threads = 1; /* as if it had its thread: here all steps are ours */
    for (unsigned i = 0; i < 4; i++)
        put_letters(i, letters[i]);
    assert_string_equal(t.ran, ""); /* as late as can be */
    assert_int_equal(wait_queue(seed % 4, AM_FOREVER), 0);
    step_all();
    t.sched.n_threads = 0;
    strcpy(ret_order, t.ran);
    assert_int_equal(teardown(NULL), 0);
}

static bool is_in_order(const char *order, const char *letters)
{
    for (; *letters != '\0'; letters++) {
        order = strchr(order, *letters);
        if (order == NULL)
            return false;
    }
    return true;
}

static void chaos_is_the_same_for_the_same_seed(void **state)
{
    char first[64], again[64];

    for (uint64_t seed = 0; seed < 50; seed++) {
        run_chaos(seed, first);
        run_chaos(seed, again);
        assert_string_equal(first, again);
    }
}

static void chaos_differs_between_seeds_and_keeps_each_queue_in_order(void **state)
{
    char order[50][64];
    unsigned n_same = 0;

    for (uint64_t seed = 0; seed < 50; seed++) {
        run_chaos(seed, order[seed]);
        assert_int_equal(strlen(order[seed]), 24);
        assert_true(is_in_order(order[seed], "abcdef"));
        assert_true(is_in_order(order[seed], "ABCDEF"));
        assert_true(is_in_order(order[seed], "012345"));
        assert_true(is_in_order(order[seed], "uvwxyz"));
        for (uint64_t other = 0; other < seed; other++)
            n_same += strcmp(order[seed], order[other]) == 0;
    }
    assert_int_equal(n_same, 0);
}

static void chaos_runs_nothing_inline(void **state)
{
    begin(&(struct am_sched_setup){.now = clock_now, .is_chaotic = true});
    t.sched.n_threads = 1; /* as if it had its thread: here all steps are ours */
    put(0, (struct note){.letter = 'a', .task.is_short = true});
    assert_string_equal(t.ran, "");
    step_all();
    t.sched.n_threads = 0;
    assert_int_equal(teardown(NULL), 0);
}

static void *step_main(void *arg)
{
    assert_true(step());
    return NULL;
}

/* The thread that made a function due does no step until the function ends. */
static void chaos_pauses_for_a_function(void **state)
{
    begin(&(struct am_sched_setup){.now = clock_now, .is_chaotic = true});
    t.sched.n_threads = 1;
    put_letters(0, "ab");
    am_sched_pause(&t.sched);
    assert_false(step());
    pthread_join(thread_start(step_main), NULL); /* another thread may */
    am_sched_function_end(&t.sched);
    assert_true(step());
    assert_string_equal(t.ran, "ab");
    t.sched.n_threads = 0;
    assert_int_equal(teardown(NULL), 0);
}

static void chaos_goes_on_by_itself_when_nobody_calls(void **state)
{
    bool is_done;

    begin(&(struct am_sched_setup){.now = am_clock, .is_chaotic = true, .seed = 1});
    put_letters(0, "ab");
    do {
        sched_yield();
        am_lock(&t.queue[0].lock);
        is_done = t.queue[0].n_done == 2 && t.queue[0].state == AM_QUEUE_IDLE;
        am_unlock(&t.queue[0].lock);
    } while (!is_done);
    assert_int_equal(teardown(NULL), 0);
}

static void *wait_main(void *arg)
{
    assert_int_equal(wait_queue(1, AM_FOREVER), 0);
    return NULL;
}

/*
 * A step makes something ready for another one who waits, and its doer has no more to
 * wait for.
 */
static void who_waits_takes_what_another_ones_step_made_ready(void **state)
{
    struct am_waitlist list;
    bool is_open = false, is_parked;
    pthread_t waiter;

    begin(&(struct am_sched_setup){.now = am_clock, .is_chaotic = true});
    t.sched.n_threads = 1; /* as if it had its thread, which would help in the end */
    am_waitlist_init(&list);
    put(1, (struct note){.letter = 'b', .gate = &is_open, .list = &list});
    waiter = thread_start(wait_main);
    do {
        sched_yield();
        am_lock(&t.queue[1].lock);
        is_parked = t.queue[1].state == AM_QUEUE_PARKED;
        am_unlock(&t.queue[1].lock);
    } while (!is_parked);
    put(0, (struct note){.letter = 'a', .opens = &list, .opened = &is_open});
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    pthread_join(waiter, NULL);
    t.sched.n_threads = 0;
    assert_string_equal(t.ran, "ab");
    assert_int_equal(teardown(NULL), 0);
}

/* ---- with workers ---- */

static void workers_do_it_all(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    put_letters(1, "xyz");
    put(1, (struct note){.letter = 'o', .opens = &list, .opened = &is_open});
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    assert_int_equal(wait_queue(1, AM_FOREVER), 0);
    assert_string_equal(t.ran, "xyzoa");
}

static void a_worker_watches_the_deadlines(void **state)
{
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    /* The second is due long before the first. */
    put(0, (struct note){.letter = 'a',
                         .gate = &is_open,
                         .list = &list,
                         .task.deadline = 1000 * SECOND});
    put(1, (struct note){.letter = 'b',
                         .gate = &is_open,
                         .list = &list,
                         .task.deadline = SECOND / 100});
    assert_int_equal(wait_queue(1, AM_FOREVER), 0);
    am_lock(&t.queue[1].lock);
    assert_int_equal(t.queue[1].error, ACL_ERROR_RT_WAIT_TIMEOUT);
    am_unlock(&t.queue[1].lock);
    drop_tasks(0);
}

static void deadlines_are_watched_while_other_workers_work(void **state)
{
    pthread_barrier_t barrier;
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    pthread_barrier_init(&barrier, NULL, 3);
    for (unsigned i = 0; i < 2; i++)
        put(i, (struct note){.letter = 'a', .barrier = &barrier});
    put(2, (struct note){.letter = 'b',
                         .gate = &is_open,
                         .list = &list,
                         .task.deadline = SECOND / 100});
    pthread_barrier_wait(
        &barrier); /* two of three workers are busy until the next time */
    assert_int_equal(wait_queue(2, AM_FOREVER), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    assert_int_equal(wait_queue(1, AM_FOREVER), 0);
    pthread_barrier_destroy(&barrier);
}

/* Two workers sleep and one watches the clock; there is something to watch for. */
static void await_rest(void)
{
    bool is_rest;

    do {
        sched_yield();
        am_lock(&t.sched.lock);
        is_rest = t.sched.n_sleeping == 2 && t.sched.has_watcher;
        am_unlock(&t.sched.lock);
    } while (!is_rest);
}

static void the_watcher_works_when_it_is_needed(void **state)
{
    pthread_barrier_t barrier;
    struct am_waitlist list;
    bool is_open = false;

    am_waitlist_init(&list);
    put(3, (struct note){.letter = 'w',
                         .gate = &is_open,
                         .list = &list,
                         .task.deadline = 1000 * SECOND});
    await_rest();
    pthread_barrier_init(&barrier, NULL, 3);
    for (unsigned i = 0; i < 3; i++)
        put(i, (struct note){.letter = 'a', .barrier = &barrier});
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(wait_queue(i, AM_FOREVER), 0);
    drop_tasks(3);
    pthread_barrier_destroy(&barrier);
}

static void another_watches_when_the_watcher_works(void **state)
{
    pthread_barrier_t barrier;
    struct am_waitlist list;
    bool is_open = false, is_shut = false;

    am_waitlist_init(&list);
    pthread_barrier_init(&barrier, NULL, 2);
    put(0, (struct note){.letter = 'm', .gate = &is_open, .barrier = &barrier});
    put(1,
        (struct note){
            .letter = 'd', .gate = &is_shut, .list = &list, .task.deadline = SECOND / 5});
    await_rest();
    am_lock(&t.lock);
    is_open = true; /* which the watcher sees, and nobody else is woken */
    am_unlock(&t.lock);
    pthread_barrier_wait(&barrier);
    assert_int_equal(wait_queue(1, AM_FOREVER), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    pthread_barrier_destroy(&barrier);
}

static bool is_open_for_workers;

static enum am_poll atomic_poll(struct am_task *task)
{
    return __atomic_load_n(&is_open_for_workers, __ATOMIC_ACQUIRE) ? AM_POLL_READY
                                                                   : AM_POLL_AGAIN;
}

static void a_worker_looks_at_memory(void **state)
{
    static const struct am_task_ops ops = {.poll = atomic_poll, .free = note_free};
    struct note *note = calloc(1, sizeof *note);

    assert_non_null(note);
    *note = (struct note){.letter = 'm', .task = {.ops = &ops, .deadline = AM_FOREVER}};
    t.n_live++;
    is_open_for_workers = false;
    assert_int_equal(submit(0, &note->task), ACL_SUCCESS);
    __atomic_store_n(&is_open_for_workers, true, __ATOMIC_RELEASE);
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
}

static void it_may_be_stopped_and_started_again(void **state)
{
    put_letters(0, "a");
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    assert_int_equal(t.sched.n_threads, 3);
    am_sched_stop(&t.sched);
    assert_int_equal(t.sched.n_threads, 0);
    am_sched_start(&t.sched, &(struct am_sched_setup){.now = am_clock, .n_workers = 1});
    put_letters(0, "b");
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    assert_int_equal(t.sched.n_threads, 1);
    assert_string_equal(t.ran, "ab");
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(chaos_is_the_same_for_the_same_seed),
        cmocka_unit_test(chaos_differs_between_seeds_and_keeps_each_queue_in_order),
        cmocka_unit_test(chaos_runs_nothing_inline),
        cmocka_unit_test(chaos_pauses_for_a_function),
        cmocka_unit_test(chaos_goes_on_by_itself_when_nobody_calls),
        cmocka_unit_test(who_waits_takes_what_another_ones_step_made_ready),
        worked(workers_do_it_all),
        worked(a_worker_watches_the_deadlines),
        worked(deadlines_are_watched_while_other_workers_work),
        worked(the_watcher_works_when_it_is_needed),
        worked(another_watches_when_the_watcher_works),
        worked(a_worker_looks_at_memory),
        worked(it_may_be_stopped_and_started_again),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
