/*
 * Memory in two processes over time: who ends when, what counts, what is left, and many
 * threads at it.
 */
#include "pair.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "support/process.h"

static void imported_memory_outlives_the_exporters_handle(void **state)
{
    struct block b = block_create(CHUNK);
    uint64_t number = export_open(b.handle);
    uint64_t handle, va;

    put_pattern(b.va, b.size, 7);
    va = other_has(number, b.size, &handle);
    block_destroy(&b);
    assert_int_equal(done(&other, DO_CHECK, va, CHUNK, 7), 0);
    done(&other, DO_FREE, handle, 0, 0);
    assert_int_equal(done(&other, DO_CHECK, va, CHUNK, 7), 0);
    done(&other, DO_UNMAP, va, 0, 0);
    expect(order(&other, DO_IMPORT, number, 0, 0), ACL_ERROR_RT_NO_PERMISSION, "freed");
    actor_end(&other);
}

static void imported_memory_outlives_the_exporter(void **state)
{
    struct actor exporter;
    uint64_t handle, va, number;
    char *here = reserve(CHUNK);
    aclrtDrvMemHandle mine;

    actor_start(&exporter, ACTOR_PLAIN);
    done(&exporter, DO_INIT, 0, 0, 0);
    handle = done(&exporter, DO_ALLOC, CHUNK, 0, 0);
    va = done(&exporter, DO_RESERVE, CHUNK, 0, 0);
    done(&exporter, DO_MAP, va, CHUNK, handle);
    done(&exporter, DO_PUT, va, CHUNK, 8);
    number = done(&exporter, DO_EXPORT, handle, OPEN, 0);
    mine = import(number);
    map(here, CHUNK, mine);
    actor_kill(&exporter);
    assert_pattern(here, CHUNK, 8);
    assert_acl_ok(aclrtUnmapMem(here));
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_refused(aclrtMemImportFromShareableHandle(number, 0, &mine),
                   ACL_ERROR_RT_NO_PERMISSION, "has ended");
    assert_int_equal(run_files("share-"), 0); /* whoever finds it removes it */
    assert_acl_ok(aclrtReleaseMemAddress(here));
}

static void a_number_dies_with_the_last_reference_of_its_handle(void **state)
{
    struct block b = block_create(CHUNK);
    uint64_t number = export_open(b.handle);
    aclrtDrvMemHandle again;

    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    assert_acl_ok(aclrtMemRetainAllocationHandle(b.va, &again));
    assert_acl_ok(aclrtFreePhysical(again));
    done(&other, DO_FREE, done(&other, DO_IMPORT, number, 0, 0), 0, 0);
    assert_acl_ok(aclrtFreePhysical(b.handle)); /* still mapped */
    expect(order(&other, DO_IMPORT, number, 0, 0), ACL_ERROR_RT_NO_PERMISSION, "freed");
    actor_end(&other);
    assert_acl_ok(aclrtUnmapMem(b.va));
    assert_acl_ok(aclrtReleaseMemAddress(b.va));
}

static void a_number_dies_when_its_device_is_reset(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    uint64_t number = export_open(handle);

    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    assert_acl_ok(aclrtResetDevice(0));
    expect(order(&other, DO_IMPORT, number, 0, 0), ACL_ERROR_RT_NO_PERMISSION, "freed");
    actor_end(&other);
    assert_acl_ok(aclrtSetDevice(0));
}

static void a_reset_lets_go_of_what_was_imported(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    uint64_t number = export_open(handle);
    uint64_t there;

    other_has(number, CHUNK, &there);
    actor_end(&other);
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    done(&other, DO_IMPORT, number, 0, 0);
    done(&other, DO_FINALIZE, 0, 0, 0);
    done(&other, DO_INIT, 0, 0, 0);
    done(&other, DO_IMPORT, number, 0, 0);
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
}

#define THREADS 4
#define ROUNDS 200

struct contest {
    aclrtDrvMemHandle handle;
    uint64_t number;
    atomic_ulong n_won;
    atomic_ulong n_holders;
};

/* Imports the one number whenever nobody else has it. */
static const char *contend_import(struct worker *w)
{
    struct contest *c = w->shared;

    for (int i = 0; i < ROUNDS; i++) {
        aclrtDrvMemHandle mine;
        aclError rc = aclrtMemImportFromShareableHandle(c->number, 0, &mine);

        worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_PARAM_INVALID);
        if (rc != ACL_SUCCESS)
            continue;
        worker_check(atomic_fetch_add(&c->n_holders, 1) == 0);
        atomic_fetch_sub(&c->n_holders, 1);
        worker_check(aclrtFreePhysical(mine) == ACL_SUCCESS);
        c->n_won++;
    }
    return NULL;
}

