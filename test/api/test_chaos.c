/*
 * ACLMEM_CHAOS: work runs as late and as reordered as is allowed, in the same order for
 * the same seed.
 */
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <stdio.h>
#include <string.h>

static void start_chaos(unsigned seed)
{
    char option[64];

    snprintf(option, sizeof(option), "ACLMEM_CHAOS=%u", seed);
    start("default", option);
    assert_acl_ok(aclrtSetDevice(0));
}

static aclrtStream make_stream(void)
{
    aclrtStream stream = NULL;

    assert_acl_ok(aclrtCreateStream(&stream));
    return stream;
}

static bool comes_before(const char *text, char first, char second)
{
    return strchr(text, first) < strchr(text, second);
}

/* Three streams of six functions, one of them in two places behind another. */
static void run_program(unsigned seed, char ret_order[32])
{
    static const char *const letters[3] = {"abcdef", "ABCDEF", "123456"};
    struct marks marks = MARKS_INIT;
    aclrtStream streams[3];
    aclrtEvent event = NULL;

    start_chaos(seed);
    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    for (int i = 0; i < 3; i++)
        streams[i] = make_stream();
    for (int j = 0; j < 6; j++) {
        for (int i = 0; i < 3; i++)
            assert_acl_ok(mark_on(streams[i], &marks, letters[i][j]));
        if (j == 1)
            assert_acl_ok(aclrtRecordEvent(event, streams[0]));
        if (j == 2)
            assert_acl_ok(aclrtStreamWaitEvent(streams[1], event));
        if (j == 3)
            assert_acl_ok(aclrtSynchronizeStream(streams[2]));
    }
    assert_acl_ok(aclrtSynchronizeDevice());
    snprintf(ret_order, 32, "%s", marks_now(&marks));
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclFinalize());

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

static void nothing_runs_before_somebody_waits(void **state)
{
    struct marks marks = MARKS_INIT;
    struct block b;
    aclrtStream stream;

    start_chaos(1);
    stream = make_stream();
    b = block_create(CHUNK);
    put_pattern(b.va, 4096, 1);
    assert_acl_ok(mark_on(stream, &marks, 'a'));
    assert_acl_ok(aclrtMemsetAsync(b.va, 4096, 7, 4096, stream));
    assert_pattern(b.va, 4096, 1);
    assert_string_equal(marks_now(&marks), "");
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_all_bytes(b.va, 4096, 7);
    assert_string_equal(marks_now(&marks), "a");
    assert_acl_ok(aclrtDestroyStream(stream));
    block_destroy(&b);
}

static void who_asks_gets_on(void **state)
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

static void who_only_looks_at_memory_gets_on_too(void **state)
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

struct call {
    struct marks *marks;
    char letter;
};

static void note(void *arg)
{
    struct call *call = arg;

    mark_down(call->marks, call->letter);
}

/* Three streams of four callbacks, and three of four host functions. */
static void run_callbacks(unsigned seed, char ret_order[32])
{
    struct gate gate = GATE_INIT;
    struct marks marks = MARKS_INIT;
    struct worker reporter = {.run = report, .shared = &gate};
    struct call calls[12];
    aclrtStream streams[3], others[3];

    start_chaos(seed);
    assert_int_equal(worker_start(&reporter), 0);
    for (int i = 0; i < 3; i++) {
        streams[i] = make_stream();
        others[i] = make_stream();
        assert_acl_ok(aclrtSubscribeReport((uint64_t)reporter.thread, streams[i]));
    }
    gate_open(&gate);
    for (int i = 0; i < 12; i++) {
        calls[i] = (struct call){&marks, (char)('a' + i)};
        assert_acl_ok(
            aclrtLaunchCallback(note, &calls[i], ACL_CALLBACK_BLOCK, streams[i % 3]));
        assert_acl_ok(mark_on(others[i % 3], &marks, (char)('A' + i)));
    }
    assert_string_equal(marks_now(&marks),
                        ""); /* a thread for callbacks is no reason to hurry */
    assert_acl_ok(aclrtSynchronizeDevice());
    snprintf(ret_order, 32, "%s", marks_now(&marks));
    for (int i = 0; i < 3; i++) {
        assert_acl_ok(aclrtDestroyStream(streams[i]));
        assert_acl_ok(aclrtDestroyStream(others[i]));
    }
    assert_ptr_equal(worker_join(&reporter), NULL);
    assert_acl_ok(aclFinalize());
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
        claim_alone(nothing_runs_before_somebody_waits),
        claim_alone(who_asks_gets_on),
        claim_alone(who_only_looks_at_memory_gets_on_too),
        claim_alone(threads_that_wait_for_each_other_get_on),
        claim_alone(callbacks_have_their_place_in_the_order),
        claim_alone(a_function_that_aborts_its_stream_gets_on),
        claim_alone(a_wrong_seed_is_refused),
    };

    return run_claims(claims);
}
