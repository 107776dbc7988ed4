/*
 * UCX, which sends messages (message.h) between two fabric processes.
 *
 * One worker receives the requests of importers, another one reaches exporters.  UCX 1.13
 * shares a TCP connection between the two directions of a pair of workers, and keeps it when
 * one direction is closed; so a connection has one direction only, and is ended by its
 * importer (am_net_shut()).
 *
 * One thread uses it.  A put completes when its bytes are in the remote memory, a get when
 * its bytes have arrived.
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

RB_HEAD(am_ucx_endpoints, am_ucx_endpoint);

struct am_ucx {
    ucp_context_h context;
    ucp_worker_h worker; /* of exports */
    int fd;              /* becomes readable when the worker has to be progressed */
    bool is_idle;        /* the worker has nothing to do until fd is readable */
    ucp_worker_h out;    /* of imports, as the next ones */
    int out_fd;
    bool is_out_idle;
    void *address;
    size_t address_size;
    struct am_ucx_endpoints endpoints; /* of imports, by their tokens */
    /* An importer's message; am_ucx_reply() replies.  NULL: this process exports nothing. */
    void (*receive)(const void *head, size_t head_size, const void *bytes, size_t size,
                    ucp_ep_h importer);
};

#define AM_UCX_WHY 256

/*
 * First for exports, then for imports; `device` is the network interface.  0, or -1 with
 * the reason in AM_UCX_WHY bytes.
 */
int am_ucx_open(struct am_ucx *ucx, const char *device, char *why);
int am_ucx_open_out(struct am_ucx *ucx, char *why);

/*
 * Progresses both workers; true if both are idle until an fd is readable.  An idle worker
 * is not progressed, which saves system calls: the caller clears is_idle or is_out_idle
 * when the fd is readable.
 */
bool am_ucx_progress(struct am_ucx *ucx);

/* A put or a get in progress. */
struct am_ucx_move {
    struct am_ucx_endpoint *waiting; /* for the exporter's reply; NULL: not */
    TAILQ_ENTRY(am_ucx_move) next;   /* of endpoint->waiting */
    uint64_t number;                 /* of the last message */
    uint8_t *to;                     /* of a get, as the next two */
    size_t size;
    size_t left;     /* bytes that have not arrived */
    unsigned n_left; /* callbacks of UCX, and the reply */
    bool has_failed;
    void (*done)(struct am_ucx_move *move);
};

/* The connection to an exporter's worker. */
struct am_ucx_endpoint {
    RB_ENTRY(am_ucx_endpoint) node;
    struct am_session session;
    ucp_ep_h ep;
    TAILQ_HEAD(, am_ucx_move) waiting; /* in the order of their messages */
};

/* broken() is called when the endpoint has failed. */
int am_ucx_connect(struct am_ucx *ucx, struct am_ucx_endpoint *endpoint,
                   const void *address, const struct am_session *session,
                   void (*broken)(void *arg), void *arg, char *why);
/* Moves in progress end, with a failure. */
void am_ucx_disconnect(struct am_ucx *ucx, struct am_ucx_endpoint *endpoint);

struct am_ucx_range {
    uint64_t grant;
    uint64_t offset;
    uint8_t *bytes; /* here */
    size_t size;
};

/*
 * done() is called later, or from within, exactly once.  heads are am_message_count(size),
 * or 1 for a get, and stay until then.
 */
void am_ucx_put(struct am_ucx *ucx, struct am_ucx_endpoint *endpoint,
                const struct am_ucx_range *range, struct am_message *heads,
                struct am_ucx_move *move);
void am_ucx_get(struct am_ucx *ucx, struct am_ucx_endpoint *endpoint,
                const struct am_ucx_range *range, struct am_message *head,
                struct am_ucx_move *move);

/*
 * Sends a sealed message to an importer, from within receive().  sent(), if it is not NULL,
 * is called once when the bytes are not used any more.
 */
void am_ucx_reply(ucp_ep_h importer, const struct am_message *message, const void *bytes,
                  void (*sent)(void *arg), void *arg);

#endif
