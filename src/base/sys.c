/* The counting wrappers of test builds; empty in release builds.  See sys.h. */
#include "base/sys.h"

#if AM_TEST

#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>

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

void am_moment(void)
{
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

#else

typedef int sys_has_no_code_in_release; /* ISO C wants a declaration in every file. */

#endif
