/* Replays that the driver gets whole: what is launched, when not, and what keeps the memory. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "fake/control.h"
#include "fake/whole_driver.h"
#include "support/capture.h"
#include "support/support.h"
#include "support/vmm.h"
#include "support/work.h"

enum { SMALL = 4096, N_PARTS = 16, N_COPIES = 8 };

static struct scene {
    struct block block;
    char *host; /* of the same size */
    aclrtStream stream[2];
} s;

static int begin(void **state)
{
    start_default(state);
    s.block = block_create(CHUNK);
    assert_acl_ok(aclrtMallocHost((void **)&s.host, CHUNK));
    for (int i = 0; i < 2; i++)
        assert_acl_ok(aclrtCreateStream(&s.stream[i]));
    return 0;
}

static int end(void **state)
{
    struct fake_cuda_counts counts;

    fake_cuda_hold(false);
    fake_cuda_fail(NULL, 0, 0, false);
    fake_cuda_break(0, CUDA_SUCCESS);
    (void)aclrtResetDeviceForce(0);
    (void)aclFinalize();
    fake_cuda_count(&counts);
    assert_int_equal(counts.handles, 0);
    assert_int_equal(counts.streams, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.retained, 0);
    return 0;
}

static char *device_part(int i)
{
    return s.block.va + i * SMALL;
}

static char *host_part(int i)
{
    return s.host + i * SMALL;
}

static void queue_copy(void *dst, const void *src)
{
    assert_acl_ok(
        aclrtMemcpyAsync(dst, SMALL, src, SMALL, ACL_MEMCPY_DEFAULT, s.stream[0]));
}

static void capture(void)
{
    begin_capture(s.stream[0], ACL_MODEL_RI_CAPTURE_MODE_GLOBAL);
}

/* Parts 0 to 7 of the host's memory, to the device. */
static aclmdlRI model_in(void)
{
    capture();
    for (int i = 0; i < N_COPIES; i++)
        queue_copy(device_part(i), host_part(i));
    return end_capture(s.stream[0]);
}

/* The number of calls of this function in a replay. */
static uint64_t calls_in_replay(const char *name, aclmdlRI model)
{
    fake_cuda_fail(name, 0, 0, false);
    replay(model, s.stream[0]);
    return fake_cuda_calls();
}

static void assert_in_is_done(uint64_t seed)
{
    assert_pattern(s.block.va, N_COPIES * SMALL, seed);
}

static void a_replay_is_one_call(void **state)
{
    aclmdlRI model = model_in();

    for (uint64_t i = 0; i < 3; i++) {
        fill((uint8_t *)s.host, CHUNK, i);
        assert_int_equal(calls_in_replay("cuMemcpyBatchAsync", model), 1);
        assert_in_is_done(i);
    }
    assert_int_equal(calls_in_replay("cuMemcpyAsync", model), 0);
    end_model(model);
}

/* The fake queues the copies of one call from the last to the first. */
static void copies_that_share_bytes_keep_their_order(void **state)
{
    aclmdlRI model;

    capture();
    queue_copy(device_part(0), host_part(0));
    queue_copy(device_part(1), device_part(0)); /* reads what the first wrote */
    queue_copy(device_part(0), host_part(1));   /* writes what the second read */
    queue_copy(device_part(0), host_part(2));   /* writes it once more */
    assert_acl_ok(aclrtMemsetAsync(device_part(2), SMALL, 9, SMALL, s.stream[0]));
    queue_copy(host_part(3), device_part(2)); /* reads what the fill wrote */
    assert_acl_ok(aclrtMemsetAsync(device_part(2), SMALL, 5, SMALL, s.stream[0]));
    model = end_capture(s.stream[0]);
    for (uint64_t i = 0; i < 3; i++)
        fill((uint8_t *)host_part((int)i), SMALL, i);
    assert_int_equal(calls_in_replay("cuMemcpyBatchAsync", model), 0);
    assert_pattern(device_part(1), SMALL, 0);
    assert_pattern(device_part(0), SMALL, 2);
    assert_all_bytes(host_part(3), SMALL, 9);
    assert_all_bytes(device_part(2), SMALL, 5);
    end_model(model);
}

