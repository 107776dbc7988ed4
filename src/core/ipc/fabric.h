/*
 * Handles of ACL_MEM_SHARE_HANDLE_TYPE_FABRIC.
 *
 * A fabric handle is a ticket of exchange.h, and the machine that it is of: the bytes may
 * get to other machines, where nothing answers under its number.
 */
#ifndef AM_CORE_FABRIC_H
#define AM_CORE_FABRIC_H

#include "acl/acl_rt.h"
#include "core/exchange/wire.h"

void am_fabric_print(const struct am_ticket *ticket, aclrtMemFabricHandle *ret_handle);
/* 107000 when it is no such handle, 207000 when it is another machine's. */
aclError am_fabric_parse(const aclrtMemFabricHandle *handle,
                         struct am_ticket *ret_ticket);

#endif
