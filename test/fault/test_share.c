/*
 * Each system call and allocation of sharing fails in its turn, in the exporter and in
 * the importer: the call fails with a code for it or finds another way, nothing is left,
 * and the next try succeeds.
 */
#include "share/actor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/fault.h"

#define OPEN ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION
#define PEER ACL_RT_IPC_MEM_IMPORT_FLAG_ENABLE_PEER_ACCESS
#define SIZE (3 * MIB)

/* The other process, and what it has for this one. */
static struct actor other;
static uint64_t other_number;
static char other_key[80];

/* What a step works on. */
static aclrtDrvMemHandle handle;
static struct block mapped;
static uint64_t number;
static void *addr;
static char key[ACL_IPC_HANDLE_SIZE];

struct step {
    void (*prepare)(void);
    aclError (*run)(void);
    void (*check)(void); /* after success; or NULL */
    void (*clean)(void); /* after success */
    bool only_single;    /* no faults that last: the other process would wait for long */
};

static bool is_expected(aclError rc)
{
    return rc == ACL_ERROR_BAD_ALLOC || rc == ACL_ERROR_RT_MEMORY_ALLOCATION ||
           rc == ACL_ERROR_RT_RESOURCE_ALLOC_FAIL || rc == ACL_ERROR_RT_IPC_ERROR ||
           rc == ACL_ERROR_RT_INTERNAL_ERROR || rc == ACL_ERROR_RT_NO_PERMISSION ||
           rc == ACL_ERROR_RT_PARAM_INVALID ||
           rc ==
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT; /* a GPU does not say that it is a peer */
}

/* The step with its nth call failing; whether a fault fired. */
static bool play(const struct step *step, uint64_t n, bool lasts)
{
    bool has_fired;
    aclError rc;

    start("default", "ACLMEM_LOG=error");
    allow_warnings(); /* a ledger that cannot be had is worth one */
    assert_acl_ok(aclrtSetDevice(0));
    step->prepare();
    am_fault_arm(n, lasts);
    rc = step->run();
    am_fault_disarm();
    has_fired = am_fault_fired();
    if (rc != ACL_SUCCESS) {
        if (!has_fired || !is_expected(rc))
            fail_msg("call %lu: %d %s", (unsigned long)n, rc, aclGetRecentErrMsg());
        assert_acl_ok(step->run());
    }
    if (step->check != NULL)
        step->check();
    step->clean();
    assert_int_equal(finish(NULL), 0);
    return has_fired;
}

static void play_all(const struct step *step)
{
    uint64_t n = 1;

    while (play(step, n, false))
        n++;
    assert_true(n > 1);
    for (n = 1; !step->only_single && play(step, n, true);)
        n++;
}

/* ---- the exporter ---- */

static void prepare_mapped(void)
{
    mapped = block_create(2 * CHUNK);
    put_pattern(mapped.va, CHUNK, 1);
}

static aclError export_mapped(void)
{
    return aclrtMemExportToShareableHandle(mapped.handle, ACL_MEM_HANDLE_TYPE_NONE, OPEN,
                                           &number);
}

static void check_mapped(void)
{
    assert_pattern(mapped.va, CHUNK, 1);
    assert_all_bytes(mapped.va + CHUNK, CHUNK, 0);
}

static void clean_mapped(void)
{
    block_destroy(&mapped);
}

static void an_export_that_fails_leaves_the_memory_as_it_was(void **state)
{
    play_all(
        &(struct step){prepare_mapped, export_mapped, check_mapped, clean_mapped, false});
}

/* An export makes no view of the memory: the first use of the memory does. */
static void prepare_untouched(void)
{
    mapped = block_create(CHUNK);
    assert_acl_ok(export_mapped());
}

static aclError copy_first(void)
{
    return aclrtMemset(mapped.va, CHUNK, 3, CHUNK);
}

static void check_copied(void)
{
    assert_all_bytes(mapped.va, CHUNK, 3);
}

static void a_first_copy_after_an_export_fails_or_is_whole(void **state)
{
    play_all(
        &(struct step){prepare_untouched, copy_first, check_copied, clean_mapped, false});
}

static aclError view_first(void)
{
    return aclmem_host_view(mapped.va, CHUNK, &addr);
}

static void check_viewed(void)
{
    memset(addr, 4, CHUNK);
    assert_all_bytes(mapped.va, CHUNK, 4);
    assert_acl_ok(aclmem_host_view_end(addr));
}

static void a_first_host_view_after_an_export_fails_or_shows_the_memory(void **state)
{
    play_all(
        &(struct step){prepare_untouched, view_first, check_viewed, clean_mapped, false});
}

static void prepare_exported(void)
{
    handle = alloc(CHUNK);
    assert_acl_ok(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number));
}

