/*
 * The state of the remote backend, shared by its files.
 *
 * client.c   requests, exports, imports
 * process.c  the fabric process: start, restart, end; the thread that receives replies
 * copy.c     copies and fills
 * spawn.c    starting the program aclmem-fabric, messages to and from it
 * records.c  the file that aclmem info reads
 */
#ifndef AM_BACKEND_REMOTE_INTERNAL_H
#define AM_BACKEND_REMOTE_INTERNAL_H

#include <bsd/sys/tree.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/queue.h>

#include "backend/remote/remote.h"
#include "base/lock.h"

/* With the moves of all slots, the sockets hold that many, so neither side waits. */
#define AM_REMOTE_CALLS 32

/* A request that its caller waits for. */
struct am_remote_call {
    LIST_ENTRY(am_remote_call) next;
    uint32_t id;
    bool is_done;
    bool is_lost;        /* the fabric process ended before its reply */
    uint64_t generation; /* of the process that replied */
    struct am_port_message reply;
};

/* A message that makes an export known: AM_PORT_EXPORT, or one or more AM_PORT_TRUST. */
struct am_remote_export {
    RB_ENTRY(am_remote_export) node; /* by number and order */
    uint64_t number;
    uint64_t order;
    int fd; /* the memory's, which is open until the export is withdrawn; -1: TRUST */
    struct am_port_message message;
};
RB_HEAD(am_remote_exports, am_remote_export);

/* A move: one slot to or from remote memory. */
struct am_remote_slot {
    uint32_t id;            /* of its last move */
    atomic_bool is_moving;  /* set with the lock; cleared by the copy */
    _Atomic aclError error; /* of the move, written after `why` */
    char why[AM_PORT_TEXT];
};

/* See copy.c. */
#define AM_REMOTE_ALL_CHANNELS ((1u << AM_PORT_CHANNELS) - 1)
struct am_remote_session {
    int area_fd;
    uint8_t *area;
    uint32_t free_channels; /* am_remote.lock, as the next one; a bit for each */
    bool is_ended;          /* the last channel that is released frees the session */
    struct am_remote_slot slots[AM_PORT_SLOTS];
};

enum am_remote_state {
    AM_REMOTE_DOWN,
    AM_REMOTE_UP,
    AM_REMOTE_RESTARTING, /* requests wait */
    AM_REMOTE_LOST,       /* the fabric process stays down; every request fails */
};

struct am_remote {
    struct am_lock start; /* one start or stop at a time */
    bool is_allowed;      /* start; the library is up */
    const struct am_backend_ops *local;

    struct am_lock lock;
    enum am_remote_state state; /* lock, as all below */
    bool is_stopping;
    bool is_given_up;    /* the process does not read messages: it is not restarted */
    bool is_replaying;   /* RESTARTING: the new process may know some exports */
    unsigned n_restarts; /* in a row */
    uint64_t started;    /* time of the last start */
    uint64_t generation; /* number of starts; imports belong to one generation */
    int directory;       /* the runtime directory */
    int socket;
    struct am_remote_session *session;
    struct am_port_place place;
    pthread_t thread;
    uint64_t limit; /* nanoseconds without progress after which the process is given up */
    pthread_cond_t changed; /* the state, a call, a channel */
    uint32_t n_ids;
    unsigned n_calls;
    LIST_HEAD(, am_remote_call) calls;
    atomic_uint n_moved; /* moves that have ended */
    struct am_remote_exports exports;
    uint64_t n_exports; /* messages ever recorded there */
};

extern struct am_remote am_remote;
RB_PROTOTYPE(am_remote_exports, am_remote_export, node, unused)

/* The message if the fabric process has ended. */
extern const char am_remote_lost[];

/* Imported memory, in am_mem.impl. */
enum { AM_REMOTE_NUMBER, AM_REMOTE_GENERATION };

/* client.c: sends a message: 0 or -errno, -EPIPE if the process has ended. */
int am_remote_post_locked(const struct am_port_message *message, int fd)
    AM_REQUIRES(am_remote.lock);
/* That result as a code. */
aclError am_remote_sent(int rc);
/* The next number of a request, a multiple of AM_PORT_SLOTS. */
uint32_t am_remote_id_locked(void) AM_REQUIRES(am_remote.lock);
/* A reply: of a call, or of a move that failed. */
void am_remote_take_reply(const struct am_port_message *reply);
/* All requests fail. */
void am_remote_fail_all(void);
void am_remote_mem_destroy(struct am_mem *mem);

/* copy.c: wakes the thread that waits for this channel. */
void am_remote_ring(struct am_remote_session *session, unsigned channel);
/* The session is freed, at once or with its last channel. */
void am_remote_session_end(struct am_remote_session *session);
/* Waits for a free channel. */
aclError am_remote_channel_acquire(struct am_remote_session **ret_session,
                                   unsigned *ret_channel);
void am_remote_channel_release(struct am_remote_session *session, unsigned channel);

/* spawn.c: starting the program aclmem-fabric, and messages to and from it. */

/* The memory that both processes map. */
aclError am_port_area_open(int *ret_fd, uint8_t **ret_area);
/* Starts the process; it ends when the socket is closed. */
aclError am_port_spawn(int *ret_socket);

/*
 * Fails if ACLMEM_FABRIC or ACLMEM_FABRIC_KEY cannot be right: the key cannot be opened, or
 * the aclmem-fabric program is missing.
 */
aclError am_remote_check(void);
/* The file of ACLMEM_FABRIC_KEY. */
aclError am_port_key_open(int *ret_fd);
/* The first message: the options; `place` of the earlier process, or zero. */
struct am_port_message am_port_begin(const struct am_port_place *place);

/*
 * Waits for room: 0 or -errno; -ETIMEDOUT: the process does not read.  fd is -1 for none,
 * and stays the caller's.
 */
int am_port_send(int socket, const struct am_port_message *message, int fd);
/* Waits up to ms milliseconds: 0, -EAGAIN, or -errno. */
int am_port_receive(int socket, struct am_port_message *ret_message, int ms);

/*
 * records.c: a small file in the runtime directory from which aclmem info reads what a process
 * imports from, and exports to, other machines.  The program makes and removes the file, the
 * fabric process writes it, as rows of struct am_port_row.  The file of a process that was
 * killed has no lock, and the next reader removes it.
 */

/* A new file: a descriptor, or -1; memory is shared without the file, too. */
int am_remote_records_make(int directory);
void am_remote_records_remove(int directory);

#endif
