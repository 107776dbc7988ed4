/*
 * ACLMEM_CHAOS: work runs as late and as reordered as is allowed, in the same order for
 * the same seed.
 */
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static void start_chaos(unsigned seed)
{
    char option[64];

    snprintf(option, sizeof(option), "ACLMEM_CHAOS=%u", seed);
    start("default", option);
    assert_acl_ok(aclrtSetDevice(0));
}

/* ---- a machine that is too busy ---- */

/*
 * Chaos mode goes on by itself when for half a second nobody calls, or a function does not
 * get done.  So where a thread of the test is not let run for long, the order is not the
 * seed's.  Each call and each function is a beat; a run in which two of them are far apart
 * says nothing, and is done again, MOST_RUNS times at most.
 */
#define MOST_RUNS 50

static _Atomic uint64_t last_beat, longest_pause;

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void beats_begin(void)
{
    longest_pause = 0;
    last_beat = now_ms();
}

static void beat(void)
{
    uint64_t now = now_ms();
    uint64_t last = atomic_exchange(&last_beat, now);
    uint64_t longest = longest_pause;

    while (now > last && now - last > longest &&
           !atomic_compare_exchange_weak(&longest_pause, &longest, now - last))
        ;
}

/* A pause before a function and one in it are still less than half a second. */
static bool was_held_up(void)
{
    return longest_pause >= 200;
}

static void need_no_pauses(void)
{
    if (!was_held_up())
        return;
    print_message("skipped: the machine is so busy that %d runs were held up\n",
                  MOST_RUNS);
    skip();
}

struct call {
    struct marks *marks;
    char letter;
};

static void note(void *arg)
{
    struct call *call = arg;

    mark_down(call->marks, call->letter);
    beat();
}

/* ---- one order ---- */

static bool comes_before(const char *text, char first, char second)
{
    return strchr(text, first) < strchr(text, second);
}

static const char *const letters[3] = {"abcdef", "ABCDEF", "123456"};

/* Three streams of six functions, one of them in two places behind another. */
static void run_program_once(unsigned seed, char ret_order[32])
{
    struct marks marks = MARKS_INIT;
    struct call calls[3][6];
    aclrtStream streams[3];
    aclrtEvent event = NULL;

    start_chaos(seed);
    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    for (int i = 0; i < 3; i++)
        streams[i] = make_stream();
    beats_begin();
    for (int j = 0; j < 6; j++) {
        for (int i = 0; i < 3; i++) {
            calls[i][j] = (struct call){&marks, letters[i][j]};
            assert_acl_ok(aclrtLaunchHostFunc(streams[i], note, &calls[i][j]));
        }
        beat();
        if (j == 1)
            assert_acl_ok(aclrtRecordEvent(event, streams[0]));
        if (j == 2)
            assert_acl_ok(aclrtStreamWaitEvent(streams[1], event));
        if (j == 3)
            assert_acl_ok(aclrtSynchronizeStream(streams[2]));
    }
    assert_acl_ok(aclrtSynchronizeDevice());
    beat();
    snprintf(ret_order, 32, "%s", marks_now(&marks));
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclFinalize());
}

static void run_program(unsigned seed, char ret_order[32])
{
    unsigned n = 0;

    do
        run_program_once(seed, ret_order);
    while (was_held_up() && ++n < MOST_RUNS);
    need_no_pauses();
    assert_int_equal(strlen(ret_order), 18);
    for (int i = 0; i < 3; i++) {
        for (int j = 1; j < 6; j++)
            assert_true(comes_before(ret_order, letters[i][j - 1], letters[i][j]));
    }
    assert_true(comes_before(ret_order, 'b', 'D'));
    assert_true(
        comes_before(ret_order, '4', 'e')); /* which was queued after the wait for 4 */
}

static void a_seed_gives_one_order(void **state)
{
    char first[32], again[32];

    for (unsigned seed = 0; seed < 10; seed++) {
        run_program(seed, first);
        run_program(seed, again);
        assert_string_equal(first, again);
    }
}

static void seeds_give_many_orders(void **state)
{
    char orders[20][32];
    unsigned n_different = 0;

    for (unsigned seed = 0; seed < 20; seed++) {
        unsigned same = 0;

        run_program(seed, orders[seed]);
        while (strcmp(orders[same], orders[seed]) != 0)
            same++;
        n_different += same == seed;
    }
    assert_in_range(n_different, 18, 20);
}