static aclError trust_other(void)
{
    int32_t pids[2] = {getpid(), other.pid};

    return aclrtMemSetPidToShareableHandle(number, pids, 2);
}

static void check_trusted(void)
{
    done(&other, DO_FREE, done(&other, DO_IMPORT, number, 0, 0), 0, 0);
}

static void clean_handle(void)
{
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void a_list_that_fails_to_grow_stays_as_it_was(void **state)
{
    play_all(&(struct step){prepare_exported, trust_other, check_trusted, clean_handle,
                            false});
}

static void prepare_open(void)
{
    handle = alloc(CHUNK);
    assert_acl_ok(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, OPEN, &number));
}

/* Faults are counted here, in the thread that answers. */
static aclError serve_other(void)
{
    struct answer answer = order(&other, DO_IMPORT, number, 0, 0);

    if (answer.rc == ACL_SUCCESS)
        done(&other, DO_FREE, answer.value[0], 0, 0);
    return answer.rc;
}

static void an_exporter_that_fails_to_answer_is_asked_again(void **state)
{
    play_all(&(struct step){prepare_open, serve_other, NULL, clean_handle, true});
}

static void prepare_block(void)
{
    assert_acl_ok(aclrtMalloc(&addr, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    put_pattern(addr, SIZE, 2);
}

static aclError export_block(void)
{
    return aclrtIpcMemGetExportKey(addr, SIZE, key, sizeof key, OPEN);
}

static void check_block(void)
{
    assert_pattern(addr, SIZE, 2);
}

static void clean_block(void)
{
    assert_acl_ok(aclrtFree(addr));
}

static void a_key_that_fails_to_be_made_leaves_the_block_as_it_was(void **state)
{
    play_all(
        &(struct step){prepare_block, export_block, check_block, clean_block, false});
}

/* ---- the importer ---- */

static void prepare_nothing(void)
{
}

static aclError import_other(void)
{
    return aclrtMemImportFromShareableHandle(other_number, 0, &handle);
}

static void an_import_that_fails_leaves_nothing(void **state)
{
    play_all(&(struct step){prepare_nothing, import_other, NULL, clean_handle, false});
}

/* The connection is there already. */
static void prepare_connected(void)
{
    assert_acl_ok(import_other());
    clean_handle();
}

static void a_second_import_that_fails_leaves_nothing(void **state)
{
    play_all(&(struct step){prepare_connected, import_other, NULL, clean_handle, false});
}

static void prepare_peer(void)
{
    assert_acl_ok(aclrtSetDevice(1));
}

static aclError import_key(void)
{
    int32_t status = -1;
    aclError rc = aclrtIpcMemImportByKey(&addr, other_key, PEER);

    assert_acl_ok(aclrtDevicePeerAccessStatus(1, 0, &status));
    assert_int_equal(status, rc == ACL_SUCCESS);
    return rc;
}

static void check_imported_block(void)
{
    assert_all_bytes(addr, SIZE, 0);
}

static void clean_key(void)
{
    assert_acl_ok(aclrtIpcMemClose(other_key));
}

static void an_import_by_key_that_fails_leaves_nothing(void **state)
{
    play_all(
        &(struct step){prepare_peer, import_key, check_imported_block, clean_key, false});
}

static int start_other(void **state)
{
    uint64_t block;

    clear_options(); /* and not set_options(): descriptors are counted from there on */
    setenv("ACLMEM_MEMORY", "1G", 1);
    setenv("ACLMEM_LOG", "error", 1);
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    other_number = done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
    block = done(&other, DO_MALLOC, SIZE, 0, 0);
    strcpy(other_key, order(&other, DO_KEY, block, SIZE, OPEN).text);
    return 0;
}

static int end_other(void **state)
{
    actor_end(&other);
    return 0;
}

#define faulted(f_) cmocka_unit_test(f_)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        faulted(an_export_that_fails_leaves_the_memory_as_it_was),
        faulted(a_first_copy_after_an_export_fails_or_is_whole),
        faulted(a_first_host_view_after_an_export_fails_or_shows_the_memory),
        faulted(a_list_that_fails_to_grow_stays_as_it_was),
        faulted(an_exporter_that_fails_to_answer_is_asked_again),
        faulted(a_key_that_fails_to_be_made_leaves_the_block_as_it_was),
        faulted(an_import_that_fails_leaves_nothing),
        faulted(a_second_import_that_fails_leaves_nothing),
        faulted(an_import_by_key_that_fails_leaves_nothing),
    };

    actor_main(argc, argv);
    start_other(NULL);
    return support_run(tests, sizeof(tests) / sizeof(tests[0]), end_other);
}
