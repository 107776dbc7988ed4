/*
 * Fabric handles, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC: the number and the secret of an export,
 * the machine that exports, and with ACLMEM_FABRIC the address where the memory is served.
 */
#include "backend/remote/internal.h"

#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/util.h"

#define HANDLE_MAGIC "aclmemF1"

struct content {
    char magic[8];
    uint8_t machine[AM_UUID_SIZE];
    struct am_share_handle ticket;
    struct am_port_place place;
    uint8_t zero[32];
    uint64_t check; /* 0 without a place */
};

_Static_assert(sizeof(struct content) == sizeof(aclrtMemFabricHandle), "they are one");

/* A checksum (FNV-1a): the address of a damaged handle is not used. */
static uint64_t content_check(const struct content *content)
{
    if (content->place.family == 0)
        return 0;
    return am_hash_add(AM_HASH_START, content, offsetof(struct content, check));
}

aclError am_fabric_handle_print(int directory, const struct am_share_handle *ticket,
                                aclrtMemFabricHandle *ret_handle)
{
    struct content content = {.ticket = *ticket};

    memcpy(content.magic, HANDLE_MAGIC, sizeof content.magic);
    am_machine_boot_id(content.machine);
    if (am_remote_is_wanted())
        AM_TRY(am_remote_start(directory, &content.place));
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

aclError am_fabric_handle_parse(const aclrtMemFabricHandle *handle,
                                struct am_fabric_handle *ret_parsed)
{
    static const struct content zero;
    struct content given;
    uint8_t machine[AM_UUID_SIZE];

    memcpy(&given, handle, sizeof given);
    AM_REQUIRE(memcmp(given.magic, HANDLE_MAGIC, sizeof given.magic) == 0 &&
                   memcmp(given.zero, zero.zero, sizeof zero.zero) == 0 &&
                   given.check == content_check(&given) && place_is_sane(&given.place),
               ACL_ERROR_RT_PARAM_INVALID,
               "shareableHandle is not a fabric handle of aclmem; pass all %zu bytes "
               "that aclrtMemExportToShareableHandleV2 returned",
               sizeof given);
    am_machine_boot_id(machine);
    *ret_parsed = (struct am_fabric_handle){
        .ticket = given.ticket,
        .is_here = memcmp(given.machine, machine, sizeof machine) == 0,
        .place = given.place,
    };
    return ACL_SUCCESS;
}
