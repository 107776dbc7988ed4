/*
 * What heaps are made of: size classes, runs of blocks, addresses, and lists of threads.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "api/api.h"
#include "base/error.h"
#include "core/device/setup.h"
#include "core/heap/heap.h"
#include "core/heap/heap_run.h"
#include "core/heap/sizeclass.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"
#include "core/vmm/arena.h"

/* ---- size classes ---- */

static void check_classes(size_t page)
{
    struct am_classes classes;
    unsigned c = 0;

    am_classes_init(&classes, page);
    assert_int_equal(classes.size[0], 64);
    assert_int_equal(classes.size[classes.n - 1], AM_SMALL_MAX);
    for (unsigned i = 1; i < classes.n; i++) {
        assert_true(classes.size[i] > classes.size[i - 1]);
        assert_int_equal(classes.size[i] % (classes.size[i] >= page ? page : 64), 0);
    }
    for (size_t size = 1; size <= AM_SMALL_MAX; size++) {
        while (classes.size[c] < size)
            c++;
        assert_int_equal(am_class_of(&classes, size), c); /* the smallest that holds it */
    }
}

static void a_size_has_the_smallest_class_that_holds_it(void **state)
{
    check_classes(64);
    check_classes(4096);
}

static void a_class_loses_an_eighth_at_most(void **state)
{
    struct am_classes classes;

    am_classes_init(&classes, 64);
    for (size_t size = 512; size <= 64 * AM_KIB; size++) {
        size_t lost = classes.size[am_class_of(&classes, size)] - size;

        assert_true(lost * 8 <= size || lost < 64);
    }
    /* Above, a chunk is filled to its end, but for what alignment takes. */
    for (unsigned c = 0; c < classes.n; c++) {
        size_t n = AM_CHUNK / classes.size[c];

        if (classes.size[c] > 64 * AM_KIB)
            assert_true(AM_CHUNK - n * classes.size[c] < n * 64);
    }
}

static void every_cached_class_has_a_list(void **state)
{
    struct am_classes classes;

    am_classes_init(&classes, 64);
    assert_true(classes.n_cached <= 56 &&
                classes.size[classes.n_cached - 1] == AM_CACHED_MAX);
    am_classes_init(&classes, 4096);
    assert_true(classes.n_cached <= 56 &&
                classes.size[classes.n_cached - 1] == AM_CACHED_MAX);
}

/* ---- runs ---- */

static struct am_classes plain;

/* A heap that is no more than what runs look at. */
static struct am_heap *heap_make(void)
{
    static struct am_heap heap;

    am_classes_init(&plain, 64);
    heap = (struct am_heap){.classes = &plain};
    return &heap;
}

static struct am_run *run_make(uint32_t stride)
{
    struct am_heap *heap = heap_make();
    struct am_run *run = am_run_create(
        heap, stride != 0 ? am_class_of(&plain, stride) : AM_CLASSES_MAX, stride);

    assert_non_null(run);
    run->start = AM_CHUNK;
    run->size = AM_CHUNK;
    return run;
}

static bool is_out(const struct am_run *run, const struct am_slot *slot)
{
    size_t i = am_slot_index(slot);

    return (run->bits[i / 64] >> (i % 64) & 1) == 0;
}

static void every_byte_belongs_to_its_block(void **state)
{
    am_classes_init(&plain, 64);
    for (unsigned c = 0; c < plain.n; c++) {
        uint32_t stride = plain.size[c];
        struct am_run *run = run_make(stride);

        for (size_t i = 0; i < AM_CHUNK / stride; i++) {
            assert_int_equal(am_run_index(run, i * stride), i);
            assert_int_equal(am_run_index(run, i * stride + stride - 1), i);
        }
        assert_true(am_run_index(run, AM_CHUNK - 1) >= AM_CHUNK / stride - 1);
        free(run);
    }
}

