/* What the cuda backend leaves and finds in the driver, seen from the driver's side. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake/whole_driver.h"
#include "fake/control.h"
#include "support/pools.h"
#include "support/support.h"
#include "support/vmm.h"

#define AM_CU(need_, since_, name_, params_, args_) CUresult name_ params_;
#include "fake/whole_driver.def"
#undef AM_CU

static void work(void)
{
    char text[64] = "bytes";
    char back[64] = "";
    void *device = NULL;
    void *host = NULL;

    assert_acl_ok(aclrtMalloc(&device, sizeof(text), ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMallocHost(&host, sizeof(text)));
    assert_acl_ok(aclrtMemcpy(device, 64, text, 64, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(aclrtMemcpy(back, 64, device, 64, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_string_equal(back, text);
    assert_acl_ok(aclrtFreeHost(host));
    assert_acl_ok(aclrtFree(device));
}

static void no_context_is_current_that_was_not(void **state)
{
    CUcontext context = (CUcontext)1;

    work();
    assert_int_equal(cuCtxGetCurrent(&context), CUDA_SUCCESS);
    assert_null(context);
}

static void the_programs_context_stays_current(void **state)
{
    CUcontext context;
    CUcontext own;

    assert_int_equal(cuDevicePrimaryCtxRetain(&own, 1), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(own), CUDA_SUCCESS);
    work();
    assert_int_equal(cuCtxPopCurrent_v2(&context), CUDA_SUCCESS);
    assert_ptr_equal(context, own);
    assert_int_equal(cuCtxPopCurrent_v2(&context), CUDA_ERROR_INVALID_CONTEXT);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(1), CUDA_SUCCESS);
}

/* Work that asks for streams, waits for them, and locks memory anew. */
static const char *work_on_a_stream(void)
{
    aclrtStream stream;
    aclrtEvent event;
    void *device;
    void *host;

    if (aclrtSetDevice(0) || aclrtMallocHost(&host, 8 * CHUNK) ||
        aclrtMalloc(&device, 8 * CHUNK, ACL_MEM_MALLOC_HUGE_FIRST) ||
        aclrtCreateStream(&stream) || aclrtCreateEvent(&event))
        return "something cannot be had";
    for (int i = 0; i < 200; i++) {
        if (aclrtMemcpyAsync(device, CHUNK, host, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE,
                             stream))
            return "a launch failed";
    }
    if (aclrtRecordEvent(event, stream) || aclrtStreamWaitEvent(stream, event) ||
        aclrtSynchronizeEvent(event) || aclrtSynchronizeStream(stream) ||
        aclrtMemcpy(host, CHUNK, device, CHUNK, ACL_MEMCPY_DEVICE_TO_HOST))
        return "waiting failed";
    if (aclrtDestroyEvent(event) || aclrtDestroyStream(stream) || aclrtFree(device) ||
        aclrtFreeHost(host) || aclrtResetDevice(0))
        return "something cannot be given back";
    return NULL;
}

static void *work_main(void *unused)
{
    return (void *)(uintptr_t)work_on_a_stream();
}

