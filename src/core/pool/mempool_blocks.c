/*
 * Blocks of a stream-ordered pool.  See mempool.h.
 *
 * The pool's lock is held while a free is queued, so that no stream gets the block before the
 * free is in the queue; a worker that executes the free waits for the lock.
 */
#include <stdio.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/tree.h"
#include "base/util.h"
#include "core/pool/mempool_pool.h"
#include "core/stream/queue.h"
#include "core/vmm/vspace.h"

struct wait_task {
    struct am_task task;
    struct am_freeing *freeing; /* holds a reference */
};

AM_TREE(am_pool_blocks, am_pool_block, node, start)

struct am_pool_block *am_pool_block_find_locked(struct am_pool *pool, uintptr_t addr)
{
    struct am_pool_block key = {.start = addr};
    struct am_pool_block *block = RB_NFIND(am_pool_blocks, &pool->blocks, &key);

    if (block == NULL)
        block = RB_MAX(am_pool_blocks, &pool->blocks);
    else if (block->start > addr)
        block = RB_PREV(am_pool_blocks, &pool->blocks, block);
    return block != NULL && addr - block->start < block->size ? block : NULL;
}

static struct am_freeing *freeing_ref(struct am_freeing *freeing)
{
    am_ref_more(&freeing->refs);
    return freeing;
}

static void freeing_put(struct am_freeing *freeing)
{
    if (am_ref_drop(&freeing->refs))
        free(freeing);
}

/* ---- streams ---- */

/* The slot of a stream; AM_FIT_STREAMS: it has none. */
static unsigned slot_find(const struct am_pool *pool, int32_t stream)
{
    for (unsigned i = 0; i < AM_POOL_SHARED_SLOT; i++) {
        if (pool->streams[i].id == stream)
            return i;
    }
    return AM_FIT_STREAMS;
}

/* Whether streams may use memory of other streams as soon as the free is done. */
static bool done_is_enough(const struct am_pool *pool)
{
    return (pool->reuse & (AM_REUSE_FOLLOW | AM_REUSE_OPPORTUNISTIC)) != 0;
}

/* The ticket of the first free of a stream that prevents the action. */
static uint64_t first_pending(const struct am_pool *pool, unsigned slot,
                              enum am_fit_action action)
{
    const struct am_pool_stream *stream = &pool->streams[slot];
    const struct am_freeing *first = TAILQ_FIRST(&stream->frees);
    uint64_t ticket = first != NULL ? first->ticket : UINT64_MAX;

    if (action == AM_FIT_REUSE && !done_is_enough(pool) &&
        stream->first_unsynced < ticket)
        ticket = stream->first_unsynced;
    return ticket;
}

uint64_t am_pool_pending(void *ctx, const struct am_fit_use *use,
                         enum am_fit_action action)
{
    const struct am_pool *pool = ctx;
    uint64_t pending = 0;

    for (uint64_t left = use->streams; left != 0; left &= left - 1) {
        unsigned slot = (unsigned)__builtin_ctzll(left);

        if (first_pending(pool, slot, action) <= use->ticket)
            pending |= 1ull << slot;
    }
    return pending;
}

/* The slot for the frees of a stream; one without frees in it is reused. */
static unsigned slot_get_locked(struct am_pool *pool, int32_t stream)
    AM_REQUIRES(pool->lock)
{
    unsigned slot = slot_find(pool, stream);

    for (unsigned i = 0; slot == AM_FIT_STREAMS && i < AM_POOL_SHARED_SLOT; i++) {
        if (first_pending(pool, i, AM_FIT_REUSE) == UINT64_MAX) {
            pool->streams[i].id = stream;
            pool->streams[i].first_unsynced = UINT64_MAX;
            slot = i;
        }
    }
    return slot < AM_FIT_STREAMS ? slot : AM_POOL_SHARED_SLOT;
}

/* Other streams may use the memory of all frees that are done. */
static void slot_open_locked(struct am_pool *pool, unsigned slot) AM_REQUIRES(pool->lock)
{
    pool->streams[slot].first_unsynced = first_pending(pool, slot, AM_FIT_UNMAP);
}

void am_pool_stream_synced_locked(struct am_pool *pool, int32_t stream)
{
    unsigned slot = slot_find(pool, stream);

    for (unsigned i = 0; stream < 0 && i < AM_POOL_SHARED_SLOT; i++)
        slot_open_locked(pool, i);
    slot_open_locked(pool,
                     slot < AM_FIT_STREAMS && stream >= 0 ? slot : AM_POOL_SHARED_SLOT);
}

