/* What the pool gives, through its header alone. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "aclmem/pool.h"
#include "support/support.h"
#include "support/work.h"

static aclmem_pool *pool_make(size_t limit)
{
    aclmem_pool_options options = {.limit = limit};
    aclmem_pool *pool;

    assert_acl_ok(aclmem_pool_create(0, &options, &pool));
    return pool;
}

static aclrtStream stream_make(void)
{
    aclrtStream stream;

    assert_acl_ok(aclrtCreateStream(&stream));
    return stream;
}

static char *take(aclmem_pool *pool, size_t size, aclrtStream stream)
{
    void *ptr;

    assert_acl_ok(aclmem_pool_malloc(pool, size, stream, &ptr));
    assert_int_equal((uintptr_t)ptr % 512, 0);
    return ptr;
}

static aclmem_pool_stats stats_of(aclmem_pool *pool)
{
    aclmem_pool_stats stats;

    assert_acl_ok(aclmem_pool_get_stats(pool, &stats));
    return stats;
}

static void assert_says(const char *words)
{
    if (strstr(aclmem_pool_message(), words) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", aclmem_pool_message(), words);
}

static void fill(char *ptr, size_t size, int byte)
{
    assert_acl_ok(aclrtMemset(ptr, size, byte, size));
}

static void assert_filled(const char *ptr, size_t size, int byte)
{
    char *copy = malloc(size);

    assert_acl_ok(aclrtMemcpy(copy, size, ptr, size, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < size; i++)
        assert_int_equal(copy[i], (char)byte);
    free(copy);
}

static void blocks_share_pages_and_no_bytes(void **state)
{
    aclmem_pool *pool = pool_make(0);
    char *ptr[9];

    for (int i = 0; i < 9; i++) {
        ptr[i] = take(pool, 3 * MIB + 512, NULL);
        fill(ptr[i], 3 * MIB + 512, i);
    }
    for (int i = 0; i < 9; i++)
        assert_filled(ptr[i], 3 * MIB + 512, i);
    assert_true(stats_of(pool).held <= 9 * 3 * MIB + 3 * MIB);
    assert_int_equal(stats_of(pool).live, 9 * (3 * MIB + 512));
    for (int i = 0; i < 9; i++)
        assert_acl_ok(aclmem_pool_free(pool, ptr[i]));
    assert_int_equal(stats_of(pool).live, 0);
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void a_freed_block_comes_back_at_once_on_its_stream(void **state)
{
    aclmem_pool *pool = pool_make(0);
    aclrtStream stream = stream_make();
    struct gate gate = GATE_INIT;
    char *ptr = take(pool, 5 * MIB, stream);

    hold(stream, &gate);
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_ptr_equal(take(pool, 5 * MIB, stream), ptr);
    assert_int_equal(stats_of(pool).hits, 1);
    gate_open(&gate);
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_acl_ok(aclmem_pool_destroy(pool));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void what_was_freed_last_is_kept(void **state)
{
    aclmem_pool *pool = pool_make(0);
    char *blocks[200];

    for (size_t i = 0; i < 200; i++)
        blocks[i] = take(pool, 512 * (i + 1), NULL);
    for (size_t i = 0; i < 200; i++)
        assert_acl_ok(aclmem_pool_free(pool, blocks[i]));
    assert_int_equal(stats_of(pool).live, 0);
    for (size_t i = 199; i >= 190; i--)
        assert_ptr_equal(take(pool, 512 * (i + 1), NULL), blocks[i]);
    assert_int_equal(stats_of(pool).hits, 10);
    for (size_t i = 199; i >= 190; i--)
        assert_acl_ok(aclmem_pool_free(pool, blocks[i]));
    assert_acl_ok(aclmem_pool_destroy(pool));
}

/* The second stream either gets other memory or waits for the first one. */
static void another_stream_never_gets_memory_under_queued_work(void **state)
{
    aclmem_pool *pool = pool_make(4 * CHUNK);
    aclrtStream first = stream_make(), second = stream_make();
    struct gate gate = GATE_INIT;
    char *ptr = take(pool, 4 * CHUNK, first);
    char *other;

    fill(ptr, 4 * CHUNK, 1);
    hold(first, &gate);
    assert_acl_ok(aclrtMemsetAsync(ptr, 4 * CHUNK, 2, 4 * CHUNK, first));
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    other = take(pool, 4 * CHUNK, second); /* all that there is */
    assert_acl_ok(aclrtMemsetAsync(other, 4 * CHUNK, 3, 4 * CHUNK, second));
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(second));
    assert_filled(other, 4 * CHUNK, 3);
    assert_acl_ok(aclmem_pool_free(pool, other));
    assert_acl_ok(aclmem_pool_destroy(pool));
    assert_acl_ok(aclrtDestroyStream(first));
    assert_acl_ok(aclrtDestroyStream(second));
}