/* Others in the process make a graph, as PyTorch does, in one thread or another. */
static void a_capture_of_a_graph_is_not_broken(void **state)
{
    CUcontext context, popped;
    CUstream stream;

    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(context), CUDA_SUCCESS);
    assert_int_equal(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0),
                     CUDA_SUCCESS);
    for (int is_other = 0; is_other < 2; is_other++) {
        CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        void *why = NULL;
        pthread_t thread;
        CUgraph graph;

        assert_int_equal(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL),
                         CUDA_SUCCESS);
        if (is_other) {
            assert_int_equal(pthread_create(&thread, NULL, work_main, NULL), 0);
            assert_int_equal(pthread_join(thread, &why), 0);
        } else {
            why = work_main(NULL);
        }
        if (why != NULL)
            fail_msg("%s", (char *)why);
        assert_int_equal(cuStreamEndCapture(stream, &graph), CUDA_SUCCESS);
        assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
        assert_int_equal(mode, CU_STREAM_CAPTURE_MODE_GLOBAL); /* what it was */
        assert_int_equal(cuThreadExchangeStreamCaptureMode(&mode), CUDA_SUCCESS);
    }
    assert_int_equal(cuStreamDestroy_v2(stream), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent_v2(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
}

static bool has_context(CUdevice device)
{
    unsigned flags;
    int is_active = 0;

    assert_int_equal(cuDevicePrimaryCtxGetState(device, &flags, &is_active),
                     CUDA_SUCCESS);
    return is_active;
}

static void use_pinned_memory(void)
{
    void *host = NULL;

    assert_false(has_context(0) || has_context(1));
    assert_acl_ok(aclrtMallocHost(&host, 64));
    assert_false(has_context(0));
    assert_true(has_context(1));
    assert_acl_ok(aclrtFreeHost(host));
}

/* A context costs hundreds of megabytes of a GPU that is there for others. */
static void pinned_memory_uses_the_gpu_of_the_program(void **state)
{
    aclrtContext context = NULL;

    assert_acl_ok(aclrtSetDevice(1));
    use_pinned_memory();
    assert_acl_ok(aclrtResetDevice(1));
    assert_acl_ok(aclFinalize());
    start("default");
    assert_acl_ok(aclrtCreateContext(&context, 1));
    use_pinned_memory();
    assert_acl_ok(aclrtDestroyContext(context));
}

/* The library's own books know nothing of who else has memory there. */
static void memory_of_other_processes_is_not_promised(void **state)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0},
    };
    CUmemGenericAllocationHandle theirs;
    struct snapshot before = take_snapshot();
    void *ours = NULL;
    size_t real;
    CUcontext own;

    assert_int_equal(cuDevicePrimaryCtxRetain(&own, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent_v2(own), CUDA_SUCCESS);
    assert_int_equal(cuMemGetInfo_v2(&real, NULL), CUDA_SUCCESS);
    assert_int_equal(cuMemCreate(&theirs, real - 8 * CHUNK, &prop, 0), CUDA_SUCCESS);
    assert_int_equal(free_memory(), 8 * CHUNK);
    assert_refused(aclrtMalloc(&ours, 16 * CHUNK, ACL_MEM_MALLOC_HUGE_FIRST),
                   ACL_ERROR_RT_MEMORY_ALLOCATION, "GPU 0 has 16777216 of");
    assert_message_has("Failed to allocate");
    assert_message_has("CUDA_ERROR_OUT_OF_MEMORY");
    assert_int_equal(cuMemRelease(theirs), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent_v2(&own), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease_v2(0), CUDA_SUCCESS);
    assert_int_equal(free_memory(), before.free);
}

