/* The pool's life, and the way of a block; internal.h has the idea. */
#include <inttypes.h>
#include <string.h>

#include "base/sys.h"
#include "base/util.h"
#include "pool/internal.h"

/* Addresses reserved at a time, if not more are asked for. */
#define SPAN_MAX AM_TIB

/*
 * Memory is ample while no more is held than was live at some time, and such a part of it: moving
 * pages then only takes time, since the program has shown that it needs as many.
 */
#define AMPLE 128

/* How often memory is asked for again after the program's functions freed some. */
#define N_ROUNDS 8

/* The thread is inside a function that a pool calls when memory runs out. */
static _Thread_local bool is_called_back;

/* In whole pages; a limit near the largest number means no limit. */
static size_t limit_round(const aclmem_pool *pool, size_t limit)
{
    return limit < SIZE_MAX / 4 ? am_align_up(limit, pool->page)
                                : SIZE_MAX / 4 / pool->page * pool->page;
}

/* Half as many addresses, and so on, if the system does not have that many in a row. */
static size_t span_try(aclmem_pool *pool, size_t span)
{
    uint64_t base;

    span = am_align_up(span, pool->page);
    while (span > 16 * pool->page &&
           pool_fit_ops.reserve(pool, span, &base) != ACL_SUCCESS)
        span = am_align_up(span / 2, pool->page);
    if (span > 16 * pool->page)
        pool_fit_ops.release(pool, base, span);
    return span;
}

static int fit_open(aclmem_pool *pool, size_t span, bool is_aliased)
{
    struct am_fit_config config = {
        .page = pool->page,
        .unit = UNIT,
        .span = span_try(pool, span),
        .max_pages = pool->limit / pool->page,
        .slack = pool->slack / pool->page,
        .extra = sizeof(struct pool_block),
        .is_aliased = is_aliased,
    };

    if (config.unit < pool->page / 4096)
        config.unit = pool->page / 4096;
    pool->fit = am_fit_create(&config, &pool_fit_ops, pool);
    return pool->fit != NULL ? 0 : -1;
}

static aclError pool_measure(aclmem_pool *pool, const aclmem_pool_options *options)
{
    aclrtPhysicalMemProp memory = pool_memory(pool->device);
    size_t free, total;
    aclError rc = aclrtMemGetAllocationGranularity(
        &memory, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &pool->page);

    if (rc != ACL_SUCCESS)
        return pool_fail(rc, "the granularity of device %d is not known", pool->device);
    rc = aclrtGetMemInfo(ACL_HBM_MEM, &free, &total);
    if (rc != ACL_SUCCESS)
        return pool_fail(rc, "the memory of device %d is not known", pool->device);
    pool->limit = limit_round(pool, options->limit != 0 ? options->limit : total);
    pool->keep = options->keep != 0 ? options->keep : ACLMEM_POOL_KEEP_ALL;
    pool->slack = options->slack;
    pool->streams = options->stream_ops != NULL ? *options->stream_ops : pool_acl_streams;
    return ACL_SUCCESS;
}

static aclError pool_open(aclmem_pool *pool, const aclmem_pool_options *options)
{
    aclError rc = aclrtGetCurrentContext(&pool->context);
    int32_t device = -1;
    size_t span;

    if (rc == ACL_SUCCESS)
        rc = aclrtGetDevice(&device);
    if (rc != ACL_SUCCESS || device != pool->device)
        return pool_fail(rc != ACL_SUCCESS ? rc : ACL_ERROR_INVALID_PARAM,
                         "call aclrtSetDevice(%d) before creating a pool there",
                         pool->device);
    AM_TRY(pool_measure(pool, options));
    span = 2 * pool->limit < SPAN_MAX ? 2 * pool->limit : SPAN_MAX;
    if (options->span != 0)
        span = options->span;
    if (pool_quick_init(pool) != 0 ||
        fit_open(pool, span, (options->flags & ACLMEM_POOL_ALIASES) != 0) != 0)
        return pool_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a pool");
    return ACL_SUCCESS;
}

static void pool_close(aclmem_pool *pool)
{
    am_fit_destroy(pool->fit);
    pool_slots_destroy(pool);
    pool_quick_destroy(pool);
    pthread_mutex_destroy(&pool->lock);
    pthread_mutex_destroy(&pool->sleeping);
    free(pool);
}

