/*
 * Host memory: pinned blocks of aclrtMallocHost, and memory of the program's own that it
 * registered.
 *
 * Registered ranges do not overlap; they are in an ordered tree.  The device reaches host
 * memory at the host's address.
 */
#ifndef AM_CORE_HOSTMEM_H
#define AM_CORE_HOSTMEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

/*
 * aclrtMallocHost: on products in RC form memory of the current device.  device, if not
 * -1, has to be the current one.
 */
aclError am_host_malloc(size_t size, unsigned module, int32_t device, void **ret_addr);
/* aclrtFreeHost. Registrations in the block end. */
aclError am_host_free(void *addr);

enum {
    AM_HOST_MAPPED = 1u << 0, /* the device can reach it */
    AM_HOST_PINNED = 1u << 1, /* it was pageable, and is locked now */
};

aclError am_host_register(void *addr, size_t size, unsigned flags);
/*
 * addr is the start of what was registered.  Waits for work in flight that uses it; when
 * no task is done or being done for some seconds it gives up with 107000, and all is as
 * before.
 */
aclError am_host_unregister(void *addr);
/*
 * Where the device reaches what the host has at addr, any address in a range that is
 * MAPPED.
 */
aclError am_host_device_pointer(void *addr, void **ret_addr);
/* The library stops: nothing is registered any more. */
void am_host_unregister_all(void);

bool am_host_is_registered(const void *addr);

/*
 * For work in flight: the registration that contains the whole range, if there is one.
 * It lives until it is put.
 */
struct am_registered;
struct am_registered *am_registered_get(const void *addr, size_t size);
void am_registered_put(struct am_registered *r);

#endif
