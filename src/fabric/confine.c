/*
 * The rights of the fabric process.
 *
 * A peer can make UCX write anywhere in this process.  So the process gives up its rights
 * before it listens.  Landlock, where the kernel has it, leaves it the system's files to
 * read, of which UCX needs some (/proc/net/route for each connection): no file of a user,
 * and nothing to write.  The filter of system calls leaves it what sockets, memory and
 * waiting need: it starts no program, touches no other process, reaches no socket of this
 * machine's programs, opens nothing for writing and makes no memory executable.  Every other call fails with EPERM.
 */
#include "fabric/confine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#else
#error "the fabric process is made for x86_64 and aarch64"
#endif

#define LOAD(field_) \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (unsigned)offsetof(struct seccomp_data, field_))
#define ANSWER(what_) BPF_STMT(BPF_RET | BPF_K, (what_))
#define ALLOW(name_) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name_, 0, 1), ANSWER(SECCOMP_RET_ALLOW)
/* With this first argument. */
#define ALLOW_FOR(name_, value_) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name_, 0, 4), LOAD(args[0]), \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value_), 0, 1), ANSWER(SECCOMP_RET_ALLOW), \
        ANSWER(SECCOMP_RET_ERRNO | EPERM)
#define ALLOW_FOR_THREE(name_, a_, b_, c_) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name_, 0, 6), LOAD(args[0]), \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (a_), 3, 0), \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (b_), 2, 0), \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (c_), 1, 0), \
        ANSWER(SECCOMP_RET_ERRNO | EPERM), ANSWER(SECCOMP_RET_ALLOW)
/* Where none of the bits is in the third argument. */
#define ALLOW_BUT(name_, bits_) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name_, 0, 4), LOAD(args[2]), \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (bits_), 0, 1), \
        ANSWER(SECCOMP_RET_ERRNO | EPERM), ANSWER(SECCOMP_RET_ALLOW)

#define OWN_ID 6 /* the instruction that has the process's id */

static struct sock_filter filter[] = {
    LOAD(arch),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0),
    ANSWER(SECCOMP_RET_KILL_PROCESS),
    LOAD(nr),
    /* Signals to this process alone: abort() sends one. */
    ALLOW_FOR(tgkill, 0 /* OWN_ID */),
    /* Calls that a thread makes about itself when it begins. */
    ALLOW_FOR(prlimit64, 0),
    ALLOW(sched_getaffinity),
    /* Messages and waiting. */
    ALLOW(read),
    ALLOW(write),
    ALLOW(readv),
    ALLOW(writev),
    ALLOW(recvfrom),
    ALLOW(recvmsg),
    ALLOW(sendto),
    ALLOW(sendmsg),
    ALLOW(futex),
    ALLOW(epoll_pwait),
    ALLOW(epoll_ctl),
    ALLOW(epoll_create1),
    ALLOW(ppoll),
#if defined(__x86_64__)
    ALLOW(epoll_wait),
    ALLOW(poll),
#endif
    ALLOW(close),
    ALLOW(fcntl),
    ALLOW(dup),
    ALLOW(fstat),
    ALLOW(newfstatat),
    ALLOW(ioctl),
    ALLOW(eventfd2),
    ALLOW(timerfd_create),
    ALLOW(timerfd_settime),
    ALLOW(lseek),
    ALLOW(pwrite64), /* the records, as the next one; nothing else is open for writing */
    ALLOW(ftruncate),
    ALLOW_BUT(openat, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC),
    /*
     * Connections.  Landlock does not cover sockets in the file system, behind which are
     * programs with rights.  Newer UCX asks the kernel for its routes by netlink.
     */
    ALLOW_FOR_THREE(socket, AF_INET, AF_INET6, AF_NETLINK),
    ALLOW(connect),
    ALLOW(bind),
    ALLOW(listen),
    ALLOW(accept),
    ALLOW(accept4),
    ALLOW(shutdown),
    ALLOW(getsockname),
    ALLOW(getpeername),
    ALLOW(getsockopt),
    ALLOW(setsockopt),
    /* Memory. */
    ALLOW_BUT(mmap, PROT_EXEC),
    ALLOW_BUT(mprotect, PROT_EXEC),
    ALLOW(munmap),
    ALLOW(mremap),
    ALLOW(madvise),
    ALLOW(brk),
    /* Time, and the end. */
    ALLOW(clock_gettime),
    ALLOW(clock_nanosleep),
    ALLOW(nanosleep),
    ALLOW(gettimeofday),
    ALLOW(sched_yield),
    ALLOW(getpid),
    ALLOW(gettid),
    ALLOW(getrandom),
    ALLOW(uname),
    ALLOW(rt_sigaction),
    ALLOW(rt_sigprocmask),
    ALLOW(rt_sigreturn),
    ALLOW(sigaltstack),
    ALLOW(restart_syscall),
#if defined(SYS_rseq)
    ALLOW(rseq), /* a thread of UCX may have just begun */
#endif
    ALLOW(set_robust_list),
    ALLOW(exit),
    ALLOW(exit_group),
    ANSWER(SECCOMP_RET_ERRNO | EPERM),
};

int am_confine_calls(void)
{
    struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};

    filter[OWN_ID].k = (unsigned)getpid();
    if (prctl(PR_SET_DUMPABLE, 0) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    /* For the threads of UCX too. */
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
                        &program);
}

/* ---- files ---- */

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ALL_V1 ((UINT64_C(1) << 13) - 1) /* every right that the first Landlock knows */

static void folder_allow(int rules, const char *path)
{
    struct landlock_path_beneath_attr beneath = {
        .allowed_access = READING, .parent_fd = open(path, O_PATH | O_CLOEXEC)};

    if (beneath.parent_fd < 0)
        return;
    syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &beneath, 0);
    close(beneath.parent_fd);
}

/* UCX loads its parts from below its own folder. */
static void ucx_allow(int rules)
{
    char path[4096];
    char *slash;
    Dl_info info;

    if (dladdr((void *)(uintptr_t)ucp_cleanup, &info) == 0 || info.dli_fname == NULL)
        return;
    snprintf(path, sizeof path, "%s", info.dli_fname);
    slash = strrchr(path, '/');
    if (slash == NULL)
        return;
    *slash = '\0';
    folder_allow(rules, path);
}

void am_confine_files(void)
{
    static const char *const folders[] = {"/proc", "/sys",   "/usr",
                                          "/lib",  "/lib64", "/etc"};
    struct landlock_ruleset_attr all = {.handled_access_fs = ALL_V1};
    int rules =
        (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all.handled_access_fs, 0);

    if (rules < 0)
        return; /* Linux before 5.13, or without it */
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        folder_allow(rules, folders[i]);
    ucx_allow(rules);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0)
        syscall(SYS_landlock_restrict_self, rules, 0);
    close(rules);
}