/* Whether a function and a fill that are queued here run before the stream is waited for. */
static bool runs_early(aclrtStream stream, char *at)
{
    struct marks marks = MARKS_INIT;
    bool is_early;
    char byte;

    assert_acl_ok(aclrtMemset(at, 1, 1, 1));
    beats_begin();
    assert_acl_ok(mark_on(stream, &marks, 'a'));
    assert_acl_ok(aclrtMemsetAsync(at, 1, 7, 1, stream));
    assert_acl_ok(copy(&byte, at, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    is_early = byte != 1 || marks_now(&marks)[0] != '\0';
    beat();
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_all_bytes(at, 1, 7);
    assert_string_equal(marks_now(&marks), "a");
    return is_early;
}

static void nothing_runs_before_a_call_waits(void **state)
{
    struct block b;
    aclrtStream stream;
    unsigned n = 0;
    bool is_early;

    start_chaos(1);
    stream = make_stream();
    b = block_create(CHUNK);
    do
        is_early = runs_early(stream, b.va);
    while (was_held_up() && ++n < MOST_RUNS);
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
    need_no_pauses();
    assert_false(is_early);
}

static void a_query_makes_progress(void **state)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;
    struct marks marks = MARKS_INIT;
    aclrtStream stream;

    start_chaos(1);
    stream = make_stream();
    for (int i = 0; i < 5; i++)
        assert_acl_ok(mark_on(stream, &marks, 'a'));
    while (status == ACL_STREAM_STATUS_NOT_READY)
        assert_acl_ok(aclrtStreamQuery(stream, &status));
    assert_string_equal(marks_now(&marks), "aaaaa");
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void a_program_that_polls_memory_makes_progress(void **state)
{
    struct marks marks = MARKS_INIT;
    aclrtStream stream;

    start_chaos(1);
    stream = make_stream();
    for (int i = 0; i < 3; i++)
        assert_acl_ok(mark_on(stream, &marks, 'a'));
    while (strcmp(marks_now(&marks), "aaa") != 0)
        sched_yield();
    assert_acl_ok(aclrtDestroyStream(stream));
}

/* ---- several threads ---- */

struct chain {
    aclrtContext context;
    aclrtStream streams[4];
    aclrtEvent events[4];
    struct marks marks;
};

/* Each waits for the event of the one before it, and for its own stream. */
static const char *chain_link(struct worker *self)
{
    struct chain *chain = self->shared;
    unsigned i = self->index;

    worker_check(aclrtSetCurrentContext(chain->context) == ACL_SUCCESS);
    if (i > 0)
        worker_check(aclrtStreamWaitEvent(chain->streams[i], chain->events[i - 1]) ==
                     ACL_SUCCESS);
    worker_check(mark_on(chain->streams[i], &chain->marks, (char)('a' + i)) ==
                 ACL_SUCCESS);
    worker_check(aclrtRecordEvent(chain->events[i], chain->streams[i]) == ACL_SUCCESS);
    worker_check(aclrtSynchronizeStream(chain->streams[i]) == ACL_SUCCESS);
    return NULL;
}

static void threads_that_wait_for_each_other_get_on(void **state)
{
    struct chain chain = {.marks = MARKS_INIT};
    struct worker workers[4];

    start_chaos(1);
    assert_acl_ok(aclrtGetCurrentContext(&chain.context));
    for (int i = 0; i < 4; i++) {
        chain.streams[i] = make_stream();
        assert_acl_ok(aclrtCreateEvent(&chain.events[i]));
        workers[i] = (struct worker){.run = chain_link, .shared = &chain};
    }
    assert_ptr_equal(run_workers(workers, 4), NULL);
    assert_string_equal(marks_now(&chain.marks), "abcd");
    for (int i = 0; i < 4; i++) {
        assert_acl_ok(aclrtDestroyStream(chain.streams[i]));
        assert_acl_ok(aclrtDestroyEvent(chain.events[i]));
    }
}

/* ---- callbacks ---- */

static const char *report(struct worker *self)
{
    struct gate *gate = self->shared;
    aclError rc;

    gate_pass(gate);
    do
        rc = aclrtProcessReport(-1);
    while (rc == ACL_SUCCESS);
    worker_check(rc == ACL_ERROR_RT_THREAD_SUBSCRIBE);
    return NULL;
}

/*
 * Three streams of four callbacks, and three of four host functions.  Whether any of them
 * ran before somebody waited: a thread for callbacks is no reason to hurry.
 */
static bool run_callbacks_once(unsigned seed, char ret_order[32])
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    struct worker reporter = {.run = report, .shared = &gate};
    struct call calls[24];
    aclrtStream streams[3], others[3];
    bool is_early;

    start_chaos(seed);
    assert_int_equal(worker_start(&reporter), 0);
    for (int i = 0; i < 3; i++) {
        streams[i] = make_stream();
        others[i] = make_stream();
        assert_acl_ok(aclrtSubscribeReport((uint64_t)reporter.thread, streams[i]));
    }
    gate_open(&gate);
    beats_begin();
    for (int i = 0; i < 12; i++) {
        calls[i] = (struct call){&marks, (char)('a' + i)};
        calls[12 + i] = (struct call){&marks, (char)('A' + i)};
        assert_acl_ok(
            aclrtLaunchCallback(note, &calls[i], ACL_CALLBACK_BLOCK, streams[i % 3]));
        assert_acl_ok(aclrtLaunchHostFunc(others[i % 3], note, &calls[12 + i]));
        beat();
    }
    is_early = marks_now(&marks)[0] != '\0';
    beat();
    assert_acl_ok(aclrtSynchronizeDevice());
    beat();
    snprintf(ret_order, 32, "%s", marks_now(&marks));
    for (int i = 0; i < 3; i++) {
        assert_acl_ok(aclrtDestroyStream(streams[i]));
        assert_acl_ok(aclrtDestroyStream(others[i]));
    }
    assert_ptr_equal(worker_join(&reporter), NULL);
    assert_acl_ok(aclFinalize());
    return is_early;
}

static void run_callbacks(unsigned seed, char ret_order[32])
{
    unsigned n = 0;
    bool is_early;

    do
        is_early = run_callbacks_once(seed, ret_order);
    while (was_held_up() && ++n < MOST_RUNS);
    need_no_pauses();
    assert_false(is_early);
    assert_int_equal(strlen(ret_order), 24);
}

static void callbacks_have_their_place_in_the_order(void **state)
{
    char first[32], again[32];

    for (unsigned seed = 0; seed < 5; seed++) {
        run_callbacks(seed, first);
        run_callbacks(seed, again);
        assert_string_equal(first, again);
    }
}

static void abort_of_its_own_stream(void *arg)
{
    (void)aclrtStreamAbort(arg);
}

static void a_function_that_aborts_its_stream_gets_on(void **state)
{
    aclrtStream stream;

    start_chaos(1);
    stream = make_stream();
    assert_acl_ok(aclrtLaunchHostFunc(stream, abort_of_its_own_stream, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static atomic_bool is_over;

/* Until the test says so, or 400 ms: less than chaos mode waits for a function. */
static void run_until_over(void *arg)
{
    uint64_t start = now_ms();

    while (!is_over && now_ms() - start < 400)
        sched_yield();
}

/* One attempt is enough: the thread of the test may not get to run for as long. */
static void a_limit_ends_a_wait_before_its_function_ends(void **state)
{
    aclError rc = ACL_SUCCESS;
    aclrtStream stream;

    start_chaos(1);
    stream = make_stream();
    for (int i = 0; i < 5 && rc == ACL_SUCCESS; i++) {
        is_over = false;
        assert_acl_ok(aclrtLaunchHostFunc(stream, run_until_over, NULL));
        rc = aclrtSynchronizeStreamWithTimeout(stream, 1);
        is_over = true;
        assert_acl_ok(aclrtSynchronizeStream(stream));
    }
    assert_int_equal(rc, ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl_ok(aclFinalize());
}

/* The function returns when the calls have ended: no call waits for it beyond its time. */
static void time_limits_hold_while_a_function_runs(void **state)
{
    aclrtStream stream, other;
    struct gate *gate;
    aclrtEvent event;

    start_chaos(1);
    stream = make_stream();
    other = make_stream();
    assert_acl_ok(aclrtCreateEvent(&event));
    gate = gate_close(stream);
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl_ok(aclrtStreamWaitEvent(other, event));
    assert_acl(aclrtSynchronizeStreamWithTimeout(stream, 1),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl(aclrtSynchronizeStreamWithTimeout(other, 1),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_acl(aclrtSynchronizeEventWithTimeout(event, 1),
               ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_acl(aclrtSynchronizeDeviceWithTimeout(1), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_int_equal(gate_passed(gate), 0);
    gate_end(gate);
    assert_acl_ok(aclrtSynchronizeStream(other));
    assert_acl_ok(aclFinalize());
}

static void a_wrong_seed_is_refused(void **state)
{
    set_options("default", "ACLMEM_CHAOS=-1");
    assert_acl(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    assert_message_has("ACLMEM_CHAOS");
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(a_seed_gives_one_order),
        claim_alone(seeds_give_many_orders),
        claim_alone(nothing_runs_before_a_call_waits),
        claim_alone(a_query_makes_progress),
        claim_alone(a_program_that_polls_memory_makes_progress),
        claim_alone(threads_that_wait_for_each_other_get_on),
        claim_alone(callbacks_have_their_place_in_the_order),
        claim_alone(a_function_that_aborts_its_stream_gets_on),
        claim_alone(a_limit_ends_a_wait_before_its_function_ends),
        claim_alone(time_limits_hold_while_a_function_runs),
        claim_alone(a_wrong_seed_is_refused),
    };

    return run_claims(claims);
}
