/*
 * Which pages a store gets: huge ones where the system has them, ordinary ones wherever a
 * huge page is not to be had.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/host/host.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/options.h"
#include "base/sys.h"

#define N_FRAMES 64
#define N_LONG 8 /* frames of a long run */

enum collapse {
    COLLAPSE_REAL,
    COLLAPSE_FAILS, /* the system has no huge page at hand */
    COLLAPSE_SLOW,  /* done, but the processors were busy */
};

static enum collapse collapse;
static unsigned n_collapsed; /* calls of MADV_COLLAPSE */
static uint64_t time_ahead;  /* of the real clock */

/* The linker calls these for am_sys_madvise() and clock_gettime(). */
int __wrap_am_sys_madvise(void *addr, size_t size, int advice);
int __real_am_sys_madvise(void *addr, size_t size, int advice);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time);
int __real_clock_gettime(clockid_t clock, struct timespec *ret_time);

int __wrap_am_sys_madvise(void *addr, size_t size, int advice)
{
    if (advice != MADV_COLLAPSE)
        return __real_am_sys_madvise(addr, size, advice);
    n_collapsed++;
    if (collapse == COLLAPSE_FAILS) {
        errno = ENOMEM;
        return -1;
    }
    if (collapse == COLLAPSE_SLOW)
        time_ahead += 30 * AM_MILLISECOND;
    return __real_am_sys_madvise(addr, size, advice);
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ret_time)
{
    int rc = __real_clock_gettime(clock, ret_time);

    ret_time->tv_sec += (time_t)(time_ahead / AM_SECOND);
    ret_time->tv_nsec += (long)(time_ahead % AM_SECOND);
    if (ret_time->tv_nsec >= (long)AM_SECOND) {
        ret_time->tv_sec++;
        ret_time->tv_nsec -= (long)AM_SECOND;
    }
    return rc;
}

/* A bank of 128 MB with this value of ACLMEM_HUGE_PAGES. */
static struct host_store *bank_store(const char *huge_pages, struct am_bank **ret_bank)
{
    struct am_bank_spec spec = {.capacity = N_FRAMES * AM_CHUNK, .is_isolated = true};
    char why[AM_WHY_SIZE];

    assert_int_equal(am_options_set("huge_pages", huge_pages, why), 0);
    assert_int_equal(host_start(), ACL_SUCCESS);
    assert_int_equal(host_bank_open(&spec, ret_bank), ACL_SUCCESS);
    collapse = COLLAPSE_REAL;
    n_collapsed = 0;
    return ((struct host_bank *)*ret_bank)->store;
}

static void bank_end(struct am_bank *bank)
{
    host_bank_close(bank);
    am_options_reset();
    am_error_take_messages();
}

/* Of a store that asks for huge pages by MADV_COLLAPSE. */
static struct host_store *collapsing_store(struct am_bank **ret_bank)
{
    struct host_store *store = bank_store("always", ret_bank);

    if (!store->wants_huge) {
        print_message("skipped: the kernel has no MADV_COLLAPSE\n");
        bank_end(*ret_bank);
        skip();
    }
    return store;
}

/* Kilobytes of huge pages that the view at `at` has, by /proc/self/smaps. */
static size_t huge_kilobytes(const void *at)
{
    FILE *smaps = fopen("/proc/self/smaps", "re");
    bool is_here = false;
    size_t size = 0;
    char line[512];

    assert_non_null(smaps);
    while (fgets(line, sizeof line, smaps) != NULL) {
        unsigned long start;
        unsigned long end;

        if (sscanf(line, "%lx-%lx ", &start, &end) == 2)
            is_here = start == (unsigned long)at;
        else if (is_here && sscanf(line, "ShmemPmdMapped: %zu", &size) == 1)
            break;
    }
    fclose(smaps);
    return size;
}

static size_t bytes_held(struct host_store *store)
{
    struct stat st;

    assert_int_equal(fstat(store->fd, &st), 0);
    return (size_t)st.st_blocks * 512;
}

