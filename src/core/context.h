/*
 * Contexts, and which one a thread works in.
 *
 * A thread remembers its current context by address and handle; contexts' memory is never used for
 * anything else, so a look at the handle tells whether it is still that context, without a lock.
 */
#ifndef AM_CORE_CONTEXT_H
#define AM_CORE_CONTEXT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_rt.h"
#include "base/idmap.h"
#include "core/runtime.h"

struct am_context {
    struct am_object object;
    _Atomic(void *) handle;     /* NULL: dead */
    _Atomic int32_t device;     /* logical id */
    bool is_primary;            /* a device's default context */
    LIST_ENTRY(am_context) all; /* devices.lock */
};

aclError am_context_create_locked(int32_t device, bool is_primary,
                                  struct am_context **ret_context)
    AM_REQUIRES(am_rt.devices.lock);

/* aclrtCreateContext, aclrtDestroyContext, aclrtSetCurrentContext. */
aclError am_context_create(int32_t device, void **ret_handle);
aclError am_context_destroy(void *handle);
aclError am_context_set_current(void *handle);

/* All contexts of a device die, its default one too. */
void am_context_kill_all_locked(int32_t device) AM_REQUIRES(am_rt.devices.lock);

void am_context_make_current(struct am_context *context);

/* The thread's current context's handle, or NULL. */
void *am_context_current(void);

/* The device that the thread works on; fails with 107002 when there is no context. */
aclError am_context_device(int32_t *ret_device);

/* How many contexts there are, default ones left out. */
uint64_t am_context_count(void);

#endif
