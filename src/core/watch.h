/* What the core reports to layers, and to the handler that explains faults. */
#ifndef AM_CORE_WATCH_H
#define AM_CORE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct am_watch_place {
    const char *what; /* "block", "mapping", "a memory pool" */
    uintptr_t start;
    size_t size;
    int device; /* -1: the host */
};

/*
 * The memory that the program knows by this address; false: none of ours.  Takes no lock
 * and allocates nothing, so that a signal handler may ask.
 */
bool am_watch_find(uintptr_t addr, struct am_watch_place *ret_place);
/* Whether the address lies in a reservation.  The same. */
bool am_watch_is_reserved(uintptr_t addr);

/* What the program has of memory and has not given back. */
struct am_watch_left {
    uint64_t blocks;      /* of devices */
    uint64_t host_blocks; /* pinned ones */
    uint64_t managed_blocks;
    uint64_t handles; /* of physical memory */
    uint64_t size;    /* bytes of all of them */
};

struct am_watch_left am_watch_count(void);

/*
 * A task of a stream or of a model that a thread of the library ran; times as am_clock().  A task
 * of a model has the queueing time of the execution, and begins when the task before it ends.
 */
struct am_watch_task {
    uint64_t stream;      /* its handle; 0: a default one, or the task is of a model */
    uint64_t model;       /* its handle, or 0 */
    uint32_t number;      /* in the model */
    const char *function; /* the call that queued it */
    uint64_t queued, began, ended;
};

/*
 * The functions are called for each such task, and with the bytes of a device that the process
 * holds whenever they change, from any thread; the second with locks held.
 */
void am_watch_tasks(void (*ran)(const struct am_watch_task *task));
void am_watch_held(void (*changed)(int device, uint64_t held));

/*
 * true: from now on the library reaches pinned memory at other addresses than the program, so that
 * those of the program may be protected.  false: the backend cannot.
 */
bool am_watch_pinned(bool is_watched);

/* A layer holds a function of the program back.  Chaos mode runs other work until then. */
void am_watch_function_held(void);

#endif