static void threads_import_a_number_one_at_a_time(void **state)
{
    struct contest c = {.number = number_of_other(OPEN)};
    struct worker w[THREADS];

    for (int i = 0; i < THREADS; i++)
        w[i] = (struct worker){.run = contend_import, .shared = &c};
    assert_null(run_workers(w, THREADS));
    assert_true(c.n_won > 0);
    actor_end(&other);
}

static const char *contend_export(struct worker *w)
{
    struct contest *c = w->shared;
    uint64_t number;
    aclError rc = aclrtMemExportToShareableHandle(c->handle, ACL_MEM_HANDLE_TYPE_NONE,
                                                  OPEN, &number);

    worker_check(rc == ACL_SUCCESS || rc == ACL_ERROR_RT_PARAM_INVALID);
    c->n_won += rc == ACL_SUCCESS;
    return NULL;
}

static void one_of_many_threads_exports_a_handle(void **state)
{
    for (int i = 0; i < 20; i++) {
        struct block b = block_create(CHUNK);
        struct contest c = {.handle = b.handle};
        struct worker w[THREADS];

        put_pattern(b.va, CHUNK, 39);
        for (int k = 0; k < THREADS; k++)
            w[k] = (struct worker){.run = contend_export, .shared = &c};
        assert_null(run_workers(w, THREADS));
        assert_int_equal(c.n_won, 1);
        assert_pattern(b.va, CHUNK, 39);
        block_destroy(&b);
    }
}

/* Each has its own memory; all of it goes through one exporter's thread and back. */
static const char *export_and_import(struct worker *w)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);

    for (int i = 0; i < ROUNDS / 4; i++) {
        aclrtDrvMemHandle own, mine;
        uint64_t number;

        worker_check(aclrtMallocPhysical(&own, CHUNK, &prop, 0) == ACL_SUCCESS);
        worker_check(aclrtMemExportToShareableHandle(own, ACL_MEM_HANDLE_TYPE_NONE, OPEN,
                                                     &number) == ACL_SUCCESS);
        worker_check(aclrtMemImportFromShareableHandle(number, 0, &mine) == ACL_SUCCESS);
        worker_check(aclrtFreePhysical(i % 2 ? own : mine) == ACL_SUCCESS);
        worker_check(aclrtFreePhysical(i % 2 ? mine : own) == ACL_SUCCESS);
    }
    return NULL;
}

static void threads_share_at_the_same_time(void **state)
{
    struct worker w[THREADS];

    for (int i = 0; i < THREADS; i++)
        w[i] = (struct worker){.run = export_and_import};
    assert_null(run_workers(w, THREADS));
}

/* Counts up in every word of the memory until it is told to stop, and not for ever. */
enum { MOST_ROUNDS = 2000 };

struct counter {
    char *va;
    size_t n;
    atomic_bool must_stop;
    atomic_ulong rounds;
};

static const char *count_up(struct worker *w)
{
    struct counter *c = w->shared;
    uint64_t *host = calloc(c->n, sizeof *host);

    worker_check(host != NULL && aclrtSetDevice(0) == ACL_SUCCESS);
    for (unsigned long round = 1; round <= MOST_ROUNDS && !c->must_stop; round++) {
        for (size_t i = 0; i < c->n; i++)
            host[i] = round;
        worker_check(aclrtMemcpy(c->va, c->n * 8, host, c->n * 8,
                                 ACL_MEMCPY_HOST_TO_DEVICE) == ACL_SUCCESS);
        memset(host, 0, c->n * 8);
        worker_check(aclrtMemcpy(host, c->n * 8, c->va, c->n * 8,
                                 ACL_MEMCPY_DEVICE_TO_HOST) == ACL_SUCCESS);
        for (size_t i = 0; i < c->n; i++)
            worker_check(host[i] == round);
        c->rounds = round;
    }
    free(host);
    worker_check(aclrtResetDevice(0) == ACL_SUCCESS);
    return NULL;
}

static void no_copy_is_lost_while_memory_is_exported(void **state)
{
    for (int i = 0; i < 8; i++) {
        struct block b = block_create(4 * CHUNK);
        struct counter c = {.va = b.va, .n = b.size / 8};
        struct worker w = {.run = count_up, .shared = &c};
        unsigned long seen;

        assert_int_equal(worker_start(&w), 0);
        while (c.rounds < 2 && w.failure == NULL)
            sched_yield();
        export_open(b.handle);
        seen = c.rounds;
        while (c.rounds < seen + 2 && c.rounds < MOST_ROUNDS && w.failure == NULL)
            sched_yield();
        c.must_stop = true;
        assert_null(worker_join(&w));
        block_destroy(&b);
    }
}

