/*
 * The fabric process: one thread, one loop.
 *
 * helper.c     the loop, the program's requests, exports, the file that aclmem info reads
 * peer_link.c  control connections to other fabric processes
 * peer.c       imports, and the frames of peers
 * peer_move.c  puts and gets, and the messages of importers
 *
 * The loop waits for the program's socket, the listening socket, the peers' sockets and
 * the UCX workers.  A peer whose connection is to be closed is marked, and is closed after
 * the events of that iteration, so no callback ends a peer that its caller still uses.
 */
#ifndef AM_FABRIC_HELPER_H
#define AM_FABRIC_HELPER_H

#include <bsd/sys/tree.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fabric/connection.h"
#include "fabric/link.h"
#include "fabric/net.h"
#include "fabric/packet_filter.h"
#include "fabric/registry.h"
#include "fabric/ucx.h"

struct am_peer;

/* A descriptor that the loop waits for. */
struct am_watch {
    int fd;
    void (*ready)(struct am_watch *watch, uint32_t events);
};

/* Memory of another process, or the request for it. */
struct am_peer_import {
    RB_ENTRY(am_peer_import) node;   /* by its number */
    LIST_ENTRY(am_peer_import) next; /* of its peer */
    struct am_peer *peer;
    uint64_t number; /* for the program */
    uint32_t request;
    bool is_sent; /* the request, to the exporter */
    bool is_granted;
    bool is_replied;  /* the program has the memory */
    bool is_released; /* by the program; freed with the last move */
    uint32_t n_moves;
    struct am_share_handle ticket;
    struct am_frame_grant grant; /* the exporter's reply */
};

RB_HEAD(am_peer_imports, am_peer_import);

/* What happens to a peer after the events of this iteration. */
enum am_peer_action {
    AM_PEER_KEEP,
    AM_PEER_DISCONNECT, /* both sides agreed to close the connection */
    AM_PEER_RETRY,      /* the exporter could not be reached yet */
    AM_PEER_FAIL,
};

struct am_peer_move;

/* Another fabric process. */
struct am_peer {
    struct am_watch watch; /* the descriptor is -1 without a connection */
    TAILQ_ENTRY(am_peer) next;
    TAILQ_ENTRY(am_peer) ending;
    struct am_link link;     /* of the latest connection */
    struct am_frame_who who; /* the other process, after the first handshake */
    enum am_peer_action action;
    bool is_ending;     /* in am_helper.ending */
    bool is_server;     /* the peer imports from this process */
    bool is_connecting; /* connect() is in progress */
    bool is_up;         /* the handshake of this connection is complete */
    bool is_blocked;    /* waits until the socket is writable */
    bool is_dead;       /* ended; exists for imports that the program has not released */
    char address[48];   /* for messages, as the next one */
    char why[AM_PORT_TEXT];
    struct in_addr ip;

    bool is_admitted;      /* is_server, as all below: `ip` passes the packet filter */
    bool has_source;       /* `source` passes it */
    struct in_addr source; /* of its data connection, if it is not `ip` */
    struct am_conn_slot slot;
    struct am_importer *importer; /* after the handshake */
    uint64_t n_seen;              /* the last reported n_used of the importer */

    RB_ENTRY(am_peer) node; /* !is_server, as all below; removed when the peer fails */
    struct am_conn conn;
    struct am_port_place place;
    unsigned n_refusals; /* connections in a row that ended without a welcome */
    uint8_t *worker;     /* the address of the exporter's UCX worker */
    uint32_t lease_ms;
    uint16_t ucx_port; /* where the exporter's UCX listens */
    bool has_endpoint;
    bool is_probing; /* an empty get is in progress */
    bool is_probed;  /* it completed: UCX has connected */
    struct am_ucx_move probe_move;
    struct am_message probe_head;
    struct am_ucx_endpoint endpoint;
    LIST_HEAD(, am_peer_import) imports;
    LIST_HEAD(, am_peer_import) released; /* the exporter does not know yet */
    bool is_releasing;                    /* releases are being sent */
    bool is_forgotten;                    /* the exporter has released all grants */
    uint32_t n_imports;                   /* in both lists */
    uint32_t n_grants;
    TAILQ_HEAD(, am_peer_move) queued; /* until the connection is open */
    uint32_t n_moves;                  /* that UCX has */
    uint64_t moved_last;               /* time of the last progress */
};

