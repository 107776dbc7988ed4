/*
 * Translates values of a recording to values of this run: addresses within ranges, handles,
 * keys, shareable handles, process ids, and substitutes for the program's own memory and
 * functions.
 */
#ifndef ACLMEM_TRANSLATE_H
#define ACLMEM_TRANSLATE_H

#include <pthread.h>
#include <stdint.h>

#include "play.h"
#include "trace/reader.h"

#define NAMES_MAX 4096
#define NAME_SIZE 160

/* Shared by the processes of a replay. */
struct translate_shared {
    pthread_mutex_t lock;
    void *memory;         /* stands for the programs' own memory; NULL: there is none */
    uint64_t memory_used; /* bytes of it that calls may have written */
    uint64_t host_max;    /* limit of host memory: pinned, managed and memory_used */
    uint64_t host_used;
    bool is_over; /* a call was left out because of the limit */
    uint32_t n;   /* names that processes give to each other */
    struct {
        uint8_t recorded[NAME_SIZE], actual[NAME_SIZE];
        uint32_t recorded_size, actual_size;
    } name[NAMES_MAX];
};

struct places; /* of a process: all its threads have the same */

/* One for each thread: a copy of the result of translate_begin(). */
struct translation {
    struct translate_shared *shared;
    struct places *places;
    uint64_t report_thread; /* that runs callbacks, here */
    bool has_failed;        /* in the recording: set before translate_arguments() */
    uint64_t freed;         /* bytes of the block that the last call frees */
    uint64_t charged;       /* bytes of host memory that the last call allocates */
    uint64_t uncharged;     /* bytes of host memory that the last call frees */
    bool is_locked;         /* the last call has addresses that must stay */
    uint64_t n_stops;       /* of the library, before the last call */
    uint64_t extent;        /* the largest element of a batch, in bytes */
    bool is_refused;        /* the arguments cannot be made: the call is left out */
    bool is_shortened;      /* an array was recorded in part */
    uint8_t *scratch;       /* what the arguments of a call point to */
    size_t n_scratch;
};

/* Before the processes of the replay are forked. */
void translate_share(struct translate_shared *shared, uint64_t host_max);
struct translation *translate_begin(struct translate_shared *shared);
void translate_pid(struct translate_shared *shared, int recorded, int actual);
void translate_end(struct translation *t);  /* of a thread */
void translate_free(struct translation *t); /* of the process */

/*
 * Before a call; false if it cannot be made with this trace, or needs too much host memory.
 * Addresses that the call uses are not returned to the system until translate_done().
 */
bool translate_arguments(struct translation *t, const struct play_function *function,
                         const struct trace_value *value, uint64_t *ret_argument);
/* After each call that was made. */
void translate_done(struct translation *t, const struct play_function *function,
                    const struct trace_value *value, const uint64_t *argument,
                    int64_t rc);
/* After that, if the call succeeded: enters its results. */
void translate_results(struct translation *t, const struct play_function *function,
                       const struct trace_value *value, const uint64_t *argument);

#endif
