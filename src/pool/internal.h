/*
 * What the files of the pool share.
 *
 * A block goes three ways.  The short one: a freed block is kept in the shard of its
 * stream, and the next request of the same size on that stream takes it: two short latches
 * and no call (quick.c).  The middle one: the placement engine finds a place whose pages are
 * mapped.  The long one: pages are moved or made (pool.c).
 *
 * Locks: pool->lock covers the engine, the streams' events and the lists of the pool.  A
 * shard's and a stripe's latch come below it and are held for a few lines.  No lock is
 * held while the pool waits for a stream, and none while a function of the program runs.  Where an
 * event cannot be had, pool->lock is held while the pool waits for the device.
 *
 * Tickets: pool->ticket counts recorded events.  What is freed to the engine has the ticket
 * of that moment; an event that is recorded then or later on the same stream covers it.
 */
#ifndef AM_POOL_INTERNAL_H
#define AM_POOL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "aclmem/pool.h"
#include "fit/fit.h"
#include "base/error.h"
#include "base/lock.h"

#define UNIT 512u
/*
 * Streams that are known, and two slots for all others: blocks are asked for on the one, and their
 * queued work is on the other one, so that no stream takes it for its own.  No event covers
 * it; the device is waited for.
 */
#define N_SLOTS 64u
#define OTHERS (N_SLOTS - 1)
#define OTHERS_WORK (N_SLOTS - 2)
#define N_SHARDS N_SLOTS
#define N_BUCKETS 128u
#define N_STRIPES 64u
#define N_CALLBACKS 16u

enum block_state {
    BLOCK_LIVE,
    BLOCK_ASLEEP, /* live, without memory */
    BLOCK_FREED,  /* in a shard, or on its way to one or to the engine */
};

/* The pool's side of a block, behind the engine's. */
struct pool_block {
    atomic_int state;      /* enum block_state */
    unsigned slot;         /* of its stream */
    _Atomic uint64_t also; /* slots of other streams that use it */
    uintptr_t addr;
    size_t size; /* rounded to the unit */
    size_t asked;
    uint32_t tag;
    struct am_fit_block *place;   /* NULL: an exportable block */
    struct pool_block *in_stripe; /* the stripe's latch; the next in the address table */
    /* The line ends here: a hit and a free need those above alone. */
    aclrtStream stream; /* that it was asked for */
    /* While it is kept, under the shard's latch: */
    LIST_ENTRY(pool_block) in_bucket;
    TAILQ_ENTRY(pool_block) by_age;
    char *saved; /* pool->lock; the bytes of one asleep, or NULL */
    /* Of an exportable one, under pool->lock: */
    aclrtDrvMemHandle handle;
    struct am_fit_use use; /* when freed: what is queued on it */
    LIST_ENTRY(pool_block) own;
};

/* A request for a block. */
struct pool_request {
    size_t size; /* rounded to the unit */
    size_t asked;
    aclrtStream stream;
    unsigned slot;
    uint32_t tag;
};

LIST_HEAD(pool_block_list, pool_block);
TAILQ_HEAD(pool_block_queue, pool_block);

struct pool_kept {
    struct pool_block_queue blocks; /* freed last comes last */
    atomic_uint n;                  /* changed under the latch */
};

/* What a stream has: its freed blocks, and how much is live. */
struct pool_shard {
    _Alignas(64) struct am_latch latch;
    bool is_busy;    /* something was counted since pool_sample_locked() */
    uint64_t cached; /* bytes */
    uint64_t n_live;
    uint64_t live; /* bytes asked for */
    uint64_t high; /* of live, since pool_sample_locked() */
    uint64_t mallocs, hits;
    _Alignas(64) struct pool_kept kept[2];     /* of small blocks, and of large ones */
    struct pool_block_list buckets[N_BUCKETS]; /* by size; freed last comes first */
    uint64_t by_size[ACLMEM_POOL_SIZES];
};

/* Address -> block. */
struct pool_stripe {
    _Alignas(64) struct am_latch latch;
    struct pool_block **heads;
    size_t n_heads; /* a power of two */
    size_t n_blocks;
};

