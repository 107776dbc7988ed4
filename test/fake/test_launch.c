/* Work that the cuda backend hands to the driver, while the driver holds it back. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "fake/whole_driver.h"
#include "fake/control.h"
#include "support/support.h"
#include "support/vmm.h"

/* A stream, device memory behind addresses, and pinned memory of the same size. */
static struct scene {
    struct block block;
    char *host;
    aclrtStream stream;
} s;

static int begin(void **state)
{
    start_default(state);
    s.block = block_create(CHUNK);
    assert_acl_ok(aclrtMallocHost((void **)&s.host, CHUNK));
    assert_acl_ok(aclrtCreateStream(&s.stream));
    return 0;
}

static int end(void **state)
{
    struct fake_cuda_counts counts;

    fake_cuda_hold(false);
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

static aclError launch_in(void)
{
    return aclrtMemcpyAsync(s.block.va, CHUNK, s.host, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE,
                            s.stream);
}

static aclError launch_out(aclrtStream stream)
{
    return aclrtMemcpyAsync(s.host, CHUNK, s.block.va, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST,
                            stream);
}

/* Nothing runs while the driver holds its streams, and no call waits for it. */
static void streams_follow_each_other_on_the_device(void **state)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_COMPLETE;
    aclrtStream other = NULL;
    aclrtEvent event = NULL;

    assert_acl_ok(aclrtCreateStream(&other));
    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    fill((uint8_t *)s.host, CHUNK, 1);
    fake_cuda_hold(true);
    assert_acl_ok(launch_in());
    assert_acl_ok(aclrtRecordEvent(event, s.stream));
    assert_acl_ok(aclrtStreamWaitEvent(other, event));
    assert_acl_ok(aclrtMemsetAsync(s.block.va, CHUNK, 7, CHUNK / 2, other));
    assert_acl_ok(launch_out(other));
    assert_acl_ok(aclrtQueryEventStatus(event, &status));
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_NOT_READY);
    fake_cuda_hold(false);
    assert_acl_ok(aclrtSynchronizeStream(other));
    assert_int_equal(s.host[0], 7);
    assert_int_equal((uint8_t)s.host[CHUNK - 1], pattern(1, CHUNK - 1));
    assert_acl_ok(aclrtQueryEventStatus(event, &status));
    assert_int_equal(status, ACL_EVENT_RECORDED_STATUS_COMPLETE);
    assert_acl_ok(aclrtDestroyEvent(event));
    assert_acl_ok(aclrtDestroyStream(other));
}

static atomic_bool is_unmapped;

static void *unmap_main(void *unused)
{
    aclError rc = aclrtUnmapMem(s.block.va);

    is_unmapped = true;
    return (void *)(intptr_t)rc;
}

/* Neighbours that are the same memory: a fill of all has it held as often. */
enum { N_ALIASES = 16, N_FILLS = 40 };

static struct {
    char *va;
    aclrtStream stream; /* NULL: fills that are done when the call returns */
    atomic_uint n_fills;
} aliases;

static void *fill_main(void *unused)
{
    size_t size = N_ALIASES * CHUNK;
    aclError rc = aclrtSetDevice(0);

    for (unsigned i = 0; i < N_FILLS && rc == ACL_SUCCESS; i++) {
        if (aliases.stream == NULL)
            rc = aclrtMemset(aliases.va, size, 1, size);
        else
            rc = aclrtMemsetAsync(aliases.va, size, 1, size, aliases.stream);
        aliases.n_fills++;
    }
    return (void *)(intptr_t)rc;
}

