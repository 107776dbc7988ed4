/*
 * Streams and events over the driver's own streams: who waits for whom while the driver
 * holds its work back, and what is let go of when.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "fake/whole_driver.h"
#include "fake/control.h"
#include "support/support.h"
#include "support/vmm.h"
#include "support/work.h"

#define AM_CU(need_, since_, name_, params_, args_) CUresult name_ params_;
#include "fake/whole_driver.def"
#undef AM_CU

enum { SMALL = 4096, N_THREADS = 4 };

static struct scene {
    char *device;
    char *host;
    aclrtStream stream[2];
    aclrtEvent event;
} s;

static int begin(void **state)
{
    start_default(state);
    assert_acl_ok(
        aclrtMalloc((void **)&s.device, N_THREADS * CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMallocHost((void **)&s.host, N_THREADS * CHUNK));
    for (int i = 0; i < 2; i++)
        assert_acl_ok(aclrtCreateStream(&s.stream[i]));
    assert_acl_ok(aclrtCreateEventExWithFlag(&s.event, ACL_EVENT_SYNC));
    return 0;
}

static int end(void **state)
{
    struct fake_cuda_counts counts;

    fake_cuda_hold(false);
    (void)aclrtResetDeviceForce(0);
    (void)aclFinalize();
    fake_cuda_count(&counts);
    assert_int_equal(counts.handles, 0);
    assert_int_equal(counts.streams, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.retained, 0);
    return 0;
}

static void launch(aclrtStream stream)
{
    assert_acl_ok(aclrtMemcpyAsync(s.device, SMALL, s.host, SMALL,
                                   ACL_MEMCPY_HOST_TO_DEVICE, stream));
}

static uint64_t count_handles(void)
{
    struct fake_cuda_counts counts;

    fake_cuda_count(&counts);
    return counts.handles;
}

/* Work with memory that is freed behind it: the memory goes when the library knows that. */
static void launch_and_free(void)
{
    struct block block = block_create(CHUNK);

    assert_acl_ok(aclrtMemcpyAsync(block.va, CHUNK, s.host, CHUNK,
                                   ACL_MEMCPY_HOST_TO_DEVICE, s.stream[0]));
    fake_cuda_hold(false);
    block_destroy(&block);
}

static void device_finish(void)
{
    CUdevice device;
    CUcontext context;

    assert_int_equal(cuDeviceGet(&device, 0), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, device), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
    assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent_v2(&context), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(device), CUDA_SUCCESS);
}

/* A program that only ever launches keeps no memory of what was done long ago. */
static void launching_alone_lets_go_of_what_is_done(void **state)
{
    uint64_t n = count_handles();

    launch_and_free();
    assert_int_equal(count_handles(), n + 1);
    for (int i = 0; i < 128; i++) {
        device_finish();
        launch(s.stream[0]);
    }
    assert_int_equal(count_handles(), n);
}

/* The stream is never seen empty; marks tell how far it is. */
static void a_stream_that_is_never_empty_lets_go_too(void **state)
{
    uint64_t n = count_handles();

    launch_and_free();
    assert_int_equal(count_handles(), n + 1);
    fake_cuda_hold(true);
    for (int i = 0; i < 200; i++) /* with a mark among them */
        launch(s.stream[0]);
    fake_cuda_hold(false);
    device_finish();
    fake_cuda_hold(true);
    for (int i = 0; i < 64; i++)
        launch(s.stream[0]);
    assert_int_equal(count_handles(), n);
}

/* Work that is done keeps no memory: the device is asked before a call reports or fails. */
static void figures_and_shortages_count_no_memory_of_done_work(void **state)
{
    uint64_t n = count_handles();
    size_t before;
    size_t after;
    size_t total;
    struct block rest;

    assert_acl_ok(aclrtGetMemInfo(ACL_HBM_MEM_HUGE, &before, &total));
    launch_and_free();
    device_finish();
    assert_int_equal(count_handles(), n + 1);
    assert_acl_ok(aclrtGetMemInfo(ACL_HBM_MEM_HUGE, &after, &total));
    assert_int_equal(after, before);
    launch_and_free();
    device_finish();
    rest = block_create(before);
    block_destroy(&rest);
}

/* ---- waiting ---- */

