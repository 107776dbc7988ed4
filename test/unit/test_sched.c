/*
 * The scheduler, step by step: most tests have no workers and a clock of their own, so
 * each step is the test's.  A task says its letter when it runs and again when it is
 * dropped.
 */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "core/sched.h"

#define SECOND UINT64_C(1000000000)

/* ---- the clock ---- */

static _Atomic uint64_t clock_ns;
static _Atomic uint64_t clock_tick; /* how much it goes on by being looked at */

static uint64_t clock_now(void)
{
    return atomic_fetch_add(&clock_ns, clock_tick);
}

/* ---- tasks ---- */

struct note {
    struct am_task task;
    char letter;
    aclError rc;               /* what running gives */
    aclError late_rc;          /* what finishing gives */
    struct am_queue *source;   /* where what it waits for comes from; NULL: nowhere */
    const bool *gate;          /* polled: ready when it holds; NULL: always */
    struct am_waitlist *list;  /* where it waits; NULL: memory decides */
    struct am_waitlist *opens; /* woken when it has run */
    bool *opened;              /* set then */
    /* passed twice by a task that runs for as long as the test wants */
    pthread_barrier_t *barrier;
};

static struct {
    struct am_sched sched;
    struct am_queue queue[4];
    char ran[256];
    char finished[256];
    char dropped[256];
    char lost[256];        /* dropped without having run */
    struct am_cause cause; /* of the last one */
    atomic_uint n_live;    /* tasks that were made and not dropped */
} t;

static void say(char *text, char letter)
{
    size_t n = strlen(text);

    assert_true(n < sizeof t.ran - 1);
    text[n] = letter;
    text[n + 1] = '\0';
}

static bool note_poll(struct am_task *task, struct am_sched *sched,
                      struct am_waitlist **ret_list)
{
    struct note *note = (struct note *)task;

    *ret_list = note->list;
    return *note->gate;
}

static aclError note_run(struct am_task *task)
{
    struct note *note = (struct note *)task;

    if (note->barrier != NULL) {
        pthread_barrier_wait(note->barrier);
        pthread_barrier_wait(note->barrier);
    }
    am_lock(&t.sched.lock);
    say(t.ran, note->letter);
    am_unlock(&t.sched.lock);
    return note->rc == ACL_SUCCESS ? ACL_SUCCESS
                                   : am_fail(note->rc, "note %c", note->letter);
}

AM_NO_LOCK_ANALYSIS /* the scheduler calls it with the lock */
    static aclError
    note_finish(struct am_task *task, struct am_sched *sched)
{
    struct note *note = (struct note *)task;

    say(t.finished, note->letter);
    if (note->opened != NULL)
        *note->opened = true;
    if (note->opens != NULL)
        am_sched_wake_locked(sched, note->opens);
    return note->late_rc == ACL_SUCCESS ? ACL_SUCCESS
                                        : am_fail(note->late_rc, "late %c", note->letter);
}

static void note_cancel(struct am_task *task, const struct am_queue *queue)
{
    t.cause = am_queue_cause(queue);
    say(t.lost, ((struct note *)task)->letter);
}

AM_NO_LOCK_ANALYSIS
static bool note_can_come(struct am_task *task, struct am_sched *sched)
{
    struct note *note = (struct note *)task;

    return note->source != NULL && am_queue_can_move_locked(sched, note->source);
}

static void note_drop(struct am_task *task)
{
    am_lock(&t.sched.lock);
    say(t.dropped, ((struct note *)task)->letter);
    am_unlock(&t.sched.lock);
    free(task);
    t.n_live--;
}

static const struct am_task_ops note_ops = {.run = note_run,
                                            .finish = note_finish,
                                            .cancel = note_cancel,
                                            .drop = note_drop,
                                            .timeout = ACL_ERROR_RT_WAIT_TIMEOUT};
static const struct am_task_ops gated_ops = {.poll = note_poll,
                                             .run = note_run,
                                             .finish = note_finish,
                                             .cancel = note_cancel,
                                             .can_come = note_can_come,
                                             .drop = note_drop,
                                             .timeout = ACL_ERROR_RT_WAIT_TIMEOUT};

