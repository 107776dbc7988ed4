/* Data of a pool, for mempool.c and mempool_blocks.c. */
#ifndef AM_CORE_MEMPOOL_POOL_H
#define AM_CORE_MEMPOOL_POOL_H

#include <bsd/sys/tree.h>
#include <sys/queue.h>

#include "core/device/domain.h"
#include "core/pool/mempool.h"
#include "fit/fit.h"

#define AM_POOL_ALIGN 512 /* blocks begin and end at multiples of this */

/* A live block, in the extra bytes of the engine's record. */
struct am_pool_block {
    RB_ENTRY(am_pool_block) node;
    struct am_fit_block *placed;
    uintptr_t start;
    size_t size;
    size_t asked; /* by the program, before it was rounded up */
    /*
     * Frees of other streams that the block's stream was made to wait for.  An abort removes
     * that wait, and not the work before these frees.
     */
    struct am_fit_use wait;
};

RB_HEAD(am_pool_blocks, am_pool_block);

/*
 * One aclrtMemPoolFreeAsync: its task, and the tasks that wait for it, refer to it.
 */
struct am_freeing {
    struct am_task task;  /* of the free in its stream */
    struct am_pool *pool; /* holds a reference while the task is queued */
    atomic_uint refs;
    int32_t stream;               /* number of the stream it is queued on */
    unsigned slot;                /* of that stream, in pool->streams */
    uint64_t ticket;              /* grows with each free of the pool */
    atomic_bool is_done;          /* the stream has executed it */
    TAILQ_ENTRY(am_freeing) link; /* of the slot's list, until then */
    uintptr_t start;
    size_t size;
    struct am_waitlist waiting; /* streams that were given the memory */
};

/*
 * A stream that frees blocks: its number is its bit in the uses of the engine.  The last slot
 * is for all streams without one, and no stream's own: memory that they free can be reused
 * when the free is done.
 */
#define AM_POOL_SHARED_SLOT (AM_FIT_STREAMS - 1)

struct am_pool_stream {
    int32_t id;                     /* -1: none */
    TAILQ_HEAD(, am_freeing) frees; /* not done, by ticket */
    uint64_t first_unsynced; /* ticket of the first free since the program synchronised */
};

struct am_pool {
    struct am_named named;
    void *handle; /* for messages, also when it is dead */
    int32_t device;
    size_t max_size;          /* bytes of blocks, and, rounded up, of memory */
    struct am_domain *domain; /* holds a reference */
    LIST_ENTRY(am_pool) all;  /* pools_lock, as the next one */
    uint64_t serial;          /* a newer pool's is higher */
    atomic_bool is_listed;    /* found by its addresses; holds a reference */
    struct am_lock lock;
    bool is_dead; /* lock, as all below; the handle is not valid */
    struct am_fit *fit;
    bool has_closed;              /* some pages may be mapped without access */
    struct am_pool_blocks blocks; /* live */
    struct am_pool_stream streams[AM_FIT_STREAMS];
    unsigned n_freeing; /* frees that are not done */
    uint64_t last_ticket;
    uint64_t threshold; /* bytes of idle memory that the pool keeps */
    uint64_t reserved_high;
    uint64_t used_high;
    unsigned reuse; /* AM_REUSE_* */
};

/* The pool that has this address, with one more reference, or NULL. */
struct am_pool *am_pool_get_by_address(uintptr_t addr);
/*
 * A pool that is destroyed is found by its addresses until its frees are done, or is_forced;
 * then the caller drops the reference of the list: true.
 */
bool am_pool_unlist_locked(struct am_pool *pool, bool is_forced) AM_REQUIRES(pool->lock);

/* The live block that addr lies in, or NULL. */
struct am_pool_block *am_pool_block_find_locked(struct am_pool *pool, uintptr_t addr)
    AM_REQUIRES(pool->lock);

/* For am_fit_ops: the streams of the use that prevent the action. */
uint64_t am_pool_pending(void *ctx, const struct am_fit_use *use,
                         enum am_fit_action action);

/* The program has synchronised the stream; -1: all of them. */
void am_pool_stream_synced_locked(struct am_pool *pool, int32_t stream)
    AM_REQUIRES(pool->lock);
/* Destroys idle memory, idle longest first, until the pool has at most n chunks. */
void am_pool_shrink_locked(struct am_pool *pool, size_t n) AM_REQUIRES(pool->lock);

/* The number of chunks that `size` bytes need. */
static inline size_t am_pool_chunks(uint64_t size)
{
    return (size_t)(size >> AM_CHUNK_SHIFT) + ((size & (AM_CHUNK - 1)) != 0);
}

/* Bytes in live blocks, and how many there are. */
static inline uint64_t am_pool_live(const struct am_pool *pool, uint64_t *ret_n)
{
    struct am_fit_stats stats;

    am_fit_get_stats(pool->fit, &stats);
    if (ret_n != NULL)
        *ret_n = stats.n_live;
    return stats.live;
}

/* Bytes of memory. */
static inline uint64_t am_pool_reserved(const struct am_pool *pool)
{
    return am_fit_held(pool->fit) << AM_CHUNK_SHIFT;
}

#endif
