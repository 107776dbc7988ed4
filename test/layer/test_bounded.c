/*
 * The memory of the layer check is bounded by what is live.
 *
 * The layer remembers at least the last 65,536 freed objects, and 16,512 more until it counts
 * the frees of each stripe (src/layer/objects.c), so these are made first.  Then a loop must
 * not grow the heap by 32 bytes for each turn, round after round.  One round may: on a busy machine the
 * library starts more threads for host functions, which stay, and malloc has an arena for each.
 */
#include <malloc.h>
#include <stdlib.h>

#include "support/support.h"

#define N_FREED (65536 + 64 * 258)
#define N 2000
#define ROUNDS 4
#define LIMIT ((size_t)32 * N)
#define BIG ((size_t)1 << 20)

static void nothing(void *arg)
{
}

static size_t heap_bytes(void)
{
    assert_acl_ok(aclrtSynchronizeDevice());
    return mallinfo2().uordblks;
}

static void history_fill(void)
{
    aclrtEvent event;

    for (int i = 0; i < N_FREED + 16; i++) {
        assert_acl_ok(aclrtCreateEvent(&event));
        assert_acl_ok(aclrtDestroyEvent(event));
    }
}

static void bounded(void (*turn)(int i))
{
    size_t before;
    size_t after;
    int n_rounds = 0;

    for (int i = 0; i < N / 4; i++)
        turn(i);
    do {
        before = heap_bytes();
        for (int i = 0; i < N; i++)
            turn(i);
        after = heap_bytes();
    } while (after > before + LIMIT && ++n_rounds < ROUNDS);
    if (after > before + LIMIT)
        fail_msg("%zu bytes before, %zu after %d turns", before, after, N);
}

/* ---- what is made and ended ---- */

static void context_turn(int i)
{
    aclrtContext context;
    aclrtContext first;
    void *block;

    assert_acl_ok(aclrtGetCurrentContext(&first));
    assert_acl_ok(aclrtCreateContext(&context, 0));
    assert_acl_ok(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMemsetAsync(block, 64, 1, 64, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_acl_ok(aclrtFree(block));
    assert_acl_ok(aclrtDestroyContext(context));
    assert_acl_ok(aclrtSetCurrentContext(first));
}

static void contexts_that_end(void **state)
{
    bounded(context_turn);
}

/* A pinned block stays in quarantine while only other objects are freed. */
static void event_turn(int i)
{
    aclrtEvent event;

    assert_acl_ok(aclrtCreateEvent(&event));
    assert_acl_ok(aclrtDestroyEvent(event));
}

static void frees_behind_a_quarantined_block(void **state)
{
    void *pinned;

    assert_acl_ok(aclrtMallocHost(&pinned, 64));
    assert_acl_ok(aclrtFreeHost(pinned));
    history_fill();
    bounded(event_turn);
}

static void *block;
static aclrtStream stream;

static void range_turn(int i)
{
    char *at = (char *)block + (size_t)i % (BIG / 128) * 128;

    assert_acl_ok(aclrtMemsetAsync(at, 64, 1, 64, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
}

static void ranges_that_are_synchronised(void **state)
{
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtMalloc(&block, BIG, ACL_MEM_MALLOC_HUGE_FIRST));
    bounded(range_turn);
    assert_acl_ok(aclrtFree(block));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void function_turn(int i)
{
    assert_acl_ok(aclrtLaunchHostFunc(stream, nothing, NULL));
    if (i % 2 == 0)
        assert_acl_ok(aclrtSynchronizeStream(stream));
    else
        assert_acl_ok(aclrtStreamAbort(stream));
}

static void functions_that_ran_or_were_aborted(void **state)
{
    assert_acl_ok(aclrtCreateStream(&stream));
    bounded(function_turn);
    assert_acl_ok(aclrtDestroyStream(stream));
}

static aclrtEvent event;

static void record_turn(int i)
{
    assert_acl_ok(aclrtRecordEvent(event, stream));
    assert_acl_ok(aclrtStreamWaitEvent(NULL, event));
    assert_acl_ok(aclrtValueWrite(block, (uint64_t)i, 0, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
}

static void records_of_one_event(void **state)
{
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtCreateEvent(&event));
    assert_acl_ok(aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    bounded(record_turn);
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtFree(block));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void cycle_turn(int i)
{
    void *held;

    if (i % 100 != 0)
        return;
    assert_acl_ok(aclrtMalloc(&held, 64, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMemsetAsync(held, 64, 1, 64, NULL));
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_acl_ok(aclrtFree(held));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl_ok(aclFinalize());
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclrtSetDevice(0));
}

/* One turn of 100 is a cycle, so the limit is 3,200 bytes for each. */
static void cycles_of_start_and_stop(void **state)
{
    bounded(cycle_turn);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(contexts_that_end),
        cmocka_unit_test(frees_behind_a_quarantined_block),
        cmocka_unit_test(ranges_that_are_synchronised),
        cmocka_unit_test(functions_that_ran_or_were_aborted),
        cmocka_unit_test(records_of_one_event),
        cmocka_unit_test(cycles_of_start_and_stop),
    };
    int rc;

    setenv("ACLMEM_LAYERS", "check", 1);
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
        return 1;
    history_fill();
    rc = cmocka_run_group_tests(tests, NULL, NULL);
    (void)aclrtResetDevice(0);
    (void)aclFinalize();
    return rc;
}
