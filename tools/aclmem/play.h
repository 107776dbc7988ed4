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
};

/* 0 if every result equals the recorded one; 1 if not, or after printing an error. */
int play_calls(const char *path, const struct play_choice *choice);

/*
 * play_calls.c: the functions of this library.  Each argument has 8 bytes: its value, or the
 * address of a struct that is passed by value and has more than 8 bytes.
 */
typedef int64_t (*play_call)(const uint64_t *argument);

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
    play_call call;
    uint32_t n;
    struct play_param param[TRACE_ARGS_MAX];
};

/* NULL if this library has no such function, or if it returns no error code. */
const struct play_function *play_function_find(const char *name);
/* Whether the trace's signature has the same arguments, letters and arrays. */
bool play_function_agrees(const struct play_function *function,
                          const struct trace_function *recorded);

#endif
