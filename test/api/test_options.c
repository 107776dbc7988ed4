/* The ACLMEM_ options in the environment: values, bad values, unknown names. */
#include "support/process.h"
#include "support/vmm.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

static void devices_and_memory_are_as_asked(void **state)
{
    uint32_t count = 0;

    start("default", "ACLMEM_DEVICES=7", "ACLMEM_MEMORY=64M");
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 7);
    for (int32_t device = 0; device < 7; device++) {
        assert_acl_ok(aclrtSetDevice(device));
        assert_int_equal(total_memory(), 64 * MIB);
        assert_int_equal(free_memory(), 64 * MIB);
    }
}

static void sizes_take_suffixes(void **state)
{
    static const struct {
        const char *option;
        size_t size;
    } sizes[] = {
        {"ACLMEM_MEMORY=65536K", 64 * MIB},   {"ACLMEM_MEMORY=64M", 64 * MIB},
        {"ACLMEM_MEMORY=3G", 3 * GIB},        {"ACLMEM_MEMORY=1T", TIB},
        {"ACLMEM_MEMORY=67108864", 64 * MIB},
    };

    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        start("default", sizes[i].option);
        assert_acl_ok(aclrtSetDevice(0));
        assert_int_equal(total_memory(), sizes[i].size);
        assert_acl_ok(aclFinalize());
    }
}

static void more_memory_than_the_machine_has_may_be_asked_for(void **state)
{
    struct block b;

    if (!is_free_range(40 * TIB, 16 * TIB))
        return;
    start("default", "ACLMEM_MEMORY=4T");
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(3 * TIB);
    assert_int_equal(free_memory(), TIB);
    put_pattern(b.va + 2 * TIB, CHUNK, 1);
    assert_pattern(b.va + 2 * TIB, CHUNK, 1);
    assert_all_bytes(b.va + 2 * TIB + CHUNK, CHUNK, 0);
    block_destroy(&b);
}

/* Two devices of an Atlas A2 with half of the machine's memory between them. */
static void without_options_the_defaults_hold(void **state)
{
    size_t machine = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    uint32_t count = 0;
    size_t total;

    set_options("default");
    clear_options();
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclrtGetDeviceCount(&count));
    assert_int_equal(count, 2);
    assert_int_equal(strncmp(aclrtGetSocName(), "Ascend910B", 10), 0);
    assert_string_equal(aclmem_option("ACLMEM_RULES"), "default");
    assert_string_equal(aclmem_option("ACLMEM_ISOLATE"), "1");
    assert_string_equal(aclmem_option("ACLMEM_COMMIT"), "touch");
    assert_acl_ok(aclrtSetDevice(0));
    total = total_memory();
    assert_true(total > 0 && 2 * total <= machine);
    assert_true(2 * total >= machine / 4);
}

static void option_values_can_be_asked_for(void **state)
{
    start("strict", "ACLMEM_DEVICES=3");
    assert_string_equal(aclmem_option("ACLMEM_RULES"), "strict");
    assert_string_equal(aclmem_option("ACLMEM_DEVICES"), "3");
    assert_null(aclmem_option("ACLMEM_NO_SUCH_THING"));
    assert_null(aclmem_option(""));
    assert_null(aclmem_option("RULES"));
}