static void blocks_come_lowest_first_and_each_once(void **state)
{
    struct am_run *run = run_make(4096);
    struct am_slot slot;
    struct am_slot third;

    for (uintptr_t i = 0; i < 512; i++) {
        assert_true(am_run_take(run, &slot));
        assert_int_equal(am_slot_addr(&slot), AM_CHUNK + i * 4096);
        assert_true(is_out(run, &slot));
        if (i == 3)
            third = slot;
    }
    assert_false(am_run_take(run, &slot));
    assert_int_equal(run->n_in, 0);
    assert_true(am_run_give(&slot));
    assert_false(am_run_give(&slot)); /* it is in */
    assert_true(am_run_give(&third));
    assert_int_equal(run->n_in, 2);
    assert_true(am_run_take(run, &slot));
    assert_ptr_equal(slot.word, third.word);
    free(run);
}

static void a_stolen_block_cannot_be_put_back(void **state)
{
    struct am_run *run = run_make(4096);
    struct am_slot slot;
    struct am_slot other;

    assert_true(am_run_take(run, &slot));
    assert_true(am_run_is_idle(run)); /* nobody has it but a list */
    assert_true(am_run_steal(run));
    assert_false(is_out(run, &slot));
    assert_false(am_run_give(&slot)); /* what the list kept no longer fits */
    assert_int_not_equal(*slot.word, slot.seen);
    assert_true(am_run_take(run, &other));
    assert_ptr_equal(other.word, slot.word);
    assert_false(am_run_give(&slot)); /* and it is another's now */
    assert_true(am_run_give(&other));
    free(run);
}

static void live_blocks_are_not_stolen(void **state)
{
    uint64_t size = 0;
    struct am_run *run = run_make(4096);
    struct am_slot slot;
    struct am_slot other;

    assert_true(am_run_take(run, &slot) && am_run_take(run, &other));
    *slot.word |= AM_WORD_LIVE;
    assert_false(am_run_is_idle(run));
    assert_false(am_run_steal(run));
    assert_true(is_out(run, &slot));
    assert_false(is_out(run, &other));
    assert_int_equal(am_run_count_live(run, &size), 1);
    free(run);
}

static void a_kill_leaves_pinned_blocks_out(void **state)
{
    struct am_run *run = run_make(4096);
    struct am_slot slot[4];
    uint64_t size = 0;

    for (int i = 0; i < 4; i++)
        assert_true(am_run_take(run, &slot[i]));
    *slot[0].word |= AM_WORD_LIVE;
    *slot[1].word = (*slot[1].word | AM_WORD_LIVE) + 2; /* two pins */
    *slot[2].word += 1;                                 /* freed, and pinned */
    am_run_kill(run);
    assert_int_equal(am_run_count_live(run, &size), 0);
    assert_int_equal(size, 0);
    assert_false(is_out(run, &slot[0]));
    assert_true(is_out(run, &slot[1]));
    assert_true(is_out(run, &slot[2]));
    assert_false(is_out(run, &slot[3]));
    assert_int_equal(*slot[1].word & AM_WORD_PINS, 2);
    assert_int_equal(*slot[2].word & AM_WORD_PINS, 1);
    assert_false(am_run_is_idle(run));
    free(run);
}

static void a_retired_run_fits_nothing_that_was_seen(void **state)
{
    struct am_run *run = run_make(4096);
    struct am_slot slot[8];

    for (int i = 0; i < 8; i++)
        assert_true(am_run_take(run, &slot[i]));
    for (int i = 0; i < 8; i++)
        assert_true(am_run_give(&slot[i]));
    assert_true(am_run_retire(run));
    for (int i = 0; i < 8; i++)
        assert_int_not_equal(*slot[i].word, slot[i].seen);
    assert_int_equal(run->n_touched, 0);
    free(run);
}

/* A list so old that its generation fits again took a block that is in. */
static void a_run_with_a_live_block_that_is_in_is_not_retired(void **state)
{
    struct am_run *run = run_make(4096);
    struct am_slot slot;
    struct am_slot next;

    assert_true(am_run_take(run, &slot));
    assert_true(am_run_give(&slot));
    *slot.word |= AM_WORD_LIVE;
    assert_false(am_run_retire(run));
    assert_true(is_out(run, &slot));
    assert_int_equal(run->n_in, run->n_slots - 1);
    free(run);

    run = run_make(4096);
    assert_true(am_run_take(run, &slot));
    assert_true(am_run_give(&slot));
    *slot.word |= AM_WORD_LIVE;
    assert_true(am_run_take(run, &next)); /* and it is not handed out twice */
    assert_ptr_not_equal(next.word, slot.word);
    assert_true(is_out(run, &slot));
    free(run);
}

