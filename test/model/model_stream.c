/*
 * The model's streams, events and pools: what is alive, and who may use it.
 *
 * A stream belongs to a context and dies with it; an event or a pool belongs to a device
 * and dies with its last reset.
 */
#include "model.h"

struct model_stream *model_find_stream(struct model *m, const void *value)
{
    for (int i = 0; i < MODEL_STREAMS; i++)
        if (m->stream[i].is_used && m->stream[i].value == value)
            return &m->stream[i];
    return NULL;
}

struct model_event *model_find_event(struct model *m, const void *value)
{
    for (int i = 0; i < MODEL_EVENTS; i++)
        if (m->event[i].is_used && m->event[i].value == value)
            return &m->event[i];
    return NULL;
}

struct model_pool *model_find_pool(struct model *m, const void *value)
{
    for (int i = 0; i < MODEL_POOLS; i++)
        if (m->pool[i].is_used && m->pool[i].value == value)
            return &m->pool[i];
    return NULL;
}

int model_default_stream(const struct model *m, const void *value)
{
    if (value == NULL)
        return -1;
    for (int i = 0; i < m->n_devices; i++)
        if (m->dev[i].n_sets > 0 && m->dev[i].default_stream == value)
            return i;
    for (int i = 0; i < MODEL_CONTEXTS; i++)
        if (m->ctx[i].is_used && m->ctx[i].default_stream == value)
            return m->ctx[i].device;
    return -1;
}

void **model_current_default(struct model *m)
{
    return m->own_ctx != NULL ? &m->own_ctx->default_stream
                              : &m->dev[m->current].default_stream;
}

const void *model_stream_key(struct model *m, const void *value)
{
    if (value == NULL)
        return model_current_default(m);
    for (int i = 0; i < m->n_devices; i++)
        if (m->dev[i].default_stream == value)
            return &m->dev[i].default_stream;
    for (int i = 0; i < MODEL_CONTEXTS; i++)
        if (m->ctx[i].is_used && m->ctx[i].default_stream == value)
            return &m->ctx[i].default_stream;
    return value;
}

struct verdict model_may_use_stream(struct model *m, const void *value)
{
    struct verdict v = {0};

    deny(&v, value == NULL && !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    deny(&v,
         value != NULL && model_find_stream(m, value) == NULL &&
             model_default_stream(m, value) < 0,
         ACL_ERROR_RT_INVALID_HANDLE);
    return v;
}

int model_stream_device(struct model *m, const void *value)
{
    struct model_stream *stream = model_find_stream(m, value);

    if (value == NULL)
        return m->current;
    return stream != NULL ? stream->device : model_default_stream(m, value);
}

struct verdict model_may_destroy_stream(struct model *m, const void *value)
{
    struct verdict v = {0};
    struct model_stream *stream = model_find_stream(m, value);
    bool is_default = model_default_stream(m, value) >= 0;
    bool is_here = stream != NULL && m->has_current && stream->device == m->current &&
                   stream->ctx == m->own_ctx;

