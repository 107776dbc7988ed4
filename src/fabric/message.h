/*
 * Messages that carry the bytes of copies: active messages of UCX, each with this head.
 *
 *     importer -> exporter   PUT   bytes for memory that was granted
 *                            GET   a request for bytes of such memory
 *     exporter -> importer   DATA  bytes that a GET asked for
 *                            ACK   all messages up to a number have arrived
 *
 * UCX's own put and get would let every process that reaches UCX's port access any address
 * of this process.  A message names the memory by the number of its grant, and the export
 * registry checks the range (am_registry_receive()).
 *
 * The messages of one direction of a connection are numbered from 1.  The MAC covers the
 * head, so only the two processes of the connection can make one, and the number makes a
 * repeated head invalid.  The MAC does not cover the bytes that follow the head: at the
 * rates of copies that would take most of the processor.  See docs/FABRIC.md for the
 * consequences.  The numbers are little-endian.
 */
#ifndef AM_FABRIC_MESSAGE_H
#define AM_FABRIC_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AM_TOKEN_SIZE 16
#define AM_MESSAGE_MAC 16
#define AM_MESSAGE_KEY 32

enum am_message_kind {
    AM_MESSAGE_PUT = 1,
    AM_MESSAGE_GET,
    AM_MESSAGE_DATA,
    AM_MESSAGE_ACK,
};

struct am_message {
    uint8_t token[AM_TOKEN_SIZE]; /* the session that the message belongs to */
    uint64_t number;
    uint32_t kind;
    uint32_t size;   /* PUT, DATA: bytes that follow; GET: bytes to return */
    uint64_t grant;  /* PUT, GET: the exporter's number of the memory */
    uint64_t offset; /* PUT, GET: in the memory; DATA: in the result */
    /* PUT: 1: reply with an ACK; DATA: the number of the GET; ACK: the last number. */
    uint64_t reference;
    uint8_t mac[AM_MESSAGE_MAC];
};

_Static_assert(sizeof(struct am_message) == 72, "the format is fixed");

/*
 * The bytes of one message, at most.  With its head and UCX's it fits in one buffer of
 * UCX's receiver, from which the bytes are copied to their destination.
 */
#define AM_MESSAGE_MAX (UINT64_C(128) << 10)

/* How many messages carry `size` bytes; without bytes it is one. */
static inline size_t am_message_count(size_t size)
{
    return size == 0 ? 1 : (size + AM_MESSAGE_MAX - 1) / AM_MESSAGE_MAX;
}

/* The offset of message i, from 0 on: all are of about the same size. */
static inline size_t am_message_at(size_t size, size_t i)
{
    return size * i / am_message_count(size);
}

/* One side of a connection: its token, its keys, and the numbers of its messages. */
struct am_session {
    uint8_t token[AM_TOKEN_SIZE]; /* public; names the connection */
    uint8_t out_key[AM_MESSAGE_KEY];
    uint8_t in_key[AM_MESSAGE_KEY];
    uint64_t n_sent;
    uint64_t n_received; /* valid messages */
    uint64_t highest;    /* number received */
    uint64_t window;     /* bit i: highest - i was received */
};

/* Sets the token, the number and the MAC; all other fields are set. */
void am_message_seal(struct am_session *session, struct am_message *message);
/*
 * Whether the message is the peer's and new, with `size` bytes behind its head; counts it.
 * Messages may overtake each other by up to 63 numbers.
 */
bool am_message_open(struct am_session *session, const struct am_message *message,
                     size_t size);

#endif
