/*
 * Start and stop of the library.
 *
 * Both are serialised by am_rt.lock.  Each part of the core has its own state: am_setup,
 * am_devices, am_vspace, am_sched and so on; this is the place that starts and stops them
 * in order.  Their locks, maps and slabs stay usable for ever, so a call that is under way
 * while another thread stops the library finds its objects gone, not its memory.
 */
#ifndef AM_CORE_RUNTIME_H
#define AM_CORE_RUNTIME_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "base/lock.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/stream/sched.h"
#include "core/vmm/vspace.h"

struct am_runtime {
    struct am_lock lock;
    bool is_up;                     /* lock */
    atomic_bool is_stopping;        /* the holder of the lock waits for streams */
    uint64_t init_refs;             /* lock; how often aclInit was called */
    _Atomic(const char *) why_down; /* while it is not up: why; NULL: it was never up */
};

extern struct am_runtime am_rt;

/*
 * Takes am_rt.lock for a call that the program may make anywhere.  False: the holder
 * stops the library, and waits for the function of the program that this thread is in.
 */
bool am_runtime_lock(void) AM_TRY_ACQUIRE(true, am_rt.lock);

/*
 * Starts the library with the options of the environment and of the file at config_path
 * (may be NULL). The caller holds am_rt.lock.  On failure nothing is up.
 */
aclError am_runtime_start_locked(const char *config_path) AM_REQUIRES(am_rt.lock);

/* Only reads the options of the environment, as a start would; nothing may be up. */
aclError am_runtime_configure_locked(void) AM_REQUIRES(am_rt.lock);

/* Frees everything: devices, their memory, reservations. */
void am_runtime_stop_locked(void) AM_REQUIRES(am_rt.lock);

#endif
