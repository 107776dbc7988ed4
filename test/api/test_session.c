/* aclmem_check_begin, _findings and _end: what the layer check finds in one test. */
#include "support/support.h"
#include "support/vmm.h"

#include <stdlib.h>
#include <string.h>

/* The text of the last call; the one before is freed. */
static char *text;

static const char *taken(void)
{
    free(text);
    text = NULL;
    assert_acl_ok(aclmem_check_findings(&text));
    return text;
}

static const char *ended(int leaks)
{
    free(text);
    text = NULL;
    assert_acl_ok(aclmem_check_end(leaks, &text));
    return text;
}

static size_t count(const char *in, const char *words)
{
    size_t n = 0;

    for (; (in = strstr(in, words)) != NULL; in++)
        n++;
    return n;
}

static void *block_take(size_t size)
{
    void *block;

    assert_acl_ok(aclrtMalloc(&block, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return block;
}

static void free_twice(void)
{
    void *block = block_take(1000);

    assert_acl_ok(aclrtFree(block));
    assert_int_not_equal(aclrtFree(block), ACL_SUCCESS);
}

static void checked(void)
{
    start("default", "ACLMEM_LAYERS=check");
    assert_acl_ok(aclrtSetDevice(0));
}

static void equal_findings_are_told_once_in_each_session(void **state)
{
    checked();
    for (int session = 0; session < 2; session++) {
        assert_acl_ok(aclmem_check_begin(0));
        for (volatile int i = 0; i < 3; i++) /* volatile: one place, not three */
            free_twice();
        assert_int_equal(count(taken(), "\"kind\":\"double-free\""), 1);
        assert_non_null(
            strstr(text, "\"function\":\"aclrtFree\",\"what\":\"again here\""));
        assert_string_equal(taken(), "[]");
        assert_string_equal(ended(1), "[]");
    }
}

static void leaks_are_what_the_session_made(void **state)
{
    void *before, *inside;

    checked();
    before = block_take(100);
    assert_acl_ok(aclmem_check_begin(0));
    inside = block_take(3000);
    assert_string_equal(taken(), "[]");
    assert_int_equal(count(ended(1), "\"kind\":\"leak.block\""), 1);
    assert_non_null(
        strstr(text, "1 block of 2.9 KB is still there at the end of the test"));
    assert_acl_ok(aclmem_check_begin(0));
    assert_string_equal(ended(1), "[]");
    assert_acl_ok(aclrtFree(before));
    assert_acl_ok(aclrtFree(inside));
}

static void the_limit_counts_what_is_held_at_once(void **state)
{
    void *before, *one, *two;

    checked();
    before = block_take(8 * MIB);
    assert_acl_ok(aclmem_check_begin(4 * MIB));
    for (int i = 0; i < 3; i++)
        assert_acl_ok(aclrtFree(block_take(3 * MIB)));
    assert_string_equal(taken(), "[]");
    one = block_take(3 * MIB);
    two = block_take(3 * MIB);
    assert_int_equal(count(taken(), "\"kind\":\"over-limit\""), 1);
    assert_non_null(
        strstr(text, "holds 6.0 MB of device memory, and its limit is 4.0 MB"));
    assert_acl_ok(aclrtFree(one));
    assert_acl_ok(aclrtFree(two));
    assert_acl_ok(aclrtFree(before));
    assert_string_equal(ended(1), "[]");
}

/* A handle that was freed, or whose free is refused, and mappings that hold the memory. */
static void the_limit_counts_memory_that_a_mapping_holds(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle;
    void *addr, *twin;

    checked();
    assert_acl_ok(aclrtReserveMemAddress(&addr, CHUNK, 0, NULL, 0));
    assert_acl_ok(aclrtReserveMemAddress(&twin, CHUNK, 0, NULL, 0));
    assert_acl_ok(aclmem_check_begin(3 * MIB));
    for (int i = 0; i < 3;
         i++) { /* what goes with the last mapping is not counted twice */
        assert_acl_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
        assert_acl_ok(aclrtMapMem(addr, CHUNK, 0, handle, 0));
        assert_acl_ok(aclrtMapMem(twin, CHUNK, 0, handle, 0));
        assert_acl_ok(aclrtFreePhysical(handle));
        assert_acl_ok(aclrtUnmapMem(twin));
        assert_acl_ok(aclrtUnmapMem(addr));
    }
    assert_string_equal(taken(), "[]");
    assert_acl_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    assert_acl_ok(aclrtMapMem(addr, CHUNK, 0, handle, 0));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    assert_int_equal(count(ended(0), "\"kind\":\"over-limit\""), 1);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtUnmapMem(addr));
    assert_acl_ok(aclrtReleaseMemAddress(twin));
    assert_acl_ok(aclrtReleaseMemAddress(addr));
}

static void a_session_goes_on_over_the_end_of_the_library(void **state)
{
    checked();
    assert_acl_ok(aclmem_check_begin(0));
    block_take(5000);
    assert_acl_ok(aclFinalize());
    assert_int_equal(count(taken(), "\"kind\":\"leak.block\""), 1);
    checked();
    free_twice();
    assert_int_equal(count(ended(1), "\"kind\":\"double-free\""), 1);
}

static void without_the_layer_it_is_refused(void **state)
{
    char *findings = "untouched";

    start("default", "ACLMEM_LAYERS=");
    assert_refused(aclmem_check_begin(0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "ACLMEM_LAYERS=check");
    assert_refused(aclmem_check_findings(&findings), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "ACLMEM_LAYERS=check");
    assert_refused(aclmem_check_end(0, &findings), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "ACLMEM_LAYERS=check");
    assert_string_equal(findings, "untouched");
}

static void wrong_calls_are_refused(void **state)
{
    checked();
    assert_bad_arg(aclmem_check_findings(NULL), "findings");
    assert_bad_arg(aclmem_check_end(0, NULL), "findings");
    assert_string_equal(ended(1), "[]"); /* without a begin there is nothing */
    assert_string_equal(taken(), "[]");
}

int main(void)
{
    /* The first one is alone in a process that had no layer yet. */
    const struct CMUnitTest claims[] = {
        claim_alone(without_the_layer_it_is_refused),
        claim_alone(equal_findings_are_told_once_in_each_session),
        claim_alone(leaks_are_what_the_session_made),
        claim_alone(the_limit_counts_what_is_held_at_once),
        claim_alone(the_limit_counts_memory_that_a_mapping_holds),
        claim_alone(a_session_goes_on_over_the_end_of_the_library),
        claim_alone(wrong_calls_are_refused),
    };
    int rc = run_claims(claims);

    free(text);
    return rc;
}
