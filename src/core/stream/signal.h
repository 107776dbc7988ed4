/*
 * Signals: the common part of events and notifies.
 *
 * A signal has a handle and an id and belongs to a device, where it is listed until it is
 * destroyed or the device is reset.  Its memory goes with the last reference.
 */
#ifndef AM_CORE_SIGNAL_H
#define AM_CORE_SIGNAL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/handle.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/stream/sched.h"

struct am_signal {
    struct am_named named;
    uint32_t id;
    int32_t device;
    _Atomic uint64_t export; /* the number that other processes open it by; 0: none yet */
    bool is_dead;            /* sched.lock, as the next two */
    struct am_waitlist waiting; /* streams that wait for it */
    LIST_ENTRY(am_signal) all;  /* of its device */
};

/* All signals of one kind. */
struct am_signals {
    enum am_kind kind;
    const char *name; /* "event", for messages */
    void (*put)(struct am_named *named);
    /* NULL, or is told of one that is no longer alive.  With the scheduler's lock. */
    void (*ended)(struct am_signal *signal);
    uint32_t next_id;   /* sched.lock */
    _Atomic uint64_t n; /* of all devices */
    struct {
        LIST_HEAD(, am_signal) list;
        uint32_t n;
    } of[AM_DEVICES_MAX]; /* sched.lock */
};

/*
 * A new signal becomes one of the current context's device, which may have `limit` of them;
 * on failure its only reference is dropped.
 */
aclError am_signal_enter(struct am_signals *signals, struct am_signal *signal,
                         uint32_t limit, void **ret_handle);
/* The signal of a handle, with one more reference. */
static inline aclError am_signal_get(struct am_signals *signals, void *handle,
                                     struct am_signal **ret_signal)
{
    AM_REQUIRE(handle != NULL, ACL_ERROR_INVALID_PARAM, "%s is NULL", signals->name);
    *ret_signal = am_named_get(signals->kind, handle);
    AM_REQUIRE(*ret_signal != NULL, ACL_ERROR_RT_INVALID_HANDLE, "%s %p %s",
               signals->name, handle, am_handle_why(signals->kind, handle));
    return ACL_SUCCESS;
}
/* Streams that wait for a record that can no longer be queued are woken. */
aclError am_signal_destroy(struct am_signals *signals, void *handle);
/* All of a device. */
void am_signal_kill_all(struct am_signals *signals, int32_t device);

/* The export becomes the signal's; false: the signal has one or is dead, and it ends. */
bool am_signal_exported(struct am_signal *signal, uint64_t number);

#endif
