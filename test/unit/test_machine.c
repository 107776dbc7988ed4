/* How much memory a process may use, in trees like those of control groups. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/machine.h"
#include "base/util.h"

#define INSTALLED (64 * AM_GIB)

static const char *root;

static int begin(void **state)
{
    root = am_machine_root = folder_make();
    return 0;
}

static int end(void **state)
{
    folder_remove(root);
    return 0;
}

static void groups(const char *text)
{
    file_make_text(root, "proc/self/cgroup", text);
}

/*
 * The limit in bytes of a group of version 2, or of version 1 when path starts with
 * "memory".
 */
static void limit(const char *path, const char *file, const char *text)
{
    char full[512];

    snprintf(full, sizeof full, "sys/fs/cgroup/%s/%s", path, file);
    file_make_text(root, full, text);
}

static size_t memory(void)
{
    return am_machine_memory(INSTALLED);
}

static void without_proc_all_that_is_installed_counts(void **state)
{
    assert_int_equal(memory(), INSTALLED);
    am_machine_root = "/nowhere";
    assert_int_equal(am_machine_memory(INSTALLED), INSTALLED);
}

static void a_process_in_no_group_has_all_memory(void **state)
{
    groups("");
    limit(".", "memory.max", "1073741824\n");
    assert_int_equal(memory(), INSTALLED);
}

static void the_limit_of_its_group_counts(void **state)
{
    groups("0::/box\n");
    limit("box", "memory.max", "1073741824\n");
    assert_int_equal(memory(), AM_GIB);
}

static void the_smallest_limit_on_the_way_up_counts(void **state)
{
    groups("0::/a/b/c\n");
    limit("a/b/c", "memory.max", "8589934592\n");
    assert_int_equal(memory(), 8 * AM_GIB);
    limit("a/b", "memory.max", "2147483648\n");
    assert_int_equal(memory(), 2 * AM_GIB);
    limit("a", "memory.max", "4294967296\n");
    assert_int_equal(memory(), 2 * AM_GIB);
    limit(".", "memory.max", "1073741824\n");
    assert_int_equal(memory(), AM_GIB);
}

static void max_is_no_limit(void **state)
{
    groups("0::/a/b\n");
    limit("a/b", "memory.max", "max\n");
    limit("a", "memory.max", "max\n");
    assert_int_equal(memory(), INSTALLED);
    limit("a", "memory.max", "3221225472\n");
    assert_int_equal(memory(), 3 * AM_GIB);
}

static void a_limit_above_what_is_installed_is_none(void **state)
{
    groups("0::/a\n");
    limit("a", "memory.max", "9223372036854771712\n");
    assert_int_equal(memory(), INSTALLED);
}

/* In a container the root of the tree is the container's own group. */
static void the_limit_at_the_root_counts_for_the_root_group(void **state)
{
    groups("0::/\n");
    assert_int_equal(memory(), INSTALLED);
    limit(".", "memory.max", "536870912\n");
    assert_int_equal(memory(), AM_GIB / 2);
}

/*
 * The path in /proc may be the machine's while the tree that is mounted is the
 * container's.
 */
static void a_path_that_is_not_there_is_followed_up_to_one_that_is(void **state)
{
    groups("0::/docker/0123456789abcdef/init\n");
    limit(".", "memory.max", "1073741824\n");
    assert_int_equal(memory(), AM_GIB);
}

/* As some container runtimes name their groups. */
static void a_name_may_have_colons(void **state)
{
    groups("0::/pods/pod1.slice:cri-containerd:abc\n");
    limit("pods/pod1.slice:cri-containerd:abc", "memory.max", "1073741824\n");
    assert_int_equal(memory(), AM_GIB);
    groups("4:memory:/pod2:memory:abc\n");
    limit("memory/pod2:memory:abc", "memory.limit_in_bytes", "2147483648\n");
    assert_int_equal(memory(), 2 * AM_GIB);
}

static void groups_of_version_1_are_read_too(void **state)
{
    groups("12:cpuset:/x\n4:memory:/a/b\n1:name=systemd:/a/b\n");
    limit("memory/a/b", "memory.limit_in_bytes", "9223372036854771712\n");
    assert_int_equal(memory(), INSTALLED);
    limit("memory/a", "memory.limit_in_bytes", "2147483648\n");
    assert_int_equal(memory(), 2 * AM_GIB);
    limit("memory", "memory.limit_in_bytes", "1073741824\n");
    assert_int_equal(memory(), AM_GIB);
    limit("memory/x", "memory.limit_in_bytes", "1\n");
    limit("cpuset/x", "memory.limit_in_bytes", "1\n");
    limit("a", "memory.max", "1\n");
    assert_int_equal(memory(),
                     AM_GIB); /* another controller's, and the other version's */
}