static void an_importer_keeps_no_descriptor_for_a_handle(void **state)
{
    enum { N = 64 };
    aclrtDrvMemHandle handles[N];
    struct answer before;

    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    handles[0] = alloc(CHUNK);
    done(&other, DO_IMPORT, export_open(handles[0]), 0, 0);
    before = order(&other, DO_DESCRIPTORS, 0, 0, 0);
    for (int i = 1; i < N; i++) {
        handles[i] = alloc(CHUNK);
        done(&other, DO_IMPORT, export_open(handles[i]), 0, 0);
    }
    assert_int_equal(done(&other, DO_DESCRIPTORS, 0, 0, 0), before.value[0]);
    actor_end(&other);
    for (int i = 0; i < N; i++)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
}

/* The soft limit of descriptors, at most the hard one; what it was. */
static struct rlimit set_soft_limit(rlim_t soft)
{
    struct rlimit old, limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
    limit = old;
    if (old.rlim_max < 2048) {
        print_message("skipped: the hard limit of descriptors (ulimit -n) has too few "
                      "above 1023\n");
        skip();
    }
    limit.rlim_cur = soft < old.rlim_max ? soft : old.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
    return old;
}

static rlim_t soft_limit(void)
{
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    return limit.rlim_cur;
}

/* The number that the program's next descriptor gets. */
static int next_descriptor(void)
{
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

    close(fd);
    return fd;
}

