/*
 * Many threads that make, use and end the same streams and events, while devices are
 * reset.  A call may find what it needs gone and say so; nothing else may happen, and in
 * the end all is accounted for.
 */
#include "support/process.h"
#include "support/vmm.h"
#include "support/work.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    N_THREADS = 6,
    ROUNDS = 2000,
    N_STREAMS = 8,
    N_EVENTS = 8,
    SLOT = 512,
    N_SLOTS = 4096
};

/*
 * Two slots of memory go with each stream ever made, so that no two streams write the
 * same one.
 */
struct owned {
    aclrtStream stream;
    unsigned slot;
    struct owned *next; /* of those that are freed in the end */
};

struct shared {
    _Atomic(struct owned *) streams[N_STREAMS];
    _Atomic(void *) events[N_EVENTS];
    _Atomic(struct owned *) all;
    atomic_uint n_made;
    int32_t device;
    char *memory;
    atomic_bool is_over;
    atomic_uint n_functions;
};

static uint64_t random_next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed >> 8;
}

static void count(void *arg)
{
    atomic_fetch_add((atomic_uint *)arg, 1);
}

/* What a call on something that another thread may end answers. */
static bool is_fair(aclError rc)
{
    const aclError fair[] = {
        ACL_SUCCESS,
        ACL_ERROR_RT_INVALID_HANDLE,
        ACL_ERROR_RT_CONTEXT_NULL,
        ACL_ERROR_RT_STREAM_CONTEXT,
        ACL_ERROR_RT_PARAM_INVALID, /* memory that a reset took */
        ACL_ERROR_RT_STREAM_SYNC_TIMEOUT,
        ACL_ERROR_RT_EVENT_SYNC_TIMEOUT,
        ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID,
        ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL,
        ACL_ERROR_RT_STREAM_NO_CB_REG,
        ACL_ERROR_RT_STREAM_ABORT, /* a record was dropped */
    };

    for (size_t i = 0; i < sizeof(fair) / sizeof(fair[0]); i++) {
        if (rc == fair[i])
            return true;
    }
    return false;
}

/* A new one in the place of the old one, which is destroyed. */
static aclError renew_stream(struct shared *s, unsigned i, bool is_forced)
{
    struct owned *made = calloc(1, sizeof(*made)), *old;
    aclError rc;

    if (made == NULL)
        abort();
    made->slot = atomic_fetch_add(&s->n_made, 1) % (N_SLOTS / 2) * 2;
    made->next = atomic_load(&s->all);
    while (!atomic_compare_exchange_weak(&s->all, &made->next, made))
        ;
    rc = aclrtCreateStream(&made->stream);
    if (rc != ACL_SUCCESS)
        return rc;
    old = atomic_exchange(&s->streams[i], made);
    if (old == NULL)
        return ACL_SUCCESS;
    return is_forced ? aclrtDestroyStreamForce(old->stream)
                     : aclrtDestroyStream(old->stream);
}

static aclError renew_event(_Atomic(void *) *place)
{
    aclrtEvent made = NULL;
    aclError rc = aclrtCreateEventExWithFlag(&made, ACL_EVENT_SYNC | ACL_EVENT_TIME_LINE);
    void *old;

    if (rc != ACL_SUCCESS)
        return rc;
    old = atomic_exchange(place, made);
    return old == NULL ? ACL_SUCCESS : aclrtDestroyEvent(old);
}

static aclError ask(struct shared *s, uint64_t dice, aclrtStream stream, aclrtEvent event)
{
    aclrtEventRecordedStatus recorded;
    aclrtStreamStatus status;
    uint32_t number;
    float ms;

    switch (dice % 5) {
    case 0:
        return aclrtStreamQuery(stream, &status);
    case 1:
        return aclrtQueryEventStatus(event, &recorded);
    case 2:
        return aclrtGetStreamAvailableNum(&number);
    case 3:
        return aclrtEventElapsedTime(&ms, event, s->events[dice % N_EVENTS]);
    default:
        return aclrtStreamGetPriority(stream, &number);
    }
}