/* Refusals name the driver's own code. */
static void a_lost_gpu_is_reported_by_name(void **state)
{
    char text[64] = "bytes";
    void *device = NULL;

    assert_acl_ok(aclrtMalloc(&device, sizeof(text), ACL_MEM_MALLOC_HUGE_FIRST));
    fake_cuda_break(0, CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_true(aclrtMemcpy(device, 64, text, 64, ACL_MEMCPY_HOST_TO_DEVICE) != 0);
    assert_non_null(strstr(aclGetRecentErrMsg(), "CUDA_ERROR_ECC_UNCORRECTABLE"));
    (void)aclrtFree(device);
}

/* Calls of the driver's that give access, which cost more than all others. */
static void count_access_calls(void)
{
    fake_cuda_fail("cuMemSetAccess", 0, CUDA_SUCCESS, false);
}

static void a_pool_asks_for_access_once_for_each_row_of_chunks(void **state)
{
    aclrtMemPool pool = pool_create(64 * CHUNK);
    char *all;

    count_access_calls();
    all = take(pool, 16 * CHUNK, NULL);
    assert_int_equal(fake_cuda_calls(), 1);
    assert_acl_ok(aclrtMemsetAsync(all, 16 * CHUNK, 7, 16 * CHUNK, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_all_bytes(all, 16 * CHUNK, 7);
    assert_acl_ok(aclrtMemPoolFreeAsync(all, NULL));
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/* A chunk that has memory and no access, and does not let go of it either. */
static void a_pool_opens_what_it_could_not_take_back(void **state)
{
    aclrtMemPool pool = pool_create(4 * CHUNK); /* the chunks count once */
    aclError rc = ACL_ERROR_RT_FAILURE;
    void *all = NULL;

    for (uint64_t nth = 1; rc != ACL_SUCCESS; nth++) {
        fake_cuda_fail(NULL, nth, CUDA_ERROR_OPERATING_SYSTEM, true);
        rc = aclrtMemPoolMallocAsync(&all, 4 * CHUNK, pool, NULL);
        fake_cuda_fail(NULL, 0, 0, false);
        if (rc != ACL_SUCCESS)
            all = take(pool, 4 * CHUNK, NULL);
        assert_acl_ok(aclrtMemsetAsync(all, 4 * CHUNK, 7, 4 * CHUNK, NULL));
        assert_acl_ok(aclrtSynchronizeStream(NULL));
        assert_acl_ok(aclrtMemPoolFreeAsync(all, NULL));
        assert_acl_ok(aclrtSynchronizeStream(NULL));
        assert_acl_ok(aclrtMemPoolTrimTo(pool, 0));
    }
    assert_acl_ok(aclrtMemPoolDestroy(pool));
}

/* The driver refuses a range that begins in locked memory and ends outside. */
static void memory_that_is_locked_in_part_is_copied(void **state)
{
    enum { PAGE = 4096, SIZE = 3 * PAGE };
    char *host = aligned_alloc(PAGE, SIZE);
    void *device = NULL;

    assert_acl_ok(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    for (size_t part = 0; part < 3; part++) {
        char *locked = host + part * PAGE;

        fill((uint8_t *)host, SIZE, part);
        assert_acl_ok(aclrtHostRegisterV2(locked, PAGE, ACL_HOST_REG_PINNED));
        assert_acl_ok(copy(device, host, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
        memset(host, 0, SIZE);
        assert_acl_ok(copy(host, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST));
        assert_true(is_filled((uint8_t *)host, SIZE, part));
        assert_acl_ok(aclrtHostUnregister(locked));
    }
    assert_acl_ok(aclrtFree(device));
    free(host);
}

static int start_in_child(const char *backend)
{
    pid_t child = fork();
    int status = -1;

    if (child == 0) {
        setenv("ACLMEM_BACKEND", backend, 1);
        _exit(aclInit(NULL) == ACL_SUCCESS && aclrtSetDevice(0) == ACL_SUCCESS
                  ? 0
                  : (strstr(aclGetRecentErrMsg(), "child") != NULL ? 1 : 2));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WEXITSTATUS(status);
}

/* The driver does not work there, which is said, and no GPU is one to be found. */
static void a_child_of_a_process_that_used_the_driver_gets_a_clear_error(void **state)
{
    work();
    assert_acl_ok(aclFinalize());
    assert_int_equal(start_in_child("cuda"), 1);
    assert_int_equal(start_in_child("auto"), 0);
}

static void a_second_range_for_mapped_memory_asks_once(void **state)
{
    enum { N = 8 };
    char *src = reserve(N * CHUNK), *dst = reserve(N * CHUNK);
    aclrtDrvMemHandle handles[N];

    for (size_t i = 0; i < N; i++) {
        handles[i] = alloc(CHUNK);
        map(src + i * CHUNK, CHUNK, handles[i]);
    }
    count_access_calls();
    assert_acl_ok(aclrtMemMapSelectedLink(dst, N * CHUNK, src, 0));
    assert_int_equal(fake_cuda_calls(), 1);
    put_pattern(src, N * CHUNK, 1);
    assert_pattern(dst, N * CHUNK, 1);
    for (size_t i = 0; i < N; i++) {
        assert_acl_ok(aclrtUnmapMem(src + i * CHUNK));
        assert_acl_ok(aclrtUnmapMem(dst + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(src));
    assert_acl_ok(aclrtReleaseMemAddress(dst));
}

/* Device 0's row is open when device 1's fails: none of it stays. */
static void a_second_range_is_opened_whole_or_not_at_all(void **state)
{
    char *src = reserve(3 * CHUNK), *dst = reserve(3 * CHUNK);
    aclrtDrvMemHandle handles[] = {alloc(CHUNK), alloc_on(1, CHUNK), alloc_host(CHUNK)};

    for (size_t i = 0; i < 3; i++)
        map(src + i * CHUNK, CHUNK, handles[i]);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        fake_cuda_fail("cuMemSetAccess", nth, CUDA_ERROR_OPERATING_SYSTEM, false);
        assert_refused(aclrtMemMapSelectedLink(dst, 3 * CHUNK, src, 0),
                       ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "CUDA_ERROR_OPERATING_SYSTEM");
        fake_cuda_fail(NULL, 0, 0, false);
    }
    assert_acl_ok(aclrtMemMapSelectedLink(dst, 3 * CHUNK, src, 0));
    assert_int_equal(get_access(dst, ACL_MEM_LOCATION_TYPE_DEVICE, 0),
                     ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    assert_int_equal(get_access(dst + CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 1),
                     ACL_RT_MEM_ACCESS_FLAGS_READWRITE);
    memset(dst + 2 * CHUNK, 1, CHUNK);
    for (size_t i = 0; i < 3; i++) {
        put_pattern(src + i * CHUNK, CHUNK, i);
        assert_pattern(dst + i * CHUNK, CHUNK, i);
        assert_acl_ok(aclrtUnmapMem(src + i * CHUNK));
        assert_acl_ok(aclrtUnmapMem(dst + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(src));
    assert_acl_ok(aclrtReleaseMemAddress(dst));
}

/* That the driver did not take back when it was asked to. */
static uint64_t stuck_handles;

static int nothing_is_left(void **state)
{
    struct fake_cuda_counts counts;

    (void)aclFinalize();
    fake_cuda_break(0, CUDA_SUCCESS);
    fake_cuda_count(&counts);
    assert_int_equal(counts.handles, stuck_handles);
    assert_int_equal(counts.mappings, 0);
    assert_int_equal(counts.reservations, 0);
    assert_int_equal(counts.pinned, 0);
    assert_int_equal(counts.registered, 0);
    assert_int_equal(counts.streams, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.retained, 0);
    return 0;
}

static int only_handles_are_left(void **state)
{
    struct fake_cuda_counts counts;

    (void)aclFinalize();
    fake_cuda_count(&counts);
    stuck_handles = counts.handles;
    return nothing_is_left(state);
}

static int start_without_device(void **state)
{
    start("default");
    return 0;
}

static int start_a3(void **state)
{
    start("default", "ACLMEM_PRODUCT=A3");
    assert_acl_ok(aclrtSetDevice(0));
    return 0;
}

int main(void)
{
#define backend_claim(f_) \
    cmocka_unit_test_setup_teardown(f_, start_default, nothing_is_left)
    const struct CMUnitTest claims[] = {
        backend_claim(no_context_is_current_that_was_not),
        backend_claim(the_programs_context_stays_current),
        backend_claim(a_capture_of_a_graph_is_not_broken),
        backend_claim(a_pool_asks_for_access_once_for_each_row_of_chunks),
        cmocka_unit_test_setup_teardown(pinned_memory_uses_the_gpu_of_the_program,
                                        start_without_device, nothing_is_left),
        backend_claim(memory_of_other_processes_is_not_promised),
        backend_claim(memory_that_is_locked_in_part_is_copied),
        backend_claim(a_child_of_a_process_that_used_the_driver_gets_a_clear_error),
        cmocka_unit_test_setup_teardown(a_second_range_for_mapped_memory_asks_once,
                                        start_a3, nothing_is_left),
        cmocka_unit_test_setup_teardown(a_second_range_is_opened_whole_or_not_at_all,
                                        start_a3, nothing_is_left),
        cmocka_unit_test_setup_teardown(a_pool_opens_what_it_could_not_take_back,
                                        start_default, only_handles_are_left),
        backend_claim(
            a_lost_gpu_is_reported_by_name), /* for this process: the last one */
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
