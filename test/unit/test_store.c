/*
 * Stores of the host backend: memory files, their descriptors, and their pages coming and
 * going.
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/host/host.h"
#include "base/error.h"
#include "base/machine.h"
#include "support/support.h"

#define N_FRAMES 8

/* A device's: its frames are known to be zero. */
static aclError store_open(size_t size, struct host_store **ret_store)
{
    aclError rc = host_store_create(size, -1, 0, ret_store);

    return rc == ACL_SUCCESS ? host_store_see(*ret_store) : rc;
}

static int store_make(void **state)
{
    struct host_store *store;

    assert_int_equal(store_open(N_FRAMES * AM_CHUNK, &store), ACL_SUCCESS);
    *state = store;
    return 0;
}

static int store_drop(void **state)
{
    host_store_destroy(*state);
    am_error_take_messages();
    return 0;
}

static size_t bytes_held(struct host_store *store)
{
    struct stat st;

    assert_int_equal(fstat(store->fd, &st), 0);
    return (size_t)st.st_blocks * 512;
}

static void a_store_is_a_sparse_file_that_no_other_program_inherits(void **state)
{
    struct host_store *store = *state;
    struct stat st;

    assert_int_equal(fstat(store->fd, &st), 0);
    assert_int_equal(st.st_size, N_FRAMES * AM_CHUNK);
    assert_int_equal(st.st_blocks, 0);
    assert_true(fcntl(store->fd, F_GETFD) & FD_CLOEXEC);
    for (size_t i = 0; i < N_FRAMES; i++)
        assert_int_equal(store->state[i], 0);
}

static void descriptors_stay_out_of_the_way_of_select(void **state)
{
    struct host_store *store = *state;
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    if (limit.rlim_cur <= 1024 + open_descriptors()) {
        print_message("skipped: ulimit -n leaves no room above 1023\n");
        skip();
    }
    assert_true(store->fd >= 1024);
}

static void frames_are_brought_in_by_a_call_for_each_run(void **state)
{
    struct host_store *store = *state;

    assert_int_equal(host_store_ready(store, 3, 1), ACL_SUCCESS);
    assert_int_equal(bytes_held(store), AM_CHUNK);
    am_fault_arm(3, false); /* one run before frame 3 and one behind it */
    assert_int_equal(host_store_ready(store, 1, 6), ACL_SUCCESS);
    am_fault_disarm();
    assert_false(am_fault_fired());
    assert_int_equal(bytes_held(store), 6 * AM_CHUNK);
    assert_int_equal(store->state[0], 0);
    assert_int_equal(store->state[1], HOST_FRAME_READY | HOST_FRAME_HOLDS);
    assert_int_equal(store->state[6], HOST_FRAME_READY | HOST_FRAME_HOLDS);
    assert_int_equal(store->state[7], 0);
    am_fault_arm(1, true);
    assert_int_equal(host_store_ready(store, 1, 6), ACL_SUCCESS);
    am_fault_disarm();
    assert_false(am_fault_fired());
}

static void frames_that_cannot_be_brought_in_are_not_taken_for_there(void **state)
{
    struct host_store *store = *state;

    am_fault_arm(1, true);
    assert_int_equal(host_store_ready(store, 0, 2), ACL_ERROR_RT_MEMORY_ALLOCATION);
    am_fault_disarm();
    assert_contains(am_error_take_messages(), "Failed to allocate");
    assert_int_equal(store->state[0], 0);
    assert_int_equal(store->state[1], 0);
}

static void what_is_discarded_goes_back_and_reads_as_zero(void **state)
{
    struct host_store *store = *state;

    assert_int_equal(host_store_ready(store, 0, 4), ACL_SUCCESS);
    memset(store->view, 0x77, 4 * AM_CHUNK);
    assert_true(host_store_discard(store, 1, 2));
    assert_int_equal(bytes_held(store), 2 * AM_CHUNK);
    assert_int_equal(store->state[1], 0);
    assert_int_equal(store->state[2], 0);
    assert_int_equal(store->view[AM_CHUNK - 1], 0x77);
    assert_int_equal(store->view[AM_CHUNK], 0);
    assert_int_equal(store->view[3 * AM_CHUNK - 1], 0);
    assert_int_equal(store->view[3 * AM_CHUNK], 0x77);
}