static void descriptors_stay_out_of_the_way_of_select(void **state)
{
    struct rlimit old = set_soft_limit(4096);
    aclrtDrvMemHandle handle = alloc(CHUNK);
    int low = next_descriptor();

    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    done(&other, DO_IMPORT, export_open(handle), 0, 0);
    assert_int_equal(next_descriptor(), low + 1); /* the test's own socket */
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* A shell's usual limit has no number above 1023 to give. */
static void so_do_many_when_the_soft_limit_is_as_usual(void **state)
{
    enum { N = 400 };
    struct rlimit old = set_soft_limit(1024);
    aclrtDrvMemHandle handles[N];

    for (size_t i = 0; i < N; i++) {
        handles[i] = alloc(CHUNK);
        (void)export_open(handles[i]);
        if (i == 100)
            assert_int_equal(soft_limit(), 1024); /* for a few it stays as it is */
    }
    assert_in_range(next_descriptor(), 3, 300);
    for (size_t i = 0; i < N; i++)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

static void a_socket_goes_with_its_process(void **state)
{
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
    assert_int_equal(run_files("share-"), 1);
    done(&other, DO_FINALIZE, 0, 0, 0);
    assert_int_equal(run_files("share-"), 0);
    done(&other, DO_INIT, 0, 0, 0);
    done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
    assert_int_equal(run_files("share-"), 1);
    order_begin(&other, DO_EXIT, 0, 0, 0);
    actor_end(&other);
    assert_int_equal(run_files("share-"), 0);
    assert_int_equal(run_files(".share-"), 0);
}

static void an_exporter_removes_what_killed_ones_left(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);

    for (int i = 0; i < 3; i++) {
        actor_start(&other, ACTOR_PLAIN);
        done(&other, DO_INIT, 0, 0, 0);
        done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
        actor_kill(&other);
    }
    export_open(handle);
    assert_int_equal(run_files("share-"), 1);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void a_child_of_fork_neither_answers_nor_takes_the_socket_along(void **state)
{
    uint64_t number = number_of_other(OPEN);
    aclrtDrvMemHandle mine = import(number);

    assert_acl_ok(aclrtFreePhysical(mine));
    done(&other, DO_FORK, 0, 0, 0);
    mine = import(number);
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_int_equal(run_files("share-"), 1);
    actor_kill(&other); /* the child lives until our end of its socket goes */
    assert_refused(aclrtMemImportFromShareableHandle(number, 0, &mine),
                   ACL_ERROR_RT_NO_PERMISSION, "ended");
}

/* What several processes have is in use once, until the last one lets go. */
static void shared_memory_counts_once_for_as_long_as_anybody_has_it(void **state)
{
    size_t before = free_memory();
    aclrtDrvMemHandle handle = alloc(4 * CHUNK);
    uint64_t there, number = export_open(handle);
    size_t less = before - 4 * CHUNK;

    assert_int_equal(free_memory(), less);
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    assert_int_equal(done(&other, DO_FREE_MEMORY, 0, 0, 0), less);
    there = done(&other, DO_IMPORT, number, 0, 0);
    assert_int_equal(free_memory(), less);
    assert_int_equal(done(&other, DO_FREE_MEMORY, 0, 0, 0), less);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(free_memory(), less);
    done(&other, DO_FREE, there, 0, 0);
    assert_int_equal(free_memory(), before);
    assert_int_equal(done(&other, DO_FREE_MEMORY, 0, 0, 0), before);
    actor_end(&other);
}

static void memory_of_a_killed_exporter_counts_until_its_importers_let_go(void **state)
{
    size_t before = free_memory();
    aclrtDrvMemHandle mine = import(number_of_other(OPEN));

    done(&other, DO_ALLOC, 8 * CHUNK, 0, 0);
    assert_int_equal(free_memory(), before - 9 * CHUNK);
    actor_kill(&other);
    assert_int_equal(free_memory(), before - CHUNK);
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_int_equal(free_memory(), before);
}

static void a_killed_importer_changes_no_figure(void **state)
{
    size_t before = free_memory();
    aclrtDrvMemHandle handle = alloc(4 * CHUNK);

    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    done(&other, DO_IMPORT, export_open(handle), 0, 0);
    actor_kill(&other);
    assert_int_equal(free_memory(), before - 4 * CHUNK);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(free_memory(), before);
}

static void importing_one_s_own_memory_counts_nothing(void **state)
{
    size_t before = free_memory();
    aclrtDrvMemHandle handle = alloc(CHUNK);
    aclrtDrvMemHandle mine = import(export_open(handle));

    assert_int_equal(free_memory(), before - CHUNK);
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_int_equal(free_memory(), before - CHUNK);
    assert_acl_ok(aclrtFreePhysical(mine));
    assert_int_equal(free_memory(), before);
}

/* Whose devices are other ones, by its options, has nothing less for what it imports. */
static void a_process_with_other_devices_imports_and_counts_nothing(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK);
    uint64_t number = export_open(handle);
    uint64_t before, there;

    setenv("ACLMEM_MEMORY", "64M", 1);
    actor_start(&other, ACTOR_PLAIN);
    done(&other, DO_INIT, 0, 0, 0);
    before = done(&other, DO_FREE_MEMORY, 0, 0, 0);
    there = done(&other, DO_IMPORT, number, 0, 0);
    assert_int_equal(done(&other, DO_FREE_MEMORY, 0, 0, 0), before);
    done(&other, DO_FREE, there, 0, 0);
    assert_int_equal(done(&other, DO_FREE_MEMORY, 0, 0, 0), before);
    actor_end(&other);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void a_stopped_exporter_is_told_in_bounded_time(void **state)
{
    uint64_t number = number_of_other(OPEN);
    aclrtDrvMemHandle mine = NULL;

    actor_signal(&other, SIGSTOP);
    assert_refused(aclrtMemImportFromShareableHandle(number, 0, &mine),
                   ACL_ERROR_RT_IPC_ERROR, "stopped");
    actor_signal(&other, SIGCONT);
    mine = import(number);
    assert_acl_ok(aclrtFreePhysical(mine));
}

static void an_importer_survives_that_its_exporter_is_started_anew(void **state)
{
    uint64_t number = number_of_other(OPEN);
    aclrtDrvMemHandle first = import(number);
    aclrtDrvMemHandle second;

    done(&other, DO_FINALIZE, 0, 0, 0);
    done(&other, DO_INIT, 0, 0, 0);
    number = done(&other, DO_EXPORT, done(&other, DO_ALLOC, CHUNK, 0, 0), OPEN, 0);
    second = import(number);
    assert_acl_ok(aclrtFreePhysical(first));
    assert_acl_ok(aclrtFreePhysical(second));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        pair(imported_memory_outlives_the_exporters_handle),
        pair(imported_memory_outlives_the_exporter),
        pair(a_number_dies_with_the_last_reference_of_its_handle),
        pair(a_number_dies_when_its_device_is_reset),
        pair(a_reset_lets_go_of_what_was_imported),
        pair(threads_import_a_number_one_at_a_time),
        pair(one_of_many_threads_exports_a_handle),
        pair(threads_share_at_the_same_time),
        pair(no_copy_is_lost_while_memory_is_exported),
        pair(an_importer_keeps_no_descriptor_for_a_handle),
        pair(descriptors_stay_out_of_the_way_of_select),
        pair(so_do_many_when_the_soft_limit_is_as_usual),
        pair(a_socket_goes_with_its_process),
        pair(an_exporter_removes_what_killed_ones_left),
        pair(a_child_of_fork_neither_answers_nor_takes_the_socket_along),
        pair(shared_memory_counts_once_for_as_long_as_anybody_has_it),
        pair(memory_of_a_killed_exporter_counts_until_its_importers_let_go),
        pair(a_killed_importer_changes_no_figure),
        pair(importing_one_s_own_memory_counts_nothing),
        pair(a_process_with_other_devices_imports_and_counts_nothing),
        pair(a_stopped_exporter_is_told_in_bounded_time),
        pair(an_importer_survives_that_its_exporter_is_started_anew),
    };

    actor_main(argc, argv);
    return run_claims(tests);
}
