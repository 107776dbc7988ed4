/* Faults in allocating, freeing and registering, for blocks of every kind. */
#include "faulted.h"

#include <string.h>
#include <sys/mman.h>

/* ---- what steps have in common ---- */

static void no_block_is_left(struct scene *s)
{
    assert_null(s->va);
    assert_int_equal(stats().blocks, 0);
    assert_int_equal(stats().host_blocks, 0);
}

static aclError take(struct scene *s, size_t size)
{
    void *p = NULL;
    aclError rc = aclrtMalloc(&p, size, ACL_MEM_MALLOC_HUGE_FIRST);

    s->va = p;
    s->size = size;
    return rc;
}

static aclError take_host(struct scene *s, size_t size)
{
    void *p = NULL;
    aclError rc = aclrtMallocHost(&p, size);

    s->va = p;
    s->size = size;
    return rc;
}

static void device_block_works(struct scene *s)
{
    assert_non_null(s->va);
    assert_int_equal(stats().blocks, 1);
    put_pattern(s->va, s->size, 1);
    assert_pattern(s->va, s->size, 1);
}

static void host_block_works(struct scene *s)
{
    assert_non_null(s->va);
    assert_int_equal(stats().host_blocks, 1);
    fill((uint8_t *)s->va, s->size, 1);
    assert_true(is_filled((uint8_t *)s->va, s->size, 1));
}

static void give(struct scene *s)
{
    assert_acl_ok(aclrtFree(s->va));
    assert_int_equal(stats().blocks, 0);
    assert_int_equal(free_memory(), total_memory());
}

static void give_host(struct scene *s)
{
    assert_acl_ok(aclrtFreeHost(s->va));
    assert_int_equal(stats().host_blocks, 0);
}

/* ---- allocating ---- */

static aclError do_small(struct scene *s)
{
    return take(s, 500);
}

static aclError do_middle(struct scene *s)
{
    return take(s, 200 * KIB);
}

static aclError do_large(struct scene *s)
{
    return take(s, 5 * MIB);
}

static aclError do_with_cfg(struct scene *s)
{
    aclrtMallocAttribute attr = {ACL_RT_MEM_ATTR_MODULE_ID, {.moduleId = 5}};
    aclrtMallocConfig cfg = {.attrs = &attr, .numAttrs = 1};
    void *p = NULL;
    aclError rc = aclrtMallocWithCfg(&p, 500, ACL_MEM_MALLOC_HUGE_FIRST, &cfg);

    s->va = p;
    s->size = 500;
    return rc;
}

static void survive_malloc(aclError (*run)(struct scene *), const char *option)
{
    survive_faults(&(struct step){
        .option = option,
        .run = run,
        .check_failed = no_block_is_left,
        .check = device_block_works,
        .clean = give,
    });
}

static void a_small_block_survives_every_fault(void **state)
{
    survive_malloc(do_small, NULL);
}

static void a_block_of_200_kb_survives_every_fault(void **state)
{
    survive_malloc(do_middle, NULL);
}

static void a_large_block_survives_every_fault(void **state)
{
    survive_malloc(do_large, NULL);
}

static void a_block_of_a_module_survives_every_fault(void **state)
{
    survive_malloc(do_with_cfg, NULL);
}

static void a_small_block_that_can_be_touched_survives_every_fault(void **state)
{
    survive_malloc(do_small, "ACLMEM_ISOLATE=0");
}

static void a_large_block_that_can_be_touched_survives_every_fault(void **state)
{
    survive_malloc(do_large, "ACLMEM_ISOLATE=0");
}

static void a_large_block_taken_at_once_survives_every_fault(void **state)
{
    survive_malloc(do_large, "ACLMEM_COMMIT=now");
}

static aclError do_host_small(struct scene *s)
{
    return take_host(s, 500);
}

static aclError do_host_large(struct scene *s)
{
    return take_host(s, 5 * MIB);
}

static void survive_malloc_host(aclError (*run)(struct scene *), const char *option)
{
    survive_faults(&(struct step){
        .option = option,
        .run = run,
        .check_failed = no_block_is_left,
        .check = host_block_works,
        .clean = give_host,
    });
}

static void a_small_host_block_survives_every_fault(void **state)
{
    survive_malloc_host(do_host_small, NULL);
}

static void a_large_host_block_survives_every_fault(void **state)
{
    survive_malloc_host(do_host_large, NULL);
}

static void a_host_block_in_strict_survives_every_fault(void **state)
{
    survive_malloc_host(do_host_small, "ACLMEM_RULES=strict");
}

static void a_host_block_in_rc_form_survives_every_fault(void **state)
{
    survive_malloc_host(do_host_small, "ACLMEM_PRODUCT=310B");
}

/* ---- the second block, when there are runs and lists already ---- */

