/*
 * The one place where an errno becomes a code: a row for each class, and what the message
 * names.
 */
#include "unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/host/host.h"
#include "base/error.h"

static int forget(void **state)
{
    am_error_take_messages();
    return 0;
}

static void every_errno_has_its_code_and_says_what_was_asked_for(void **state)
{
    static const struct {
        int error;
        aclError code;
        const char *words;
    } rows[] = {
        {ENOMEM, ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate"},
        {EAGAIN, ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate"},
        {ENOSPC, ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate"},
        {EFBIG, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "ulimit -f"},
        {EOVERFLOW, ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate"},
        {EMFILE, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "descriptor"},
        {ENFILE, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "sysctl -w fs.file-max="},
        {EINVAL, ACL_ERROR_RT_INTERNAL_ERROR, "Invalid argument"},
        {EPERM, ACL_ERROR_RT_INTERNAL_ERROR, "Operation not permitted"},
        {EACCES, ACL_ERROR_RT_INTERNAL_ERROR, "Permission denied"},
        {EBADF, ACL_ERROR_RT_INTERNAL_ERROR, "Bad file descriptor"},
        {ENOSYS, ACL_ERROR_RT_INTERNAL_ERROR, "Function not implemented"},
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(rows); i++) {
        const char *message;

        assert_int_equal(host_error(rows[i].error, "cutting a frame", 4096),
                         rows[i].code);
        message = am_error_take_messages();
        assert_contains(message, rows[i].words);
        assert_contains(message, "cutting a frame of 4096 bytes");
    }
}

/* Clients tell by prefix and words that memory ran out. */
static void out_of_memory_starts_with_el0004_and_says_where_to_look(void **state)
{
    const char *message;

    host_error(ENOMEM, "mapping memory", 1);
    message = am_error_take_messages();
    assert_int_equal(strncmp(message, "EL0004", 6), 0);
    assert_contains(message, "ulimit -v");
    assert_contains(message, "container");
    assert_contains(message, "ACLMEM_MEMORY");
}

static void no_descriptor_names_the_limit_its_value_and_how_to_raise_it(void **state)
{
    struct rlimit kept;
    struct rlimit small;
    const char *message;

    assert_int_equal(getrlimit(RLIMIT_NOFILE, &kept), 0);
    small = kept;
    small.rlim_cur = 123;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &small), 0);
    assert_int_equal(host_error(EMFILE, "a memory file", 1),
                     ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    message = am_error_take_messages();
    assert_contains(message, "ulimit -n is 123");
    assert_contains(message, "raise it with ulimit -n or LimitNOFILE=");
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &kept), 0);
}

static unsigned long map_count_limit(void)
{
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    unsigned long limit = 0;

    if (file != NULL) {
        if (fscanf(file, "%lu", &limit) != 1)
            limit = 0;
        fclose(file);
    }
    return limit;
}

static unsigned long map_count(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned long n = 0;
    int c;

    while (file != NULL && (c = getc_unlocked(file)) != EOF)
        n += c == '\n';
    if (file != NULL)
        fclose(file);
    return n;
}

/* A child's role: as many mappings as are allowed but a few, then ENOMEM. */
static int run_out_of_mappings(void)
{
    unsigned long left;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *all;
    aclError rc;

    /* Once before: standard I/O, messages and a sanitizer make mappings at their first use. */
    host_error(ENOMEM, "mapping memory", 1);
    printf("%s\n", am_error_take_messages());
    left = map_count_limit() - map_count() - 6;
    all = mmap(NULL, (left + 1) * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return 2;
    /*
     * Every second page has other rights, so none merges with its neighbour; each adds
     * two.
     */
    for (unsigned long i = 1; i + 1 < left; i += 2) {
        if (mprotect(all + i * page, page, PROT_READ) != 0)
            return 3;
    }
    rc = host_error(ENOMEM, "mapping memory", 1);
    printf("%d %s\n", rc, am_error_take_messages());
    /*
     * A sanitizer's work at the end takes mappings, and so does the one that it does in
     * munmap(): the system call is made directly.
     */
    syscall(SYS_munmap, all, (left + 1) * page);
    return 0;
}

static void no_mapping_names_the_limit_its_value_and_how_to_raise_it(void **state)
{
    unsigned long limit = map_count_limit();
    const char *text;
    char words[64];
    int status;

    if (limit == 0 || limit > 300000) {
        print_message("skipped: vm.max_map_count is %lu, too many to use up\n", limit);
        skip();
    }
    status = child_run("mappings", &text);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("status 0x%x: %s", status, text);
    assert_contains(text, "207005 EE1013");
    snprintf(words, sizeof words, "vm.max_map_count is %lu", limit);
    assert_contains(text, words);
    assert_contains(text, "sysctl -w vm.max_map_count=");
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
#define afresh(f_) cmocka_unit_test_setup(f_, forget)
        afresh(every_errno_has_its_code_and_says_what_was_asked_for),
        afresh(out_of_memory_starts_with_el0004_and_says_where_to_look),
        afresh(no_descriptor_names_the_limit_its_value_and_how_to_raise_it),
        afresh(no_mapping_names_the_limit_its_value_and_how_to_raise_it),
    };

    if (argc > 1)
        return run_out_of_mappings();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
