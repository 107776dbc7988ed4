/* Operations on stream-ordered pools. */
#include "run.h"

#define CANARY ((void *)0x5aa5c33c)

static void *arg_pool(struct run *r)
{
    struct model_pool *pool = &r->m.pool[pick(r, MODEL_POOLS)];

    if (pool->is_used && !chance(r, 3))
        return pool->value;
    if (chance(r, 20))
        return NULL;
    return r->n_stale > 0 ? r->stale[pick(r, RUN_STALE)] : (void *)1;
}

static aclrtMemPoolProps arg_props(struct run *r)
{
    aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .handleType = ACL_MEM_HANDLE_TYPE_NONE,
                               .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                               .maxSize = (1 + pick(r, 16)) * MODEL_MIB + pick(r, 700)};

    props.location.id = (uint32_t)arg_device(r);
    if (!chance(r, 8))
        return props;
    switch (pick(r, 5)) {
    case 0:
        props.allocType = (aclrtMemAllocationType)1;
        break;
    case 1:
        props.handleType = (aclrtMemHandleType)(1 + pick(r, 2));
        break;
    case 2:
        props.location.type = ACL_MEM_LOCATION_TYPE_HOST;
        break;
    case 3:
        props.maxSize = 0;
        break;
    default:
        props.reserved[pick(r, sizeof(props.reserved))] = 1;
    }
    return props;
}

static struct verdict may_create(const struct run *r, const aclrtMemPoolProps *props,
                                 const void *out)
{
    struct verdict v = {0};

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v,
         props->allocType != ACL_MEM_ALLOCATION_TYPE_PINNED ||
             props->handleType != ACL_MEM_HANDLE_TYPE_NONE || props->maxSize == 0 ||
             props->location.type != ACL_MEM_LOCATION_TYPE_DEVICE,
         ACL_ERROR_INVALID_PARAM);
    for (size_t i = 0; i < sizeof(props->reserved); i++)
        deny(&v, props->reserved[i] != 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, !model_is_device_id(&r->m, (int32_t)props->location.id),
         ACL_ERROR_RT_INVALID_DEVICEID);
    return v;
}

