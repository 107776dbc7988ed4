/*
 * What becomes of the memory of blocks: who may have it when, what is free, who has how
 * much.
 */
#include "support/blocks.h"
#include "support/vmm.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory in use while it is freed ---- */

/* A view keeps its memory as work on a stream does. */
static void freed_memory_in_use_is_not_allocated_again(void **state)
{
    static const size_t all[] = {100, 30 * KIB, 300 * KIB, 5 * MIB};
    enum { MORE = 20 };

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char *p = device_malloc(all[i]);
        char *more[MORE];
        void *view = NULL;

        put_pattern(p, all[i], i);
        assert_acl_ok(aclmem_host_view(p, all[i], &view));
        device_free(p);
        assert_refused(aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID, "already freed");
        assert_int_equal(location_type(p), ACL_MEM_LOCATION_TYPE_UNREGISTERED);
        for (size_t k = 0; k < MORE; k++) {
            more[k] = device_malloc(all[i]);
            assert_ptr_not_equal(more[k], p);
            assert_acl_ok(aclrtMemset(more[k], all[i], 0xff, all[i]));
        }
        assert_true(is_filled(view, all[i], i));
        for (size_t k = 0; k < MORE; k++)
            device_free(more[k]);
        assert_acl_ok(aclmem_host_view_end(view));
    }
}

static void memory_in_use_counts_until_it_is_not(void **state)
{
    size_t before = free_memory();
    char *p = device_malloc(5 * MIB);
    void *view = NULL;

    assert_acl_ok(aclmem_host_view(p, 100, &view));
    device_free(p);
    assert_int_equal(before - free_memory(), 6 * MIB);
    assert_acl_ok(aclmem_host_view_end(view));
    assert_int_equal(before, free_memory());
}

static void wait_for_word(void *arg)
{
    while (!atomic_load((atomic_bool *)arg))
        sched_yield();
}

/* A copy that is queued behind something has its memory when it comes to run. */
static void freed_memory_serves_the_work_on_a_stream(void **state)
{
    static const size_t all[] = {100, 30 * KIB, 300 * KIB, 5 * MIB};
    enum { MORE = 10 };
    static atomic_bool is_let_go;
    aclrtStream stream = NULL;

    need_locked(64 * MIB);
    assert_acl_ok(aclrtCreateStream(&stream));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        char *p = device_malloc(all[i]);
        char *from = host_malloc(all[i]);
        char *more[MORE];

        memset(from, 0x33, all[i]);
        is_let_go = false;
        assert_acl_ok(aclrtLaunchHostFunc(stream, wait_for_word, &is_let_go));
        assert_acl_ok(
            aclrtMemcpyAsync(p, all[i], from, all[i], ACL_MEMCPY_HOST_TO_DEVICE, stream));
        device_free(p);
        host_free(from);
        for (size_t k = 0; k < MORE; k++) {
            more[k] = device_malloc(all[i]);
            assert_ptr_not_equal(more[k], p);
            put_pattern(more[k], all[i], k);
        }
        is_let_go = true;
        assert_acl_ok(aclrtSynchronizeStream(stream));
        for (size_t k = 0; k < MORE; k++) {
            assert_pattern(more[k], all[i], k);
            device_free(more[k]);
        }
    }
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_int_equal(free_memory(), total_memory());
}

static void a_reset_leaves_memory_in_use_alone(void **state)
{
    static const size_t all[] = {100, 5 * MIB};

    for (size_t i = 0; i < 2; i++) {
        char *p = device_malloc(all[i]);
        char *q = device_malloc(all[i]);
        void *view = NULL;
        size_t before;

        put_pattern(p, all[i], 7);
        assert_acl_ok(aclmem_host_view(p, all[i], &view));
        assert_acl_ok(aclrtResetDevice(0));
        assert_acl_ok(aclrtSetDevice(0));
        assert_int_equal(stats().blocks, 0);
        assert_refused(aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID, "already freed");
        assert_refused(aclrtFree(q), ACL_ERROR_RT_PARAM_INVALID, "already freed");
        assert_true(is_filled(view, all[i], 7));
        before = free_memory();
        assert_acl_ok(aclmem_host_view_end(view));
        assert_int_equal(free_memory() - before, all[i] < MIB ? CHUNK : 3 * CHUNK);
        assert_int_equal(free_memory(), total_memory());
    }
}

