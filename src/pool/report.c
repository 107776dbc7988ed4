/* What the pool says of itself: messages, figures, a list of its blocks. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "pool/internal.h"

#define MB(bytes_) ((double)(bytes_) / (1 << 20))

static _Thread_local char message[512];

aclError pool_fail(aclError rc, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return rc;
}

aclError pool_require(const aclmem_pool *pool, const void *argument, const char *name)
{
    if (pool != NULL && argument != NULL)
        return ACL_SUCCESS;
    return pool_fail(ACL_ERROR_INVALID_PARAM, "%s is NULL", pool == NULL ? "pool" : name);
}

const char *aclmem_pool_message(void)
{
    return message;
}

uint64_t pool_held_locked(aclmem_pool *pool)
{
    return am_fit_held(pool->fit) * pool->page + pool->exportable;
}

static void stats_locked(aclmem_pool *pool, aclmem_pool_stats *ret)
{
    struct am_fit_stats stats;
    uint64_t live = pool_sample_locked(pool, NULL);

    am_fit_get_stats(pool->fit, &stats);
    *ret = (aclmem_pool_stats){
        .live = live,
        .peak_live = pool->peak_live,
        .held = pool_held_locked(pool),
        .peak_held = pool->peak_held,
        .idle = (stats.idle + stats.loose) * pool->page,
        .exportable = pool->exportable,
        .asleep = pool->asleep,
        .runs = stats.runs,
        .creates = stats.creates,
        .remaps = stats.remaps,
        .waits = pool->waits,
        .returns = stats.returns,
        .models = pool->n_models,
    };
    if (stats.used * pool->page + pool->asleep > stats.live)
        ret->lost = stats.used * pool->page + pool->asleep - stats.live;
    for (unsigned i = 0; i < N_SHARDS; i++) {
        struct pool_shard *shard = &pool->shards[i];

        am_latch_take(&shard->latch);
        ret->n_live += shard->n_live;
        ret->cached += shard->cached;
        ret->mallocs += shard->mallocs;
        ret->hits += shard->hits;
        for (unsigned j = 0; j < ACLMEM_POOL_SIZES; j++)
            ret->by_size[j] += shard->by_size[j];
        am_latch_give(&shard->latch);
    }
}

aclError pool_fail_memory_locked(aclmem_pool *pool, size_t size)
{
    aclmem_pool_stats stats;
    size_t free = 0, total = 0;
    size_t room, largest;

    stats_locked(pool, &stats);
    room = pool->limit > stats.held ? pool->limit - stats.held : 0;
    if (aclrtGetMemInfo(ACL_HBM_MEM, &free, &total) == ACL_SUCCESS && free < room)
        room = free;
    largest = stats.idle / pool->page + room / pool->page;
    /* Beside a sleeping block there may be no memory. */
    largest =
        stats.asleep > 0 ? largest * pool->page : am_fit_largest(pool->fit, largest);
    return pool_fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION,
        "out of memory: %zu bytes (%.1f MB) asked for; %.1f MB held of %.1f MB allowed: "
        "%.1f MB "
        "live in %" PRIu64 " blocks, %.1f MB idle, %.1f MB lost at borders, %.1f MB "
        "exportable; %.1f MB asleep; the device has %.1f MB free; a block of %.1f MB "
        "would fit now (%zu bytes)",
        size, MB(size), MB(stats.held), MB(pool->limit), MB(stats.live), stats.n_live,
        MB(stats.idle), MB(stats.lost), MB(stats.exportable), MB(stats.asleep), MB(free),
        MB(largest), largest);
}

aclError aclmem_pool_get_stats(aclmem_pool *pool, aclmem_pool_stats *stats)
{
    AM_TRY(pool_require(pool, stats, "stats"));
    pthread_mutex_lock(&pool->lock);
    stats_locked(pool, stats);
    pthread_mutex_unlock(&pool->lock);
    return ACL_SUCCESS;
}

aclError aclmem_pool_reset_peaks(aclmem_pool *pool)
{
    if (pool == NULL)
        return pool_fail(ACL_ERROR_INVALID_PARAM, "pool is NULL");
    pthread_mutex_lock(&pool->lock);
    pool->peak_held = pool_held_locked(pool);
    pool->peak_live = pool_sample_locked(pool, NULL);
    pthread_mutex_unlock(&pool->lock);
    return ACL_SUCCESS;
}

static void write_stats(FILE *out, const aclmem_pool_stats *s)
{
    fprintf(out,
            "\"stats\": {\"live\": %" PRIu64 ", \"n_live\": %" PRIu64
            ", \"peak_live\": %" PRIu64 ", \"held\": %" PRIu64 ", \"peak_held\": %" PRIu64
            ", \"cached\": %" PRIu64 ", \"idle\": %" PRIu64 ", \"lost\": %" PRIu64
            ", \"exportable\": %" PRIu64 ", \"asleep\": %" PRIu64 ", \"runs\": %" PRIu64
            ", \"mallocs\": %" PRIu64 ", \"hits\": %" PRIu64 ", \"creates\": %" PRIu64
            ", \"remaps\": %" PRIu64 ", \"returns\": %" PRIu64 ", \"waits\": %" PRIu64
            "}",
            s->live, s->n_live, s->peak_live, s->held, s->peak_held, s->cached, s->idle,
            s->lost, s->exportable, s->asleep, s->runs, s->mallocs, s->hits, s->creates,
            s->remaps, s->returns, s->waits);
}

static void write_block(FILE *out, aclmem_pool *pool, struct pool_block *block,
                        bool is_first)
{
    static const char *const states[] = {"live", "asleep", "cached"};
    struct pool_use use = pool_use_of(pool, block);

    fprintf(out,
            "%s\n  {\"address\": %" PRIuPTR ", \"size\": %zu, \"tag\": %" PRIu32
            ", \"stream\": %" PRIuPTR ", \"state\": \"%s\"}",
            is_first ? "" : ",", block->addr, use.asked, use.tag,
            (uintptr_t)block->stream,
            block->place == NULL ? "exportable" : states[use.state]);
}

aclError aclmem_pool_snapshot(aclmem_pool *pool, char **json)
{
    struct am_fit_block *place = NULL;
    struct pool_block *block;
    aclmem_pool_stats stats;
    bool is_first = true, is_short;
    size_t size;
    FILE *out;

    AM_TRY(pool_require(pool, json, "json"));
    out = open_memstream(json, &size);
    if (out == NULL)
        return pool_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a snapshot");
    pthread_mutex_lock(&pool->lock);
    stats_locked(pool, &stats);
    fprintf(out, "{\"device\": %d, \"page\": %zu, \"limit\": %zu, ", pool->device,
            pool->page, pool->limit);
    write_stats(out, &stats);
    fprintf(out, ", \"blocks\": [");
    while ((place = am_fit_next(pool->fit, place)) != NULL) {
        write_block(out, pool, am_fit_extra(place), is_first);
        is_first = false;
    }
    LIST_FOREACH (block, &pool->own, own) {
        write_block(out, pool, block, is_first);
        is_first = false;
    }
    pthread_mutex_unlock(&pool->lock);
    fprintf(out, "]}\n");
    is_short = ferror(out) != 0;
    if (fclose(out) != 0 || is_short) {
        free(*json);
        *json = NULL;
        return pool_fail(ACL_ERROR_RT_MEMORY_ALLOCATION, "no host memory for a snapshot");
    }
    return ACL_SUCCESS;
}
