/*
 * The system calls we use, as am_sys_NAME().
 *
 * In release builds am_sys_mmap() only calls mmap().  In test builds (AM_TEST) it may fail
 * on purpose: am_fault_arm(n, ...) makes the nth call from then on fail.  One counter over
 * all threads.
 */
#ifndef AM_BASE_SYS_H
#define AM_BASE_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <numaif.h>
#include <pthread.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE /* Linux 5.14; glibc knows it from 2.35 on */
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE /* Linux 6.1; glibc knows it from 2.37 on */
#define MADV_COLLAPSE 25
#endif

#ifndef SYS_pidfd_open /* Linux 5.3; the same number everywhere */
#define SYS_pidfd_open 434
#endif

/* glibc has it from 2.36 on. */
static inline int am_pidfd_open(pid_t pid, unsigned flags)
{
    return (int)syscall(SYS_pidfd_open, pid, flags);
}
#define pidfd_open am_pidfd_open

/* A lock on bytes of a file that is the open file's, not the process's; never waits. */
static inline int am_lock_file(int fd, struct flock *lock)
{
    return fcntl(fd, F_OFD_SETLK, lock);
}
#define lock_file am_lock_file

/*
 * Memory whose size cannot be changed, which other processes map by its number; MAP_FAILED
 * and errno.  It is marked to be removed at once, and so it ends with its last mapping.
 */
static inline void *am_segment_make(size_t size, int *ret_id)
{
    int id = shmget(IPC_PRIVATE, size, SHM_NORESERVE | 0600);
    void *at;
    int error;

    if (id < 0)
        return MAP_FAILED;
    at = shmat(id, NULL, 0);
    error = errno;
    shmctl(id, IPC_RMID, NULL);
    errno = error;
    *ret_id = id;
    return at;
}
#define segment_make am_segment_make

/* The same memory in another process, if it is there and this user's alone. */
static inline void *am_segment_map(int id, size_t size, int flags)
{
    struct shmid_ds segment;
    void *at = shmat(id, NULL, flags);

    if (at == MAP_FAILED)
        return at;
    if (shmctl(id, IPC_STAT, &segment) == 0 && segment.shm_segsz == size &&
        segment.shm_perm.uid == geteuid() && (segment.shm_perm.mode & 0077) == 0)
        return at;
    shmdt(at);
    errno = EACCES;
    return MAP_FAILED;
}
#define segment_map am_segment_map

#if AM_TEST

#define AM_SYS(kind_, result_, name_, params_, args_, value_, errno_) \
    result_ am_sys_##name_ params_;
#include "base/sys.def"
#undef AM_SYS

#define AM_TEST_EXPORT __attribute__((visibility("default")))
AM_TEST_EXPORT void am_fault_arm(uint64_t nth, bool persistent);
/* The same, with this errno instead of the call's usual one; for unit tests. */
void am_fault_arm_with(uint64_t nth, bool persistent, int error);
AM_TEST_EXPORT void am_fault_disarm(void);
AM_TEST_EXPORT bool am_fault_fired(void);
/*
 * The same calls, and each am_step(): at the nth the process sends itself this
 * signal, once.
 */
AM_TEST_EXPORT void am_fault_arm_signal(uint64_t nth, int signal);

/* Bytes of a page of the kernel, or of the one that is pretended (test/support/fault.c). */
size_t am_page_size(void);

/* Between two writes that other processes can see: a process may die here. */
void am_step(void);

/* Just calls of a driver, which fail for another reason than that something ran out. */
AM_TEST_EXPORT void am_fault_arm_refusal(uint64_t nth);
/*
 * Whether the failed operation moved bytes: some may have been moved before it failed.
 */
AM_TEST_EXPORT bool am_fault_was_work(void);

enum am_fault_kind {
    AM_FAULT_TAKE,
    AM_FAULT_GIVE, /* gives something back, or is needed for that: fails once at most */
    AM_FAULT_WORK, /* moves bytes */
};
/* Whether this call of a driver fails, and how. */
bool am_fault_hit(enum am_fault_kind kind);
bool am_fault_is_refusal(void);

#else

static inline size_t am_page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

#define am_step() ((void)0)

#define AM_SYS(kind_, result_, name_, params_, args_, value_, errno_) \
    static inline result_ am_sys_##name_ params_ \
    { \
        return name_ args_; \
    }
#include "base/sys.def"
#undef AM_SYS

#endif

/* At most 256 unpredictable bytes: 0 or -errno. */
static inline int am_random(void *bytes, size_t size)
{
    ssize_t n = am_sys_getrandom(bytes, size, 0);

    return n == (ssize_t)size ? 0 : n < 0 ? -errno : -EIO;
}

/* The message of a call that needs them to share something; %s is the system's reason. */
#define AM_RANDOM_MISSING \
    "nothing can be shared with other processes: the system provides no random " \
    "numbers: %s; a filter of system calls, such as a container's, must allow getrandom"

#endif