static void generations_start_over(void **state)
{
    struct am_run *run = run_make(0);
    struct am_slot slot;
    uint64_t first = run->words[0];

    for (int i = 0; i < 1 << 14; i++) {
        assert_true(am_run_take(run, &slot));
        assert_true(i == 0 || slot.seen != first);
        assert_true(am_run_steal(run));
    }
    assert_true(am_run_take(run, &slot));
    assert_int_equal(slot.seen, first);
    free(run);
}

static void a_run_of_64_byte_blocks_has_as_many_words(void **state)
{
    struct am_run *run = run_make(64);
    struct am_slot slot;
    size_t n = 0;

    while (am_run_take(run, &slot))
        n++;
    assert_int_equal(n, AM_CHUNK / 64);
    assert_int_equal(run->n_touched, n);
    free(run);
}

/* ---- addresses ---- */

static void start(void)
{
    setenv("ACLMEM_MEMORY", "256M", 1);
    assert_int_equal(am_aclInit(NULL), ACL_SUCCESS);
    assert_int_equal(am_aclrtSetDevice(0), ACL_SUCCESS);
}

static void stop(void)
{
    assert_int_equal(am_aclFinalize(), ACL_SUCCESS);
}

static struct am_extent *extent_take(size_t size)
{
    struct am_extent *extent = NULL;

    assert_int_equal(am_arena_take(false, size, &extent), ACL_SUCCESS);
    assert_true(extent->size >= size);
    assert_true(am_is_aligned(extent->start, size >= AM_GIB ? AM_GIB : AM_CHUNK));
    return extent;
}

static void extents_do_not_overlap_and_are_used_again(void **state)
{
    enum { N = 200 };
    struct am_extent *extent[N];
    uint64_t seed = 5;

    start();
    for (size_t i = 0; i < N; i++)
        extent[i] =
            extent_take((1 + random_below(&seed, i % 50 == 0 ? 1000 : 40)) * AM_CHUNK);
    for (size_t i = 0; i < N; i++) {
        for (size_t k = 0; k < i; k++)
            assert_true(extent[i]->start >= extent[k]->start + extent[k]->size ||
                        extent[k]->start >= extent[i]->start + extent[i]->size);
    }
    for (size_t i = 0; i < N; i++) {
        uintptr_t addr = extent[i]->start;
        size_t size = extent[i]->size;

        am_arena_give(extent[i]);
        extent[i] = extent_take(size);
        assert_int_equal(extent[i]->start, addr);
    }
    for (size_t i = 0; i < N; i++)
        am_arena_give(extent[i]);
    assert_int_equal(am_vspace.n_reservations, 0);
    stop();
}

static void every_number_of_chunks_has_a_list(void **state)
{
    start();
    for (size_t n = 1; n < 3000; n += n < 600 ? 1 : 97) {
        struct am_extent *extent = extent_take(n * AM_CHUNK);

        assert_true(extent->size - n * AM_CHUNK <= n * AM_CHUNK / 4);
        am_arena_give(extent);
    }
    stop();
}

static void an_extent_in_use_outlives_a_stop(void **state)
{
    struct am_extent *extent;
    struct am_extent *other;

    start();
    extent = extent_take(AM_CHUNK);
    stop();
    start();
    other = extent_take(AM_CHUNK);
    assert_int_not_equal(other->start, extent->start);
    am_arena_give(extent);
    am_arena_give(other);
    stop();
}

/* ---- modules ---- */