static void a_bad_value_is_refused_by_name(void **state)
{
    static const struct {
        const char *entry, *name, *value;
    } bad[] = {
        {"ACLMEM_RULES=sloppy", "ACLMEM_RULES", "sloppy"},
        {"ACLMEM_RULES=", "ACLMEM_RULES", "strict"}, /* what it could be */
        {"ACLMEM_DEVICES=many", "ACLMEM_DEVICES", "many"},
        {"ACLMEM_DEVICES=-1", "ACLMEM_DEVICES", "-1"},
        {"ACLMEM_DEVICES=2x", "ACLMEM_DEVICES", "2x"},
        {"ACLMEM_DEVICES=99999999999999999999999", "ACLMEM_DEVICES",
         "99999999999999999999999"},
        {"ACLMEM_MEMORY=plenty", "ACLMEM_MEMORY", "plenty"},
        {"ACLMEM_MEMORY=1X", "ACLMEM_MEMORY", "1X"},
        {"ACLMEM_MEMORY=-1G", "ACLMEM_MEMORY", "-1G"},
        {"ACLMEM_MEMORY=1GG", "ACLMEM_MEMORY", "1GG"},
        {"ACLMEM_MEMORY=99999999999999T", "ACLMEM_MEMORY", "99999999999999T"},
        {"ACLMEM_MEMORY=18446744073709551617", "ACLMEM_MEMORY", "18446744073709551617"},
        {"ACLMEM_MEMORY=1000000T", "ACLMEM_MEMORY", "1000000T"},
        {"ACLMEM_SHARE_ACROSS_USERS=yes", "ACLMEM_SHARE_ACROSS_USERS", "yes"},
        {"ACLMEM_ISOLATE=2", "ACLMEM_ISOLATE", "2"},
        {"ACLMEM_RUNTIME_DIR=here", "ACLMEM_RUNTIME_DIR", "here"},
        {"ACLMEM_ISOLATE=perhaps", "ACLMEM_ISOLATE", "perhaps"},
        {"ACLMEM_COMMIT=later", "ACLMEM_COMMIT", "later"},
        {"ACLMEM_HUGE_PAGES=1", "ACLMEM_HUGE_PAGES", "1"},
        {"ACLMEM_PRODUCT=Z80", "ACLMEM_PRODUCT", "Z80"},
        {"ACLMEM_LAYERS=nosuch", "ACLMEM_LAYERS", "nosuch"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        set_options("default", bad[i].entry);
        assert_acl(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
        assert_message_has(bad[i].name);
        assert_message_has(bad[i].value);
        start("default"); /* a failed aclInit is no aclInit */
        assert_acl_ok(aclFinalize());
    }
}

static void a_bad_choice_lists_the_good_ones(void **state)
{
    set_options("default", "ACLMEM_PRODUCT=A4");
    assert_acl(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    assert_message_has("310P");
    set_options("default", "ACLMEM_COMMIT=x");
    assert_acl(aclInit(NULL), ACL_ERROR_INVALID_PARAM);
    assert_message_has("touch");
}

static void an_unknown_name_is_warned_about_with_the_nearest(void **state)
{
    const char *text;

    set_options("default", "ACLMEM_RULLES=strict");
    capture_stderr();
    (void)aclInit(NULL);
    text = captured_stderr();
    assert_non_null(strstr(text, "ACLMEM_RULLES"));
    assert_non_null(strstr(text, "ACLMEM_RULES"));
    expect_warnings(1);
    assert_string_equal(aclmem_option("ACLMEM_RULES"), "default");
}

static void several_unknown_names_are_all_warned_about(void **state)
{
    const char *text;

    set_options("default", "ACLMEM_DEVICE=9", "ACLMEM_MEM=1G", "ACLMEM_=1");
    capture_stderr();
    (void)aclInit(NULL);
    text = captured_stderr();
    assert_non_null(strstr(text, "ACLMEM_DEVICE"));
    assert_non_null(strstr(text, "ACLMEM_MEM"));
    expect_warnings(3);
}

/* ---- when memory is taken from the system ---- */

/* A line "Name:  123 kB" of /proc/self/status, in bytes. */
static size_t status_line(const char *name)
{
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    size_t kib = 0;

    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, name, strlen(name)) == 0)
            kib = strtoul(line + strlen(name), NULL, 10);
    }
    fclose(file);
    return kib * KIB;
}

/* Shared pages of this process, small and huge. */
static size_t shared_bytes(void)
{
    return status_line("RssShmem:") + status_line("HugetlbPages:");
}

static void committing_at_once_takes_the_memory_at_once(void **state)
{
    aclrtDrvMemHandle handle;
    size_t before;

    start("default", "ACLMEM_COMMIT=now");
    assert_acl_ok(aclrtSetDevice(0));
    before = shared_bytes();
    handle = alloc(64 * MIB);
    assert_true(shared_bytes() - before >= 64 * MIB);
    assert_acl_ok(aclrtFreePhysical(handle));
}

static void committing_on_touch_takes_nothing_until_then(void **state)
{
    aclrtDrvMemHandle handle;
    size_t before;

    start("default", "ACLMEM_COMMIT=touch");
    assert_acl_ok(aclrtSetDevice(0));
    before = shared_bytes();
    handle = alloc(64 * MIB);
    assert_true(shared_bytes() - before < 4 * MIB);
    assert_acl_ok(aclrtFreePhysical(handle));
}

/* Some is kept for the next allocation, most goes back to the system. */
static void freed_memory_goes_back_to_the_system(void **state)
{
    struct block b;
    size_t before;

    start("default");
    assert_acl_ok(aclrtSetDevice(0));
    before = shared_bytes();
    b = block_create(512 * MIB);
    assert_acl_ok(aclrtMemset(b.va, b.size, 7, b.size));
    assert_true(shared_bytes() - before >= 512 * MIB);
    block_destroy(&b);
    assert_true(shared_bytes() - before <= 128 * MIB);
}

static void committed_memory_reads_zero_and_works(void **state)
{
    struct block b, h;

    start("default", "ACLMEM_COMMIT=now");
    assert_acl_ok(aclrtSetDevice(0));
    b = block_create(3 * CHUNK);
    h = block_create_host(CHUNK);
    assert_all_bytes(b.va, b.size, 0);
    assert_all_bytes(h.va, h.size, 0);
    put_pattern(b.va, b.size, 3);
    assert_pattern(b.va, b.size, 3);
    block_destroy(&h);
    block_destroy(&b);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(devices_and_memory_are_as_asked),
        claim_alone(sizes_take_suffixes),
        claim_alone(more_memory_than_the_machine_has_may_be_asked_for),
        claim_alone(without_options_the_defaults_hold),
        claim_alone(option_values_can_be_asked_for),
        claim_alone(a_bad_value_is_refused_by_name),
        claim_alone(a_bad_choice_lists_the_good_ones),
        claim_alone(an_unknown_name_is_warned_about_with_the_nearest),
        claim_alone(several_unknown_names_are_all_warned_about),
        claim_alone(committing_at_once_takes_the_memory_at_once),
        claim_alone(committing_on_touch_takes_nothing_until_then),
        claim_alone(freed_memory_goes_back_to_the_system),
        claim_alone(committed_memory_reads_zero_and_works),
    };

    return run_claims(claims);
}