static aclError options_check(const aclmem_pool_options *options)
{
    const aclmem_pool_stream_ops *ops = options->stream_ops;

    if ((options->flags & ~(uint64_t)ACLMEM_POOL_ALIASES) != 0)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "flags 0x%" PRIx64, options->flags);
    for (size_t i = 0; i < sizeof options->rsv / sizeof options->rsv[0]; i++) {
        if (options->rsv[i] != 0)
            return pool_fail(ACL_ERROR_INVALID_PARAM,
                             "rsv[%zu] is not 0: are the options initialised?", i);
    }
    if (ops != NULL &&
        (ops->event_create == NULL || ops->event_destroy == NULL ||
         ops->event_record == NULL || ops->event_query == NULL ||
         ops->event_synchronize == NULL || ops->stream_wait == NULL ||
         ops->stream_synchronize == NULL || ops->device_synchronize == NULL))
        return pool_fail(ACL_ERROR_INVALID_PARAM, "a function of stream_ops is NULL");
    return ACL_SUCCESS;
}

aclError aclmem_pool_create(int32_t device, const aclmem_pool_options *options,
                            aclmem_pool **ret_pool)
{
    static const aclmem_pool_options defaults;
    aclmem_pool *pool;
    aclError rc;

    if (options == NULL)
        options = &defaults;
    if (ret_pool == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "pool is NULL");
    AM_TRY(options_check(options));
    pool = am_sys_aligned_alloc(_Alignof(aclmem_pool), sizeof *pool);
    if (pool == NULL)
        return pool_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a pool");
    memset(pool, 0, sizeof *pool);
    pool->device = device;
    pool->ticket = 1;
    STAILQ_INIT(&pool->spare_marks);
    LIST_INIT(&pool->own);
    LIST_INIT(&pool->left);
    for (unsigned i = 0; i < N_SLOTS; i++)
        STAILQ_INIT(&pool->slots[i].marks);
    pthread_mutex_init(&pool->lock, NULL);
    pthread_mutex_init(&pool->sleeping, NULL);
    rc = pool_open(pool, options);
    if (rc != ACL_SUCCESS) {
        pool_close(pool);
        return rc;
    }
    *ret_pool = pool;
    return ACL_SUCCESS;
}

/* Gives all memory back; all streams have done all work.  What fails may be done again. */
static aclError pool_empty(aclmem_pool *pool)
{
    struct am_fit_use wait;
    uint64_t held;
    aclError rc;

    pthread_mutex_lock(&pool->lock);
    pool_flush_locked(pool, true);
    for (unsigned i = 0; i < N_SLOTS; i++)
        pool->slots[i].done = pool->slots[i].marked = pool->ticket;
    pool->ticket++;
    pool_own_reap_locked(pool);
    rc = am_fit_trim(pool->fit, 0, &wait);
    held = pool_held_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    if (held == 0)
        return ACL_SUCCESS;
    return pool_fail(rc != ACL_SUCCESS ? rc : ACL_ERROR_RT_FAILURE,
                     "%.1f MB could not be unmapped; the pool may be destroyed again",
                     (double)held / (1 << 20));
}

aclError aclmem_pool_destroy(aclmem_pool *pool)
{
    struct pool_visit visit;
    aclmem_pool_stats stats;
    aclError rc;

    if (pool == NULL)
        return ACL_SUCCESS;
    aclmem_pool_get_stats(pool, &stats);
    if (stats.n_live > 0)
        return pool_fail(ACL_ERROR_INVALID_PARAM,
                         "%" PRIu64 " blocks of the pool are live", stats.n_live);
    if (stats.models > 0)
        return pool_fail(ACL_ERROR_INVALID_PARAM,
                         "%" PRIu64 " models use the pool's memory", stats.models);
    if (atomic_load(&pool->n_calling) > 0)
        return pool_fail(ACL_ERROR_INVALID_PARAM,
                         "a function of aclmem_pool_on_oom() is running");
    AM_TRY(pool_enter(pool, &visit));
    rc = pool->streams.device_synchronize();
    if (rc != ACL_SUCCESS) {
        pool_fail(rc, "the device's work did not end well");
    } else {
        rc = pool_empty(pool);
        if (rc == ACL_SUCCESS)
            pool_close(pool);
    }
    pool_leave(&visit);
    return rc;
}

