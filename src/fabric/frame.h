/*
 * The messages between two fabric processes, over TCP.
 *
 * First the handshake, three messages of fixed size: the exporter's hello, the importer's
 * proof, the exporter's welcome.  Then frames of AM_FRAME_SIZE bytes each, both ways.  The
 * numbers are little-endian.
 */
#ifndef AM_FABRIC_FRAME_H
#define AM_FABRIC_FRAME_H

#include <stdint.h>

#include "fabric/port.h"

#define AM_FRAME_MAGIC "aclmemL"
#define AM_FRAME_VERSION 4
#define AM_FRAME_SIZE 1024
#define AM_FRAME_MAC 32
#define AM_FRAME_NONCE 32
#define AM_FRAME_HOST 64

struct am_hello {
    char magic[8];
    uint32_t version;
    uint32_t zero;
    uint8_t nonce[AM_FRAME_NONCE];
};

/* Which process speaks. */
struct am_frame_who {
    uint8_t machine[16];
    uint8_t instance[16];
    char host[AM_FRAME_HOST];
    int32_t pid;
    uint32_t zero;
};

struct am_proof {
    char magic[8];
    uint32_t version;
    uint32_t zero;
    uint8_t nonce[AM_FRAME_NONCE];
    struct am_frame_who who;
    uint8_t mac[AM_FRAME_MAC]; /* over the hello and all above */
};

struct am_welcome {
    struct am_frame_who who;
    uint8_t mac[AM_FRAME_MAC]; /* over hello, proof and all above */
};

/* All three; a MAC covers all that was sent before it. */
struct am_handshake {
    struct am_hello hello;
    struct am_proof proof;
    struct am_welcome welcome;
};

enum am_frame_kind {
    AM_FRAME_HEARTBEAT = 1,
    AM_FRAME_WORKER,    /* exporter: the address of its UCX worker */
    AM_FRAME_IMPORT,    /* importer */
    AM_FRAME_GRANT,     /* exporter: the answer */
    AM_FRAME_RELEASE,   /* importer: the memory is not used any more */
    AM_FRAME_ECHO,      /* importer; the exporter answers with the same */
    AM_FRAME_RECONNECT, /* importer, once more connected; the exporter answers */
    AM_FRAME_CLOSE, /* exporter: asks for the connection; importer: it may be closed */
    AM_FRAME_KINDS,
};

#define AM_FRAME_WORKER_MAX 896
/* The ticket's number of memory that no program has, with no secret: for fabric ping. */
#define AM_FRAME_SCRATCH 0
#define AM_FRAME_SCRATCH_SIZE (UINT64_C(1) << 20)

struct am_frame {
    uint32_t kind;
    uint32_t zero;
    uint64_t counter; /* of this direction, from 0 */
    union {
        struct {
            uint64_t n_used; /* how often the importer has used the connection */
        } beat;
        struct {
            uint32_t size;
            uint32_t lease_ms; /* how long grants are kept for a disconnected importer */
            uint8_t address[AM_FRAME_WORKER_MAX];
            uint32_t port; /* where UCX listens; 0: not known */
            uint32_t zero;
        } worker;
        struct {
            uint64_t id;
            struct am_share_handle ticket;
            uint8_t source[4]; /* the IPv4 address that the importer's data comes from */
        } import;
        struct am_frame_grant {
            uint64_t id;
            int32_t status; /* 0 or an aclError */
            uint32_t n_bytes;
            uint64_t number; /* of the grant, for RELEASE and messages */
            uint64_t size;
            uint8_t bytes[AM_PORT_DESC];
        } grant;
        struct {
            uint64_t number;
        } release;
        struct {
            uint64_t value;
        } echo;
        struct {
            uint32_t n_grants; /* that the importer has */
            uint32_t is_known; /* the answer: they are all there */
            uint8_t source[4]; /* as import.source */
        } reconnect;
        uint8_t all[AM_FRAME_SIZE - 16 - AM_FRAME_MAC];
    };
    uint8_t mac[AM_FRAME_MAC];
};

_Static_assert(sizeof(struct am_hello) == 48, "the format is fixed");
_Static_assert(sizeof(struct am_frame_who) == 104, "the format is fixed");
_Static_assert(sizeof(struct am_proof) == 184, "the format is fixed");
_Static_assert(sizeof(struct am_welcome) == 136, "the format is fixed");
_Static_assert(sizeof(struct am_frame) == AM_FRAME_SIZE, "the format is fixed");

#endif
