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

/* Names that processes give to each other. */
struct translate_shared {
    pthread_mutex_t lock;
    uint32_t n;
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
    uint64_t freed;         /* bytes of the block that the last call frees */
    uint64_t extent;        /* the largest element of a batch, in bytes */
    bool is_refused;        /* the arguments cannot be made: the call is left out */
    bool is_shortened;      /* an array was recorded in part */
    uint8_t *scratch;       /* what the arguments of a call point to */
    size_t n_scratch;
};

struct translation *translate_begin(struct translate_shared *shared);
void translate_pid(struct translate_shared *shared, int recorded, int actual);
void translate_end(struct translation *t);

/* False if the call cannot be made with this trace. */
bool translate_arguments(struct translation *t, const struct play_function *function,
                         const struct trace_value *value, uint64_t *ret_argument);
void translate_results(struct translation *t, const struct play_function *function,
                       const struct trace_value *value, const uint64_t *argument);

#endif
