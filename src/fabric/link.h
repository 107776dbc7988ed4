/*
 * One authenticated connection between two fabric processes, as a state machine.
 *
 * The owner passes received bytes and the time in, and sends the bytes that come out.  There
 * is no socket, no clock and no thread here, so tests, the fuzz target and the simulator run
 * the same code.
 *
 * Both sides prove that they have the cluster's key, by an HMAC-SHA-256 over fresh random
 * numbers of both sides.  The keys of the two proofs and of the two directions differ, so
 * a message cannot be reflected.  Each later frame has a MAC over its content and a counter:
 * a frame that is repeated, left out or forged ends the link.  Nothing is encrypted.
 *
 * An idle side sends heartbeats.  A side that receives nothing for the timeout ends the
 * link.
 */
#ifndef AM_FABRIC_LINK_H
#define AM_FABRIC_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/frame.h"
#include "fabric/message.h"

#define AM_LINK_HANDSHAKE_NS UINT64_C(2000000000) /* for the handshake, at the exporter */
#define AM_LINK_HEARTBEATS 5                      /* in a timeout */
#define AM_LINK_QUEUE_MAX (UINT64_C(1) << 20)     /* bytes that wait to be sent */

/* The keys that are derived from the cluster's key; equal on all machines. */
struct am_link_keys {
    uint8_t client[32];
    uint8_t server[32];
    uint8_t session[32];
};

/* From the bytes of the key's file. */
void am_link_keys_make(struct am_link_keys *keys, const void *secret, size_t size);

enum am_link_state {
    AM_LINK_HANDSHAKE,
    AM_LINK_UP,
    AM_LINK_DEAD,
};

/* Why a link is dead. */
enum am_link_end {
    AM_LINK_ALIVE,
    AM_LINK_CLOSED,  /* by the peer, or by the network */
    AM_LINK_REFUSED, /* the exporter closed it instead of a welcome */
    AM_LINK_SILENT,  /* nothing was received for the timeout */
    AM_LINK_SLOW,    /* the handshake took too long */
    AM_LINK_VERSION, /* the peer speaks another version */
    AM_LINK_KEY,     /* the peer does not have the key */
    AM_LINK_GARBAGE, /* the peer sent an invalid message */
    AM_LINK_FULL,    /* the peer does not read */
};

struct am_link_spec {
    const struct am_link_keys *keys;
    bool is_server; /* the exporter's side */
    struct am_frame_who who;
    uint8_t nonce[AM_FRAME_NONCE]; /* random, new for each link */
    uint64_t timeout_ns;
    uint64_t now;
    /* Called by am_link_input() for each frame except heartbeats. */
    void (*frame)(void *arg, const struct am_frame *frame);
    void *arg;
};

struct am_link {
    struct am_link_spec spec;
    enum am_link_state state;
    enum am_link_end end;
    uint32_t peer_version;    /* AM_LINK_VERSION: the peer's */
    struct am_frame_who peer; /* AM_LINK_UP: the other process */
    uint64_t heard;
    uint64_t sent;
    struct am_handshake handshake;
    uint8_t out_key[32];
    uint8_t in_key[32];
    struct am_session session; /* AM_LINK_UP: the beginning of the session of messages */
    uint64_t n_out;            /* frames sent */
    uint64_t n_in;
    uint64_t n_used;      /* set by the owner, and reported in heartbeats */
    uint64_t n_peer_used; /* the last value that the peer reported */
    uint8_t *queue;       /* bytes to send: queue_end */
    size_t queue_end;
    size_t queue_size;
    size_t n_partial;               /* bytes of `partial` that have arrived */
    uint8_t partial[AM_FRAME_SIZE]; /* a message that has arrived in part */
};

void am_link_init(struct am_link *link, const struct am_link_spec *spec);
void am_link_destroy(struct am_link *link);

/* Bytes that arrived. */
void am_link_input(struct am_link *link, const void *bytes, size_t size, uint64_t now);
/* The peer closed the connection, or it broke. */
void am_link_close(struct am_link *link);

/* Queues a frame; kind and content are set.  The link is up. */
void am_link_send(struct am_link *link, struct am_frame *frame, uint64_t now);

/* The bytes to send next, and how many of them were. */
size_t am_link_output(const struct am_link *link, const uint8_t **ret_bytes);
void am_link_took(struct am_link *link, size_t size);

/* Does what is due. */
void am_link_tick(struct am_link *link, uint64_t now);

/* Why it is dead, as text. */
const char *am_link_reason(const struct am_link *link);

#define AM_SECRET_WHY 384

/*
 * The keys that the file makes; the file is refused unless it is regular, this user's,
 * readable for no other user, and 32 bytes to 4 KB long.  0, or -1 with the reason.
 */
int am_secret_read(int fd, struct am_link_keys *ret_keys, char *why);

#endif
