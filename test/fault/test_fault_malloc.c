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

static aclError do_host_small(struct scene *s)
{
    return take_host(s, 500);
}

static aclError do_host_large(struct scene *s)
{
    return take_host(s, 5 * MIB);
}

/* ---- the second block, when there are runs and lists already ---- */

static void have_one(struct scene *s)
{
    void *p = NULL;

    assert_acl_ok(aclrtMalloc(&p, 500, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtFree(p));
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

static const struct step steps[] = {
    {"a small block", NULL, NULL, do_small, no_block_is_left, device_block_works, give},
    {"a block of 200 KB", NULL, NULL, do_middle, no_block_is_left, device_block_works,
     give},
    {"a large block", NULL, NULL, do_large, no_block_is_left, device_block_works, give},
    {"a block of a module", NULL, NULL, do_with_cfg, no_block_is_left, device_block_works,
     give},
    {"a small block that can be touched", TOUCHABLE, NULL, do_small, no_block_is_left,
     device_block_works, give},
    {"a large block that can be touched", TOUCHABLE, NULL, do_large, no_block_is_left,
     device_block_works, give},
    {"a large block taken at once", "ACLMEM_COMMIT=now", NULL, do_large, no_block_is_left,
     device_block_works, give},
    {"a second block", NULL, have_one, do_middle, no_block_is_left, device_block_works,
     give},
    {"a small host block", NULL, NULL, do_host_small, no_block_is_left, host_block_works,
     give_host},
    {"a large host block", NULL, NULL, do_host_large, no_block_is_left, host_block_works,
     give_host},
    {"a host block in strict", "ACLMEM_RULES=strict", NULL, do_host_small,
     no_block_is_left, host_block_works, give_host},
    {"a host block in RC form", "ACLMEM_PRODUCT=310B", NULL, do_host_small,
     no_block_is_left, host_block_works, give_host},
    {"freeing a small block", NULL, prepare_small, do_free, NULL, all_is_free},
    {"freeing a large block", NULL, prepare_large, do_free, NULL, all_is_free},
    {"freeing a small block that can be touched", TOUCHABLE, prepare_small, do_free, NULL,
     all_is_free},
    {"freeing a large block that can be touched", TOUCHABLE, prepare_large, do_free, NULL,
     all_is_free},
    {"freeing a host block", NULL, prepare_host_large, do_free_host, NULL, all_is_free},
    {"giving up what is kept", NULL, keep_something, do_alloc_all, NULL, NULL, free_all},
    {"registering", NULL, have_pages, do_register, is_not_registered, NULL, unregister},
    {"registering in strict", "ACLMEM_RULES=strict", have_pages, do_register,
     is_not_registered, NULL, unregister},
};

int main(int argc, char **argv)
{
    return run_faulted(steps, argc, argv);
}