static void a_stop_leaves_memory_in_use_alone(void **state)
{
    char *p = device_malloc(100);
    char *host = host_malloc(100);
    void *view = NULL;
    void *host_view = NULL;

    put_pattern(p, 100, 7);
    fill((uint8_t *)host, 100, 8);
    assert_acl_ok(aclmem_host_view(p, 100, &view));
    assert_acl_ok(aclmem_host_view(host, 100, &host_view));
    assert_acl_ok(aclFinalize());
    assert_true(is_filled(view, 100, 7));
    assert_true(is_filled(host_view, 100, 8));
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclrtSetDevice(0));
    assert_true(is_filled(host_view, 100, 8));
    assert_acl_ok(aclmem_host_view_end(view));
    assert_acl_ok(aclmem_host_view_end(host_view));
    assert_int_equal(free_memory(), total_memory());
}

/* ---- two devices ---- */

static void a_copy_between_devices_needs_peer_access(void **state)
{
    char *here = device_malloc(5000);
    struct block b = block_create(CHUNK);
    char *there;

    assert_acl_ok(aclrtSetDevice(1));
    there = device_malloc(5000);
    put_pattern(there, 5000, 1);
    assert_refused(copy(here, there, 5000, ACL_MEMCPY_DEVICE_TO_DEVICE),
                   ACL_ERROR_RT_PARAM_INVALID, "aclrtDeviceEnablePeerAccess");
    assert_acl_ok(aclrtDeviceEnablePeerAccess(0, 0));
    assert_acl_ok(copy(here, there, 5000, ACL_MEMCPY_DEVICE_TO_DEVICE));
    assert_pattern(here, 5000, 1);
    assert_refused(copy(b.va, there, 5000, ACL_MEMCPY_DEVICE_TO_DEVICE),
                   ACL_ERROR_RT_FEATURE_NOT_SUPPORT, "aclrtMemcpyAsync");
    assert_acl_ok(aclrtDeviceDisablePeerAccess(0));
    assert_acl(copy(here, there, 5000, ACL_MEMCPY_DEVICE_TO_DEVICE),
               ACL_ERROR_RT_PARAM_INVALID);
    device_free(there);
    assert_acl_ok(aclrtResetDevice(1));
    assert_acl_ok(aclrtSetDevice(0));
    device_free(here);
    block_destroy(&b);
}

/* ---- books ---- */

static void free_memory_is_as_before_when_all_is_freed(void **state)
{
    enum { N = 3000 };
    static char *p[N];
    size_t before = free_memory();
    uint64_t seed = 1;

    assert_int_equal(before, total_memory());
    for (size_t i = 0; i < N; i++)
        p[i] = device_malloc(1 + random_to(&seed, i % 100 == 0 ? 4 * MIB : 20000));
    assert_true(free_memory() < before);
    for (size_t i = 0; i < N; i++)
        device_free(p[i * 7 % N]);
    assert_int_equal(free_memory(), before);
}

static void a_chunk_is_taken_for_many_small_blocks(void **state)
{
    enum { N = 1000 };
    static char *p[N];
    size_t before = free_memory();

    for (size_t i = 0; i < N; i++)
        p[i] = device_malloc(1000);
    assert_int_equal(before - free_memory(), CHUNK);
    for (size_t i = 0; i < N; i++)
        device_free(p[i]);
    assert_int_equal(free_memory(), before);
}

