/*
 * The exporter's records: which memory is exported, to which processes, and which of them
 * have it.
 *
 * Memory leaves the records when its export is withdrawn and the last importer has let go.
 * An importing process is a importer.  A importer may be away, without a connection; it keeps
 * what it was granted until the registry's lease has passed.
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

struct am_registry_export {
    RB_ENTRY(am_registry_export) node;
    struct am_port_ticket ticket;
    bool is_open;
    bool is_withdrawn;
    int32_t *pids; /* the importers that are allowed; n_pids */
    size_t n_pids;
    size_t n_grants;
    uint64_t size;
    uint64_t address;
    uint32_t n_bytes;
    uint32_t n_rkey;
    uint8_t bytes[AM_PORT_DESC];
    uint8_t rkey[AM_FRAME_RKEY_MAX];
    void *memory; /* the caller's */
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
    /* By its instance while it is away, as the next two, and else by its pass. */
    RB_ENTRY(am_importer) node;
    TAILQ_ENTRY(am_importer) next;
    uint64_t until;
    uint8_t token[AM_TOKEN_SIZE]; /* while it is here, as the next ones */
    uint64_t n_messages;          /* that have arrived */
    uint64_t asked;               /* word is due when there are as many; 0: not asked */
    void *owner;                  /* the caller's */
    struct am_frame_who who;
    bool is_reconnecting; /* it was away, and has not told yet what it has */
    char address[48];     /* for the records */
    struct am_registry_grants grants;
    uint32_t n_grants;
    uint64_t n_bytes;
    uint64_t n_ever;
};

RB_HEAD(am_registry_instances, am_importer);
RB_HEAD(am_registry_tokens, am_importer);

struct am_registry {
    struct am_registry_exports exports;
    struct am_registry_tokens connected;
    struct am_registry_instances disconnected;          /* by their instance */
    TAILQ_HEAD(am_registry_leases, am_importer) leases; /* the same, the oldest first */
    size_t n_disconnected;
    uint64_t lease_ns;
    /* The memory left the records; the caller frees what it holds of it. */
    void (*gone)(void *arg, struct am_registry_export *export);
    void *arg;
};

void am_registry_init(struct am_registry *registry, uint64_t lease_ns,
                      void (*gone)(void *arg, struct am_registry_export *export),
                      void *arg);

/* Takes over the export, which was allocated; false when the number is there already. */
bool am_registry_add(struct am_registry *registry, struct am_registry_export *export);
/* 0, -ENOENT or -ENOMEM. */
int am_registry_trust(struct am_registry *registry, const struct am_port_ticket *ticket,
                      const int32_t *pids, size_t n);
/* Nothing is granted any more. */
void am_registry_withdraw(struct am_registry *registry, uint64_t number);

/*
 * A process has connected, with a pass that no other one has: the importer that was away, or a
 * new one; NULL: no memory.  It is ended by am_registry_disconnect() or am_registry_remove().
 */
struct am_importer *am_registry_connect(struct am_registry *registry,
                                        const struct am_frame_who *who,
                                        const uint8_t *token);
/* Its connection is closed, and it means to come back. */
void am_registry_disconnect(struct am_registry *registry, struct am_importer *importer,
                            uint64_t now);
/* The process is gone: everything that was granted to it is given back. */
void am_registry_remove(struct am_registry *registry, struct am_importer *importer);
/* Guests that were away for too long are taken for gone: how many. */
size_t am_registry_expire(struct am_registry *registry, uint64_t now);

/*
 * The answer to an import by the importer.  A importer that comes back with memory tells so first.
 * One that imports before has none: its process was killed while it was away, and started
 * again, so everything that was granted before is given back.
 */
void am_registry_import(struct am_registry *registry, struct am_importer *importer,
                        const struct am_frame *import, struct am_frame *ret_grant);
void am_registry_release(struct am_registry *registry, struct am_importer *importer,
                         uint64_t number);

enum am_registry_result {
    AM_REGISTRY_UNKNOWN,   /* no importer has this pass, or it is no parcel */
    AM_REGISTRY_FORBIDDEN, /* the importer has no such memory, or it is not that large */
    AM_REGISTRY_WRITTEN,
    AM_REGISTRY_ACK_DUE, /* taken, and now word is due */
};

/*
 * A parcel has arrived: its bytes are written to the memory that it is for, if the importer
 * may do that.  The importer is NULL where the parcel is strange.
 */
enum am_registry_result am_registry_put(struct am_registry *registry, const void *head,
                                        size_t head_size, const void *bytes, size_t size,
                                        struct am_importer **ret_guest,
                                        struct am_ack *ret_ack);
/* The answer to a importer that came back: whether everything that it has is still there. */
void am_registry_reconnect(struct am_importer *importer, const struct am_frame *back,
                           struct am_frame *ret_answer);

#endif