static void copies_before_and_after_a_fill_are_two_calls(void **state)
{
    aclmdlRI model;

    capture();
    for (int i = 0; i < 4; i++)
        queue_copy(device_part(i), host_part(i));
    assert_acl_ok(aclrtMemsetAsync(device_part(3), SMALL, 9, SMALL, s.stream[0]));
    for (int i = 4; i < 8; i++)
        queue_copy(device_part(i), host_part(i));
    model = end_capture(s.stream[0]);
    fill((uint8_t *)s.host, CHUNK, 1);
    assert_int_equal(calls_in_replay("cuMemcpyBatchAsync", model), 2);
    assert_pattern(device_part(0), 3 * SMALL, 1);
    assert_all_bytes(device_part(3), SMALL, 9);
    queue_copy(host_part(0), device_part(7));
    assert_acl_ok(aclrtSynchronizeStream(s.stream[0]));
    assert_memory_equal(host_part(0), host_part(7), SMALL);
    end_model(model);
}

/* No thread of the library waits for the device between two replays. */
static void replays_of_one_stream_follow_each_other_on_the_device(void **state)
{
    aclmdlRI model = model_in();

    replay(model, s.stream[0]);
    fake_cuda_hold(true);
    fake_cuda_fail("cuMemcpyBatchAsync", 0, 0, false);
    for (int i = 0; i < 5; i++)
        assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    assert_int_equal(fake_cuda_calls(), 5);
    fake_cuda_hold(false);
    assert_acl_ok(aclrtSynchronizeStream(s.stream[0]));
    end_model(model);
}

/* The second stream's replay is not launched while the first one's is under way. */
static void replays_on_two_streams_run_one_after_the_other(void **state)
{
    aclmdlRI model = model_in();

    for (int i = 0; i < 20; i++) {
        fill((uint8_t *)s.host, CHUNK, (uint64_t)i);
        fake_cuda_hold(true);
        fake_cuda_fail("cuMemcpyBatchAsync", 0, 0, false);
        assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[i % 2]));
        assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[1 - i % 2]));
        assert_int_equal(fake_cuda_calls(), 1);
        fake_cuda_fail("cuMemcpyAsync", 0, 0, false);
        assert_acl(aclrtSynchronizeStreamWithTimeout(s.stream[1 - i % 2], 1),
                   ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
        assert_int_equal(fake_cuda_calls(), 0);
        fake_cuda_hold(false);
        /* No thread synchronises the first stream. */
        assert_acl_ok(aclrtSynchronizeStream(s.stream[1 - i % 2]));
        assert_in_is_done((uint64_t)i);
    }
    end_model(model);
}

/* ---- memory ---- */

static void a_replay_uses_the_memory_that_is_mapped_now(void **state)
{
    aclmdlRI model = model_in();

    for (uint64_t i = 0; i < 4; i++) {
        fill((uint8_t *)s.host, CHUNK, i);
        assert_int_equal(calls_in_replay("cuMemcpyBatchAsync", model), 1);
        assert_in_is_done(i);
        assert_acl_ok(aclrtUnmapMem(s.block.va));
        map(s.block.va, CHUNK, alloc(CHUNK));
    }
    assert_acl_ok(aclrtUnmapMem(s.block.va));
    map(s.block.va, CHUNK, s.block.handle);
    assert_in_is_done(0); /* later replays wrote other memory */
    fill((uint8_t *)s.host, CHUNK, 7);
    replay(model, s.stream[0]);
    assert_in_is_done(7);
    end_model(model);
}

