/*
 * Handles of ACL_MEM_SHARE_HANDLE_TYPE_FABRIC.
 *
 * A fabric handle is a ticket of exchange.h, the machine that it is of, and with
 * ACLMEM_FABRIC the place in the network where the memory is served.  An importer on the
 * same machine gets a descriptor through the runtime directory.  On another machine, or
 * where that directory is another one, it goes to the place.
 */
#ifndef AM_CORE_FABRIC_H
#define AM_CORE_FABRIC_H

#include "acl/acl_rt.h"
#include "core/exchange/wire.h"
#include "fabric/port.h"

struct am_device;

/* The fields of a handle. */
struct am_fabric {
    struct am_ticket ticket;
    bool is_here;               /* this machine's, and of this start of it */
    struct am_port_place place; /* family 0: it is not on a network */
};

/* The handle of an export of ours. */
aclError am_fabric_print(const struct am_ticket *ticket,
                         aclrtMemFabricHandle *ret_handle);
/* 107000 when it is no such handle. */
aclError am_fabric_parse(const aclrtMemFabricHandle *handle,
                         struct am_fabric *ret_fabric);

/* As am_share_import(), from this machine or another. */
aclError am_fabric_import(const aclrtMemFabricHandle *handle, struct am_device *device,
                          void **ret_handle);

#endif
