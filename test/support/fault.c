/*
 * The wrappers of test builds around system calls (src/base/sys.def), which count and can fail
 * the Nth call.  Part of am_base_test; see base/sys.h.
 */
#include "base/sys.h"

#include <signal.h>
#include <stdatomic.h>

#include "base/util.h"

#define TAKE AM_FAULT_TAKE
#define GIVE AM_FAULT_GIVE

/*
 * calls: since arming; target 0 means disarmed.  Plain atomics: threads may race for the
 * Nth place.
 */
static struct {
    _Atomic uint64_t calls;
    _Atomic uint64_t target;
    atomic_bool persistent;
    atomic_bool is_refusal;
    atomic_bool fired;
    atomic_bool was_work;
    atomic_int error;  /* 0: the call's usual one */
    atomic_int signal; /* to send instead of failing; 0: none */
} fault;

void am_fault_arm_with(uint64_t nth, bool persistent, int error)
{
    fault.error = error;
    fault.calls = 0;
    fault.persistent = persistent;
    fault.is_refusal = false;
    fault.fired = false;
    fault.was_work = false;
    fault.signal = 0;
    fault.target = nth;
}

void am_fault_arm_signal(uint64_t nth, int signal)
{
    am_fault_arm(0, false);
    fault.signal = signal;
    fault.target = nth;
}

void am_fault_arm_refusal(uint64_t nth)
{
    am_fault_arm(0, false);
    fault.is_refusal = true;
    fault.target = nth;
}

void am_fault_arm(uint64_t nth, bool persistent)
{
    am_fault_arm_with(nth, persistent, 0);
}

void am_fault_disarm(void)
{
    fault.target = 0;
}

bool am_fault_fired(void)
{
    return fault.fired;
}

bool am_fault_was_work(void)
{
    return fault.was_work;
}

bool am_fault_is_refusal(void)
{
    return fault.is_refusal;
}

void am_step(void)
{
    if (fault.target == 0 || fault.signal == 0 ||
        atomic_fetch_add(&fault.calls, 1) + 1 != fault.target)
        return;
    fault.fired = true;
    raise(fault.signal);
}

static bool fault_hit(enum am_fault_kind kind)
{
    uint64_t target = fault.target;
    uint64_t n;

    if (target == 0)
        return false;
    if (fault.signal != 0) {
        am_step();
        return false;
    }
    n = atomic_fetch_add(&fault.calls, 1) + 1;
    if (n < target || (n > target && (!fault.persistent || kind == GIVE)))
        return false;
    fault.fired = true;
    if (kind == AM_FAULT_WORK)
        fault.was_work = true;
    return true;
}

bool am_fault_hit(enum am_fault_kind kind)
{
    return fault_hit(kind);
}

/*
 * ---- a kernel with larger pages ----
 *
 * AM_TEST_PAGE in the environment is a page size that test builds pretend, such as 65536
 * of many aarch64 kernels: mappings begin at multiples of it, and a call that a kernel
 * with such pages refuses is refused here.
 */

size_t am_page_size(void)
{
    static atomic_size_t known; /* 0: not asked yet; each thread finds the same */
    size_t size = known;
    const char *pretended;

    if (size != 0)
        return size;
    size = (size_t)sysconf(_SC_PAGESIZE);
    pretended = getenv("AM_TEST_PAGE");
    if (pretended != NULL && strtoul(pretended, NULL, 10) > size)
        size = strtoul(pretended, NULL, 10);
    known = size;
    return size;
}

static bool is_paged(const void *addr)
{
    if ((uintptr_t)addr % am_page_size() == 0)
        return true;
    errno = EINVAL;
    return false;
}

static void *paged_mmap(void *addr, size_t size, int prot, int flags, int fd, off_t at)
{
    bool is_fixed = (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0;
    size_t page = am_page_size();
    size_t room = am_align_up(size, page) + page;
    char *wide;
    char *start;

    if (!is_paged((void *)(uintptr_t)at) || (is_fixed && !is_paged(addr)))
        return MAP_FAILED;
    if (page == (size_t)sysconf(_SC_PAGESIZE) || is_fixed || addr != NULL)
        return mmap(addr, size, prot, flags, fd, at);
    wide =
        mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (wide == MAP_FAILED)
        return MAP_FAILED;
    start = (char *)am_align_up((uintptr_t)wide, page);
    munmap(wide, room);
    /* Another thread may be faster: then the kernel chooses as it likes. */
    addr = mmap(start, size, prot, flags | MAP_FIXED_NOREPLACE, fd, at);
    return addr != MAP_FAILED ? addr : mmap(NULL, size, prot, flags, fd, at);
}

static int paged_mprotect(void *addr, size_t size, int prot)
{
    return is_paged(addr) ? mprotect(addr, size, prot) : -1;
}

static int paged_madvise(void *addr, size_t size, int advice)
{
    return is_paged(addr) ? madvise(addr, size, advice) : -1;
}

static int paged_munmap(void *addr, size_t size)
{
    return is_paged(addr) ? munmap(addr, size) : -1;
}

#define mmap paged_mmap
#define mprotect paged_mprotect
#define madvise paged_madvise
#define munmap paged_munmap

#define AM_SYS(kind_, result_, name_, params_, args_, value_, errno_) \
    result_ am_sys_##name_ params_ \
    { \
        if (!fault.is_refusal && fault_hit(kind_)) { \
            errno = fault.error != 0 ? fault.error : errno_; \
            return value_; \
        } \
        return name_ args_; \
    }
#include "base/sys.def"
#undef AM_SYS