static aclError wait(uint64_t dice, aclrtStream stream, aclrtEvent event)
{
    switch (dice % 4) {
    case 0:
        return aclrtSynchronizeStream(stream);
    case 1:
        return aclrtSynchronizeStreamWithTimeout(stream, 1);
    case 2:
        return aclrtSynchronizeEventWithTimeout(event, 1000);
    default:
        return aclrtSynchronizeDeviceWithTimeout(1000);
    }
}

static aclError submit(struct shared *s, uint64_t dice, struct owned *owned,
                       aclrtEvent event)
{
    char *to = s->memory + owned->slot * SLOT, *from = to + SLOT;
    aclrtStream stream = owned->stream;

    switch (dice % 6) {
    case 0:
        return aclrtMemcpyAsync(to, SLOT, from, SLOT, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                stream);
    case 1:
        return aclrtMemsetAsync(to, SLOT, 1, SLOT, stream);
    case 2:
    case 3:
        return aclrtRecordEvent(event, stream);
    case 4:
        return aclrtStreamWaitEvent(stream, event);
    default:
        return aclrtLaunchHostFunc(stream, count, &s->n_functions);
    }
}

static aclError do_any(struct shared *s, uint64_t dice)
{
    uint64_t rest = dice / 100;
    unsigned i = (unsigned)(rest % N_STREAMS), e = (unsigned)(rest / 8 % N_EVENTS);
    struct owned *owned = s->streams[i];
    aclrtStream stream = rest % 16 == 0 ? NULL : owned->stream;
    aclrtEvent event = s->events[e];

    switch (dice % 100) {
    case 0 ... 1:
        return renew_stream(s, i, dice % 2 == 0);
    case 2 ... 3:
        return renew_event(&s->events[e]);
    case 4:
        return aclrtStreamAbort(stream);
    case 5:
        return aclrtStreamStop(stream);
    case 6:
        return aclrtDeviceTaskAbort(s->device, 0);
    case 7 ... 24:
        return ask(s, rest, stream, event);
    case 25 ... 39:
        return wait(rest, stream, event);
    default:
        return submit(s, rest, owned, event);
    }
}

/* Another thread's reset takes the context away; it is set again, as a program would. */
static const char *use(struct worker *self)
{
    uint64_t seed = 88172645463325252u + self->index * 7919;
    struct shared *s = self->shared;

    for (unsigned i = 0; i < ROUNDS; i++) {
        aclrtContext context = NULL;

        (void)aclrtGetCurrentContext(&context);
        if (context == NULL)
            worker_check(aclrtSetDevice(s->device) == ACL_SUCCESS);
        worker_check(is_fair(do_any(s, random_next(&seed))));
    }
    return NULL;
}

static void end_all(struct shared *s)
{
    for (int i = 0; i < N_STREAMS; i++) {
        struct owned *owned = atomic_exchange(&s->streams[i], NULL);

        if (owned != NULL)
            (void)aclrtDestroyStream(owned->stream);
    }
    while (s->all != NULL) {
        struct owned *next = atomic_load(&s->all)->next;

        free(s->all);
        s->all = next;
    }
    for (int i = 0; i < N_EVENTS; i++) {
        void *event = atomic_exchange(&s->events[i], NULL);

        if (event != NULL)
            (void)aclrtDestroyEvent(event);
    }
}

static void make_all(struct shared *s, int32_t device)
{
    memset(s, 0, sizeof(*s));
    s->device = device;
    assert_acl_ok(aclrtSetDevice(device));
    for (unsigned i = 0; i < N_STREAMS; i++)
        assert_acl_ok(renew_stream(s, i, false));
    for (int i = 0; i < N_EVENTS; i++)
        assert_acl_ok(renew_event(&s->events[i]));
}

static void assert_all_are_gone(void)
{
    uint32_t n = 0;

    assert_acl_ok(aclrtGetStreamAvailableNum(&n));
    assert_int_equal(n, 1984);
    assert_acl_ok(aclrtGetEventAvailNum(&n));
    assert_int_equal(n, 65536);
}