/* A task like this one, in the queue. */
static aclError put(unsigned queue, struct note like)
{
    struct note *note = malloc(sizeof *note);

    assert_non_null(note);
    *note = like;
    note->task.ops = like.gate != NULL ? &gated_ops : &note_ops;
    note->task.function = "aclrtNote";
    if (note->task.deadline == 0)
        note->task.deadline = AM_FOREVER;
    t.n_live++;
    return am_sched_submit(&t.sched, &t.queue[queue], &note->task);
}

/* A plain task for each letter. */
static void put_letters(unsigned queue, const char *letters)
{
    for (; *letters != '\0'; letters++)
        assert_int_equal(put(queue, (struct note){.letter = *letters}), ACL_SUCCESS);
}

static bool step(void)
{
    bool has_moved;

    am_lock(&t.sched.lock);
    has_moved = am_sched_step_locked(&t.sched);
    am_unlock(&t.sched.lock);
    return has_moved;
}

static unsigned step_all(void)
{
    unsigned n = 0;

    while (step())
        n++;
    return n;
}

static void wake(struct am_waitlist *list)
{
    am_lock(&t.sched.lock);
    am_sched_wake_locked(&t.sched, list);
    am_unlock(&t.sched.lock);
}

static void drop_tasks(unsigned queue)
{
    am_lock(&t.sched.lock);
    am_sched_drop_tasks_locked(&t.sched, &t.queue[queue]);
    am_unlock(&t.sched.lock);
}

static int wait_queue(unsigned queue, uint64_t timeout)
{
    int rc;

    am_lock(&t.sched.lock);
    rc = am_sched_wait_queue_locked(&t.sched, &t.queue[queue], timeout);
    am_unlock(&t.sched.lock);
    return rc;
}

/* ---- before and after ---- */

static void begin(const struct am_sched_setup *setup)
{
    memset(&t, 0, sizeof t);
    am_sched_init(&t.sched);
    am_sched_start(&t.sched, setup);
    for (unsigned i = 0; i < 4; i++)
        am_queue_init(&t.queue[i], 0);
}

static int setup_steps(void **state)
{
    clock_ns = 1000 * SECOND;
    clock_tick = 0;
    begin(&(struct am_sched_setup){.now = clock_now});
    return 0;
}

static int setup_workers(void **state)
{
    begin(&(struct am_sched_setup){.now = am_sched_clock, .n_workers = 3});
    return 0;
}

static int teardown(void **state)
{
    for (unsigned i = 0; i < 4; i++)
        am_queue_destroy(&t.queue[i]);
    am_sched_stop(&t.sched);
    am_sched_destroy(&t.sched);
    if (t.n_live == 0)
        return 0;
    print_error("%u tasks were never dropped\n", t.n_live);
    return -1;
}

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
    assert_true(TAILQ_EMPTY(&t.sched.timed));
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
    assert_true(TAILQ_EMPTY(&t.sched.timed));
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

static pthread_t thread_start(void *(*run)(void *))
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
    return thread;
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
    assert_false(am_sched_try_begin(&t.sched, &t.queue[0]));
}

/* ---- work that the caller does ---- */

static void an_idle_queue_lets_its_caller_work(void **state)
{
    assert_true(am_sched_try_begin(&t.sched, &t.queue[0]));
    assert_false(am_sched_try_begin(&t.sched, &t.queue[0]));
    put_letters(0, "a");
    assert_false(step()); /* not before the caller is done */
    assert_int_equal(t.queue[0].n_done, 0);
    am_sched_end(&t.sched, &t.queue[0]);
    assert_int_equal(t.queue[0].n_done, 1);
    assert_false(am_sched_try_begin(&t.sched, &t.queue[0]));
    step_all();
    assert_string_equal(t.ran, "a");
    assert_int_equal(t.queue[0].n_done, 2);
    assert_int_equal(t.sched.n_running, 0);
}

static void a_stopped_queue_does_not(void **state)
{
    t.queue[0].is_stopped = true;
    assert_false(am_sched_try_begin(&t.sched, &t.queue[0]));
}

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
    am_lock(&t.sched.lock);
    am_sched_nudge_locked(&t.sched);
    am_unlock(&t.sched.lock);
    assert_string_equal(t.ran, "a");
    step_all();
}

/* ---- giving up ---- */

static int wait_quiet(unsigned queue, struct am_patience *patience)
{
    int rc;

    am_lock(&t.sched.lock);
    rc = am_sched_wait_quiet_locked(&t.sched, &t.queue[queue], patience);
    am_unlock(&t.sched.lock);
    return rc;
}