void am_pool_shrink_locked(struct am_pool *pool, size_t n)
{
    struct am_fit_stats stats;
    struct am_fit_use wait;

    am_fit_get_stats(pool->fit, &stats);
    /* Memory that cannot be unmapped is kept, and reused. */
    (void)am_fit_trim(pool->fit, n > stats.used ? n - stats.used : 0, &wait);
}

/* ---- waits of a stream for frees of other streams ---- */

static enum am_poll wait_poll(struct am_task *task)
{
    struct am_freeing *freeing = ((struct wait_task *)task)->freeing;

    am_waitlist_join(&freeing->waiting, task);
    return freeing->is_done ? AM_POLL_READY : AM_POLL_WAIT;
}

static void wait_free(struct am_task *task)
{
    freeing_put(((struct wait_task *)task)->freeing);
    free(task);
}

/* The task of the free. */
static unsigned wait_sources(struct am_task *task, struct am_source *list,
                             bool *ret_is_only)
{
    const struct am_freeing *freeing = ((const struct wait_task *)task)->freeing;

    list[0] = (struct am_source){freeing->task.queue, freeing->task.position};
    return freeing->is_done ? 0 : 1;
}

static void wait_describe(const struct am_task *task, char *text, size_t size)
{
    snprintf(text, size, "stream %d frees the memory that it was given",
             ((const struct wait_task *)task)->freeing->stream);
}

static const struct am_task_ops wait_ops = {.poll = wait_poll,
                                            .sources = wait_sources,
                                            .describe = wait_describe,
                                            .free = wait_free};

/* Later work of the stream runs after the free, whichever stream that is on. */
static aclError wait_submit(struct am_freeing *freeing, struct am_stream *stream)
{
    struct wait_task *wt = am_task_make(&wait_ops, sizeof *wt);

    if (wt == NULL)
        return ACL_ERROR_BAD_ALLOC;
    wt->freeing = freeing_ref(freeing);
    return am_stream_submit(stream, &wt->task);
}

/* The stream waits for all frees of a use that are not done. */
static aclError waits_submit_locked(struct am_pool *pool, const struct am_fit_use *use,
                                    struct am_stream *stream) AM_REQUIRES(pool->lock)
{
    for (uint64_t left = use->streams; left != 0; left &= left - 1) {
        struct am_freeing *freeing;

        TAILQ_FOREACH (freeing, &pool->streams[__builtin_ctzll(left)].frees, link) {
            if (freeing->ticket <= use->ticket)
                AM_TRY(wait_submit(freeing, stream));
        }
    }
    return ACL_SUCCESS;
}

/* ---- allocation ---- */

/*
 * Gives the device access to the pages of a new block.  If an earlier attempt failed, idle pages
 * without access may exist anywhere in the pool, so has_closed stays set.
 */
static aclError block_open_locked(struct am_pool *pool, const struct am_fit_block *placed,
                                  bool had_closed) AM_REQUIRES(pool->lock)
{
    uintptr_t start = (uintptr_t)am_fit_addr(placed) & ~(AM_CHUNK - 1);
    uintptr_t end =
        am_align_up((uintptr_t)am_fit_addr(placed) + am_fit_size(placed), AM_CHUNK);

    if (!pool->has_closed)
        return ACL_SUCCESS;
    AM_TRY(am_vspace_open((void *)start, end - start));
    pool->has_closed = had_closed;
    return ACL_SUCCESS;
}

/* Places a block; the errors of the engine become codes of the API. */
static aclError place_locked(struct am_pool *pool, size_t size, int32_t stream,
                             bool may_wait, struct am_fit_block **ret_placed,
                             struct am_fit_use *ret_wait) AM_REQUIRES(pool->lock)
{
    bool had_closed = pool->has_closed;
    int rc;

    am_fit_set_apart(pool->fit, !may_wait);
    rc = am_fit_alloc(pool->fit, size, slot_find(pool, stream), ret_placed, ret_wait);
    if (rc == 0) {
        rc = block_open_locked(pool, *ret_placed, had_closed);
        if (rc != 0)
            am_fit_free(pool->fit, *ret_placed, *ret_wait);
    }
    if (rc >= 0)
        return rc;
    return am_fail(rc == AM_FIT_NO_MEMORY ? ACL_ERROR_BAD_ALLOC
                                          : ACL_ERROR_RT_MEMORY_ALLOCATION,
                   "no memory for a block");
}

