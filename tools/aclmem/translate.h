/*
 * Values of a recording as values of this run: addresses within ranges, handles, keys,
 * shareable handles, processes; and what stands for the program's own memory and functions.
 */
#ifndef ACLMEM_TRANSLATE_H
#define ACLMEM_TRANSLATE_H

#include <pthread.h>
#include <stdint.h>

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

struct ranges; /* of a process: all its threads have the same */

/* One for each thread: a copy of what translate_begin() gave. */
struct translation {
    struct translate_shared *shared;
    struct ranges *ranges;
    uint64_t report_thread; /* that runs callbacks, here */
    uint64_t freed;         /* bytes of the block that the last call frees */
    uint8_t *scratch;       /* for arguments of a call */
    size_t n_scratch, max_scratch;
    void *memory; /* for copies from and to the program's own memory */
    size_t memory_size;
};

struct translation *translate_begin(struct translate_shared *shared);
void translate_pid(struct translate_shared *shared, int recorded, int actual);
void translate_end(struct translation *t);

void translate_arguments(struct translation *t, const struct trace_function *function,
                         const struct trace_value *value, uint64_t *ret_argument);
void translate_results(struct translation *t, const struct trace_function *function,
                       const struct trace_value *value, const uint64_t *argument);

#endif