struct am_fit_use pool_use_now_locked(aclmem_pool *pool, uint64_t streams)
{
    /* Two streams beyond the known ones have no order between them. */
    if ((streams >> OTHERS & 1) != 0)
        streams = (streams & ~(1ull << OTHERS)) | 1ull << OTHERS_WORK;
    return (struct am_fit_use){.streams = streams, .ticket = pool->ticket};
}

/* The block goes to the engine; its streams may still have work on it. */
static void block_free_locked(aclmem_pool *pool, struct pool_block *block)
{
    struct am_fit_use use = {0};
    size_t size = block->size;

    pool_table_remove(pool, block);
    free(block->saved);
    if (block->place != NULL && am_fit_is_asleep(block->place)) {
        pool->asleep -= size;
    } else {
        use = pool_use_now_locked(pool, 1ull << block->slot | atomic_load(&block->also));
    }
    if (block->place == NULL)
        pool_own_free_locked(pool, block, use);
    else
        am_fit_free(pool->fit, block->place, use);
    pool_slots_freed_locked(pool, use.streams, size);
}

bool pool_flush_locked(aclmem_pool *pool, bool is_all)
{
    struct pool_block_list flushed = LIST_HEAD_INITIALIZER(flushed);
    bool is_any;

    pool_quick_flush(pool, is_all, &flushed);
    is_any = !LIST_EMPTY(&flushed);
    while (!LIST_EMPTY(&flushed)) {
        struct pool_block *block = LIST_FIRST(&flushed);

        LIST_REMOVE(block, in_bucket);
        block_free_locked(pool, block);
    }
    return is_any;
}

bool pool_call_back_locked(aclmem_pool *pool, size_t wanted)
{
    struct pool_callback callbacks[N_CALLBACKS];
    unsigned n = pool->n_callbacks;
    bool is_freed = false;

    /* A function that asks for memory itself would be called again for that, without end. */
    if (is_called_back)
        return false;
    is_called_back = true;
    atomic_fetch_add(&pool->n_calling, 1);
    memcpy(callbacks, pool->callbacks, sizeof callbacks);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < n; i++)
        is_freed |= callbacks[i].fn(callbacks[i].arg, wanted) != 0;
    pthread_mutex_lock(&pool->lock);
    atomic_fetch_sub(&pool->n_calling, 1);
    is_called_back = false;
    return is_freed;
}

void pool_limits_update_locked(aclmem_pool *pool)
{
    size_t room = pool->limit > pool->exportable ? pool->limit - pool->exportable : 0;
    size_t slack = pool->slack != 0 ? pool->slack : pool_held_locked(pool) / 256;
    uint64_t away = pool->asleep + pool->exportable;
    size_t ample = 0;

    if (pool->keep == ACLMEM_POOL_KEEP_ALL && pool->high > away)
        ample = (pool->high - away) / AMPLE * (AMPLE + 1);
    if (pool->is_frozen) /* nothing can be waited for */
        slack = pool->limit;
    /* 0 would mean no limit. */
    am_fit_set_limits(pool->fit, room / pool->page != 0 ? room / pool->page : 1,
                      slack / pool->page, ample / pool->page);
}

/* Whether idle pages are too few for the block. */
static bool needs_pages_locked(aclmem_pool *pool, size_t size)
{
    struct am_fit_stats stats;

    am_fit_get_stats(pool->fit, &stats);
    return stats.idle <= size / pool->page;
}

/*
 * One try: 0, an error, or AM_FIT_*.  Small blocks that find memory ready leave the kept ones
 * alone; everything else first gets what they could serve with.  Large ones that are placed around
 * kept blocks would leave idle pages in rows too short for the next.
 */
static int place_locked(aclmem_pool *pool, size_t size, unsigned slot,
                        struct am_fit_block **ret_place, struct am_fit_use *ret_wait)
{
    bool is_small = !pool_is_large(pool, size);
    int rc = AM_FIT_GROWS;

