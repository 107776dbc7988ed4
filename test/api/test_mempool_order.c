/* Stream-ordered memory pools: in which order streams use, free and reuse memory. */
#include "support/pools.h"
#include "support/process.h"
#include "support/streams.h"
#include "support/vmm.h"
#include "support/work.h"

#include <string.h>

/* ---- order ---- */

static void the_same_stream_gets_a_block_again_at_once(void **state)
{
    aclrtStream stream = make_stream();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, stream), *b;
    struct gate *gate = gate_close(stream);

    assert_acl_ok(aclrtMemsetAsync(a, 8 * MIB, 1, 8 * MIB, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, stream));
    b = take(pool, 4 * MIB, stream);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemsetAsync(b, 4 * MIB, 2, 4 * MIB, stream));
    gate_end(gate);
    assert_all_bytes(b, 4 * MIB, 2); /* in the order of the stream */
    assert_acl_ok(aclrtMemPoolFreeAsync(b, stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/* Two blocks that were freed apart are one block's worth for the stream. */
static void neighbours_that_a_stream_freed_are_one(void **state)
{
    aclrtStream stream = make_stream();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 3 * MIB, stream), *b = take(pool, 2 * MIB, stream);
    char *c = take(pool, 3 * MIB, stream), *all;
    struct gate *gate = gate_close(stream);

    assert_acl_ok(aclrtMemPoolFreeAsync(c, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(b, stream));
    all = take(pool, 8 * MIB, stream);
    gate_end(gate);
    assert_acl_ok(aclrtMemset(all, 8 * MIB, 1, 8 * MIB));
    assert_acl_ok(aclrtMemPoolFreeAsync(all, stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/* The one was freed long ago, the other by a free that the stream has not got to. */
static void neighbours_for_different_users_are_one_for_a_stream(void **state)
{
    aclrtStream one = make_stream(), two = make_stream();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 4 * MIB, one), *b = take(pool, 4 * MIB, two), *all;
    struct gate *gate;

    keep_memory(pool);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    assert_acl_ok(aclrtSynchronizeStream(one));
    gate = gate_close(two);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    all = take(pool, 8 * MIB, two);
    assert_ptr_equal(all, a);
    gate_end(gate);
    put_pattern(all, 8 * MIB, 1);
    assert_pattern(all, 8 * MIB, 1);
    assert_acl_ok(aclrtMemPoolFreeAsync(all, two));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtDestroyStream(two));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void another_stream_gets_a_block_when_the_free_is_done(void **state)
{
    aclrtStream one = make_stream(), two = make_stream();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, one), *b = NULL;
    struct gate *gate;

    keep_memory(pool);
    set_switches(pool, 0, 1, 0);
    gate = gate_close(one);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    assert_refused(aclrtMemPoolMallocAsync((void **)&b, MIB, pool, two),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "not yet freed");
    gate_end(gate);
    b = take(pool, 8 * MIB, two);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtDestroyStream(two));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/*
 * With all switches off a block's place goes to another stream only when the program has
 * synchronised.
 */
static void without_switches_only_synchronising_helps(void **state)
{
    aclrtStream one = make_stream(), two = make_stream();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, one), *b;
    aclrtStreamStatus status = ACL_STREAM_STATUS_NOT_READY;

    keep_memory(pool);
    set_switches(pool, 0, 0, 0);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    while (status == ACL_STREAM_STATUS_NOT_READY)
        assert_acl_ok(aclrtStreamQuery(one, &status));
    b = take(pool, 8 * MIB, two);
    assert_ptr_not_equal(b, a);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    status = ACL_STREAM_STATUS_NOT_READY;
    while (status == ACL_STREAM_STATUS_NOT_READY)
        assert_acl_ok(aclrtStreamQuery(two, &status));
    a = take(pool, 8 * MIB, one);
    assert_ptr_not_equal(a, b);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    assert_acl_ok(aclrtSynchronizeStream(one));
    b = take(pool, 8 * MIB, two);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    assert_acl_ok(aclrtDestroyStream(two)); /* and destroying a stream waits for it */
    a = take(pool, 8 * MIB, one);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void another_stream_may_wait_for_a_free(void **state)
{
    aclrtStream one = make_stream(), two = make_stream();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, one), *b;
    struct gate *gate;

    set_switches(pool, 0, 0, 1);
    gate = gate_close(one);
    assert_acl_ok(aclrtMemsetAsync(a, 8 * MIB, 1, 8 * MIB, one));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, one));
    b = take(pool, 6 * MIB, two);
    assert_ptr_equal(b, a);
    assert_acl_ok(aclrtMemsetAsync(b, 6 * MIB, 2, 6 * MIB, two));
    assert_acl(aclrtSynchronizeStreamWithTimeout(two, 20),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_message_has("aclrtMemPoolMallocAsync");
    gate_end(gate);
    assert_acl_ok(aclrtSynchronizeStream(two));
    assert_all_bytes(b, 6 * MIB, 2);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtDestroyStream(two));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void a_block_may_be_freed_on_another_stream(void **state)
{
    aclrtStream one = make_stream(), two = make_stream();
    aclrtMemPool pool = pool_create(8 * MIB);
    char *a = take(pool, 8 * MIB, one);
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    assert_acl_ok(aclrtMemsetAsync(a, 8 * MIB, 1, 8 * MIB, one));
    assert_acl_ok(aclrtRecordEvent(event, one));
    assert_acl_ok(aclrtStreamWaitEvent(two, event));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, two));
    a = take(pool, 8 * MIB, two);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, two));
    assert_acl_ok(aclrtSynchronizeStream(two));
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtDestroyStream(one));
    assert_acl_ok(aclrtDestroyStream(two));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