static void memory_freed_by_blocks_serves_physical_memory(void **state)
{
    enum { N = 30000 };
    static char *p[N];
    aclrtDrvMemHandle handle;

    for (size_t i = 0; i < N; i++)
        p[i] = device_malloc(3000 + i % 5 * 1000);
    for (size_t i = 0; i < N; i++)
        device_free(p[i]);
    handle = alloc(total_memory());
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void memory_runs_out_and_comes_back(void **state)
{
    static const size_t all[] = {100, 5000, 100 * KIB, MIB - 32, 3 * MIB, 40 * MIB};
    enum { MAX = 1000000 };
    char **p = calloc(MAX, sizeof(*p));

    assert_non_null(p);
    start("default", "ACLMEM_MEMORY=96M");
    assert_acl_ok(aclrtSetDevice(0));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        void *one = (void *)0x77;
        size_t n = 0;

        while (n < MAX &&
               aclrtMalloc((void **)&p[n], all[i], ACL_MEM_MALLOC_HUGE_FIRST) == 0)
            n++;
        assert_true(n < MAX && n * all[i] > total_memory() / 4);
        assert_refused(aclrtMalloc(&one, all[i], ACL_MEM_MALLOC_HUGE_FIRST),
                       ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
        assert_ptr_equal(one, (void *)0x77);
        assert_true(strncmp(kept_message(), "EL0004", 6) == 0);
        device_free(p[n / 2]);
        p[n / 2] = device_malloc(all[i]);
        for (size_t k = 0; k < n; k++)
            device_free(p[k]);
        assert_int_equal(free_memory(), total_memory());
    }
    free(p);
}

static void more_than_there_is_fails_at_once(void **state)
{
    static const size_t all[] = {GIB + 1,      100 * GIB,      (size_t)1 << 47,
                                 SIZE_MAX / 2, SIZE_MAX - 100, SIZE_MAX - 31,
                                 SIZE_MAX};
    void *p = NULL;

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        assert_refused(aclrtMalloc(&p, all[i], ACL_MEM_MALLOC_HUGE_FIRST),
                       ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
        assert_refused(aclrtMallocAlign32(&p, all[i], ACL_MEM_MALLOC_NORMAL_ONLY),
                       ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    }
}

static void an_empty_chunk_serves_another_size(void **state)
{
    enum { MAX = 400000 };
    char **p = calloc(MAX, sizeof(*p));
    static const size_t all[] = {4000, 700, 60000, 2500};

    assert_non_null(p);
    start("default", "ACLMEM_MEMORY=96M");
    assert_acl_ok(aclrtSetDevice(0));
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        size_t n = 0;

        while (n < MAX &&
               aclrtMalloc((void **)&p[n], all[i], ACL_MEM_MALLOC_HUGE_FIRST) == 0)
            n++;
        /*
         * An eighth at most is lost to the size class, and a little at the ends of
         * chunks.
         */
        assert_true(n < MAX);
        assert_true((double)n * (double)all[i] > 0.85 * (double)total_memory());
        for (size_t k = 0; k < n; k++)
            device_free(p[k]);
    }
    free(p);
}

/* What is kept for later has a limit; each piece of memory is a mapping here. */
static void little_is_kept_for_later(void **state)
{
    enum { N = 100 };
    void *p[N];
    size_t before;

    start("default", "ACLMEM_ISOLATE=0");
    assert_acl_ok(aclrtSetDevice(0));
    before = library_mappings();
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtMallocAlign32(&p[i], CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_true(library_mappings() - before >= N);
    for (size_t i = 0; i < N; i++)
        device_free(p[i]);
    /* 32 MB by the heap and 8 MB by the thread. */
    assert_true(library_mappings() - before <= 2 * 40 * MIB / CHUNK);
}

/*
 * Every second block is freed: what is left open is filled again, and no chunk more is
 * taken.
 */
static void gaps_are_used_again(void **state)
{
    enum { N = 20000 };
    static char *p[N];
    size_t left;

    for (size_t i = 0; i < N; i++)
        p[i] = device_malloc(2000);
    left = free_memory();
    for (int round = 0; round < 5; round++) {
        for (size_t i = (size_t)round % 2; i < N; i += 2)
            device_free(p[i]);
        for (size_t i = (size_t)round % 2; i < N; i += 2)
            p[i] = device_malloc(2000);
        assert_int_equal(free_memory(), left);
    }
    for (size_t i = 0; i < N; i++)
        device_free(p[i]);
}

/* New blocks gather in the lowest chunks, so that those above become empty. */
static void chunks_become_empty_when_few_blocks_live(void **state)
{
    enum { N = 40000, KEEP = 400 };
    static char *p[N];
    uint64_t seed = 3;

    for (size_t i = 0; i < N; i++)
        p[i] = device_malloc(2000);
    for (size_t i = 0; i < N; i++) {
        size_t k = random_to(&seed, N);
        char *q = p[i];

        p[i] = p[k];
        p[k] = q;
    }
    for (size_t i = 2 * KEEP; i < N; i++)
        device_free(p[i]);
    assert_true(total_memory() - free_memory() > 35 * CHUNK); /* scattered */
    for (size_t i = 0; i < KEEP; i++)
        p[2 * KEEP + i] = device_malloc(2000);
    for (size_t i = 0; i < 2 * KEEP; i++)
        device_free(p[i]);
    /*
     * Some came from the thread's list of blocks that were just freed, wherever they are.
     */
    assert_true(total_memory() - free_memory() <= 15 * CHUNK);
    for (size_t i = 0; i < KEEP; i++)
        device_free(p[2 * KEEP + i]);
}

static void a_reset_frees_all_blocks_of_its_device(void **state)
{
    enum { N = 500 };
    char *p[N];
    char *other;

    assert_acl_ok(aclrtSetDevice(1));
    other = device_malloc(1000);
    put_pattern(other, 1000, 4);
    assert_acl_ok(aclrtSetDevice(0));
    for (size_t i = 0; i < N; i++)
        p[i] = device_malloc(block_sizes[i % N_BLOCK_SIZES] % (3 * MIB) + 1);
    assert_int_equal(stats().blocks, N + 1);
    assert_acl_ok(aclrtResetDeviceForce(0));
    assert_int_equal(stats().blocks, 1);
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), total_memory());
    for (size_t i = 0; i < N; i++)
        assert_refused(aclrtFree(p[i]), ACL_ERROR_RT_PARAM_INVALID, "already freed");
    device_free(device_malloc(1000));
    assert_acl_ok(aclrtSetDevice(1));
    assert_pattern(other, 1000, 4);
    device_free(other);
    assert_acl_ok(aclrtResetDevice(1));
    assert_acl_ok(aclrtSetDevice(0));
}