static void a_stream_is_not_done_in_time(void **state)
{
    aclrtStreamStatus status = ACL_STREAM_STATUS_COMPLETE;

    fake_cuda_hold(true);
    launch(s.stream[0]);
    launch(s.stream[0]);
    assert_acl_ok(aclrtStreamQuery(s.stream[0], &status));
    assert_int_equal(status, ACL_STREAM_STATUS_NOT_READY);
    assert_acl(aclrtSynchronizeStreamWithTimeout(s.stream[0], 2),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_message_has("still has 2 tasks after 2 ms, the first queued by "
                       "aclrtMemcpyAsync");
    fake_cuda_hold(false);
    assert_acl_ok(aclrtSynchronizeStreamWithTimeout(s.stream[0], 60000));
    assert_acl_ok(aclrtStreamQuery(s.stream[0], &status));
    assert_int_equal(status, ACL_STREAM_STATUS_COMPLETE);
}

static void an_event_is_not_complete_in_time(void **state)
{
    fake_cuda_hold(true);
    launch(s.stream[0]);
    assert_acl_ok(aclrtRecordEvent(s.event, s.stream[0]));
    assert_acl(aclrtSynchronizeEventWithTimeout(s.event, 2),
               ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    fake_cuda_hold(false);
    assert_acl_ok(aclrtSynchronizeEventWithTimeout(s.event, 60000));
}

/* Work behind the record is held back by a stream that the driver does not let run. */
static void a_record_is_waited_for_and_nothing_behind_it(void **state)
{
    for (int has_timeout = 0; has_timeout < 2; has_timeout++) {
        launch(s.stream[0]);
        assert_acl_ok(aclrtRecordEvent(s.event, s.stream[0]));
        device_finish();
        fake_cuda_hold(true);
        launch(s.stream[0]);
        assert_acl_ok(has_timeout ? aclrtSynchronizeEventWithTimeout(s.event, 60000)
                                  : aclrtSynchronizeEvent(s.event));
        fake_cuda_hold(false);
        assert_acl_ok(aclrtSynchronizeStream(s.stream[0]));
    }
}

static void *sync_main(void *event)
{
    return (void *)(intptr_t)aclrtSynchronizeEvent(event);
}

/* The thread waits for a record to come, and the device gets it. */
static void a_thread_waits_for_a_record_that_comes_later(void **state)
{
    aclrtEvent plain = NULL;
    pthread_t thread;
    void *rc = NULL;

    assert_acl_ok(aclrtCreateEvent(&plain));
    assert_int_equal(pthread_create(&thread, NULL, sync_main, plain), 0);
    fake_cuda_hold(true);
    launch(s.stream[0]);
    assert_acl_ok(
        aclrtRecordEvent(plain, s.stream[1])); /* the clock, on an idle stream */
    fake_cuda_hold(false);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_int_equal((intptr_t)rc, ACL_SUCCESS);
    assert_acl_ok(aclrtDestroyEvent(plain));
}

/* The wait is in the scheduler and the record with the device, whichever comes first. */
static void a_wait_in_the_scheduler_asks_the_device(void **state)
{
    aclrtEvent plain = NULL;
    struct gate *gate;

    assert_acl_ok(aclrtCreateEventWithFlag(&plain, ACL_EVENT_SYNC));
    for (int is_first = 0; is_first < 2; is_first++) {
        gate = gate_close(s.stream[1]); /* so that the wait cannot be launched */
        if (is_first)
            assert_acl_ok(aclrtStreamWaitEvent(s.stream[1], plain));
        fake_cuda_hold(true);
        launch(s.stream[0]);
        assert_acl_ok(aclrtRecordEvent(plain, s.stream[0]));
        if (!is_first)
            assert_acl_ok(aclrtStreamWaitEvent(s.stream[1], plain));
        fake_cuda_hold(false);
        gate_end(gate);
        assert_acl_ok(aclrtSynchronizeStream(s.stream[1]));
        assert_acl_ok(aclrtResetEvent(plain, s.stream[1]));
        assert_acl_ok(aclrtSynchronizeStream(s.stream[1]));
    }
    assert_acl_ok(aclrtDestroyEvent(plain));
}

/* A wait with a deadline is never launched. */
static void a_wait_for_what_the_device_has_may_time_out(void **state)
{
    fake_cuda_hold(true);
    launch(s.stream[0]);
    assert_acl_ok(aclrtRecordEvent(s.event, s.stream[0]));
    assert_acl_ok(aclrtStreamWaitEventWithTimeout(s.stream[1], s.event, 1));
    assert_acl(aclrtSynchronizeStream(s.stream[1]), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
    assert_acl_ok(aclrtStreamWaitEventWithTimeout(s.stream[1], s.event, 60));
    fake_cuda_hold(false);
    assert_acl_ok(aclrtSynchronizeStream(s.stream[1]));
}

static void waits_are_over_when_the_device_is_done(void **state)
{
    aclrtEventWaitStatus waits = ACL_EVENT_WAIT_STATUS_COMPLETE;
    aclrtEvent plain = NULL;

    assert_acl_ok(aclrtCreateEventWithFlag(&plain, ACL_EVENT_SYNC));
    fake_cuda_hold(true);
    launch(s.stream[0]);
    assert_acl_ok(aclrtRecordEvent(plain, s.stream[0]));
    assert_acl_ok(aclrtStreamWaitEvent(s.stream[1], plain));
    assert_acl_ok(aclrtQueryEventWaitStatus(plain, &waits));
    assert_int_equal(waits, ACL_EVENT_WAIT_STATUS_NOT_READY);
    fake_cuda_hold(false);
    device_finish();
    assert_acl_ok(aclrtQueryEventWaitStatus(plain, &waits)); /* asks all streams */
    assert_int_equal(waits, ACL_EVENT_WAIT_STATUS_COMPLETE);
    assert_acl_ok(aclrtDestroyEvent(plain));
}

/* Copies of pageable memory are the caller's work, after what the device has. */
static void work_of_the_host_keeps_its_place(void **state)
{
    static uint8_t page[SMALL];

    for (int i = 0; i < 20; i++) {
        fill((uint8_t *)s.host, SMALL, (uint64_t)i);
        launch(s.stream[0]);
        assert_acl_ok(aclrtMemcpyAsync(page, SMALL, s.device, SMALL,
                                       ACL_MEMCPY_DEVICE_TO_HOST, s.stream[0]));
        assert_true(is_filled(page, SMALL, (uint64_t)i));
    }
}

/* ---- threads ---- */

static atomic_bool is_recorded;

static void *record_main(void *event)
{
    aclError rc = aclrtSetDevice(0);

    if (rc == ACL_SUCCESS)
        rc = aclrtRecordEvent(event, s.stream[0]);
    is_recorded = true;
    return (void *)(intptr_t)rc;
}

/* The first record with a time waits for the device, to know its clock. */
static void a_call_that_waits_in_the_driver_holds_up_no_other_stream(void **state)
{
    aclrtEvent timed = NULL;
    pthread_t thread;
    void *rc = NULL;

    is_recorded = false;
    assert_acl_ok(aclrtCreateEvent(&timed));
    launch(s.stream[1]);
    assert_acl_ok(
        aclrtSynchronizeStream(s.stream[1])); /* it has a stream of the driver */
    fake_cuda_hold(true);
    launch(s.stream[0]);
    fake_cuda_fail("cuEventSynchronize", 0, 0, false);
    assert_int_equal(pthread_create(&thread, NULL, record_main, timed), 0);
    while (fake_cuda_calls() == 0)
        sched_yield();
    for (int i = 0; i < 100; i++)
        launch(s.stream[1]);
    assert_acl_ok(aclrtRecordEvent(s.event, s.stream[1]));
    assert_acl(aclrtSynchronizeStreamWithTimeout(s.stream[1], 1),
               ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
    assert_false(is_recorded);
    fake_cuda_hold(false);
    assert_int_equal(pthread_join(thread, &rc), 0);
    assert_int_equal((intptr_t)rc, ACL_SUCCESS);
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_acl_ok(aclrtDestroyEvent(timed));
}

struct worker {
    unsigned index;
    aclError rc;
    bool is_right; /* what came back is what went in */
};

/* Copies there and back by two streams that wait for each other, and some host work. */
static aclError round_trips(struct worker *worker)
{
    char *device = s.device + worker->index * CHUNK;
    uint8_t *host = (uint8_t *)s.host + worker->index * CHUNK;
    aclrtStream streams[2] = {NULL, NULL};
    aclrtEvent events[2] = {NULL, NULL};
    aclError rc = aclrtSetDevice(0);

    for (int i = 0; i < 2 && rc == ACL_SUCCESS; i++) {
        rc = aclrtCreateStream(&streams[i]);
        if (rc == ACL_SUCCESS)
            rc = i == 0 ? aclrtCreateEvent(&events[i])
                        : aclrtCreateEventExWithFlag(&events[i], ACL_EVENT_SYNC);
    }
    worker->is_right = true;
    for (unsigned k = 0; k < 150 && rc == ACL_SUCCESS; k++) {
        uint64_t pattern = worker->index * 1000 + k;

        fill(host, SMALL, pattern);
        rc = aclrtMemcpyAsync(device, SMALL, host, SMALL, ACL_MEMCPY_HOST_TO_DEVICE,
                              streams[0]);
        if (rc == ACL_SUCCESS && k % 10 == 9) /* work of the scheduler in between */
            rc = aclrtMemsetAsync(device + SMALL, SMALL, 1, SMALL, streams[0]);
        if (rc == ACL_SUCCESS)
            rc = aclrtRecordEvent(events[1], streams[0]);
        if (rc == ACL_SUCCESS)
            rc = aclrtStreamWaitEvent(streams[1], events[1]);
        if (rc == ACL_SUCCESS)
            rc = aclrtMemcpyAsync(host + SMALL, SMALL, device, SMALL,
                                  ACL_MEMCPY_DEVICE_TO_HOST, streams[1]);
        if (rc == ACL_SUCCESS && k % 3 == 0)
            rc = aclrtRecordEvent(events[0], streams[1]);
        if (rc == ACL_SUCCESS)
            rc = k % 3 == 0 ? aclrtSynchronizeEvent(events[0])
                            : aclrtSynchronizeStream(streams[1]);
        if (rc == ACL_SUCCESS && k % 3 == 0)
            rc = aclrtResetEvent(events[0], streams[1]);
        worker->is_right = worker->is_right && is_filled(host + SMALL, SMALL, pattern);
    }
    for (int i = 0; i < 2; i++) {
        (void)aclrtDestroyStream(streams[i]);
        (void)aclrtDestroyEvent(events[i]);
    }
    return rc;
}

static void *worker_main(void *arg)
{
    struct worker *worker = arg;

    worker->rc = round_trips(worker);
    return NULL;
}

static void threads_have_streams_of_their_own(void **state)
{
    struct worker workers[N_THREADS];
    pthread_t threads[N_THREADS];

    for (unsigned i = 0; i < N_THREADS; i++) {
        workers[i] = (struct worker){.index = i};
        assert_int_equal(pthread_create(&threads[i], NULL, worker_main, &workers[i]), 0);
    }
    for (unsigned i = 0; i < N_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].rc, ACL_SUCCESS);
        assert_true(workers[i].is_right);
    }
}

static uint64_t count_events(void)
{
    struct fake_cuda_counts counts;

    fake_cuda_count(&counts);
    return counts.events;
}

/* Executions put marks among their launches, as streams do, and take them back. */
static void executions_of_a_model_leave_no_marks(void **state)
{
    aclmdlRI model;
    uint64_t n;

    assert_acl_ok(aclmdlRICaptureBegin(s.stream[0], ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    assert_acl_ok(aclrtRecordEvent(s.event, s.stream[0]));
    assert_acl_ok(aclrtStreamWaitEvent(s.stream[1], s.event));
    for (int i = 0; i < 200; i++)
        launch(s.stream[i % 2]);
    assert_acl_ok(aclrtRecordEvent(s.event, s.stream[1]));
    assert_acl_ok(aclrtStreamWaitEvent(s.stream[0], s.event));
    assert_acl_ok(aclmdlRICaptureEnd(s.stream[0], &model));
    for (int i = 0; i < 20; i++)
        assert_acl_ok(aclmdlRIExecute(model, -1));
    n = count_events();
    for (int i = 0; i < 100; i++)
        assert_acl_ok(aclmdlRIExecute(model, -1));
    assert_true(count_events() <= n);
    assert_acl_ok(aclmdlRIDestroy(model));
}

#define lanes_claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)

int main(void)
{
    const struct CMUnitTest claims[] = {
        lanes_claim(launching_alone_lets_go_of_what_is_done),
        lanes_claim(a_stream_that_is_never_empty_lets_go_too),
        lanes_claim(figures_and_shortages_count_no_memory_of_done_work),
        lanes_claim(executions_of_a_model_leave_no_marks),
        lanes_claim(a_stream_is_not_done_in_time),
        lanes_claim(an_event_is_not_complete_in_time),
        lanes_claim(a_record_is_waited_for_and_nothing_behind_it),
        lanes_claim(a_thread_waits_for_a_record_that_comes_later),
        lanes_claim(a_wait_in_the_scheduler_asks_the_device),
        lanes_claim(a_wait_for_what_the_device_has_may_time_out),
        lanes_claim(waits_are_over_when_the_device_is_done),
        lanes_claim(work_of_the_host_keeps_its_place),
        lanes_claim(a_call_that_waits_in_the_driver_holds_up_no_other_stream),
        lanes_claim(threads_have_streams_of_their_own),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
