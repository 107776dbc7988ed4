/*
 * How a process imports an object that another process exports.
 *
 * Both sides of one mechanism.  A process exports an object that has a descriptor, and
 * gets a handle for it, which its program passes to other processes in any way it likes.
 * From the first export on, a thread answers on a socket in the runtime directory.  An
 * importer presents the handle: the exporter gets the importer's identity from the
 * kernel, checks its permission, and sends the descriptor and a few bytes that describe
 * the object.
 *
 * The number of a handle is
 *
 *     exporter (24 bits) | random (40)
 *
 * The first part is the name of the exporter's socket.  Most kinds also have a secret of
 * 128 random bits.  Exporter and importer belong to the same user.
 *
 * An importer waits at most AM_EXCHANGE_WAIT_MS in all, with no lock held and with its read
 * section suspended: aclFinalize does not wait for the importer.
 */
#ifndef AM_CORE_EXCHANGE_H
#define AM_CORE_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl_base.h"
#include "base/handle.h"
#include "base/share_handle.h"

#define AM_EXCHANGE_WAIT_MS 3000
#define AM_WIRE_BYTES 112 /* that describe an object to importers */

/* The kind of a shared object. */
enum am_share_kind {
    AM_SHARE_MEMORY = 1, /* a handle of physical memory, by a number */
    AM_SHARE_BLOCK,      /* memory of aclrtMalloc, by a key */
    AM_SHARE_EVENT,
    AM_SHARE_NOTIFY,
    AM_SHARE_FABRIC, /* a handle of physical memory, by a fabric handle */
    AM_SHARE_KINDS,
};

/* What a process exports. */
struct am_export {
    enum am_share_kind kind;
    bool is_open; /* for any process of this user, or for those of am_export_trust() */
    int fd;       /* the caller's, and open until the export is withdrawn */
    /* of am_export_get(), and withdraws the export before it ends; or NULL */
    struct am_named *object;
    void (*withdrawn)(uint64_t number); /* NULL, or called when it is withdrawn */
    uint32_t size;                      /* of the bytes that describe it to importers */
    uint8_t bytes[AM_WIRE_BYTES];
};

aclError am_export_add(const struct am_export *what, struct am_share_handle *ret_share);

/*
 * Lists processes, by ids of aclrtDeviceGetBareTgid, for an export of ours: all of them or
 * none.  The processes that have the ids now are listed, not processes that get them later.  may_miss:
 * ids that no process of this machine has may be those of other machines, and are left
 * out.
 */
aclError am_export_trust(enum am_share_kind kind, const struct am_share_handle *share,
                         const int32_t *ids, size_t n, bool may_miss);

/* Ends the export; does nothing for a number that is not an export of this process. */
void am_export_withdraw(uint64_t number);

/* Whether this process exports it. */
bool am_export_is_own(enum am_share_kind kind, const struct am_share_handle *share);
/* Its object with one more reference; NULL: it is not exported, or its object ends. */
struct am_named *am_export_get(enum am_share_kind kind,
                               const struct am_share_handle *share);
/* The handle of an export of ours; false if the number is not exported. */
bool am_export_find(enum am_share_kind kind, uint64_t number,
                    struct am_share_handle *ret_share);

/*
 * A process imports memory by a number once at a time: claims the number, or fails with
 * 107000.  The release of a number that is not claimed has no effect.
 */
aclError am_import_claim(uint64_t number);
void am_import_release(uint64_t number);

/* The result of an import. The descriptor is the caller's. */
struct am_import_reply {
    int fd;
    uint32_t size;
    uint8_t bytes[AM_WIRE_BYTES];
    int32_t exporter; /* its process id, for messages */
};

/*
 * 207006: not for this process, or not there (any more).  507022: the exporter does not
 * answer, or not sensibly.
 */
aclError am_import_fetch(enum am_share_kind kind, const struct am_share_handle *share,
                         struct am_import_reply *ret_reply);

/* At the start of the library, and at its stop: exports and connections go then. */
void am_exchange_start(void);
void am_exchange_stop(void);

/* In the child of a fork, which must not keep its parent's peers waiting. */
void am_exchange_forget(void);

/*
 * ---- messages ----
 *
 * An importer sends a request, the exporter answers with one reply, with a descriptor
 * when the request is granted; then the next one.  Each is one message of fixed size on
 * a Unix socket that keeps messages apart.  Both sides check everything that they
 * receive: the peer may be of another version, or malicious.
 */

#define AM_WIRE_MAGIC UINT32_C(0x736d6361) /* "acms" */
#define AM_WIRE_VERSION 2

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
