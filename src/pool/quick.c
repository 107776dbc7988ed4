/*
 * The short way: freed blocks are kept for the next request of the same size on the same
 * stream, which needs no order, no page and no placement.
 *
 * What is kept here costs no memory for long: before the engine takes a page that it does
 * not hold, all that could serve instead is flushed to it (pool.c).
 */
#include "base/sys.h"
#include "pool/internal.h"

#define N_CHECKS 4u /* blocks of another size in the same bucket */
#define N_HEADS 64u /* of a stripe, at first */

/* Blocks in a shard at most, of each kind; more hold pages that could go. */
#define N_KEPT 56u

int pool_quick_init(aclmem_pool *pool)
{
    for (unsigned i = 0; i < N_SHARDS; i++) {
        TAILQ_INIT(&pool->shards[i].kept[0].blocks);
        TAILQ_INIT(&pool->shards[i].kept[1].blocks);
    }
    for (unsigned i = 0; i < N_STRIPES; i++) {
        struct pool_stripe *stripe = &pool->stripes[i];

        stripe->heads = am_sys_calloc(N_HEADS, sizeof *stripe->heads);
        stripe->n_heads = N_HEADS;
        if (stripe->heads == NULL)
            return -1;
    }
    return 0;
}

void pool_quick_destroy(aclmem_pool *pool)
{
    for (unsigned i = 0; i < N_STRIPES; i++)
        free(pool->stripes[i].heads);
}

static unsigned bucket_of(size_t size)
{
    return (unsigned)(size * 0x9e3779b97f4a7c15 >> 57);
}

static unsigned size_class(size_t size)
{
    unsigned i = 63 - (unsigned)__builtin_clzll(size);

    return i < ACLMEM_POOL_SIZES ? i : ACLMEM_POOL_SIZES - 1;
}

/* The shard's latch is held. */
static void shard_count(struct pool_shard *shard, size_t asked, int sign)
{
    shard->n_live += (uint64_t)sign;
    shard->live += (uint64_t)sign * asked;
    if (shard->live > shard->high)
        shard->high = shard->live;
    shard->is_busy = true;
    shard->by_size[size_class(asked)] += (uint64_t)sign;
    shard->mallocs += sign > 0;
}

void pool_count(aclmem_pool *pool, struct pool_block *block, int sign)
{
    struct pool_shard *shard = &pool->shards[block->slot];

    am_latch_take(&shard->latch);
    shard_count(shard, block->asked, sign);
    am_latch_give(&shard->latch);
}

/* Changed under the latch alone, so that no locked instruction is needed. */
static inline void kept_count(struct pool_kept *kept, int sign)
{
    unsigned n = atomic_load_explicit(&kept->n, memory_order_relaxed);

    atomic_store_explicit(&kept->n, n + (unsigned)sign, memory_order_relaxed);
}

/* The shard's latch is held. */
static inline void kept_insert(struct pool_shard *shard, struct pool_kept *kept,
                               struct pool_block *block)
{
    LIST_INSERT_HEAD(&shard->buckets[bucket_of(block->size)], block, in_bucket);
    TAILQ_INSERT_TAIL(&kept->blocks, block, by_age);
    kept_count(kept, 1);
    shard->cached += block->size;
}

static inline void kept_remove(struct pool_shard *shard, struct pool_kept *kept,
                               struct pool_block *block)
{
    LIST_REMOVE(block, in_bucket);
    TAILQ_REMOVE(&kept->blocks, block, by_age);
    kept_count(kept, -1);
    shard->cached -= block->size;
}

