/*
 * The rights of the fabric process.
 *
 * UCX parses the messages of peers, so the process gives up its rights before a peer can
 * connect.
 *
 * Landlock leaves it the system's files to read, some of which UCX needs (/proc/net/route
 * for each connection): no file of a user, no memory of another process, and nothing to
 * write.  On a kernel without Landlock, the process can read the files of its user.
 *
 * The filter of system calls leaves what sockets, memory and waiting need: the process
 * starts no program, accesses no other process, reaches no Unix socket, opens nothing for
 * writing and makes no memory executable.  It cannot seek, so it cannot read
 * /proc/PID/mem, which has no memory at offset 0.  Every other call fails with EPERM.
 */
#include "fabric/confine.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

/* ---- system calls ---- */

#define CALL(name_) SCMP_SYS(name_)

/* libseccomp ignores calls that the architecture does not have. */
static const int allowed[] = {
    /* Messages and waiting.  pwrite64 and ftruncate are for the records. */
    CALL(read), CALL(write), CALL(readv), CALL(writev), CALL(recvfrom), CALL(recvmsg),
    CALL(sendto), CALL(sendmsg), CALL(futex), CALL(epoll_wait), CALL(epoll_pwait),
    CALL(epoll_ctl), CALL(epoll_create1), CALL(poll), CALL(ppoll), CALL(close),
    CALL(fcntl), CALL(dup), CALL(fstat), CALL(newfstatat), CALL(ioctl), CALL(eventfd2),
    CALL(timerfd_create), CALL(timerfd_settime), CALL(pwrite64), CALL(ftruncate),
    /* Connections. */
    CALL(connect), CALL(bind), CALL(listen), CALL(accept), CALL(accept4), CALL(shutdown),
    CALL(getsockname), CALL(getpeername), CALL(getsockopt), CALL(setsockopt),
    /* Memory, time, and the process itself. */
    CALL(munmap), CALL(mremap), CALL(madvise), CALL(brk), CALL(clock_gettime),
    CALL(clock_nanosleep), CALL(nanosleep), CALL(gettimeofday), CALL(sched_yield),
    CALL(sched_getaffinity), CALL(getpid), CALL(gettid), CALL(getrandom), CALL(uname),
    CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(sigaltstack),
    CALL(restart_syscall), CALL(rseq), CALL(set_robust_list), CALL(exit),
    CALL(exit_group)};

/* Calls that are allowed if argument number arg, masked, has a value.  32 bits count. */
static const struct {
    int call;
    unsigned arg;
    uint32_t mask;
    uint32_t value;
} conditional[] = {
    /* Landlock does not cover Unix sockets.  Newer UCX reads routes by netlink. */
    {CALL(socket), 0, UINT32_MAX, AF_INET},
    {CALL(socket), 0, UINT32_MAX, AF_INET6},
    {CALL(socket), 0, UINT32_MAX, AF_NETLINK},
    {CALL(openat), 2, O_WRONLY | O_RDWR | O_CREAT | O_TRUNC, 0},
    {CALL(mmap), 2, PROT_EXEC, 0},
    {CALL(mprotect), 2, PROT_EXEC, 0},
    {CALL(prlimit64), 0, UINT32_MAX, 0},
};

static int allow_if(scmp_filter_ctx filter, int call, unsigned arg, uint32_t mask,
                    uint32_t value)
{
    struct scmp_arg_cmp compare = {
        .arg = arg, .op = SCMP_CMP_MASKED_EQ, .datum_a = mask, .datum_b = value};

    return seccomp_rule_add_array(filter, SCMP_ACT_ALLOW, call, 1, &compare);
}

int am_confine_calls(void)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
    /* abort() sends a signal to this process. */
    int rc = filter == NULL
                 ? -ENOMEM
                 : allow_if(filter, CALL(tgkill), 0, UINT32_MAX, (uint32_t)getpid());

    for (size_t i = 0; rc == 0 && i < sizeof allowed / sizeof allowed[0]; i++)
        rc = seccomp_rule_add(filter, SCMP_ACT_ALLOW, allowed[i], 0);
    for (size_t i = 0; rc == 0 && i < sizeof conditional / sizeof conditional[0]; i++)
        rc = allow_if(filter, conditional[i].call, conditional[i].arg,
                      conditional[i].mask, conditional[i].value);
    if (rc == 0) /* for the threads of UCX too */
        rc = seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1);
    if (rc == 0 && prctl(PR_SET_DUMPABLE, 0) != 0)
        rc = -errno;
    if (rc == 0) /* sets no_new_privs, too */
        rc = seccomp_load(filter);
    seccomp_release(filter);
    errno = -rc;
    return rc == 0 ? 0 : -1;
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

bool am_confine_files(void)
{
    static const char *const folders[] = {"/proc", "/sys",   "/usr",
                                          "/lib",  "/lib64", "/etc"};
    struct landlock_ruleset_attr all = {.handled_access_fs = ALL_V1};
    int rules =
        (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all.handled_access_fs, 0);
    bool is_confined;

    if (rules < 0)
        return false; /* Linux before 5.13, or without it */
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        folder_allow(rules, folders[i]);
    ucx_allow(rules);
    is_confined = prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                  syscall(SYS_landlock_restrict_self, rules, 0) == 0;
    close(rules);
    return is_confined;
}