/* The block, which is in no list yet. */
static aclError block_place_locked(struct am_pool *pool, size_t size,
                                   struct am_stream *stream,
                                   struct am_pool_block **ret_block)
    AM_REQUIRES(pool->lock)
{
    uint64_t held = am_fit_held(pool->fit);
    struct am_fit_block *placed;
    struct am_fit_use wait;
    aclError rc = place_locked(pool, size, stream->id, false, &placed, &wait);

    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION && (pool->reuse & AM_REUSE_INTERNAL))
        rc = place_locked(pool, size, stream->id, true, &placed, &wait);
    if (rc != ACL_SUCCESS) {
        if (am_fit_held(pool->fit) > held) /* memory for a part of the block */
            am_pool_shrink_locked(pool, held);
        return rc;
    }
    rc = waits_submit_locked(pool, &wait, stream);
    if (rc != ACL_SUCCESS) {
        am_fit_free(pool->fit, placed, wait);
        return rc;
    }
    *ret_block = am_fit_extra(placed);
    **ret_block = (struct am_pool_block){.placed = placed,
                                         .start = (uintptr_t)am_fit_addr(placed),
                                         .size = am_fit_size(placed),
                                         .wait = wait};
    return ACL_SUCCESS;
}

static aclError pool_malloc_locked(struct am_pool *pool, size_t asked,
                                   struct am_stream *stream, void **ret_addr)
    AM_REQUIRES(pool->lock)
{
    size_t live = am_pool_live(pool, NULL);
    size_t size = am_align_up(asked, AM_POOL_ALIGN);
    struct am_pool_block *block;
    char why[256] = "";
    aclError rc;

    AM_REQUIRE(!pool->is_dead, ACL_ERROR_RT_INVALID_HANDLE, "memPool %p is not alive",
               pool->handle);
    AM_REQUIRE(stream->device == pool->device, ACL_ERROR_RT_PARAM_INVALID,
               "the pool is on device %d, and stream %d on device %d", pool->device,
               stream->id, stream->device);
    AM_REQUIRE(size <= pool->max_size - live, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes: %zu of the pool's %zu are in use", asked,
               live, pool->max_size);
    /* Errors of failed placement attempts are discarded if a later attempt succeeds. */
    rc = AM_CAPTURED(why, sizeof why, block_place_locked(pool, size, stream, &block));
    AM_REQUIRE(
        rc != ACL_ERROR_RT_MEMORY_ALLOCATION, rc,
        "Failed to allocate %zu bytes: the pool's blocks take %zu of its %zu, and the "
        "rest is in pieces, or not yet freed by streams; device %d has %zu left",
        asked, live, pool->max_size, pool->device,
        pool->domain->capacity - am_domain_in_use(pool->domain));
    AM_REQUIRE(rc == ACL_SUCCESS, rc, "no block of %zu bytes: %s", asked,
               am_error_text(why));
    block->asked = asked;
    RB_INSERT(am_pool_blocks, &pool->blocks, block);
    if (live + size > pool->used_high)
        pool->used_high = live + size;
    if (am_pool_reserved(pool) > pool->reserved_high)
        pool->reserved_high = am_pool_reserved(pool);
    *ret_addr = (void *)block->start;
    return ACL_SUCCESS;
}

