/*
 * The messages between two processes that share.
 *
 * An importer sends a request, the exporter answers with one reply, with a descriptor
 * when the request is granted; then the next one.  Each is one message of fixed size on
 * a Unix socket that keeps messages apart.  Both sides check everything that they
 * receive: the peer may be of another version, or malicious.
 */
#ifndef AM_CORE_WIRE_H
#define AM_CORE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"

#define AM_WIRE_MAGIC UINT32_C(0x736d6361) /* "acms" */
#define AM_WIRE_VERSION 2
#define AM_WIRE_BYTES 112

/* The kind of a shared object. */
enum am_share_kind {
    AM_SHARE_MEMORY = 1, /* a handle of physical memory, by a number */
    AM_SHARE_BLOCK,      /* memory of aclrtMalloc, by a key */
    AM_SHARE_EVENT,
    AM_SHARE_NOTIFY,
    AM_SHARE_FABRIC, /* a handle of physical memory, by a fabric handle */
    AM_SHARE_KINDS,
};

/*
 * The handle of an export.  The number finds the exporter and the export.  It has 64
 * bits; kinds whose handle has room for more also have an unguessable secret.
 * AM_SHARE_MEMORY has none, and zeros there.
 */
struct am_share_handle {
    uint64_t number;
    uint64_t secret[2];
};

/* The answer, and why not. */
enum am_wire_status {
    AM_WIRE_GRANTED,
    AM_WIRE_REFUSED,         /* there is no such export, or it is not for this process */
    AM_WIRE_BAD_VERSION = 3, /* 2 and 5 were used by earlier versions */
    AM_WIRE_BAD_REQUEST,
};

struct am_wire_request {
    uint32_t magic;
    uint16_t version;
    uint16_t kind; /* enum am_share_kind */
    struct am_share_handle handle;
};

struct am_wire_reply {
    uint32_t magic;
    uint16_t version; /* the exporter's */
    uint16_t status;  /* enum am_wire_status */
    uint32_t kind;
    uint32_t size; /* of what bytes holds; the rest is zero */
    uint8_t bytes[AM_WIRE_BYTES];
};

_Static_assert(sizeof(struct am_wire_request) == 32, "the wire's format is fixed");
_Static_assert(sizeof(struct am_wire_reply) == 16 + AM_WIRE_BYTES, "as above");

struct am_wire_request am_wire_request(enum am_share_kind kind,
                                       const struct am_share_handle *share);
struct am_wire_reply am_wire_reply(enum am_wire_status status, enum am_share_kind kind,
                                   const void *bytes, size_t size);

/* AM_WIRE_GRANTED when the request makes sense. */
enum am_wire_status am_wire_check_request(const struct am_wire_request *request);

/*
 * Says why not when the request was not granted or the reply makes no sense; has_fd: a
 * descriptor came with it.
 */
aclError am_wire_check_reply(const struct am_wire_reply *reply,
                             const struct am_wire_request *request, bool has_fd,
                             int32_t exporter);

#endif
