/*
 * Blocks of a stream-ordered pool.  See mempool.h.
 *
 * The pool's lock is held while a free is queued, so that nobody gets the block before it
 * stands in the stream; a worker that comes to the free waits for the lock.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/pool/mempool_pool.h"
#include "core/stream/sched.h"

/* Ranges that a block of whole chunks may be placed in. */
#define N_LOOKS 16
/* Chunks that a pool must have left for that. */
#define N_SPARE 8

struct wait_task {
    struct am_task task;
    struct am_freeing *freeing; /* holds a reference */
};

/* Whether work that was queued before a free may use an idle chunk. */
static bool chunk_is_busy(struct am_pool *pool, size_t chunk)
{
    size_t start = chunk << AM_CHUNK_SHIFT;
    struct am_range *range = am_ranges_find(&pool->ranges, start);

    for (; range != NULL && range->start < start + AM_CHUNK;
         range = am_ranges_behind(range)) {
        if (am_range_is_busy(range))
            return true;
    }
    return false;
}

void am_pool_shrink_locked(struct am_pool *pool, size_t n)
{
    struct am_backing *backing = &pool->backing;
    size_t chunk = am_backing_idle_first(backing);

    while (chunk < backing->n_chunks && backing->n_backed > n) {
        size_t next = am_backing_idle_next(backing, chunk);

        if (!chunk_is_busy(pool, chunk))
            am_backing_drop(backing, chunk);
        chunk = next;
    }
}

/*
 * Has memory behind a block that is about to be handed out.  Memory that lies idle elsewhere
 * in the pool goes first, so that the pool holds no more than its blocks ever needed at
 * a time.
 */
static aclError pool_back_locked(struct am_pool *pool, size_t start, size_t size)
    AM_REQUIRES(pool->lock)
{
    struct am_backing *backing = &pool->backing;
    size_t max = am_pool_chunks(pool->max_size);
    size_t end;
    size_t first = am_backing_chunks(start, size, &end);
    size_t missing;
    size_t room;
    aclError rc;

    if (am_backing_is_usable(backing, first, end))
        return ACL_SUCCESS;
    missing = am_backing_missing(backing, first, end);
    AM_REQUIRE(missing <= max, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "the pool has room for %zu chunks", max);
    room = backing->n_backed < max ? backing->n_backed : max;
    am_pool_shrink_locked(pool, room > missing ? room - missing : 0);
    AM_REQUIRE(backing->n_backed <= max - missing, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "%zu of its %zu chunks of 2 MB are in use", backing->n_backed, max);
    rc = am_backing_fill(backing, first, end);
    if (rc == ACL_SUCCESS &&
        (uint64_t)backing->n_backed << AM_CHUNK_SHIFT > pool->reserved_high)
        pool->reserved_high = (uint64_t)backing->n_backed << AM_CHUNK_SHIFT;
    return rc;
}

/* A block becomes idle, by `freeing` or for all. */
static void range_give_locked(struct am_pool *pool, struct am_range *live,
                              struct am_freeing *freeing) AM_REQUIRES(pool->lock)
{
    size_t end;
    size_t first = am_backing_chunks(live->start, live->size, &end);

    am_backing_unhold(&pool->backing, first, end);
    am_ranges_give(&pool->ranges, live, freeing);
}

/*
 * The first `size` bytes of an idle range become a block, with memory behind it.
 * *ret_freeing is what it was idle by, with a reference, or NULL.
 */
static aclError range_take_locked(struct am_pool *pool, struct am_range *range,
                                  size_t size, struct am_freeing **ret_freeing)
    AM_REQUIRES(pool->lock)
{
    struct am_freeing *freeing = range->freeing;
    size_t end;
    size_t first = am_backing_chunks(range->start, size, &end);
    aclError rc;

    if (freeing != NULL)
        am_freeing_ref(freeing);
    if (am_ranges_take(&pool->ranges, range, size) != 0) {
        am_freeing_put(freeing);
        return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the books of a block");
    }
    am_backing_hold(&pool->backing, first, end);
    rc = pool_back_locked(pool, range->start, size);
    if (rc != ACL_SUCCESS) {
        range_give_locked(pool, range, freeing); /* and range is what it was */
        am_freeing_put(freeing);
        return rc;
    }
    *ret_freeing = freeing;
    return ACL_SUCCESS;
}

