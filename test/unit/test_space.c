/*
 * Address space of the host backend: where reservations lie, and that they never slip
 * away.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/host/host.h"
#include "base/error.h"
#include "support/process.h"

#ifdef __has_feature
#define IS_TSAN __has_feature(thread_sanitizer)
#elif defined(__SANITIZE_THREAD__)
#define IS_TSAN 1
#else
#define IS_TSAN 0
#endif

static int forget(void **state)
{
    am_fault_disarm();
    am_error_take_messages();
    return 0;
}

static char *reserve(size_t size, size_t align, void *want)
{
    void *addr = NULL;

    assert_int_equal(host_reserve(size, align, want, &addr), ACL_SUCCESS);
    assert_true(am_is_aligned((uintptr_t)addr, align));
    if (want != NULL)
        assert_ptr_equal(addr, want);
    return addr;
}

static void release(void *addr, size_t size)
{
    assert_int_equal(host_release(addr, size), ACL_SUCCESS);
}

/* Whether anything of this process lies in the range, by the kernel's own word. */
static bool is_mapped(const void *addr, size_t size)
{
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned long start;
    unsigned long end;
    bool found = false;
    char line[512];

    assert_non_null(file);
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = sscanf(line, "%lx-%lx", &start, &end) == 2 &&
                start < (uintptr_t)addr + size && end > (uintptr_t)addr;
    fclose(file);
    return found;
}

static void a_reservation_is_aligned_and_cannot_be_touched(void **state)
{
    char *small = reserve(AM_CHUNK, AM_CHUNK, NULL);
    char *large = reserve(3 * AM_GIB, AM_GIB, NULL);

    assert_false(can_read(small));
    assert_false(can_write(large + 3 * AM_GIB - 1));
    release(small, AM_CHUNK);
    release(large, 3 * AM_GIB);
    assert_false(is_mapped(large, 3 * AM_GIB));
}

static void what_was_released_can_be_asked_for_again(void **state)
{
    char *first = reserve(4 * AM_CHUNK, AM_CHUNK, NULL);

    release(first, 4 * AM_CHUNK);
    /* Piece by piece, and from the end: each has a neighbour where it ends. */
    for (size_t i = 4; i-- > 0;)
        reserve(AM_CHUNK, AM_CHUNK, first + i * AM_CHUNK);
    release(first, 4 * AM_CHUNK);
}

static void a_hole_is_filled_exactly(void **state)
{
    char *all = reserve(6 * AM_CHUNK, AM_CHUNK, NULL);

    release(all + 2 * AM_CHUNK, 2 * AM_CHUNK);
    reserve(2 * AM_CHUNK, AM_CHUNK, all + 2 * AM_CHUNK);
    release(all, 6 * AM_CHUNK);
}

