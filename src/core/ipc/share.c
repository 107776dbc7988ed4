/* See share.h. */
#include "core/ipc/share.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/remote/remote.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/attr.h"
#include "core/device/device.h"
#include "core/device/setup.h"
#include "core/ledger/ledger.h"
#include "core/ledger/rundir.h"
#include "core/vmm/phys.h"

#define SIZE_LIMIT (64 * AM_TIB)

/* The description of memory that an exporter sends; an importer checks every value in it. */
struct export_desc {
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

_Static_assert(sizeof(struct export_desc) <= AM_WIRE_BYTES, "a desc fits into a reply");

/* ---- description ---- */

/* `asked` are the bytes that the importer may use. */
static struct export_desc desc_make(const struct am_phys *phys, size_t asked)
{
    aclrtPhysicalMemProp prop = am_phys_prop(phys);
    struct export_desc desc = {
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

static aclError desc_check(const struct export_desc *desc,
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
static aclError import_place(const struct export_desc *desc, struct am_device *device,
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

aclError am_share_read_desc(const struct am_import_reply *reply, struct am_device *device,
                            struct am_import *ret_import)
{
    struct export_desc desc;
    struct am_ledger *ledger;

    memcpy(&desc, reply->bytes, sizeof desc);
    AM_TRY(desc_check(&desc, reply));
    ret_import->fd = reply->fd;
    ret_import->size = desc.size;
    ret_import->asked = desc.asked;
    AM_TRY(import_place(&desc, device, ret_import));
    /*
     * The memory counts as long as a process has it.  Processes with other options have
     * other devices, and an import does not count there.
     */
    ledger = ret_import->domain->ledger;
    ret_import->share = 0;
    if (desc.share == 0 || ret_import->domain->device < 0 ||
        am_ledger_id(ledger) != desc.ledger)
        return ACL_SUCCESS;
    AM_TRY(am_ledger_share_join(ledger, desc.share, desc.location_id, desc.size));
    ret_import->share = desc.share;
    return ACL_SUCCESS;
}

/* ---- export ---- */

aclError am_share_check(void)
{
    AM_REQUIRE(am_setup.backend->caps & AM_CAP_SHARE, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the %s backend cannot share memory", am_setup.backend->name);
    return ACL_SUCCESS;
}

/* One export at a time, and one in all while the handle lives. */
static aclError export_begin(struct am_phys *phys)
{
    unsigned export;
    uint64_t number;

    AM_REQUIRE(
        !phys->is_imported, ACL_ERROR_RT_PARAM_INVALID,
        "the memory was imported; only the process that allocated it can export it");
    am_latch_take(&phys->lock);
    export = phys->export;
    number = phys->share_number;
    if (export == AM_EXPORT_NONE)
        phys->export = AM_EXPORT_BEGUN;
    am_latch_give(&phys->lock);
    AM_REQUIRE(export != AM_EXPORT_BEGUN, ACL_ERROR_RT_PARAM_INVALID,
               "the memory is being exported by another thread; memory is exported only "
               "once");
    AM_REQUIRE(export == AM_EXPORT_NONE, ACL_ERROR_RT_PARAM_INVALID,
               "the memory is already exported, as 0x%016" PRIx64
               "; memory is exported only once",
               number);
    return ACL_SUCCESS;
}

/* The number takes effect, unless another thread has freed the handle. */
static aclError export_end(struct am_phys *phys, uint64_t number)
{
    bool is_dead;

    am_latch_take(&phys->lock);
    is_dead = phys->is_program && phys->handle_refs == 0;
    phys->export = is_dead || number == 0 ? AM_EXPORT_NONE : AM_EXPORT_DONE;
    if (number != 0)
        phys->share_number = number;
    am_latch_give(&phys->lock);
    if (!is_dead)
        return ACL_SUCCESS;
    am_export_withdraw(number);
    return number == 0
               ? ACL_SUCCESS
               : am_fail(ACL_ERROR_RT_INVALID_HANDLE,
                         "handle %p was freed while it was exported", phys->named.handle);
}

/* Serves the memory to other machines, too. */
static aclError offer_remote(struct am_phys *phys, bool is_open, int fd,
                             const struct export_desc *desc,
                             const struct am_share_handle *share)
{
    int directory;

    AM_TRY(am_rundir_open(&directory));
    AM_REQUIRE(phys->mem.bank->ops->caps & AM_CAP_FABRIC,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "memory of the %s backend cannot be reached over the network; unset "
               "ACLMEM_FABRIC to share it within this machine",
               phys->mem.bank->ops->name);
    return am_remote_export(directory, share, is_open, fd, phys->mem.size, desc,
                            sizeof *desc);
}

aclError am_share_offer(struct am_phys *phys, enum am_share_kind kind, size_t asked,
                        bool is_open, struct am_share_handle *ret_share)
{
    struct export_desc desc;
    bool is_remote = kind == AM_SHARE_FABRIC && am_remote_is_wanted();
    struct am_export what = {
        .kind = kind,
        .is_open = is_open,
        .object = &phys->named,
        .withdrawn = is_remote ? am_remote_withdraw : NULL,
        .size = sizeof desc,
    };
    struct am_share_handle share;
    int fd;
    aclError rc;

    AM_TRY(export_begin(phys));
    rc = phys->mem.bank->ops->mem_export(&phys->mem, &fd);
    /* If a later step fails, the completed steps stay: the next try uses them. */
    if (rc == ACL_SUCCESS && phys->share == 0 && phys->domain->device >= 0)
        rc = am_ledger_share_add(phys->domain->ledger, phys->domain->column,
                                 phys->charged_by, phys->mem.size, &phys->share);
    if (rc == ACL_SUCCESS) {
        desc = desc_make(phys, asked);
        memcpy(what.bytes, &desc, sizeof desc);
        what.fd = fd;
        rc = am_export_add(&what, &share);
    }
    if (rc == ACL_SUCCESS && is_remote) {
        rc = offer_remote(phys, is_open, fd, &desc, &share);
        if (rc != ACL_SUCCESS)
            am_export_withdraw(share.number);
    }
    if (rc != ACL_SUCCESS) {
        export_end(phys, 0);
        return rc;
    }
    rc = export_end(phys, share.number);
    if (rc == ACL_SUCCESS)
        *ret_share = share;
    return rc;
}

aclError am_share_export(void *handle, enum am_share_kind kind, bool is_open,
                         struct am_share_handle *ret_share)
{
    struct am_phys *phys;
    aclError rc;

    AM_TRY(am_share_check());
    AM_TRY(am_phys_get(handle, &phys));
    rc = am_share_offer(phys, kind, phys->asked, is_open, ret_share);
    am_phys_put(phys);
    return rc;
}

aclError am_share_trust(enum am_share_kind kind, const struct am_share_handle *share,
                        const int32_t *ids, size_t n)
{
    bool is_fabric = kind == AM_SHARE_FABRIC && am_remote_is_wanted();
    aclError rc = am_export_trust(kind, share, ids, n, is_fabric);

    return rc == ACL_SUCCESS && is_fabric ? am_remote_trust(share, ids, n) : rc;
}

/* ---- import ---- */

aclError am_share_fetch(enum am_share_kind kind, const struct am_share_handle *share,
                        struct am_device *device, struct am_import *ret_import)
{
    bool is_own = am_export_is_own(kind, share);
    uint64_t number = share->number;
    struct am_import import;
    struct am_import_reply reply;
    aclError rc;

    AM_TRY(am_share_check());
    AM_REQUIRE(!am_setup.is_strict || !is_own, ACL_ERROR_RT_PARAM_INVALID,
               "0x%016" PRIx64 " is exported by this process, and no edition lets a "
               "process import its own export (ACLMEM_RULES=strict)",
               number);
    AM_TRY(am_import_claim(number));
    rc = am_import_fetch(kind, share, &reply);
    if (rc != ACL_SUCCESS)
        goto err_claim;
    rc = am_share_read_desc(&reply, device, &import);
    if (rc != ACL_SUCCESS)
        goto err_reply;
    import.number = number;
    import.is_own = is_own;
    import.remote = NULL;
    *ret_import = import;
    return ACL_SUCCESS;

err_reply:
    close(reply.fd);
err_claim:
    am_import_release(number);
    return rc;
}

aclError am_share_import(enum am_share_kind kind, const struct am_share_handle *share,
                         struct am_device *device, void **ret_handle)
{
    struct am_import import;
    aclError rc;

    AM_TRY(am_share_fetch(kind, share, device, &import));
    rc = am_phys_import(&import, ret_handle);
    close(import.fd);
    return rc;
}

/* ---- fabric handles ---- */

#define FABRIC_MAGIC "aclmemF1"

/*
 * ACL_MEM_SHARE_HANDLE_TYPE_FABRIC: the number and the secret of an export, the machine that
 * exports, and with ACLMEM_FABRIC the address where the memory is served.
 */
struct fabric_handle {
    char magic[8];
    uint8_t machine[AM_UUID_SIZE]; /* the id of its start */
    struct am_share_handle ticket;
    struct am_port_place place; /* family 0: not on a network */
    uint8_t zero[32];
    uint64_t check; /* 0 without a place */
};

_Static_assert(sizeof(struct fabric_handle) == sizeof(aclrtMemFabricHandle),
               "they are one");

/* A checksum (FNV-1a): the address of a damaged handle is not used. */
static uint64_t fabric_check(const struct fabric_handle *fabric)
{
    if (fabric->place.family == 0)
        return 0;
    return am_hash_add(AM_HASH_START, fabric, offsetof(struct fabric_handle, check));
}

aclError am_share_print_fabric(const struct am_share_handle *share,
                               aclrtMemFabricHandle *ret_handle)
{
    struct fabric_handle fabric = {.ticket = *share};
    int directory;

    memcpy(fabric.magic, FABRIC_MAGIC, sizeof fabric.magic);
    am_machine_boot_id(fabric.machine);
    AM_TRY(am_rundir_open(&directory));
    if (am_remote_is_wanted())
        AM_TRY(am_remote_start(directory, &fabric.place));
    fabric.check = fabric_check(&fabric);
    memcpy(ret_handle, &fabric, sizeof fabric);
    return ACL_SUCCESS;
}

static bool place_is_sane(const struct am_port_place *place)
{
    static const struct am_port_place none;

    if (place->family == 0)
        return memcmp(place, &none, sizeof none) == 0;
    return place->family == 4 && place->zero == 0 && place->port != 0;
}

static aclError fabric_parse(const aclrtMemFabricHandle *handle,
                             struct fabric_handle *ret_fabric)
{
    static const struct fabric_handle none;
    struct fabric_handle given;

    memcpy(&given, handle, sizeof given);
    AM_REQUIRE(memcmp(given.magic, FABRIC_MAGIC, sizeof given.magic) == 0 &&
                   memcmp(given.zero, none.zero, sizeof none.zero) == 0 &&
                   given.check == fabric_check(&given) && place_is_sane(&given.place),
               ACL_ERROR_RT_PARAM_INVALID,
               "shareableHandle is not a fabric handle of aclmem; pass all %zu bytes "
               "that aclrtMemExportToShareableHandleV2 returned",
               sizeof given);
    *ret_fabric = given;
    return ACL_SUCCESS;
}

aclError am_share_parse_fabric(const aclrtMemFabricHandle *handle,
                               struct am_share_handle *ret_share)
{
    struct fabric_handle fabric;

    AM_TRY(fabric_parse(handle, &fabric));
    *ret_share = fabric.ticket;
    return ACL_SUCCESS;
}

/* Whether this machine exported it since it was booted. */
static bool is_here(const struct fabric_handle *fabric)
{
    uint8_t machine[AM_UUID_SIZE];

    am_machine_boot_id(machine);
    return memcmp(fabric->machine, machine, sizeof machine) == 0;
}

/* Imports over the network. */
static aclError import_remote(const struct fabric_handle *fabric,
                              struct am_device *device, void **ret_handle)
{
    const char *where = is_here(fabric)
                            ? "with another runtime directory"
                            : "on another machine, or before this one was started";
    uint64_t number = fabric->ticket.number;
    struct am_port_imported remote;
    struct am_mem mem;
    struct am_import_reply reply = {.fd = -1};
    struct am_import import;
    int directory;
    aclError rc;

    AM_REQUIRE(fabric->place.family != 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the fabric handle was exported %s, by a process without ACLMEM_FABRIC; "
               "set it there and here to share between machines",
               where);
    AM_REQUIRE(am_remote_is_wanted(), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the fabric handle was exported %s; set ACLMEM_FABRIC and "
               "ACLMEM_FABRIC_KEY to reach it",
               where);
    AM_TRY(am_share_check());
    AM_TRY(am_rundir_open(&directory));
    AM_TRY(am_import_claim(number));
    rc = am_remote_import(directory, &fabric->place, &fabric->ticket, &mem, &remote);
    if (rc != ACL_SUCCESS)
        goto err_claim;
    reply.exporter = remote.pid;
    reply.size = remote.n_bytes;
    memcpy(reply.bytes, remote.bytes, sizeof remote.bytes);
    rc = am_share_read_desc(&reply, device, &import);
    if (rc != ACL_SUCCESS)
        goto err_remote;
    import.number = number;
    import.is_own = false;
    import.remote = &mem;
    if (import.home >= 0)
        import.home = device->id; /* the exporter's devices are not this machine's */
    return am_phys_import(&import, ret_handle);

err_remote:
    mem.bank->ops->mem_destroy(&mem);
err_claim:
    am_import_release(number);
    return rc;
}

/*
 * On this machine first.  The runtime directory may be another container's, with no such
 * socket or the socket of another process: then the network is tried, and its result counts.
 */
aclError am_share_import_fabric(const aclrtMemFabricHandle *handle,
                                struct am_device *device, void **ret_handle)
{
    char why[1024] = "";
    struct fabric_handle fabric;
    aclError rc;

    AM_TRY(fabric_parse(handle, &fabric));
    if (!is_here(&fabric))
        return import_remote(&fabric, device, ret_handle);
    if (fabric.place.family == 0 || am_export_is_own(AM_SHARE_FABRIC, &fabric.ticket))
        return am_share_import(AM_SHARE_FABRIC, &fabric.ticket, device, ret_handle);
    rc =
        AM_CAPTURED(why, sizeof why,
                    am_share_import(AM_SHARE_FABRIC, &fabric.ticket, device, ret_handle));
    if (rc == ACL_ERROR_RT_NO_PERMISSION && am_remote_is_wanted())
        return import_remote(&fabric, device, ret_handle);
    AM_REQUIRE(rc != ACL_ERROR_RT_NO_PERMISSION, rc,
               "%s; where the exporter is in another container, set ACLMEM_FABRIC and "
               "ACLMEM_FABRIC_KEY to reach it",
               am_error_text(why));
    AM_REQUIRE(rc == ACL_SUCCESS, rc, "%s", am_error_text(why));
    return ACL_SUCCESS;
}