static struct am_patience patience_now(void)
{
    struct am_patience patience;

    am_lock(&t.sched.lock);
    am_patience_begin_locked(&t.sched, &patience);
    am_unlock(&t.sched.lock);
    return patience;
}

static void what_will_not_come_is_given_up_after_some_seconds(void **state)
{
    struct am_patience patience = patience_now();
    struct am_waitlist list;
    bool is_open = false;
    uint64_t start = clock_ns;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    put(1, (struct note){.letter = 'b', .gate = &is_open, .list = &list});
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_quiet(0, &patience), ETIMEDOUT);
    assert_in_range(clock_ns - start, 5 * SECOND, 6 * SECOND);
    drop_tasks(0);

    /* For the second one the same seconds count. */
    start = clock_ns;
    assert_int_equal(wait_quiet(1, &patience), ETIMEDOUT);
    assert_in_range(clock_ns - start, 0, SECOND / 10);
    clock_tick = 0;
    drop_tasks(1);
}

static void an_empty_queue_is_quiet_at_once(void **state)
{
    struct am_patience patience = patience_now();

    assert_int_equal(wait_quiet(0, &patience), 0);
    put_letters(0, "ab");
    assert_int_equal(wait_quiet(0, &patience), 0);
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
    struct am_patience patience = patience_now();

    t.sched.setup.now = clock_that_opens;
    is_open_by_clock = false;
    opens_at = clock_ns + 20 * SECOND;
    put(0, (struct note){.letter = 'a', .gate = &is_open_by_clock});
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_quiet(0, &patience), 0);
    clock_tick = 0;
    assert_string_equal(t.ran, "a");
}

static void nothing_is_given_up_while_a_function_of_the_program_runs(void **state)
{
    t.sched.n_outside = 1;
    wait_for_what_comes_late();
    t.sched.n_outside = 0;
}

static void nothing_is_given_up_while_a_caller_works(void **state)
{
    assert_true(am_sched_try_begin(&t.sched, &t.queue[1]));
    wait_for_what_comes_late();
    am_sched_end(&t.sched, &t.queue[1]);
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
    struct am_patience patience = patience_now();
    struct am_waitlist list, other;
    bool is_open = false;
    uint64_t start = clock_ns;

    am_waitlist_init(&list);
    am_waitlist_init(&other);
    t.sched.n_outside = 1;
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    put(1, (struct note){.letter = 'x',
                         .gate = &is_open,
                         .list = &other,
                         .task.deadline = 300 * SECOND});
    for (int i = 0; i < 20; i++)
        put_letters(2, "bcdef");
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_quiet(0, &patience), ETIMEDOUT);
    clock_tick = 0;
    assert_in_range(clock_ns - start, 5 * SECOND, 6 * SECOND);
    t.sched.n_outside = 0;
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
    struct am_patience patience = patience_now();
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
    assert_int_equal(wait_quiet(0, &patience), 0);
    clock_tick = 0;
    assert_string_equal(t.ran, "dba");
}

static void a_function_of_the_queue_itself_is_waited_for(void **state)
{
    struct am_patience patience = patience_now();
    struct am_waitlist list;
    uint64_t start = clock_ns;
    bool is_open = false;

    am_waitlist_init(&list);
    put(0, (struct note){.letter = 'a', .gate = &is_open, .list = &list});
    step_all();
    TAILQ_FIRST(&t.queue[0].tasks)->is_outside = true;
    put(1, (struct note){.letter = 'b', /* and then it returns */
                         .opens = &list,
                         .opened = &is_open,
                         .gate = &is_open_by_clock});
    t.sched.setup.now = clock_that_opens;
    is_open_by_clock = false;
    opens_at = clock_ns + 20 * SECOND;
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_quiet(0, &patience), 0);
    clock_tick = 0;
    assert_true(clock_ns - start >= 20 * SECOND);
}

/* Who waits here cannot return from the function that the other queue waits for. */
static void a_function_that_waits_itself_is_given_up(void **state)
{
    struct am_patience patience = patience_now();
    struct am_waitlist list[2];
    bool is_open = false;

    am_waitlist_init(&list[0]);
    am_waitlist_init(&list[1]);
    put(0, (struct note){
               .letter = 'a', .gate = &is_open, .list = &list[0], .source = &t.queue[1]});
    put(1, (struct note){.letter = 'b', .gate = &is_open, .list = &list[1]});
    step_all();
    TAILQ_FIRST(&t.queue[1].tasks)->is_outside = true;
    TAILQ_FIRST(&t.queue[1].tasks)->runner = pthread_self();
    clock_tick = SECOND / 1000;
    assert_int_equal(wait_quiet(0, &patience), ETIMEDOUT);
    clock_tick = 0;
    drop_tasks(0);
    drop_tasks(1);
}