    deny(&v, value == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, value == NULL || (stream == NULL && !is_default),
         ACL_ERROR_RT_INVALID_HANDLE);
    deny(&v, is_default, ACL_ERROR_RT_PARAM_INVALID);
    deny(&v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    deny(&v, m->has_current && stream != NULL && !is_here, ACL_ERROR_RT_STREAM_CONTEXT);
    doubt(&v, is_default, ACL_ERROR_RT_STREAM_CONTEXT);
    return v;
}

/* Streams that are never waited for say nothing by being synchronised. */
static bool is_waited_for(const struct model_stream *stream)
{
    return stream == NULL ||
           (stream->flags & (ACL_STREAM_PERSISTENT | ACL_STREAM_DEVICE_USE_ONLY |
                             ACL_STREAM_CPU_SCHEDULE)) == 0;
}

/* Its frees are done, if it was waited for. */
static void sync_pools(struct model *m, int device, const void *key)
{
    for (int i = 0; i < MODEL_POOLS; i++) {
        struct model_pool *pool = &m->pool[i];

        if (!pool->is_used || pool->device != device)
            continue;
        pool->is_touched = true;
        if (key != NULL && pool->pending[0] == key && pool->pending[1] == NULL)
            pool->pending[0] = NULL;
    }
}

void model_await(struct model *m, const struct model_event *event, const void *stream)
{
    if (!event->is_recorded || event->is_done ||
        event->stream == model_stream_key(m, stream))
        return;
    for (unsigned i = 0; i < m->n_awaited; i++)
        if (m->awaited[i].stream == event->stream)
            return;
    m->awaited[m->n_awaited++] =
        (struct model_awaited){event->stream, event->stream_device};
}

/* A stream of the device, or all of them (NULL), came by all its records. */
static void forget_awaited(struct model *m, int device, const void *key)
{
    unsigned n = 0;

    for (unsigned i = 0; i < m->n_awaited; i++)
        if (m->awaited[i].device != device ||
            (key != NULL && m->awaited[i].stream != key))
            m->awaited[n++] = m->awaited[i];
    m->n_awaited = n;
}

void model_synced(struct model *m, const void *stream)
{
    const void *key = model_stream_key(m, stream);
    int device = model_stream_device(m, stream);
    bool is_done = is_waited_for(model_find_stream(m, stream));

    sync_pools(m, device, is_done ? key : NULL);
    if (is_done)
        forget_awaited(m, device, key);
    for (int i = 0; is_done && i < MODEL_EVENTS; i++)
        if (m->event[i].is_used && m->event[i].is_recorded && m->event[i].stream == key)
            m->event[i].is_done = true;
}

void model_perhaps_synced(struct model *m)
{
    for (int i = 0; i < m->n_devices; i++)
        sync_pools(m, i, NULL);
}

bool model_has_records(const struct model *m, int device, const void *key)
{
    for (int i = 0; i < MODEL_EVENTS; i++) {
        const struct model_event *event = &m->event[i];

        if (event->is_used && event->is_recorded && !event->is_done &&
            event->stream_device == device && (key == NULL || event->stream == key))
            return true;
    }
    for (unsigned i = 0; i < m->n_awaited; i++)
        if (m->awaited[i].device == device &&
            (key == NULL || m->awaited[i].stream == key))
            return true;
    return false;
}

void model_synced_device(struct model *m, int device)
{
    for (int i = 0; i < MODEL_STREAMS; i++)
        if (m->stream[i].is_used && m->stream[i].device == device)
            model_synced(m, m->stream[i].value);
    sync_pools(m, device, NULL);
}

void model_end_stream(struct model *m, struct model_stream *stream)
{
    model_synced(m, stream->value);
    forget_awaited(m, stream->device, stream->value);
    stream->is_used = false;
}

/*
 * ctx NULL: those of the default context too, and of all others.  They do what they have
 * first, default streams too.
 */
void model_kill_streams(struct model *m, int device, const struct model_context *ctx)
{
    const void *key = ctx != NULL ? &ctx->default_stream : NULL;

    sync_pools(m, device, key);
    forget_awaited(m, device, key);
    for (int i = 0; i < MODEL_STREAMS; i++) {
        struct model_stream *stream = &m->stream[i];

        if (!stream->is_used || stream->device != device ||
            (ctx != NULL && stream->ctx != ctx))
            continue;
        model_end_stream(m, stream);
    }
    for (int i = 0; i < MODEL_EVENTS; i++)
        if (ctx != NULL && m->event[i].is_used &&
            m->event[i].stream == &ctx->default_stream)
            m->event[i].is_done = m->event[i].is_recorded;
}

struct verdict model_may_use_event(struct model *m, const void *value)
{
    struct verdict v = {0};

    deny(&v, value == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, model_find_event(m, value) == NULL, ACL_ERROR_RT_INVALID_HANDLE);
    return v;
}

struct verdict model_may_use_pool(struct model *m, const void *value)
{
    struct verdict v = {0};