/* Bytes between blocks cost memory that a pool near its limit needs for blocks. */
static bool has_room_to_skip(const struct am_pool *pool, size_t size)
{
    size_t max = am_pool_chunks(pool->max_size);
    size_t n = pool->backing.n_backed + (size >> AM_CHUNK_SHIFT);

    return n + N_SPARE + max / 16 <= max;
}

/* How a block is placed. */
enum way {
    /*
     * At the begin of a chunk: a block of whole chunks shares none there, and what is freed
     * beside it leaves nothing half used.  Only ranges that hardly differ from the best are
     * looked at.
     */
    WAY_WHOLE,
    WAY_FREE, /* in the best range that the stream may have now */
    WAY_LENT, /* in the best one that is being freed, to be borrowed */
};

static aclError pool_take_locked(struct am_pool *pool, size_t size, int32_t stream,
                                 enum way way, struct am_range **ret_range,
                                 struct am_freeing **ret_freeing) AM_REQUIRES(pool->lock)
{
    struct am_range *range = am_ranges_fit(&pool->ranges, size);
    unsigned n_most = way == WAY_WHOLE ? N_LOOKS : UINT_MAX;

    for (unsigned n = 0; range != NULL && n < n_most;
         n++, range = am_ranges_next(range)) {
        size_t start =
            way == WAY_WHOLE ? am_align_up(range->start, AM_CHUNK) : range->start;
        aclError rc;

        if (!(way == WAY_LENT ? am_range_is_lent_to(range, stream)
                              : am_range_is_for(range, stream)) ||
            range->size - size < start - range->start)
            continue;
        range = am_ranges_skip(&pool->ranges, range, start - range->start);
        if (range == NULL)
            return am_fail(ACL_ERROR_BAD_ALLOC, "no memory for the books of a block");
        rc = range_take_locked(pool, range, size, ret_freeing);
        *ret_range = range;
        if (rc != ACL_ERROR_RT_MEMORY_ALLOCATION || way == WAY_WHOLE)
            return rc;
    }
    return am_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no range has %zu bytes", size);
}

static bool wait_poll(struct am_task *task, struct am_sched *sched,
                      struct am_waitlist **ret_list)
{
    struct am_freeing *freeing = ((struct wait_task *)task)->freeing;

    *ret_list = &freeing->waiting;
    return freeing->is_done;
}

static void wait_drop(struct am_task *task)
{
    am_freeing_put(((struct wait_task *)task)->freeing);
    free(task);
}

/* The free comes in its turn. */
static bool wait_can_come(struct am_task *task, struct am_sched *sched)
    AM_REQUIRES(sched->lock)
{
    return am_queue_can_move_locked(sched, ((struct wait_task *)task)->freeing->queue);
}

static void wait_describe(const struct am_task *task, char *text, size_t size)
{
    snprintf(text, size, "stream %d frees the memory that it was given",
             ((const struct wait_task *)task)->freeing->stream);
}

static const struct am_task_ops wait_ops = {.poll = wait_poll,
                                            .can_come = wait_can_come,
                                            .describe = wait_describe,
                                            .drop = wait_drop};

/* What the stream does from now on comes after the free, on whatever stream that is. */
static aclError wait_submit(struct am_freeing *freeing, struct am_stream *stream)
{
    struct wait_task *wt = am_task_make(&wait_ops, sizeof *wt);

    if (wt == NULL)
        return ACL_ERROR_BAD_ALLOC;
    wt->freeing = am_freeing_ref(freeing);
    return am_stream_submit(stream, &wt->task);
}

/* A range that is being freed on another stream, which this one then waits for. */
static aclError pool_borrow_locked(struct am_pool *pool, size_t size,
                                   struct am_stream *stream, struct am_range **ret_range)
    AM_REQUIRES(pool->lock)
{
    struct am_freeing *freeing;
    struct am_freeing *lender;
    aclError rc;

    AM_TRY(pool_take_locked(pool, size, stream->id, WAY_LENT, ret_range, &freeing));
    lender = am_range_lender(*ret_range, freeing);
    rc = wait_submit(lender, stream);
    if (rc == ACL_SUCCESS)
        am_range_borrow(*ret_range, lender);
    else
        range_give_locked(pool, *ret_range, freeing);
    am_freeing_put(freeing);
    return rc;
}

