/* See share.h. */
#include "core/share.h"

#include <bsd/sys/tree.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/attr.h"
#include "core/exchange.h"
#include "core/phys.h"
#include "core/runtime.h"

#define PENDING UINT64_C(1) /* a number that no exporter has: the export is under way */
#define SIZE_LIMIT (64 * AM_TIB)

/* What an importer is told about the memory. */
struct card {
    uint64_t size;
    uint64_t asked;
    uint32_t handle_type;
    uint32_t allocation_type;
    uint32_t attr;
    uint32_t location_type;
    int32_t location_id; /* of a device: the driver's id */
    char backend[12];
};

_Static_assert(sizeof(struct card) <= AM_WIRE_BYTES, "a card fits into a reply");

/* ---- export ---- */

static aclError backend_check(void)
{
    AM_REQUIRE(am_rt.backend->caps & AM_CAP_SHARE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the %s backend cannot share memory", am_rt.backend->name);
    return ACL_SUCCESS;
}

static struct card card_of(const struct am_phys *phys)
{
    const aclrtMemLocation *location = &phys->prop.location;
    struct card card = {
        .size = phys->mem.size,
        .asked = phys->asked,
        .handle_type = (uint32_t)phys->prop.handleType,
        .allocation_type = (uint32_t)phys->prop.allocationType,
        .attr = (uint32_t)phys->prop.memAttr,
        .location_type = (uint32_t)location->type,
        .location_id = (int32_t)location->id,
    };

    if (phys->place->device >= 0)
        card.location_id = am_rt.devices.device[phys->place->device].driver_id;
    snprintf(card.backend, sizeof card.backend, "%s", phys->mem.bank->ops->name);
    return card;
}

/* One export at a time, and one in all while the handle lives. */
static aclError export_begin(struct am_phys *phys)
{
    uint64_t exported;

    am_lock(&am_rt.vspace.lock);
    exported = phys->exported;
    if (exported == 0 && phys->imported == 0)
        phys->exported = PENDING;
    am_unlock(&am_rt.vspace.lock);
    AM_REQUIRE(phys->imported == 0, ACL_ERROR_RT_PARAM_INVALID,
               "handle %p was imported; only the process that allocated it exports it",
               phys->handle);
    AM_REQUIRE(exported == 0, ACL_ERROR_RT_PARAM_INVALID,
               "handle %p is exported already, as 0x%016" PRIx64
               "; a handle is exported once: keep the number",
               phys->handle, exported);
    return ACL_SUCCESS;
}

/* The number takes effect, unless the handle died meanwhile. */
static aclError export_end(struct am_phys *phys, uint64_t number)
{
    bool is_dead;

    am_lock(&am_rt.vspace.lock);
    is_dead = phys->handle_refs == 0;
    phys->exported = is_dead ? 0 : number;
    am_unlock(&am_rt.vspace.lock);
    if (!is_dead)
        return ACL_SUCCESS;
    am_exchange_withdraw(number);
    return number == 0
               ? ACL_SUCCESS
               : am_fail(ACL_ERROR_RT_INVALID_HANDLE,
                         "handle %p was freed while it was exported", phys->handle);
}

static aclError phys_export(struct am_phys *phys, bool is_open, uint64_t *ret_number)
{
    struct card card = card_of(phys);
    uint64_t number = 0;
    int fd;
    aclError rc = export_begin(phys);

    if (rc != ACL_SUCCESS)
        return rc;
    rc = phys->mem.bank->ops->mem_export(&phys->mem, &fd);
    if (rc == ACL_SUCCESS)
        rc = am_exchange_offer(AM_SHARE_MEMORY, is_open, fd, &card, sizeof card, &number);
    if (rc != ACL_SUCCESS) {
        export_end(phys, 0);
        return rc;
    }
    rc = export_end(phys, number);
    if (rc == ACL_SUCCESS)
        *ret_number = number;
    return rc;
}

aclError am_share_export(void *handle, bool is_open, uint64_t *ret_number)
{
    struct am_phys *phys;
    aclError rc = backend_check();

    if (rc == ACL_SUCCESS)
        rc = am_phys_get(handle, &phys);
    if (rc != ACL_SUCCESS)
        return rc;
    rc = phys_export(phys, is_open, ret_number);
    am_phys_put(phys);
    return rc;
}

aclError am_share_trust(uint64_t number, const int32_t *ids, size_t n)
{
    return am_exchange_trust(AM_SHARE_MEMORY, number, ids, n);
}

void am_share_end(struct am_phys *phys)
{
    uint64_t number;

    am_lock(&am_rt.vspace.lock);
    number = phys->exported;
    if (number != PENDING)
        phys->exported = 0;
    am_unlock(&am_rt.vspace.lock);
    if (number != 0 && number != PENDING)
        am_exchange_withdraw(number);
}

/* ---- import ---- */

/* A number that this process has imported, or is importing. */
struct imported {
    RB_ENTRY(imported) node;
    uint64_t number;
};

static int imported_compare(const struct imported *a, const struct imported *b)
{
    return (a->number > b->number) - (a->number < b->number);
}

RB_HEAD(imported_tree, imported);
RB_GENERATE_INTERNAL(imported_tree, imported, node, imported_compare,
                     __attribute__((unused)) static)

static struct {
    struct am_lock lock;
    struct imported_tree tree; /* lock */
} imports = {.lock = AM_LOCK_INIT(AM_RANK_LEAF, "imports")};

/* Claims the number for one import. */
static aclError import_begin(uint64_t number)
{
    struct imported *imported = am_sys_malloc(sizeof *imported);
    bool is_there;

    if (imported == NULL)
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the books of an import");
    imported->number = number;
    am_lock(&imports.lock);
    is_there = RB_INSERT(imported_tree, &imports.tree, imported) != NULL;
    am_unlock(&imports.lock);
    if (!is_there)
        return ACL_SUCCESS;
    free(imported);
    return am_fail(ACL_ERROR_RT_PARAM_INVALID,
                   "0x%016" PRIx64
                   " is imported in this process already, and its memory is in use; free "
                   "that handle and unmap it first",
                   number);
}

void am_share_forget(uint64_t number)
{
    struct imported key = {.number = number};
    struct imported *imported;

    am_lock(&imports.lock);
    imported = RB_FIND(imported_tree, &imports.tree, &key);
    if (imported != NULL)
        RB_REMOVE(imported_tree, &imports.tree, imported);
    am_unlock(&imports.lock);
    free(imported);
}

static aclError card_check(const struct card *card, const struct am_parcel *parcel)
{
    const struct am_attr *attr = am_attr_find((aclrtMemAttr)card->attr);
    bool is_device = card->location_type == ACL_MEM_LOCATION_TYPE_DEVICE;
    /* The host's memory is the host backend's everywhere. */
    const char *backend = is_device ? am_rt.backend->name : "host";

    AM_REQUIRE(
        strncmp(card->backend, backend, sizeof card->backend) == 0,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "process %d has the %.*s backend and this one the %s backend; both need the same "
        "(ACLMEM_BACKEND)",
        parcel->exporter, (int)sizeof card->backend, card->backend, am_rt.backend->name);
    AM_REQUIRE(parcel->size == sizeof *card && attr != NULL && card->size > 0 &&
                   card->size <= SIZE_LIMIT &&
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

/* The place that the memory is used in, and what the program is told about it. */
static aclError import_place(const struct card *card, struct am_device *device,
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
    import->place = am_place_get(is_device ? &device->place : &am_rt.devices.host);
    AM_REQUIRE(import->place != NULL, ACL_ERROR_UNINITIALIZE,
               "aclFinalize has been called");
    return ACL_SUCCESS;
}

static aclError import_parcel(uint64_t number, const struct am_parcel *parcel,
                              struct am_device *device, void **ret_handle)
{
    struct am_import import = {.number = number, .fd = parcel->fd};
    struct card card;
    aclError rc;

    memcpy(&card, parcel->bytes, sizeof card);
    rc = card_check(&card, parcel);
    if (rc == ACL_SUCCESS)
        rc = import_place(&card, device, &import);
    if (rc != ACL_SUCCESS) {
        am_share_forget(number);
        return rc;
    }
    import.size = card.size;
    import.asked = card.asked;
    return am_phys_import(&import, ret_handle); /* which has the claim from here on */
}

aclError am_share_import(uint64_t number, struct am_device *device, void **ret_handle)
{
    struct am_parcel parcel;
    aclError rc = backend_check();

    if (rc != ACL_SUCCESS)
        return rc;
    AM_REQUIRE(!am_rt.is_strict || !am_exchange_is_own(AM_SHARE_MEMORY, number),
               ACL_ERROR_RT_PARAM_INVALID,
               "0x%016" PRIx64
               " is exported by this process, and no edition lets it import that "
               "(ACLMEM_RULES=strict)",
               number);
    rc = import_begin(number);
    if (rc != ACL_SUCCESS)
        return rc;
    rc = am_exchange_fetch(AM_SHARE_MEMORY, number, &parcel);
    if (rc != ACL_SUCCESS) {
        am_share_forget(number);
        return rc;
    }
    rc = import_parcel(number, &parcel, device, ret_handle);
    close(parcel.fd);
    return rc;
}
