/*
 * UCX, which moves bytes between the memory of two fabric processes.
 *
 * Exported memory is served by one worker, and remote memory is reached by another one.
 * UCX 1.13 shares a TCP connection between the two directions of a pair of workers, and
 * keeps it when one direction is closed; so a connection has one direction only, and is
 * ended by its importer (am_net_shut()).
 *
 * One thread uses it.  A put is made of parcels (parcel.h).  It is done when its bytes may
 * be overwritten, or, if it asks for word, when the bytes of it and of all puts before it
 * are in the remote memory.  A get is UCX's own, and is done when its bytes are here.
 */
#ifndef AM_FABRIC_UCX_H
#define AM_FABRIC_UCX_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include <ucp/api/ucp.h>

#include "fabric/message.h"

RB_HEAD(am_ucx_ways, am_ucx_way);

struct am_ucx {
    ucp_context_h context;
    ucp_worker_h worker; /* of exports */
    int fd;              /* becomes readable when the worker has to be progressed */
    bool is_idle;        /* its worker has nothing to do until then */
    ucp_worker_h out;    /* of imports, as the next ones */
    int out_fd;
    bool is_out_idle;
    void *address;
    size_t address_size;
    struct am_ucx_ways ways; /* to peers, by their passes */
    /* A parcel arrived; am_ucx_ack() answers it.  NULL: this process exports nothing. */
    void (*parcel)(void *arg, const void *head, size_t head_size, const void *bytes,
                   size_t size, ucp_ep_h back);
    void *arg;
};

#define AM_UCX_WHY 256

/*
 * First for exports, then for imports; `device` is the network interface.  0, or -1 with
 * the reason in AM_UCX_WHY bytes.
 */
int am_ucx_open(struct am_ucx *ucx, const char *device, char *why);
int am_ucx_open_out(struct am_ucx *ucx, char *why);

/*
 * Does what is to be done now; true when both workers are idle until an fd is readable.
 * An idle worker is left alone, which saves a system call or two: the caller clears is_idle
 * or is_out_idle when that fd is readable.
 */
bool am_ucx_progress(struct am_ucx *ucx);

/* Memory that peers may reach. */
struct am_ucx_memory {
    ucp_mem_h handle;
    void *rkey; /* what a peer needs, packed */
    size_t rkey_size;
};
int am_ucx_register(struct am_ucx *ucx, void *addr, size_t size,
                    struct am_ucx_memory *ret_memory, char *why);
void am_ucx_unregister(struct am_ucx *ucx, struct am_ucx_memory *memory);

/* A put or a get under way. */
struct am_ucx_move {
    struct am_ucx_way *asking;     /* word is to come from there; NULL: none */
    TAILQ_ENTRY(am_ucx_move) next; /* of its list */
    uint64_t last;                 /* of a put: the number of its last parcel */
    unsigned n_left;               /* callbacks to come, and the word */
    bool has_failed;
    void (*done)(struct am_ucx_move *move);
};

/* A way to a peer's worker. */
struct am_ucx_way {
    RB_ENTRY(am_ucx_way) node;
    uint8_t token[AM_TOKEN_SIZE];
    ucp_ep_h ep;
    uint64_t n_messages;              /* that were sent */
    TAILQ_HEAD(, am_ucx_move) asking; /* in the order of their parcels */
};

/* broken() is called when the way is of no use any more. */
int am_ucx_connect(struct am_ucx *ucx, struct am_ucx_way *way, const void *address,
                   const uint8_t *token, void (*broken)(void *arg), void *arg, char *why);
/* Moves under way end, with a failure; the way is gone. */
void am_ucx_disconnect(struct am_ucx *ucx, struct am_ucx_way *way);

struct am_ucx_put {
    uint64_t grant;
    uint64_t offset;
    const void *bytes;
    size_t size;
    bool asks;
    struct am_put_head *heads; /* am_put_count(size), which stay until the put is done */
};

/* done() is called later, or from within, exactly once. */
void am_ucx_put(struct am_ucx *ucx, struct am_ucx_way *way, const struct am_ucx_put *put,
                struct am_ucx_move *move);
void am_ucx_get(struct am_ucx *ucx, struct am_ucx_way *way, ucp_rkey_h rkey,
                uint64_t remote, void *local, size_t size, struct am_ucx_move *move);

/* Sends word to an importer, from within parcel(). */
void am_ucx_ack(ucp_ep_h back, const struct am_ack *word);

#endif
