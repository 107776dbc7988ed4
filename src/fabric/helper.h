/*
 * The fabric process: one thread, one loop.
 *
 * helper.c  the loop, the program's requests, exports
 * peer.c    connections to other fabric processes, imports, moves
 *
 * The loop waits for the program's socket, the listening socket, the peers' sockets and
 * the UCX worker at once.  A peer that failed is marked, and is ended behind the events of
 * that round, so no callback ends a peer that its caller still uses.
 */
#ifndef AM_FABRIC_HELPER_H
#define AM_FABRIC_HELPER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fabric/desk.h"
#include "fabric/link.h"
#include "fabric/net.h"
#include "fabric/ucx.h"

struct am_helper;
struct am_peer;

/* The descriptors that the loop waits for. */
struct am_watch {
    int fd;
    void (*ready)(struct am_watch *watch, uint32_t events);
};

/* Memory of another process, or the request for it. */
struct am_peer_import {
    LIST_ENTRY(am_peer_import) next; /* of its peer */
    struct am_peer *peer;
    uint64_t number; /* for the program */
    uint32_t request;
    bool is_granted;
    bool is_replied;  /* the program has it */
    bool is_released; /* by the program; it goes with its last move */
    bool has_rkey;
    uint32_t n_moves;
    struct am_port_ticket ticket;
    uint64_t grant; /* the exporter's number of it */
    uint32_t n_bytes;
    uint8_t bytes[AM_PORT_DESC];
    uint64_t size;
    uint64_t address;
    ucp_rkey_h rkey;
};

struct am_peer {
    struct am_watch watch;
    TAILQ_ENTRY(am_peer) next;
    struct am_helper *helper;
    struct am_link link;
    bool is_server;     /* the peer imports from here */
    bool is_unproved;   /* it counts in n_shaking */
    bool is_connecting; /* TCP is not there yet */
    bool is_waiting;    /* for room to send */
    bool is_dying;      /* to be ended when the events are done */
    bool is_dead;       /* ended; kept for imports that are still known */
    char address[48];   /* for messages, as the next one */
    char why[AM_PORT_TEXT];
    struct am_desk_guest guest; /* is_server */
    struct am_port_place place; /* !is_server, as all below */
    bool has_ep;
    bool is_probing; /* a first byte is under way */
    bool is_probed;  /* it came: UCX has connected */
    uint8_t probe;
    struct am_ucx_move probe_move;
    ucp_ep_h ep;
    LIST_HEAD(, am_peer_import) imports;
    uint32_t n_imports;
    uint32_t n_moves;
    uint64_t moved;  /* when a move ended last, or began while there was none */
    uint64_t unused; /* since when it has no imports */
};

struct am_helper {
    struct am_watch port; /* the program's socket */
    struct am_watch program;
    struct am_watch listener;
    struct am_watch worker;
    int epoll;
    int book; /* -1: none */
    bool is_up;
    bool is_listening; /* the listener is waited for */
    uint8_t *area;
    uint64_t timeout_ns;
    struct am_link_keys keys;
    struct am_frame_who who;
    struct am_net_place place;
    struct am_ucx ucx;
    struct am_desk desk;
    TAILQ_HEAD(, am_peer) peers;
    unsigned n_shaking; /* peers that have not proved the key yet */
    bool has_dying;
    struct am_peer_import **imports; /* by number - 1; NULL: free */
    size_t n_imports;
    uint64_t next_tick;
    char where[128];
};

/* Runs until the program ends or closes its socket; does not return. */
void am_helper_run(int socket) __attribute__((noreturn));

uint64_t am_helper_now(void);
void am_helper_watch(struct am_helper *helper, struct am_watch *watch, uint32_t events,
                     bool is_new);
void am_helper_reply(struct am_helper *helper, const struct am_port_message *reply);
void am_helper_refuse(struct am_helper *helper, uint32_t request, int32_t status,
                      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* peer.c */
void am_peer_accept(struct am_helper *helper);
void am_peer_import(struct am_helper *helper, const struct am_port_message *message);
void am_peer_release(struct am_helper *helper, uint64_t number);
void am_peer_move(struct am_helper *helper, const struct am_port_message *message);
/* Writes the book, if it changed. */
void am_peer_book(struct am_helper *helper);
/* Work that is due by the clock, and peers that failed. */
void am_peer_tick(struct am_helper *helper, uint64_t now);
void am_peer_sweep(struct am_helper *helper);

/*
 * confine.c: before UCX is opened, and after; from then on this process can do little but
 * serve.  The second returns -1 where it cannot.
 */
void am_confine_files(void);
int am_confine_calls(void);

#endif