/* Who has the memory held and wants it once more must not wait for who unmaps it. */
static void unmapping_and_fills_do_not_wait_for_each_other(void **state)
{
    char *other = reserve(CHUNK);

    aliases.va = reserve(N_ALIASES * CHUNK);
    for (size_t i = 0; i < N_ALIASES; i++)
        map(aliases.va + i * CHUNK, CHUNK, s.block.handle);
    for (int is_async = 0; is_async < 2; is_async++) {
        pthread_t thread;
        void *rc = NULL;

        aliases.stream = is_async ? s.stream : NULL;
        aliases.n_fills = 0;
        assert_int_equal(pthread_create(&thread, NULL, fill_main, NULL), 0);
        while (aliases.n_fills == 0)
            sched_yield();
        for (unsigned i = 0; i < 300; i++) {
            map(other, CHUNK, s.block.handle);
            assert_acl_ok(aclrtUnmapMem(other));
        }
        assert_int_equal(pthread_join(thread, &rc), 0);
        assert_int_equal((intptr_t)rc, ACL_SUCCESS);
        assert_acl_ok(aclrtSynchronizeStream(s.stream));
    }
}

/* n_failing is 0 or 1: whether the driver's first wait fails, and with what. */
static void unmap_under_a_launch(unsigned n_failing, CUresult code)
{
    pthread_t thread;
    void *rc = NULL;

    is_unmapped = false;
    fake_cuda_hold(true);
    assert_acl_ok(launch_in());
    fake_cuda_fail("cuStreamSynchronize", n_failing, code, false);
    assert_int_equal(pthread_create(&thread, NULL, unmap_main, NULL), 0);
    while (!is_unmapped && fake_cuda_calls() <= n_failing)
        sched_yield();
    fake_cuda_hold(false);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_int_equal((intptr_t)rc, ACL_SUCCESS);
    assert_int_equal(fake_cuda_calls(), n_failing + 1); /* and not again under a lock */
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    assert_acl_ok(aclrtMapMem(s.block.va, CHUNK, 0, s.block.handle, 0));
    assert_acl_ok(launch_in());
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
}

/* The driver loses the device when memory goes under a copy. */
static void unmapping_waits_for_launched_work(void **state)
{
    unmap_under_a_launch(0, CUDA_SUCCESS);
}

/* Another thread unmaps the block, and the driver has it wait for the stream. */
static pthread_t unmap_begin(void)
{
    pthread_t thread;

    is_unmapped = false;
    assert_int_equal(pthread_create(&thread, NULL, unmap_main, NULL), 0);
    while (fake_cuda_waiting() == 0)
        sched_yield();
    return thread;
}

static void unmap_end(pthread_t thread)
{
    void *rc = NULL;

    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_int_equal((intptr_t)rc, ACL_SUCCESS);
}

