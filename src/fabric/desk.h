/*
 * The exporter's books: which memory is exported, to which processes, and which of them
 * have it.
 *
 * Memory leaves the books when its export is withdrawn and the last importer has let go.
 * Plain data and decisions: no sockets, no UCX.
 */
#ifndef AM_FABRIC_DESK_H
#define AM_FABRIC_DESK_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fabric/frame.h"

struct am_desk_export {
    RB_ENTRY(am_desk_export) node;
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

RB_HEAD(am_desk_tree, am_desk_export);

struct am_desk {
    struct am_desk_tree exports;
    /* The memory left the books; the caller frees what it holds of it. */
    void (*gone)(void *arg, struct am_desk_export *export);
    void *arg;
};

struct am_desk_grant {
    LIST_ENTRY(am_desk_grant) next;
    struct am_desk_export *export;
    uint64_t number;
};

/* One importing process. */
struct am_desk_guest {
    LIST_HEAD(, am_desk_grant) grants;
    uint32_t n_grants;
    uint64_t n_bytes;
    uint64_t n_ever;
};

/* Takes over the export, which was allocated; false when the number is there already. */
bool am_desk_add(struct am_desk *desk, struct am_desk_export *export);
/* 0, -ENOENT or -ENOMEM. */
int am_desk_trust(struct am_desk *desk, const struct am_port_ticket *ticket,
                  const int32_t *pids, size_t n);
/* Nothing is granted any more. */
void am_desk_withdraw(struct am_desk *desk, uint64_t number);

/* The answer to an import by the process `pid`. */
void am_desk_answer(struct am_desk *desk, struct am_desk_guest *guest, int32_t pid,
                    const struct am_frame *import, struct am_frame *ret_grant);
void am_desk_release(struct am_desk *desk, struct am_desk_guest *guest, uint64_t number);
/* The process is gone: everything that was granted to it is given back. */
void am_desk_leave(struct am_desk *desk, struct am_desk_guest *guest);

#endif
