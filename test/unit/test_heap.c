/* Heaps: size classes, runs of blocks, addresses, pins. */
#include "unit.h"

#include <pthread.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "api/api.h"
#include "base/error.h"
#include "core/device/setup.h"
#include "core/heap/heap.h"
#include "core/heap/heap_run.h"
#include "core/heap/sizeclass.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

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

/* ---- runs ---- */

static void start(void)
{
    setenv("ACLMEM_MEMORY", "256M", 1);
    assert_int_equal(am_aclInit(NULL), ACL_SUCCESS);
    assert_int_equal(am_aclrtSetDevice(&am_devices.device[0]), ACL_SUCCESS);
}

static void stop(void)
{
    assert_int_equal(am_aclFinalize(), ACL_SUCCESS);
}

static struct am_run *run_of(const void *p)
{
    struct am_mapping *mapping = am_mapping_find((uintptr_t)p);

    return mapping != NULL ? mapping->owner_data : NULL;
}

static size_t in_use(void)
{
    return am_domain_in_use(am_devices.device[0].domain);
}

static void *take(size_t size)
{
    void *p = NULL;

    assert_int_equal(am_aclrtMallocAlign32(&p, size, ACL_MEM_MALLOC_HUGE_FIRST),
                     ACL_SUCCESS);
    return p;
}

static void give(void *p)
{
    assert_int_equal(am_aclrtFree(p), ACL_SUCCESS);
}

static void every_byte_belongs_to_its_block(void **state)
{
    struct am_classes plain;

    am_classes_init(&plain, 64);
    for (unsigned c = 0; c < plain.n; c++) {
        uint32_t stride = plain.size[c];
        struct am_run run = {.stride = stride, .n_blocks = AM_CHUNK / stride};

        for (size_t i = 0; i < AM_CHUNK / stride; i++) {
            assert_int_equal(am_run_index(&run, i * stride), i);
            assert_int_equal(am_run_index(&run, i * stride + stride - 1), i);
        }
    }
}

static void blocks_are_allocated_lowest_first_and_each_once(void **state)
{
    char *p[512];
    char *other;

    start();
    for (int i = 0; i < 512; i++) {
        p[i] = take(4096);
        assert_ptr_equal(p[i], p[0] + i * 4096);
    }
    other = take(4096);
    assert_ptr_not_equal(run_of(other), run_of(p[0]));
    give(other); /* its run may have lower addresses */
    give(p[400]);
    give(p[3]);
    assert_ptr_equal(take(4096), p[3]);
    assert_ptr_equal(take(4096), p[400]);
    stop();
}

static void a_reset_frees_blocks_unless_they_are_pinned(void **state)
{
    const struct am_owner *owner = &am_heap_owners[AM_HEAP_DEVICE];
    struct am_mapping *mapping;
    void *p;

    start();
    take(100);
    take(4 * AM_MIB);
    p = take(4096);
    mapping = am_mapping_get((uintptr_t)p);
    assert_int_equal(owner->pin((uintptr_t)p, 1, "p"), ACL_SUCCESS);
    assert_int_equal(am_aclrtResetDevice(&am_devices.device[0]), ACL_SUCCESS);
    assert_int_equal(am_heap_count(AM_HEAP_DEVICE, NULL), 0);
    assert_int_equal(in_use(), AM_CHUNK);
    assert_int_equal(owner->pin((uintptr_t)p, 1, "p"), ACL_ERROR_RT_PARAM_INVALID);
    owner->unpin(mapping, (uintptr_t)p);
    am_mapping_put(mapping);
    assert_int_equal(in_use(), 0);
    assert_int_equal(am_domain_idle(am_devices.device[0].domain), 0); /* not reused */
    stop();
}

static void idle_memory_is_not_charged_and_limited(void **state)
{
    enum { N = 40 };
    struct am_domain *domain;
    void *p[N];

    start();
    domain = am_devices.device[0].domain;
    for (int i = 0; i < N; i++)
        p[i] = take(2 * AM_MIB);
    assert_int_equal(in_use(), N * AM_CHUNK);
    for (int i = 0; i < N; i++) {
        give(p[i]);
        assert_int_equal(in_use(), (size_t)(N - 1 - i) * AM_CHUNK);
    }
    assert_true(am_domain_idle(domain) <= 16 * AM_MIB); /* a sixteenth */
    p[0] = take(2 * AM_MIB);
    assert_int_equal(in_use(), AM_CHUNK);
    give(p[0]);
    assert_ptr_equal(take(2 * AM_MIB), p[0]);
    give(p[0]);
    assert_int_equal(am_domain_idle(domain), 8 * AM_MIB); /* of one shard of two */
    assert_true(am_domain_trim(domain));
    assert_false(am_domain_trim(domain));
    assert_int_equal(am_domain_idle(domain), 0);
    assert_null(am_mapping_find((uintptr_t)p[0]));
    stop();
}

static void idle_memory_does_not_prevent_an_allocation(void **state)
{
    void *p;

    start();
    for (int i = 0; i < 4; i++) {
        void *q = take(4 * AM_MIB);

        take(2000u << i);
        give(q);
    }
    p = take(256 * AM_MIB - 4 * AM_CHUNK);
    assert_int_equal(in_use(), 256 * AM_MIB);
    give(p);
    stop();
}