/* Memory, streams and events that are new to the GPU, too. */
static void an_unmap_does_not_delay_other_threads(void **state)
{
    char *second = reserve(2 * CHUNK); /* the block's memory and other's in a row */
    struct block other;
    aclrtStream streams[2] = {NULL, NULL};
    aclrtStream late = NULL;
    aclrtEvent event = NULL;
    pthread_t thread;
    char *host = NULL;

    map(second, CHUNK, s.block.handle);
    map(second + CHUNK, CHUNK, alloc(CHUNK));
    assert_acl_ok(aclrtCreateStream(&late));
    assert_acl_ok(aclrtMallocHost((void **)&host, 2 * CHUNK));
    fill((uint8_t *)host, CHUNK, 2);
    fake_cuda_hold(true);
    assert_acl_ok(launch_in());
    fake_cuda_hold_busy();
    thread = unmap_begin();
    /* Work with the memory itself waits its turn, and nobody for that. */
    assert_acl_ok(
        aclrtMemcpyAsync(second, CHUNK, host, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE, late));
    assert_acl_ok(aclrtMemsetAsync(second, 2 * CHUNK, 9, 2 * CHUNK, late));
    assert_acl_ok(aclrtMemcpyAsync(second, 2 * CHUNK, host, 2 * CHUNK,
                                   ACL_MEMCPY_HOST_TO_DEVICE, late));
    other = block_create(CHUNK);
    assert_acl_ok(aclrtCreateEvent(&event));
    for (unsigned i = 0; i < 2; i++)
        assert_acl_ok(aclrtCreateStreamWithConfig(&streams[i], i, 0));
    assert_acl_ok(aclrtMemcpyAsync(other.va, CHUNK, host, CHUNK,
                                   ACL_MEMCPY_HOST_TO_DEVICE, streams[0]));
    assert_acl_ok(aclrtRecordEvent(event, streams[0]));
    assert_acl_ok(aclrtStreamWaitEvent(streams[1], event));
    assert_acl_ok(aclrtMemcpyAsync(host, CHUNK, other.va, CHUNK,
                                   ACL_MEMCPY_DEVICE_TO_HOST, streams[1]));
    assert_acl_ok(aclrtSynchronizeStream(streams[1]));
    assert_pattern(other.va, CHUNK, 2);
    assert_acl_ok(aclrtDestroyEvent(event));
    for (unsigned i = 0; i < 2; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
    assert_false(is_unmapped);
    fake_cuda_hold(false);
    unmap_end(thread);
    assert_acl_ok(aclrtSynchronizeStream(late));
    assert_pattern(second, CHUNK, 2);
    assert_acl_ok(aclrtDestroyStream(late));
    block_destroy(&other);
    assert_acl_ok(aclrtFreeHost(host));
}

/* It is there until who unmaps has seen that it is done. */
static void a_stream_may_end_while_a_thread_unmaps(void **state)
{
    for (unsigned i = 0; i < 100; i++) {
        pthread_t thread;

        fake_cuda_hold(true);
        assert_acl_ok(launch_in());
        thread = unmap_begin();
        fake_cuda_hold(false);
        assert_acl_ok(aclrtDestroyStream(s.stream));
        unmap_end(thread);
        assert_acl_ok(aclrtMapMem(s.block.va, CHUNK, 0, s.block.handle, 0));
        /* Streams of another priority than 0 are not kept. */
        assert_acl_ok(aclrtCreateStreamWithConfig(&s.stream, i % 2, 0));
    }
}

/*
 * The first pieces of such a copy could be launched and the last cannot.  Copied once more,
 * the first ones would find bytes of the others.
 */
static void a_copy_is_launched_whole_or_not_at_all(void **state)
{
    enum { N = 12, SMALL = 4, SHIFT = 2 };
    char *va = reserve(N * CHUNK);
    aclrtDrvMemHandle handles[SMALL + 1];

    for (size_t i = 0; i < SMALL; i++) {
        handles[i] = alloc(CHUNK);
        map(va + i * CHUNK, CHUNK, handles[i]);
    }
    handles[SMALL] = alloc((N - SMALL) * CHUNK);
    map(va + SMALL * CHUNK, (N - SMALL) * CHUNK, handles[SMALL]);
    for (size_t i = 0; i < N; i++)
        put_pattern(va + i * CHUNK, CHUNK, i);
    assert_acl_ok(aclrtMemcpyAsync(va, (N - SHIFT) * CHUNK, va + SHIFT * CHUNK,
                                   (N - SHIFT) * CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                   s.stream));
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    for (size_t i = 0; i < N; i++)
        assert_pattern(va + i * CHUNK, CHUNK, i + SHIFT < N ? i + SHIFT : i);
}

/* One handle at two addresses: the driver's copies are undefined there, ours are not. */
static void memory_that_is_mapped_twice_is_copied_over_itself(void **state)
{
    enum { SIZE = CHUNK / 2, SHIFT = 4096 };
    static uint8_t bytes[CHUNK];
    char *second = reserve(CHUNK);

    map(second, CHUNK, s.block.handle);
    for (int is_up = 0; is_up < 2; is_up++) {
        size_t to = is_up ? SHIFT : 0, from = is_up ? 0 : SHIFT;

        fill(bytes, CHUNK, 3);
        put_pattern(s.block.va, CHUNK, 3);
        memmove(bytes + to, bytes + from, SIZE);
        assert_acl_ok(
            copy(s.block.va + to, second + from, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE));
        assert_acl_ok(copy(s.host, second, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_memory_equal(s.host, bytes, CHUNK);
        memmove(bytes + to, bytes + from, SIZE);
        assert_acl_ok(aclrtMemcpyAsync(second + to, SIZE, s.block.va + from, SIZE,
                                       ACL_MEMCPY_DEVICE_TO_DEVICE, s.stream));
        assert_acl_ok(aclrtSynchronizeStream(s.stream));
        assert_acl_ok(copy(s.host, second, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_memory_equal(s.host, bytes, CHUNK);
    }
}

/* The last row is another device's, which the first row's cannot copy. */
static void rows_that_cannot_all_be_launched_are_done_in_their_turn(void **state)
{
    char *va = reserve(2 * CHUNK);

    map(va, CHUNK, alloc(CHUNK));
    map(va + CHUNK, CHUNK, alloc_on(1, CHUNK));
    fill((uint8_t *)s.host, CHUNK, 5);
    assert_acl_ok(aclrtMemcpy2dAsync(va, CHUNK, s.host, CHUNK / 2, CHUNK / 2, 2,
                                     ACL_MEMCPY_HOST_TO_DEVICE, s.stream));
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    memset(s.host, 0, CHUNK);
    assert_acl_ok(copy(s.host, va, CHUNK / 2, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_acl_ok(
        copy(s.host + CHUNK / 2, va + CHUNK, CHUNK / 2, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_true(is_filled((uint8_t *)s.host, CHUNK, 5));
}

/* 0 is our highest priority and the driver's lowest. */
static void priorities_go_the_same_way(void **state)
{
    static const unsigned priorities[] = {0, 1, 4, 7};
    aclrtStream streams[4];
    int before = -1000;

    for (size_t i = 0; i < 4; i++) {
        assert_acl_ok(aclrtCreateStreamWithConfig(&streams[i], priorities[i], 0));
        assert_acl_ok(aclrtMemcpyAsync(s.block.va, CHUNK, s.host, CHUNK,
                                       ACL_MEMCPY_HOST_TO_DEVICE, streams[i]));
        assert_acl_ok(aclrtSynchronizeStream(streams[i]));
        assert_true(fake_cuda_priority() > before);
        before = fake_cuda_priority();
    }
    assert_int_equal(before, 0);
    for (size_t i = 0; i < 4; i++)
        assert_acl_ok(aclrtDestroyStream(streams[i]));
}

/* Who unmaps must not go on for that; nor for an error that may mean that all is lost. */
static void unmapping_waits_once_more_where_waiting_fails(void **state)
{
    unmap_under_a_launch(1, CUDA_ERROR_INVALID_VALUE);
    unmap_under_a_launch(1, CUDA_ERROR_UNKNOWN);
}

static void a_question_that_fails_is_no_failure_of_the_work(void **state)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;

    fake_cuda_fail("cuStreamQuery", 1, CUDA_ERROR_INVALID_VALUE, false);
    assert_acl_ok(launch_in());
    assert_acl_ok(aclrtStreamQuery(s.stream, &status));
    assert_true(fake_cuda_failed());
    fake_cuda_fail(NULL, 0, 0, false);
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
}

/* Who has waited for all of it knows. */
static void work_that_was_waited_for_is_not_queried(void **state)
{
    fake_cuda_fail("cuStreamQuery", 0, 0, false);
    assert_acl_ok(launch_in());
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    assert_int_equal(fake_cuda_calls(), 0);
}

static void a_launch_that_fails_is_reported_by_its_call(void **state)
{
    fake_cuda_fail("cuMemcpyAsync", 1, CUDA_ERROR_INVALID_VALUE, false);
    assert_acl(launch_in(), ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has("CUDA_ERROR_INVALID_VALUE");
    fake_cuda_fail(NULL, 0, 0, false);
    assert_acl_ok(launch_in());
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
}

static struct {
    char *va; /* two mappings */
    atomic_bool is_over;
} half;

/* Two copies to one stretch of memory, in another order: the driver has a call for each. */
static void *half_main(void *unused)
{
    aclrtMemcpyBatchAttr attr = {
        .dstLoc = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
        .srcLoc = {.type = ACL_MEM_LOCATION_TYPE_HOST},
    };
    void *dsts[] = {half.va + CHUNK, half.va};
    void *srcs[] = {s.host, s.host + CHUNK};
    size_t sizes[] = {CHUNK, CHUNK};
    size_t index = 0, fail;
    aclError rc = aclrtSetDevice(0);

    if (rc == ACL_SUCCESS)
        rc = aclrtMemcpyBatchAsync(dsts, sizes, srcs, sizes, 2, &attr, &index, 1, &fail,
                                   s.stream);
    half.is_over = true;
    return (void *)(intptr_t)rc;
}

/* The first piece was launched and the second is refused: who is told may free both. */
static void a_launch_that_fails_leaves_nothing_under_way(void **state)
{
    pthread_t thread;
    void *rc = NULL;

    assert_acl_ok(aclrtFreeHost(s.host));
    assert_acl_ok(aclrtMallocHost((void **)&s.host, 2 * CHUNK));
    half.va = reserve(2 * CHUNK);
    half.is_over = false;
    for (size_t i = 0; i < 2; i++)
        map(half.va + i * CHUNK, CHUNK, alloc(CHUNK));
    fake_cuda_hold(true);
    fake_cuda_fail("cuMemcpyAsync", 2, CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, false);
    assert_int_equal(pthread_create(&thread, NULL, half_main, NULL), 0);
    while (!half.is_over && fake_cuda_waiting() == 0)
        sched_yield();
    assert_false(half.is_over);
    fake_cuda_hold(false);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_int_equal((intptr_t)rc, ACL_ERROR_RT_DRV_INTERNAL_ERROR);
    fake_cuda_fail(NULL, 0, 0, false);
}

static void the_drivers_errors_are_kept_apart(void **state)
{
    static const struct {
        int driver;
        aclError code;
        const char *name;
    } errors[] = {
        {CUDA_ERROR_OUT_OF_MEMORY, ACL_ERROR_RT_MEMORY_ALLOCATION,
         "CUDA_ERROR_OUT_OF_MEMORY"},
        {CUDA_ERROR_INVALID_VALUE, ACL_ERROR_RT_PARAM_INVALID,
         "CUDA_ERROR_INVALID_VALUE"},
        {CUDA_ERROR_NOT_SUPPORTED, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
         "CUDA_ERROR_NOT_SUPPORTED"},
        {CUDA_ERROR_OPERATING_SYSTEM, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
         "CUDA_ERROR_OPERATING_SYSTEM"},
        {CUDA_ERROR_ILLEGAL_STATE, ACL_ERROR_RT_DRV_INTERNAL_ERROR,
         "CUDA_ERROR_ILLEGAL_STATE"},
    };
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        fake_cuda_fail("cuMemCreate", 1, errors[i].driver, true);
        assert_refused(aclrtMallocPhysical(&handle, CHUNK, &prop, 0), errors[i].code,
                       errors[i].name);
    }
    fake_cuda_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY, true);
    assert_acl(aclrtMallocPhysical(&handle, CHUNK, &prop, 0),
               ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_message_has("Failed to allocate");
    fake_cuda_fail(NULL, 0, 0, false);
}

static void a_lost_gpu_stays_lost_and_other_gpus_work(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    expect_warnings(1);
    assert_acl_ok(launch_in());
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    fake_cuda_break(0, CUDA_ERROR_LAUNCH_FAILED);
    assert_acl(copy(s.block.va, s.host, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE),
               ACL_ERROR_RT_LOST_HEARTBEAT);
    assert_message_has("CUDA_ERROR_LAUNCH_FAILED");
    assert_acl(aclrtMallocPhysical(&handle, CHUNK, &prop, 0),
               ACL_ERROR_RT_LOST_HEARTBEAT);
    assert_message_has("lost");
    assert_acl(launch_in(), ACL_ERROR_RT_LOST_HEARTBEAT);
    prop = device_prop(1, ACL_HBM_MEM_HUGE);
    assert_acl_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* Time goes by the device's clock between records that it has. */
static void records_have_the_devices_time(void **state)
{
    aclrtEvent from = NULL;
    aclrtEvent to = NULL;
    float ms = -1;

    assert_acl_ok(aclrtCreateEvent(&from));
    assert_acl_ok(aclrtCreateEvent(&to));
    assert_acl_ok(launch_in());
    assert_acl_ok(aclrtRecordEvent(from, s.stream));
    assert_acl_ok(launch_in());
    assert_acl_ok(aclrtRecordEvent(to, s.stream));
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    assert_acl_ok(aclrtEventElapsedTime(&ms, from, to));
    assert_true(ms >= 0 && ms < 60000);
    assert_acl_ok(aclrtDestroyEvent(to));
    assert_acl_ok(aclrtDestroyEvent(from));
}

/* The clock of this program, the library and the fake, set forward. */
static _Atomic time_t seconds_ahead;

int clock_gettime(clockid_t clock, struct timespec *now)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, now);

    now->tv_sec += seconds_ahead;
    return rc;
}

/*
 * The device is so busy with others' work that it comes to nothing of ours.  That is a
 * matter for who waits for the stream; all others submit.
 */
static void a_later_record_does_not_wait_for_the_device(void **state)
{
    aclrtEvent events[3];
    float ms = -1;

    for (int i = 0; i < 3; i++) {
        assert_acl_ok(aclrtCreateEvent(&events[i]));
        assert_acl_ok(launch_in());
        assert_acl_ok(aclrtRecordEvent(events[i], s.stream));
        /* The next one finds that the device's clock was not looked at for long. */
        seconds_ahead += 2;
        fake_cuda_hold(i == 0);
    }
    assert_acl_ok(aclrtSynchronizeStream(s.stream));
    for (int i = 0; i < 2; i++) {
        assert_acl_ok(aclrtEventElapsedTime(&ms, events[i], events[i + 1]));
        assert_true(ms >= 0 && ms < 60000);
    }
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclrtDestroyEvent(events[i]));
}

int main(void)
{
#define launch_claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)
    const struct CMUnitTest claims[] = {
        launch_claim(streams_follow_each_other_on_the_device),
        launch_claim(unmapping_and_fills_do_not_wait_for_each_other),
        launch_claim(unmapping_waits_for_launched_work),
        launch_claim(an_unmap_does_not_delay_other_threads),
        launch_claim(a_stream_may_end_while_a_thread_unmaps),
        launch_claim(a_copy_is_launched_whole_or_not_at_all),
        launch_claim(memory_that_is_mapped_twice_is_copied_over_itself),
        launch_claim(rows_that_cannot_all_be_launched_are_done_in_their_turn),
        launch_claim(priorities_go_the_same_way),
        launch_claim(unmapping_waits_once_more_where_waiting_fails),
        launch_claim(a_question_that_fails_is_no_failure_of_the_work),
        launch_claim(work_that_was_waited_for_is_not_queried),
        launch_claim(a_launch_that_fails_is_reported_by_its_call),
        launch_claim(a_launch_that_fails_leaves_nothing_under_way),
        launch_claim(the_drivers_errors_are_kept_apart),
        launch_claim(records_have_the_devices_time),
        launch_claim(a_later_record_does_not_wait_for_the_device),
        /* Last: nothing brings a GPU back in a process. */
        launch_claim(a_lost_gpu_stays_lost_and_other_gpus_work),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
