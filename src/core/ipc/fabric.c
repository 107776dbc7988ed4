/* See fabric.h. */
#include "core/ipc/fabric.h"

#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/uuid.h"
#include "core/exchange/exchange.h"
#include "core/ipc/share.h"
#include "core/remote/remote.h"

static const char magic[8] = "aclmemF1";

struct content {
    char magic[sizeof magic];
    uint8_t machine[AM_UUID_SIZE];
    struct am_ticket ticket;
    struct am_port_place place;
    uint8_t zero[32];
    uint64_t check; /* 0 without a place */
};

_Static_assert(sizeof(struct content) == sizeof(aclrtMemFabricHandle), "they are one");

/*
 * Tells a handle that was damaged on its way before its address is used.  It is no secret:
 * the ticket is.  (FNV-1a.)
 */
static uint64_t content_check(const struct content *content)
{
    const uint8_t *bytes = (const uint8_t *)content;
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    if (content->place.family == 0)
        return 0;
    for (size_t i = 0; i < offsetof(struct content, check); i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

aclError am_fabric_print(const struct am_ticket *ticket, aclrtMemFabricHandle *ret_handle)
{
    struct content content = {.ticket = *ticket};

    memcpy(content.magic, magic, sizeof magic);
    am_machine_boot_id(content.machine);
    if (am_remote_is_wanted())
        AM_TRY(am_remote_start(&content.place));
    content.check = content_check(&content);
    memcpy(ret_handle, &content, sizeof content);
    return ACL_SUCCESS;
}

static bool place_is_sane(const struct am_port_place *place)
{
    static const struct am_port_place none;

    if (place->family == 0)
        return memcmp(place, &none, sizeof none) == 0;
    return place->family == 4 && place->zero == 0 && place->port != 0;
}

aclError am_fabric_parse(const aclrtMemFabricHandle *handle, struct am_fabric *ret_fabric)
{
    static const struct content zero;
    struct content given;
    uint8_t machine[AM_UUID_SIZE];

    memcpy(&given, handle, sizeof given);
    AM_REQUIRE(memcmp(given.magic, magic, sizeof magic) == 0 &&
                   memcmp(given.zero, zero.zero, sizeof zero.zero) == 0 &&
                   given.check == content_check(&given) && place_is_sane(&given.place),
               ACL_ERROR_RT_PARAM_INVALID,
               "shareableHandle is not a fabric handle of aclmem; pass all %zu bytes "
               "that aclrtMemExportToShareableHandleV2 returned",
               sizeof given);
    am_machine_boot_id(machine);
    *ret_fabric = (struct am_fabric){
        .ticket = given.ticket,
        .is_here = memcmp(given.machine, machine, sizeof machine) == 0,
        .place = given.place,
    };
    return ACL_SUCCESS;
}

/* An export that is not reached on this machine. */
static aclError import_remote(const struct am_fabric *fabric, struct am_device *device,
                              void **ret_handle)
{
    const char *where = fabric->is_here
                            ? "with another runtime directory"
                            : "on another machine, or before this one was started";

    AM_REQUIRE(fabric->place.family != 0, ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the fabric handle was exported %s, by a process without ACLMEM_FABRIC; "
               "set it there and here to share between machines",
               where);
    AM_REQUIRE(am_remote_is_wanted(), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "the fabric handle was exported %s; set ACLMEM_FABRIC and "
               "ACLMEM_FABRIC_KEY to reach it",
               where);
    return am_share_import_remote(&fabric->place, &fabric->ticket, device, ret_handle);
}

/*
 * On this machine first.  The runtime directory may be another container's, with no such
 * socket or another process's: then the network is tried, and its answer counts.
 */
aclError am_fabric_import(const aclrtMemFabricHandle *handle, struct am_device *device,
                          void **ret_handle)
{
    char why[1024] = "";
    struct am_fabric fabric;
    struct am_capture before;
    aclError rc;

    AM_TRY(am_fabric_parse(handle, &fabric));
    if (!fabric.is_here)
        return import_remote(&fabric, device, ret_handle);
    if (fabric.place.family == 0 || am_export_is_own(AM_SHARE_FABRIC, &fabric.ticket))
        return am_share_import(AM_SHARE_FABRIC, &fabric.ticket, device, ret_handle);
    before = am_error_capture(why, sizeof why);
    rc = am_share_import(AM_SHARE_FABRIC, &fabric.ticket, device, ret_handle);
    am_error_capture_end(before);
    if (rc == ACL_ERROR_RT_NO_PERMISSION && am_remote_is_wanted())
        return import_remote(&fabric, device, ret_handle);
    AM_REQUIRE(rc != ACL_ERROR_RT_NO_PERMISSION, rc,
               "%s; where the exporter is in another container, set ACLMEM_FABRIC and "
               "ACLMEM_FABRIC_KEY to reach it",
               am_error_words(why));
    AM_REQUIRE(rc == ACL_SUCCESS, rc, "%s", am_error_words(why));
    return ACL_SUCCESS;
}
