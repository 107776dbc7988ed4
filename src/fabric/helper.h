/*
 * The fabric process: one thread, one loop.
 *
 * helper.c     the loop, the program's requests, exports
 * peer_link.c  connections to other fabric processes: their bytes, begin and end
 * peer.c       imports, what peers say
 * peer_move.c  moves
 *
 * The loop waits for the program's socket, the listening socket, the peers' sockets and
 * the UCX worker at once.  A peer whose connection is to be closed is marked, and is ended
 * behind the events of that round, so no callback ends a peer that its caller still uses.
 */
#ifndef AM_FABRIC_HELPER_H
#define AM_FABRIC_HELPER_H

#include <bsd/sys/tree.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "fabric/registry.h"
#include "fabric/gate.h"
#include "fabric/link.h"
#include "fabric/net.h"
#include "fabric/conn_slots.h"
#include "fabric/ucx.h"
#include "fabric/connection.h"

struct am_helper;
struct am_peer;

/* The descriptors that the loop waits for. */
struct am_watch {
    int fd;
    void (*ready)(struct am_watch *watch, uint32_t events);
};

/* Memory of another process, or the request for it. */
struct am_peer_import {
    LIST_ENTRY(am_peer_import) next;  /* of its peer */
    LIST_ENTRY(am_peer_import) fresh; /* is_fresh */
    struct am_peer *peer;
    uint64_t number; /* for the program */
    uint32_t request;
    bool is_asked; /* the exporter was */
    bool is_granted;
    bool is_replied;  /* the program has it */
    bool is_released; /* by the program; it goes with its last move */
    bool has_rkey;
    bool is_fresh; /* bytes were put and not asked for yet: as a move under way */
    uint64_t put;  /* the number of their last parcel */
    uint32_t n_moves;
    struct am_port_ticket ticket;
    uint64_t grant; /* the exporter's number of it */
    uint32_t n_bytes;
    uint8_t bytes[AM_PORT_DESC];
    uint64_t size;
    uint64_t address;
    uint8_t *packed; /* the key, for rkey, which ends with each connection */
    ucp_rkey_h rkey;
};

/* The action of a peer when the events of this round are done. */
enum am_peer_action {
    AM_PEER_KEEP,
    AM_PEER_DISCONNECT, /* its connection is closed, as agreed */
    AM_PEER_RETRY,      /* it could not be reached yet */
    AM_PEER_FAIL,
};

struct am_peer_move;

struct am_peer {
    struct am_watch watch; /* the descriptor is -1 without a connection */
    TAILQ_ENTRY(am_peer) next;
    TAILQ_ENTRY(am_peer) ending;
    struct am_helper *helper;
    struct am_link link;     /* of the latest connection */
    struct am_frame_who who; /* the other process, once a handshake was done */
    enum am_peer_action action;
    bool is_ending;     /* it is in helper->ending */
    bool is_server;     /* the peer imports from here */
    bool is_unproved;   /* its slot is one of helper->handshakes */
    bool is_connecting; /* TCP is not there yet */
    bool is_up;         /* the handshake of this connection is over */
    bool is_waiting;    /* for room to send */
    bool is_dead;       /* ended; kept for imports that are still known */
    char address[48];   /* for messages, as the next one */
    char why[AM_PORT_TEXT];

    struct in_addr from;   /* is_server, as all below */
    bool is_admitted;      /* `from` passes the gate */
    bool has_source;       /* `source` does */
    struct in_addr source; /* that of its data, if it is another one */

    /* The importer is there when the handshake is done. */
    struct am_conn_slot slot;
    struct am_importer *importer;
    uint64_t n_seen; /* of the importer's uses */

