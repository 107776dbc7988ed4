/*
 * The exporter's books: which memory is exported, to which processes, and which of them
 * have it.
 *
 * Memory leaves the books when its export is withdrawn and the last importer has let go.
 * An importing process is a guest.  A guest may be away, without a connection; it keeps
 * what it was granted until the desk's lease has passed.
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
#include "fabric/parcel.h"

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

struct am_desk_grant {
    RB_ENTRY(am_desk_grant) node;
    struct am_desk_export *export;
    uint64_t number;
};

RB_HEAD(am_desk_grants, am_desk_grant);

/* One importing process. */
struct am_desk_guest {
    /* By its instance while it is away, as the next two, and else by its pass. */
    RB_ENTRY(am_desk_guest) node;
    TAILQ_ENTRY(am_desk_guest) next;
    uint64_t until;
    uint8_t pass[AM_PARCEL_PASS]; /* while it is here, as the next ones */
    uint64_t n_parcels;           /* that have arrived */
    uint64_t asked;               /* word is due when there are as many; 0: not asked */
    void *owner;                  /* the caller's */
    struct am_frame_who who;
    bool is_returning; /* it was away, and has not told yet what it has */
    char address[48];  /* for the book */
    struct am_desk_grants grants;
    uint32_t n_grants;
    uint64_t n_bytes;
    uint64_t n_ever;
};

RB_HEAD(am_desk_guests, am_desk_guest);
RB_HEAD(am_desk_passes, am_desk_guest);

struct am_desk {
    struct am_desk_tree exports;
    struct am_desk_passes here;
    struct am_desk_guests away;                       /* by their instance */
    TAILQ_HEAD(am_desk_leases, am_desk_guest) leases; /* the same, the oldest first */
    size_t n_away;
    uint64_t lease_ns;
    /* The memory left the books; the caller frees what it holds of it. */
    void (*gone)(void *arg, struct am_desk_export *export);
    void *arg;
};

void am_desk_init(struct am_desk *desk, uint64_t lease_ns,
                  void (*gone)(void *arg, struct am_desk_export *export), void *arg);

/* Takes over the export, which was allocated; false when the number is there already. */
bool am_desk_add(struct am_desk *desk, struct am_desk_export *export);
/* 0, -ENOENT or -ENOMEM. */
int am_desk_trust(struct am_desk *desk, const struct am_port_ticket *ticket,
                  const int32_t *pids, size_t n);
/* Nothing is granted any more. */
void am_desk_withdraw(struct am_desk *desk, uint64_t number);

/*
 * A process has connected, with a pass that no other one has: the guest that was away, or a
 * new one; NULL: no memory.  It is ended by am_desk_park() or am_desk_leave().
 */
struct am_desk_guest *am_desk_enter(struct am_desk *desk, const struct am_frame_who *who,
                                    const uint8_t *pass);
/* Its connection is closed, and it means to come back. */
void am_desk_park(struct am_desk *desk, struct am_desk_guest *guest, uint64_t now);
/* The process is gone: everything that was granted to it is given back. */
void am_desk_leave(struct am_desk *desk, struct am_desk_guest *guest);
/* Guests that were away for too long are taken for gone: how many. */
size_t am_desk_expire(struct am_desk *desk, uint64_t now);

/*
 * The answer to an import by the guest.  A guest that comes back with memory tells so first.
 * One that imports before has none: its process was killed while it was away, and started
 * again, so everything that was granted before is given back.
 */
void am_desk_answer(struct am_desk *desk, struct am_desk_guest *guest,
                    const struct am_frame *import, struct am_frame *ret_grant);
void am_desk_release(struct am_desk *desk, struct am_desk_guest *guest, uint64_t number);

enum am_desk_parcel {
    AM_DESK_STRANGE, /* no guest has this pass, or it is no parcel */
    AM_DESK_WRONG,   /* the guest has no such memory, or it is not that large */
    AM_DESK_TAKEN,
    AM_DESK_ASKED, /* taken, and now word is due */
};

/*
 * A parcel has arrived: its bytes are written to the memory that it is for, if the guest
 * may do that.  The guest is NULL where the parcel is strange.
 */
enum am_desk_parcel am_desk_put(struct am_desk *desk, const void *head, size_t head_size,
                                const void *bytes, size_t size,
                                struct am_desk_guest **ret_guest,
                                struct am_parcel_word *ret_word);
/* The answer to a guest that came back: whether everything that it has is still there. */
void am_desk_return(struct am_desk_guest *guest, const struct am_frame *back,
                    struct am_frame *ret_answer);

#endif
