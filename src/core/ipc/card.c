/* See card.h. */
#include "core/ipc/card.h"

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

struct am_card am_card_of(const struct am_phys *phys, size_t asked)
{
    const aclrtMemLocation *location = &phys->prop.location;
    struct am_card card = {
        .size = phys->mem.size,
        .asked = asked,
        .handle_type = (uint32_t)phys->prop.handleType,
        .allocation_type = (uint32_t)phys->prop.allocationType,
        .attr = (uint32_t)phys->prop.memAttr,
        .location_type = (uint32_t)location->type,
        .location_id = (int32_t)location->id,
        .share = phys->share,
    };

    if (phys->domain->device >= 0) {
        card.location_type = ACL_MEM_LOCATION_TYPE_DEVICE; /* blocks have no prop */
        card.location_id = phys->domain->driver;
    }
    if (phys->share != 0)
        card.ledger = am_ledger_id(phys->domain->ledger);
    snprintf(card.backend, sizeof card.backend, "%s", phys->mem.bank->ops->name);
    return card;
}

static aclError card_check(const struct am_card *card, const struct am_parcel *parcel)
{
    const struct am_attr *attr = am_attr_find((aclrtMemAttr)card->attr);
    bool is_device = card->location_type == ACL_MEM_LOCATION_TYPE_DEVICE;
    /* The host's memory is the host backend's everywhere. */
    const char *backend = is_device ? am_setup.backend->name : "host";

    AM_REQUIRE(parcel->size == sizeof *card, ACL_ERROR_RT_IPC_ERROR,
               "process %d describes memory in %u bytes, not in %zu", parcel->exporter,
               parcel->size, sizeof *card);
    AM_REQUIRE(
        strncmp(card->backend, backend, sizeof card->backend) == 0,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "process %d has the %.*s backend and this one the %s backend; both need the same "
        "(ACLMEM_BACKEND)",
        parcel->exporter, (int)sizeof card->backend, card->backend,
        am_setup.backend->name);
    AM_REQUIRE(attr != NULL && card->size > 0 && card->size <= SIZE_LIMIT &&
                   am_is_aligned(card->size, am_attr_granularity(attr)) &&
                   card->asked > 0 && card->asked <= card->size &&
                   (card->location_type == ACL_MEM_LOCATION_TYPE_DEVICE ||
                    card->location_type == ACL_MEM_LOCATION_TYPE_HOST ||
                    card->location_type == ACL_MEM_LOCATION_TYPE_HOST_NUMA),
               ACL_ERROR_RT_IPC_ERROR,
               "process %d describes memory that there is not: %" PRIu64
               " bytes of attribute %u at location type %u",
               parcel->exporter, card->size, card->attr, card->location_type);
    return ACL_SUCCESS;
}

/* The domain that the memory is used in, and what the program is told about it. */
static aclError import_place(const struct am_card *card, struct am_device *device,
                             struct am_import *import)
{
    bool is_device = card->location_type == ACL_MEM_LOCATION_TYPE_DEVICE;
    struct am_device *home = am_device_find_driver((uint32_t)card->location_id);

    import->prop = (aclrtPhysicalMemProp){
        .handleType = (aclrtMemHandleType)card->handle_type,
        .allocationType = (aclrtMemAllocationType)card->allocation_type,
        .memAttr = (aclrtMemAttr)card->attr,
        .location =
            {
                .id = is_device ? (uint32_t)device->id : (uint32_t)card->location_id,
                .type = (aclrtMemLocationType)card->location_type,
            },
    };
    import->home = !is_device ? -1 : home != NULL ? home->id : device->id;
    import->domain = am_domain_get(is_device ? &device->domain : &am_devices.host);
    AM_REQUIRE(import->domain != NULL, ACL_ERROR_UNINITIALIZE,
               "aclFinalize has been called");
    return ACL_SUCCESS;
}

/*
 * The memory counts as long as anybody has it.  Where the processes are configured
 * differently they have different devices, and this one's have nothing less for it.
 */
static aclError share_join(const struct am_card *card, struct am_import *import)
{
    struct am_ledger *ledger = import->domain->ledger;
    aclError rc;

    import->share = 0;
    if (card->share == 0 || ledger == NULL || am_ledger_id(ledger) != card->ledger)
        return ACL_SUCCESS;
    rc = am_ledger_share_join(ledger, card->share, card->location_id, card->size);
    if (rc == ACL_SUCCESS)
        import->share = card->share;
    return rc;
}

aclError am_card_read(const struct am_parcel *parcel, struct am_device *device,
                      struct am_import *ret_import)
{
    struct am_card card;
    aclError rc;

    memcpy(&card, parcel->bytes, sizeof card);
    rc = card_check(&card, parcel);
    if (rc != ACL_SUCCESS)
        return rc;
    ret_import->fd = parcel->fd;
    ret_import->size = card.size;
    ret_import->asked = card.asked;
    rc = import_place(&card, device, ret_import);
    if (rc != ACL_SUCCESS)
        return rc;
    rc = share_join(&card, ret_import);
    if (rc != ACL_SUCCESS)
        am_domain_put(ret_import->domain);
    return rc;
}