/* Two that wait for each other will never move. */
static void a_circle_is_given_up(void **state)
{
    struct am_patience patience = patience_now();
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
    assert_int_equal(wait_quiet(0, &patience), ETIMEDOUT);
    assert_int_equal(wait_quiet(1, &patience), ETIMEDOUT);
    clock_tick = 0;
    drop_tasks(0);
    drop_tasks(1);
}

/* ---- draining ---- */

static int drain(unsigned queue, uint64_t until)
{
    int rc;

    am_lock(&t.sched.lock);
    rc = am_sched_drain_locked(&t.sched, &t.queue[queue], until);
    am_unlock(&t.sched.lock);
    return rc;
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
    TAILQ_FIRST(&t.queue[0].tasks)->is_outside = true;
    assert_int_equal(drain(0, clock_ns), ETIMEDOUT);
    assert_string_equal(t.dropped, "");
    TAILQ_FIRST(&t.queue[0].tasks)->is_outside = false;
    wake(&list);
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

static void finishing_may_fail(void **state)
{
    put(0, (struct note){.letter = 'a', .late_rc = ACL_ERROR_RT_INVALID_HANDLE});
    step_all();
    assert_int_equal(t.queue[0].error, ACL_ERROR_RT_INVALID_HANDLE);
    assert_contains(t.queue[0].why, "late a");
}

static aclError tell(uint64_t seen)
{
    aclError rc;

    am_lock(&t.sched.lock);
    rc = am_queue_tell_locked(&t.queue[0], seen);
    am_unlock(&t.sched.lock);
    return rc;
}

/* Two began to wait before the first was told; a third came after. */
static void all_who_waited_are_told_the_failure(void **state)
{
    uint64_t seen = t.queue[0].n_told;

    put(0, (struct note){.letter = 'a', .rc = ACL_ERROR_RT_PARAM_INVALID});
    step_all();
    assert_int_equal(tell(seen), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(tell(seen), ACL_ERROR_RT_PARAM_INVALID);
    seen = t.queue[0].n_told;
    assert_int_equal(tell(seen), ACL_SUCCESS);

    /* The next failure is a new one. */
    put(0, (struct note){.letter = 'b', .rc = ACL_ERROR_RT_INVALID_HANDLE});
    step_all();
    assert_int_equal(tell(seen), ACL_ERROR_RT_INVALID_HANDLE);
    assert_int_equal(tell(seen), ACL_ERROR_RT_INVALID_HANDLE);
    assert_int_equal(tell(t.queue[0].n_told), ACL_SUCCESS);
}

/* ---- at once ---- */

static bool pass(unsigned queue)
{
    bool has_passed;

    am_lock(&t.sched.lock);
    has_passed = am_sched_pass_locked(&t.sched, &t.queue[queue]);
    am_unlock(&t.sched.lock);
    return has_passed;
}

static void what_takes_no_time_passes_an_idle_queue(void **state)
{
    assert_true(pass(0));
    assert_int_equal(t.queue[0].n_done, 1);
    assert_int_equal(t.queue[0].n_queued, 1);
    put_letters(0, "a");
    assert_false(pass(0));
    step_all();
    t.queue[0].is_stopped = true;
    assert_false(pass(0));
    t.queue[0].is_stopped = false;
    t.queue[0].is_closed = true;
    assert_false(pass(0));
    t.queue[0].is_closed = false;
}

/* ---- work in pieces ---- */

struct parts {
    struct am_share share;
    atomic_uint n_done[8];
    size_t fails;             /* the piece that does; SIZE_MAX: none */
    pthread_barrier_t *meets; /* each piece needs another one at the same time */
};

static aclError part_run(struct am_share *share, size_t piece)
{
    struct parts *parts = (struct parts *)share;

    if (parts->meets != NULL)
        pthread_barrier_wait(parts->meets);
    parts->n_done[piece]++;
    return piece == parts->fails ? am_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "part") : 0;
}

static void parts_init(struct parts *parts, size_t n)
{
    *parts = (struct parts){
        .share = {.run = part_run, .n_pieces = n, .function = "aclrtNote"},
        .fails = SIZE_MAX,
    };
}

static void each_piece_is_done_once(void **state)
{
    struct parts parts;

    parts_init(&parts, 8);
    assert_int_equal(am_sched_share(&t.sched, &parts.share), ACL_SUCCESS);
    for (int i = 0; i < 8; i++)
        assert_int_equal(parts.n_done[i], 1);
}

static void after_a_piece_that_fails_none_is_begun(void **state)
{
    struct parts parts;

    parts_init(&parts, 8);
    parts.fails = 3;
    assert_int_equal(am_sched_share(&t.sched, &parts.share),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_contains(am_error_take_messages(), "part");
    assert_int_equal(parts.n_done[3], 1);
    assert_int_equal(parts.n_done[4], 0);
}

static void idle_workers_join(void **state)
{
    struct parts parts;
    pthread_barrier_t two;

    begin(&(struct am_sched_setup){.now = am_sched_clock, .n_workers = 1});
    put_letters(0, "a"); /* so that there is one */
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    pthread_barrier_init(&two, NULL, 2);
    for (int i = 0; i < 20; i++) {
        parts_init(&parts, 8);
        parts.meets = &two;
        assert_int_equal(am_sched_share(&t.sched, &parts.share), ACL_SUCCESS);
        for (int j = 0; j < 8; j++)
            assert_int_equal(parts.n_done[j], 1);
    }
    pthread_barrier_destroy(&two);
    assert_int_equal(teardown(NULL), 0);
}

/* Whoever fails, the one who has the work is told, with the message. */
static void a_failure_of_a_helper_is_told(void **state)
{
    begin(&(struct am_sched_setup){.now = am_sched_clock, .n_workers = 1});
    put_letters(0, "a");
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    for (size_t i = 0; i < 40; i++) {
        struct parts parts;
        pthread_barrier_t two;

        pthread_barrier_init(&two, NULL, 2);
        parts_init(&parts, 2);
        parts.meets = &two;
        parts.fails = i % 2;
        assert_int_equal(am_sched_share(&t.sched, &parts.share),
                         ACL_ERROR_RT_MEMORY_ALLOCATION);
        assert_contains(am_error_take_messages(), "part");
        pthread_barrier_destroy(&two);
    }
    assert_int_equal(teardown(NULL), 0);
}

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

static void chaos_lets_no_caller_work(void **state)
{
    begin(&(struct am_sched_setup){.now = clock_now, .is_chaotic = true});
    assert_false(am_sched_try_begin(&t.sched, &t.queue[0]));
    assert_false(pass(0));
    assert_int_equal(teardown(NULL), 0);
}

static void chaos_goes_on_by_itself_when_nobody_calls(void **state)
{
    bool is_done;

    begin(&(struct am_sched_setup){.now = am_sched_clock, .is_chaotic = true, .seed = 1});
    put_letters(0, "ab");
    do {
        sched_yield();
        am_lock(&t.sched.lock);
        is_done = strcmp(t.dropped, "ab") == 0 && t.queue[0].state == AM_QUEUE_IDLE;
        am_unlock(&t.sched.lock);
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

    begin(&(struct am_sched_setup){.now = am_sched_clock, .is_chaotic = true});
    t.sched.n_threads = 1; /* as if it had its thread, which would help in the end */
    am_waitlist_init(&list);
    put(1, (struct note){.letter = 'b', .gate = &is_open, .list = &list});
    waiter = thread_start(wait_main);
    do {
        sched_yield();
        am_lock(&t.sched.lock);
        is_parked = t.queue[1].state == AM_QUEUE_PARKED;
        am_unlock(&t.sched.lock);
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
    am_lock(&t.sched.lock);
    assert_string_equal(t.ran, "xyzoa");
    am_unlock(&t.sched.lock);
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
    am_lock(&t.sched.lock);
    assert_int_equal(t.queue[1].error, ACL_ERROR_RT_WAIT_TIMEOUT);
    am_unlock(&t.sched.lock);
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

static struct note *note_make(struct note like)
{
    struct note *note = malloc(sizeof *note);

    assert_non_null(note);
    *note = like;
    note->task = (struct am_task){
        .ops = &note_ops, .function = "aclrtNote", .deadline = AM_FOREVER};
    t.n_live++;
    return note;
}

static void the_watcher_works_when_it_is_needed(void **state)
{
    pthread_barrier_t barrier;
    struct am_waitlist list;
    struct note *notes[3];
    bool is_open = false;

    am_waitlist_init(&list);
    put(3, (struct note){.letter = 'w',
                         .gate = &is_open,
                         .list = &list,
                         .task.deadline = 1000 * SECOND});
    await_rest();
    pthread_barrier_init(&barrier, NULL, 3);
    for (unsigned i = 0; i < 3; i++)
        notes[i] = note_make((struct note){.letter = 'a', .barrier = &barrier});
    am_lock(
        &t.sched.lock); /* so that all three are ready before the first worker wakes up */
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(am_sched_submit_locked(&t.sched, &t.queue[i], &notes[i]->task),
                         ACL_SUCCESS);
    am_unlock(&t.sched.lock);
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
    am_lock(&t.sched.lock);
    is_open = true; /* which the watcher sees, and nobody else is woken */
    am_unlock(&t.sched.lock);
    pthread_barrier_wait(&barrier);
    assert_int_equal(wait_queue(1, AM_FOREVER), 0);
    pthread_barrier_wait(&barrier);
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    pthread_barrier_destroy(&barrier);
}

static bool is_open_for_workers;

static bool atomic_poll(struct am_task *task, struct am_sched *sched,
                        struct am_waitlist **ret_list)
{
    *ret_list = NULL;
    return __atomic_load_n(&is_open_for_workers, __ATOMIC_ACQUIRE);
}

static void a_worker_looks_at_memory(void **state)
{
    static const struct am_task_ops ops = {.poll = atomic_poll, .drop = note_drop};
    struct note *note = calloc(1, sizeof *note);

    assert_non_null(note);
    *note = (struct note){.letter = 'm', .task = {.ops = &ops, .deadline = AM_FOREVER}};
    t.n_live++;
    is_open_for_workers = false;
    assert_int_equal(am_sched_submit(&t.sched, &t.queue[0], &note->task), ACL_SUCCESS);
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
    am_sched_start(&t.sched,
                   &(struct am_sched_setup){.now = am_sched_clock, .n_workers = 1});
    put_letters(0, "b");
    assert_int_equal(wait_queue(0, AM_FOREVER), 0);
    assert_int_equal(t.sched.n_threads, 1);
    assert_string_equal(t.ran, "ab");
}

#define stepped(f_) cmocka_unit_test_setup_teardown(f_, setup_steps, teardown)
#define worked(f_) cmocka_unit_test_setup_teardown(f_, setup_workers, teardown)

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
        stepped(who_waits_runs_the_tasks_where_there_are_no_workers),
        stepped(a_wait_ends_when_its_time_is_over),
        stepped(a_wait_with_no_time_left_runs_nothing),
        stepped(who_waits_watches_the_deadlines),
        stepped(a_nudge_is_one_step),
        stepped(what_will_not_come_is_given_up_after_some_seconds),
        stepped(an_empty_queue_is_quiet_at_once),
        stepped(nothing_is_given_up_while_a_function_of_the_program_runs),
        stepped(nothing_is_given_up_while_a_caller_works),
        stepped(nothing_is_given_up_while_a_deadline_is_to_come),
        stepped(what_cannot_help_does_not_count),
        stepped(what_is_on_its_way_is_waited_for),
        stepped(a_function_of_the_queue_itself_is_waited_for),
        stepped(a_function_that_waits_itself_is_given_up),
        stepped(a_circle_is_given_up),
        stepped(draining_waits_for_a_function),
        stepped(draining_drops_what_has_not_begun),
        stepped(what_is_dropped_knows_the_failure),
        stepped(finishing_may_fail),
        stepped(all_who_waited_are_told_the_failure),
        stepped(what_takes_no_time_passes_an_idle_queue),
        stepped(each_piece_is_done_once),
        stepped(after_a_piece_that_fails_none_is_begun),
        cmocka_unit_test(idle_workers_join),
        cmocka_unit_test(a_failure_of_a_helper_is_told),
        cmocka_unit_test(chaos_is_the_same_for_the_same_seed),
        cmocka_unit_test(chaos_differs_between_seeds_and_keeps_each_queue_in_order),
        cmocka_unit_test(chaos_lets_no_caller_work),
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
