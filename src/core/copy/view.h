/*
 * Host views: addresses through which the program may touch device memory, as a kernel
 * would.
 *
 * A view keeps its memory alive.  Views have different addresses, so that one can be
 * ended by its address: when the backend's own address is taken by another view, a
 * private mapping is made.
 */
#ifndef AM_CORE_VIEW_H
#define AM_CORE_VIEW_H

#include <bsd/sys/tree.h>
#include <stdatomic.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "base/lock.h"

struct am_view;
RB_HEAD(am_view_tree, am_view);

struct am_views {
    struct am_lock lock;
    struct am_view_tree tree; /* lock; by address */
    _Atomic uint64_t n;
};

extern struct am_views am_views;

aclError am_view_open(struct am_views *views, const void *addr, size_t size,
                      void **ret_addr);
aclError am_view_close(struct am_views *views, void *addr);

#endif