static void *other_main(void *ret_p)
{
    void **p = ret_p;

    if (am_aclrtSetDevice(&am_devices.device[0]) != ACL_SUCCESS ||
        am_aclrtMallocAlign32(p, 4096, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
        *p = NULL;
    return NULL;
}

static void a_thread_uses_free_blocks_of_other_shards_when_memory_is_short(void **state)
{
    pthread_t thread;
    void *p, *q = NULL;

    start();
    p = take(5000);
    take(256 * AM_MIB - AM_CHUNK);
    assert_int_equal(pthread_create(&thread, NULL, other_main, &q), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(q); /* no run has this class */
    give(p);
    p = take(4096);
    assert_int_equal(pthread_create(&thread, NULL, other_main, &q), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(q);
    assert_ptr_not_equal(p, q);
    stop();
}

static void live_bytes_are_counted_in_every_class(void **state)
{
    const size_t sizes[] = {100, 100 * AM_KIB, 4 * AM_MIB};

    start();
    for (size_t i = 0; i < AM_ARRAY_SIZE(sizes); i++) {
        uint64_t size = 7; /* the sum grows */
        void *p[3];

        for (int k = 0; k < 3; k++)
            p[k] = take(sizes[i]);
        assert_int_equal(am_heap_count(AM_HEAP_DEVICE, &size), 3);
        assert_int_equal(size, 7 + 3 * sizes[i]);
        for (int k = 0; k < 3; k++)
            give(p[k]);
    }
    assert_int_equal(am_heap_count(AM_HEAP_DEVICE, NULL), 0);
    stop();
}

static void a_shared_block_is_not_reused(void **state)
{
    struct am_phys *phys;
    void *p;

    start();
    p = take(4 * AM_MIB);
    assert_int_equal(am_heap_share(p, 4 * AM_MIB, &phys), ACL_SUCCESS);
    give(p);
    assert_int_equal(am_domain_idle(am_devices.device[0].domain), 0);
    assert_null(am_mapping_get((uintptr_t)p));
    assert_int_equal(am_heap_share(p, 4 * AM_MIB, &phys), ACL_ERROR_RT_PARAM_INVALID);
    am_phys_put(phys);
    assert_int_equal(in_use(), 0);
    stop();
}

/* ---- addresses ---- */

static void a_run_releases_its_addresses(void **state)
{
    const struct am_owner *owner = NULL;
    void *p;

    start();
    p = take(64 * AM_MIB); /* more than a heap keeps */
    assert_true(am_vspace_is_reserved((uintptr_t)p, 64 * AM_MIB, &owner));
    assert_ptr_equal(owner, &am_heap_owners[AM_HEAP_DEVICE]);
    assert_int_equal(am_vspace.n_reservations, 0); /* the program has none */
    give(p);
    assert_false(am_vspace_is_reserved((uintptr_t)p, 64 * AM_MIB, NULL));
    stop();
}

static void a_pinned_block_keeps_its_addresses_after_a_stop(void **state)
{
    const struct am_owner *owner = &am_heap_owners[AM_HEAP_DEVICE];
    struct am_mapping *mapping;
    uintptr_t at;

    start();
    at = (uintptr_t)take(4 * AM_MIB);
    assert_int_equal(owner->pin(at, 1, "p"), ACL_SUCCESS);
    mapping = am_mapping_get(at);
    stop();
    start();
    assert_true(am_vspace_is_reserved(at, 4 * AM_MIB, NULL));
    owner->unpin(mapping, at);
    am_mapping_put(mapping);
    assert_false(am_vspace_is_reserved(at, 4 * AM_MIB, NULL));
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
    for (uint64_t i = 0; i < AM_PINS_MAX; i++)
        assert_int_equal(owner->pin(at + i % 160, 1, "p"), ACL_SUCCESS);
    assert_int_equal(owner->pin(at, 1, "p"), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_int_equal(am_aclrtFree(p), ACL_SUCCESS);
    assert_int_equal(am_aclrtFree(p), ACL_ERROR_RT_PARAM_INVALID);
    assert_int_equal(owner->pin(at, 1, "p"), ACL_ERROR_RT_PARAM_INVALID);
    for (uint64_t i = 0; i < AM_PINS_MAX; i++) {
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
        cmocka_unit_test(every_byte_belongs_to_its_block),
        cmocka_unit_test(blocks_are_allocated_lowest_first_and_each_once),
        cmocka_unit_test(a_reset_frees_blocks_unless_they_are_pinned),
        cmocka_unit_test(idle_memory_is_not_charged_and_limited),
        cmocka_unit_test(idle_memory_does_not_prevent_an_allocation),
        cmocka_unit_test(a_thread_uses_free_blocks_of_other_shards_when_memory_is_short),
        cmocka_unit_test(live_bytes_are_counted_in_every_class),
        cmocka_unit_test(a_shared_block_is_not_reused),
        cmocka_unit_test(a_run_releases_its_addresses),
        cmocka_unit_test(a_pinned_block_keeps_its_addresses_after_a_stop),
        cmocka_unit_test(pins_are_counted_and_run_out),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
