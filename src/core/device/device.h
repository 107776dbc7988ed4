/*
 * Devices, which the program sets and resets.
 *
 * The program counts the devices it may see from 0 (logical ids); the driver counts all
 * devices of the machine.  ASCEND_RT_VISIBLE_DEVICES chooses which driver ids are
 * visible.
 */
#ifndef AM_CORE_DEVICE_H
#define AM_CORE_DEVICE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "base/lock.h"
#include "core/device/domain.h"
#include "core/device/setup.h"

/* A bit each in a mapping's access masks, and the last one for the host. */
#define AM_DEVICES_MAX 63

struct am_context;

struct am_device {
    _Atomic int32_t id; /* logical: its domain in the list */
    _Atomic int32_t driver_id;
    uint64_t n_set; /* devices.lock; aclrtSetDevice calls not yet reset */
    /* devices.lock; the default context, NULL when not in use */
    struct am_context *primary;
    _Atomic(struct am_domain *) domain;
    /*
     * A bit for each device whose memory it may reach: for the whole device and all its
     * contexts, until it is taken back or the device is reset.  Rights of a mapping
     * (aclrtMemSetAccess) are separate.
     */
    _Atomic uint64_t peers;
    struct am_settings limits;   /* on the cores that operators of this process use */
    struct am_settings sat_mode; /* the first one: an aclrtFloatOverflowMode */
    struct am_device_info info;  /* devices.lock; set where the devices are real */
};

struct am_devices {
    struct am_lock lock;
    _Atomic int32_t n;     /* visible ones */
    _Atomic int32_t n_all; /* that the machine has */
    struct am_device device[AM_DEVICES_MAX];
    _Atomic(struct am_domain *) host;
    struct am_ledger *ledger; /* the runtime's lock */
};

extern struct am_devices am_devices;

/* By logical id; fails with 107001.  ret_device may be NULL. */
aclError am_device_find(int32_t id, struct am_device **ret_device);
/* By the driver's id; NULL when it is not visible. */
struct am_device *am_device_find_driver(uint32_t driver_id);

/* Its description, where the devices are real. */
struct am_device_info am_device_info(struct am_device *device);

/* Whether the default context is in use. */
bool am_device_is_active(struct am_device *device);

/* Whether the product's devices can reach each other at all. */
bool am_peer_is_possible(int32_t device, int32_t peer);
/* By logical ids, which exist.  A device always reaches its own memory. */
bool am_peer_is_enabled(int32_t from, int32_t to);

#endif
