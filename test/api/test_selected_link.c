/* aclrtMemMapSelectedLink: addresses over one of two links, for memory that is mapped. */
#include "support/vmm.h"

#include <stdio.h>

enum { SIO, HCCS };

static int start_a3(void **state)
{
    start("default", "ACLMEM_PRODUCT=A3");
    assert_acl_ok(aclrtSetDevice(0));
    return 0;
}

static int start_a3_strict(void **state)
{
    start("strict", "ACLMEM_PRODUCT=A3");
    assert_acl_ok(aclrtSetDevice(0));
    return 0;
}

/* clang-format off */
#define claim_a3(f_) CLAIM(#f_, f_, start_a3), CLAIM("strict: " #f_, f_, start_a3_strict)
/* clang-format on */

static void both_addresses_show_the_same_memory(void **state)
{
    struct block b = block_create(2 * CHUNK);
    char *sio = reserve(2 * CHUNK), *hccs = reserve(4 * CHUNK);
    size_t free = free_memory();

    assert_acl_ok(aclrtMemMapSelectedLink(sio, 2 * CHUNK, b.va, SIO));
    assert_acl_ok(aclrtMemMapSelectedLink(hccs, 2 * CHUNK, b.va, HCCS));
    assert_int_equal(free_memory(), free); /* no memory of its own */
    put_pattern(b.va, 2 * CHUNK, 1);
    assert_pattern(sio, 2 * CHUNK, 1);
    put_pattern(hccs + CHUNK, CHUNK, 2);
    assert_pattern(b.va + CHUNK, CHUNK, 2);
    assert_acl_ok(aclrtUnmapMem(b.va)); /* each has a life of its own */
    assert_pattern(sio, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(sio));
    assert_acl_ok(aclrtUnmapMem(hccs));
    map(b.va, 2 * CHUNK, b.handle);
    assert_acl_ok(aclrtReleaseMemAddress(sio));
    assert_acl_ok(aclrtReleaseMemAddress(hccs));
    block_destroy(&b);
}

/* The destination mirrors the pieces, and each is unmapped by itself. */
static void pieces_are_mirrored_one_for_one(void **state)
{
    char *src = reserve(3 * CHUNK), *dst = reserve(3 * CHUNK);
    aclrtDrvMemHandle one = alloc(CHUNK), two = alloc(2 * CHUNK);

    map(src, CHUNK, one);
    map(src + CHUNK, 2 * CHUNK, two);
    assert_acl_ok(aclrtMemMapSelectedLink(dst, 3 * CHUNK, src, HCCS));
    put_pattern(src, 3 * CHUNK, 1);
    assert_pattern(dst, 3 * CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(dst));
    assert_acl(aclrtUnmapMem(dst + 2 * CHUNK), ACL_ERROR_RT_PARAM_INVALID);
    assert_acl_ok(aclrtUnmapMem(dst + CHUNK));
    assert_acl_ok(aclrtUnmapMem(src));
    assert_acl_ok(aclrtUnmapMem(src + CHUNK));
    assert_acl_ok(aclrtFreePhysical(one));
    assert_acl_ok(aclrtFreePhysical(two));
    assert_acl_ok(aclrtReleaseMemAddress(src));
    assert_acl_ok(aclrtReleaseMemAddress(dst));
}

static void the_size_that_was_asked_for_is_taken(void **state)
{
    char *src = reserve(CHUNK), *dst = reserve(CHUNK);
    aclrtDrvMemHandle handle = alloc(CHUNK / 2);

    map(src, CHUNK / 2, handle);
    assert_acl_ok(aclrtMemMapSelectedLink(dst, CHUNK / 2, src, SIO));
    put_pattern(dst, CHUNK, 1);
    assert_pattern(src, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(dst));
    assert_acl_ok(aclrtUnmapMem(src));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(src));
    assert_acl_ok(aclrtReleaseMemAddress(dst));
}

/* The handle is gone, the memory is not. */
static void memory_that_is_only_mapped_can_be_mirrored(void **state)
{
    char *src = reserve(CHUNK), *dst = reserve(CHUNK);
    aclrtDrvMemHandle handle = alloc(CHUNK);

    map(src, CHUNK, handle);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtMemMapSelectedLink(dst, CHUNK, src, SIO));
    put_pattern(src, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(src));
    assert_pattern(dst, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(dst));
    assert_acl_ok(aclrtReleaseMemAddress(src));
    assert_acl_ok(aclrtReleaseMemAddress(dst));
    assert_int_equal(free_memory(), total_memory());
}