static void what_the_system_does_not_take_is_kept(void **state)
{
    struct host_store *store = *state;

    assert_int_equal(host_store_ready(store, 0, 1), ACL_SUCCESS);
    am_fault_arm(1, false);
    assert_false(host_store_discard(store, 0, 1));
    am_fault_disarm();
    assert_int_equal(store->state[0], HOST_FRAME_READY | HOST_FRAME_HOLDS);
}

/* The machine is asked before the kernel is. */
static void a_promise_larger_than_the_machine_is_an_error_and_not_a_death(void **state)
{
    struct host_store *store;
    size_t n = 2 * (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE) >>
               AM_CHUNK_SHIFT;

    assert_int_equal(store_open(n << AM_CHUNK_SHIFT, &store), ACL_SUCCESS);
    assert_int_equal(host_store_ready(store, 0, n), ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_contains(am_error_take_messages(), "lower ACLMEM_MEMORY");
    assert_int_equal(bytes_held(store), 0);
    assert_int_equal(host_store_ready(store, 0, 1), ACL_SUCCESS);
    host_store_destroy(store);
}

/* ---- descriptors run out ---- */

/* From here on the next descriptor is one too many; `hard` too, or only for now. */
static void descriptors_use_up(bool hard)
{
    struct rlimit limit;
    int next = dup(STDIN_FILENO);

    assert_true(next >= 0);
    close(next);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = (rlim_t)next;
    if (hard)
        limit.rlim_max = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void the_soft_limit_is_raised_when_descriptors_run_out(void **state)
{
    struct host_store *store;
    struct rlimit kept;
    struct rlimit limit;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
    descriptors_use_up(false);
    assert_int_equal(store_open(AM_CHUNK, &store), ACL_SUCCESS);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    assert_int_equal(limit.rlim_cur, kept.rlim_max);
    host_store_destroy(store);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
}

/* A child's role: there is no way back from a lower hard limit. */
_Noreturn static void open_at_the_hard_limit(void)
{
    struct host_store *store;
    aclError rc;

    descriptors_use_up(true);
    rc = store_open(AM_CHUNK, &store);
    printf("%d %s\n", rc, am_error_take_messages());
    fflush(stdout);
    _exit(0); /* a leak sanitizer would want a descriptor */
}

static void at_the_hard_limit_the_limit_is_named(void **state)
{
    const char *text;
    int status = child_run("hard limit", &text);

    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("status 0x%x: %s", status, text);
    assert_contains(text, "207005 EE1013");
    assert_contains(text, "ulimit -n is");
}

/* ---- before Linux 5.14 ---- */

/* A child's role: what the kernel does not know is not asked for again. */
_Noreturn static void commit_on_an_old_kernel(void)
{
    struct host_store *imported;
    struct host_store *store;

    assert_int_equal(store_open(N_FRAMES * AM_CHUNK, &store), ACL_SUCCESS);
    am_fault_arm_with(1, false, EINVAL);
    assert_int_equal(host_store_ready(store, 1, 3), ACL_SUCCESS);
    am_fault_disarm();
    assert_true(am_fault_fired());
    assert_int_equal(bytes_held(store), 3 * AM_CHUNK);
    am_fault_arm(1, false);
    assert_int_equal(host_store_ready(store, 5, 1), ACL_ERROR_RT_MEMORY_ALLOCATION);
    am_fault_disarm();
    assert_contains(am_error_take_messages(), "Failed to allocate");
    assert_int_equal(store->state[5], 0);
    store->view[AM_CHUNK] = 1;
    /* What another process sent is used without its descriptor. */
    assert_int_equal(
        host_store_create(N_FRAMES * AM_CHUNK, store->fd, HOST_FRAME_HOLDS, &imported),
        ACL_SUCCESS);
    assert_int_equal(host_store_ready(imported, 0, 2), ACL_SUCCESS);
    assert_int_equal(imported->view[AM_CHUNK], 1);
    host_store_destroy(imported);
    host_store_destroy(store);
    exit(0);
}

static void an_old_kernel_commits_memory_too(void **state)
{
    const char *text;
    int status = child_run("old kernel", &text);

    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("status 0x%x: %s", status, text);
}

/* ---- banks ---- */

static void a_bank_that_cannot_be_opened_leaves_nothing(void **state)
{
    struct am_bank_spec spec = {.capacity = 512 * AM_CHUNK, .is_isolated = true};
    struct am_bank *const untouched = (struct am_bank *)&spec;
    size_t n_open = open_descriptors();
    size_t n_mapped = library_mappings();
    struct rlimit kept;
    struct rlimit half;

    /* There is a limit to raise, which fails too. */
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
    half = (struct rlimit){kept.rlim_max / 2, kept.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &half), 0);
    assert_int_equal(host_start(), ACL_SUCCESS);
    /* Lasting, since a bank that cannot have huge pages does without. */
    for_each_lasting_fault (n) {
        struct am_bank *bank = untouched;
        aclError rc = host_bank_open(&spec, &bank);

        if (rc == ACL_SUCCESS)
            host_bank_close(bank);
        else
            assert_ptr_equal(bank, untouched);
        assert_int_not_equal(rc, ACL_ERROR_RT_INTERNAL_ERROR); /* a shortage is none */
        assert_int_equal(open_descriptors(), n_open);
        assert_int_equal(library_mappings(), n_mapped);
    }
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
    am_error_take_messages();
}

static void memory_that_the_program_can_touch_has_a_file_of_its_own(void **state)
{
    struct am_bank_spec spec = {.capacity = 512 * AM_CHUNK};
    struct am_bank *bank;
    struct am_mem a;
    struct am_mem b;
    size_t n_open;

    assert_int_equal(host_bank_open(&spec, &bank), ACL_SUCCESS);
    n_open = open_descriptors();
    assert_int_equal(host_mem_create(bank, AM_CHUNK, -1, &a), ACL_SUCCESS);
    assert_int_equal(host_mem_create(bank, 2 * AM_CHUNK, -1, &b), ACL_SUCCESS);
    assert_int_equal(open_descriptors(), n_open + 2);
    assert_int_equal(host_mem(&b)->store->n_frames, 2);
    /* It may be written at any time, so no frame of it is known to be zero. */
    assert_true(host_mem(&b)->store->state[1] & HOST_FRAME_HOLDS);
    host_mem_destroy(&a);
    host_mem_destroy(&b);
    assert_int_equal(open_descriptors(), n_open);
    host_bank_close(bank);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define on_a_store(f_) cmocka_unit_test_setup_teardown(f_, store_make, store_drop)
        on_a_store(a_store_is_a_sparse_file_that_no_other_program_inherits),
        on_a_store(descriptors_stay_out_of_the_way_of_select),
        on_a_store(frames_are_brought_in_by_a_call_for_each_run),
        on_a_store(frames_that_cannot_be_brought_in_are_not_taken_for_there),
        on_a_store(what_is_discarded_goes_back_and_reads_as_zero),
        on_a_store(what_the_system_does_not_take_is_kept),
        cmocka_unit_test(a_promise_larger_than_the_machine_is_an_error_and_not_a_death),
        cmocka_unit_test(the_soft_limit_is_raised_when_descriptors_run_out),
        cmocka_unit_test(at_the_hard_limit_the_limit_is_named),
        cmocka_unit_test(an_old_kernel_commits_memory_too),
        cmocka_unit_test(a_bank_that_cannot_be_opened_leaves_nothing),
        cmocka_unit_test(memory_that_the_program_can_touch_has_a_file_of_its_own),
    };

    if (argc > 1 && strcmp(argv[1], "old kernel") == 0)
        commit_on_an_old_kernel();
    if (argc > 1)
        open_at_the_hard_limit();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