static void a_stop_frees_all_blocks(void **state)
{
    char *small = device_malloc(100);
    char *large = device_malloc(5 * MIB);
    char *host = host_malloc(100);
    void *p = NULL;

    assert_acl_ok(aclFinalize());
    assert_int_equal(stats().blocks, 0);
    assert_int_equal(stats().host_blocks, 0);
    assert_acl(aclrtMalloc(&p, 1, ACL_MEM_MALLOC_HUGE_FIRST), ACL_ERROR_UNINITIALIZE);
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl(aclrtFree(small), ACL_ERROR_RT_PARAM_INVALID);
    assert_acl(aclrtFree(large), ACL_ERROR_RT_PARAM_INVALID);
    assert_acl(aclrtFreeHost(host), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(free_memory(), total_memory());
    device_free(device_malloc(100));
}

/* ---- usage ---- */

static aclError malloc_with(aclrtMallocAttribute *attrs, size_t n, void **p)
{
    aclrtMallocConfig cfg = {.attrs = attrs, .numAttrs = n};

    return aclrtMallocWithCfg(p, 100, ACL_MEM_MALLOC_HUGE_FIRST, &cfg);
}

static void usage_reports_the_memory_of_the_program(void **state)
{
    aclrtMemUsageInfo usage[8];
    aclrtMallocAttribute attr = {ACL_RT_MEM_ATTR_MODULE_ID, {.moduleId = 7}};
    aclrtDrvMemHandle handle = alloc(4 * CHUNK);
    char *p = device_malloc(10 * MIB);
    void *other = NULL;
    size_t n = 0;

    memset(usage, 0xee, sizeof(usage));
    assert_acl_ok(aclrtGetMemUsageInfo(0, usage, 8, &n));
    assert_int_equal(n, 1);
    assert_string_equal(usage[0].name, "APP");
    assert_int_equal(usage[0].curMemSize, 20 * MIB);
    assert_true(usage[0].memPeakSize >= 20 * MIB);

    device_free(p);
    assert_acl_ok(malloc_with(&attr, 1, &other));
    assert_acl_ok(aclrtGetMemUsageInfo(0, usage, 8, &n));
    assert_int_equal(n, 2);
    assert_string_equal(usage[0].name, "APP");
    assert_true(usage[0].curMemSize >= usage[1].curMemSize);
    assert_true(usage[0].memPeakSize >= 20 * MIB);
    assert_string_equal(usage[1].name, "MODULE_7");
    assert_int_equal(usage[1].curMemSize, 160);
    assert_int_equal(usage[1].memPeakSize, 160);

    assert_acl_ok(aclrtFreePhysical(handle));
    device_free(other);
    assert_acl_ok(aclrtGetMemUsageInfo(0, usage, 1, &n));
    assert_int_equal(n, 1);
    assert_int_equal(usage[0].curMemSize, 0);
    assert_acl_ok(aclrtGetMemUsageInfo(1, usage, 8, &n));
    assert_int_equal(n, 1);
    assert_int_equal(usage[0].memPeakSize, 0);
}

/* The library keeps some of what was freed, beside blocks that live. */
static void usage_leaves_out_memory_kept_for_reuse(void **state)
{
    size_t before = free_memory(), n = 0;
    aclrtMemUsageInfo usage;
    void *live = NULL, *freed = NULL;

    assert_acl_ok(aclrtMallocAlign32(&live, 4 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMallocAlign32(&freed, 2 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtGetMemUsageInfo(0, &usage, 1, &n));
    assert_int_equal(usage.curMemSize, 6 * MIB);
    device_free(freed);
    assert_acl_ok(aclrtGetMemUsageInfo(0, &usage, 1, &n));
    assert_int_equal(usage.curMemSize, 4 * MIB);
    assert_int_equal(before - free_memory(), 4 * MIB);
    device_free(live);
}

static void usage_is_sorted_by_what_is_in_use(void **state)
{
    aclrtMallocAttribute attr = {ACL_RT_MEM_ATTR_MODULE_ID, {.moduleId = 0}};
    aclrtMallocConfig cfg = {.attrs = &attr, .numAttrs = 1};
    aclrtMemUsageInfo usage[MAX_MODULE_NUM];
    void *p[5] = {NULL};
    size_t n = 0;

    for (uint16_t i = 0; i < 5; i++) {
        attr.value.moduleId = (uint16_t)(i * 31);
        assert_acl_ok(aclrtMallocWithCfg(&p[i], (size_t)(i * 7 % 5 + 3) * MIB,
                                         ACL_MEM_MALLOC_HUGE_FIRST, &cfg));
    }
    assert_acl_ok(aclrtGetMemUsageInfo(0, usage, MAX_MODULE_NUM, &n));
    assert_int_equal(n, 6);
    for (size_t i = 1; i < n; i++)
        assert_true(usage[i - 1].curMemSize >= usage[i].curMemSize);
    for (size_t i = 0; i < 5; i++)
        device_free(p[i]);
}

static void usage_refuses_bad_arguments(void **state)
{
    aclrtMemUsageInfo usage[1];
    size_t n = 77;

    assert_bad_arg(aclrtGetMemUsageInfo(0, NULL, 1, &n), "is NULL");
    assert_bad_arg(aclrtGetMemUsageInfo(0, usage, 0, &n), "inputNum");
    assert_bad_arg(aclrtGetMemUsageInfo(0, usage, 1, NULL), "outputNum");
    assert_refused(aclrtGetMemUsageInfo(2, usage, 1, &n), ACL_ERROR_RT_INVALID_DEVICEID,
                   "device");
    assert_refused(aclrtGetMemUsageInfo(-1, usage, 1, &n), ACL_ERROR_RT_INVALID_DEVICEID,
                   "device");
    assert_int_equal(n, 77);
}

static void ascend_950_does_not_report_usage(void **state)
{
    aclrtMemUsageInfo usage[1];
    size_t n = 0;

    start("default", "ACLMEM_PRODUCT=950");
    assert_acl(aclrtGetMemUsageInfo(0, usage, 1, &n), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

/* ---- other settings ---- */

static void blocks_work_where_the_program_can_touch_them(void **state)
{
    start("default", "ACLMEM_ISOLATE=0");
    assert_acl_ok(aclrtSetDevice(0));
    for (size_t i = 0; i < N_BLOCK_SIZES; i++) {
        char *p = device_malloc(block_sizes[i]);

        fill((uint8_t *)p, block_sizes[i], i);
        assert_pattern(p, block_sizes[i], i);
        put_pattern(p, block_sizes[i], i + 1);
        assert_true(is_filled((uint8_t *)p, block_sizes[i], i + 1));
        device_free(p);
    }
    assert_int_equal(free_memory(), total_memory());
}

static void pieces_of_a_block_follow_the_documented_rule(void **state)
{
    static const struct {
        size_t len;
        size_t size;
        size_t stride;
    } rows[] = {
        {1, 64, 64},        {31, 64, 64},    {32, 64, 64},    {33, 96, 128},
        {64, 96, 128},      {96, 128, 128},  {97, 160, 192},  {100, 160, 192},
        {128, 160, 192},    {160, 192, 192}, {161, 224, 256}, {1000, 1056, 1088},
        {4096, 4128, 4160},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(aclmem_suballoc_size(rows[i].len), rows[i].size);
        assert_int_equal(aclmem_suballoc_stride(rows[i].len), rows[i].stride);
    }
    for (size_t len = 1; len < 5000; len++) {
        size_t m = ((len - 1) / 32 + 1) * 32 + 32;

        assert_int_equal(aclmem_suballoc_size(len), m);
        assert_int_equal(aclmem_suballoc_stride(len), ((m - 1) / 64 + 1) * 64);
    }
    assert_int_equal(aclmem_suballoc_size(0), 0);
    assert_int_equal(aclmem_suballoc_stride(0), 0);
    assert_int_equal(aclmem_suballoc_size(SIZE_MAX), 0);
    assert_int_equal(aclmem_suballoc_stride(SIZE_MAX - 64), 0);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_blocks_both(freed_memory_in_use_is_not_allocated_again),
        claim_blocks_both(freed_memory_serves_the_work_on_a_stream),
        claim_blocks_both(memory_in_use_counts_until_it_is_not),
        claim_blocks_both(a_reset_leaves_memory_in_use_alone),
        claim_blocks_both(a_stop_leaves_memory_in_use_alone),
        claim_blocks_both(a_copy_between_devices_needs_peer_access),
        claim_blocks_both(free_memory_is_as_before_when_all_is_freed),
        claim_blocks_both(a_chunk_is_taken_for_many_small_blocks),
        claim_blocks_both(memory_freed_by_blocks_serves_physical_memory),
        claim_blocks_alone(memory_runs_out_and_comes_back),
        claim_blocks_both(more_than_there_is_fails_at_once),
        claim_blocks_alone(an_empty_chunk_serves_another_size),
        claim_blocks_alone(little_is_kept_for_later),
        claim_blocks(gaps_are_used_again),
        claim_blocks(chunks_become_empty_when_few_blocks_live),
        claim_blocks_both(a_reset_frees_all_blocks_of_its_device),
        claim_blocks_both(a_stop_frees_all_blocks),
        claim_blocks_both(usage_reports_the_memory_of_the_program),
        claim_blocks_both(usage_leaves_out_memory_kept_for_reuse),
        claim_blocks_both(usage_is_sorted_by_what_is_in_use),
        claim_blocks_both(usage_refuses_bad_arguments),
        claim_blocks_alone(ascend_950_does_not_report_usage),
        claim_blocks_alone(blocks_work_where_the_program_can_touch_them),
        claim_blocks(pieces_of_a_block_follow_the_documented_rule),
    };

    return run_claims(claims);
}