struct pool_block *pool_quick_take(struct pool_shard *shard, bool is_large, size_t size,
                                   size_t asked, uint32_t tag)
{
    struct pool_block *block;

    am_latch_take(&shard->latch);
    block = LIST_FIRST(&shard->buckets[bucket_of(size)]);
    for (unsigned n = 0; block != NULL && block->size != size; n++)
        block = n < N_CHECKS ? LIST_NEXT(block, in_bucket) : NULL;
    if (block != NULL) {
        kept_remove(shard, &shard->kept[is_large], block);
        block->asked = asked;
        block->tag = tag;
        shard->hits++;
        shard_count(shard, asked, 1);
        /*
         * The partner is the load in stripe_find(): a thread that finds the block live in
         * the table finds it out of the shard, with the size of this request.
         */
        atomic_store_explicit(&block->state, BLOCK_LIVE, memory_order_release);
    }
    am_latch_give(&shard->latch);
    return block;
}

struct pool_use pool_use_of(aclmem_pool *pool, struct pool_block *block)
{
    struct pool_shard *shard = &pool->shards[block->slot];
    struct pool_use use;

    am_latch_take(&shard->latch);
    use = (struct pool_use){block->asked, block->tag, atomic_load(&block->state)};
    am_latch_give(&shard->latch);
    return use;
}

void pool_sleep_take(aclmem_pool *pool, struct pool_block *block, uint32_t tag)
{
    struct pool_shard *shard = &pool->shards[block->slot];
    int live = BLOCK_LIVE;

    am_latch_take(&shard->latch);
    if (tag == ACLMEM_POOL_ALL_TAGS || block->tag == tag)
        atomic_compare_exchange_strong(&block->state, &live, BLOCK_ASLEEP);
    am_latch_give(&shard->latch);
}

struct pool_block *pool_quick_give(struct pool_shard *shard, bool is_large,
                                   struct pool_block *block)
{
    struct pool_kept *kept = &shard->kept[is_large];
    struct pool_block *oldest = NULL;

    am_latch_take(&shard->latch);
    shard_count(shard, block->asked, -1);
    if (kept->n == N_KEPT) {
        oldest = TAILQ_FIRST(&kept->blocks);
        kept_remove(shard, kept, oldest);
    }
    kept_insert(shard, kept, block);
    am_latch_give(&shard->latch);
    return oldest;
}

uint64_t pool_sample_locked(aclmem_pool *pool, const struct pool_block *more)
{
    uint64_t live = 0, above = 0, peak;
    unsigned n_busy = 0;

    for (uint64_t seen = pool->seen; seen != 0; seen &= seen - 1) {
        struct pool_shard *shard = &pool->shards[__builtin_ctzll(seen)];

        am_latch_take(&shard->latch);
        if (more != NULL && shard == &pool->shards[more->slot])
            shard_count(shard, more->asked, 1);
        live += shard->live;
        if (shard->is_busy) {
            n_busy++;
            above = shard->high - shard->live;
            shard->high = shard->live;
            shard->is_busy = false;
        }
        am_latch_give(&shard->latch);
    }
    peak = n_busy == 1 ? live + above : live;
    if (peak > pool->peak_live)
        pool->peak_live = peak;
    if (peak > pool->high)
        pool->high = peak;
    if (pool_held_locked(pool) > pool->peak_held)
        pool->peak_held = pool_held_locked(pool);
    return live;
}

void pool_quick_flush(aclmem_pool *pool, bool is_all, struct pool_block_list *flushed)
{
    for (uint64_t seen = pool->seen; seen != 0; seen &= seen - 1) {
        struct pool_shard *shard = &pool->shards[__builtin_ctzll(seen)];

        for (unsigned i = !is_all; i < 2; i++) {
            struct pool_kept *kept = &shard->kept[i];
            struct pool_block *block;

            /*
             * No order is needed: blocks that this thread freed are counted, and so are those
             * that another thread freed before it notified this one.  A later one stays.
             */
            if (atomic_load_explicit(&kept->n, memory_order_relaxed) == 0)
                continue;
            am_latch_take(&shard->latch);
            while ((block = TAILQ_FIRST(&kept->blocks)) != NULL) {
                kept_remove(shard, kept, block);
                LIST_INSERT_HEAD(flushed, block, in_bucket);
            }
            am_latch_give(&shard->latch);
        }
    }
}

