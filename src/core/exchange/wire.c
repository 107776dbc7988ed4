/* See wire.h. */
#include "core/exchange/wire.h"

#include <inttypes.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"

struct am_wire_request am_wire_request(enum am_share_kind kind,
                                       const struct am_share_handle *share)
{
    return (struct am_wire_request){
        .magic = AM_WIRE_MAGIC,
        .version = AM_WIRE_VERSION,
        .kind = (uint16_t)kind,
        .handle = *share,
    };
}

struct am_wire_reply am_wire_reply(enum am_wire_status status, enum am_share_kind kind,
                                   const void *bytes, size_t size)
{
    struct am_wire_reply reply = {
        .magic = AM_WIRE_MAGIC,
        .version = AM_WIRE_VERSION,
        .status = (uint16_t)status,
        .kind = kind,
        .size = (uint32_t)size,
    };

    am_assert(size <= sizeof reply.bytes);
    if (size > 0)
        memcpy(reply.bytes, bytes, size);
    return reply;
}

enum am_wire_status am_wire_check_request(const struct am_wire_request *request)
{
    if (request->magic != AM_WIRE_MAGIC)
        return AM_WIRE_BAD_REQUEST;
    if (request->version != AM_WIRE_VERSION)
        return AM_WIRE_BAD_VERSION;
    if (request->kind == 0 || request->kind >= AM_SHARE_KINDS)
        return AM_WIRE_BAD_REQUEST;
    return AM_WIRE_GRANTED;
}

/* The call that lets a process import. */
static const char *list_call(enum am_share_kind kind)
{
    switch (kind) {
    case AM_SHARE_BLOCK:
        return "aclrtIpcMemSetImportPid";
    case AM_SHARE_NOTIFY:
        return "aclrtNotifySetImportPid";
    case AM_SHARE_FABRIC:
        return "aclrtMemSetPidToShareableHandleV2";
    default:
        return "aclrtMemSetPidToShareableHandle";
    }
}

aclError am_wire_check_reply(const struct am_wire_reply *reply,
                             const struct am_wire_request *request, bool has_fd,
                             int32_t exporter)
{
    AM_REQUIRE(reply->magic == AM_WIRE_MAGIC, ACL_ERROR_RT_IPC_ERROR,
               "process %d answered with an invalid reply", exporter);
    AM_REQUIRE(reply->version == AM_WIRE_VERSION && reply->status != AM_WIRE_BAD_VERSION,
               ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
               "process %d uses version %u of the sharing protocol, and this process "
               "version %d; both must load the same aclmem",
               exporter, reply->version, AM_WIRE_VERSION);
    AM_REQUIRE(
        reply->status != AM_WIRE_REFUSED, ACL_ERROR_RT_NO_PERMISSION,
        "process %d does not let process %d import 0x%016" PRIx64
        ": the memory was freed there, or the number is wrong, or this process is not "
        "listed; call %s there with the id that aclrtDeviceGetBareTgid returns here, or "
        "export without validation of process ids",
        exporter, (int)getpid(), request->handle.number, list_call(request->kind));
    AM_REQUIRE(reply->status == AM_WIRE_GRANTED, ACL_ERROR_RT_IPC_ERROR,
               "process %d did not understand the request for 0x%016" PRIx64
               " (answer %u)",
               exporter, request->handle.number, reply->status);
    AM_REQUIRE(
        has_fd && reply->kind == request->kind && reply->size <= sizeof reply->bytes,
        ACL_ERROR_RT_IPC_ERROR,
        "process %d sent an invalid answer: kind %u for %u, %u bytes, %s descriptor",
        exporter, reply->kind, request->kind, reply->size, has_fd ? "a" : "no");
    return ACL_SUCCESS;
}