static void assert_frames_work(struct host_store *store, size_t first, size_t n)
{
    uint8_t *at = store->view + (first << AM_CHUNK_SHIFT);

    for (size_t i = first; i < first + n; i++)
        assert_int_equal(store->state[i], HOST_FRAME_READY | HOST_FRAME_HOLDS);
    for (size_t i = 0; i < n * AM_CHUNK; i += 4096)
        assert_int_equal(at[i], 0);
    memset(at, 0x5a, n * AM_CHUNK);
    for (size_t i = 0; i < n * AM_CHUNK; i += 4096)
        assert_int_equal(at[i], 0x5a);
}

static void fresh_frames_are_huge_pages_where_the_system_has_them(void **state)
{
    struct am_bank *bank;
    struct host_store *store = collapsing_store(&bank);
    bool has_huge;

    /* The same by hand: there may be no huge page left on this machine. */
    memset(store->view, 1, 1);
    has_huge = madvise(store->view, AM_CHUNK, MADV_COLLAPSE) == 0 &&
               huge_kilobytes(store->view) > 0;
    assert_true(host_store_discard(store, 0, 1));
    if (!has_huge) {
        print_message("skipped: the system has no huge page at hand\n");
        bank_end(bank);
        skip();
    }
    assert_int_equal(host_store_ready(store, 0, 2 * N_LONG), ACL_SUCCESS);
    assert_int_equal(n_collapsed, 1);
    assert_true(huge_kilobytes(store->view) > 0);
    assert_int_equal(bytes_held(store), 2 * N_LONG * AM_CHUNK);
    assert_frames_work(store, 0, 2 * N_LONG);
    /* Freed they go back whole, and come again empty. */
    assert_true(host_store_discard(store, 0, 2 * N_LONG));
    assert_int_equal(bytes_held(store), 0);
    assert_int_equal(host_store_ready(store, 1, 1), ACL_SUCCESS);
    assert_frames_work(store, 1, 1);
    bank_end(bank);
}

static void without_a_huge_page_frames_have_ordinary_ones(void **state)
{
    struct am_bank *bank;
    struct host_store *store = collapsing_store(&bank);

    collapse = COLLAPSE_FAILS;
    assert_int_equal(host_store_ready(store, 0, N_LONG), ACL_SUCCESS);
    assert_int_equal(n_collapsed, 1);
    assert_int_equal(bytes_held(store), N_LONG * AM_CHUNK);
    assert_frames_work(store, 0, N_LONG);
    bank_end(bank);
}

