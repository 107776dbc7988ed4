/*
 * Peer access: which device may access the memory of which other one.
 *
 * A bit for each pair, in the accessing device (struct am_device, peers): one direction,
 * for the whole device and all its contexts, until it is taken back or the device is
 * reset.  Rights of a mapping (aclrtMemSetAccess) are separate.
 */
#ifndef AM_CORE_PEER_H
#define AM_CORE_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_base.h"

/* Whether the product's devices can reach each other at all. */
bool am_peer_is_possible(int32_t device, int32_t peer);

/*
 * aclrtDeviceEnablePeerAccess, aclrtDeviceDisablePeerAccess: from the thread's device to
 * `peer`.
 */
aclError am_peer_set(int32_t peer, bool is_enabled);

/* By logical ids, which exist.  A device always reaches its own memory. */
bool am_peer_is_enabled(int32_t from, int32_t to);

#endif