    if (is_small)
        rc = am_fit_alloc_ready(pool->fit, size, slot, ret_place, ret_wait);
    if (rc != AM_FIT_GROWS)
        return rc;
    pool_flush_locked(pool, is_small);
    if (!is_small && needs_pages_locked(pool, size))
        pool_flush_locked(pool, true);
    pool_limits_update_locked(pool);
    return am_fit_alloc(pool->fit, size, slot, ret_place, ret_wait);
}

/* Tries until there is memory, or nothing is left to wait for. */
static aclError block_place_locked(aclmem_pool *pool, size_t size, unsigned slot,
                                   struct am_fit_block **ret_place,
                                   struct am_fit_use *ret_wait)
{
    for (unsigned round = 0;;) {
        int rc = place_locked(pool, size, slot, ret_place, ret_wait);

        if (rc == AM_FIT_NO_MEMORY)
            return pool_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                             "no host memory for a block");
        if (rc == AM_FIT_BUSY && pool->is_frozen)
            return pool_fail_memory_locked(pool, size);
        if (rc == AM_FIT_BUSY) {
            rc = pool_wait_locked(pool, ret_wait);
            if (rc == ACL_SUCCESS)
                continue;
            return pool_fail(rc, "waiting for the work on freed blocks failed");
        }
        if (rc != AM_FIT_LIMIT && rc != ACL_ERROR_RT_MEMORY_ALLOCATION)
            return rc == 0 ? rc : pool_fail(rc, "%zu bytes could not be mapped", size);
        if (pool_flush_locked(pool, true) || pool_own_reap_locked(pool))
            continue;
        if (round++ == N_ROUNDS || !pool_call_back_locked(pool, size))
            return pool_fail_memory_locked(pool, size);
    }
}

/* A block that has a place comes to be the program's. */
static void *block_open_locked(aclmem_pool *pool, struct am_fit_block *place,
                               const struct pool_request *request)
{
    struct pool_block *block = am_fit_extra(place);

    /* Field by field: the rest of the record would be lines that nothing else needs. */
    block->slot = request->slot;
    block->size = request->size;
    block->asked = request->asked;
    block->tag = request->tag;
    block->stream = request->stream;
    block->addr = am_fit_addr(place);
    block->place = place;
    block->saved = NULL;
    atomic_store_explicit(&block->also, 0, memory_order_relaxed);
    /* The table's latch publishes all of it. */
    atomic_store_explicit(&block->state, BLOCK_LIVE, memory_order_relaxed);
    pool->seen |= 1ull << block->slot;
    pool_table_insert(pool, block);
    pool_sample_locked(pool, block);
    return (void *)block->addr;
}

/* A small block beside others: no call is made, so the thread's context does not matter. */
static void *malloc_small(aclmem_pool *pool, const struct pool_request *request)
{
    struct am_fit_block *place;
    void *ptr = NULL;

    pthread_mutex_lock(&pool->lock);
    place = am_fit_alloc_small(pool->fit, request->size, request->slot);
    if (place != NULL)
        ptr = block_open_locked(pool, place, request);
    pthread_mutex_unlock(&pool->lock);
    return ptr;
}

static aclError malloc_slow(aclmem_pool *pool, const struct pool_request *request,
                            void **ret_ptr)
{
    aclrtStream stream = request->stream;
    unsigned slot = request->slot;
    struct am_fit_block *place;
    struct am_fit_use wait;
    struct pool_visit visit;
    aclError rc;

    AM_TRY(pool_enter(pool, &visit));
    pthread_mutex_lock(&pool->lock);
    rc = block_place_locked(pool, request->size, slot, &place, &wait);
    if (rc == ACL_SUCCESS && wait.streams != 0) {
        rc = pool_order_locked(pool, stream, &wait);
        if (rc != ACL_SUCCESS) {
            /* The stream's own work is there too: the placement took it as ordered. */
            am_fit_free(pool->fit, place,
                        pool_use_now_locked(pool, wait.streams | 1ull << slot));
            pool_fail(rc, "the stream could not be made to wait for another one");
        }
    }
    if (rc == ACL_SUCCESS)
        *ret_ptr = block_open_locked(pool, place, request);
    pthread_mutex_unlock(&pool->lock);
    pool_leave(&visit);
    return rc;
}

