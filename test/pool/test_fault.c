/*
 * Each system call, allocation and call of a driver fails in its turn, in the pool and in the
 * library below it.  A call that failed has changed nothing; the same call then works.
 */
#include <string.h>

#include "aclmem/pool.h"
#include "support/fault.h"
#include "support/support.h"

static void *take(aclmem_pool *pool, size_t size)
{
    void *ptr;

    assert_acl_ok(aclmem_pool_malloc(pool, size, NULL, &ptr));
    assert_acl_ok(aclrtMemset(ptr, size, 7, size));
    return ptr;
}

static void assert_sound(aclmem_pool *pool, void *ptr, size_t size)
{
    unsigned char byte;

    assert_acl_ok(
        aclrtMemcpy(&byte, 1, (char *)ptr + size - 1, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(byte, 7);
}

static void a_failed_create_leaves_nothing(void **state)
{
    struct snapshot before = take_snapshot();

    for_each_fault (n) {
        aclmem_pool *pool;
        aclError rc = aclmem_pool_create(0, NULL, &pool);

        am_fault_disarm();
        if (rc == ACL_SUCCESS)
            assert_acl_ok(aclmem_pool_destroy(pool));
        assert_int_equal(take_snapshot().free, before.free);
        assert_int_equal(take_snapshot().stats.reservations, before.stats.reservations);
    }
}

/* A pool with a block, and idle pages elsewhere. */
struct scene {
    aclmem_pool *pool;
    void *kept;
    void *made;
};

typedef aclError (*operation)(struct scene *scene);

static aclError op_malloc(struct scene *scene)
{
    return aclmem_pool_malloc(scene->pool, 30 * MIB, NULL, &scene->made);
}

static aclError op_malloc_own(struct scene *scene)
{
    return aclmem_pool_malloc_tagged(scene->pool, 6 * MIB, NULL, 0,
                                     ACLMEM_POOL_EXPORTABLE, &scene->made);
}

static aclError op_trim(struct scene *scene)
{
    return aclmem_pool_trim(scene->pool, 0);
}

static aclError op_sleep(struct scene *scene)
{
    return aclmem_pool_sleep(scene->pool, ACLMEM_POOL_ALL_TAGS, 1);
}

static aclError op_sleep_and_wake(struct scene *scene)
{
    aclError rc = op_sleep(scene);

    return rc == ACL_SUCCESS ? aclmem_pool_wake(scene->pool, ACLMEM_POOL_ALL_TAGS) : rc;
}

static void scene_end(struct scene *scene)
{
    aclmem_pool_stats stats;

    assert_acl_ok(aclmem_pool_wake(scene->pool, ACLMEM_POOL_ALL_TAGS));
    assert_sound(scene->pool, scene->kept, 5 * MIB);
    assert_acl_ok(aclmem_pool_free(scene->pool, scene->kept));
    if (scene->made != NULL)
        assert_acl_ok(aclmem_pool_free(scene->pool, scene->made));
    assert_acl_ok(aclmem_pool_trim(scene->pool, 0));
    assert_acl_ok(aclmem_pool_get_stats(scene->pool, &stats));
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.n_live, 0);
    assert_acl_ok(aclmem_pool_destroy(scene->pool));
}

/* The operation with its nth call failing, until none is left to fail. */
static void try_each_fault(operation op)
{
    bool fired = true;

    for (uint64_t n = 1; fired; n++) {
        struct scene scene = {0};
        aclError rc;
        void *gone;

        assert_acl_ok(aclmem_pool_create(0, NULL, &scene.pool));
        scene.kept = take(scene.pool, 5 * MIB);
        gone = take(scene.pool, 9 * MIB);
        assert_acl_ok(aclmem_pool_free(scene.pool, gone));
        am_fault_arm(n, false);
        rc = op(&scene);
        fired = am_fault_fired();
        am_fault_disarm();
        if (rc != ACL_SUCCESS) {
            assert_true(fired);
            assert_string_not_equal(aclmem_pool_message(), "");
            assert_acl_ok(op(&scene));
        }
        scene_end(&scene);
    }
}

static void a_failed_malloc_loses_no_block_and_no_page(void **state)
{
    try_each_fault(op_malloc);
    try_each_fault(op_malloc_own);
}

static void a_failed_trim_loses_no_page(void **state)
{
    try_each_fault(op_trim);
}

static void a_failed_sleep_or_wake_loses_no_byte(void **state)
{
    try_each_fault(op_sleep);
    try_each_fault(op_sleep_and_wake);
}

/* With an idle page, a kept block and an exportable one that was freed. */
static void a_failed_destroy_loses_nothing(void **state)
{
    struct snapshot before = take_snapshot();
    bool fired = true;

    for (uint64_t n = 1; fired; n++) {
        aclmem_pool_options options = {.flags = n % 2 == 0 ? ACLMEM_POOL_ALIASES : 0};
        aclmem_pool *pool;
        aclError rc;
        void *own;

        assert_acl_ok(aclmem_pool_create(0, &options, &pool));
        assert_acl_ok(aclmem_pool_malloc_tagged(pool, 3 * MIB, NULL, 0,
                                                ACLMEM_POOL_EXPORTABLE, &own));
        assert_acl_ok(aclmem_pool_free(pool, take(pool, 9 * MIB)));
        assert_acl_ok(aclmem_pool_free(pool, take(pool, 700)));
        am_fault_arm(n, true);
        assert_acl_ok(aclmem_pool_free(pool, own));
        rc = aclmem_pool_destroy(pool);
        fired = am_fault_fired();
        am_fault_disarm();
        if (rc != ACL_SUCCESS) {
            assert_string_not_equal(aclmem_pool_message(), "");
            assert_acl_ok(aclmem_pool_free(pool, take(pool, 5 * MIB)));
            assert_acl_ok(aclmem_pool_destroy(pool));
        }
        assert_int_equal(take_snapshot().free, before.free);
        assert_int_equal(take_snapshot().stats.reservations, before.stats.reservations);
    }
}

/* ---- every Nth call ---- */

#define N_BLOCKS 24
#define N_STEPS 120

struct filled {
    void *ptr; /* NULL: none */
    size_t size;
    int byte;
};

static uint64_t seed;

static size_t below(size_t n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (size_t)(seed >> 11) % n;
}

static void filled_check(const struct filled *f)
{
    unsigned char first, last;

    assert_acl_ok(aclrtMemcpy(&first, 1, f->ptr, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_acl_ok(aclrtMemcpy(&last, 1, (char *)f->ptr + f->size - 1, 1,
                              ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(first, f->byte);
    assert_int_equal(last, f->byte);
}

/* One call of the pool; what it does to the block is in *f. */
static aclError call_random(aclmem_pool *pool, struct filled *f, aclrtStream stream)
{
    static const size_t largest[] = {8 * KIB, 700 * KIB, 5 * MIB};

    switch (below(12)) {
    case 0:
        return aclmem_pool_trim(pool, below(3) * 4 * MIB);
    case 1: {
        aclError rc = aclmem_pool_sleep(pool, ACLMEM_POOL_ALL_TAGS, 1);

        return rc == ACL_SUCCESS ? aclmem_pool_wake(pool, ACLMEM_POOL_ALL_TAGS) : rc;
    }
    default:
        break;
    }
    if (f->ptr == NULL) {
        f->size = 1 + below(largest[below(3)]);
        return aclmem_pool_malloc_tagged(pool, f->size, stream, 0,
                                         below(8) == 0 ? ACLMEM_POOL_EXPORTABLE : 0,
                                         &f->ptr);
    }
    if (below(3) == 0)
        assert_acl_ok(aclmem_pool_use(pool, f->ptr, NULL));
    assert_acl_ok(aclmem_pool_free(pool, f->ptr));
    f->ptr = NULL;
    return ACL_SUCCESS;
}

static void run_with_each_nth_failing(uint64_t nth)
{
    aclmem_pool_options options = {.limit = 60 * MIB,
                                   .flags = nth % 2 == 0 ? ACLMEM_POOL_ALIASES : 0};
    struct filled blocks[N_BLOCKS] = {{0}};
    aclmem_pool_stats stats;
    aclmem_pool *pool;
    aclrtStream stream;

    seed = 0x9e3779b97f4a7c15 ^ nth;
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclmem_pool_create(0, &options, &pool));
    for (unsigned i = 0; i < N_STEPS; i++) {
        struct filled *f = &blocks[below(N_BLOCKS)];
        bool was_there = f->ptr != NULL;
        bool fired;
        aclError rc;

        am_fault_arm(nth, false);
        rc = call_random(pool, f, stream);
        fired = am_fault_fired();
        am_fault_disarm();
        if (rc != ACL_SUCCESS && rc != ACL_ERROR_RT_MEMORY_ALLOCATION)
            assert_true(fired);
        if (rc != ACL_SUCCESS && !was_there)
            f->ptr = NULL;
        assert_acl_ok(aclmem_pool_wake(pool, ACLMEM_POOL_ALL_TAGS));
        if (f->ptr != NULL && was_there)
            filled_check(f);
        if (f->ptr != NULL && !was_there) {
            f->byte = (int)below(256);
            assert_acl_ok(aclrtMemset(f->ptr, f->size, f->byte, f->size));
        }
    }
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (blocks[i].ptr != NULL) {
            filled_check(&blocks[i]);
            assert_acl_ok(aclmem_pool_free(pool, blocks[i].ptr));
        }
    }
    assert_acl_ok(aclmem_pool_trim(pool, 0));
    assert_acl_ok(aclmem_pool_get_stats(pool, &stats));
    assert_int_equal(stats.held, 0);
    assert_int_equal(stats.n_live, 0);
    assert_acl_ok(aclmem_pool_destroy(pool));
    assert_acl_ok(aclrtDestroyStream(stream));
}

/* In each call of the pool the Nth call beneath it fails: a create, a map, an unmap, ... */
static void random_calls_lose_nothing_whatever_fails(void **state)
{
    struct snapshot before = take_snapshot();

    for (uint64_t nth = 1; nth <= 24; nth++)
        run_with_each_nth_failing(nth);
    assert_int_equal(take_snapshot().free, before.free);
    assert_int_equal(take_snapshot().stats.reservations, before.stats.reservations);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(a_failed_create_leaves_nothing),
        claim(a_failed_malloc_loses_no_block_and_no_page),
        claim(a_failed_trim_loses_no_page),
        claim(a_failed_sleep_or_wake_loses_no_byte),
        claim(a_failed_destroy_loses_nothing),
        claim(random_calls_lose_nothing_whatever_fails),
    };

    return run_claims(claims);
}
