/*
 * The file of the layer trace: slots for threads, and full ones compressed.
 *
 * One file serves every process that has the same name for it at the same time.  The first
 * one takes a lock on the file, begins it anew and keeps a shared lock; processes that come
 * while a shared lock is held join.  Nothing of the program ever waits for another process.
 */
#ifndef AM_LAYER_TRACE_FILE_H
#define AM_LAYER_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "trace/format.h"

/* A mapped slot; threads own one each. */
struct am_trace_slot_map {
    STAILQ_ENTRY(am_trace_slot_map) link;
    struct am_trace_chunk *chunk;
    size_t
        lead; /* bytes of the mapping before the chunk: slots need not begin at pages */
};

/*
 * Opens the file, in which %p is the process; 0 or -errno.  Where this process has a file
 * open already it goes on.  *ret_is_new is true if this process has no number in it yet.
 */
int am_trace_file_open(const char *name, bool *ret_is_new);

/* Counts how often this process, or the one that it was forked from, opened a file. */
extern _Atomic uint32_t am_trace_generation;

/*
 * An empty slot that is this thread's: its chunk has the process and the number.  NULL when
 * the file cannot grow: then recording ends for the process, with one message.
 */
struct am_trace_slot_map *am_trace_slot_take(uint32_t thread, uint64_t number,
                                             uint64_t now);

/* The slot is complete; it is compressed when there is time, and then used again. */
void am_trace_slot_give(struct am_trace_slot_map *slot);

/* The number of calls that are not in the file. */
void am_trace_lose(uint64_t n);

/* Waits until full slots are compressed, and ends the thread that does it. */
void am_trace_file_settle(void);

#endif