static void an_aborted_stream_has_freed_too(void **state)
{
    aclrtStream stream = make_stream(), other = make_stream();
    aclrtMemPool pool = pool_create(8 * MIB);
    struct block b = block_create(CHUNK);
    char *a = take(pool, 8 * MIB, stream);

    assert_acl_ok(aclrtValueWait(b.va, 1, ACL_STREAM_WAIT_VALUE_EQ, stream));
    assert_acl_ok(aclrtMemPoolFreeAsync(a, stream));
    assert_acl_ok(aclrtStreamAbort(stream));
    a = take(pool, 8 * MIB, other);
    assert_acl_ok(aclrtMemPoolFreeAsync(a, other));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclrtDestroyStream(other));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
    block_destroy(&b);
}

/* ---- work before a free ---- */

/* A copy of `size` bytes into a block by way of a descriptor, on a stream that stands. */
struct late_copy {
    struct block b; /* the descriptor, and in the second chunk the source */
    aclrtStream stream;
    aclrtMemPool pool;
    char *block;
    struct gate *gate;
};

static struct late_copy late_copy_queue(size_t size)
{
    struct late_copy late = {.b = block_create(2 * CHUNK),
                             .stream = make_stream(),
                             .pool = pool_create(8 * MIB)};

    keep_memory(late.pool);
    put_pattern(late.b.va + CHUNK, size, 1);
    late.block = take(late.pool, size, late.stream);
    assert_acl_ok(aclrtSetMemcpyDesc(late.b.va, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
                                     late.b.va + CHUNK, late.block, size, NULL));
    late.gate = gate_close(late.stream);
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(late.b.va, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
                                           late.stream));
    return late;
}

static void late_copy_end(struct late_copy *late)
{
    assert_acl_ok(aclrtDestroyStream(late->stream));
    block_destroy(&late->b);
}

/* The addresses are read when the stream gets there: then the block is there still. */
static void a_descriptor_queued_before_a_free_finds_its_block(void **state)
{
    struct late_copy late = late_copy_queue(MIB);
    char *again;

    assert_acl_ok(aclrtMemPoolFreeAsync(late.block, late.stream));
    gate_end(late.gate);
    again = take(late.pool, MIB, late.stream);
    assert_ptr_equal(again, late.block);
    assert_pattern(again, MIB, 1); /* and it was written */
    assert_acl_ok(aclrtMemPoolFreeAsync(again, late.stream));
    assert_acl_ok(aclrtMemPoolDestroy(late.pool));
    late_copy_end(&late);
}

