/*
 * State of the layer check for each thread of the program.
 *
 * It is too large for thread-local storage, of which a library that is loaded late gets
 * little, so a thread has one pointer and the rest is allocated at its first call.
 */
#ifndef AM_LAYER_THREAD_H
#define AM_LAYER_THREAD_H

#include "layer/metadata.h"
#include "layer/finding.h"
#include "layer/order.h"

#define AM_QUARANTINE_MAX 256 /* blocks in quarantine: quarantine.h */
#define AM_FAILURES_MAX 8     /* that are remembered: ignored.c */

struct am_failure {
    bool is_set;
    uint64_t value; /* what the program has where the result should be */
    aclError rc;
    struct am_site site;
};

struct am_thread {
    uint32_t id;                  /* gettid() */
    atomic_uint refs;             /* the thread's own, and functions that it queued */
    atomic_bool is_ended;         /* the thread has ended */
    _Atomic uint64_t n_calls;     /* of the program, in this thread */
    _Atomic uint64_t n_polls;     /* of these, queries of a stream or event */
    struct am_finding finding[2]; /* of the call that it is in */
    struct am_work work;          /* the same */
    struct {
        void *addr;
        bool is_host;
        uint64_t n_resets;             /* am_check.n_resets at the release */
    } released[AM_QUARANTINE_MAX + 1]; /* frees to be passed on */
    unsigned n_released;
    struct am_failure failure[AM_FAILURES_MAX];
    unsigned next_failure;
    uint64_t serial;       /* am_serial_next(): the last number */
    uint64_t serials_era;  /* am_check.n_serials at the begin of the batch */
    unsigned n_serials;    /* that are left of the batch */
    atomic_bool is_inside; /* a call of the program is in the layer or below it */
    bool is_querying;      /* calls of this thread are the layer's own queries */
    bool is_sharing;       /* its hook shares the metadata: shared.h */
    struct am_wait *wait;  /* that its call is in; NULL: none */
    struct am_agent *function_agent; /* the stream whose function it runs; NULL: none */
    bool is_declared; /* it runs a function whose memory was declared (aclmem/access.h) */
};

/* The calling thread's; NULL without memory. */
struct am_thread *am_thread_get(void);
/* The calling thread's with one more reference; NULL without memory. */
struct am_thread *am_thread_ref(void);
void am_thread_put(struct am_thread *thread);
/* Whether the calling thread is in a call; asks nothing of the system. */
bool am_thread_is_inside(void);

#endif
