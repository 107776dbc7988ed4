/* See export_desc.h. */
#include "core/ipc/export_desc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/util.h"
#include "core/device/attr.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/ledger/ledger.h"

#define SIZE_LIMIT (64 * AM_TIB)

struct am_export_desc am_export_desc_of(const struct am_phys *phys, size_t asked)
{
    aclrtPhysicalMemProp prop = am_phys_prop(phys);
    struct am_export_desc desc = {
        .size = phys->mem.size,
        .asked = asked,
        .handle_type = (uint32_t)prop.handleType,
        .allocation_type = (uint32_t)prop.allocationType,
        .attr = (uint32_t)prop.memAttr,
        .location_type = (uint32_t)prop.location.type,
        .location_id = (int32_t)prop.location.id,
        .share = phys->share,
    };

    if (phys->domain->device >= 0) {
        desc.location_type = ACL_MEM_LOCATION_TYPE_DEVICE; /* blocks have no prop */
        desc.location_id = phys->domain->driver;
    }
    if (phys->share != 0)
        desc.ledger = am_ledger_id(phys->domain->ledger);
    snprintf(desc.backend, sizeof desc.backend, "%s", phys->mem.bank->ops->name);
    return desc;
}

static aclError desc_check(const struct am_export_desc *desc,
                           const struct am_import_reply *reply)
{
    const struct am_attr *attr = am_attr_find((aclrtMemAttr)desc->attr);
    bool is_device = desc->location_type == ACL_MEM_LOCATION_TYPE_DEVICE;
    /* The host's memory is the host backend's everywhere. */
    const char *backend = is_device ? am_setup.backend->name : "host";

    AM_REQUIRE(reply->size == sizeof *desc, ACL_ERROR_RT_IPC_ERROR,
               "process %d sent a description of %u bytes instead of %zu",
               reply->exporter, reply->size, sizeof *desc);
    AM_REQUIRE(strncmp(desc->backend, backend, sizeof desc->backend) == 0,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "process %d has the %.*s backend and this process the %s backend; both "
               "must use the same (ACLMEM_BACKEND)",
               reply->exporter, (int)sizeof desc->backend, desc->backend,
               am_setup.backend->name);
    AM_REQUIRE(attr != NULL && desc->size > 0 && desc->size <= SIZE_LIMIT &&
                   am_is_aligned(desc->size, am_attr_granularity(attr)) &&
                   desc->asked > 0 && desc->asked <= desc->size &&
                   (desc->location_type == ACL_MEM_LOCATION_TYPE_DEVICE ||
                    desc->location_type == ACL_MEM_LOCATION_TYPE_HOST ||
                    desc->location_type == ACL_MEM_LOCATION_TYPE_HOST_NUMA),
               ACL_ERROR_RT_IPC_ERROR,
               "process %d describes impossible memory: %" PRIu64
               " bytes of attribute %u at location type %u",
               reply->exporter, desc->size, desc->attr, desc->location_type);
    return ACL_SUCCESS;
}

/* The domain that the memory is used in, and the properties that the program sees. */
static aclError import_place(const struct am_export_desc *desc, struct am_device *device,
                             struct am_import *import)
{
    bool is_device = desc->location_type == ACL_MEM_LOCATION_TYPE_DEVICE;
    struct am_device *home = am_device_find_driver((uint32_t)desc->location_id);

    import->prop = (aclrtPhysicalMemProp){
        .handleType = (aclrtMemHandleType)desc->handle_type,
        .allocationType = (aclrtMemAllocationType)desc->allocation_type,
        .memAttr = (aclrtMemAttr)desc->attr,
        .location =
            {
                .id = is_device ? (uint32_t)device->id : (uint32_t)desc->location_id,
                .type = (aclrtMemLocationType)desc->location_type,
            },
    };
    import->home = !is_device ? -1 : home != NULL ? home->id : device->id;
    import->domain = is_device ? device->domain : am_devices.host;
    AM_REQUIRE(import->domain != NULL, ACL_ERROR_UNINITIALIZE,
               "aclFinalize has been called");
    return ACL_SUCCESS;
}

/*
 * The memory counts as long as a process has it.  Processes with other options have
 * other devices, and an import does not count there.
 */
static aclError share_join(const struct am_export_desc *desc, struct am_import *import)
{
    struct am_ledger *ledger = import->domain->ledger;

    import->share = 0;
    if (desc->share == 0 || ledger == NULL || am_ledger_id(ledger) != desc->ledger)
        return ACL_SUCCESS;
    AM_TRY(am_ledger_share_join(ledger, desc->share, desc->location_id, desc->size));
    import->share = desc->share;
    return ACL_SUCCESS;
}

aclError am_export_desc_read(const struct am_import_reply *reply,
                             struct am_device *device, struct am_import *ret_import)
{
    struct am_export_desc desc;

    memcpy(&desc, reply->bytes, sizeof desc);
    AM_TRY(desc_check(&desc, reply));
    ret_import->fd = reply->fd;
    ret_import->size = desc.size;
    ret_import->asked = desc.asked;
    AM_TRY(import_place(&desc, device, ret_import));
    return share_join(&desc, ret_import);
}