void op_create_pool(struct run *r)
{
    aclrtMemPoolProps props = arg_props(r);
    void *got = CANARY, **out = chance(r, 2) ? NULL : &got;
    struct verdict v = may_create(r, &props, out);
    struct model_pool *slot = r->m.pool;

    for (int i = 0; slot->is_used; i++, slot++)
        if (i == MODEL_POOLS - 1)
            return;
    run_log(r, "aclrtMemPoolCreate(%s, {device %u, %zu})", out ? "&p" : "NULL",
            props.location.id, props.maxSize);
    if (!settle(r, aclrtMemPoolCreate(out, &props), &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    run_log(r, "    p = %p", got);
    expect(r, got != NULL && model_find_pool(&r->m, got) == NULL && !is_stale(r, got),
           "the new pool is %p", got);
    *slot = (struct model_pool){.is_used = true,
                                .value = got,
                                .device = (int)props.location.id,
                                .max = props.maxSize,
                                .switches = {true, true, true}};
}

static bool has_blocks(const struct run *r, const struct model_pool *pool)
{
    for (int i = 0; i < MODEL_BLOCKS; i++)
        if (r->m.block[i].is_used && r->m.block[i].pool == pool)
            return true;
    return false;
}

/* With frees that are not done, the device gets its memory back when they are. */
void op_destroy_pool(struct run *r)
{
    void *value = arg_pool(r);
    struct model_pool *pool = model_find_pool(&r->m, value);
    struct verdict v = model_may_use_pool(&r->m, value);

    if (pool != NULL && pool->pending[0] != NULL)
        return;
    deny(&v, pool != NULL && has_blocks(r, pool), ACL_ERROR_RT_PARAM_INVALID);
    run_log(r, "aclrtMemPoolDestroy(%p)", value);
    if (!settle(r, aclrtMemPoolDestroy(value), &v))
        return;
    remember_stale(r, value);
    pool->is_used = false;
}

void op_malloc_async(struct run *r)
{
    void *value = arg_pool(r), *stream = arg_stream(r);
    struct model_pool *pool = model_find_pool(&r->m, value);
    size_t size = chance(r, 80) ? 1 + pick(r, 100000) : 1 + pick(r, 6) * MODEL_MIB;
    void *got = CANARY, **out = chance(r, 1) ? NULL : &got;
    struct verdict v;

    if (chance(r, 2))
        size = chance(r, 50) ? 0 : SIZE_MAX - pick(r, 600);
    if (model_count_blocks(&r->m, MODEL_ANY) >= MODEL_BLOCKS - 1)
        return;
    v = model_may_malloc_async(&r->m, out, size, value, stream);
    run_log(r, "aclrtMemPoolMallocAsync(%s, %zu, %p, %p)", out ? "&p" : "NULL", size,
            value, stream);
    if (pool != NULL)
        pool->is_touched = true;
    if (!settle(r, aclrtMemPoolMallocAsync(out, size, value, stream), &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    check_new_block(r, got, size, 512);
    model_malloc_async(&r->m, (uintptr_t)got, size, pool);
}

void op_free_async(struct run *r)
{
    uintptr_t addr = arg_block_start(r, MODEL_POOLED);
    void *stream = arg_stream(r);
    struct verdict v = model_may_free_async(&r->m, addr, stream);

    run_log(r, "aclrtMemPoolFreeAsync(%#zx, %p)", addr, stream);
    if (!settle(r, aclrtMemPoolFreeAsync((void *)addr, stream), &v))
        return;
    model_free_async(&r->m, addr, stream);
    remember_leaving(r, addr);
}

void op_trim_pool(struct run *r)
{
    void *value = arg_pool(r);
    struct model_pool *pool = model_find_pool(&r->m, value);
    struct verdict v = model_may_use_pool(&r->m, value);
    size_t keep = chance(r, 50) ? 0 : pick(r, 12) * MODEL_MIB;
    size_t left = 0;

    run_log(r, "aclrtMemPoolTrimTo(%p, %zu)", value, keep);
    if (!settle(r, aclrtMemPoolTrimTo(value, keep), &v))
        return;
    pool->is_touched = true;
    run_log(r, "aclrtMemPoolGetAttr(%p, RESERVED_MEM_CURRENT)", value);
    settle_ok(
        r, aclrtMemPoolGetAttr(value, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT, &left));
    expect(r, left <= model_pool_most(&r->m, pool, keep), "%zu left, at most %zu may be",
           left, model_pool_most(&r->m, pool, keep));
}

static void set_attr(struct model_pool *pool, int attr, uint64_t value, bool is_alone)
{
    if (attr <= 3)
        pool->switches[attr - 1] = value != 0;
    if (attr == ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD)
        pool->threshold = value;
    if (attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH)
        pool->used_high = pool->used;
    /* With company, less may have been reserved by then than there was. */
    if (attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH)
        pool->reserved_high = is_alone ? pool->reserved : pool->used;
}

void op_set_pool_attr(struct run *r)
{
    void *value = arg_pool(r);
    struct model_pool *pool = model_find_pool(&r->m, value);
    struct verdict v = model_may_use_pool(&r->m, value);
    int attr = chance(r, 5) ? (int)pick(r, 12) - 1 : 1 + (int)pick(r, 8);
    uint64_t number = chance(r, 70) ? pick(r, 2) : pick(r, 9) * MODEL_MIB;
    bool is_switch = attr >= 1 && attr <= 3;
    bool is_high = attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH ||
                   attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH;
    bool is_fixed = attr == ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT ||
                    attr == ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT;

    deny(&v, attr < 1 || attr > 8 || is_fixed, ACL_ERROR_INVALID_PARAM);
    deny(&v, (is_switch && number > 1) || (is_high && number != 0),
         ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtMemPoolSetAttr(%p, %d, %zu)", value, attr, (size_t)number);
    if (settle(r, aclrtMemPoolSetAttr(value, (aclrtMemPoolAttr)attr, &number), &v))
        set_attr(pool, attr, number, r->opt.is_alone);
}

static uint64_t ask(struct run *r, const struct model_pool *pool, int attr)
{
    uint64_t got = 0;

    expect(r,
           aclrtMemPoolGetAttr(pool->value, (aclrtMemPoolAttr)attr, &got) == ACL_SUCCESS,
           "aclrtMemPoolGetAttr(%p, %d) failed", pool->value, attr);
    return got;
}

static void check_pool(struct run *r, struct model_pool *pool)
{
    size_t reserved = ask(r, pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT);
    size_t high = ask(r, pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_HIGH);
    size_t used = ask(r, pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_CURRENT);
    size_t used_high = ask(r, pool, ACL_RT_MEM_POOL_ATTR_USED_MEM_HIGH);

    expect(r, used == pool->used, "the pool says %zu used, not %zu", used, pool->used);
    expect(r, used_high == pool->used_high, "the most used is %zu, not %zu", used_high,
           pool->used_high);
    /* Company synchronises when it likes, and that is for all pools. */
    expect(r, pool->is_touched || reserved == pool->reserved || !r->opt.is_alone,
           "the pool had %zu and has %zu, and nobody did anything", pool->reserved,
           reserved);
    expect(r,
           reserved % MODEL_CHUNK == 0 && reserved >= used &&
               reserved <= model_round_up(pool->max, MODEL_CHUNK),
           "the pool has %zu, of which %zu are used and %zu allowed", reserved, used,
           pool->max);
    expect(r, high >= reserved && high >= pool->reserved_high,
           "the most reserved is %zu, and it was %zu", high, pool->reserved_high);
    pool->reserved = reserved;
    pool->reserved_high = high;
    pool->is_touched = false;
}

void op_get_pool_attr(struct run *r)
{
    void *value = arg_pool(r);
    struct model_pool *pool = model_find_pool(&r->m, value);
    struct verdict v = model_may_use_pool(&r->m, value);
    int attr = chance(r, 10) ? (int)pick(r, 12) - 1 : 1 + (int)pick(r, 4);
    uint64_t got = 0;

    deny(&v, attr < 1 || attr > 8, ACL_ERROR_INVALID_PARAM);
    run_log(r, "aclrtMemPoolGetAttr(%p, %d)", value, attr);
    if (!settle(r, aclrtMemPoolGetAttr(value, (aclrtMemPoolAttr)attr, &got), &v))
        return;
    if (attr <= 3)
        expect(r, got == pool->switches[attr - 1], "switch %d is %d", attr, (int)got);
    if (attr == ACL_RT_MEM_POOL_ATTR_RELEASE_THRESHOLD)
        expect(r, got == pool->threshold, "the threshold is %zu", (size_t)got);
}

void check_pools(struct run *r)
{
    for (int i = 0; i < MODEL_POOLS; i++)
        if (r->m.pool[i].is_used)
            check_pool(r, &r->m.pool[i]);
}

/* Idle memory above the threshold goes when a stream is synchronised. */
void check_released(struct run *r, int device)
{
    for (int i = 0; i < MODEL_POOLS; i++) {
        const struct model_pool *pool = &r->m.pool[i];
        size_t most, left;

        if (!pool->is_used || pool->device != device)
            continue;
        most = model_pool_most(&r->m, pool, pool->threshold);
        left = ask(r, pool, ACL_RT_MEM_POOL_ATTR_RESERVED_MEM_CURRENT);
        expect(r, left <= most, "the pool kept %zu, and may keep %zu", left, most);
    }
}