static void with_both_versions_the_smaller_limit_counts(void **state)
{
    groups("4:memory:/one\n0::/two\n");
    limit("memory/one", "memory.limit_in_bytes", "4294967296\n");
    limit("two", "memory.max", "2147483648\n");
    assert_int_equal(memory(), 2 * AM_GIB);
    limit("two", "memory.max", "8589934592\n");
    assert_int_equal(memory(), 4 * AM_GIB);
}

static void what_makes_no_sense_is_no_limit(void **state)
{
    char line[600] = "0::/";

    limit("a", "memory.max", "lots\n");
    groups("0::/a\n");
    assert_int_equal(memory(), INSTALLED);
    limit("a", "memory.max", "");
    assert_int_equal(memory(), INSTALLED);
    limit(".", "memory.max", "1073741824\n");
    groups("nonsense\n\n:\n0:\n::::\n");
    assert_int_equal(memory(), INSTALLED);
    memset(line + 4, 'x', sizeof line - 5);
    groups(line); /* a name longer than we read; the line has no end either */
    assert_int_equal(memory(), INSTALLED);
}

/* ---- what is left ---- */

static void available(const char *kilobytes)
{
    char text[256];

    snprintf(text, sizeof text,
             "MemTotal: 67108864 kB\nMemFree: 1024 kB\nMemAvailable:  %s kB\n",
             kilobytes);
    file_make_text(root, "proc/meminfo", text);
}

static void what_the_machine_has_left_counts_without_a_group(void **state)
{
    assert_true(am_machine_available() > INSTALLED); /* nobody knows */
    available("4194304");
    assert_int_equal(am_machine_available(), 4 * AM_GIB);
}

/* Pages of files can be dropped; they count as left. */
static void a_group_has_left_what_is_not_used_or_can_be_dropped(void **state)
{
    available("33554432");
    groups("0::/a\n");
    limit("a", "memory.current", "3221225472\n");
    assert_int_equal(am_machine_available(), 32 * AM_GIB); /* no limit */
    limit("a", "memory.max", "max\n");
    assert_int_equal(am_machine_available(), 32 * AM_GIB);
    limit("a", "memory.max", "4294967296\n");
    assert_int_equal(am_machine_available(), AM_GIB);
    limit("a", "memory.stat", "anon 7\ninactive_anon 9\ninactive_file 1073741824\n");
    assert_int_equal(am_machine_available(), 2 * AM_GIB);
    limit("a", "memory.stat",
          "anon 7\ninactive_file 1073741824\nactive_file 536870912\n");
    assert_int_equal(am_machine_available(), 5 * AM_GIB / 2);
}

static void a_group_above_its_limit_has_nothing_left(void **state)
{
    available("33554432");
    groups("0::/a/b\n");
    limit("a", "memory.max", "1073741824\n");
    limit("a", "memory.current", "1073741824\n");
    assert_int_equal(am_machine_available(), 0);
    limit("a", "memory.current", "2147483648\n");
    assert_int_equal(am_machine_available(), 0);
}

static void the_least_that_is_left_on_the_way_up_counts(void **state)
{
    available("3145728");
    groups("4:memory:/one\n0::/two/three\n");
    limit("two/three", "memory.max", "8589934592\n");
    assert_int_equal(am_machine_available(), 3 * AM_GIB);
    limit("two", "memory.max", "4294967296\n");
    limit("two", "memory.current", "2147483648\n");
    assert_int_equal(am_machine_available(), 2 * AM_GIB);
    limit("memory/one", "memory.limit_in_bytes", "4294967296\n");
    limit("memory/one", "memory.usage_in_bytes", "4294967296\n");
    limit("memory/one", "memory.stat",
          "inactive_file 5\ntotal_inactive_file 536870912\nactive_file 5\n"
          "total_active_file 536870912\n");
    assert_int_equal(am_machine_available(), AM_GIB);
}

static void pages(const char *setting)
{
    file_make_text(root, "sys/kernel/mm/transparent_hugepage/shmem_enabled", setting);
}

static void transparent_pages(const char *setting, const char *size)
{
    file_make_text(root, "sys/kernel/mm/transparent_hugepage/enabled", setting);
    file_make_text(root, "sys/kernel/mm/transparent_hugepage/hpage_pmd_size", size);
}

static void huge_pages_are_transparent_ones(void **state)
{
    char why[AM_MACHINE_WHY];

    assert_false(am_machine_has_huge_pages(false, why));
    assert_contains(why, "is not there");
    pages("always within_size advise [never] deny force\n");
    assert_false(am_machine_has_huge_pages(false, why));
    assert_contains(why, "shmem_enabled is never");
    pages("always within_size [advise] never deny force\n");
    assert_true(am_machine_has_huge_pages(false, why));
    assert_contains(why, "transparent ones, since");
    pages("always within_size advise never [deny] force\n");
    assert_false(am_machine_has_huge_pages(false, why));
}