/* Apart: a hit fills in no record. */
static __attribute__((noinline)) aclError malloc_miss(aclmem_pool *pool, size_t size,
                                                      aclrtStream stream, unsigned slot,
                                                      uint32_t tag, void **ret_ptr)
{
    const struct pool_request request = {.size = am_align_up(size, UNIT),
                                         .asked = size,
                                         .stream = stream,
                                         .slot = slot,
                                         .tag = tag};
    void *small = pool_is_large(pool, request.size) ? NULL : malloc_small(pool, &request);

    if (small == NULL)
        return malloc_slow(pool, &request, ret_ptr);
    *ret_ptr = small;
    return ACL_SUCCESS;
}

static inline aclError malloc_on(aclmem_pool *pool, size_t size, aclrtStream stream,
                                 uint32_t tag, void **ret_ptr)
{
    unsigned slot = pool_slot_get(pool, stream);
    size_t rounded = am_align_up(size, UNIT);
    struct pool_block *block = pool_quick_take(
        &pool->shards[slot], pool_is_large(pool, rounded), rounded, size, tag);

    if (block == NULL)
        return malloc_miss(pool, size, stream, slot, tag, ret_ptr);
    *ret_ptr = (void *)block->addr;
    return ACL_SUCCESS;
}

/* More than the pool may ever hold. */
static aclError refuse(aclmem_pool *pool, size_t size)
{
    struct pool_visit visit;
    aclError rc;

    AM_TRY(pool_enter(pool, &visit));
    pthread_mutex_lock(&pool->lock);
    pool_flush_locked(pool, true);
    rc = pool_fail_memory_locked(pool, size);
    pthread_mutex_unlock(&pool->lock);
    pool_leave(&visit);
    return rc;
}

aclError aclmem_pool_malloc_tagged(aclmem_pool *pool, size_t size, aclrtStream stream,
                                   uint32_t tag, uint32_t flags, void **ptr)
{
    AM_TRY(pool_require(pool, ptr, "ptr"));
    if (size == 0)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "size is 0");
    if (tag == ACLMEM_POOL_ALL_TAGS)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "tag 0x%" PRIx32 " stands for all tags",
                         tag);
    if ((flags & ~ACLMEM_POOL_EXPORTABLE) != 0)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "flags 0x%" PRIx32, flags);
    if (size > pool->limit)
        return refuse(pool, size);
    if ((flags & ACLMEM_POOL_EXPORTABLE) != 0)
        return pool_own_malloc(pool, size, stream, tag, ptr);
    return malloc_on(pool, size, stream, tag, ptr);
}

aclError aclmem_pool_malloc(aclmem_pool *pool, size_t size, aclrtStream stream,
                            void **ptr)
{
    if (pool == NULL || ptr == NULL || size == 0 || size > pool->limit)
        return aclmem_pool_malloc_tagged(pool, size, stream, 0, 0, ptr); /* says why */
    return malloc_on(pool, size, stream, 0, ptr);
}

/*
 * A kept block goes to the engine for a newer one.  Mostly no call is made: all that it was used on is
 * its own stream, and no event is due.
 */
static bool evict(aclmem_pool *pool, struct pool_block *block)
{
    bool is_quick;

    pthread_mutex_lock(&pool->lock);
    is_quick = !pool_slot_is_due_locked(pool, block->slot, block->size);
    if (is_quick)
        block_free_locked(pool, block);
    pthread_mutex_unlock(&pool->lock);
    return is_quick;
}

/* Gives back what exceeds the pool's `keep`. */
static void tidy_locked(aclmem_pool *pool)
{
    struct am_fit_use wait;
    struct am_fit_stats stats;

    pool_own_reap_locked(pool);
    if (pool->keep == ACLMEM_POOL_KEEP_ALL)
        return;
    am_fit_get_stats(pool->fit, &stats);
    if ((stats.idle + stats.loose) * pool->page > pool->keep)
        am_fit_trim(pool->fit, pool->keep / pool->page, &wait);
}

/*
 * A block that is freed, and counted as such, goes to the engine.  Without the pool's context too, since
 * it would be lost otherwise: the calls that fail then are made again by the next one.
 */
