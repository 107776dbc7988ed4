/*
 * The layer check holds a function of the program until the thread that queued it needs it.
 *
 * A call that waits ends the hold at once.  If the layer does not know what the call waits for,
 * the hold takes 2 seconds.  So each claim makes N calls that wait, in some milliseconds, and
 * SIGALRM ends the test in LIMIT_S seconds if each of them takes 2 seconds.
 */
#include <stdlib.h>
#include <unistd.h>

#include "support/capture.h"
#include "support/work.h"

#define N 100
#define LIMIT_S 120

static unsigned n_called;

static void be_called(void *arg)
{
    n_called++;
}

static aclmdlRI capture_function(aclrtStream stream)
{
    begin_capture(stream, GLOBAL);
    assert_acl_ok(aclrtLaunchHostFunc(stream, be_called, NULL));
    return end_capture(stream);
}

static void destroying_a_model_ends_the_hold(void **state)
{
    aclrtStream stream = make_stream();

    n_called = 0;
    for (unsigned i = 0; i < N; i++) {
        aclmdlRI model = capture_function(stream);

        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        end_model(model);
        assert_int_equal(n_called, i + 1);
    }
    end_stream(stream);
}

static void executing_a_model_ends_the_hold(void **state)
{
    aclrtStream stream = make_stream();
    aclmdlRI model = capture_function(stream);

    n_called = 0;
    for (unsigned i = 0; i < N; i++) {
        assert_acl_ok(aclmdlRIExecute(model, -1));
        assert_int_equal(n_called, i + 1);
    }
    end_model(model);
    end_stream(stream);
}

/* The layer expects the replays in the order of the calls. */
static void a_replay_that_comes_before_an_earlier_one_is_not_held(void **state)
{
    aclrtStream stream = make_stream(), other = make_stream();
    aclmdlRI model = capture_function(stream);

    n_called = 0;
    for (unsigned i = 0; i < N; i++) {
        struct gate gate = GATE_INIT;

        assert_acl_ok(aclrtLaunchHostFunc(stream, gate_pass, &gate));
        assert_acl_ok(aclmdlRIExecuteAsync(model, stream));
        assert_acl_ok(aclmdlRIExecuteAsync(model, other));
        assert_acl_ok(aclrtSynchronizeStream(other));
        assert_int_equal(n_called, 2 * i + 1);
        gate_open(&gate);
        assert_acl_ok(aclrtSynchronizeStream(stream));
        assert_int_equal(n_called, 2 * i + 2);
    }
    end_model(model);
    end_stream(stream);
    end_stream(other);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(destroying_a_model_ends_the_hold),
        claim(executing_a_model_ends_the_hold),
        claim(a_replay_that_comes_before_an_earlier_one_is_not_held),
    };

    setenv("ACLMEM_LAYERS", "check", 1);
    alarm(LIMIT_S);
    return run_claims(claims);
}