/* By all ways that the switches allow. */
static aclError pool_find_locked(struct am_pool *pool, size_t size,
                                 struct am_stream *stream, struct am_range **ret_range)
    AM_REQUIRES(pool->lock)
{
    struct am_freeing *freeing = NULL;
    struct am_range *range;
    aclError rc = ACL_ERROR_RT_MEMORY_ALLOCATION;

    if (am_is_aligned(size, AM_CHUNK) && has_room_to_skip(pool, size))
        rc = pool_take_locked(pool, size, stream->id, WAY_WHOLE, ret_range, &freeing);
    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION)
        rc = pool_take_locked(pool, size, stream->id, WAY_FREE, ret_range, &freeing);
    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION) {
        range = am_ranges_gather(&pool->ranges, stream->id, size);
        if (range != NULL)
            rc = range_take_locked(pool, range, size, &freeing);
        *ret_range = range;
    }
    if (rc == ACL_ERROR_RT_MEMORY_ALLOCATION && (pool->reuse & AM_REUSE_INTERNAL))
        return pool_borrow_locked(pool, size, stream, ret_range);
    if (rc == ACL_SUCCESS)
        am_freeing_put(freeing);
    return rc;
}

static aclError pool_malloc_locked(struct am_pool *pool, size_t asked,
                                   struct am_stream *stream, void **ret_addr)
    AM_REQUIRES(pool->lock)
{
    struct am_domain *domain = pool->backing.domain;
    size_t size = am_align_up(asked, AM_POOL_ALIGN);
    struct am_range *range;
    char why[256] = "";
    struct am_capture before;
    aclError rc;

    AM_REQUIRE(!pool->is_dead, ACL_ERROR_RT_INVALID_HANDLE, "memPool %p is not alive",
               pool->handle);
    AM_REQUIRE(stream->device == pool->device, ACL_ERROR_RT_PARAM_INVALID,
               "the pool is on device %d, and stream %d on device %d", pool->device,
               stream->id, stream->device);
    AM_REQUIRE(size <= pool->max_size - pool->ranges.live, ACL_ERROR_RT_MEMORY_ALLOCATION,
               "Failed to allocate %zu bytes: %zu of the pool's %zu are in use", asked,
               pool->ranges.live, pool->max_size);
    /* Ways that do not work out are nobody's business when the next one does. */
    before = am_error_capture(why, sizeof why);
    rc = pool_find_locked(pool, size, stream, &range);
    am_error_capture_end(before);
    AM_REQUIRE(
        rc != ACL_ERROR_RT_MEMORY_ALLOCATION, rc,
        "Failed to allocate %zu bytes: the pool's blocks take %zu of its %zu, and the "
        "rest is in pieces, or not yet freed by streams; device %d has %zu left",
        asked, pool->ranges.live, pool->max_size, pool->device,
        domain->capacity - domain->used);
    AM_REQUIRE(rc == ACL_SUCCESS, rc, "no block of %zu bytes: %s", asked,
               am_error_text(why));
    range->asked = asked;
    if (pool->ranges.live > pool->used_high)
        pool->used_high = pool->ranges.live;
    *ret_addr = (void *)(pool->backing.base + range->start);
    return ACL_SUCCESS;
}

aclError am_pool_malloc_async(void *handle, size_t size, struct am_stream *stream,
                              void **ret_addr)
{
    struct am_pool *pool;
    aclError rc = ACL_SUCCESS;

    AM_TRY(am_pool_get(handle, &pool));
    if (size > pool->max_size)
        rc = am_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                     "Failed to allocate %zu bytes: the pool has %zu", size,
                     pool->max_size);
    if (rc == ACL_SUCCESS) {
        am_lock(&pool->lock);
        rc = pool_malloc_locked(pool, size, stream, ret_addr);
        am_unlock(&pool->lock);
    }
    am_pool_put(pool);
    return rc;
}

/* The stream has got to the free: who waited for it goes on. */
static void freeing_finish(struct am_freeing *freeing)
{
    am_lock(&am_sched.lock);
    freeing->is_done = true;
    am_sched_wake_locked(&am_sched, &freeing->waiting);
    am_unlock(&am_sched.lock);
}

/* What was freed on the stream and is done comes to others, if the switches allow it. */
static void pool_settle_locked(struct am_pool *pool, int32_t stream)
    AM_REQUIRES(pool->lock)
{
    if (pool->reuse & (AM_REUSE_FOLLOW | AM_REUSE_OPPORTUNISTIC))
        am_ranges_open(&pool->ranges, stream);
}