/* A reset takes a block that its thread has, and has not counted yet. */
static void a_block_that_is_gone_before_it_is_counted_raises_no_peak(void **state)
{
    enum { MODULE = 7 };
    aclrtMallocAttribute attr = {ACL_RT_MEM_ATTR_MODULE_ID, {.moduleId = MODULE}};
    aclrtMallocConfig config = {.attrs = &attr, .numAttrs = 1};
    uint64_t word = (uint64_t)(MODULE ^ AM_MODULE_APP) << AM_WORD_MODULE_SHIFT;
    struct am_run run = {.heap = am_heap_of(0, AM_HEAP_DEVICE)};
    aclrtMemUsageInfo usage[4] = {{.name = ""}};
    size_t n = 0;
    void *p = NULL;

    start();
    am_heap_uncount(&run, word, 4 * AM_MIB);
    assert_int_equal(
        am_aclrtMallocWithCfg(&p, AM_MIB, ACL_MEM_MALLOC_HUGE_FIRST, &config),
        ACL_SUCCESS);
    assert_int_equal(am_aclrtGetMemUsageInfo(0, usage, 4, &n), ACL_SUCCESS);
    for (size_t i = 0; i < n; i++) {
        assert_true(usage[i].curMemSize <= AM_GIB);
        assert_true(usage[i].memPeakSize <= AM_GIB);
    }
    am_heap_count_module(run.heap, MODULE, 4 * AM_MIB);
    assert_int_equal(am_aclrtGetMemUsageInfo(0, usage, 4, &n), ACL_SUCCESS);
    assert_int_equal(n, 2);
    n = strcmp(usage[0].name, "MODULE_7") == 0 ? 0 : 1;
    assert_string_equal(usage[n].name, "MODULE_7");
    assert_int_equal(usage[n].curMemSize, AM_MIB + am_setup.malloc_pad);
    assert_int_equal(usage[n].memPeakSize, AM_MIB + am_setup.malloc_pad);
    assert_int_equal(am_aclrtFree(p), ACL_SUCCESS);
    stop();
}

/* ---- pins ---- */

static void pins_are_counted_and_run_out(void **state)
{
    const struct am_owner *owner = &am_heap_owners[AM_HEAP_DEVICE];
    struct am_mapping *mapping;
    void *p = NULL;
    uintptr_t at;

    start();
    assert_int_equal(am_aclrtMalloc(&p, 100, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    at = (uintptr_t)p;
    mapping = am_mapping_get(at);
    assert_non_null(mapping);
    for (uint64_t i = 0; i < AM_WORD_PINS; i++)
        assert_int_equal(owner->pin(at + i % 160, 1, "p"), ACL_SUCCESS);
    assert_int_equal(owner->pin(at, 1, "p"), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_int_equal(am_aclrtFree(p), ACL_SUCCESS);
    assert_int_equal(am_aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(owner->pin(at, 1, "p"), ACL_ERROR_RT_PARAM_INVALID);
    for (uint64_t i = 0; i < AM_WORD_PINS; i++) {
        assert_true(am_domain_in_use(mapping->phys->domain) > 0);
        owner->unpin(mapping, at + i % 160);
    }
    assert_int_equal(am_domain_in_use(mapping->phys->domain), 0);
    am_mapping_put(mapping);
    stop();
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(a_size_has_the_smallest_class_that_holds_it),
        cmocka_unit_test(a_class_loses_an_eighth_at_most),
        cmocka_unit_test(every_cached_class_has_a_list),
        cmocka_unit_test(every_byte_belongs_to_its_block),
        cmocka_unit_test(blocks_come_lowest_first_and_each_once),
        cmocka_unit_test(a_stolen_block_cannot_be_put_back),
        cmocka_unit_test(live_blocks_are_not_stolen),
        cmocka_unit_test(a_kill_leaves_pinned_blocks_out),
        cmocka_unit_test(a_retired_run_fits_nothing_that_was_seen),
        cmocka_unit_test(a_run_with_a_live_block_that_is_in_is_not_retired),
        cmocka_unit_test(generations_start_over),
        cmocka_unit_test(a_run_of_64_byte_blocks_has_as_many_words),
        cmocka_unit_test(extents_do_not_overlap_and_are_used_again),
        cmocka_unit_test(every_number_of_chunks_has_a_list),
        cmocka_unit_test(an_extent_in_use_outlives_a_stop),
        cmocka_unit_test(a_block_that_is_gone_before_it_is_counted_raises_no_peak),
        cmocka_unit_test(pins_are_counted_and_run_out),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
