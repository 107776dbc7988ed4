/* The lists of a heap's threads: lines of blocks, and large blocks. */
#include "unit.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "api/api.h"
#include "core/device/device.h"
#include "core/heap/heap.h"
#include "core/heap/heap_cache.h"
#include "core/vmm/phys.h"

#define LARGE (4 * AM_MIB - 4096)
#define CAPACITY (8 * AM_GIB)

/* ---- another thread, which has lists of the heap until it ends ---- */

static struct {
    pthread_t thread;
    sem_t has_lists;
    sem_t may_end;
    void *block; /* of 4000 bytes */
    bool is_there;
} other;

static struct am_heap *heap(void)
{
    return am_heap_of(0, AM_HEAP_DEVICE);
}

static void *take(size_t size)
{
    void *p = NULL;

    assert_int_equal(am_aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    return p;
}

static void give(void *p)
{
    assert_int_equal(am_aclrtFree(p), ACL_SUCCESS);
}

static void *other_main(void *unused)
{
    bool is_done =
        am_aclrtSetDevice(0) == ACL_SUCCESS &&
        am_aclrtMalloc(&other.block, 4000, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS;

    sem_post(&other.has_lists);
    sem_wait(&other.may_end);
    return is_done && am_aclrtFree(other.block) == ACL_SUCCESS ? NULL : &other;
}

static void other_begin(void)
{
    sem_init(&other.has_lists, 0, 0);
    sem_init(&other.may_end, 0, 0);
    assert_int_equal(pthread_create(&other.thread, NULL, other_main, NULL), 0);
    other.is_there = true;
    sem_wait(&other.has_lists);
}

static void other_end(void)
{
    void *failed;

    other.is_there = false;
    sem_post(&other.may_end);
    assert_int_equal(pthread_join(other.thread, &failed), 0);
    assert_null(failed);
}

static int start(void **state)
{
    setenv("ACLMEM_MEMORY", "8G", 1);
    assert_int_equal(am_aclInit(NULL), ACL_SUCCESS);
    assert_int_equal(am_aclrtSetDevice(0), ACL_SUCCESS);
    give(take(4000));
    /* Of the heap's last life. */
    for (struct am_bins *bins = am_cache_find(heap()); bins->n_kept > 0;)
        am_kept_find(bins, bins->kept[0].size, &(struct am_slot){.run = NULL});
    return 0;
}

static int stop(void **state)
{
    if (other.is_there)
        other_end();
    assert_int_equal(am_aclFinalize(), ACL_SUCCESS);
    return 0;
}

static struct am_run *run_of(const void *p)
{
    struct am_mapping *mapping = am_mapping_get((uintptr_t)p);
    struct am_run *run;

    assert_non_null(mapping);
    run = mapping->run;
    am_mapping_put(mapping);
    return run;
}

static uintptr_t line_of(const void *p)
{
    struct am_run *run = run_of(p);

    return (uintptr_t)am_run_word(run, am_run_index(run, (uintptr_t)p - run->start)) / 64;
}

static unsigned n_kept(void)
{
    return am_cache_find(heap())->n_kept;
}

static size_t in_use(void)
{
    return am_domain_in_use(am_devices.device[0].domain);
}

/* ---- lines ---- */

static void a_line_is_eight_blocks_that_are_in(void **state)
{
    struct am_run *run = am_run_create(heap(), am_class_of(heap()->classes, 4096), 4096);
    struct am_slot slot;

    assert_non_null(run);
    assert_int_equal((uintptr_t)run->words % 64, 0);
    assert_int_equal(am_run_line(run), 0);
    assert_true(am_run_take_at(run, 3, &slot));
    assert_int_equal(am_run_line(run), 8);
    assert_true(am_run_take_at(run, 15, &slot));
    assert_int_equal(am_run_line(run), 16);
    assert_true(am_run_give(&slot));
    assert_int_equal(am_run_line(run), 8);
    for (uint32_t i = 0; i < run->n_slots; i += AM_RUN_LINE) {
        if (i != 0)
            assert_true(am_run_take_at(run, i, &slot));
    }
    assert_int_equal(am_run_line(run), run->n_slots);
    assert_true(am_run_take(run, &slot)); /* the others can still be had */
    free(run);
}

static void a_class_with_few_blocks_has_no_line(void **state)
{
    struct am_run *run =
        am_run_create(heap(), am_class_of(heap()->classes, 512 * AM_KIB), 512 * AM_KIB);

    assert_non_null(run);
    assert_int_equal(am_run_line(run), run->n_slots);
    free(run);
}

static void blocks_of_two_threads_have_words_in_different_lines(void **state)
{
    enum { N = 100 };
    void *mine[N];

    other_begin();
    for (int i = 0; i < N; i++) {
        mine[i] = take(4000);
        assert_int_not_equal(line_of(mine[i]), line_of(other.block));
        for (int k = 0; k < i; k++)
            assert_ptr_not_equal(mine[k], mine[i]);
    }
    for (int i = 0; i < N; i++)
        give(mine[i]);
    other_end();
    assert_int_equal(in_use(), 0);
}

/* ---- large blocks ---- */

static void one_thread_keeps_little(void **state)
{
    void *p = take(3 * LARGE);

    assert_int_equal(heap()->n_lists, 1);
    give(p);
    assert_int_equal(n_kept(), 0);
    p = take(100 * AM_KIB);
    give(p);
    assert_int_equal(n_kept(), 1);
    assert_ptr_equal(take(100 * AM_KIB), p);
    give(p);
}

static void one_of_several_threads_gets_back_what_it_freed(void **state)
{
    void *p;

    other_begin();
    p = take(LARGE);
    give(p);
    assert_int_equal(n_kept(), 1);
    assert_int_equal(run_of(p)->n_in, 0);
    assert_ptr_equal(take(LARGE), p);
    assert_int_equal(n_kept(), 0);
    assert_int_equal(am_aclrtFree(p), ACL_SUCCESS);
    assert_int_equal(am_aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID);
    assert_ptr_not_equal(take(2 * LARGE), p); /* another size is another block */
    other_end();
}

static void what_is_kept_is_limited_and_free(void **state)
{
    enum { N = 3 * AM_KEPT_MAX };
    size_t used = in_use();
    void *p[N];
    void *all = NULL;

    other_begin();
    for (int i = 0; i < N; i++)
        p[i] = take(LARGE);
    for (int i = 0; i < N; i++)
        give(p[i]);
    assert_int_equal(n_kept(), AM_KEPT_MAX);
    assert_true(am_cache_find(heap())->kept_size <= heap()->kept_max);
    other_end();
    assert_int_equal(in_use(), used);
    assert_int_equal(
        am_aclrtMalloc(&all, CAPACITY - 3 * AM_CHUNK, ACL_MEM_MALLOC_HUGE_FIRST),
        ACL_SUCCESS);
    assert_int_equal(am_aclrtMalloc(&p[0], LARGE, ACL_MEM_MALLOC_HUGE_FIRST),
                     ACL_SUCCESS);
    assert_int_equal(am_aclrtMalloc(&p[1], LARGE, ACL_MEM_MALLOC_HUGE_FIRST),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    give(p[0]);
    give(all);
}

static void a_reset_takes_what_is_kept(void **state)
{
    void *p;

    other_begin();
    p = take(LARGE);
    give(p);
    assert_int_equal(n_kept(), 1);
    other_end();
    assert_int_equal(am_aclrtResetDevice(0), ACL_SUCCESS);
    assert_int_equal(am_aclrtSetDevice(0), ACL_SUCCESS);
    p = take(LARGE);
    assert_int_equal(run_of(p)->n_in, 0);
    assert_int_equal(am_heap_count(AM_HEAP_DEVICE, NULL), 1);
    give(p);
    assert_int_equal(in_use(), 0);
}

static void live_bytes_are_counted_in_every_class(void **state)
{
    /* A class of threads' lists, one whose words have lines of their own, a large block. */
    const size_t sizes[] = {100, 100 * AM_KIB, LARGE};

    for (size_t i = 0; i < AM_ARRAY_SIZE(sizes); i++) {
        uint64_t size = 7; /* what was there stays in the sum */
        void *p[3];

        for (int k = 0; k < 3; k++)
            p[k] = take(sizes[i]);
        assert_int_equal(am_heap_count(AM_HEAP_DEVICE, &size), 3);
        assert_int_equal(size, 7 + 3 * sizes[i]);
        for (int k = 0; k < 3; k++)
            give(p[k]);
    }
    assert_int_equal(am_heap_count(AM_HEAP_DEVICE, NULL), 0);
}

static void a_block_that_is_shared_is_not_kept(void **state)
{
    struct am_phys *phys;
    void *p;

    other_begin();
    p = take(LARGE);
    assert_int_equal(am_heap_share(p, LARGE, &phys), ACL_SUCCESS);
    give(p);
    assert_int_equal(n_kept(), 0);
    assert_null(am_mapping_get((uintptr_t)p));
    assert_int_equal(am_heap_share(p, LARGE, &phys), ACL_ERROR_RT_PARAM_INVALID);
    am_phys_put(phys);
    other_end();
    assert_int_equal(in_use(), 0);
}

static void *keep_one(void *ret_p)
{
    void **p = ret_p;

    if (am_aclrtSetDevice(0) != ACL_SUCCESS ||
        am_aclrtMalloc(p, LARGE, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS ||
        am_aclrtFree(*p) != ACL_SUCCESS || n_kept() != 1)
        *p = NULL;
    return NULL;
}

static void a_thread_that_ends_keeps_nothing(void **state)
{
    pthread_t thread;
    void *p = NULL;

    assert_int_equal(pthread_create(&thread, NULL, keep_one, &p), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(p);
    assert_int_equal(run_of(p)->n_in, 1);
    assert_int_equal(heap()->n_lists, 1);
    assert_int_equal(in_use(), 0);
}

/* ---- what is idle ---- */

static void idle_runs_are_found_among_few_and_among_many(void **state)
{
    enum { N = 400 };
    static void *p[N];
    struct am_domain *domain = am_devices.device[0].domain;

    for (int i = 0; i < N; i++) {
        p[i] = take(LARGE);
        assert_true(in_use() >= (size_t)(i + 1) * LARGE);
    }
    for (int i = 0; i < N; i++)
        give(p[i]);
    assert_true(heap()->n_made > 256 + 2 * heap()->n_listed);
    assert_int_equal(in_use(), 0);
    assert_true(am_domain_idle(domain) >= 32 * AM_MIB);
    assert_true(am_domain_trim(domain));
    assert_int_equal(am_domain_idle(domain), 0);
    assert_int_equal(heap()->n_listed, 0);
}

int main(void)
{
#define CLAIM(f_) cmocka_unit_test_setup_teardown(f_, start, stop)
    const struct CMUnitTest claims[] = {
        CLAIM(a_line_is_eight_blocks_that_are_in),
        CLAIM(a_class_with_few_blocks_has_no_line),
        CLAIM(blocks_of_two_threads_have_words_in_different_lines),
        CLAIM(one_thread_keeps_little),
        CLAIM(one_of_several_threads_gets_back_what_it_freed),
        CLAIM(what_is_kept_is_limited_and_free),
        CLAIM(a_reset_takes_what_is_kept),
        CLAIM(live_bytes_are_counted_in_every_class),
        CLAIM(a_block_that_is_shared_is_not_kept),
        CLAIM(a_thread_that_ends_keeps_nothing),
        CLAIM(idle_runs_are_found_among_few_and_among_many),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