static void use_together(struct shared *s)
{
    struct worker workers[N_THREADS];

    for (unsigned i = 0; i < N_THREADS; i++)
        workers[i] = (struct worker){.run = use, .shared = s};
    assert_ptr_equal(run_workers(workers, N_THREADS), NULL);
}

static void threads_share_streams_and_events(void **state)
{
    static struct shared s;
    struct block b = block_create(CHUNK);

    make_all(&s, 0);
    s.memory = b.va;
    use_together(&s);
    (void)aclrtSynchronizeDevice(); /* a failure that nobody asked about may be left */
    end_all(&s);
    assert_all_are_gone();
    block_destroy(&b);
    assert_acl_ok(aclrtResetDevice(0)); /* the threads' own aclrtSetDevice */
    allow_warnings();                   /* streams that ended with a failure */
}

static void so_they_do_in_chaos(void **state)
{
    start("default", "ACLMEM_CHAOS=11");
    assert_acl_ok(aclrtSetDevice(0));
    threads_share_streams_and_events(state);
}

/* ---- with resets ---- */

static const char *reset_now_and_then(struct worker *self)
{
    struct shared *s = self->shared;

    for (unsigned i = 0; i < ROUNDS && !atomic_load(&s->is_over); i++) {
        worker_check(aclrtSetDevice(s->device) == ACL_SUCCESS);
        worker_check(is_fair(aclrtResetDeviceForce(s->device)));
        for (int j = 0; j < 20; j++)
            sched_yield();
    }
    return NULL;
}

static void a_device_is_reset_under_all_that(void **state)
{
    static struct shared s;
    struct worker resetter = {.run = reset_now_and_then, .shared = &s};
    struct block b = block_create(CHUNK); /* of device 0, so that it stays */

    make_all(&s, 1);
    s.memory = b.va;
    assert_int_equal(worker_start(&resetter), 0);
    use_together(&s);
    atomic_store(&s.is_over, true);
    assert_ptr_equal(worker_join(&resetter), NULL);
    assert_acl_ok(aclrtSetDevice(1));
    end_all(&s);
    assert_acl_ok(
        aclrtResetDeviceForce(1)); /* a handle may have been left behind by a reset */
    assert_acl_ok(aclrtSetDevice(1));
    assert_all_are_gone();
    assert_acl_ok(aclrtSetDevice(0));
    block_destroy(&b);
    allow_warnings();
}

/* ---- contexts that end ---- */

static const char *make_and_end_contexts(struct worker *self)
{
    for (unsigned i = 0; i < ROUNDS / 10; i++) {
        aclrtContext context = NULL;
        aclrtStream stream = NULL;
        atomic_uint n = 0;

        worker_check(aclrtCreateContext(&context, 0) == ACL_SUCCESS);
        worker_check(aclrtCreateStream(&stream) == ACL_SUCCESS);
        worker_check(aclrtLaunchHostFunc(stream, count, &n) == ACL_SUCCESS);
        worker_check(aclrtLaunchHostFunc(NULL, count, &n) == ACL_SUCCESS);
        worker_check(aclrtDestroyContext(context) == ACL_SUCCESS);
        worker_check(atomic_load(&n) == 2);
    }
    return NULL;
}

static void contexts_come_and_go_with_their_streams(void **state)
{
    struct worker workers[N_THREADS];

    for (unsigned i = 0; i < N_THREADS; i++)
        workers[i] = (struct worker){.run = make_and_end_contexts};
    assert_ptr_equal(run_workers(workers, N_THREADS), NULL);
    assert_all_are_gone();
}

struct ending {
    aclrtContext context;
    atomic_uint n_made;
};

static const char *make_until_it_ends(struct worker *self)
{
    struct ending *ending = self->shared;
    aclError rc = aclrtSetCurrentContext(ending->context);

    while (rc == ACL_SUCCESS) {
        aclrtStream stream = NULL;

        rc = aclrtCreateStream(&stream);
        atomic_fetch_add(&ending->n_made, 1);
    }
    worker_check(rc == ACL_ERROR_RT_CONTEXT_NULL || rc == ACL_ERROR_RT_INVALID_HANDLE ||
                 rc == ACL_ERROR_RT_NO_STREAM_RESOURCE);
    return NULL;
}

