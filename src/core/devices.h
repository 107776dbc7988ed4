/* Opening, resetting and closing devices, over all parts of the core. */
#ifndef AM_CORE_DEVICES_H
#define AM_CORE_DEVICES_H

#include <stdbool.h>

#include "acl/acl_base.h"
#include "core/device/device.h"
#include "core/ledger/ledger.h"
#include "core/stream/stream.h"

/*
 * Makes the devices that the options and ASCEND_RT_VISIBLE_DEVICES ask for; where the
 * backend's are real, of those.
 */
aclError am_devices_open(struct am_devices *devices);
/* The ledger's configuration for the devices, or for the devices of the next start. */
aclError am_devices_config(struct am_ledger_config *ret_config);
/* Ends the work, streams, pools, events, contexts and imports of all devices. */
void am_devices_end(struct am_devices *devices);
/* Frees all memory of the devices and of the host, and closes the devices. */
void am_devices_close(struct am_devices *devices);
/* Whether the program uses none of them: not set, and without physical memory. */
bool am_devices_are_idle(struct am_devices *devices);

/*
 * aclrtResetDevice(Force): one user less, or all; at zero everything on the device dies.
 */
aclError am_device_reset(struct am_device *device, bool is_forced);
/* aclrtDestroyContext: its streams end first. */
aclError am_context_destroy(struct am_context *context);

/* The program synchronises or destroys a stream, or all of a device: pools give memory back. */
aclError am_sync_stream(struct am_stream *stream, int32_t timeout_ms);
aclError am_sync_device(int32_t device, int32_t timeout_ms);
aclError am_end_stream(struct am_stream *stream, bool is_forced);

#endif