    deny(&v, value == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, model_find_pool(m, value) == NULL, ACL_ERROR_RT_INVALID_HANDLE);
    return v;
}

/* Adds what another verdict says. */
static void join(struct verdict *v, const struct verdict *other)
{
    for (unsigned i = 0; i < other->n_hard; i++)
        deny(v, true, other->hard[i]);
    for (unsigned i = 0; i < other->n_soft; i++)
        doubt(v, true, other->soft[i]);
}

/*
 * Chunks that live blocks can keep busy; a block of a size may lie in one more than it
 * fills.
 */
static size_t busy_most(const struct model *m, const struct model_pool *pool)
{
    size_t sum = 0;

    for (int i = 0; i < MODEL_BLOCKS; i++)
        if (m->block[i].is_used && m->block[i].pool == pool)
            sum += model_round_up(m->block[i].size, MODEL_CHUNK) + MODEL_CHUNK;
    return sum;
}

size_t model_pool_most(const struct model *m, const struct model_pool *pool, size_t keep)
{
    size_t busy = busy_most(m, pool);
    size_t kept =
        keep > MODEL_ENDLESS ? MODEL_ENDLESS : model_round_up(keep, MODEL_CHUNK);

    if (pool->pending[0] != NULL)
        return MODEL_ENDLESS;
    return kept > busy ? kept : busy;
}

/*
 * Below the limit a block may still not be there: what is idle lies in pieces, or is not
 * idle yet.  Where not even the worst pieces could be in the way, it must be there.
 */
static void check_pool_room(struct model *m, struct verdict *v, struct model_pool *pool,
                            size_t size)
{
    size_t whole = model_round_up(size, 512);
    size_t max = model_round_up(pool->max, 512);
    size_t most = model_round_up(whole, MODEL_CHUNK) + MODEL_CHUNK + busy_most(m, pool);
    size_t least_left, most_left;

    deny(v, whole > max - pool->used, ACL_ERROR_RT_MEMORY_ALLOCATION);
    model_left(m, pool->device, &least_left, &most_left);
    doubt(v,
          m->is_shared || pool->pending[0] != NULL ||
              most > model_round_up(max, MODEL_CHUNK) || most > least_left,
          ACL_ERROR_RT_MEMORY_ALLOCATION);
}

struct verdict model_may_malloc_async(struct model *m, const void *out, size_t size,
                                      const void *value, const void *stream)
{
    struct verdict v = model_may_use_pool(m, value);
    struct verdict use = model_may_use_stream(m, stream);
    struct model_pool *pool = model_find_pool(m, value);

    join(&v, &use);
    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, size == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, size > MODEL_ENDLESS, ACL_ERROR_RT_MEMORY_ALLOCATION);
    if (pool == NULL)
        return v;
    deny(&v, !verdict_is_refusal(&use) && model_stream_device(m, stream) != pool->device,
         ACL_ERROR_RT_PARAM_INVALID);
    if (size <= MODEL_ENDLESS)
        check_pool_room(m, &v, pool, size);
    return v;
}

struct model_block *model_malloc_async(struct model *m, uintptr_t start, size_t size,
                                       struct model_pool *pool)
{
    struct model_block *block =
        model_add_block(m, MODEL_POOLED, start, size, model_round_up(size, 512));

    block->device = pool->device;
    block->pool = pool;
    pool->used += block->size;
    if (pool->used > pool->used_high)
        pool->used_high = pool->used;
    pool->is_touched = true;
    return block;
}

struct verdict model_may_free_async(struct model *m, uintptr_t addr, const void *stream)
{
    struct verdict v = {0}, use = model_may_use_stream(m, stream);
    struct model_block *block = model_find_block_at(m, addr, MODEL_POOLED);

    join(&v, &use);
    deny(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, block == NULL, ACL_ERROR_RT_PARAM_INVALID);
    deny(&v,
         block != NULL && !verdict_is_refusal(&use) &&
             model_stream_device(m, stream) != block->device,
         ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

void model_free_async(struct model *m, uintptr_t addr, const void *stream)
{
    struct model_block *block = model_find_block(m, addr);
    struct model_pool *pool = block->pool;
    const void *key = model_stream_key(m, stream);

    if (pool->pending[0] == NULL)
        pool->pending[0] = key;
    else if (pool->pending[0] != key)
        pool->pending[1] = key;
    pool->used -= block->size;
    pool->is_touched = true;
    model_drop_block(m, block);
}

bool model_reaches(const struct model *m, int from, int to)
{
    return from == to || to < 0 || m->dev[from].peers[to];
}

void model_empty_runtime(struct model *m, int device)
{
    for (int i = 0; i < MODEL_BLOCKS; i++)
        if (m->block[i].is_used && m->block[i].device == device)
            model_drop_block(m, &m->block[i]);
    for (int i = 0; i < MODEL_POOLS; i++)
        if (m->pool[i].device == device)
            m->pool[i].is_used = false;
    for (int i = 0; i < MODEL_EVENTS; i++)
        if (m->event[i].device == device)
            m->event[i].is_used = false;
    model_kill_streams(m, device, NULL);
    m->dev[device].default_stream = NULL;
    m->dev[device].is_learned = false;
    for (int i = 0; i < m->n_devices; i++)
        m->dev[device].peers[i] = false;
}
