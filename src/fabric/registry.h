/*
 * The export registry: which memory is exported, to which processes, and which processes
 * have imported it.
 *
 * Memory is removed when its export is withdrawn and the last importer has released it.  An
 * importer may be disconnected; the registry keeps its grants until the lease has passed.
 * Plain data and decisions: no sockets, no UCX.
 */
#ifndef AM_FABRIC_REGISTRY_H
#define AM_FABRIC_REGISTRY_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fabric/frame.h"
#include "fabric/message.h"

struct am_registry;

struct am_registry_export {
    RB_ENTRY(am_registry_export) node;
    struct am_registry *registry;
    struct am_share_handle ticket;
    bool is_open;
    bool is_withdrawn;
    int32_t *pids; /* the importers that are allowed; n_pids */
    size_t n_pids;
    size_t n_refs;    /* grants, and replies that are being sent */
    uint8_t *address; /* of the memory, in this process */
    uint64_t size;
    uint32_t n_bytes;
    uint8_t bytes[AM_PORT_DESC];
};

RB_HEAD(am_registry_exports, am_registry_export);

struct am_registry_grant {
    RB_ENTRY(am_registry_grant) node;
    struct am_registry_export *export;
    uint64_t number;
};

RB_HEAD(am_registry_grants, am_registry_grant);

/* One importing process. */
struct am_importer {
    TAILQ_ENTRY(am_importer) next; /* while it is disconnected, as the next one */
    uint64_t until;
    RB_ENTRY(am_importer)
    node; /* by its token, while it is connected, as the next ones */
    struct am_session session;
    uint64_t ack_at; /* an ACK is due at this number; 0: none was requested */
    void *owner;     /* the caller's */
    struct am_frame_who who;
    bool is_reconnecting; /* it has not yet reported how many grants it has */
    char address[48];     /* for the records */
    struct am_registry_grants grants;
    uint32_t n_grants;
    uint64_t n_bytes;
    uint64_t n_ever; /* grants */
};

RB_HEAD(am_registry_tokens, am_importer);

struct am_registry {
    struct am_registry_exports exports;
    struct am_registry_tokens connected;
    TAILQ_HEAD(am_registry_leases, am_importer)
    leases; /* disconnected, the oldest first */
    uint64_t lease_ns;
    /* The memory is not used any more: the caller unmaps it. */
    void (*freed)(struct am_registry_export *export);
};

void am_registry_init(struct am_registry *registry, uint64_t lease_ns,
                      void (*freed)(struct am_registry_export *export));

/* Owns the export, which was allocated; false if the number is in use. */
bool am_registry_add(struct am_registry *registry, struct am_registry_export *export);
/* 0, -ENOENT or -ENOMEM. */
int am_registry_trust(struct am_registry *registry, const struct am_share_handle *ticket,
                      const int32_t *pids, size_t n);
/* No further grants. */
void am_registry_withdraw(struct am_registry *registry, uint64_t number);
/* A reply that uses the memory was sent; see AM_REGISTRY_DATA_DUE. */
void am_registry_unref(struct am_registry_export *export);

/*
 * A process has connected, with a new session: the importer that was disconnected, or a new
 * one; NULL: no memory.  Ended by am_registry_disconnect() or am_registry_remove().
 */
struct am_importer *am_registry_connect(struct am_registry *registry,
                                        const struct am_frame_who *who,
                                        const struct am_session *session);
/* The connection is closed; the importer keeps its grants for the lease. */
void am_registry_disconnect(struct am_registry *registry, struct am_importer *importer,
                            uint64_t now);
/* The process has ended: all its grants are released. */
void am_registry_remove(struct am_registry *registry, struct am_importer *importer);
/* Removes importers whose lease has passed. */
void am_registry_expire(struct am_registry *registry, uint64_t now);

/*
 * The reply to an import.  An importer that reconnects with grants reports them first
 * (am_registry_reconnect()).  If it imports before that, its process was killed and started
 * again, so the earlier grants are released.
 */
void am_registry_import(struct am_registry *registry, struct am_importer *importer,
                        const struct am_frame *import, struct am_frame *ret_grant);
void am_registry_release(struct am_importer *importer, uint64_t number);
/* The reply to an importer that has reconnected: whether all its grants still exist. */
void am_registry_reconnect(struct am_importer *importer, const struct am_frame *request,
                           struct am_frame *ret_reply);

enum am_registry_result {
    AM_REGISTRY_INVALID,   /* not a new message of a connected importer */
    AM_REGISTRY_FORBIDDEN, /* the importer has no such memory, or not of that size */
    AM_REGISTRY_DONE,
    AM_REGISTRY_DATA_DUE, /* reply to ret_get; ret_export is referenced until then */
};

/*
 * A message has arrived.  The bytes of a PUT are written to the memory, if the importer has
 * it.  The importer is NULL if the message is invalid.
 */
enum am_registry_result
am_registry_receive(struct am_registry *registry, const void *head, size_t head_size,
                    const void *bytes, size_t size, struct am_importer **ret_importer,
                    struct am_message *ret_get, struct am_registry_export **ret_export);
/* Whether an ACK is due; it is sealed. */
bool am_registry_ack(struct am_importer *importer, struct am_message *ret_ack);

#endif
