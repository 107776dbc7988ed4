/* See fabric.h. */
#include "core/ipc/fabric.h"

#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/uuid.h"

static const char magic[8] = "aclmemF1";

struct content {
    char magic[sizeof magic];
    uint8_t machine[AM_UUID_SIZE];
    struct am_ticket ticket;
    uint8_t zero[80];
};

_Static_assert(sizeof(struct content) == sizeof(aclrtMemFabricHandle), "they are one");

static struct content content_of(const struct am_ticket *ticket)
{
    struct content content = {.ticket = *ticket};

    memcpy(content.magic, magic, sizeof magic);
    am_machine_boot_id(content.machine);
    return content;
}

void am_fabric_print(const struct am_ticket *ticket, aclrtMemFabricHandle *ret_handle)
{
    struct content content = content_of(ticket);

    memcpy(ret_handle, &content, sizeof content);
}

aclError am_fabric_parse(const aclrtMemFabricHandle *handle, struct am_ticket *ret_ticket)
{
    struct content given;
    struct content ours;

    memcpy(&given, handle, sizeof given);
    ours = content_of(&given.ticket);
    AM_REQUIRE(memcmp(given.magic, ours.magic, sizeof ours.magic) == 0 &&
                   memcmp(given.zero, ours.zero, sizeof ours.zero) == 0,
               ACL_ERROR_RT_PARAM_INVALID,
               "shareableHandle is not a fabric handle of aclmem; pass all %zu bytes "
               "that aclrtMemExportToShareableHandleV2 returned",
               sizeof given);
    AM_REQUIRE(
        memcmp(given.machine, ours.machine, sizeof ours.machine) == 0,
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "the fabric handle was exported on another machine, or before this one was "
        "started; this version shares within one machine only");
    *ret_ticket = given.ticket;
    return ACL_SUCCESS;
}