    /* !is_server, as all below */
    RB_ENTRY(am_peer) node; /* unless it fails or is dead */
    struct am_connection connection;
    struct am_port_place place;
    unsigned n_refusals; /* connections in a row that ended without a welcome */
    uint8_t *worker;     /* the address of the exporter's, once it is known */
    uint32_t lease_ms;
    uint16_t ucx_port; /* where the exporter's UCX listens */
    bool has_way;
    bool is_probing; /* a first byte is under way */
    bool is_probed;  /* it came: UCX has connected */
    uint8_t probe;
    struct am_ucx_move probe_move;
    struct am_ucx_way way;
    LIST_HEAD(, am_peer_import) imports;
    LIST_HEAD(, am_peer_import) released; /* which the exporter does not know yet */
    bool is_releasing;                    /* it is being told */
    bool is_forgotten;                    /* by the exporter, with all grants */
    uint32_t n_imports;                   /* of both lists */
    uint32_t n_grants;
    TAILQ_HEAD(, am_peer_move) held;   /* until it is connected */
    LIST_HEAD(, am_peer_import) fresh; /* those with is_fresh */
    bool is_asking;                    /* for word of these: ask_move is under way */
    struct am_ucx_move ask_move;
    struct am_put_head ask_head;
    uint32_t n_moves; /* that UCX has */
    uint64_t moved;   /* when a move ended last, or began while there was none */
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
    bool is_shut;      /* until AM_PORT_READY: importers wait at the listener */
    bool is_listening; /* the listener is waited for */
    bool has_scratch;  /* am_helper_scratch() */
    uint8_t *area;
    uint64_t timeout_ns;
    struct am_link_keys keys;
    struct am_frame_who who;
    struct am_net_place place;
    struct am_ucx ucx;
    struct am_gate gate;
    struct am_gate back; /* of imports, for exporters */
    uint16_t ucx_port;   /* where UCX listens */
    struct am_registry registry;
    TAILQ_HEAD(, am_peer) peers;
    TAILQ_HEAD(, am_peer) ending;
    struct am_peer_tree places;        /* peers to import from */
    struct am_connections connections; /* to them */
    struct am_conn_slots importers;    /* peers that import */
    size_t n_connections;              /* the limit of each of the two */
    struct am_conn_slots handshakes;   /* peers that have not proved the key yet */
    struct am_peer_import **imports;   /* by number - 1; NULL: free */
    size_t n_imports;
    size_t first_free; /* all imports below are taken */
    uint64_t next_tick;
    uint64_t awake_until; /* after a short move */
    char where[128];
    uint16_t again; /* the port of the process before this one; 0: there was none */
};

/* Runs until the program ends or closes its socket; does not return. */
void am_helper_run(int socket) __attribute__((noreturn));

uint64_t am_helper_now(void);
void am_helper_watch(struct am_helper *helper, struct am_watch *watch, uint32_t events,
                     bool is_new);
void am_helper_reply(struct am_helper *helper, const struct am_port_message *reply);
void am_helper_refuse(struct am_helper *helper, uint32_t request, int32_t status,
                      const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* Makes the memory AM_FRAME_SCRATCH, unless it is there. */
void am_helper_scratch(struct am_helper *helper);

/* peer.c */
void am_peer_import(struct am_helper *helper, const struct am_port_message *message);
void am_peer_release(struct am_helper *helper, uint64_t number);
/* Writes the records, if it changed. */
void am_peer_records_write(struct am_helper *helper);
/* For peer_link.c: a frame of the peer; the connection to an exporter begins and ends. */
void am_peer_frame(struct am_peer *peer, const struct am_frame *frame);
void am_peer_up(struct am_peer *peer);
/* There is room to send again. */
void am_peer_more(struct am_peer *peer);
void am_peer_data_close(struct am_peer *peer);
void am_peer_refuse_all(struct am_peer *peer);

/* For peer_move.c: whether there is a way to the memory; a move of it is over. */
struct am_peer_import *am_peer_import_find(struct am_helper *helper, uint64_t number);
bool am_peer_import_reach(struct am_peer_import *import);
void am_peer_import_leave(struct am_peer_import *import);

/* peer_move.c */
void am_peer_move(struct am_helper *helper, const struct am_port_message *message);
/* Asks for bytes that were put and not asked for, as when the rest of their copy failed. */
void am_peer_ask(struct am_peer *peer);
/* The parcels up to this one have arrived, or never will. */
void am_peer_puts_over(struct am_peer *peer, uint64_t upto);
/* A parcel of an importer; see am_ucx.parcel. */
void am_peer_put_message(void *arg, const void *head, size_t head_size, const void *bytes,
                         size_t size, ucp_ep_h back);
/* A piece of work over UCX begins or ends; the connection stays meanwhile. */
void am_peer_work_begin(struct am_peer *peer);
void am_peer_work_end(struct am_peer *peer);
/* Moves that waited until the peer is connected. */
void am_peer_held_begin(struct am_peer *peer);
void am_peer_held_refuse(struct am_peer *peer);

/* peer_link.c */
void am_peer_start(struct am_helper *helper);
void am_peer_accept(struct am_helper *helper);
/* Importers may connect, unless there are too many. */
void am_peer_listen(struct am_helper *helper);
struct am_peer *am_peer_at(struct am_helper *helper, const struct am_port_place *place);
void am_peer_send(struct am_peer *peer, struct am_frame *frame);
/* The first reason counts. */
void am_peer_fail(struct am_peer *peer, const char *why);
/* To be looked at when the events are done. */
void am_peer_settle(struct am_peer *peer);
/* "machine a (10.0.0.1), process 7", as far as it is known. */
const char *am_peer_name(const struct am_peer *peer, char *text, size_t size);
/* Work that is due by the clock, and peers that failed. */
void am_peer_tick(struct am_helper *helper, uint64_t now);
void am_peer_sweep(struct am_helper *helper);

#endif
