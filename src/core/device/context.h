/*
 * Contexts, and the current context of a thread, which the thread remembers by its handle.
 */
#ifndef AM_CORE_CONTEXT_H
#define AM_CORE_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "base/handle.h"
#include "core/device/device.h"
#include "core/device/setup.h"

struct am_context {
    struct am_named named;  /* handle is NULL: destroyed */
    _Atomic int32_t device; /* logical id */
    bool is_primary;        /* a device's default context */
    struct am_settings params;
    /* sched.lock; its default stream, made when it is first used */
    struct am_stream *stream;
};

/* The handle of the thread's context; NULL: none yet.  The context may be destroyed. */
extern _Thread_local void *am_current __attribute__((tls_model("initial-exec")));

/* The thread's context, valid in this read section; NULL: none, or it is destroyed. */
static inline struct am_context *am_current_find(void)
{
    return am_current == NULL ? NULL : am_named_find(AM_KIND_CONTEXT, am_current);
}

/* The default context becomes the thread's current one; is_counted: as aclrtSetDevice does. */
aclError am_device_enter(struct am_device *device, bool is_counted);
/* aclrtCreateContext, aclrtSetCurrentContext; am_context_destroy() is in core/devices.h. */
aclError am_context_create(int32_t device, void **ret_handle);
void am_context_make_current(struct am_context *context);

/* All contexts of a device die, its default one too. */
void am_context_kill_all_locked(int32_t device) AM_REQUIRES(am_devices.lock);

/* One context of aclrtCreateContext dies; its streams have been ended. */
aclError am_context_kill(struct am_context *context);

/* The context of a handle, with one more reference; fails with 107017. */
aclError am_context_get(void *handle, struct am_context **ret_context);

/* The thread's current context's handle, or NULL. */
void *am_context_current(void);

/* The thread's current context, with one more reference; fails with 107002. */
aclError am_context_get_current(struct am_context **ret_context);
void am_context_put(struct am_context *context);

/* The device that the thread works on; fails with 107002 when there is no context. */
aclError am_context_device(int32_t *ret_device);

/*
 * aclrtDeviceEnablePeerAccess, aclrtDeviceDisablePeerAccess: from the thread's device to
 * `peer`.
 */
aclError am_peer_set(int32_t peer, bool is_enabled);

/* How many contexts there are, default ones left out. */
uint64_t am_context_count(void);

#endif