/* Also where the stream was aborted: what came before is over then, too. */
static void free_drop(struct am_task *task)
{
    struct am_freeing *freeing = (struct am_freeing *)task;
    struct am_pool *pool = freeing->pool;
    bool is_unlisted;

    am_lock(&pool->lock);
    freeing_finish(freeing);
    LIST_REMOVE(freeing, leaving);
    pool_settle_locked(pool, freeing->stream);
    is_unlisted = am_pool_unlist_locked(pool);
    am_unlock(&pool->lock);
    if (is_unlisted)
        am_pool_put(pool);
    am_freeing_put(freeing);
    am_pool_put(pool);
}

static const struct am_task_ops free_ops = {.drop = free_drop};

static struct am_freeing *freeing_make(struct am_pool *pool, const struct am_range *range,
                                       struct am_stream *stream) AM_REQUIRES(pool->lock)
{
    struct am_freeing *freeing = am_sys_calloc(1, sizeof *freeing);

    if (freeing == NULL)
        return NULL;
    am_task_init(&freeing->task, &free_ops);
    freeing->pool = pool;
    freeing->refs = 1;
    freeing->stream = stream->id;
    freeing->queue = &stream->queue;
    freeing->ticket = ++pool->last_ticket;
    freeing->start = range->start;
    freeing->size = range->size;
    am_waitlist_init(&freeing->waiting);
    return freeing;
}

/* The block that starts at addr, which the program may free on the stream. */
static aclError block_check_locked(struct am_pool *pool, uintptr_t addr,
                                   const struct am_stream *stream,
                                   struct am_range **ret_range) AM_REQUIRES(pool->lock)
{
    struct am_range *range = am_ranges_find(&pool->ranges, addr - pool->backing.base);

    AM_REQUIRE(range->is_live, ACL_ERROR_RT_PARAM_INVALID,
               "%p is in no block of the pool; it was freed before, or never handed out",
               (void *)addr);
    AM_REQUIRE(range->start == addr - pool->backing.base, ACL_ERROR_RT_PARAM_INVALID,
               "%p lies inside the block of %zu bytes at %p; pass its start",
               (void *)addr, range->size, (void *)(pool->backing.base + range->start));
    AM_REQUIRE(stream->device == pool->device, ACL_ERROR_RT_PARAM_INVALID,
               "the pool is on device %d, and stream %d on device %d", pool->device,
               stream->id, stream->device);
    *ret_range = range;
    return ACL_SUCCESS;
}

/* The task keeps the freeing and the pool.  A worker that comes to it waits for the lock. */
static aclError free_submit_locked(struct am_pool *pool, struct am_freeing *freeing,
                                   struct am_stream *stream) AM_REQUIRES(pool->lock)
{
    aclError rc = am_lane_submit(&stream->lane, &freeing->task);

    if (rc != ACL_SUCCESS)
        return rc;
    am_freeing_ref(freeing);
    am_ref_more(&pool->named.refs);
    LIST_INSERT_HEAD(&pool->leaving, freeing, leaving);
    return ACL_SUCCESS;
}

/* Queue the free; the block is the stream's from now on. */
static aclError pool_free_locked(struct am_pool *pool, struct am_range *range,
                                 struct am_stream *stream) AM_REQUIRES(pool->lock)
{
    struct am_freeing *freeing = freeing_make(pool, range, stream);
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(freeing != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a free");
    /* Where the stream has nothing before the free, it is done at once. */
    freeing->is_done = am_lane_pass(&stream->lane);
    if (!freeing->is_done)
        rc = free_submit_locked(pool, freeing, stream);
    if (rc == ACL_SUCCESS)
        range_give_locked(pool, range, freeing);
    if (freeing->is_done)
        pool_settle_locked(pool, stream->id);
    am_freeing_put(freeing);
    return rc;
}

aclError am_pool_free_async(void *addr, struct am_stream *stream)
{
    struct am_pool *pool = am_pool_get_by_address((uintptr_t)addr);
    struct am_range *range;
    aclError rc;

    AM_REQUIRE(pool != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%p is not from aclrtMemPoolMallocAsync", addr);
    am_lock(&pool->lock);
    rc = block_check_locked(pool, (uintptr_t)addr, stream, &range);
    if (rc == ACL_SUCCESS)
        rc = pool_free_locked(pool, range, stream);
    am_unlock(&pool->lock);
    am_pool_put(pool);
    return rc;
}
