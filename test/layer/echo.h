/*
 * A layer made from the lists: every function notes that it was called, with its
 * arguments as numbers, and returns something of its own or passes the call on.  For each
 * row there is also a caller that calls the exported symbol with arguments made from
 * numbers.
 */
#ifndef TEST_LAYER_ECHO_H
#define TEST_LAYER_ECHO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/api.h"

#define ECHO_ARGS_MAX 10

struct echo_call {
    enum am_api_id id;
    size_t n_args;
    uint64_t arg[ECHO_ARGS_MAX];
};

/* Every slot filled; nothing is passed on. */
extern const struct am_layer echo_layer;
/* Every slot filled; every call is passed on to the table that attach() was given. */
extern const struct am_layer pass_layer;

/* What was called, in order, by either. */
extern struct echo_call echo_calls[4096];
extern size_t echo_n_calls;

extern const struct echo_row {
    const char *name;
    const char *sig; /* "virPtr:p size:z ..." */
    bool is_code;    /* returns aclError; else a text */
    uint64_t (*call)(const uint64_t *values);
} echo_rows[AM_API_COUNT];

/* What echo_layer's function for this row returns. */
uint64_t echo_result(enum am_api_id id);

#endif