/* Whatever the moment: no stream is left whose context nobody can make current any more. */
static void streams_made_while_their_context_ends_end_too(void **state)
{
    for (unsigned i = 0; i < ROUNDS / 20; i++) {
        struct ending ending = {.n_made = 0};
        struct worker workers[3];

        assert_acl_ok(aclrtCreateContext(&ending.context, 0));
        for (unsigned j = 0; j < 3; j++) {
            workers[j] = (struct worker){.run = make_until_it_ends, .shared = &ending};
            assert_int_equal(worker_start(&workers[j]), 0);
        }
        while (atomic_load(&ending.n_made) < 10)
            sched_yield();
        assert_acl_ok(aclrtDestroyContext(ending.context));
        for (unsigned j = 0; j < 3; j++)
            assert_ptr_equal(worker_join(&workers[j]), NULL);
        assert_acl_ok(aclrtSetDevice(0));
        assert_all_are_gone();
    }
    for (unsigned i = 0; i < ROUNDS / 20; i++)
        assert_acl_ok(aclrtResetDevice(0));
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

static void callbacks_come_from_many_streams(void **state)
{
    struct gate gate = GATE_INIT;
    struct worker reporters[3];
    aclrtStream streams[9];
    atomic_uint n = 0;

    for (unsigned i = 0; i < 3; i++) {
        reporters[i] = (struct worker){.run = report, .shared = &gate, .index = i};
        assert_int_equal(worker_start(&reporters[i]), 0);
    }
    for (unsigned i = 0; i < 9; i++) {
        assert_acl_ok(aclrtCreateStream(&streams[i]));
        assert_acl_ok(
            aclrtSubscribeReport((uint64_t)reporters[i % 3].thread, streams[i]));
    }
    gate_open(&gate);
    for (unsigned i = 0; i < ROUNDS; i++)
        assert_acl_ok(aclrtLaunchCallback(
            count, &n, i % 4 == 0 ? ACL_CALLBACK_NO_BLOCK : ACL_CALLBACK_BLOCK,
            streams[i % 9]));
    assert_acl_ok(aclrtSynchronizeDevice());
    for (unsigned i = 0; i < 9; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
    for (unsigned i = 0; i < 3; i++)
        assert_ptr_equal(worker_join(&reporters[i]), NULL);
    assert_int_equal(atomic_load(&n), ROUNDS);
}

/* ---- the library stops ---- */

static const char *use_until_the_end(struct worker *self)
{
    uint64_t seed = 1442695040888963407u + self->index * 104729;
    struct shared *s = self->shared;
    aclError rc = aclrtSetDevice(0);

    for (unsigned i = 0; i < 10 * ROUNDS && rc != ACL_ERROR_UNINITIALIZE; i++) {
        worker_check(is_fair(rc));
        rc = do_any(s, random_next(&seed));
    }
    return NULL;
}

static void the_library_stops_under_all_that(void **state)
{
    static struct shared s;

    for (int i = 0; i < 5; i++) {
        struct worker workers[N_THREADS];
        struct block b;

        start("default");
        make_all(&s, 0);
        b = block_create(CHUNK);
        s.memory = b.va;
        for (unsigned j = 0; j < N_THREADS; j++) {
            workers[j] =
                (struct worker){.run = use_until_the_end, .shared = &s, .index = j};
            assert_int_equal(worker_start(&workers[j]), 0);
        }
        while (atomic_load(&s.n_functions) < 20)
            sched_yield();
        assert_acl_ok(aclFinalize());
        for (unsigned j = 0; j < N_THREADS; j++)
            assert_ptr_equal(worker_join(&workers[j]), NULL);
        end_all(&s);
        allow_warnings();
    }
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(threads_share_streams_and_events),
        claim_alone(so_they_do_in_chaos),
        claim_both(a_device_is_reset_under_all_that),
        claim_both(contexts_come_and_go_with_their_streams),
        claim_both(streams_made_while_their_context_ends_end_too),
        claim_both(callbacks_come_from_many_streams),
        claim_alone(the_library_stops_under_all_that),
    };

    return run_claims(claims);
}