static void free_slow(aclmem_pool *pool, struct pool_block *block)
{
    struct pool_visit visit;
    bool is_there = pool_enter(pool, &visit) == ACL_SUCCESS;

    pthread_mutex_lock(&pool->lock);
    block_free_locked(pool, block);
    tidy_locked(pool);
    pthread_mutex_unlock(&pool->lock);
    if (is_there)
        pool_leave(&visit);
}

aclError aclmem_pool_free(aclmem_pool *pool, void *ptr)
{
    struct pool_block *block;
    enum block_state was;

    if (pool == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "pool is NULL");
    block = pool_table_claim(pool, ptr, BLOCK_FREED, &was);
    if (block == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM,
                         "%p is not a live block of the pool: it was freed before, is "
                         "inside one, or is not the pool's",
                         ptr);
    if (was == BLOCK_LIVE && pool->keep == ACLMEM_POOL_KEEP_ALL &&
        block->slot != OTHERS && block->place != NULL &&
        /* No order is needed: the program frees a block after all calls that use it. */
        atomic_load_explicit(&block->also, memory_order_relaxed) == 0) {
        block = pool_quick_give(&pool->shards[block->slot],
                                pool_is_large(pool, block->size), block);
        if (block == NULL || evict(pool, block))
            return ACL_SUCCESS;
    } else {
        pool_count(pool, block, -1);
    }
    free_slow(pool, block);
    return ACL_SUCCESS;
}

aclError aclmem_pool_set_limit(aclmem_pool *pool, size_t limit)
{
    if (pool == NULL || limit == 0)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "%s",
                         pool == NULL ? "pool is NULL" : "limit is 0");
    pthread_mutex_lock(&pool->lock);
    atomic_store(&pool->limit, limit_round(pool, limit));
    pthread_mutex_unlock(&pool->lock);
    return ACL_SUCCESS;
}

aclError aclmem_pool_size(aclmem_pool *pool, const void *ptr, size_t *size)
{
    struct pool_block *block;

    AM_TRY(pool_require(pool, size, "size"));
    AM_TRY(pool_table_find(pool, ptr, &block));
    *size = block->asked;
    return ACL_SUCCESS;
}

aclError aclmem_pool_use(aclmem_pool *pool, void *ptr, aclrtStream stream)
{
    struct pool_block *block;
    unsigned slot;

    if (pool == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "pool is NULL");
    AM_TRY(pool_table_find(pool, ptr, &block));
    /* Not by handle: one that was forgotten may be another stream's by now. */
    slot = pool_slot_get(pool, stream);
    if (slot != block->slot)
        atomic_fetch_or(&block->also, 1ull << slot);
    return ACL_SUCCESS;
}

aclError aclmem_pool_trim(aclmem_pool *pool, size_t keep)
{
    struct am_fit_use wait;
    struct pool_visit visit;
    aclError rc = ACL_SUCCESS;

    AM_TRY(pool_enter(pool, &visit));
    pthread_mutex_lock(&pool->lock);
    pool_flush_locked(pool, true);
    pool_own_reap_locked(pool);
    if (pool->n_models == 0)
        rc = am_fit_trim(pool->fit, keep / pool->page, &wait);
    pool->high = pool_sample_locked(pool, NULL);
    pthread_mutex_unlock(&pool->lock);
    pool_leave(&visit);
    return rc == 0 ? ACL_SUCCESS : pool_fail(rc, "an idle page could not be unmapped");
}

aclError aclmem_pool_on_oom(aclmem_pool *pool, aclmem_pool_oom_fn fn, void *arg)
{
    aclError rc = ACL_SUCCESS;

    if (pool == NULL || fn == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "%s is NULL",
                         pool == NULL ? "pool" : "fn");
    pthread_mutex_lock(&pool->lock);
    if (pool->n_callbacks < N_CALLBACKS) {
        pool->callbacks[pool->n_callbacks].fn = fn;
        pool->callbacks[pool->n_callbacks].arg = arg;
        pool->n_callbacks++;
    } else {
        rc = pool_fail(ACL_ERROR_INVALID_PARAM, "there are %u functions already",
                       N_CALLBACKS);
    }
    pthread_mutex_unlock(&pool->lock);
    return rc;
}
