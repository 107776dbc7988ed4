/* What the cuda backend leaves and finds in the driver, seen from the driver's side. */
#include <string.h>

#include "backend/cuda/driver.h"
#include "fake/control.h"
#include "support/pools.h"
#include "support/support.h"
#include "support/vmm.h"

#define AM_CU(need_, since_, name_, params_, args_) CUresult name_ params_;
#include "backend/cuda/driver.def"
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

/* Refusals name the driver's own code. */
static void a_lost_gpu_is_told_by_name(void **state)
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

static int nothing_is_left(void **state)
{
    struct fake_cuda_counts counts;

    (void)aclFinalize();
    fake_cuda_break(0, CUDA_SUCCESS);
    fake_cuda_count(&counts);
    assert_int_equal(counts.handles, 0);
    assert_int_equal(counts.mappings, 0);
    assert_int_equal(counts.reservations, 0);
    assert_int_equal(counts.pinned, 0);
    assert_int_equal(counts.registered, 0);
    assert_int_equal(counts.streams, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.retained, 0);
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
        backend_claim(a_pool_asks_for_access_once_for_each_row_of_chunks),
        cmocka_unit_test_setup_teardown(a_second_range_for_mapped_memory_asks_once,
                                        start_a3, nothing_is_left),
        backend_claim(a_lost_gpu_is_told_by_name), /* for this process: the last one */
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
