/* The runtime directory: made safely, and refused when somebody else prepared it. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/options.h"
#include "core/ledger/rundir.h"

static char folder[64]; /* for this test alone */
static char path[128];  /* of the runtime directory, in it */

static void name_path(const char *end)
{
    char why[AM_WHY_SIZE];

    snprintf(path, sizeof path, "%s/%s", folder, end);
    assert_int_equal(am_options_set("runtime_dir", path, why), 0);
}

static int begin(void **state)
{
    am_options_reset();
    strcpy(folder, folder_make());
    name_path("run");
    return 0;
}

static int end(void **state)
{
    am_rundir_close();
    folder_remove(folder);
    return 0;
}

static mode_t mode_of(const char *name)
{
    struct stat st;

    assert_int_equal(stat(name, &st), 0);
    return st.st_mode & 07777;
}

static void assert_opens(void)
{
    int fd = -1;
    int again = -2;

    assert_int_equal(am_rundir_open(&fd), ACL_SUCCESS);
    assert_true(fd >= 0);
    assert_int_equal(am_rundir_open(&again), ACL_SUCCESS);
    assert_int_equal(fd, again);
    assert_string_equal(am_rundir_path(), path);
    assert_int_equal(faccessat(fd, ".", W_OK | X_OK, 0), 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

static void assert_refuses(int code, const char *words)
{
    const char *message;
    int fd = -7;

    (void)am_error_take_messages();
    assert_int_equal(am_rundir_open(&fd), code);
    assert_int_equal(fd, -7);
    message = am_error_take_messages();
    assert_contains(message, path);
    assert_contains(message, words);
    assert_contains(message, "ACLMEM_RUNTIME_DIR");
    assert_null(strstr(message, "remove")); /* it was named, and may be anything */
}

static void it_is_made_for_its_user_alone(void **state)
{
    mode_t mask = umask(0);

    assert_opens();
    umask(mask);
    assert_int_equal(mode_of(path), 0700);
}

static void one_that_is_there_is_taken_as_it_is(void **state)
{
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0755), 0);
    name_path("run///");
    path[strlen(path) - 3] = '\0';
    assert_opens();
    assert_int_equal(mode_of(path), 0755);
}

static void a_link_is_refused(void **state)
{
    char real[128];

    snprintf(real, sizeof real, "%s/real", folder);
    assert_int_equal(mkdir(real, 0700), 0);
    assert_int_equal(symlink(real, path), 0);
    assert_refuses(ACL_ERROR_RT_NO_PERMISSION, "is a symbolic link or not a directory");
    name_path("run/"); /* which open() alone would follow */
    path[strlen(path) - 1] = '\0';
    assert_refuses(ACL_ERROR_RT_NO_PERMISSION, "is a symbolic link or not a directory");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    assert_refuses(ACL_ERROR_RT_NO_PERMISSION, "is a symbolic link or not a directory");
}

static void a_file_is_refused(void **state)
{
    file_make_text(folder, "run", "x");
    assert_refuses(ACL_ERROR_RT_NO_PERMISSION, "is a symbolic link or not a directory");
}

static void a_directory_that_other_users_may_write_to_is_refused(void **state)
{
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chmod(path, 0770), 0);
    assert_refuses(ACL_ERROR_RT_NO_PERMISSION, "has mode 0770");
    assert_int_equal(chmod(path, 01777), 0);
    assert_refuses(ACL_ERROR_RT_NO_PERMISSION, "has mode 1777");
    assert_int_equal(chmod(path, 0702), 0);
    assert_refuses(ACL_ERROR_RT_NO_PERMISSION, "has mode 0702");
    assert_int_equal(chmod(path, 0700), 0);
    assert_opens();
}

static void one_of_another_user_is_refused(void **state)
{
    assert_int_equal(mkdir(path, 0700), 0);
    if (chown(path, 12345, (gid_t)-1) != 0) {
        print_message("only root can give a directory to another user\n");
        skip();
    }
    assert_refuses(ACL_ERROR_RT_NO_PERMISSION, "belongs to user 12345");
}

static void where_it_cannot_be_made_the_reason_is_named(void **state)
{
    name_path("missing/run");
    assert_refuses(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, strerror(ENOENT));
}

