/* Replaying the calls of a recorded trace. */
#ifndef ACLMEM_PLAY_H
#define ACLMEM_PLAY_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/reader.h"

struct play_choice {
    const char *backend; /* ACLMEM_BACKEND; NULL: as the environment has it */
    bool is_recorded_speed;
    const char *json; /* of --json[=FILE]; NULL: text */
    uint64_t
        host_memory; /* limit in bytes; 0: the default, half of this machine's memory */
};

/* 0 if every result equals the recorded one; 1 if not, or after printing an error. */
int play_calls(const char *path, const struct play_choice *choice);

/*
 * play_calls.c: the functions of this library.  Each argument has 8 bytes: its value, or the
 * address of a struct that is passed by value and has more than 8 bytes.
 */
typedef int64_t (*play_call_function)(const uint64_t *argument);

struct play_param {
    char name[32];
    char letter;    /* as in api.def */
    char element;   /* of an array; 0: none */
    bool is_output; /* the array is a result */
    int count;      /* the argument with its number of elements; -1: one element */
    size_t size;    /* of the struct; 0: none */
};

struct play_function {
    const char *name;
    play_call_function call;
    uint32_t n;
    struct play_param param[TRACE_ARGS_MAX];
};

/* NULL if this library has no such function, or if it returns no error code. */
const struct play_function *play_function_find(const char *name);
/* Whether the trace's signature has the same arguments, letters and arrays. */
bool play_function_agrees(const struct play_function *function,
                          const struct trace_function *recorded);

/* play_read.c: the calls of a trace. */
#define PLAY_ARRAY_MAX 1024u /* elements that a trace has of an array */

struct play_call {
    size_t number;                        /* in the order of events */
    const struct play_function *function; /* NULL: the call is left out */
    const char *name;                     /* of the trace */
    uint32_t n;                           /* values */
    struct trace_value *value;
    uint64_t begin, end;
    uint64_t turn;    /* number of calls that ended before it began */
    uint64_t n_begun; /* number of calls that began before it ended */
    int64_t result;
    uint32_t process; /* of the recording */
    uint32_t thread;
    bool is_counted; /* it returns an error code: leaving it out is reported */
};

struct play_trace {
    struct play_call *call; /* in the order of their begins */
    size_t n_calls, max_calls;
    uint64_t size;          /* bytes */
    uint64_t *place;        /* of a call, in the order of ends */
    uint32_t report_thread; /* that runs callbacks, in the recording */
};

/* False, and the reason in TRACE_WHY_SIZE bytes; play_free() is called in both cases. */
bool play_read(struct play_trace *p, struct trace *trace, char *why);
void play_free(struct play_trace *p);
/* Exits if memory is NULL. */
void *play_must(void *memory);

#endif