struct pool_callback {
    aclmem_pool_oom_fn fn;
    void *arg;
};

struct pool_mark {
    void *event;
    uint64_t ticket; /* it covers all up to this one */
    STAILQ_ENTRY(pool_mark) link;
};

STAILQ_HEAD(pool_marks, pool_mark);

/* A stream, and how far it is known to be.  pool->lock; the name is read without it. */
struct pool_slot {
    _Atomic(uintptr_t) name; /* the stream + 1; 0: free */
    uint64_t done;           /* the stream has got to this ticket */
    uint64_t marked;         /* the newest event covers this ticket */
    uint64_t unmarked;       /* bytes freed since */
    struct pool_marks marks; /* events that are not known to be complete, oldest first */
};

struct aclmem_pool {
    /* Each call reads these: one line. */
    _Alignas(64) size_t page;
    atomic_size_t limit; /* bytes; changed under the lock */
    size_t keep;
    int32_t device;
    aclrtContext context;
    size_t slack; /* 0: by what is held */
    _Alignas(64) pthread_mutex_t lock;
    bool is_frozen; /* no events, and pages stay: the next ones */
    bool is_capturing;
    unsigned n_models; /* that use the pool's memory */
    struct am_fit *fit;
    uint64_t ticket; /* at least 1 */
    pthread_mutex_t
        sleeping; /* one call sleeps or wakes at a time; comes above the lock */
    aclmem_pool_stream_ops streams; /* a copy: the program's may go */
    struct pool_slot slots[N_SLOTS];
    struct pool_marks spare_marks;
    struct pool_shard shards[N_SHARDS];
    uint64_t seen; /* the slots that ever had a block: other shards are empty */
    struct pool_stripe stripes[N_STRIPES];
    uint64_t peak_live;
    uint64_t high; /* of what was live, since idle memory was last given back */
    uint64_t peak_held;
    uint64_t waits;
    uint64_t asleep;             /* bytes */
    uint64_t exportable;         /* bytes, freed ones that wait included */
    struct pool_block_list own;  /* exportable blocks */
    struct pool_block_list left; /* freed blocks with queued work */
    struct pool_callback callbacks[N_CALLBACKS];
    unsigned n_callbacks;
    atomic_uint n_calling; /* threads inside them */
};

/* report.c: the thread's message; returns rc. */
aclError pool_fail(aclError rc, const char *format, ...)
    __attribute__((format(printf, 2, 3), cold));
/* Fails if the pool is NULL, or an argument with this name. */
aclError pool_require(const aclmem_pool *pool, const void *argument, const char *name);
/* Says why `size` bytes are not to be had; nothing is cached. */
aclError pool_fail_memory_locked(aclmem_pool *pool, size_t size);
uint64_t pool_held_locked(aclmem_pool *pool);

/* device.c: the thread works on the pool's device between the two; the pool may be NULL. */
struct pool_visit {
    aclrtContext before;
    bool is_changed;
};
aclError pool_enter(aclmem_pool *pool, struct pool_visit *visit);
void pool_leave(struct pool_visit *visit);
extern const struct am_fit_ops pool_fit_ops;
aclrtPhysicalMemProp pool_memory(int32_t device);

/* streams.c */
extern const aclmem_pool_stream_ops pool_acl_streams;
/* The slot of a stream, a new one where it has none; the caller does not hold the lock. */
unsigned pool_slot_search(aclmem_pool *pool, aclrtStream stream);

static inline unsigned pool_slot_first(uintptr_t name)
{
    return (unsigned)(name * 0x9e3779b97f4a7c15 >> 58);
}

static inline unsigned pool_slot_get(aclmem_pool *pool, aclrtStream stream)
{
    uintptr_t name = (uintptr_t)stream + 1;
    unsigned slot = pool_slot_first(name);

    /* The partner is the release in pool_slot_search(). */
    if (atomic_load_explicit(&pool->slots[slot].name, memory_order_acquire) == name)
        return slot;
    return pool_slot_search(pool, stream);
}

uint64_t pool_use_pending(void *ctx, const struct am_fit_use *use,
                          enum am_fit_action action);
