/*
 * The state of remote.h, shared by its files.
 *
 * remote.c        requests and their answers, exports and imports
 * remote_start.c  the fabric process begins, begins again, and ends; its answers' thread
 * remote_move.c   slots, bells and moves
 */
#ifndef AM_CORE_REMOTE_STATE_H
#define AM_CORE_REMOTE_STATE_H

#include <pthread.h>

#include "base/lock.h"
#include "core/remote/remote.h"
#include "core/remote/remote_offer.h"
#include "core/remote/remote_process.h"

/* As many as the sockets hold, so that neither side ever waits for the other. */
#define AM_REMOTE_REQUESTS 96
/* Places for them; a power of two: numbers of requests wrap around. */
#define AM_REMOTE_PLACES 128

struct am_remote_request {
    /* Called without the lock, when the entry is free again.  NULL: the entry is free. */
    void (*reply)(void *arg, const struct am_port_message *reply);
    void *arg;
    uint32_t id;
};

/*
 * After a start: is_up.  When the process has ended: is_gone too, and while it is started
 * again, is_restarting.  Imports of an earlier generation are gone.
 */
struct am_remote {
    struct am_lock start; /* one start at a time */
    bool can_start;       /* start; the library has not stopped */
    struct am_lock lock;
    bool is_up;          /* lock, as all below */
    bool is_gone;        /* no request is taken */
    bool may_restart;    /* it was up once, and is not being stopped */
    bool is_restarting;  /* a request may wait for its end */
    bool is_leaving;     /* the thread may end: its end is waited for */
    bool is_heard;       /* while it is restarting: it takes messages without an answer */
    unsigned n_restarts; /* in a row */
    uint64_t begun;      /* when the process was up */
    uint64_t generation; /* how often it was started; never 0 while it is up */
    struct am_port_process process;
    struct am_port_place place;
    pthread_t thread;
    uint64_t limit; /* nanoseconds without an answer after which it is given up */
    struct am_remote_request requests[AM_REMOTE_PLACES]; /* AM_REMOTE_REQUESTS in use */
    uint32_t n_ever;
    unsigned n_requests;
    pthread_cond_t room; /* a request is over, or the process's state has changed */
    uint64_t free_slots; /* a bit for each, as the next one */
    uint64_t free_bells;
    TAILQ_HEAD(, am_remote_waiter) waiters;
    struct am_offer_tree exports;
};

extern struct am_remote am_remote;

/* Why requests fail when the process is gone for good. */
extern const char am_remote_gone[];

/* remote.c: the result of am_port_send() as a code. */
aclError am_remote_sent(int rc);
/* For a request of any kind. */
aclError am_remote_request_locked(struct am_port_message *message, int fd,
                                  void (*reply)(void *, const struct am_port_message *),
                                  void *arg) AM_REQUIRES(am_remote.lock);
/*
 * Ends the request of this number, if it has not ended: the thread that ends a request is
 * the only one that tells its caller.
 */
bool am_remote_request_take_locked(uint32_t id, struct am_remote_request *ret_request)
    AM_REQUIRES(am_remote.lock);
/* Sends a request and waits for the answer, which replaces it; it was of the generation. */
aclError am_remote_ask(struct am_port_message *message, int fd, uint64_t *ret_generation);
void am_remote_take_reply(const struct am_port_message *reply);
/* Every request ends with the failure. */
void am_remote_fail_all(void);

/* Of remote memory, in am_mem.impl: the import's number, and the generation it is of. */
enum { AM_REMOTE_NUMBER, AM_REMOTE_GENERATION };

#endif