static void
huge_pages_are_collapsed_where_the_system_allows_transparent_ones(void **state)
{
    char why[AM_MACHINE_WHY];

    pages("always within_size advise [never] deny force\n");
    assert_false(am_machine_can_collapse(true)); /* no setting to read */
    transparent_pages("always [madvise] never\n", "2097152\n");
    assert_true(am_machine_can_collapse(true));
    assert_true(am_machine_has_huge_pages(true, why));
    assert_contains(why, "by MADV_COLLAPSE");
    assert_contains(why, "enabled is madvise");
    assert_false(am_machine_can_collapse(false));
    assert_false(am_machine_has_huge_pages(false, why));
    assert_contains(why, "the kernel has no MADV_COLLAPSE");
    transparent_pages("always [madvise] never\n", "536870912\n"); /* pages of 64 KB */
    assert_false(am_machine_can_collapse(true));
    transparent_pages("[always] madvise never\n", "2097152\n");
    assert_true(am_machine_can_collapse(true));
    transparent_pages("always madvise [never]\n", "2097152\n");
    assert_false(am_machine_can_collapse(true));
    assert_false(am_machine_has_huge_pages(true, why));
    assert_contains(why, "/enabled is never");
    transparent_pages("always [madvise] never\n", "2097152\n");
    pages("always within_size advise never [deny] force\n");
    assert_false(am_machine_can_collapse(true));
}

static void this_machine_has_memory_and_a_node(void **state)
{
    size_t installed = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
    int n_nodes = 0;

    am_machine_root = "";
    assert_true(am_machine_available() > 0 && am_machine_available() <= installed);
    assert_true(am_machine_memory(installed) > 0);
    assert_true(am_machine_memory(installed) <= installed);
    for (int node = 0; node < 1024; node++)
        n_nodes += am_machine_has_node(node);
    assert_true(n_nodes > 0);
    assert_false(am_machine_has_node(-1));
    assert_false(am_machine_has_node(1 << 20));
    assert_false(am_machine_has_node(INT32_MIN));
}

static void all_that_runs_since_one_start_has_one_id(void **state)
{
    uint8_t one[AM_UUID_SIZE], same[AM_UUID_SIZE], later[AM_UUID_SIZE],
        none[AM_UUID_SIZE];
    const char *file = "proc/sys/kernel/random/boot_id";

    am_machine_boot_id(none);
    file_make_text(root, file, "4f1d8c1a-28b1-4f0e-9c9b-7e6a3b1c2d3e\n");
    am_machine_boot_id(one);
    am_machine_boot_id(same);
    file_make_text(root, file, "4f1d8c1a-28b1-4f0e-9c9b-7e6a3b1c2d3f\n");
    am_machine_boot_id(later);
    assert_memory_equal(one, same, sizeof one);
    assert_memory_not_equal(one, later, sizeof one);
    assert_memory_not_equal(one, none, sizeof one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define in_a_tree(f_) cmocka_unit_test_setup_teardown(f_, begin, end)
        in_a_tree(without_proc_all_that_is_installed_counts),
        in_a_tree(a_process_in_no_group_has_all_memory),
        in_a_tree(the_limit_of_its_group_counts),
        in_a_tree(the_smallest_limit_on_the_way_up_counts),
        in_a_tree(max_is_no_limit),
        in_a_tree(a_limit_above_what_is_installed_is_none),
        in_a_tree(the_limit_at_the_root_counts_for_the_root_group),
        in_a_tree(a_path_that_is_not_there_is_followed_up_to_one_that_is),
        in_a_tree(a_name_may_have_colons),
        in_a_tree(groups_of_version_1_are_read_too),
        in_a_tree(with_both_versions_the_smaller_limit_counts),
        in_a_tree(what_makes_no_sense_is_no_limit),
        in_a_tree(what_the_machine_has_left_counts_without_a_group),
        in_a_tree(a_group_has_left_what_is_not_used_or_can_be_dropped),
        in_a_tree(a_group_above_its_limit_has_nothing_left),
        in_a_tree(the_least_that_is_left_on_the_way_up_counts),
        in_a_tree(huge_pages_are_transparent_ones),
        in_a_tree(huge_pages_are_collapsed_where_the_system_allows_transparent_ones),
        in_a_tree(this_machine_has_memory_and_a_node),
        in_a_tree(all_that_runs_since_one_start_has_one_id),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
