/* Fifty thousand live handles and mappings in a process that may open 1,024 files. */
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { N = 50000 };

/* Little more than they take, so that one GPU has it. */
#define MEMORY (98 * GIB)

static void limit_files_to_the_usual(void)
{
    struct rlimit limit = {.rlim_cur = 1024, .rlim_max = 1024};

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void start_big(void)
{
    limit_files_to_the_usual();
    start("default", "ACLMEM_MEMORY=98G", "ACLMEM_DEVICES=1");
    assert_acl_ok(aclrtSetDevice(0));
}

static size_t lines_of_maps(void)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    size_t n = 0;

    assert_non_null(maps);
    for (int c; (c = getc(maps)) != EOF;)
        n += c == '\n';
    fclose(maps);
    return n;
}

static aclrtDrvMemHandle *alloc_many(void)
{
    aclrtDrvMemHandle *handles = calloc(N, sizeof(*handles));

    assert_non_null(handles);
    for (size_t i = 0; i < N; i++)
        handles[i] = alloc(CHUNK);
    return handles;
}

static void fifty_thousand_handles_live_at_once(void **state)
{
    aclrtDrvMemHandle *handles;
    size_t files, maps;
    char *va;

    start_big();
    files = open_descriptors();
    handles = alloc_many();
    va = reserve(N * CHUNK);
    maps = lines_of_maps();
    for (size_t i = 0; i < N; i++)
        map(va + i * CHUNK, CHUNK, handles[i]);
    assert_int_equal(stats().handles, N);
    assert_int_equal(stats().mappings, N);
    assert_int_equal(free_memory(), MEMORY - N * CHUNK);
    assert_in_range(open_descriptors(), files, files + N / 1000); /* a GPU's driver: 20 */
    assert_in_range(lines_of_maps(), 1, maps + N / 100);          /* malloc has a few */

    /* One copy over a thousand boundaries, and words here and there. */
    for (size_t i = 0; i < N; i += 997)
        put_pattern(va + i * CHUNK + 4096, 64, i);
    for (size_t i = 0; i < N; i += 997)
        assert_pattern(va + i * CHUNK + 4096, 64, i);
    put_pattern(va + 1000 * CHUNK - 100, 8 * CHUNK + 200, 1);
    assert_pattern(va + 1000 * CHUNK - 100, 8 * CHUNK + 200, 1);

    for (size_t i = 0; i < N; i++) {
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
    free(handles);
}

static void fifty_thousand_mappings_of_one_handle(void **state)
{
    aclrtDrvMemHandle handle;
    char *va;

    start_big();
    handle = alloc(CHUNK);
    va = reserve(N * CHUNK);
    for (size_t i = 0; i < N; i++)
        map(va + i * CHUNK, CHUNK, handle);
    put_pattern(va, CHUNK, 1);
    assert_pattern(va + (N - 1) * CHUNK, CHUNK, 1);
    assert_int_equal(free_memory(), MEMORY - CHUNK);
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtUnmapMem(va + i * CHUNK));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
}

static void a_reset_reclaims_fifty_thousand(void **state)
{
    aclrtDrvMemHandle *handles;
    char *va;

    start_big();
    allow_warnings();
    handles = alloc_many();
    va = reserve(N * CHUNK);
    for (size_t i = 0; i < N; i++)
        map(va + i * CHUNK, CHUNK, handles[i]);
    assert_acl_ok(aclrtResetDevice(0));
    assert_int_equal(stats().handles, 0);
    assert_int_equal(stats().mappings, 0);
    assert_acl_ok(aclrtSetDevice(0));
    assert_int_equal(free_memory(), MEMORY);
    assert_acl_ok(aclrtReleaseMemAddress(va));
    free(handles);
}

/*
 * Every second one goes and comes back as one large one: no memory is lost to where it
 * lies.
 */
static void scattered_free_memory_is_all_usable(void **state)
{
    aclrtDrvMemHandle *handles, large;
    size_t left;

    start_big();
    handles = alloc_many();
    for (size_t i = 0; i < N; i += 2)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    left = free_memory();
    assert_int_equal(left, MEMORY - N / 2 * CHUNK);
    large = alloc(left);
    assert_int_equal(free_memory(), 0);
    assert_acl_ok(aclrtFreePhysical(large));
    for (size_t i = 1; i < N; i += 2)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    free(handles);
}

/* Everything that a program may do over and over, and some of what is refused. */
static void one_round(void)
{
    aclrtDrvMemHandle again = NULL;
    aclrtContext context = NULL;
    struct block b = block_create(CHUNK);
    void *view = NULL;

    assert_acl_ok(aclrtMemRetainAllocationHandle(b.va, &again));
    assert_acl_ok(aclrtFreePhysical(again));
    assert_acl_ok(aclmem_host_view(b.va, CHUNK, &view));
    assert_acl_ok(aclmem_host_view_end(view));
    assert_acl_ok(aclrtCreateContext(&context, 0));
    assert_acl_ok(aclrtDestroyContext(context));
    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtResetDevice(0));
    assert_acl(aclrtMapMem(b.va, CHUNK, 0, b.handle, 0), ACL_ERROR_RT_PARAM_INVALID);
    assert_acl(aclrtReleaseMemAddress(b.va), ACL_ERROR_RT_PARAM_INVALID);
    block_destroy(&b);
}

static void twenty_thousand_rounds_take_no_more_than_a_hundred(void **state)
{
    size_t heap, space;

    if (is_sanitized())
        return;
    start_big();
    for (int i = 0; i < 100; i++)
        one_round();
    heap = heap_bytes();
    space = space_bytes();
    for (int i = 0; i < 20000; i++)
        one_round();
    assert_in_range(heap_bytes(), 0, heap + 64 * KIB);
    assert_in_range(space_bytes(), 0, space + 256 * KIB);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(fifty_thousand_handles_live_at_once),
        claim_alone(fifty_thousand_mappings_of_one_handle),
        claim_alone(a_reset_reclaims_fifty_thousand),
        claim_alone(scattered_free_memory_is_all_usable),
        claim_alone(twenty_thousand_rounds_take_no_more_than_a_hundred),
    };

    return run_claims(claims);
}
