/*
 * Memory of other machines: the program's side of the fabric process (fabric/port.h).
 *
 * With ACLMEM_FABRIC, the first export or import of a fabric handle starts the process
 * aclmem-fabric beside the program.  That process serves exported memory and reaches
 * remote memory; this module sends it requests, and one thread takes its answers.
 *
 * Bytes pass through slots, pieces of memory that both processes map.  A move is a slot
 * and a piece of remote memory; the thread reports the end of each.  The fabric process
 * ends every request in time.  When it has ended, all moves end with 507022, and the thread
 * starts another one with the same exports; imports of the one before are gone.  When it is
 * silent for twice that time, or ends again and again, all requests end with 507022, and so
 * do later ones, until the library is stopped.
 */
#ifndef AM_CORE_REMOTE_H
#define AM_CORE_REMOTE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_base.h"
#include "backend/backend.h"
#include "fabric/port.h"

/* Whether the program asked for it: ACLMEM_FABRIC is set. */
bool am_remote_is_wanted(void);
/*
 * Starts the fabric process, unless it is up.  *ret_place, unless it is NULL, is where this
 * process's exports are served.
 */
aclError am_remote_start(struct am_port_place *ret_place);

/* fd shows `size` bytes and stays the caller's; at most AM_PORT_DESC bytes describe it. */
aclError am_remote_export(const struct am_port_ticket *ticket, bool is_open, int fd,
                          size_t size, const void *bytes, size_t n_bytes);
aclError am_remote_trust(const struct am_port_ticket *ticket, const int32_t *ids,
                         size_t n);
/* Ends an export; does nothing for a number that is none. */
void am_remote_withdraw(uint64_t number);

/* Memory that was imported; mem is as a backend's, and ends with its mem_destroy(). */
struct am_remote_import {
    struct am_mem mem;
    int32_t pid; /* the exporter's */
    uint32_t n_bytes;
    uint8_t bytes[AM_PORT_DESC];
};
aclError am_remote_import(const struct am_port_place *place,
                          const struct am_port_ticket *ticket,
                          struct am_remote_import *ret_import);

/* One slot to or from remote memory. */
struct am_remote_move {
    bool is_put;
    /*
     * Of a put: it ends when the slot may be used again.  A later put to the same memory,
     * without this, ends when the bytes of both have arrived.
     */
    bool has_more;
    unsigned slot;
    struct am_mem *mem;
    size_t offset; /* in mem */
    size_t size;   /* at most AM_PORT_SLOT_SIZE */
    unsigned bell; /* of am_remote_bell_take(), or 0 */
    uint32_t id;   /* am_remote_begin()'s */
    /*
     * The end, by another thread or from within am_remote_begin(), without a lock; rc is 0
     * or a code, with its reason.  With a bell, success is told by am_remote_landed()
     * alone.
     */
    void (*done)(struct am_remote_move *move, aclError rc, const char *why);
};

/* One who waits for a slot. */
struct am_remote_waiter {
    TAILQ_ENTRY(am_remote_waiter) next;
    void (*wake)(struct am_remote_waiter *waiter); /* without a lock */
};

/* False: all are taken, and the waiter, if there is one, is called when one is free. */
bool am_remote_slot_take(struct am_remote_waiter *waiter, unsigned *ret_slot);
void am_remote_slot_give(unsigned slot);
/* False: it has been called, or is about to be. */
bool am_remote_unwait(struct am_remote_waiter *waiter);
void *am_remote_slot(unsigned slot);

void am_remote_begin(struct am_remote_move *move);

/*
 * A bell rings when something happened to the moves of the thread that waits for it: a
 * shorter way than another thread's call of done().  0: none is free.
 */
unsigned am_remote_bell_take(void);
void am_remote_bell_give(unsigned bell);
uint32_t am_remote_bell_count(unsigned bell);
void am_remote_bell_ring(unsigned bell);
/* Whether puts with has_more do not ring; to be called between the count and the wait. */
void am_remote_bell_quiet(unsigned bell, bool is_quiet);
/* Waits until it has rung since it was counted; awake at first, for a short move. */
void am_remote_bell_wait(unsigned bell, uint32_t count, bool is_short);
/* Whether a move with a bell has succeeded; true once. */
bool am_remote_landed(struct am_remote_move *move);

/* At the library's start: the fabric process may be started when it is wanted. */
void am_remote_allow(void);
/* Ends the fabric process; a call that outlives the stop does not start it again. */
void am_remote_stop(void);
/* In the child of a fork. */
void am_remote_forget(void);

#endif
