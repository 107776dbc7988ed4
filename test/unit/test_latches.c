/*
 * Latches of hooks that share the metadata (src/layer/shared.h), two threads at a time.
 *
 * The first thread stops inside its hook, where the hook allocates or asks the library about
 * a block.  Then the second thread makes a call that needs a latch of the first one.  It must
 * come to the loop that waits for a latch, which yields the processor: sched_yield() is this
 * test's.  If the second thread gets further, the latch does not exclude it.
 */
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>

#include "support/process.h"
#include "support/support.h"
#include "support/vmm.h"

#include "api/api.h"
#include "layer/layers.h"
#include "layer/order.h"
#include "layer/waits.h"

#define SIZE 4096
#define REGION_BITS 21 /* a latch is for 2 MB of addresses */

enum role { OTHER, FIRST, SECOND };

/* What the second thread did while the first one stood in its hook. */
enum outcome { NOTHING, WAITED_FOR_LATCH, WAITED_FOR_ALL, WAS_LET_IN };

static _Thread_local enum role role;

static struct {
    struct am_api below; /* the layer's, which asks for attributes in the free's hook */
    sem_t is_open;       /* the second thread can begin */
    sem_t may_begin;
    sem_t is_inside; /* the first thread stands in its hook, or its call has ended */
    sem_t may_go_on;
    bool was_inside; /* the first thread's */
    atomic_int outcome;
    void (*first)(void);
    void (*second)(void);
} t;

static void outcome_set(enum outcome outcome)
{
    int nothing = NOTHING;

    if (atomic_compare_exchange_strong(&t.outcome, &nothing, outcome))
        sem_post(&t.may_go_on);
}

static void await(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0)
        ;
}

/* A hook that shares the metadata allocates, or asks the library. */
static void hook_visit(void)
{
    if (role == OTHER || !am_thread_is_sharing())
        return;
    if (role == SECOND) {
        outcome_set(WAS_LET_IN);
    } else if (!t.was_inside) {
        t.was_inside = true;
        sem_post(&t.is_inside);
        await(&t.may_go_on);
    }
}

int __real_sched_yield(void);
int __wrap_sched_yield(void);

/* Only a thread that waits for another one yields. */
int __wrap_sched_yield(void)
{
    if (role == SECOND)
        outcome_set(am_thread_is_sharing() ? WAITED_FOR_LATCH : WAITED_FOR_ALL);
    return __real_sched_yield();
}

void *__real_am_meta_alloc(size_t size);
void *__wrap_am_meta_alloc(size_t size);

void *__wrap_am_meta_alloc(size_t size)
{
    hook_visit();
    return __real_am_meta_alloc(size);
}

void __wrap_am_waits_begin(struct am_call *call, struct am_awaited awaited);

/* No watcher: it runs alone every 200 ms, and would wait for the first thread. */
void __wrap_am_waits_begin(struct am_call *call, struct am_awaited awaited)
{
}

static aclError attributes(const void *at, aclrtPtrAttributes *ret_attributes)
{
    hook_visit();
    return am_api_core.aclrtPointerGetAttributes(at, ret_attributes);
}

/* ---- what the threads use ---- */

static struct {
    void *block[4]; /* in one region */
    aclrtStream stream[2];
    aclrtEvent event;
    struct block mapping;
    void *alias;   /* of the mapping */
    void *made[2]; /* by the first thread */
} x;