/* What is mapped by the call itself is not there to be mapped once more. */
static void a_source_does_not_run_into_its_destination(void **state)
{
    char *src = reserve(6 * CHUNK), *dst = src + 2 * CHUNK;
    aclrtDrvMemHandle handle = alloc(2 * CHUNK);

    assert_acl_ok(aclrtReleaseMemAddress(src));
    reserve_at(src, 2 * CHUNK);
    reserve_at(dst, 4 * CHUNK);
    map(src, 2 * CHUNK, handle);
    assert_refused(aclrtMemMapSelectedLink(dst, 4 * CHUNK, src, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "virPtrSrc");
    assert_acl_ok(aclrtMemMapSelectedLink(dst, 2 * CHUNK, src, SIO));
    assert_acl_ok(aclrtUnmapMem(dst));
    assert_acl_ok(aclrtUnmapMem(src));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(src));
    assert_acl_ok(aclrtReleaseMemAddress(dst));
}

static void wrong_calls_are_refused(void **state)
{
    struct block b = block_create(2 * CHUNK);
    char *dst = reserve(2 * CHUNK), *small = reserve(CHUNK);
    void *p = NULL;
    char here;

    assert_bad_arg(aclrtMemMapSelectedLink(NULL, CHUNK, b.va, SIO), "virPtrDst");
    assert_bad_arg(aclrtMemMapSelectedLink(dst, CHUNK, NULL, SIO), "virPtrSrc");
    assert_bad_arg(aclrtMemMapSelectedLink(dst, 0, b.va, SIO), "size is 0");
    assert_bad_arg(aclrtMemMapSelectedLink(dst, 2 * CHUNK, b.va, 2), "linkIdx is 2");
    assert_refused(aclrtMemMapSelectedLink(&here, 2 * CHUNK, b.va, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "not reserved");
    assert_refused(aclrtMemMapSelectedLink(dst + CHUNK, 2 * CHUNK, b.va, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "pass its start");
    assert_refused(aclrtMemMapSelectedLink(small, 2 * CHUNK, b.va, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "past the end");
    assert_refused(aclrtMemMapSelectedLink(dst, CHUNK, b.va + CHUNK, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "pass its start");
    assert_refused(aclrtMemMapSelectedLink(dst, CHUNK, b.va, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "whole mappings");
    assert_refused(aclrtMemMapSelectedLink(dst, CHUNK, small, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped");
    assert_refused(aclrtMemMapSelectedLink(b.va, 2 * CHUNK, b.va, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "already mapped");
    assert_acl_ok(aclrtMalloc(&p, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_refused(aclrtMemMapSelectedLink(dst, CHUNK, p, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "aclrtMalloc");
    assert_acl_ok(aclrtFree(p));
    assert_acl_ok(aclrtReleaseMemAddress(dst));
    assert_acl_ok(aclrtReleaseMemAddress(small));
    block_destroy(&b);
}

/* The second piece is missing: the first is not mapped either. */
static void it_is_all_or_nothing(void **state)
{
    char *src = reserve(2 * CHUNK), *dst = reserve(2 * CHUNK);
    aclrtDrvMemHandle handle = alloc(CHUNK);

    map(src, CHUNK, handle);
    assert_refused(aclrtMemMapSelectedLink(dst, 2 * CHUNK, src, SIO),
                   ACL_ERROR_RT_PARAM_INVALID, "nothing is mapped");
    assert_acl_ok(aclrtReleaseMemAddress(dst));
    assert_acl_ok(aclrtUnmapMem(src));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(src));
}

static void only_a3_has_it(void **state)
{
    static const char *const others[] = {"950", "A2", "910", "310P", "310B", "310"};
    char option[32], here;

    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        snprintf(option, sizeof(option), "ACLMEM_PRODUCT=%s", others[i]);
        start("default", option);
        assert_refused(aclrtMemMapSelectedLink(&here, CHUNK, &here, SIO),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, others[i]);
        assert_refused(aclrtMemMapSelectedLink(&here, CHUNK, &here, 2),
                       ACL_ERROR_RT_FEATURE_NOT_SUPPORT, others[i]);
        assert_acl_ok(aclFinalize());
    }
    start("default");
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_a3(both_addresses_show_the_same_memory),
        claim_a3(pieces_are_mirrored_one_for_one),
        CLAIM("the_size_that_was_asked_for_is_taken",
              the_size_that_was_asked_for_is_taken, start_a3),
        CLAIM("memory_that_is_only_mapped_can_be_mirrored",
              memory_that_is_only_mapped_can_be_mirrored, start_a3),
        CLAIM("a_source_does_not_run_into_its_destination",
              a_source_does_not_run_into_its_destination, start_a3),
        claim_a3(wrong_calls_are_refused),
        claim_a3(it_is_all_or_nothing),
        claim_alone(only_a3_has_it),
    };

    return run_claims(claims);
}