static void a_descriptor_queued_after_a_free_does_not(void **state)
{
    struct late_copy late = late_copy_queue(MIB);

    assert_acl_ok(aclrtMemPoolFreeAsync(late.block, late.stream));
    assert_acl_ok(aclrtMemcpyAsyncWithDesc(late.b.va, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE,
                                           late.stream));
    gate_end_to(late.gate, ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has("a memory pool");
    assert_acl_ok(aclrtMemPoolDestroy(late.pool));
    late_copy_end(&late);
}

/* What the stream is given next has the same place, and is smaller. */
static void work_before_a_free_reaches_as_far_as_its_block_did(void **state)
{
    struct late_copy late = late_copy_queue(MIB);
    char *next;

    assert_acl_ok(aclrtMemPoolFreeAsync(late.block, late.stream));
    next = take(late.pool, 640 * KIB, late.stream);
    assert_ptr_equal(next, late.block);
    gate_end(late.gate);
    assert_pattern(next, 640 * KIB, 1);
    assert_acl_ok(aclrtMemPoolFreeAsync(next, late.stream));
    assert_acl_ok(aclrtMemPoolDestroy(late.pool));
    late_copy_end(&late);
}

static void work_before_a_free_outlives_its_pool(void **state)
{
    struct late_copy late = late_copy_queue(MIB);
    size_t free = free_memory();

    assert_acl_ok(aclrtMemPoolFreeAsync(late.block, late.stream));
    assert_acl_ok(aclrtMemPoolDestroy(late.pool));
    assert_int_equal(free_memory(), free);
    gate_end(late.gate);
    assert_int_equal(free_memory(), free + CHUNK);
    assert_refused(aclrtMemPoolFreeAsync(late.block, late.stream),
                   ACL_ERROR_RT_PARAM_INVALID, "");
    late_copy_end(&late);
}

/* The stream of the free waits for the work by an event. */
static void work_before_a_free_may_be_on_another_stream(void **state)
{
    struct late_copy late = late_copy_queue(MIB);
    aclrtStream other = make_stream();
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    assert_acl_ok(aclrtRecordEvent(event, late.stream));
    assert_acl_ok(aclrtStreamWaitEvent(other, event));
    assert_acl_ok(aclrtMemPoolFreeAsync(late.block, other));
    gate_end(late.gate);
    assert_acl_ok(aclrtSynchronizeStream(other));
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtDestroyStream(other));
    assert_acl_ok(aclrtMemPoolDestroy(late.pool));
    late_copy_end(&late);
}

struct kernel {
    void *block;
    aclError rc;
};

/* Code that plays the part of a kernel. */
static void kernel_run(void *argument)
{
    struct kernel *kernel = argument;
    void *view = NULL;

    kernel->rc = aclmem_host_view(kernel->block, MIB, &view);
    if (kernel->rc != ACL_SUCCESS)
        return;
    memset(view, 7, MIB);
    kernel->rc = aclmem_host_view_end(view);
}

static void a_kernel_before_a_free_finds_its_block(void **state)
{
    struct late_copy late = late_copy_queue(MIB);
    struct kernel kernel = {.block = late.block, .rc = -1};
    char *again;

    assert_acl_ok(aclrtLaunchHostFunc(late.stream, kernel_run, &kernel));
    assert_acl_ok(aclrtMemPoolFreeAsync(late.block, late.stream));
    gate_end(late.gate);
    assert_int_equal(kernel.rc, ACL_SUCCESS);
    again = take(late.pool, MIB, late.stream);
    assert_all_bytes(again, MIB, 7);
    assert_acl_ok(aclrtMemPoolFreeAsync(again, late.stream));
    assert_acl_ok(aclrtMemPoolDestroy(late.pool));
    late_copy_end(&late);
}

/* Nobody else gets the memory, and it is not given up, until the stream was there. */
static void memory_whose_free_is_queued_is_not_trimmed(void **state)
{
    struct late_copy late = late_copy_queue(MIB);

    assert_acl_ok(aclrtMemPoolFreeAsync(late.block, late.stream));
    assert_acl_ok(aclrtMemPoolTrimTo(late.pool, 0));
    assert_int_equal(reserved(late.pool), CHUNK);
    gate_end(late.gate);
    assert_acl_ok(aclrtMemPoolTrimTo(late.pool, 0));
    assert_int_equal(reserved(late.pool), 0);
    assert_acl_ok(aclrtMemPoolDestroy(late.pool));
    late_copy_end(&late);
}

/*
 * One stream waits for another's free and is aborted: its own free is over at once, and
 * the work before the other is not.
 */