static void open_all(void)
{
    memset(&t, 0, sizeof t);
    start("default", "ACLMEM_LAYERS=check", "ACLMEM_CHECK=no-leak,no-race");
    t.below = am_api_core;
    t.below.aclrtPointerGetAttributes = attributes;
    am_api_top = am_stack_push(&am_check_layer, &t.below);
    sem_init(&t.is_open, 0, 0);
    sem_init(&t.may_begin, 0, 0);
    sem_init(&t.is_inside, 0, 0);
    sem_init(&t.may_go_on, 0, 0);
    assert_acl_ok(aclrtSetDevice(0));
    for (int i = 0; i < 4; i++) {
        assert_acl_ok(aclrtMalloc(&x.block[i], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
        assert_int_equal((uintptr_t)x.block[i] >> REGION_BITS,
                         (uintptr_t)x.block[0] >> REGION_BITS);
    }
    for (int i = 0; i < 2; i++)
        assert_acl_ok(aclrtCreateStream(&x.stream[i]));
    assert_acl_ok(aclrtCreateEvent(&x.event));
    x.mapping = block_create(2 * MIB);
    x.alias = reserve(2 * MIB);
    map(x.alias, 2 * MIB, x.mapping.handle);
}

static void close_all(void)
{
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_acl_ok(aclrtUnmapMem(x.alias));
    assert_acl_ok(aclrtReleaseMemAddress(x.alias));
    block_destroy(&x.mapping);
}

/* The first free of a thread opens its quarantine, alone. */
static const char *thread_open(void)
{
    void *block;

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtMalloc(&block, SIZE, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    worker_check(aclrtFree(block) == ACL_SUCCESS);
    return NULL;
}

static const char *first_main(struct worker *self)
{
    const char *failure = thread_open();

    worker_check(aclrtMalloc(&x.made[0], SIZE, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS);
    role = FIRST;
    if (failure == NULL)
        t.first();
    role = OTHER;
    sem_post(&t.is_inside); /* if the call did not stop */
    return failure;
}

static const char *second_main(struct worker *self)
{
    const char *failure = thread_open();

    sem_post(&t.is_open);
    await(&t.may_begin);
    role = SECOND;
    if (failure == NULL)
        t.second();
    outcome_set(WAS_LET_IN);
    role = OTHER;
    return failure;
}

static enum outcome outcome_of(void (*first)(void), void (*second)(void))
{
    struct worker a = {.run = first_main};
    struct worker b = {.run = second_main};

    open_all();
    t.first = first;
    t.second = second;
    assert_int_equal(worker_start(&b), 0);
    await(&t.is_open);
    assert_int_equal(worker_start(&a), 0);
    await(&t.is_inside);
    sem_post(&t.may_begin);
    assert_null(worker_join(&b));
    assert_null(worker_join(&a));
    assert_true(t.was_inside);
    close_all();
    return t.outcome;
}

/* ---- the calls ---- */

static void must(aclError rc)
{
    if (rc != ACL_SUCCESS)
        abort();
}

static void free_one(void)
{
    must(aclrtFree(x.block[0]));
}

static void free_another(void)
{
    must(aclrtFree(x.block[1]));
}

static void make_one(void)
{
    must(aclrtMalloc(&x.made[1], SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
}

static void free_made(void)
{
    must(aclrtFree(x.made[0]));
}

static void fill_one(void)
{
    must(aclrtMemsetAsync(x.block[0], SIZE, 1, SIZE, x.stream[0]));
}

static void fill_on_stream_0(void)
{
    must(aclrtMemsetAsync(x.mapping.va, SIZE, 1, SIZE, x.stream[0]));
}

static void fill_alias(void)
{
    must(aclrtMemsetAsync(x.alias, SIZE, 1, SIZE, x.stream[1]));
}

static void record_0(void)
{
    must(aclrtRecordEvent(x.event, x.stream[0]));
}

static void record_1(void)
{
    must(aclrtRecordEvent(x.event, x.stream[1]));
}

static void sync_0(void)
{
    must(aclrtSynchronizeStream(x.stream[0]));
}

static void make_event(void)
{
    aclrtEvent event;

    must(aclrtCreateEvent(&event));
}

/* ---- the claims ---- */

static void frees_in_a_region_exclude_each_other(void **state)
{
    assert_int_equal(outcome_of(free_one, free_another), WAITED_FOR_LATCH);
}

static void a_new_block_excludes_a_free_in_the_region(void **state)
{
    enum outcome outcome = outcome_of(make_one, free_made);

    assert_int_equal((uintptr_t)x.made[0] >> REGION_BITS,
                     (uintptr_t)x.made[1] >> REGION_BITS);
    assert_int_equal(outcome, WAITED_FOR_LATCH);
}

static void work_on_a_block_excludes_a_free_in_the_region(void **state)
{
    assert_int_equal(outcome_of(fill_one, free_another), WAITED_FOR_LATCH);
}

static void work_through_two_mappings_excludes_each_other(void **state)
{
    assert_int_equal(outcome_of(fill_on_stream_0, fill_alias), WAITED_FOR_LATCH);
}

static void records_of_an_event_exclude_each_other(void **state)
{
    assert_int_equal(outcome_of(record_0, record_1), WAITED_FOR_LATCH);
}

static void a_wait_for_a_stream_excludes_work_on_it(void **state)
{
    assert_int_equal(outcome_of(sync_0, fill_on_stream_0), WAITED_FOR_LATCH);
}

static void a_hook_that_runs_alone_waits_for_a_hook_that_shares(void **state)
{
    assert_int_equal(outcome_of(free_one, make_event), WAITED_FOR_ALL);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(frees_in_a_region_exclude_each_other),
        claim_alone(a_new_block_excludes_a_free_in_the_region),
        claim_alone(work_on_a_block_excludes_a_free_in_the_region),
        claim_alone(work_through_two_mappings_excludes_each_other),
        claim_alone(records_of_an_event_exclude_each_other),
        claim_alone(a_wait_for_a_stream_excludes_work_on_it),
        claim_alone(a_hook_that_runs_alone_waits_for_a_hook_that_shares),
    };

    return run_claims(claims);
}
