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

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(a_failed_create_leaves_nothing),
        claim(a_failed_malloc_loses_no_block_and_no_page),
        claim(a_failed_trim_loses_no_page),
        claim(a_failed_sleep_or_wake_loses_no_byte),
    };

    return run_claims(claims);
}
