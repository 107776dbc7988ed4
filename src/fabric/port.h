/*
 * The messages between a program and its fabric process.
 *
 * The library starts a second process, the fabric process, which alone uses the network.
 * They are connected by a Unix socket (SOCK_SEQPACKET); every message is one struct
 * am_port_message, some with a descriptor.  Bytes of remote memory pass through the area, a
 * memory file that both map, divided into slots: the fabric process does not access other
 * memory of the program.
 *
 * The program sends requests with numbers.  Each request except READY, RELEASE and WITHDRAW
 * gets a reply with the same number.
 */
#ifndef AM_FABRIC_PORT_H
#define AM_FABRIC_PORT_H

#include <stdint.h>

#include "base/share_handle.h"

#define AM_PORT_VERSION 7
#define AM_PORT_SLOT_SIZE (UINT64_C(512) << 10)
/* A copy uses the slots of one channel, and its doorbell. */
#define AM_PORT_CHANNELS 16
#define AM_PORT_CHANNEL_SLOTS 4 /* a few, so that they stay in the cache */
#define AM_PORT_SLOTS (AM_PORT_CHANNELS * AM_PORT_CHANNEL_SLOTS)
/* The area: the slots, followed by struct am_port_doorbells. */
#define AM_PORT_DOORBELLS_AT (AM_PORT_SLOTS * AM_PORT_SLOT_SIZE)
#define AM_PORT_AREA_SIZE (AM_PORT_DOORBELLS_AT + 4096)
#define AM_PORT_TEXT 384
#define AM_PORT_DESC 112 /* bytes that describe exported memory, for the importer */
#define AM_PORT_PIDS 16  /* in one message */

enum am_port_kind {
    /* From the program. */
    AM_PORT_BEGIN = 1, /* with the area */
    AM_PORT_RECORDS,   /* with the file that aclmem info reads; optional */
    AM_PORT_KEY,       /* with the key's file; the reply follows when all is up */
    AM_PORT_READY,     /* to a process that replaces another one: it has all exports */
    AM_PORT_EXPORT,    /* with the memory */
    AM_PORT_TRUST,
    AM_PORT_WITHDRAW,
    AM_PORT_IMPORT,
    AM_PORT_RELEASE,
    AM_PORT_PUT,
    AM_PORT_GET,
    /* From the fabric process. */
    AM_PORT_REPLY,
};

/* The address of an exporting fabric process: it is a part of fabric handles. */
struct am_port_place {
    uint8_t family; /* 4: IPv4; 0: the exporter is not on a network */
    uint8_t zero;
    uint16_t port; /* of the machine's byte order, as all here */
    int32_t pid;   /* of the program, for messages */
    uint8_t address[16];
    uint8_t instance[16]; /* random: which process listens there */
};

/* A row of the records: a process of another machine that shares memory. */
struct am_port_row {
    uint64_t n_bytes;     /* imported from there, or exported to there */
    uint32_t n;           /* pieces of memory */
    uint32_t is_importer; /* the peer imports from this process */
    int32_t pid;
    uint32_t zero;
    char host[64];
    char address[48];
};

struct am_port_export {
    struct am_share_handle ticket;
    uint64_t size;
    uint32_t is_open;
    uint32_t n_bytes;
    uint8_t bytes[AM_PORT_DESC];
};

struct am_port_message {
    uint32_t kind;
    uint32_t id;
    int32_t status; /* of a reply: 0 or an aclError, with a text */
    uint32_t zero;
    union {
        struct am_port_begin {
            uint32_t version;
            int32_t pid;        /* of the program, as this machine's kernel has it */
            int32_t public_pid; /* as programs pass it around */
            uint32_t timeout_ms;
            uint32_t n_connections; /* in each role, at most */
            uint8_t machine[16];
            char where[128]; /* ACLMEM_FABRIC */
            /* Of the process that this one replaces; family 0: it replaces no process. */
            struct am_port_place place;
        } begin;
        struct { /* the reply to KEY; its text says where UCX listens */
            struct am_port_place place;
            uint32_t is_exposed; /* more than on a current kernel */
        } up;
        struct am_port_export export_;
        struct {
            struct am_share_handle ticket;
            uint32_t n;
            int32_t pids[AM_PORT_PIDS];
        } trust; /* WITHDRAW: the ticket alone */
        struct {
            struct am_port_place place;
            struct am_share_handle ticket;
        } import;
        struct am_port_imported { /* the reply to it */
            uint64_t number;      /* of the import, for the following requests */
            uint64_t size;
            uint32_t n_bytes;
            uint8_t bytes[AM_PORT_DESC];
            char host[64]; /* the exporter's machine */
            int32_t pid;
        } imported;
        struct {
            uint64_t number; /* as RELEASE */
            uint64_t offset; /* in the remote memory */
            uint64_t size;
            uint32_t slot; /* success is reported by its doorbell, failure by a reply */
        } move;
    };
    char text[AM_PORT_TEXT];
};

/*
 * How the fabric process reports that a move has succeeded.  It sets done[slot] to the
 * number of the request, increments the count of the channel, and wakes the thread that
 * waits for the count (FUTEX_WAIT).
 */
struct am_port_doorbells {
    _Atomic uint32_t done[AM_PORT_SLOTS];
    _Atomic uint32_t count[AM_PORT_CHANNELS];
};

#endif
