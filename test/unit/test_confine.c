/* The rights that the fabric process gives up. */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fabric/confine.h"

#define NO_SECCOMP 99

/* In a child: which of the calls of a list fails not as it should, from 1 on; 0: none. */
static int child_of(int (*run)(void))
{
    pid_t child = fork();
    int status = 0;

    if (child == 0)
        _exit(run());
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static bool is_refused(long rc)
{
    return rc < 0 && errno == EPERM;
}

static int refused_calls(void)
{
    struct iovec piece = {&(char){0}, 1};
    char *const arguments[] = {"/bin/true", NULL};

    if (am_confine_calls() != 0)
        return NO_SECCOMP;
    const bool is_right[] = {
        is_refused(fork()),
        is_refused(execve(arguments[0], arguments, NULL)),
        is_refused(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL)),
        is_refused(process_vm_readv(getppid(), &piece, 1, &piece, 1, 0)),
        is_refused(kill(getppid(), 0)),
        is_refused(syscall(SYS_tgkill, getppid(), getppid(), 0)),
        is_refused(open("/tmp", O_TMPFILE | O_RDWR, 0600)),
        is_refused(open("/dev/null", O_WRONLY)),
        is_refused(socket(AF_UNIX, SOCK_STREAM, 0)),
        is_refused(socket(AF_PACKET, SOCK_RAW, 0)),
        is_refused(socketpair(AF_UNIX, SOCK_STREAM, 0, (int[2]){0})),
        is_refused(mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                        -1, 0) == MAP_FAILED
                       ? -1
                       : 0),
        /* Calls that read a file at an offset: /proc/PID/mem has no memory at offset 0. */
        is_refused(lseek(0, 4096, SEEK_SET)),
        is_refused(pread(0, &(char){0}, 1, 4096)),
        is_refused(preadv(0, &piece, 1, 4096)),
        is_refused(sendfile(1, 0, &(off_t){4096}, 1)),
        is_refused(copy_file_range(0, &(loff_t){4096}, 1, NULL, 1, 0)),
        is_refused(splice(0, &(loff_t){4096}, 1, NULL, 1, 0)),
        is_refused(syscall(SYS_io_uring_setup, 1, NULL)),
        is_refused(syscall(SYS_seccomp, 0, 0, NULL)),
    };

    for (int i = 0; i < (int)(sizeof is_right / sizeof is_right[0]); i++) {
        if (!is_right[i])
            return i + 1;
    }
    return 0;
}

static int allowed_calls(void)
{
    if (am_confine_calls() != 0)
        return NO_SECCOMP;
    return socket(AF_INET, SOCK_STREAM, 0) < 0                      ? 1
           : socket(AF_INET6, SOCK_STREAM, 0) < 0 && errno == EPERM ? 2
           : socket(AF_NETLINK, SOCK_RAW, 0) < 0                    ? 3
           : open("/proc/self/maps", O_RDONLY) < 0                  ? 4
           : mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                  0) == MAP_FAILED
               ? 5
               : 0;
}

static char own[] = "/tmp/aclmem-confine-XXXXXX";

static int refused_files(void)
{
    if (!am_confine_files())
        return 4;
    if (open(own, O_RDONLY) >= 0 || errno != EACCES)
        return 1;
    if (unlink(own) == 0 || mkdir("/tmp/aclmem-confine-folder", 0700) == 0)
        return 2;
    return open("/proc/self/maps", O_RDONLY) >= 0 && open("/etc/passwd", O_RDONLY) >= 0
               ? 0
               : 3;
}

static void calls_that_it_does_not_need_are_refused(void **state)
{
    int failed = child_of(refused_calls);

    if (failed == NO_SECCOMP) {
        print_message("skipped: the kernel takes no filter of system calls\n");
        skip();
    }
    assert_int_equal(failed, 0);
    assert_int_equal(child_of(allowed_calls), 0);
}

static void files_of_users_are_out_of_reach(void **state)
{
    int fd;

    if (syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) <
        1) {
        print_message("skipped: the kernel has no Landlock\n");
        skip();
    }
    fd = mkstemp(own);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(child_of(refused_files), 0);
    assert_int_equal(unlink(own), 0);
}

/* A kernel without Landlock; the caller reports it. */
static int files_without_landlock(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);

    if (seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS),
                         SCMP_SYS(landlock_create_ruleset), 0) != 0 ||
        seccomp_load(filter) != 0)
        return NO_SECCOMP;
    return am_confine_files() ? 1 : 0;
}

static void a_missing_landlock_is_reported(void **state)
{
    assert_int_equal(child_of(files_without_landlock), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_that_it_does_not_need_are_refused),
        cmocka_unit_test(files_of_users_are_out_of_reach),
        cmocka_unit_test(a_missing_landlock_is_reported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