static void frames_that_fail_are_not_there(void **state)
{
    struct am_bank *bank;
    struct host_store *store = collapsing_store(&bank);

    am_fault_arm(1, true); /* huge pages and ordinary ones */
    assert_int_equal(host_store_ready(store, 0, N_LONG), ACL_ERROR_RT_MEMORY_ALLOCATION);
    am_fault_disarm();
    assert_contains(am_error_take_messages(), "Failed to allocate");
    assert_int_equal(store->state[0], 0);
    am_fault_arm(2, false); /* ordinary ones, with the huge ones there */
    assert_int_equal(host_store_ready(store, N_LONG, N_LONG),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    am_fault_disarm();
    assert_int_equal(store->state[N_LONG], 0);
    assert_int_equal(host_store_ready(store, 0, 2 * N_LONG), ACL_SUCCESS);
    assert_frames_work(store, 0, 2 * N_LONG);
    bank_end(bank);
}

/* Bytes of the program, or of another process, stay where they are. */
static void frames_that_have_pages_are_not_collapsed(void **state)
{
    struct am_bank *bank;
    struct host_store *store = collapsing_store(&bank);

    for (size_t i = 0; i < N_LONG; i++)
        store->view[i << AM_CHUNK_SHIFT] = (uint8_t)(i + 1);
    assert_int_equal(host_store_ready(store, 0, N_LONG), ACL_SUCCESS);
    assert_int_equal(n_collapsed, 0);
    for (size_t i = 0; i < N_LONG; i++)
        assert_int_equal(store->view[i << AM_CHUNK_SHIFT], i + 1);
    bank_end(bank);
}

static void assert_pause_after(enum collapse what)
{
    struct am_bank *bank;
    struct host_store *store = collapsing_store(&bank);

    collapse = what;
    assert_int_equal(host_store_ready(store, 0, 1), ACL_SUCCESS);
    assert_int_equal(n_collapsed, 1);
    assert_int_equal(host_store_ready(store, 2, 2), ACL_SUCCESS);
    assert_int_equal(n_collapsed, 1);
    assert_int_equal(host_store_ready(store, 8, N_LONG), ACL_SUCCESS); /* a long one */
    assert_int_equal(n_collapsed, 2);
    time_ahead += AM_SECOND;
    assert_int_equal(host_store_ready(store, 6, 1), ACL_SUCCESS);
    assert_int_equal(n_collapsed, 3);
    assert_frames_work(store, 0, 1);
    assert_frames_work(store, 2, 2);
    assert_frames_work(store, 8, N_LONG);
    bank_end(bank);
}

static void after_a_slow_or_failed_short_run_others_have_ordinary_pages(void **state)
{
    assert_pause_after(COLLAPSE_SLOW);
    assert_pause_after(COLLAPSE_FAILS);
}

static void the_option_turns_huge_pages_off(void **state)
{
    struct am_bank *bank;
    struct host_store *store = bank_store("never", &bank);

    assert_false(store->wants_huge);
    assert_int_equal(host_store_ready(store, 0, 2 * N_LONG), ACL_SUCCESS);
    assert_int_equal(n_collapsed, 0);
    assert_int_equal(huge_kilobytes(store->view), 0);
    assert_frames_work(store, 0, 2 * N_LONG);
    bank_end(bank);
}

static void by_default_the_system_decides(void **state)
{
    struct am_bank *bank;
    struct host_store *store = bank_store("auto", &bank);

    assert_int_equal(store->wants_huge,
                     am_machine_can_collapse(am_machine_knows_collapse()));
    bank_end(bank);
}

static void exported_and_imported_memory_is_huge_from_16_mb_on(void **state)
{
    struct am_bank *bank;
    struct host_store *imported;
    struct host_store *large;
    struct host_store *small;

    collapsing_store(&bank);
    assert_int_equal(host_store_create(N_LONG * AM_CHUNK, -1, HOST_FRAME_HOLDS, &large),
                     ACL_SUCCESS);
    assert_int_equal(host_store_create(AM_CHUNK, -1, HOST_FRAME_HOLDS, &small),
                     ACL_SUCCESS);
    assert_int_equal(
        host_store_create(N_LONG * AM_CHUNK, large->fd, HOST_FRAME_HOLDS, &imported),
        ACL_SUCCESS);
    assert_int_equal(host_store_see(large), ACL_SUCCESS);
    assert_true(large->wants_huge && imported->wants_huge);
    assert_false(small->wants_huge);
    assert_int_equal((uintptr_t)large->view % AM_CHUNK, 0);
    assert_int_equal((uintptr_t)imported->view % AM_CHUNK, 0);
    assert_int_equal(host_store_ready(imported, 0, N_LONG), ACL_SUCCESS);
    assert_int_equal(bytes_held(large), N_LONG * AM_CHUNK);
    imported->view[AM_CHUNK + 5] = 7;
    assert_int_equal(large->view[AM_CHUNK + 5], 7);
    host_store_destroy(imported);
    host_store_destroy(small);
    host_store_destroy(large);
    bank_end(bank);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fresh_frames_are_huge_pages_where_the_system_has_them),
        cmocka_unit_test(without_a_huge_page_frames_have_ordinary_ones),
        cmocka_unit_test(frames_that_fail_are_not_there),
        cmocka_unit_test(frames_that_have_pages_are_not_collapsed),
        cmocka_unit_test(after_a_slow_or_failed_short_run_others_have_ordinary_pages),
        cmocka_unit_test(the_option_turns_huge_pages_off),
        cmocka_unit_test(by_default_the_system_decides),
        cmocka_unit_test(exported_and_imported_memory_is_huge_from_16_mb_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