static void a_page_with_queued_work_stays_mapped(void **state)
{
    aclmem_pool *pool = pool_make(0);
    aclrtStream stream = stream_make();
    struct gate gate = GATE_INIT;
    char *ptr = take(pool, 4 * CHUNK, stream);

    hold(stream, &gate);
    assert_acl_ok(aclrtMemsetAsync(ptr, 4 * CHUNK, 2, 4 * CHUNK, stream));
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held, 4 * CHUNK);
    gate_open(&gate);
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held, 0);
    assert_acl_ok(aclmem_pool_destroy(pool));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void a_use_on_a_second_stream_is_waited_for(void **state)
{
    aclmem_pool *pool = pool_make(0);
    aclrtStream stream = stream_make();
    struct gate gate = GATE_INIT;
    char *ptr = take(pool, 4 * CHUNK, NULL);

    hold(stream, &gate);
    assert_acl_ok(aclrtMemsetAsync(ptr, 4 * CHUNK, 2, 4 * CHUNK, stream));
    assert_acl_ok(aclmem_pool_use(pool, ptr, stream));
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held, 4 * CHUNK);
    gate_open(&gate);
    assert_acl_ok(aclmem_pool_forget_stream(pool, stream));
    assert_acl_ok(aclrtDestroyStream(stream));
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held, 0);
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void a_full_pool_waits_for_work_and_goes_on(void **state)
{
    aclmem_pool *pool = pool_make(8 * CHUNK);
    aclrtStream stream = stream_make();
    char *a = take(pool, 4 * CHUNK, stream);
    char *b = take(pool, 3 * CHUNK, stream);

    assert_acl_ok(aclrtMemsetAsync(a, 4 * CHUNK, 2, 4 * CHUNK, stream));
    assert_acl_ok(aclmem_pool_free(pool, a));
    a = take(pool, 5 * CHUNK, stream);
    assert_int_equal(stats_of(pool).held, 8 * CHUNK);
    assert_acl_ok(aclmem_pool_free(pool, a));
    assert_acl_ok(aclmem_pool_free(pool, b));
    assert_acl_ok(aclmem_pool_destroy(pool));
    assert_acl_ok(aclrtDestroyStream(stream));
}

struct hoard {
    aclmem_pool *pool;
    void *ptr;
    int n_calls;
};

static int hoard_give(void *arg, size_t wanted)
{
    struct hoard *hoard = arg;
    void *ptr = hoard->ptr;

    hoard->n_calls++;
    hoard->ptr = NULL;
    return ptr != NULL && aclmem_pool_free(hoard->pool, ptr) == ACL_SUCCESS;
}

