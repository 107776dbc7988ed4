/*
 * Random programs of streams, and which of their operations are ordered in every execution:
 * oracle.c generates and computes, oracle_run.c runs and compares.
 */
#ifndef TEST_CHECK_ORACLE_H
#define TEST_CHECK_ORACLE_H

#include <stdbool.h>
#include <stdint.h>

#include "acl/acl.h"

#define N_OPS 50
#define N_STREAMS 5 /* the last one never waits: it makes records that were waited for */
#define STREAM_DEFAULT (N_STREAMS - 2)
#define STREAM_LAST (N_STREAMS - 1)
#define N_EVENTS 3
#define N_EARLY 2 /* events that are waited for before their record */
#define N_NOTIFIES 2
#define N_VALUES 3 /* words that streams and the host write, and streams wait for */
#define VALUE_MAX 3
#define N_BUFFERS 3 /* the last one has two addresses */
#define N_THREADS 3
#define SIZE 64

enum type {
    NOTHING,
    WRITE,         /* stream, buffer */
    READ,          /* stream, buffer */
    HOST_WRITE,    /* buffer */
    HOST_READ,     /* buffer */
    FREE,          /* buffer; a new one has its name from then on */
    REMAP,         /* one address of the last buffer is unmapped, and mapped again */
    RECORD,        /* stream, event */
    WAIT,          /* stream, event */
    WAIT_EARLY,    /* stream, early event */
    RECORD_EARLY,  /* stream, early event */
    RESET_EARLY,   /* stream, early event: later waits are for the next record */
    RECORD_NOTIFY, /* stream, notify */
    WAIT_NOTIFY,   /* stream, notify: the nth wait is for the nth record */
    WRITE_VALUE,   /* stream, word, part: the value */
    WAIT_VALUE,    /* stream, word, part: the value, alias: the condition */
    RENEW,         /* event: destroyed and made again */
    RENEW_STREAM,  /* stream: destroyed and made again */
    HOST_VALUE,    /* word, part: the value */
    SYNC_STREAM,   /* stream; alias 1: by polling */
    SYNC_EVENT,    /* event; alias 1: by polling */
    SYNC_DEVICE,   /* alias 1: with a timeout */
    GATE,          /* stream: a function that returns before the host next waits */
};

struct op {
    enum type type;
    int stream;
    int what;   /* the buffer, event, notify or word */
    int alias;  /* which address of the buffer */
    int part;   /* of the buffer: 0 all, 1 the first half, 2 the second one; a value */
    int thread; /* of the host, that makes the call */
};

struct program {
    struct op op[N_OPS];
    int n;
    bool has_threads;
};

/*
 * Bit j of an entry i: operation j ended before i began, in every execution.  A node of the
 * host is the return of its call; a node of a stream is the work.
 */
struct order {
    uint64_t work[N_OPS];  /* what is before the work of i; of a host's call: before it */
    uint64_t begin[N_OPS]; /* of a wait: what is before the stream begins to wait */
    uint64_t host[N_OPS];  /* what the host knows when call i returns */
};

/* ---- oracle.c ---- */

/* A program whose accesses are all ordered; n is 0: the seed has none. */
void program_generate(uint64_t seed, struct program *p);
/* Removes one synchronisation, so that a race is sure; false: none does. */
bool program_break(struct program *p);
void program_print(const struct program *p);
void races_print(const struct program *p);
void order_compute(const struct program *p, struct order *o);
/* Whether i and k, k before i in the text, are accesses that nothing orders. */
bool is_race(const struct program *p, const struct order *o, int k, int i);
bool has_race(const struct program *p, const struct order *o);

/* ---- random numbers, and a function for each operation ---- */

/* A stack with op_N in it belongs to operation N. */
/* clang-format off */
#define TEN(X, n_) \
    X(n_##0) X(n_##1) X(n_##2) X(n_##3) X(n_##4) X(n_##5) X(n_##6) X(n_##7) X(n_##8) X(n_##9)
#define OPS(X) TEN(X, 0) TEN(X, 1) TEN(X, 2) TEN(X, 3) TEN(X, 4)
/* clang-format on */
#define OP_ENTRY(n_) op_##n_,
#define OP_FUNCTIONS(run_) \
    OPS(OP_FUNCTION) \
    static void (*const run_[])(const struct op *) = {OPS(OP_ENTRY)};
#define OP_FUNCTION(n_) \
    void op_##n_(const struct op *op); \
    __attribute__((noinline, visibility("default"))) void op_##n_(const struct op *op) \
    { \
        op_run(op); \
        __asm__ volatile(""); /* no tail call */ \
    }

static inline int random_below(uint64_t *state, int n)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return (int)((*state >> 11) % (uint64_t)n);
}

/* The first numbers of neighbouring seeds are alike: some are left out. */
static inline uint64_t random_seed(uint64_t seed)
{
    uint64_t state = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;

    for (int i = 0; i < 10; i++)
        random_below(&state, 2);
    return state;
}

#endif