static void the_advice_is_for_what_went_wrong(void **state)
{
    assert_contains(am_rundir_errno_advice(ENOSPC), "make room");
    assert_contains(am_rundir_errno_advice(EDQUOT), "make room");
    assert_contains(am_rundir_errno_advice(EMFILE), "ulimit -n");
    assert_null(strstr(am_rundir_errno_advice(EACCES), "make room"));
    assert_contains(am_rundir_errno_advice(EACCES), "ACLMEM_RUNTIME_DIR");
}

static void a_full_disk_and_a_lack_of_descriptors_are_named(void **state)
{
    am_fault_arm(1, false); /* mkdir */
    assert_refuses(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, strerror(ENOSPC));
    am_fault_disarm();
    assert_true(am_fault_fired());
    assert_opens();
    am_rundir_close();

    (void)am_error_take_messages();
    am_fault_arm(2, false); /* open */
    assert_int_equal(am_rundir_open(&(int){0}), ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
    am_fault_disarm();
    assert_contains(am_error_take_messages(), "ulimit -n is ");
    assert_opens();
}

static void any_failure_leaves_nothing_behind(void **state)
{
    int fd = -1;
    int next = dup(0);

    close(next);
    for_each_fault (n) {
        int rc = am_rundir_open(&fd);

        assert_int_equal(rc == ACL_SUCCESS, !am_fault_fired());
        if (rc != ACL_SUCCESS) {
            assert_int_equal(rc, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL);
            assert_int_equal(fd, -1);
            rmdir(path);
        }
    }
    am_rundir_close();
    fd = dup(0);
    close(fd);
    assert_int_equal(fd, next); /* the lowest one is free as before */
}

static void looking_makes_nothing(void **state)
{
    int fd = -7;

    assert_int_equal(am_rundir_look(&fd), -ENOENT);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(am_rundir_look(&fd), 0);
    assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    fd = -7;
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(am_rundir_look(&fd), -EPERM);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink(folder, path), 0);
    assert_int_equal(am_rundir_look(&fd), -EPERM);
    assert_int_equal(fd, -7);
}

/* ---- without the option ---- */

static void expect_path(const char *parent)
{
    int fd;

    am_options_reset();
    snprintf(path, sizeof path, "%s/aclmem-%u", parent, (unsigned)geteuid());
    if (am_rundir_open(&fd) != ACL_SUCCESS || strcmp(am_rundir_path(), path) != 0) {
        fprintf(stderr, "%s: %s\n", am_rundir_path(), am_error_take_messages());
        exit(1);
    }
    am_rundir_close();
}

/* In a view of the file system of its own. */
static int play_own_mounts(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
        mount("none", "/tmp", "tmpfs", 0, NULL) ||
        mount("none", "/dev/shm", "tmpfs", 0, NULL))
        return 77;
    expect_path("/dev/shm");
    if (umount("/dev/shm") != 0 || mount("none", "/dev/shm", "tmpfs", MS_RDONLY, NULL))
        return 77;
    expect_path("/tmp");
    return 0;
}

static void without_the_option_it_is_in_shared_memory_or_else_in_tmp(void **state)
{
    const char *text;
    int status = child_run("mounts", &text);

    if (status == 77 << 8) {
        print_message("only root, and not everywhere, may mount file systems\n");
        skip();
    }
    if (status != 0)
        fail_msg("status 0x%x: %s", status, text);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(it_is_made_for_its_user_alone, begin, end),
        cmocka_unit_test_setup_teardown(one_that_is_there_is_taken_as_it_is, begin, end),
        cmocka_unit_test_setup_teardown(a_link_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(a_file_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(
            a_directory_that_other_users_may_write_to_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(one_of_another_user_is_refused, begin, end),
        cmocka_unit_test_setup_teardown(where_it_cannot_be_made_the_reason_is_named,
                                        begin, end),
        cmocka_unit_test(the_advice_is_for_what_went_wrong),
        cmocka_unit_test_setup_teardown(a_full_disk_and_a_lack_of_descriptors_are_named,
                                        begin, end),
        cmocka_unit_test_setup_teardown(any_failure_leaves_nothing_behind, begin, end),
        cmocka_unit_test_setup_teardown(looking_makes_nothing, begin, end),
        cmocka_unit_test_setup_teardown(
            without_the_option_it_is_in_shared_memory_or_else_in_tmp, begin, end),
    };

    if (argc == 2 && strcmp(argv[1], "mounts") == 0)
        return play_own_mounts();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
