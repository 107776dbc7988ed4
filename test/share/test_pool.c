/* Exportable blocks of libaclmem_pool.so in two processes: the importer has one range. */
#include "pair.h"

#include "aclmem/pool.h"

#define SIZE (5 * MIB)
#define ROUNDED (6 * MIB) /* whole pages */

static int start_a3(void **state)
{
    start("default", "ACLMEM_PRODUCT=A3");
    assert_acl_ok(aclrtSetDevice(0));
    return 0;
}

/* clang-format off */
#define on_a3(f_) {#f_, f_, start_a3, end_other, NULL}
/* clang-format on */

/* A pool with blocks on both sides of the exportable one. */
struct scene {
    aclmem_pool *pool;
    void *before, *block, *behind;
    aclrtDrvMemHandle handle;
};

static struct scene scene_make(void)
{
    struct scene s;

    assert_acl_ok(aclmem_pool_create(0, NULL, &s.pool));
    assert_acl_ok(aclmem_pool_malloc(s.pool, SIZE, NULL, &s.before));
    assert_acl_ok(aclmem_pool_malloc_tagged(s.pool, SIZE, NULL, 0, ACLMEM_POOL_EXPORTABLE,
                                            &s.block));
    assert_acl_ok(aclmem_pool_malloc(s.pool, SIZE, NULL, &s.behind));
    put_pattern(s.before, SIZE, 11);
    put_pattern(s.block, SIZE, 12);
    put_pattern(s.behind, SIZE, 13);
    assert_acl_ok(aclmem_pool_handle(s.pool, s.block, &s.handle));
    return s;
}

/* The other blocks have their own bytes, and no page of the pool is lost. */
static void scene_end(struct scene *s)
{
    aclmem_pool_stats stats;

    assert_pattern(s->before, SIZE, 11);
    assert_pattern(s->behind, SIZE, 13);
    assert_acl_ok(aclmem_pool_free(s->pool, s->before));
    assert_acl_ok(aclmem_pool_free(s->pool, s->behind));
    if (s->block != NULL)
        assert_acl_ok(aclmem_pool_free(s->pool, s->block));
    assert_acl_ok(aclmem_pool_trim(s->pool, 0));
    assert_acl_ok(aclmem_pool_get_stats(s->pool, &stats));
    assert_int_equal(stats.held, 0);
    assert_acl_ok(aclmem_pool_destroy(s->pool));
}

/* The other process has imported it: both sides see what either writes. */
static uint64_t range_check(struct scene *s, uint64_t handle)
{
    uint64_t va = done(&other, DO_RESERVE, ROUNDED, 0, 0);

    done(&other, DO_MAP, va, ROUNDED, handle);
    assert_int_equal(done(&other, DO_CHECK, va, SIZE, 12), 0);
    done(&other, DO_PUT, va, SIZE, 14);
    assert_pattern(s->block, SIZE, 14);
    return va;
}

static void begin_other(void)
{
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
}

static void a_block_is_imported_by_its_number(void **state)
{
    struct scene s = scene_make();
    uint64_t number = export_open(s.handle);

    begin_other();
    range_check(&s, done(&other, DO_IMPORT, number, 0, 0));
    actor_end(&other);
    scene_end(&s);
}

static void a_block_is_imported_by_the_second_form(void **state)
{
    struct scene s = scene_make();
    uint64_t number = 0;

    assert_acl_ok(aclrtMemExportToShareableHandleV2(
        s.handle, OPEN, ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT, &number));
    begin_other();
    range_check(&s, done(&other, DO_IMPORT, number, 0, 0));
    actor_end(&other);
    scene_end(&s);
}

static void a_block_is_imported_by_a_fabric_handle(void **state)
{
    struct scene s = scene_make();
    aclrtMemFabricHandle fabric;

    assert_acl_ok(aclrtMemExportToShareableHandleV2(
        s.handle, OPEN, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &fabric));
    begin_other();
    range_check(&s,
                expect(order_bytes(&other, DO_FABRIC_IMPORT, &fabric, 0), ACL_SUCCESS, "")
                    .value[0]);
    actor_end(&other);
    scene_end(&s);
}

/* The importer keeps the memory; no block of the pool gets it meanwhile. */
static void a_freed_block_stays_with_the_importer(void **state)
{
    struct scene s = scene_make();
    uint64_t number = export_open(s.handle);
    void *next;
    uint64_t va;

    begin_other();
    va = range_check(&s, done(&other, DO_IMPORT, number, 0, 0));
    assert_acl_ok(aclmem_pool_free(s.pool, s.block));
    s.block = NULL;
    assert_acl_ok(
        aclmem_pool_malloc_tagged(s.pool, SIZE, NULL, 0, ACLMEM_POOL_EXPORTABLE, &next));
    put_pattern(next, SIZE, 15);
    assert_int_equal(done(&other, DO_CHECK, va, SIZE, 14), 0);
    actor_end(&other);
    assert_pattern(next, SIZE, 15);
    assert_acl_ok(aclmem_pool_free(s.pool, next));
    scene_end(&s);
}

/* Sleep takes the memory of the other blocks; the importer's range stays as it is. */
static void an_exported_block_stays_awake(void **state)
{
    struct scene s = scene_make();
    uint64_t number = export_open(s.handle);
    uint64_t va;

    begin_other();
    va = range_check(&s, done(&other, DO_IMPORT, number, 0, 0));
    assert_acl_ok(aclmem_pool_sleep(s.pool, ACLMEM_POOL_ALL_TAGS, 1));
    done(&other, DO_PUT, va, SIZE, 16);
    assert_pattern(s.block, SIZE, 16);
    assert_acl_ok(aclmem_pool_wake(s.pool, ACLMEM_POOL_ALL_TAGS));
    assert_int_equal(done(&other, DO_CHECK, va, SIZE, 16), 0);
    actor_end(&other);
    scene_end(&s);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        pair(a_block_is_imported_by_its_number),
        pair(a_block_is_imported_by_the_second_form),
        on_a3(a_block_is_imported_by_a_fabric_handle),
        pair(a_freed_block_stays_with_the_importer),
        pair(an_exported_block_stays_awake),
    };

    actor_main(argc, argv);
    return run_claims(tests);
}
