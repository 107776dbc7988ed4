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
#include "core/exchange/wire.h"

#define AM_EXCHANGE_WAIT_MS 3000

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

#endif
