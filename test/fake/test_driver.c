/* What the fake driver has beyond the facts: how tests steer it, and more than one device. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "fake/whole_driver.h"
#include "fake/control.h"
#include "support/support.h"

#define AM_CU(need_, since_, name_, params_, args_) CUresult name_ params_;
#include "fake/whole_driver.def"
#undef AM_CU

#define assert_cu_ok(call_) assert_int_equal(call_, CUDA_SUCCESS)

static const CUmemAccess_flags readwrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

/* ---- helpers ---- */

static CUcontext use(int device)
{
    CUcontext context;

    assert_cu_ok(cuDevicePrimaryCtxRetain(&context, device));
    assert_cu_ok(cuCtxSetCurrent(context));
    return context;
}

static int begin(void **state)
{
    assert_cu_ok(cuInit(0));
    use(0);
    return 0;
}

static int end(void **state)
{
    struct fake_cuda_counts counts;

    fake_cuda_fail(NULL, 0, 0, false);
    fake_cuda_break(0, CUDA_SUCCESS);
    fake_cuda_hold(false);
    while (cuDevicePrimaryCtxRelease_v2(0) == CUDA_SUCCESS)
        continue;
    while (cuDevicePrimaryCtxRelease_v2(1) == CUDA_SUCCESS)
        continue;
    fake_cuda_count(&counts);
    return counts.handles + counts.mappings + counts.reservations + counts.pinned +
                       counts.registered + counts.streams + counts.events +
                       counts.retained ==
                   0
               ? 0
               : -1;
}

static CUresult create(int device, size_t size, CUmemGenericAllocationHandle *ret_handle)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };

    return cuMemCreate(ret_handle, size, &prop, 0);
}

static CUresult give_access(CUdeviceptr addr, int device)
{
    CUmemAccessDesc desc = {
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
        .flags = readwrite,
    };

    return cuMemSetAccess(addr, CHUNK, &desc, 1);
}

static CUdeviceptr map_one(int device, CUmemGenericAllocationHandle *ret_handle)
{
    CUdeviceptr addr;

    assert_cu_ok(create(device, CHUNK, ret_handle));
    assert_cu_ok(cuMemAddressReserve(&addr, CHUNK, 0, 0, 0));
    assert_cu_ok(cuMemMap(addr, CHUNK, 0, *ret_handle, 0));
    assert_cu_ok(give_access(addr, device));
    return addr;
}

static void unmap_one(CUdeviceptr addr, CUmemGenericAllocationHandle handle)
{
    assert_cu_ok(cuMemUnmap(addr, CHUNK));
    assert_cu_ok(cuMemRelease(handle));
    assert_cu_ok(cuMemAddressFree(addr, CHUNK));
}

static unsigned char byte_at(CUdeviceptr addr)
{
    unsigned char byte = 0;

    assert_cu_ok(cuMemcpyDtoHAsync_v2(&byte, addr, 1, NULL));
    assert_cu_ok(cuStreamSynchronize(NULL));
    return byte;
}

static CUstream new_stream(void)
{
    CUstream stream;

    assert_cu_ok(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    return stream;
}

/* ---- faults ---- */

static void the_nth_call_fails_and_no_other(void **state)
{
    int count;

    fake_cuda_fail(NULL, 3, CUDA_ERROR_OPERATING_SYSTEM, false);
    assert_cu_ok(cuDeviceGetCount(&count));
    assert_cu_ok(cuDeviceGetCount(&count));
    assert_false(fake_cuda_failed());
    assert_int_equal(cuDeviceGetCount(&count), CUDA_ERROR_OPERATING_SYSTEM);
    assert_true(fake_cuda_failed());
    assert_cu_ok(cuDeviceGetCount(&count));
    assert_int_equal(fake_cuda_calls(), 4);
}

static void a_named_call_fails_and_does_nothing(void **state)
{
    CUmemGenericAllocationHandle handle = 5;
    struct fake_cuda_counts counts;
    CUdeviceptr addr;

    fake_cuda_fail("cuMemCreate", 1, CUDA_ERROR_OUT_OF_MEMORY, false);
    assert_cu_ok(cuMemAddressReserve(&addr, CHUNK, 0, 0, 0));
    assert_int_equal(create(0, CHUNK, &handle), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(handle, 5);
    assert_int_equal(fake_cuda_calls(), 1);
    fake_cuda_count(&counts);
    assert_int_equal(counts.handles, 0);
    assert_int_equal(counts.reservations, 1);
    assert_cu_ok(cuMemAddressFree(addr, CHUNK));
}

static void a_lasting_fault_lasts(void **state)
{
    int count;

    fake_cuda_fail("cuDeviceGetCount", 2, CUDA_ERROR_UNKNOWN, true);
    assert_cu_ok(cuDeviceGetCount(&count));
    assert_int_equal(cuDeviceGetCount(&count), CUDA_ERROR_UNKNOWN);
    assert_int_equal(cuDeviceGetCount(&count), CUDA_ERROR_UNKNOWN);
    fake_cuda_fail(NULL, 0, 0, false);
    assert_cu_ok(cuDeviceGetCount(&count));
}

/* ---- streams and contexts ---- */

static void held_streams_do_nothing_until_released(void **state)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr = map_one(0, &handle);
    CUstream stream = new_stream();

    assert_cu_ok(cuMemsetD8Async(addr, 1, CHUNK, stream));
    assert_cu_ok(cuStreamSynchronize(stream));
    fake_cuda_hold(true);
    assert_cu_ok(cuMemsetD8Async(addr, 2, CHUNK, stream));
    /* Often enough for an engine that is not held to have done it. */
    for (int i = 0; i < 5000; i++) {
        assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_NOT_READY);
        if (i % 100 == 0) /* beside busy processes each takes long */
            sched_yield();
    }
    fake_cuda_hold(false);
    assert_cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(byte_at(addr + CHUNK - 1), 2);
    assert_cu_ok(cuStreamDestroy_v2(stream));
    unmap_one(addr, handle);
}