static void addresses_that_are_taken_are_refused_and_stay_as_they_are(void **state)
{
    char *mine = mmap(NULL, 4 * AM_CHUNK, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *aligned;
    void *addr = &addr;

    assert_ptr_not_equal(mine, MAP_FAILED);
    aligned = (char *)am_align_up((uintptr_t)mine, AM_CHUNK);
    strcpy(aligned, "mine");
    assert_int_equal(host_reserve(AM_CHUNK, AM_CHUNK, aligned, &addr),
                     ACL_ERROR_RT_PARAM_INVALID);
    assert_contains(am_error_take_messages(), "these addresses are already in use");
    assert_int_equal(host_reserve(4 * AM_CHUNK, AM_CHUNK, aligned - AM_CHUNK, &addr),
                     ACL_ERROR_RT_PARAM_INVALID);
    assert_string_equal(aligned, "mine");
    assert_ptr_equal(addr, &addr);
    munmap(mine, 4 * AM_CHUNK);
}

static void addresses_that_the_kernel_does_not_give_are_refused(void **state)
{
    void *high = (void *)(200 * AM_TIB);
    void *addr;

    assert_int_equal(host_reserve(AM_CHUNK, AM_CHUNK, high, &addr),
                     ACL_ERROR_RT_PARAM_INVALID);
    assert_contains(am_error_take_messages(), "128 TB");
}

static void thirty_two_terabytes_are_had_in_one_call(void **state)
{
    char *addr;

    if (IS_TSAN) {
        print_message("skipped: thread sanitizer leaves less than that to programs\n");
        skip();
    }
    addr = reserve(32 * AM_TIB, AM_GIB, NULL);
    assert_false(can_read(addr + 31 * AM_TIB));
    release(addr, 32 * AM_TIB);
}

static void more_than_there_is_is_out_of_memory(void **state)
{
    void *addr = &addr;

    assert_int_equal(host_reserve((size_t)1 << 48, AM_GIB, NULL, &addr),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_contains(am_error_take_messages(), "Failed to allocate");
    assert_int_equal(host_reserve(SIZE_MAX - AM_CHUNK + 1, AM_GIB, NULL, &addr),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    assert_ptr_equal(addr, &addr);
}

/* Where the usual place is taken, or refuses, the kernel's choice serves. */
static void a_reservation_that_fails_at_one_place_is_had_at_another(void **state)
{
    void *addr = NULL;

    am_fault_arm(1, false);
    assert_int_equal(host_reserve(AM_CHUNK, AM_CHUNK, NULL, &addr), ACL_SUCCESS);
    am_fault_disarm();
    assert_true(am_fault_fired());
    release(addr, AM_CHUNK);

    assert_int_equal(host_reserve_own(5 * AM_CHUNK, AM_GIB, &addr), ACL_SUCCESS);
    assert_true(am_is_aligned((uintptr_t)addr, AM_GIB));
    release(addr, 5 * AM_CHUNK);
    assert_false(is_mapped(addr, 5 * AM_CHUNK));
}

static void without_memory_nothing_is_reserved(void **state)
{
    void *addr = &addr;

    am_fault_arm(1, true);
    assert_int_equal(host_reserve(AM_CHUNK, AM_CHUNK, NULL, &addr),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    am_fault_disarm();
    assert_ptr_equal(addr, &addr);
}

static void failed_release_keeps_the_addresses(void **state)
{
    char *addr = reserve(AM_CHUNK, AM_CHUNK, NULL);

    am_fault_arm(1, false);
    assert_int_equal(host_release(addr, AM_CHUNK), ACL_ERROR_RT_MEMORY_ALLOCATION);
    am_fault_disarm();
    assert_true(is_mapped(addr, AM_CHUNK));
    release(addr, AM_CHUNK);
    assert_false(is_mapped(addr, AM_CHUNK));
}

/* ---- real mappings ---- */

static const struct am_rights all = {AM_HOST_BIT, AM_HOST_BIT};
static const struct am_rights readable = {AM_HOST_BIT, 0};
static const struct am_rights none = {0, 0};

static void memory_that_is_mapped_can_be_touched_as_far_as_access_goes(void **state)
{
    struct am_bank_spec spec = {.device = -1, .capacity = 4 * AM_CHUNK};
    char *addr = reserve(4 * AM_CHUNK, AM_CHUNK, NULL);
    char *at = addr + AM_CHUNK;
    struct am_bank *bank;
    struct am_mem mem;

    assert_int_equal(host_bank_open(&spec, &bank), ACL_SUCCESS);
    assert_int_equal(host_mem_create(bank, AM_CHUNK, -1, &mem), ACL_SUCCESS);
    assert_int_equal(host_map(at, AM_CHUNK, &mem, &all), ACL_SUCCESS);
    strcpy(at, "bytes");
    assert_string_equal((char *)host_mem(&mem)->store->view, "bytes");
    assert_false(can_read(at - 1));
    assert_false(can_read(at + AM_CHUNK));

    assert_int_equal(host_protect(at, AM_CHUNK, &mem, &readable), ACL_SUCCESS);
    assert_true(can_read(at));
    assert_false(can_write(at));
    assert_int_equal(host_protect(at, AM_CHUNK, &mem, &none), ACL_SUCCESS);
    assert_false(can_read(at));

    assert_int_equal(host_unmap(at, AM_CHUNK, &mem), ACL_SUCCESS);
    assert_false(can_read(at));
    assert_true(is_mapped(at, AM_CHUNK)); /* still reserved */
    assert_string_equal((char *)host_mem(&mem)->store->view, "bytes");
    host_mem_destroy(&mem);
    host_bank_close(bank);
    release(addr, 4 * AM_CHUNK);
}

static void isolated_memory_is_mapped_without_a_system_call(void **state)
{
    struct am_bank_spec spec = {.capacity = 64 * AM_CHUNK, .is_isolated = true};
    char *addr = reserve(AM_CHUNK, AM_CHUNK, NULL);
    struct am_bank *bank;
    struct am_mem mem;

    assert_int_equal(host_bank_open(&spec, &bank), ACL_SUCCESS);
    assert_int_equal(host_mem_create(bank, AM_CHUNK, -1, &mem), ACL_SUCCESS);
    am_fault_arm(1, true);
    assert_int_equal(host_map(addr, AM_CHUNK, &mem, &all), ACL_SUCCESS);
    assert_int_equal(host_protect(addr, AM_CHUNK, &mem, &readable), ACL_SUCCESS);
    assert_int_equal(host_unmap(addr, AM_CHUNK, &mem), ACL_SUCCESS);
    am_fault_disarm();
    assert_false(am_fault_fired());
    assert_false(can_read(addr));
    host_mem_destroy(&mem);
    host_bank_close(bank);
    release(addr, AM_CHUNK);
}

/* What some kernels do: what was at the new place is gone when there is no memory. */
static bool is_short_of_memory;

void *__real_am_sys_mremap(void *old, size_t old_size, size_t size, int flags,
                           void *addr);
void *__wrap_am_sys_mremap(void *old, size_t old_size, size_t size, int flags,
                           void *addr);

void *__wrap_am_sys_mremap(void *old, size_t old_size, size_t size, int flags, void *addr)
{
    if (!is_short_of_memory)
        return __real_am_sys_mremap(old, old_size, size, flags, addr);
    munmap(addr, size);
    errno = ENOMEM;
    return MAP_FAILED;
}

static void addresses_stay_reserved_when_imported_memory_is_not_mapped(void **state)
{
    struct am_bank_spec spec = {.device = -1, .capacity = 4 * AM_CHUNK};
    char *addr = reserve(3 * AM_CHUNK, AM_CHUNK, NULL);
    char *at = addr + AM_CHUNK;
    struct am_mem own, imported;
    struct am_bank *bank;
    int fd;

    assert_int_equal(host_bank_open(&spec, &bank), ACL_SUCCESS);
    assert_int_equal(host_mem_create(bank, AM_CHUNK, -1, &own), ACL_SUCCESS);
    assert_int_equal(host_mem_export(&own, &fd), ACL_SUCCESS);
    assert_int_equal(host_mem_import(bank, fd, AM_CHUNK, &imported), ACL_SUCCESS);

    is_short_of_memory = true;
    assert_int_equal(host_map(at, AM_CHUNK, &imported, &all),
                     ACL_ERROR_RT_MEMORY_ALLOCATION);
    is_short_of_memory = false;
    assert_true(is_mapped(at, AM_CHUNK));
    assert_false(can_read(at));
    assert_int_equal(host_map(at, AM_CHUNK, &imported, &all), ACL_SUCCESS);
    assert_true(can_write(at));
    assert_int_equal(host_unmap(at, AM_CHUNK, &imported), ACL_SUCCESS);

    host_mem_destroy(&imported);
    host_mem_destroy(&own);
    host_bank_close(bank);
    release(addr, 3 * AM_CHUNK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define afresh(f_) cmocka_unit_test_setup_teardown(f_, forget, forget)
        afresh(a_reservation_is_aligned_and_cannot_be_touched),
        afresh(what_was_released_can_be_asked_for_again),
        afresh(a_hole_is_filled_exactly),
        afresh(addresses_that_are_taken_are_refused_and_stay_as_they_are),
        afresh(addresses_that_the_kernel_does_not_give_are_refused),
        afresh(thirty_two_terabytes_are_had_in_one_call),
        afresh(more_than_there_is_is_out_of_memory),
        afresh(a_reservation_that_fails_at_one_place_is_had_at_another),
        afresh(without_memory_nothing_is_reserved),
        afresh(failed_release_keeps_the_addresses),
        afresh(memory_that_is_mapped_can_be_touched_as_far_as_access_goes),
        afresh(isolated_memory_is_mapped_without_a_system_call),
        afresh(addresses_stay_reserved_when_imported_memory_is_not_mapped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
