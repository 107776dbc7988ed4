/* As many streams as a product has, all with work, on a few threads. */
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <string.h>

enum { N = 1984, SLOT = 4096, FEW_THREADS = 24 };

static struct {
    aclrtStream streams[N];
    aclrtEvent events[N];
    struct block memory; /* a slot for each */
} t;

static char *slot(unsigned i)
{
    return t.memory.va + (size_t)i * SLOT;
}

static void make_all(bool are_plain)
{
    t.memory = block_create(4 * CHUNK);
    for (unsigned i = 0; i < N; i++) {
        assert_acl_ok(aclrtCreateStreamWithConfig(&t.streams[i], i % 8, 0));
        assert_acl_ok(are_plain
                          ? aclrtCreateEvent(&t.events[i])
                          : aclrtCreateEventExWithFlag(&t.events[i], ACL_EVENT_SYNC));
    }
}

static void end_all(void)
{
    for (unsigned i = 0; i < N; i++) {
        assert_acl_ok(aclrtDestroyStream(t.streams[i]));
        assert_acl_ok(aclrtDestroyEvent(t.events[i]));
    }
    block_destroy(&t.memory);
}

/* Stream i takes what stream i - 1 left, and says when it has. */
static void queue_link(unsigned i)
{
    if (i > 0) {
        assert_acl_ok(aclrtStreamWaitEvent(t.streams[i], t.events[i - 1]));
        assert_acl_ok(aclrtMemcpyAsync(slot(i), SLOT, slot(i - 1), SLOT,
                                       ACL_MEMCPY_DEVICE_TO_DEVICE, t.streams[i]));
    }
    assert_acl_ok(aclrtRecordEvent(t.events[i], t.streams[i]));
}

static void a_chain_through_all_streams_arrives(void **state)
{
    struct gate gate = GATE_INIT;

    make_all(false);
    put_pattern(slot(0), SLOT, 7);
    hold(t.streams[0], &gate);
    for (unsigned i = 0; i < N; i++)
        queue_link(i);
    assert_in_range(n_threads(), 1, FEW_THREADS);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(t.streams[N - 1]));
    assert_pattern(slot(N - 1), SLOT, 7);
    assert_in_range(n_threads(), 1, FEW_THREADS);
    end_all();
}

/* All but the first are parked before there is anything to do. */
static void a_chain_that_is_queued_from_its_end_arrives_too(void **state)
{
    make_all(true);
    put_pattern(slot(0), SLOT, 8);
    for (unsigned i = N; i-- > 0;)
        queue_link(i);
    assert_acl_ok(aclrtSynchronizeStream(t.streams[N - 1]));
    assert_pattern(slot(N - 1), SLOT, 8);
    assert_in_range(n_threads(), 1, FEW_THREADS);
    end_all();
}

static void each_has_its_own_work(void **state)
{
    make_all(false);
    for (int round = 1; round <= 3; round++) {
        for (unsigned i = 0; i < N; i++)
            assert_acl_ok(aclrtMemsetAsync(slot(i), SLOT, round, SLOT, t.streams[i]));
    }
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_all_bytes(t.memory.va, (size_t)N * SLOT, 3);
    assert_in_range(n_threads(), 1, FEW_THREADS);
    end_all();
}

static void count(void *arg)
{
    __atomic_fetch_add((unsigned *)arg, 1, __ATOMIC_RELAXED);
}

static void short_host_functions_on_all_need_few_threads(void **state)
{
    struct gate gate = GATE_INIT;
    unsigned n = 0;

    make_all(false);
    hold(t.streams[0], &gate);
    assert_acl_ok(aclrtRecordEvent(t.events[0], t.streams[0]));
    for (unsigned i = 1; i < N; i++) { /* so that all are due at one moment */
        assert_acl_ok(aclrtStreamWaitEvent(t.streams[i], t.events[0]));
        assert_acl_ok(aclrtLaunchHostFunc(t.streams[i], count, &n));
    }
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_int_equal(__atomic_load_n(&n, __ATOMIC_RELAXED), N - 1);
    assert_in_range(n_threads(), 1, FEW_THREADS);
    end_all();
}

static void streams_come_and_go(void **state)
{
    struct block b = block_create(CHUNK);
    uint32_t before = 0, after = 0;

    assert_acl_ok(aclrtGetStreamAvailableNum(&before));
    for (unsigned i = 0; i < 2000; i++) {
        aclrtStream stream = NULL;

        assert_acl_ok(aclrtCreateStream(&stream));
        assert_acl_ok(aclrtMemsetAsync(b.va, SLOT, (int32_t)(i % 256), SLOT, stream));
        if (i % 3 == 0)
            assert_acl_ok(aclrtSynchronizeStream(stream));
        assert_acl_ok(aclrtDestroyStream(stream));
        assert_all_bytes(b.va, SLOT, (uint8_t)(i % 256));
    }
    assert_acl_ok(aclrtGetStreamAvailableNum(&after));
    assert_int_equal(before, after);
    assert_in_range(n_threads(), 1, FEW_THREADS);
    block_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(a_chain_through_all_streams_arrives),
        claim(a_chain_that_is_queued_from_its_end_arrives_too),
        claim(each_has_its_own_work),
        claim(short_host_functions_on_all_need_few_threads),
        claim_both(streams_come_and_go),
    };

    return run_claims(claims);
}