static void a_broken_context_stays_broken(void **state)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr = map_one(0, &handle);
    CUstream stream = new_stream();
    CUcontext context;
    CUstream other;
    size_t size;

    use(1);
    other = new_stream();
    fake_cuda_break(0, CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_int_equal(cuStreamQuery(stream), CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_int_equal(cuMemsetD8Async(addr, 1, 1, stream), CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_int_equal(cuStreamDestroy_v2(stream), CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_cu_ok(cuStreamSynchronize(other));
    assert_cu_ok(cuMemGetInfo_v2(&size, NULL));
    assert_cu_ok(cuDevicePrimaryCtxRelease_v2(0));
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_ERROR_ECC_UNCORRECTABLE);
    assert_cu_ok(cuStreamDestroy_v2(other));
    unmap_one(addr, handle);
}

static void a_wait_reports_a_broken_context(void **state)
{
    CUmemGenericAllocationHandle handle;
    CUdeviceptr addr = map_one(0, &handle);
    CUstream stream = new_stream();
    CUevent event;

    assert_cu_ok(cuEventCreate(&event, CU_EVENT_DEFAULT));
    fake_cuda_hold(true);
    assert_cu_ok(cuMemsetD8Async(addr, 1, CHUNK, stream));
    assert_cu_ok(cuEventRecord(event, stream));
    assert_int_equal(cuEventQuery(event), CUDA_ERROR_NOT_READY);
    fake_cuda_break(0, CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cuEventSynchronize(event), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cuStreamSynchronize(stream), CUDA_ERROR_LAUNCH_FAILED);
    assert_int_equal(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    unmap_one(addr, handle);
}

/* ---- devices ---- */

static void devices_have_memory_of_their_own(void **state)
{
    CUmemGenericAllocationHandle all;
    CUmemGenericAllocationHandle one;
    size_t left;

    assert_cu_ok(cuMemGetInfo_v2(&left, NULL));
    assert_cu_ok(create(0, left, &all));
    assert_int_equal(create(0, CHUNK, &one), CUDA_ERROR_OUT_OF_MEMORY);
    assert_cu_ok(create(1, CHUNK, &one));
    assert_cu_ok(cuMemRelease(one));
    assert_cu_ok(cuMemRelease(all));
    assert_cu_ok(create(0, CHUNK, &one));
    assert_cu_ok(cuMemRelease(one));
}

static void a_peer_needs_a_right_or_the_owners_context(void **state)
{
    CUmemGenericAllocationHandle mine;
    CUmemGenericAllocationHandle its;
    CUdeviceptr at_0 = map_one(0, &mine);
    CUdeviceptr at_1 = map_one(1, &its);
    CUcontext first;
    CUcontext second;
    CUstream stream;

    assert_cu_ok(cuCtxGetCurrent(&first));
    assert_cu_ok(cuMemsetD8Async(at_0, 7, CHUNK, NULL));
    assert_cu_ok(cuStreamSynchronize(NULL));
    second = use(1);
    stream = new_stream();
    assert_int_equal(cuMemcpyDtoDAsync_v2(at_1, at_0, CHUNK, stream),
                     CUDA_ERROR_INVALID_VALUE);
    assert_cu_ok(cuMemcpyPeerAsync(at_1, second, at_0, first, CHUNK / 2, stream));
    assert_cu_ok(give_access(at_0, 1));
    assert_cu_ok(cuMemcpyDtoDAsync_v2(at_1 + CHUNK / 2, at_0, CHUNK / 2, stream));
    assert_cu_ok(cuStreamSynchronize(stream));
    assert_int_equal(byte_at(at_1), 7);
    assert_int_equal(byte_at(at_1 + CHUNK - 1), 7);
    assert_cu_ok(cuStreamDestroy_v2(stream));
    unmap_one(at_0, mine);
    unmap_one(at_1, its);
}

/* ---- memory ---- */

static size_t descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    size_t n = 0;

    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void handles_cost_no_descriptors(void **state)
{
    enum { N = 500 };
    static CUmemGenericAllocationHandle handles[N];
    size_t before = descriptors();

    for (size_t i = 0; i < N; i++)
        assert_cu_ok(create(0, CHUNK, &handles[i]));
    assert_int_equal(descriptors(), before);
    for (size_t i = 0; i < N; i++)
        assert_cu_ok(cuMemRelease(handles[i]));
}

struct filling {
    CUdeviceptr addr;
    CUcontext context;
    atomic_bool is_over;
    unsigned rounds;
};

static void *fill_on_and_on(void *arg)
{
    struct filling *self = arg;
    CUstream stream;

    cuCtxSetCurrent(self->context);
    stream = new_stream();
    while (self->rounds == 0 || (self->rounds < 1000 && !atomic_load(&self->is_over))) {
        self->rounds++;
        cuMemsetD8Async(self->addr, (unsigned char)(self->rounds % 255), CHUNK, stream);
        cuStreamSynchronize(stream);
    }
    cuStreamDestroy_v2(stream);
    return NULL;
}

/* The first export moves the bytes; a fill beside it must go to where they are then. */
static void an_export_under_copies_loses_nothing(void **state)
{
    for (int i = 0; i < 20; i++) {
        CUmemGenericAllocationHandle handle;
        struct filling filling = {.addr = map_one(0, &handle)};
        pthread_t thread;
        int fd;

        assert_cu_ok(cuCtxGetCurrent(&filling.context));
        assert_int_equal(pthread_create(&thread, NULL, fill_on_and_on, &filling), 0);
        assert_cu_ok(cuMemExportToShareableHandle(
            &fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
        atomic_store(&filling.is_over, true);
        pthread_join(thread, NULL);
        assert_int_equal(byte_at(filling.addr), filling.rounds % 255);
        assert_int_equal(byte_at(filling.addr + CHUNK - 1), filling.rounds % 255);
        close(fd);
        unmap_one(filling.addr, handle);
    }
}

static void wait_until_open(void *arg)
{
    while (!atomic_load((atomic_bool *)arg))
        sched_yield();
}

/* The other device has nothing to do when the record is made. */
static void a_record_wakes_a_stream_of_another_device(void **state)
{
    atomic_bool is_open = false;
    atomic_bool was_open = true;
    CUstream recorder, waiter, other;
    CUevent event;

    assert_cu_ok(cuStreamCreateWithPriority(&recorder, CU_STREAM_NON_BLOCKING, 0));
    assert_cu_ok(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    assert_cu_ok(cuLaunchHostFunc(recorder, wait_until_open, &is_open));
    assert_cu_ok(cuEventRecord(event, recorder));
    use(1);
    assert_cu_ok(cuStreamCreateWithPriority(&waiter, CU_STREAM_NON_BLOCKING, 0));
    assert_cu_ok(cuStreamCreateWithPriority(&other, CU_STREAM_NON_BLOCKING, 0));
    assert_cu_ok(cuStreamWaitEvent(waiter, event, 0));
    assert_cu_ok(cuLaunchHostFunc(other, wait_until_open, &was_open));
    assert_cu_ok(cuStreamSynchronize(other));
    atomic_store(&is_open, true);
    assert_cu_ok(cuStreamSynchronize(waiter));
    assert_cu_ok(cuStreamDestroy_v2(waiter));
    assert_cu_ok(cuStreamDestroy_v2(other));
    use(0);
    assert_cu_ok(cuStreamDestroy_v2(recorder));
    assert_cu_ok(cuEventDestroy_v2(event));
}

int main(void)
{
#define fake_claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)
    const struct CMUnitTest claims[] = {
        fake_claim(the_nth_call_fails_and_no_other),
        fake_claim(a_named_call_fails_and_does_nothing),
        fake_claim(a_lasting_fault_lasts),
        fake_claim(held_streams_do_nothing_until_released),
        fake_claim(a_broken_context_stays_broken),
        fake_claim(a_wait_reports_a_broken_context),
        fake_claim(devices_have_memory_of_their_own),
        fake_claim(a_peer_needs_a_right_or_the_owners_context),
        fake_claim(handles_cost_no_descriptors),
        fake_claim(an_export_under_copies_loses_nothing),
        fake_claim(a_record_wakes_a_stream_of_another_device),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