/* So many bytes were freed on the streams: from time to time an event is recorded. */
void pool_slots_freed_locked(aclmem_pool *pool, uint64_t slots, size_t size);
/* Whether that may record one. */
bool pool_slot_is_due_locked(aclmem_pool *pool, unsigned i, size_t size);
/* Drops the lock while it waits. */
aclError pool_wait_locked(aclmem_pool *pool, const struct am_fit_use *use);
/* The stream's later work comes after the use. */
aclError pool_order_locked(aclmem_pool *pool, aclrtStream stream,
                           const struct am_fit_use *use);
void pool_slots_destroy(aclmem_pool *pool);

/* The present use of a block.  Calls that hit change it under the shard's latch alone. */
struct pool_use {
    size_t asked;
    uint32_t tag;
    int state;
};
struct pool_use pool_use_of(aclmem_pool *pool, struct pool_block *block);
/* Marks a live block as asleep, unless another thread frees it or reused it for another tag. */
void pool_sleep_take(aclmem_pool *pool, struct pool_block *block, uint32_t tag);

/* Small blocks have pages of their own. */
static inline bool pool_is_large(const aclmem_pool *pool, size_t size)
{
    return size >= pool->page / 4;
}

/* quick.c */
int pool_quick_init(aclmem_pool *pool);
void pool_quick_destroy(aclmem_pool *pool);
/*
 * The next two take a shard by its address: given a pool and a slot, compilers work out the
 * address of each field from the pool's, which takes twice the code.
 */
struct pool_block *pool_quick_take(struct pool_shard *shard, bool is_large, size_t size,
                                   size_t asked, uint32_t tag);
/* Freed: the block is kept.  One that was kept longest may go for it, and is the caller's. */
struct pool_block *pool_quick_give(struct pool_shard *shard, bool is_large,
                                   struct pool_block *block);
/* All that is kept of large blocks, or of all, comes into the list, through in_bucket. */
void pool_quick_flush(aclmem_pool *pool, bool is_all, struct pool_block_list *flushed);
/*
 * What is live, and the peak of it.  No counter is common to all streams, since threads would meet
 * there.  So the peak is exact while one stream at a time is at work, and otherwise the
 * highest of what was found when memory was placed or figures were asked for.  A block that was
 * placed counts from now on; NULL: none.  The peak of what is held is noted as well.
 */
uint64_t pool_sample_locked(aclmem_pool *pool, const struct pool_block *more);
/* A block counts, or no longer. */
void pool_count(aclmem_pool *pool, struct pool_block *block, int sign);
void pool_table_insert(aclmem_pool *pool, struct pool_block *block);
void pool_table_remove(aclmem_pool *pool, struct pool_block *block);
/* The live block that begins at ptr, asleep or not. */
aclError pool_table_find(aclmem_pool *pool, const void *ptr,
                         struct pool_block **ret_block);
/* The same, and it has another state from now on: one caller gets it. */
struct pool_block *pool_table_claim(aclmem_pool *pool, const void *ptr,
                                    enum block_state state, enum block_state *ret_was);

/* pool.c */
/* All that the streams have now. */
struct am_fit_use pool_use_now_locked(aclmem_pool *pool, uint64_t streams);
/* Kept blocks go to the engine, all or the large ones: whether there were any. */
bool pool_flush_locked(aclmem_pool *pool, bool is_all);
/* Tells the engine what it may hold, and how much of it may be idle and busy, as of now. */
void pool_limits_update_locked(aclmem_pool *pool);
/* Asks the program for memory, with the lock dropped: whether it freed some. */
bool pool_call_back_locked(aclmem_pool *pool, size_t wanted);

/* own.c: exportable blocks. */
aclError pool_own_malloc(aclmem_pool *pool, size_t size, aclrtStream stream, uint32_t tag,
                         void **ret_ptr);
void pool_own_free_locked(aclmem_pool *pool, struct pool_block *block,
                          struct am_fit_use use);
/* Gives back those whose work is done; whether there were any. */
bool pool_own_reap_locked(aclmem_pool *pool);

#endif