static void have_one(struct scene *s)
{
    void *p = NULL;

    assert_acl_ok(aclrtMalloc(&p, 500, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtFree(p));
}

static void a_second_block_survives_every_fault(void **state)
{
    survive_faults(&(struct step){
        .prepare = have_one,
        .run = do_middle,
        .check_failed = no_block_is_left,
        .check = device_block_works,
        .clean = give,
    });
}

/* ---- freeing never fails ---- */

static void prepare_small(struct scene *s)
{
    assert_acl_ok(take(s, 500));
}

static void prepare_large(struct scene *s)
{
    assert_acl_ok(take(s, 40 * MIB)); /* too large to be kept */
}

static void prepare_host_large(struct scene *s)
{
    assert_acl_ok(take_host(s, 80 * MIB));
}

static aclError do_free(struct scene *s)
{
    assert_acl_ok(aclrtFree(s->va));
    return ACL_SUCCESS;
}

static aclError do_free_host(struct scene *s)
{
    assert_acl_ok(aclrtFreeHost(s->va));
    return ACL_SUCCESS;
}

static void all_is_free(struct scene *s)
{
    assert_int_equal(stats().blocks, 0);
    assert_int_equal(stats().host_blocks, 0);
    assert_int_equal(free_memory(), total_memory());
}

static void free_never_fails(void **state)
{
    static const char *const options[] = {NULL, "ACLMEM_ISOLATE=0"};

    for (size_t i = 0; i < 2; i++) {
        survive_faults(&(struct step){
            .option = options[i],
            .prepare = prepare_small,
            .run = do_free,
            .check = all_is_free,
        });
        survive_faults(&(struct step){
            .option = options[i],
            .prepare = prepare_large,
            .run = do_free,
            .check = all_is_free,
        });
    }
    survive_faults(&(struct step){
        .prepare = prepare_host_large, .run = do_free_host, .check = all_is_free});
}

/* ---- giving up what is kept, for physical memory ---- */

static void keep_something(struct scene *s)
{
    char *p[100];

    for (size_t i = 0; i < 100; i++)
        assert_acl_ok(
            aclrtMalloc((void **)&p[i], 100 + i % 10 * 3000, ACL_MEM_MALLOC_HUGE_FIRST));
    for (size_t i = 0; i < 100; i++)
        assert_acl_ok(aclrtFree(p[i]));
    s->size = total_memory();
}

static aclError do_alloc_all(struct scene *s)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);

    return aclrtMallocPhysical(&s->handle, s->size, &prop, 0);
}

static void free_all(struct scene *s)
{
    assert_acl_ok(aclrtFreePhysical(s->handle));
}

static void giving_up_what_is_kept_survives_every_fault(void **state)
{
    survive_faults(&(struct step){
        .prepare = keep_something, .run = do_alloc_all, .clean = free_all});
}

/* ---- registering ---- */

static void have_pages(struct scene *s)
{
    s->size = 16 * 4096;
    s->va =
        mmap(NULL, s->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(s->va, MAP_FAILED);
}

static aclError do_register(struct scene *s)
{
    return aclrtHostRegisterV2(s->va, s->size, ACL_HOST_REG_MAPPED | ACL_HOST_REG_PINNED);
}

static void is_not_registered(struct scene *s)
{
    assert_acl(aclrtHostUnregister(s->va), ACL_ERROR_HOST_MEMORY_NOT_REGISTERED);
}

static void unregister(struct scene *s)
{
    assert_acl_ok(aclrtHostUnregister(s->va));
    munmap(s->va, s->size);
}

static void registering_survives_every_fault(void **state)
{
    static const char *const options[] = {NULL, "ACLMEM_RULES=strict"};

    for (size_t i = 0; i < 2; i++)
        survive_faults(&(struct step){
            .option = options[i],
            .prepare = have_pages,
            .run = do_register,
            .check_failed = is_not_registered,
            .clean = unregister,
        });
}

int main(int argc, char **argv)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(a_small_block_survives_every_fault),
        cmocka_unit_test(a_block_of_200_kb_survives_every_fault),
        cmocka_unit_test(a_large_block_survives_every_fault),
        cmocka_unit_test(a_block_of_a_module_survives_every_fault),
        cmocka_unit_test(a_small_block_that_can_be_touched_survives_every_fault),
        cmocka_unit_test(a_large_block_that_can_be_touched_survives_every_fault),
        cmocka_unit_test(a_large_block_taken_at_once_survives_every_fault),
        cmocka_unit_test(a_small_host_block_survives_every_fault),
        cmocka_unit_test(a_large_host_block_survives_every_fault),
        cmocka_unit_test(a_host_block_in_strict_survives_every_fault),
        cmocka_unit_test(a_host_block_in_rc_form_survives_every_fault),
        cmocka_unit_test(a_second_block_survives_every_fault),
        cmocka_unit_test(free_never_fails),
        cmocka_unit_test(giving_up_what_is_kept_survives_every_fault),
        cmocka_unit_test(registering_survives_every_fault),
    };

    return run_faulted(claims, argc, argv);
}
