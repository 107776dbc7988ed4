/* What mempool.c and mempool_blocks.c share. */
#ifndef AM_CORE_MEMPOOL_POOL_H
#define AM_CORE_MEMPOOL_POOL_H

#include "core/pool/backing.h"
#include "core/pool/mempool.h"
#include "core/pool/range.h"

#define AM_POOL_ALIGN 512 /* blocks begin and end at multiples of this */

struct am_pool {
    struct am_named named;
    void *handle; /* for messages, also when it is dead */
    int32_t device;
    size_t max_size;         /* bytes of blocks, and, rounded up, of memory */
    LIST_ENTRY(am_pool) all; /* pools_lock, as the next one */
    uint64_t serial;         /* a newer pool's is higher */
    struct am_lock lock;
    bool is_dead; /* lock, as all below; the handle is no more */
    struct am_backing backing;
    struct am_ranges ranges;
    LIST_HEAD(, am_freeing) leaving; /* frees that streams have not got to */
    bool is_listed;                  /* found by its addresses; holds a reference */
    uint64_t last_ticket;
    uint64_t threshold; /* bytes of memory that are kept although nothing uses them */
    uint64_t reserved_high;
    uint64_t used_high;
    unsigned reuse; /* AM_REUSE_* */
};

aclError am_pool_get(void *handle, struct am_pool **ret_pool);
/* The pool that has this address, with one more reference, or NULL. */
struct am_pool *am_pool_get_by_address(uintptr_t addr);
void am_pool_put(struct am_pool *pool);
/*
 * A pool that is destroyed is found by its addresses as long as streams have work before
 * its frees; then no more, and the caller puts the reference that the list had: true.
 */
bool am_pool_unlist_locked(struct am_pool *pool) AM_REQUIRES(pool->lock);

/*
 * Gives up memory of chunks in which nothing lives, those idle longest first, until at
 * most n have some.
 */
void am_pool_shrink_locked(struct am_pool *pool, size_t n) AM_REQUIRES(pool->lock);

/* How many chunks so many bytes are. */
static inline size_t am_pool_chunks(uint64_t size)
{
    return (size_t)(size >> AM_CHUNK_SHIFT) + ((size & (AM_CHUNK - 1)) != 0);
}

#endif