static uint64_t addr_hash(uintptr_t addr)
{
    return (addr / UNIT) * 0x9e3779b97f4a7c15;
}

static struct pool_stripe *stripe_of(aclmem_pool *pool, uint64_t hash)
{
    return &pool->stripes[hash >> 58];
}

static struct pool_block **head_of(struct pool_stripe *stripe, uint64_t hash)
{
    return &stripe->heads[hash >> 32 & (stripe->n_heads - 1)];
}

/* Longer lists still work, so a table that cannot grow does not matter. */
static void stripe_grow(struct pool_stripe *stripe)
{
    struct pool_stripe grown = {.n_heads = 2 * stripe->n_heads};

    grown.heads = am_sys_calloc(grown.n_heads, sizeof *grown.heads);
    if (grown.heads == NULL)
        return;
    for (size_t i = 0; i < stripe->n_heads; i++) {
        struct pool_block *block;

        while ((block = stripe->heads[i]) != NULL) {
            struct pool_block **head = head_of(&grown, addr_hash(block->addr));

            stripe->heads[i] = block->in_stripe;
            block->in_stripe = *head;
            *head = block;
        }
    }
    free(stripe->heads);
    stripe->heads = grown.heads;
    stripe->n_heads = grown.n_heads;
}

void pool_table_insert(aclmem_pool *pool, struct pool_block *block)
{
    uint64_t hash = addr_hash(block->addr);
    struct pool_stripe *stripe = stripe_of(pool, hash);
    struct pool_block **head;

    am_latch_take(&stripe->latch);
    if (++stripe->n_blocks > stripe->n_heads)
        stripe_grow(stripe);
    head = head_of(stripe, hash);
    block->in_stripe = *head;
    *head = block;
    am_latch_give(&stripe->latch);
}

void pool_table_remove(aclmem_pool *pool, struct pool_block *block)
{
    uint64_t hash = addr_hash(block->addr);
    struct pool_stripe *stripe = stripe_of(pool, hash);
    struct pool_block **at;

    am_latch_take(&stripe->latch);
    for (at = head_of(stripe, hash); *at != block; at = &(*at)->in_stripe)
        ;
    *at = block->in_stripe;
    stripe->n_blocks--;
    am_latch_give(&stripe->latch);
}

static inline struct pool_block *stripe_find(struct pool_stripe *stripe, uint64_t hash,
                                             const void *ptr)
{
    struct pool_block *block = *head_of(stripe, hash);

    while (block != NULL && block->addr != (uintptr_t)ptr)
        block = block->in_stripe;
    return block != NULL && atomic_load(&block->state) != BLOCK_FREED ? block : NULL;
}

aclError pool_table_find(aclmem_pool *pool, const void *ptr,
                         struct pool_block **ret_block)
{
    uint64_t hash = addr_hash((uintptr_t)ptr);
    struct pool_stripe *stripe = stripe_of(pool, hash);

    am_latch_take(&stripe->latch);
    *ret_block = stripe_find(stripe, hash, ptr);
    am_latch_give(&stripe->latch);
    if (*ret_block == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "%p is not a live block of the pool",
                         ptr);
    return ACL_SUCCESS;
}

struct pool_block *pool_table_claim(aclmem_pool *pool, const void *ptr,
                                    enum block_state state, enum block_state *ret_was)
{
    uint64_t hash = addr_hash((uintptr_t)ptr);
    struct pool_stripe *stripe = stripe_of(pool, hash);
    struct pool_block *block;

    am_latch_take(&stripe->latch);
    block = stripe_find(stripe, hash, ptr);
    if (block != NULL)
        *ret_was = (enum block_state)atomic_exchange(&block->state, (int)state);
    am_latch_give(&stripe->latch);
    return block;
}
