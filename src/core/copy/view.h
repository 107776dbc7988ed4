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

#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

aclError am_view_open(const void *addr, size_t size, void **ret_addr);
aclError am_view_close(void *addr);
uint64_t am_view_count(void);

#endif