static void aborting_a_stream_that_waits_for_a_free_gives_no_memory_away(void **state)
{
    struct late_copy late = late_copy_queue(MIB);
    aclrtStream two = make_stream(), three = make_stream();
    char *rest = take(late.pool, 7 * MIB, three), *b, *c = NULL;

    assert_acl_ok(aclrtMemPoolFreeAsync(late.block, late.stream));
    b = take(late.pool, MIB, two);
    assert_ptr_equal(b, late.block);
    assert_acl_ok(aclrtMemPoolFreeAsync(b, two));
    assert_acl_ok(aclrtStreamAbort(two));
    set_switches(late.pool, 0, 1, 0);
    assert_refused(aclrtMemPoolMallocAsync((void **)&c, MIB, late.pool, three),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "not yet freed");
    gate_end(late.gate);
    c = take(late.pool, MIB, three);
    assert_ptr_equal(c, late.block);
    assert_acl_ok(aclrtMemPoolFreeAsync(c, three));
    assert_acl_ok(aclrtMemPoolFreeAsync(rest, three));
    assert_acl_ok(aclrtDestroyStream(two));
    assert_acl_ok(aclrtDestroyStream(three));
    assert_acl_ok(aclrtMemPoolDestroy(late.pool));
    late_copy_end(&late);
}

/* ---- many threads, and late ---- */

struct shared {
    aclrtMemPool pool;
};

/* Each thread's blocks hold its own bytes, whatever the others do. */
static const char *use_pool(struct worker *self)
{
    struct shared *s = self->shared;
    aclrtStream stream = NULL;
    uint8_t seen[64];

    worker_check(aclrtSetDevice(0) == ACL_SUCCESS);
    worker_check(aclrtCreateStream(&stream) == ACL_SUCCESS);
    for (unsigned i = 0; i < 300; i++) {
        size_t size = 1 + (i * 7919 + self->index * 104729) % (700 * KIB);
        uint8_t byte = (uint8_t)(self->index * 50 + i % 50 + 1);
        char *ptr = NULL;

        worker_check(aclrtMemPoolMallocAsync((void **)&ptr, size, s->pool, stream) ==
                     ACL_SUCCESS);
        worker_check(aclrtMemsetAsync(ptr, size, byte, size, stream) == ACL_SUCCESS);
        if (i % 16 == 0) {
            size_t n = size < sizeof(seen) ? size : sizeof(seen);

            worker_check(aclrtSynchronizeStream(stream) == ACL_SUCCESS);
            worker_check(aclrtMemcpy(seen, n, ptr + size - n, n,
                                     ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
            for (size_t k = 0; k < n; k++)
                worker_check(seen[k] == byte);
        }
        worker_check(aclrtMemPoolFreeAsync(ptr, stream) == ACL_SUCCESS);
    }
    worker_check(aclrtDestroyStream(stream) == ACL_SUCCESS);
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    struct shared s = {.pool = pool_create(32 * MIB)};
    struct worker workers[4];

    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = use_pool, .shared = &s};
    assert_null(run_workers(workers, 4));
    assert_int_equal(used(s.pool), 0);
    assert_acl_ok(aclrtMemPoolDestroy(s.pool));
    for (unsigned i = 0; i < 4; i++)
        assert_acl_ok(aclrtResetDevice(0)); /* the workers' own */
}

static void pools_work_as_late_as_can_be(void **state)
{
    start("default", "ACLMEM_CHAOS=11");
    assert_acl_ok(aclrtSetDevice(0));
    another_stream_may_wait_for_a_free(state);
    neighbours_that_a_stream_freed_are_one(state);
    a_descriptor_queued_before_a_free_finds_its_block(state);
    work_before_a_free_outlives_its_pool(state);
    work_before_a_free_may_be_on_another_stream(state);
    aborting_a_stream_that_waits_for_a_free_gives_no_memory_away(state);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(the_same_stream_gets_a_block_again_at_once),
        claim_both(neighbours_that_a_stream_freed_are_one),
        claim_both(neighbours_for_different_users_are_one_for_a_stream),
        claim_both(another_stream_gets_a_block_when_the_free_is_done),
        claim_both(without_switches_only_synchronising_helps),
        claim_both(another_stream_may_wait_for_a_free),
        claim_both(a_block_may_be_freed_on_another_stream),
        claim_both(an_aborted_stream_has_freed_too),
        claim_both(a_descriptor_queued_before_a_free_finds_its_block),
        claim_both(a_descriptor_queued_after_a_free_does_not),
        claim_both(work_before_a_free_reaches_as_far_as_its_block_did),
        claim_both(work_before_a_free_outlives_its_pool),
        claim_both(work_before_a_free_may_be_on_another_stream),
        claim_both(a_kernel_before_a_free_finds_its_block),
        claim_both(memory_whose_free_is_queued_is_not_trimmed),
        claim_both(aborting_a_stream_that_waits_for_a_free_gives_no_memory_away),
        claim_both(threads_share_a_pool),
        claim_alone(pools_work_as_late_as_can_be),
    };

    return run_claims(claims);
}
