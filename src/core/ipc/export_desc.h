/*
 * The description of memory that an exporter sends, and its use by an importer.
 *
 * A desc comes from another process: every value in it is checked.
 */
#ifndef AM_CORE_EXPORT_DESC_H
#define AM_CORE_EXPORT_DESC_H

#include <stdint.h>

#include "core/exchange/exchange.h"
#include "core/vmm/phys.h"

struct am_device;

struct am_export_desc {
    uint64_t size;
    uint64_t asked;
    uint32_t handle_type;
    uint32_t allocation_type;
    uint32_t attr;
    uint32_t location_type;
    int32_t location_id; /* of a device: the driver's id */
    char backend[12];
    uint64_t ledger; /* of the exporter, and the memory's share in it; or 0 */
    uint64_t share;
};

_Static_assert(sizeof(struct am_export_desc) <= AM_WIRE_BYTES,
               "a desc fits into a reply");

/* `asked` are the bytes that the importer may use. */
struct am_export_desc am_export_desc_of(const struct am_phys *phys, size_t asked);

/*
 * The import that the reply's desc describes, for use by a device of this process; it has
 * a reference to its domain, and to its share where both processes have one ledger.
 */
aclError am_export_desc_read(const struct am_import_reply *reply,
                             struct am_device *device, struct am_import *ret_import);

#endif
