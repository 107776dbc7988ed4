/*
 * Small programs with a mistake each, and the same ones fixed.
 *
 * A case is a function that is run in a process of its own, with the library up and device
 * 0 set.  The mistake is in a function whose name the finding must show.  is_fixed makes
 * the difference between the two, and nothing else.  What must be found stands beside the
 * case, so that the program can list it and the test compare:
 *
 *     BUG("leak.block/forgotten", forgotten, "leak.block", "1 block of 1.0 MB", "take_block")
 */
#ifndef TEST_CHECK_BUGS_H
#define TEST_CHECK_BUGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"

struct bug {
    const char *name; /* kind/what; NULL ends a list */
    void (*run)(bool is_fixed);
    const char *kind;     /* of the one finding; "" for cases that have none */
    const char *words;    /* in its message */
    const char *function; /* in one of its stacks */
    const char *options;  /* "--check all": further ones of aclmem run, or NULL */
    const char *product;  /* ACLMEM_PRODUCT, where it is not the default one */
    int code;             /* the program's exit code where it is not 0 */
    bool ends_by_itself;  /* the case finalizes, or leaves that out */
};

#define BUG(name_, run_, kind_, words_, function_, ...) \
    { \
        .name = name_, .run = run_, .kind = kind_, .words = words_, \
        .function = function_, __VA_ARGS__ \
    }

extern const struct bug leak_bugs[];
extern const struct bug life_bugs[];
extern const struct bug bounds_bugs[];
extern const struct bug order_bugs[];
extern const struct bug access_bugs[];
extern const struct bug wait_bugs[];
extern const struct bug misc_bugs[];
extern const struct bug touch_bugs[];
extern const struct bug model_bugs[];
extern const struct bug lint_bugs[];
extern const struct bug legal_order[]; /* correct programs: legal/ */
extern const struct bug legal_memory[];
extern const struct bug legal_threads[];
extern const struct bug legal_ranges[];
extern const struct bug legal_models[];

/* A mistake is made in a function of its own, which stays one. */
#define MISTAKE static __attribute__((noinline))

#define MUST(call_) must((call_), #call_, __LINE__)
void must(aclError rc, const char *call, int line);

#define MIB ((size_t)1 << 20)
#define CHUNK (2 * MIB)

aclrtPhysicalMemProp device_prop(int device);
aclrtMemPoolProps pool_prop(size_t size);
aclrtMemPool pool_open(size_t size);
/* Addresses, memory and a mapping of one chunk. */
struct chunk {
    void *va;
    aclrtDrvMemHandle handle;
};
struct chunk chunk_open(void);
void chunk_close(struct chunk chunk);
aclrtStream stream_open(void);
void *block_open(size_t size);
void *host_open(size_t size);

/* A function on the stream that holds it until gate_let() is called. */
struct gate {
    _Atomic int is_open;
};
void gate_hold(struct gate *gate, aclrtStream stream);
void gate_let(struct gate *gate);

#endif
