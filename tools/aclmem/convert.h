/* Forms that a trace is written in: convert.c has the list. */
#ifndef ACLMEM_CONVERT_H
#define ACLMEM_CONVERT_H

#include <stdio.h>

#include "history.h"

/* What flame graphs show. */
enum of { OF_PEAK, OF_ALLOCATED, OF_CALLS, OF_TIME, OF_COUNT };

extern const char *const of_names[OF_COUNT];
uint64_t where_value(const struct where *where, enum of of);

/* By blocks, so also for traces of other programs. */
void write_folded(FILE *out, struct history *history, enum of of);
void write_speedscope(FILE *out, struct history *history);
void write_pytorch(FILE *out, struct history *history);
void write_lines(FILE *out, struct history *history);

/* By calls: the trace is read to its end, from where it is. */
void write_csv(FILE *out, struct history *history, struct trace *trace);
void write_chrome(FILE *out, struct history *history, struct trace *trace);
void write_perfetto(FILE *out, struct history *history, struct trace *trace);

/* Bytes of memory of each device after each change, in the order of time. */
struct step {
    uint64_t time;
    int32_t device;
    uint64_t bytes;
};
struct step *steps_make(const struct history *history, size_t *ret_n);

#endif