static void the_program_may_free_something_when_memory_runs_out(void **state)
{
    struct hoard hoard = {.pool = pool_make(4 * CHUNK)};
    void *ptr;

    assert_acl_ok(aclmem_pool_on_oom(hoard.pool, hoard_give, &hoard));
    hoard.ptr = take(hoard.pool, 3 * CHUNK, NULL);
    ptr = take(hoard.pool, 2 * CHUNK, NULL);
    assert_int_equal(hoard.n_calls, 1);
    assert_int_equal(aclmem_pool_malloc(hoard.pool, 3 * CHUNK, NULL, &hoard.ptr),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_says("6291456 bytes (6.0 MB) asked for; ");
    assert_says("4.0 MB live in 1 blocks");
    assert_says("a block of 4.0 MB would fit now");
    assert_acl_ok(aclmem_pool_free(hoard.pool, ptr));
    assert_acl_ok(aclmem_pool_destroy(hoard.pool));
}

/* A function that the pool calls, and that asks it for memory or for its end. */
static int recurse(void *arg, size_t wanted)
{
    struct hoard *hoard = arg;

    hoard->n_calls++;
    assert_int_equal(aclmem_pool_malloc(hoard->pool, wanted, NULL, &hoard->ptr),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    return 0;
}

static int destroy(void *arg, size_t wanted)
{
    struct hoard *hoard = arg;

    hoard->n_calls++;
    assert_int_equal(aclmem_pool_destroy(hoard->pool), ACL_ERROR_INVALID_PARAM);
    assert_says("is running");
    return 0;
}

static void a_function_that_memory_is_asked_of_may_not_recurse(void **state)
{
    struct hoard hoard = {.pool = pool_make(4 * CHUNK)};
    aclmem_pool *other;
    size_t free, total;
    void *ptr;

    assert_acl_ok(aclmem_pool_on_oom(hoard.pool, recurse, &hoard));
    ptr = take(hoard.pool, 3 * CHUNK, NULL);
    assert_int_equal(aclmem_pool_malloc(hoard.pool, 2 * CHUNK, NULL, &hoard.ptr),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_int_equal(hoard.n_calls, 1);
    assert_acl_ok(aclmem_pool_free(hoard.pool, ptr));
    assert_acl_ok(aclmem_pool_destroy(hoard.pool));

    /* Nothing is live there: another pool has a page of the device. */
    other = pool_make(0);
    ptr = take(other, MIB, NULL);
    hoard = (struct hoard){.pool = pool_make(0)};
    assert_acl_ok(aclmem_pool_on_oom(hoard.pool, destroy, &hoard));
    assert_acl_ok(aclrtGetMemInfo(ACL_HBM_MEM, &free, &total));
    assert_int_equal(aclmem_pool_malloc(hoard.pool, total, NULL, &hoard.ptr),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_int_equal(hoard.n_calls, 1);
    assert_acl_ok(aclmem_pool_destroy(hoard.pool));
    assert_acl_ok(aclmem_pool_free(other, ptr));
    assert_acl_ok(aclmem_pool_destroy(other));
}

static void a_limit_is_kept(void **state)
{
    aclmem_pool *pool = pool_make(2 * CHUNK);
    void *own, *ptr;

    assert_acl_ok(aclmem_pool_malloc_tagged(pool, 2 * CHUNK, NULL, 0,
                                            ACLMEM_POOL_EXPORTABLE, &own));
    assert_int_equal(aclmem_pool_malloc(pool, 512, NULL, &ptr),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_int_equal(stats_of(pool).held, 2 * CHUNK);
    assert_acl_ok(aclmem_pool_set_limit(pool, SIZE_MAX));
    ptr = take(pool, 512, NULL);
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_acl_ok(aclmem_pool_free(pool, own));
    assert_acl_ok(aclmem_pool_destroy(pool));
    pool = pool_make(SIZE_MAX);
    assert_acl_ok(aclmem_pool_free(pool, take(pool, 5 * MIB, NULL)));
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void an_address_without_a_block_is_refused(void **state)
{
    aclmem_pool *pool = pool_make(0);
    char *ptr = take(pool, 1000, NULL);
    void *other;

    assert_int_equal(aclmem_pool_free(pool, ptr + 512), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclmem_pool_malloc(pool, 0, NULL, &other), ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclmem_pool_malloc_tagged(pool, 1, NULL, 0, 2, &other),
                     ACL_ERROR_INVALID_PARAM);
    assert_int_equal(aclmem_pool_malloc(pool, (size_t)-1, NULL, &other),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_int_equal(aclmem_pool_destroy(pool), ACL_ERROR_INVALID_PARAM);
    assert_says("1 blocks");
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_int_equal(aclmem_pool_free(pool, ptr), ACL_ERROR_INVALID_PARAM);
    assert_says("freed before");
    assert_acl_ok(aclmem_pool_destroy(pool));
    assert_int_equal(aclmem_pool_create(1, NULL, &pool), ACL_ERROR_INVALID_PARAM);
    assert_says("aclrtSetDevice(1)");
}

static void sleeping_blocks_keep_addresses_and_contents(void **state)
{
    aclmem_pool *pool = pool_make(0);
    size_t before = take_snapshot().free;
    void *kept, *lost, *awake;

    assert_acl_ok(aclmem_pool_malloc_tagged(pool, 5 * MIB, NULL, 1, 0, &kept));
    assert_acl_ok(aclmem_pool_malloc_tagged(pool, 7 * MIB, NULL, 2, 0, &lost));
    assert_acl_ok(aclmem_pool_malloc_tagged(pool, 4 * MIB, NULL, 3, 0, &awake));
    fill(kept, 5 * MIB, 11);
    fill(awake, 4 * MIB, 13);
    assert_acl_ok(aclmem_pool_sleep(pool, 1, 1));
    assert_acl_ok(aclmem_pool_sleep(pool, 2, 0));
    assert_true(before - take_snapshot().free <= 3 * CHUNK);
    assert_int_equal(stats_of(pool).asleep, 12 * MIB);
    assert_filled(awake, 4 * MIB, 13);
    assert_acl_ok(aclmem_pool_wake(pool, 1));
    assert_filled(kept, 5 * MIB, 11);
    assert_acl_ok(aclmem_pool_wake(pool, ACLMEM_POOL_ALL_TAGS));
    fill(lost, 7 * MIB, 12);
    assert_filled(kept, 5 * MIB, 11);
    assert_filled(awake, 4 * MIB, 13);
    assert_acl_ok(aclmem_pool_sleep(pool, ACLMEM_POOL_ALL_TAGS, 1));
    assert_int_equal(take_snapshot().free, before);
    assert_acl_ok(aclmem_pool_free(pool, kept)); /* asleep */
    assert_acl_ok(aclmem_pool_wake(pool, ACLMEM_POOL_ALL_TAGS));
    assert_filled(lost, 7 * MIB, 12);
    assert_acl_ok(aclmem_pool_free(pool, lost));
    assert_acl_ok(aclmem_pool_free(pool, awake));
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void an_exportable_block_is_one_handle(void **state)
{
    aclmem_pool *pool = pool_make(16 * CHUNK);
    aclrtDrvMemHandle handle;
    uint64_t number;
    void *ptr;
    char *plain = take(pool, 5 * MIB, NULL);
    void *again;

    assert_acl_ok(
        aclmem_pool_malloc_tagged(pool, 5 * MIB, NULL, 0, ACLMEM_POOL_EXPORTABLE, &ptr));
    fill(ptr, 5 * MIB, 9);
    assert_int_equal(stats_of(pool).exportable, 6 * MIB);
    assert_acl_ok(aclmem_pool_handle(pool, ptr, &handle));
    assert_int_equal(aclmem_pool_handle(pool, plain, &handle), ACL_ERROR_INVALID_PARAM);
    assert_acl_ok(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number));
    /* As an importer does: one reservation, one mapping. */
    assert_acl_ok(aclrtReserveMemAddress(&again, 6 * MIB, 0, NULL, 1));
    assert_acl_ok(aclrtMapMem(again, 6 * MIB, 0, handle, 0));
    assert_filled(again, 5 * MIB, 9);
    assert_acl_ok(aclrtUnmapMem(again));
    assert_acl_ok(aclrtReleaseMemAddress(again));
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_acl_ok(aclmem_pool_free(pool, plain));
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held, 0);
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void exportable_blocks_count_against_the_limit(void **state)
{
    aclmem_pool *pool = pool_make(8 * CHUNK);
    void *own, *ptr;

    assert_acl_ok(aclmem_pool_malloc_tagged(pool, 5 * CHUNK, NULL, 0,
                                            ACLMEM_POOL_EXPORTABLE, &own));
    assert_int_equal(aclmem_pool_malloc(pool, 4 * CHUNK, NULL, &ptr),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    ptr = take(pool, 3 * CHUNK, NULL);
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_acl_ok(aclmem_pool_free(pool, own));
    /* Idle pages make room for a handle. */
    assert_acl_ok(aclmem_pool_malloc_tagged(pool, 8 * CHUNK, NULL, 0,
                                            ACLMEM_POOL_EXPORTABLE, &own));
    assert_acl_ok(aclmem_pool_free(pool, own));
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void *free_without_a_device(void *arg)
{
    void **job = arg;
    void *ptr;

    if (aclmem_pool_malloc(job[0], 3 * MIB, NULL, &ptr) != ACL_SUCCESS ||
        aclmem_pool_free(job[0], ptr) != ACL_SUCCESS ||
        aclmem_pool_free(job[0], job[1]) != ACL_SUCCESS ||
        aclmem_pool_trim(job[0], 0) != ACL_SUCCESS)
        return arg;
    return NULL;
}

static void a_thread_without_a_device_may_call(void **state)
{
    aclmem_pool *pool = pool_make(0);
    void *job[2] = {pool, take(pool, 9 * MIB, NULL)};
    pthread_t thread;
    void *failed;

    assert_int_equal(pthread_create(&thread, NULL, free_without_a_device, job), 0);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(stats_of(pool).n_live, 0);
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void more_streams_than_slots_work(void **state)
{
    aclmem_pool *pool = pool_make(0);
    aclrtStream streams[80];
    char *ptr[80];

    for (int i = 0; i < 80; i++) {
        streams[i] = stream_make();
        ptr[i] = take(pool, 100000, streams[i]);
        assert_acl_ok(aclrtMemsetAsync(ptr[i], 100000, i, 100000, streams[i]));
    }
    for (int i = 0; i < 80; i++) {
        assert_acl_ok(aclrtSynchronizeStream(streams[i]));
        assert_filled(ptr[i], 100000, i);
        assert_acl_ok(aclmem_pool_use(pool, ptr[i], streams[79 - i]));
        assert_acl_ok(aclmem_pool_free(pool, ptr[i]));
    }
    for (int i = 0; i < 80; i++) {
        assert_acl_ok(aclmem_pool_forget_stream(pool, streams[i]));
        assert_acl_ok(aclrtDestroyStream(streams[i]));
    }
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void statistics_and_snapshot_report_all_memory(void **state)
{
    aclmem_pool *pool = pool_make(0);
    char *a = take(pool, 3 * MIB, NULL);
    char *b = take(pool, 100, NULL);
    aclmem_pool_stats stats = stats_of(pool);
    char *json;

    assert_int_equal(stats.live, 3 * MIB + 100);
    assert_int_equal(stats.n_live, 2);
    assert_int_equal(stats.by_size[21], 1);
    assert_int_equal(stats.by_size[6], 1);
    assert_int_equal(stats.held, stats.idle + stats.lost + 3 * MIB + 512);
    assert_acl_ok(aclmem_pool_free(pool, a));
    assert_int_equal(stats_of(pool).peak_live, 3 * MIB + 100);
    assert_int_equal(stats_of(pool).by_size[21], 0);
    assert_acl_ok(aclmem_pool_reset_peaks(pool));
    assert_int_equal(stats_of(pool).peak_live, 100);
    assert_acl_ok(aclmem_pool_snapshot(pool, &json));
    assert_non_null(strstr(json, "\"live\": 100, "));
    assert_non_null(strstr(json, "\"state\": \"cached\""));
    free(json);
    assert_acl_ok(aclmem_pool_free(pool, b));
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void idle_memory_above_the_threshold_goes_back(void **state)
{
    aclmem_pool_options options = {.keep = 2 * CHUNK};
    aclmem_pool *pool;
    char *ptr;

    assert_acl_ok(aclmem_pool_create(0, &options, &pool));
    ptr = take(pool, 20 * CHUNK, NULL);
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_int_equal(stats_of(pool).held, 2 * CHUNK);
    assert_acl_ok(aclmem_pool_destroy(pool));
}

/*
 * Between two blocks there is room for 7 MB, and a border that they fit; 8 MB have to lie
 * elsewhere.  There is memory for one of the two, so three pages go to and fro.
 */
static void a_page_that_is_mapped_twice_is_behind_one_block(void **state)
{
    aclmem_pool_options options = {.limit = 16 * MIB, .flags = ACLMEM_POOL_ALIASES};
    aclmem_pool *pool;
    char *left, *right, *block;

    assert_acl_ok(aclmem_pool_create(0, &options, &pool));
    left = take(pool, 3 * MIB, NULL);
    block = take(pool, 7 * MIB, NULL);
    right = take(pool, 4 * MIB, NULL);
    fill(left, 3 * MIB, 1);
    fill(right, 4 * MIB, 2);
    for (int i = 0; i < 8; i++) {
        size_t size = i % 2 == 0 ? 8 * MIB : 7 * MIB;

        assert_acl_ok(aclmem_pool_free(pool, block));
        block = take(pool, size, NULL);
        fill(block, size, 10 + i);
        for (size_t at = 0; at < size; at += MIB)
            assert_filled(block + at, 4 * KIB, 10 + i);
    }
    assert_int_equal(stats_of(pool).remaps, 3);
    assert_int_equal(stats_of(pool).returns, 7 * 3);
    assert_filled(left + 2 * MIB, MIB, 1);
    assert_filled(right, MIB, 2);
    assert_acl_ok(aclmem_pool_free(pool, left));
    assert_acl_ok(aclmem_pool_free(pool, block));
    assert_acl_ok(aclmem_pool_free(pool, right));
    assert_acl_ok(aclmem_pool_destroy(pool));
}

static void options_that_do_not_exist_are_refused(void **state)
{
    static const aclmem_pool_stream_ops none;
    aclmem_pool_options flags = {.flags = 2}, rsv = {.rsv = {[5] = 1}},
                        ops = {.stream_ops = &none};
    aclmem_pool *pool;

    assert_int_equal(aclmem_pool_create(0, &flags, &pool), ACL_ERROR_INVALID_PARAM);
    assert_says("flags 0x2");
    assert_int_equal(aclmem_pool_create(0, &rsv, &pool), ACL_ERROR_INVALID_PARAM);
    assert_says("rsv[5]");
    assert_int_equal(aclmem_pool_create(0, &ops, &pool), ACL_ERROR_INVALID_PARAM);
    assert_says("stream_ops");
}

/* In a child no function of AscendCL works; frees are still called there, and lose no block. */
static void a_free_without_a_device_loses_no_block(void **state)
{
    aclmem_pool *pool = pool_make(0);
    void *own, *ptr = take(pool, 3 * MIB, NULL);
    int status;
    pid_t child;

    assert_acl_ok(
        aclmem_pool_malloc_tagged(pool, MIB, NULL, 0, ACLMEM_POOL_EXPORTABLE, &own));
    child = fork();
    if (child == 0) {
        bool is_right = aclmem_pool_free(pool, own) == ACL_SUCCESS &&
                        stats_of(pool).exportable == CHUNK &&
                        aclmem_pool_free(pool, ptr) == ACL_SUCCESS &&
                        stats_of(pool).n_live == 0 &&
                        aclmem_pool_malloc(pool, 7 * MIB, NULL, &ptr) != ACL_SUCCESS &&
                        strstr(aclmem_pool_message(), "fork()") != NULL;

        _exit(is_right ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_acl_ok(aclmem_pool_free(pool, own));
    assert_acl_ok(aclmem_pool_free(pool, ptr));
    assert_acl_ok(aclmem_pool_destroy(pool));
}

/* What a framework does: capture with blocks of a private pool, free them, replay. */
static void a_pool_keeps_its_pages_as_long_as_a_model(void **state)
{
    const size_t size = 3u << 20;
    aclmem_pool *pool = pool_make(0);
    aclrtStream stream = stream_make();
    aclmdlRI models[2];
    char *in = take(pool, size, stream), *out = take(pool, size, stream);

    fill(in, size, 7);
    assert_acl_ok(aclmem_pool_freeze(pool, 1));
    for (int i = 0; i < 2; i++) {
        char *between;

        assert_acl_ok(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
        between = take(pool, size, stream);
        assert_acl_ok(aclrtMemcpyAsync(between, size, in, size,
                                       ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        assert_acl_ok(aclmem_pool_free(pool, between));
        assert_acl_ok(aclrtMemcpyAsync(out, size, between, size,
                                       ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
        assert_acl_ok(aclmdlRICaptureEnd(stream, &models[i]));
        assert_acl_ok(aclmem_pool_add_model(pool, models[i]));
    }
    assert_acl_ok(aclmem_pool_freeze(pool, 0));
    assert_int_equal(stats_of(pool).models, 2);
    assert_acl_ok(aclmem_pool_free(pool, in));
    assert_acl_ok(aclmem_pool_free(pool, out));
    assert_acl_ok(aclrtSynchronizeDevice());
    assert_acl_ok(aclmem_pool_forget_stream(pool, stream)); /* its blocks are idle */
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    for (int i = 0; i < 2; i++) {
        assert_acl_ok(aclmdlRIExecuteAsync(models[i], stream));
        assert_acl_ok(aclrtSynchronizeStream(stream));
        assert_filled(out, size, 7);
        assert_int_equal(aclmem_pool_destroy(pool), ACL_ERROR_INVALID_PARAM);
        assert_says("models use the pool");
        assert_acl_ok(aclmdlRIDestroy(models[i]));
    }
    assert_int_equal(stats_of(pool).models, 0);
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    assert_int_equal(stats_of(pool).held, 0);
    assert_acl_ok(aclmem_pool_destroy(pool));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void a_pool_for_models_keeps_idle_memory(void **state)
{
    aclmem_pool_options options = {.keep = 1};
    aclrtStream stream = stream_make();
    aclmem_pool *pool;
    aclmdlRI model;

    assert_acl_ok(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    assert_acl_ok(aclmdlRICaptureEnd(stream, &model));
    assert_acl_ok(aclmem_pool_create(0, &options, &pool));
    assert_int_equal(aclmem_pool_add_model(pool, model), ACL_ERROR_INVALID_PARAM);
    assert_says("default of keep");
    assert_acl_ok(aclmem_pool_destroy(pool));
    pool = pool_make(0);
    assert_int_equal(aclmem_pool_add_model(pool, stream), ACL_ERROR_RT_INVALID_HANDLE);
    assert_int_equal(stats_of(pool).models, 0);
    assert_int_equal(aclmem_pool_add_model(NULL, model), ACL_ERROR_INVALID_PARAM);
    assert_acl_ok(aclmem_pool_destroy(pool));
    assert_acl_ok(aclmdlRIDestroy(model));
    assert_acl_ok(aclrtDestroyStream(stream));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_both(blocks_share_pages_and_no_bytes),
        claim_both(a_freed_block_comes_back_at_once_on_its_stream),
        claim(what_was_freed_last_is_kept),
        claim_both(another_stream_never_gets_memory_under_queued_work),
        claim_both(a_page_with_queued_work_stays_mapped),
        claim_both(a_use_on_a_second_stream_is_waited_for),
        claim_both(a_full_pool_waits_for_work_and_goes_on),
        claim_both(the_program_may_free_something_when_memory_runs_out),
        claim_both(a_function_that_memory_is_asked_of_may_not_recurse),
        claim(a_limit_is_kept),
        claim(an_address_without_a_block_is_refused),
        claim_both(sleeping_blocks_keep_addresses_and_contents),
        claim_both(an_exportable_block_is_one_handle),
        claim(exportable_blocks_count_against_the_limit),
        claim_both(a_thread_without_a_device_may_call),
        claim(more_streams_than_slots_work),
        claim(statistics_and_snapshot_report_all_memory),
        claim(idle_memory_above_the_threshold_goes_back),
        claim_both(a_page_that_is_mapped_twice_is_behind_one_block),
        claim(options_that_do_not_exist_are_refused),
        claim(a_free_without_a_device_loses_no_block),
        claim(a_pool_keeps_its_pages_as_long_as_a_model),
        claim(a_pool_for_models_keeps_idle_memory),
    };

    return run_claims(claims);
}