static void a_replay_without_memory_fails_and_the_next_one_works(void **state)
{
    aclmdlRI model = model_in();

    for (uint64_t i = 0; i < 3; i++) {
        fill((uint8_t *)s.host, CHUNK, i);
        replay(model, s.stream[0]);
        assert_in_is_done(i);
        assert_acl_ok(aclrtUnmapMem(s.block.va));
        fake_cuda_fail("cuMemcpyBatchAsync", 0, 0, false);
        assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
        assert_acl(aclrtSynchronizeStream(s.stream[0]), ACL_ERROR_RT_MODEL_EXECUTE);
        assert_message_has("task 0, captured by aclrtMemcpyAsync");
        assert_message_has("nothing is mapped there");
        assert_int_equal(fake_cuda_calls(), 0);
        map(s.block.va, CHUNK, s.block.handle);
    }
    end_model(model);
}

static atomic_bool is_over;

static void *unmap_main(void *unused)
{
    aclError rc = aclrtUnmapMem(s.block.va);

    is_over = true;
    return (void *)(intptr_t)rc;
}

static void *destroy_main(void *model)
{
    aclError rc = aclrtSetDevice(0);

    if (rc == ACL_SUCCESS)
        rc = aclmdlRIDestroy(model);
    is_over = true;
    return (void *)(intptr_t)rc;
}

static void join(pthread_t thread)
{
    void *rc = NULL;

    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_int_equal((intptr_t)rc, ACL_SUCCESS);
}

/* The driver loses the device when memory goes under a copy. */
static void unmapping_waits_for_a_replay(void **state)
{
    aclmdlRI model = model_in();
    pthread_t thread;

    is_over = false;
    fake_cuda_hold(true);
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    assert_int_equal(pthread_create(&thread, NULL, unmap_main, NULL), 0);
    while (!is_over && fake_cuda_waiting() == 0)
        sched_yield();
    assert_false(is_over);
    fake_cuda_hold(false);
    join(thread);
    assert_acl_ok(aclrtSynchronizeStream(s.stream[0]));
    map(s.block.va, CHUNK, s.block.handle);
    end_model(model);
}