RB_HEAD(am_peer_tree, am_peer);

struct am_helper {
    struct am_watch port; /* the program's socket */
    struct am_watch program;
    struct am_watch listener;
    struct am_watch worker;
    struct am_watch out;
    int epoll;
    int records; /* -1: none */
    bool is_up;
    bool is_replaying; /* until AM_PORT_READY: no connection is accepted */
    bool is_listening; /* the loop waits for the listener */
    uint8_t *area;
    uint64_t timeout_ns;
    struct am_link_keys keys;
    struct am_frame_who who;
    struct am_net_place place;
    struct am_ucx ucx;
    const struct am_listen *listening;     /* UCX's sockets */
    uint16_t ucx_port;                     /* where UCX listens for importers */
    struct am_packet_filter export_filter; /* for importers */
    struct am_packet_filter import_filter; /* for exporters, whose UCX may connect, too */
    struct am_registry registry;
    TAILQ_HEAD(, am_peer) peers;
    TAILQ_HEAD(, am_peer) ending;
    struct am_peer_tree exporters; /* by their place */
    struct am_conns conns;         /* to exporters */
    struct am_conn_slots importers;
    struct am_conn_slots handshakes; /* peers that have not proved the key yet */
    struct am_peer_imports imports;
    uint64_t n_imports; /* so far */
    uint64_t next_tick;
    struct am_port_begin options;
};

extern struct am_helper am_helper;

/*
 * Runs the fabric process until the program ends or closes its socket.  Exported by
 * libaclmem_fabric.so.
 */
void aclmem_fabric_serve(int socket, const struct am_listen *listening)
    __attribute__((noreturn));

void am_helper_watch(struct am_watch *watch, uint32_t events, bool is_new);
void am_helper_reply(const struct am_port_message *reply);
void am_helper_refuse(uint32_t request, int32_t status, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Ends this process if the program has ended. */
void am_helper_check_program(void);

/* peer.c */
void am_peer_import(const struct am_port_message *message);
void am_peer_release(uint64_t number);
/* For peer_link.c: a frame of the peer; the connection to an exporter begins and ends. */
void am_peer_frame(struct am_peer *peer, const struct am_frame *frame);
void am_peer_up(struct am_peer *peer);
/* Sends releases that wait; the socket is writable again. */
void am_peer_releases_send(struct am_peer *peer);
void am_peer_data_close(struct am_peer *peer);
void am_peer_refuse_all(struct am_peer *peer);

/* For peer_move.c: whether UCX has an endpoint; a move of the memory has ended. */
struct am_peer_import *am_peer_import_find(uint64_t number);
bool am_peer_reach(struct am_peer *peer);
void am_peer_import_unref(struct am_peer_import *import);

/* peer_move.c */
void am_peer_move(const struct am_port_message *message);
/* A message of an importer; see am_ucx.receive. */
void am_peer_receive(const void *head, size_t head_size, const void *bytes, size_t size,
                     ucp_ep_h from);
/* Work over UCX begins or ends; the connection is not closed in between. */
void am_peer_work_begin(struct am_peer *peer);
void am_peer_work_end(struct am_peer *peer);
/* Begins the moves that waited until the peer is connected, or refuses them. */
void am_peer_queued_end(struct am_peer *peer, bool has_failed);

/* peer_link.c */
void am_peer_start(void);
void am_peer_accept(void);
/* Accepts connections again, if the admission limits allow it. */
void am_peer_listen(void);
struct am_peer *am_peer_at(const struct am_port_place *place);
void am_peer_send(struct am_peer *peer, struct am_frame *frame);
/* The first reason counts. */
void am_peer_fail(struct am_peer *peer, const char *why);
/* am_peer.action is done after the events of this iteration. */
void am_peer_settle(struct am_peer *peer);
/* A request of the program for an exporter's memory fails. */
void am_peer_refuse(const struct am_peer *peer, uint32_t request, int32_t status,
                    const char *why);
/* Work that is due by the clock, and peers that failed. */
void am_peer_tick(uint64_t now);
void am_peer_sweep(void);

#endif
