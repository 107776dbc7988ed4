/*
 * The system's own limits: memory that the program may touch takes a descriptor for
 * each handle and a kernel mapping for each mapping, and an event that processes share
 * takes two descriptors.  Where they run out, 207005 says which limit it was, how high it
 * is, and how to raise it.
 */
#include "support/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

enum { MAX_HANDLES = 4096, MAX_MAPPINGS = 100000 };

static void limit_files(rlim_t soft, rlim_t hard)
{
    struct rlimit limit = {.rlim_cur = soft, .rlim_max = hard};

    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* As many as there are descriptors for; how many, and the code that ended it. */
static size_t alloc_host_until_refused(aclrtDrvMemHandle *handles, size_t most,
                                       aclError *rc)
{
    aclrtPhysicalMemProp prop = located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_MEM_HUGE);
    size_t n = 0;

    do
        *rc = aclrtMallocPhysical(&handles[n], CHUNK, &prop, 0);
    while (*rc == ACL_SUCCESS && ++n < most);
    return n;
}

static void free_all(aclrtDrvMemHandle *handles, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
}

static void the_soft_limit_of_descriptors_is_raised_when_needed(void **state)
{
    static aclrtDrvMemHandle handles[MAX_HANDLES];
    aclError rc = ACL_SUCCESS;
    size_t n;

    limit_files(64, 1024);
    start("default");
    n = alloc_host_until_refused(handles, 500, &rc);
    assert_int_equal(rc, ACL_SUCCESS);
    free_all(handles, n);
}

static void descriptors_run_out_in_words(void **state)
{
    aclrtPhysicalMemProp prop = located_prop(ACL_MEM_LOCATION_TYPE_HOST, 0, ACL_MEM_HUGE);
    static aclrtDrvMemHandle handles[MAX_HANDLES];
    aclrtDrvMemHandle more = NULL;
    aclError rc = ACL_SUCCESS;
    struct block d;
    size_t n;

    limit_files(200, 200);
    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    d = block_create(CHUNK);
    n = alloc_host_until_refused(handles, MAX_HANDLES, &rc);
    assert_int_equal(rc, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_in_range(n, 100, 200);

    assert_refused(aclrtMallocPhysical(&more, CHUNK, &prop, 0),
                   ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "ulimit -n");
    assert_message_has("200");
    assert_null(more);

    /* Device memory takes no descriptor, and one that is given back serves again. */
    put_pattern(d.va, d.size, 1);
    assert_pattern(d.va, d.size, 1);
    assert_acl_ok(aclrtFreePhysical(handles[n - 1]));
    assert_acl_ok(aclrtMallocPhysical(&handles[n - 1], CHUNK, &prop, 0));
    free_all(handles, n);
    block_destroy(&d);
}

/* Events that other processes may open, of two descriptors each. */
static size_t make_events(aclrtEvent *events, size_t most, aclError *rc)
{
    size_t n = 0;

    do
        *rc = aclrtCreateEventExWithFlag(&events[n], ACL_EVENT_IPC);
    while (*rc == ACL_SUCCESS && ++n < most);
    return n;
}

static void shared_events_raise_the_soft_limit_and_run_out_in_words(void **state)
{
    aclrtEvent events[200], more = NULL;
    aclError rc = ACL_SUCCESS;
    size_t n;

    limit_files(64, 200);
    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    n = make_events(events, 200, &rc);
    assert_int_equal(rc, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_in_range(n, 50, 100);
    assert_refused(aclrtCreateEventExWithFlag(&more, ACL_EVENT_IPC),
                   ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "ulimit -n is 200, at most 200");
    assert_null(more);

    assert_acl_ok(aclrtDestroyEvent(events[--n]));
    assert_acl_ok(aclrtCreateEventExWithFlag(&events[n++], ACL_EVENT_IPC));
    while (n-- > 0)
        assert_acl_ok(aclrtDestroyEvent(events[n]));
}

/*
 * A file larger than the limit would end the process with a signal.  The output of the
 * claim may be such a file, so the limit is there for the calls alone.
 */
static void a_limit_of_file_sizes_is_told_in_words(void **state)
{
    struct rlimit old, small;
    aclrtEvent event = NULL;
    aclError rc_init, rc_event;
    char words[256];

    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = (struct rlimit){.rlim_cur = 16, .rlim_max = old.rlim_max};
    set_options("default", "ACLMEM_LOG=error"); /* no line in such a file */
    allow_warnings();                           /* the ledger is a private one */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    rc_init = aclInit(NULL);
    if (rc_init == ACL_SUCCESS)
        rc_init = aclrtSetDevice(0);
    rc_event = aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC);
    snprintf(words, sizeof(words), "%s", aclGetRecentErrMsg());
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);

    assert_int_equal(rc_init, ACL_SUCCESS);
    assert_int_equal(rc_event, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_non_null(strstr(words, "ulimit -f is 16 bytes"));
    assert_null(event);
    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_IPC));
    assert_acl_ok(aclrtDestroyEvent(event));
}

static size_t kernel_map_limit(void)
{
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    unsigned long n = 0;

    assert_non_null(file);
    assert_int_equal(fscanf(file, "%lu", &n), 1);
    fclose(file);
    return n;
}

/*
 * One handle at one address after the other, each of which the kernel has to keep
 * apart.
 */
static void mappings_run_out_in_words(void **state)
{
    size_t limit = kernel_map_limit(), n = 0;
    aclrtDrvMemHandle handle;
    char text[32], *va;
    struct block d;
    aclError rc;

    if (limit > MAX_MAPPINGS) {
        print_message("skipped: vm.max_map_count is %zu here\n", limit);
        return;
    }
    if (is_sanitized())
        return;
    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    d = block_create(CHUNK);
    handle = alloc_host(CHUNK);
    va = reserve(MAX_MAPPINGS * CHUNK);
    while ((rc = aclrtMapMem(va + n * CHUNK, CHUNK, 0, handle, 0)) == ACL_SUCCESS)
        n++;
    assert_int_equal(rc, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    assert_true(n > limit / 2);

    snprintf(text, sizeof(text), "%zu", limit);
    assert_refused(aclrtMapMem(va + n * CHUNK, CHUNK, 0, handle, 0),
                   ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "vm.max_map_count");
    assert_message_has(text);
    assert_acl_ok(aclrtMemset(d.va, d.size, 7, d.size)); /* device memory takes none */

    while (n-- > 0) /* giving back needs no room */
        assert_acl_ok(aclrtUnmapMem(va + n * CHUNK));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(va));
    block_destroy(&d);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(the_soft_limit_of_descriptors_is_raised_when_needed),
        claim_alone(descriptors_run_out_in_words),
        claim_alone(shared_events_raise_the_soft_limit_and_run_out_in_words),
        claim_alone(a_limit_of_file_sizes_is_told_in_words),
        claim_alone(mappings_run_out_in_words),
    };

    return run_claims(claims);
}