/* Blocks of the heap, and pinned memory. */
static void memory_that_is_freed_stays_until_the_replay_is_over(void **state)
{
    char *device, *host;
    aclmdlRI model;

    assert_acl_ok(aclrtMalloc((void **)&device, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMallocHost((void **)&host, CHUNK));
    capture();
    for (int i = 0; i < N_COPIES; i++)
        queue_copy(device + i * SMALL, host + i * SMALL);
    model = end_capture(s.stream[0]);
    fake_cuda_hold(true);
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    fake_cuda_hold(false);
    assert_acl_ok(aclrtFree(device));
    assert_acl_ok(aclrtFreeHost(host));
    assert_acl_ok(aclrtSynchronizeStream(s.stream[0]));
    end_model(model);
}

/* The bytes may be the same, so the order of the calls is kept. */
static void memory_that_is_mapped_twice_is_copied_in_order(void **state)
{
    char *twin = reserve(CHUNK);
    aclmdlRI model;

    map(twin, CHUNK, s.block.handle);
    capture();
    queue_copy(device_part(0), host_part(0));
    queue_copy(twin + SMALL, host_part(1));
    queue_copy(host_part(2), device_part(1)); /* what was written by the other address */
    model = end_capture(s.stream[0]);
    fill((uint8_t *)s.host, CHUNK, 1);
    assert_int_equal(calls_in_replay("cuMemcpyBatchAsync", model), 0);
    assert_memory_equal(host_part(2), host_part(1), SMALL);
    end_model(model);
}

/* ---- ends ---- */

static void a_model_that_is_destroyed_waits_for_its_replays(void **state)
{
    aclmdlRI model = model_in();
    pthread_t thread;

    is_over = false;
    fill((uint8_t *)s.host, CHUNK, 1);
    fake_cuda_hold(true);
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    assert_int_equal(pthread_create(&thread, NULL, destroy_main, model), 0);
    fake_cuda_fail("cuStreamQuery", 0, 0, false);
    while (!is_over && fake_cuda_calls() < 3)
        sched_yield();
    assert_false(is_over);
    fake_cuda_hold(false);
    join(thread);
    assert_in_is_done(1);
}

static void a_stream_with_a_replay_may_be_aborted_or_destroyed(void **state)
{
    aclmdlRI model = model_in();

    fill((uint8_t *)s.host, CHUNK, 1);
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    assert_acl_ok(aclrtStreamAbort(s.stream[0]));
    replay(model, s.stream[0]);
    assert_in_is_done(1);
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    assert_acl_ok(aclrtDestroyStream(s.stream[0]));
    replay(model, s.stream[1]);
    end_model(model);
}

static void a_disabled_task_has_no_effect(void **state)
{
    aclmdlRI model = model_in();
    aclmdlRITask tasks[N_COPIES];
    aclrtStream stream;
    uint32_t n = 1;

    fill((uint8_t *)s.host, CHUNK, 1);
    replay(model, s.stream[0]);
    assert_acl_ok(aclmdlRIGetStreams(model, &stream, &n));
    n = N_COPIES;
    assert_acl_ok(aclmdlRIGetTasksByStream(stream, tasks, &n));
    assert_acl_ok(aclmdlRITaskDisable(tasks[0]));
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    assert_acl_ok(aclrtSynchronizeStream(s.stream[0]));
    assert_acl_ok(aclmdlRIUpdate(model));
    fill((uint8_t *)host_part(0), SMALL, 2);
    replay(model, s.stream[0]);
    assert_in_is_done(1); /* the old content of the first part, too */
    end_model(model);
}

/* The device is done, and no call has synchronised the stream. */
static void a_model_whose_replays_are_done_can_be_updated(void **state)
{
    aclmdlRI model = model_in();
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    fake_cuda_hold(true);
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    assert_acl_ok(aclrtRecordEvent(event, s.stream[0]));
    assert_acl(aclmdlRIUpdate(model), ACL_ERROR_RT_MODEL_RUNNING);
    fake_cuda_hold(false);
    assert_acl_ok(aclrtSynchronizeEvent(event));
    assert_acl_ok(aclmdlRIUpdate(model));
    assert_acl_ok(aclrtDestroyEvent(event));
    end_model(model);
}

/* ---- failures ---- */

static void a_batch_that_the_driver_refuses_is_launched_copy_by_copy(void **state)
{
    aclmdlRI model = model_in();

    fill((uint8_t *)s.host, CHUNK, 1);
    fake_cuda_fail("cuMemcpyBatchAsync", 1, CUDA_ERROR_NOT_SUPPORTED, true);
    replay(model, s.stream[0]);
    assert_true(fake_cuda_failed());
    assert_in_is_done(1);
    fake_cuda_fail(NULL, 0, 0, false);
    assert_int_equal(calls_in_replay("cuMemcpyAsync", model), 0);
    end_model(model);
}

/* A copy that fails: the replay fails, the message has its task, and later replays work. */
static void a_copy_that_fails_fails_the_replay(void **state)
{
    char text[64];
    aclmdlRI model;

    capture();
    for (int i = 0; i < N_COPIES; i++) /* in order: each is a call */
        queue_copy(device_part(0), host_part(i));
    model = end_capture(s.stream[0]);
    for (uint64_t k = 1; k <= N_COPIES; k++) {
        fake_cuda_fail("cuMemcpyAsync", k, CUDA_ERROR_INVALID_VALUE, false);
        assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
        assert_acl(aclrtSynchronizeStream(s.stream[0]), ACL_ERROR_RT_MODEL_EXECUTE);
        assert_message_has("CUDA_ERROR_INVALID_VALUE");
        snprintf(text, sizeof text, "task %d, captured by aclrtMemcpyAsync", (int)k - 1);
        assert_message_has(text);
        fake_cuda_fail(NULL, 0, 0, false);
        fill((uint8_t *)s.host, CHUNK, k);
        replay(model, s.stream[0]);
        queue_copy(host_part(0), device_part(0));
        assert_acl_ok(aclrtSynchronizeStream(s.stream[0]));
        assert_memory_equal(host_part(0), host_part(N_COPIES - 1), SMALL);
    }
    end_model(model);
}

static void a_lost_device_fails_the_replay(void **state)
{
    aclmdlRI model = model_in();

    fake_cuda_hold(true);
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    fake_cuda_break(0, CUDA_ERROR_ILLEGAL_ADDRESS);
    fake_cuda_hold(false);
    assert_acl(aclrtSynchronizeStream(s.stream[0]), ACL_ERROR_RT_MODEL_EXECUTE);
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    assert_acl(aclrtSynchronizeStream(s.stream[0]), ACL_ERROR_RT_MODEL_EXECUTE);
    end_model(model);
}

/* ---- threads ---- */

static aclmdlRI shared;

static void *replay_main(void *stream)
{
    aclError rc = aclrtSetDevice(0);

    for (int i = 0; i < 200 && rc == ACL_SUCCESS; i++) {
        rc = aclmdlRIExecuteAsync(shared, stream);
        if (rc == ACL_SUCCESS && i % 7 == 0)
            rc = aclrtSynchronizeStream(stream);
    }
    if (rc == ACL_SUCCESS)
        rc = aclrtSynchronizeStream(stream);
    return (void *)(intptr_t)rc;
}

/* Two threads on a stream each, two on the same one, while memory goes and comes back. */
static void threads_replay_one_model(void **state)
{
    pthread_t threads[4];

    shared = model_in();
    fill((uint8_t *)s.host, CHUNK, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, replay_main, s.stream[i % 2]),
                         0);
    for (int i = 0; i < 4; i++)
        join(threads[i]);
    assert_in_is_done(1);
    end_model(shared);
}