aclError am_pool_malloc_async(struct am_pool *pool, size_t size, struct am_stream *stream,
                              void **ret_addr)
{
    AM_REQUIRE(size <= pool->max_size, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes: the pool has %zu", size, pool->max_size);
    return AM_LOCKED(&pool->lock, pool_malloc_locked(pool, size, stream, ret_addr));
}

/* ---- free ---- */

/* The stream has executed the free, or was aborted: the work before it has ended. */
static void free_task_free(struct am_task *task)
{
    struct am_freeing *freeing = (struct am_freeing *)task;
    struct am_pool *pool = freeing->pool;
    bool is_unlisted;

    am_lock(&pool->lock);
    freeing->is_done = true;
    am_waitlist_wake(&freeing->waiting);
    TAILQ_REMOVE(&pool->streams[freeing->slot].frees, freeing, link);
    pool->n_freeing--;
    if (done_is_enough(pool))
        slot_open_locked(pool, freeing->slot);
    is_unlisted = am_pool_unlist_locked(pool, false);
    am_unlock(&pool->lock);
    if (is_unlisted)
        am_pool_put(pool);
    freeing_put(freeing);
    am_pool_put(pool);
}

static const struct am_task_ops free_ops = {.free = free_task_free};

static struct am_freeing *freeing_make(struct am_pool *pool,
                                       const struct am_pool_block *block,
                                       struct am_stream *stream) AM_REQUIRES(pool->lock)
{
    struct am_freeing *freeing = am_sys_calloc(1, sizeof *freeing);

    if (freeing == NULL)
        return NULL;
    am_task_init(&freeing->task, &free_ops);
    freeing->pool = pool;
    freeing->refs = 1;
    freeing->stream = stream->id;
    freeing->slot = slot_get_locked(pool, stream->id);
    freeing->ticket = ++pool->last_ticket;
    freeing->start = block->start;
    freeing->size = block->size;
    am_waitlist_init(&freeing->waiting);
    return freeing;
}

/* The block that starts at addr, which the program may free on the stream. */
static aclError block_check_locked(struct am_pool *pool, uintptr_t addr,
                                   const struct am_stream *stream,
                                   struct am_pool_block **ret_block)
    AM_REQUIRES(pool->lock)
{
    struct am_pool_block *block = am_pool_block_find_locked(pool, addr);

    AM_REQUIRE(block != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%p is in no block of the pool; it was freed before, or never handed out",
               (void *)addr);
    AM_REQUIRE(block->start == addr, ACL_ERROR_RT_PARAM_INVALID,
               "%p lies inside the block of %zu bytes at %p; pass its start",
               (void *)addr, block->size, (void *)block->start);
    AM_REQUIRE(stream->device == pool->device, ACL_ERROR_RT_PARAM_INVALID,
               "the pool is on device %d, and stream %d on device %d", pool->device,
               stream->id, stream->device);
    *ret_block = block;
    return ACL_SUCCESS;
}

/* The task holds references to the freeing and the pool. */
static aclError free_submit_locked(struct am_pool *pool, struct am_freeing *freeing,
                                   struct am_stream *stream) AM_REQUIRES(pool->lock)
{
    AM_TRY(am_queue_submit(&stream->queue, &freeing->task, NULL));
    freeing_ref(freeing);
    am_ref_more(&pool->named.refs);
    TAILQ_INSERT_TAIL(&pool->streams[freeing->slot].frees, freeing, link);
    pool->n_freeing++;
    return ACL_SUCCESS;
}

/* Queues the free; from now on the stream may use the memory again. */
static aclError pool_free_locked(struct am_pool *pool, struct am_pool_block *block,
                                 struct am_stream *stream) AM_REQUIRES(pool->lock)
{
    struct am_freeing *freeing = freeing_make(pool, block, stream);
    struct am_fit_use use = {0};
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(freeing != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a free");
    /* If the stream has no work before the free, the free is done at once. */
    freeing->is_done = am_queue_is_idle(&stream->queue);
    if (!freeing->is_done)
        rc = free_submit_locked(pool, freeing, stream);
    if (rc == ACL_SUCCESS) {
        struct am_pool_stream *slot = &pool->streams[freeing->slot];

        if (freeing->ticket < slot->first_unsynced)
            slot->first_unsynced = freeing->ticket;
        if (done_is_enough(pool))
            slot_open_locked(pool, freeing->slot);
        use.streams =
            1ull << freeing->slot | am_pool_pending(pool, &block->wait, AM_FIT_UNMAP);
        use.ticket = freeing->ticket;
        RB_REMOVE(am_pool_blocks, &pool->blocks, block);
        am_fit_free(pool->fit, block->placed, use);
    }
    freeing_put(freeing);
    return rc;
}

aclError am_pool_free_async(void *addr, struct am_stream *stream)
{
    struct am_pool *pool = am_pool_get_by_address((uintptr_t)addr);
    struct am_pool_block *block;
    aclError rc;

    AM_REQUIRE(pool != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%p is not from aclrtMemPoolMallocAsync", addr);
    am_lock(&pool->lock);
    rc = block_check_locked(pool, (uintptr_t)addr, stream, &block);
    if (rc == ACL_SUCCESS)
        rc = pool_free_locked(pool, block, stream);
    am_unlock(&pool->lock);
    am_pool_put(pool);
    return rc;
}
