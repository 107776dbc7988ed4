/*
 * Physical memory that several processes have.
 *
 * Exporting gives a phys a handle; the handle lives as long as the handle does.
 * Importing by the handle in another process gives a phys there that has the same bytes,
 * and lives on its own: the memory is freed when every process has released it.
 *
 * A process imports by a handle once at a time.  The kinds AM_SHARE_MEMORY and
 * AM_SHARE_FABRIC differ only in the handle that the program passes on.
 */
#ifndef AM_CORE_SHARE_H
#define AM_CORE_SHARE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_rt.h"
#include "core/exchange/exchange.h"

struct am_device;
struct am_import;
struct am_phys;

/* is_open: for any process of this user; otherwise for listed processes. */
aclError am_share_export(void *handle, enum am_share_kind kind, bool is_open,
                         struct am_share_handle *ret_share);
/* By ids of aclrtDeviceGetBareTgid, added to the listed processes. */
aclError am_share_trust(enum am_share_kind kind, const struct am_share_handle *share,
                        const int32_t *ids, size_t n);

/* For use by a device of this process; whether it may reach the memory is seen then. */
aclError am_share_import(enum am_share_kind kind, const struct am_share_handle *share,
                         struct am_device *device, void **ret_handle);

/*
 * Fabric handles: the handle of an export of this process; the handle in a handle (107000 if
 * it is not a handle); an import, from this machine or another one.
 */
aclError am_share_print_fabric(const struct am_share_handle *share,
                               aclrtMemFabricHandle *ret_handle);
aclError am_share_parse_fabric(const aclrtMemFabricHandle *handle,
                               struct am_share_handle *ret_share);
aclError am_share_import_fabric(const aclrtMemFabricHandle *handle,
                                struct am_device *device, void **ret_handle);

/* The two halves of it for memory of another kind, which has no handle. */
aclError am_share_check(void); /* 207000 where the backend cannot share */
aclError am_share_offer(struct am_phys *phys, enum am_share_kind kind, size_t asked,
                        bool is_open, struct am_share_handle *ret_share);
/*
 * The import that the description in the reply describes, for use by a device of this process;
 * it has a share of the ledger if both processes have one ledger.
 */
aclError am_share_read_desc(const struct am_import_reply *reply, struct am_device *device,
                            struct am_import *ret_import);
/*
 * The import has a claim on the number, which am_phys_import() and am_phys_import_owned() take
 * over, and a descriptor.
 */
aclError am_share_fetch(enum am_share_kind kind, const struct am_share_handle *share,
                        struct am_device *device, struct am_import *ret_import);

#endif