static void a_launched_record_ends_a_wait_of_a_model_that_runs(void **state)
{
    aclrtEvent event;
    aclmdlRI model;

    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    capture();
    assert_acl_ok(
        aclrtStreamWaitEventWithFlag(s.stream[0], event, 0, ACL_EVENT_WAIT_EXTERNAL));
    model = end_capture(s.stream[0]);
    assert_acl_ok(aclmdlRIExecuteAsync(model, s.stream[0]));
    fake_cuda_hold(true);
    assert_acl_ok(aclrtMemsetAsync(device_part(0), SMALL, 1, SMALL, s.stream[1]));
    assert_acl_ok(aclrtRecordEvent(event, s.stream[1]));
    fake_cuda_hold(false);
    assert_acl_ok(aclrtSynchronizeStream(s.stream[0]));
    assert_acl_ok(aclmdlRIDestroy(model));
    assert_acl_ok(aclrtDestroyEvent(event));
}

#define replay_claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)

int main(void)
{
    const struct CMUnitTest claims[] = {
        replay_claim(a_replay_is_one_call),
        replay_claim(copies_that_share_bytes_keep_their_order),
        replay_claim(copies_before_and_after_a_fill_are_two_calls),
        replay_claim(replays_of_one_stream_follow_each_other_on_the_device),
        replay_claim(replays_on_two_streams_run_one_after_the_other),
        replay_claim(a_replay_uses_the_memory_that_is_mapped_now),
        replay_claim(a_replay_without_memory_fails_and_the_next_one_works),
        replay_claim(unmapping_waits_for_a_replay),
        replay_claim(memory_that_is_freed_stays_until_the_replay_is_over),
        replay_claim(memory_that_is_mapped_twice_is_copied_in_order),
        replay_claim(a_model_that_is_destroyed_waits_for_its_replays),
        replay_claim(a_stream_with_a_replay_may_be_aborted_or_destroyed),
        replay_claim(a_disabled_task_has_no_effect),
        replay_claim(a_model_whose_replays_are_done_can_be_updated),
        replay_claim(a_batch_that_the_driver_refuses_is_launched_copy_by_copy),
        replay_claim(a_copy_that_fails_fails_the_replay),
        replay_claim(threads_replay_one_model),
        replay_claim(a_launched_record_ends_a_wait_of_a_model_that_runs),
        /* the last one: */
        replay_claim(a_lost_device_fails_the_replay),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
