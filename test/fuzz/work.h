/*
 * What fuzz_work knows of the library's work: lanes, blocks and what may be in them.
 *
 * A lane is a stream and the blocks whose work is queued on it, and on it alone.  So what
 * a block will hold is known without waiting: its shadow.  A lane keeps a journal of what
 * it queued since it was last synchronised.  Where a stream is aborted, stopped or
 * destroyed by force, it has done some first part of that and nothing after it: there
 * must be one such part that explains all the lane's blocks.
 *
 * Nothing here can wait for ever.  A lane waits only for what has been queued before, and
 * what an abort may have dropped of that is done once more for those who wait for it, or
 * makes them fail.
 */
#ifndef TEST_FUZZ_WORK_H
#define TEST_FUZZ_WORK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"

enum {
    N_BLOCKS = 6,
    N_LANES = 3,
    N_NOTIFIES = 8,
    N_CALLS = 64,   /* of the program's functions, in one input */
    N_JOURNAL = 24, /* a lane with more is synchronised first */
    N_SLOTS = 8,    /* descriptors of a lane between two synchronisations */
    BLOCK_MOST = 9000,
    POOL_LEFT = 9216, /* room for one large block: lanes take it from each other */
    INK_SIZE = 16384, /* more than a block */
};

enum kind { PLAIN, POOLED, MANAGED };

struct block {
    enum kind kind;
    char *device; /* NULL: none */
    size_t size;
    unsigned birth; /* tells it from others that were in its place */
    char *shadow;   /* what it holds once its stream is done */
    char *base;     /* what it held when that was last so; NULL: nobody knows */
};

/* A function of the program, as a host function or as a callback. */
struct call {
    _Atomic bool has_run;
};

struct entry {
    struct block *block; /* NULL: it changed none */
    unsigned birth;
    char *after;       /* what the block holds after it */
    struct call *call; /* NULL: none */
};

struct lane {
    aclrtStream stream;
    struct entry journal[N_JOURNAL];
    size_t n_entries;
    bool is_stopped;       /* until it is synchronised, nothing that is queued is done */
    bool has_failure;      /* work that fails was queued */
    bool has_old_failure;  /* perhaps one is still to be told */
    unsigned waiters;      /* a bit for each lane that waits for a record of this one */
    bool stops_on_failure; /* its failure mode */
    bool is_subscribed;
    char *table; /* device memory: descriptors, addresses, and the value */
    unsigned n_slots;
    uint64_t value; /* the latest that it writes */
};

struct work {
    struct block blocks[N_BLOCKS];
    struct lane lanes[N_LANES];
    aclrtStream rescue; /* does again what was dropped */
    aclrtEvent event;
    aclrtNotify notifies[N_NOTIFIES];
    int recorders[N_NOTIFIES]; /* the lane that records it; -1: free */
    aclrtMemPool pool;
    char *ballast; /* the rest of the pool */
    char *ink;     /* pinned, never written again */
    char *hole;    /* reserved addresses without memory */
    struct call calls[N_CALLS];
    size_t n_calls;
    unsigned n_launched; /* callbacks */
    unsigned n_called;
    unsigned n_births;
};

extern struct work work;
extern char registered_ink[INK_SIZE]; /* the same bytes, of the program's own */
extern char plain_ink[INK_SIZE];      /* the same, and the library does not know of it */

/* The input. */
void input_set(const uint8_t *bytes, size_t n);
bool input_is_dry(void);
unsigned next_to(unsigned n);
size_t next_size(size_t most);

void want(aclError got, aclError expected, const char *what);
#define OK(call_) want((call_), ACL_SUCCESS, #call_)
#define REFUSED(call_, code_) want((call_), (code_), #call_)
/* Ends the run with a reason. */
_Noreturn void wrong(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Blocks. */
struct lane *lane_of(const struct block *b);
void block_open(struct block *b, enum kind kind, size_t size);
void block_close(struct block *b);
/* With whatever is queued on it. */
void block_free(struct block *b);
/* Compares; its lane is synchronised for that. */
void block_check(struct block *b);

/* Lanes. */
/* What is queued on it now will be done. */
bool lane_works(const struct lane *l);
/* Room for one more entry, and a lane that works. */
void lane_prepare(struct lane *l);
/* The shadow of b is what b will hold; call is what the program runs; either may be NULL. */
void lane_note(struct lane *l, struct block *b, struct call *call);
void lane_sync(struct lane *l);
/* Stopped half-way: finds out what it has done. */
void lane_settle(struct lane *l);
/* What others wait for and this one may have dropped, is done. */
void lane_rescue(struct lane *l);
void lane_renew(struct lane *l, bool is_forced);
/* All of them; notifies can be used again. */
void sync_all(void);
/* Runs the callbacks that are queued; before anything that waits for a stream. */
void run_callbacks(void);

/* One step of the input. */
void work_step(void);

#endif
