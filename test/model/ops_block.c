/*
 * Operations on blocks: device memory, pinned memory, managed memory.
 *
 * Sizes are mostly small, since those share chunks, and now and then large enough for
 * chunks of their own; the sizes of classes and their neighbours come up often.
 */
#include "run.h"

#include <stdio.h>

#define CANARY ((void *)0x5aa5c33c)

struct model_block *arg_block(struct run *r, int kinds)
{
    uint32_t first = pick(r, MODEL_BLOCKS);

    for (uint32_t i = 0; i < MODEL_BLOCKS; i++) {
        struct model_block *block = &r->m.block[(first + i) % MODEL_BLOCKS];

        if (block->is_used && ((int)block->kind & kinds))
            return block;
    }
    return NULL;
}

/*
 * Near a block's start, which is no start.  Where a small block ends the next one starts,
 * with company perhaps another thread's.
 */
static uintptr_t beside_start(struct run *r, const struct model_block *block)
{
    uintptr_t addr = block->start + 1 + pick(r, 64);

    return r->opt.is_alone || addr - block->start < block->size ? addr : block->start + 1;
}

/* With company, an address that died may be somebody else's by now. */
uintptr_t arg_block_start(struct run *r, int kinds)
{
    struct model_block *block = arg_block(r, chance(r, 95) ? kinds : MODEL_ANY);

    if (chance(r, 4))
        return arg_address(r);
    if (r->opt.is_alone && r->n_gone > 0 && chance(r, 4))
        return r->gone[pick(r, RUN_GONE)];
    if (block == NULL)
        return 0;
    if (chance(r, 4))
        return beside_start(r, block);
    return block->start;
}

static size_t block_size(struct run *r)
{
    static const size_t wrong[] = {0, SIZE_MAX, SIZE_MAX - 63, (size_t)1 << 62};
    static const size_t edges[] = {64,       1024,          4096,      32 << 10,
                                   64 << 10, MODEL_MIB / 2, MODEL_MIB, 2 * MODEL_MIB};

    if (chance(r, 2))
        return pick_of(r, wrong);
    if (chance(r, 15))
        return pick_of(r, edges) + pick(r, 130) - 65;
    if (chance(r, 10))
        return (1 + pick(r, 6)) * MODEL_MIB + pick(r, 5000);
    return 1 + pick(r, chance(r, 50) ? 600 : 40000);
}

static unsigned arg_policy(struct run *r, enum model_malloc how)
{
    unsigned policy = chance(r, 60) ? ACL_MEM_MALLOC_HUGE_FIRST : pick(r, 6);

    if (chance(r, 2))
        policy = 6 + pick(r, 2);
    if (chance(r, 3))
        policy = 8 + pick(r, 1000);
    if (how == MALLOC_CFG && chance(r, 40))
        policy |= chance(r, 50) ? ACL_MEM_TYPE_LOW_BAND_WIDTH
                                : ACL_MEM_ACCESS_USER_SPACE_READONLY;
    if (how == MALLOC_CFG && chance(r, 5))
        policy |= ACL_MEM_TYPE_HIGH_BAND_WIDTH;
    return policy;
}

static aclError malloc_by(enum model_malloc how, void **out, size_t size,
                          aclrtMemMallocPolicy policy)
{
    switch (how) {
    case MALLOC_PLAIN:
        return aclrtMalloc(out, size, policy);
    case MALLOC_ALIGN32:
        return aclrtMallocAlign32(out, size, policy);
    case MALLOC_CACHED:
        return aclrtMallocCached(out, size, policy);
    default:
        return size % 2 ? aclrtMallocWithCfg(out, size, policy, NULL)
                        : aclrtMallocForTaskScheduler(out, size, policy, NULL);
    }
}

/* What is new lies in nothing that is alive. */
void check_new_block(struct run *r, const void *got, size_t size, size_t alignment)
{
    uintptr_t start = (uintptr_t)got;

    run_log(r, "    p = %p", got);
    expect(r, got != NULL && start % alignment == 0, "%p is not aligned to %zu", got,
           alignment);
    expect(r, model_is_blockless(&r->m, start, size), "%p is in a block already", got);
    expect(r, model_is_range_free(&r->m, start, size), "%p is reserved", got);
}

static bool is_full(const struct run *r)
{
    return model_count_blocks(&r->m, MODEL_ANY) >= MODEL_BLOCKS - 1;
}

void op_block_malloc(struct run *r)
{
    enum model_malloc how = chance(r, 70) ? MALLOC_PLAIN : (enum model_malloc)pick(r, 4);
    size_t size = block_size(r);
    unsigned policy = arg_policy(r, how);
    void *got = CANARY, **out = chance(r, 1) ? NULL : &got;
    struct verdict v = model_may_malloc_block(&r->m, out, size, policy, how);

    if (is_full(r))
        return;
    run_log(r, "aclrtMalloc[%d](%s, %zu, %#x)", how, out ? "&p" : "NULL", size, policy);
    if (!settle(r, malloc_by(how, out, size, (aclrtMemMallocPolicy)policy), &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    check_new_block(r, got, size, 64);
    model_malloc_block(&r->m, (uintptr_t)got, size, policy, how);
}

void op_block_free(struct run *r)
{
    const int kinds = MODEL_DEVICE | MODEL_MANAGED;
    uintptr_t addr = arg_block_start(r, kinds);
    bool is_synced = chance(r, 15);
    struct verdict v = model_may_free_block(&r->m, addr, kinds);
    struct model_block *block = model_find_block_at(&r->m, addr, kinds);

    run_log(r, "aclrtFree%s(%#zx)", is_synced ? "WithDevSync" : "", addr);
    if (!settle(r,
                is_synced ? aclrtFreeWithDevSync((void *)addr) : aclrtFree((void *)addr),
                &v)) {
        if (is_synced)
            model_perhaps_synced(&r->m);
        return;
    }
    if (is_synced && (block->device >= 0 || r->m.has_current))
        model_synced_device(&r->m, block->device >= 0 ? block->device : r->m.current);
    model_free_block(&r->m, addr);
    remember_gone(r, addr);
}

void op_host_malloc(struct run *r)
{
    size_t size = block_size(r);
    bool has_cfg = chance(r, 20);
    void *got = CANARY, **out = chance(r, 1) ? NULL : &got;
    struct verdict v = model_may_malloc_host(&r->m, out, size);
    aclError rc;

    if (is_full(r))
        return;
    run_log(r, "aclrtMallocHost%s(%s, %zu)", has_cfg ? "WithCfg" : "",
            out ? "&p" : "NULL", size);
    rc = has_cfg ? aclrtMallocHostWithCfg(out, size, NULL) : aclrtMallocHost(out, size);
    if (!settle(r, rc, &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    check_new_block(r, got, size, 64);
    model_add_block(&r->m, MODEL_PINNED, (uintptr_t)got, size, model_round_up(size, 64));
}

void op_host_free(struct run *r)
{
    uintptr_t addr = arg_block_start(r, MODEL_PINNED);
    bool is_synced = chance(r, 15);
    struct verdict v = model_may_free_block(&r->m, addr, MODEL_PINNED);

    deny(&v, is_synced && !r->m.has_current, ACL_ERROR_RT_CONTEXT_NULL);
    if (addr == 0 && !is_synced && !r->m.is_strict)
        v = (struct verdict){0};
    run_log(r, "aclrtFreeHost%s(%#zx)", is_synced ? "WithDevSync" : "", addr);
    if (!settle(r,
                is_synced ? aclrtFreeHostWithDevSync((void *)addr)
                          : aclrtFreeHost((void *)addr),
                &v)) {
        if (is_synced)
            model_perhaps_synced(&r->m);
        return;
    }
    if (addr == 0)
        return;
    if (is_synced)
        model_synced_device(&r->m, r->m.current);
    model_free_block(&r->m, addr);
    remember_gone(r, addr);
}

void op_managed_malloc(struct run *r)
{
    size_t size = chance(r, 5) ? block_size(r)
                               : (1 + pick(r, MODEL_PAGES)) * MODEL_CHUNK - pick(r, 3);
    uint32_t flag = chance(r, 3) ? pick(r, 4) : ACL_RT_MEM_ATTACH_GLOBAL;
    void *got = CANARY, **out = chance(r, 1) ? NULL : &got;
    struct verdict v = model_may_malloc_managed(&r->m, out, size, flag);
    size_t whole;

    if (is_full(r) || (size > MODEL_PAGES * MODEL_CHUNK && !verdict_is_refusal(&v)))
        return;
    run_log(r, "aclrtMemAllocManaged(%s, %zu, %u)", out ? "&p" : "NULL", size, flag);
    if (!settle(r, aclrtMemAllocManaged(out, size, flag), &v)) {
        expect(r, got == CANARY, "the output was written: %p", got);
        return;
    }
    whole = model_round_up(size, MODEL_CHUNK);
    check_new_block(r, got, whole, MODEL_CHUNK);
    model_add_block(&r->m, MODEL_MANAGED, (uintptr_t)got, r->m.is_strict ? size : whole,
                    whole);
}

/* The program's own loads and stores, in memory that is the host's. */
void op_host_touch(struct run *r)
{
    struct model_block *block = arg_block(r, MODEL_PINNED | MODEL_MANAGED);
    size_t at, n = 1 + pick(r, 32);

    if (block == NULL)
        return;
    at = chance(r, 50) ? pick(r, MODEL_EDGE) : block->asked - 1 - pick(r, MODEL_EDGE);
    run_log(r, "touch %zu bytes at %#zx + %zu", n, block->start, at);
    for (; n > 0 && at < block->asked; n--, at++) {
        volatile uint8_t *byte = (volatile uint8_t *)block->start + at;
        int16_t *want = model_block_byte(block, at);

        if (want == NULL)
            continue;
        expect(r, *want == MODEL_UNKNOWN || *want == *byte,
               "the program sees 0x%02x where 0x%02x should be", *byte, (unsigned)*want);
        *byte = (uint8_t)(r->step + at);
        *want = (uint8_t)(r->step + at);
    }
}

void op_mem_flush(struct run *r)
{
    uintptr_t addr = arg_block_start(r, MODEL_DEVICE | MODEL_POOLED);
    struct model_block *block = model_find_block(&r->m, addr);
    struct model_map *map = model_find_map(&r->m, addr);
    size_t size = chance(r, 5) ? 0 : 1 + pick(r, 400);
    struct model_map *last = model_find_map(&r->m, addr + size - 1);
    bool is_flush = chance(r, 50), is_mixed;
    struct verdict v = {0}, span = {0};

    if (!is_ours(r, addr, size))
        return;
    model_check_span(&r->m, &span, addr, size, MODEL_READ);
    deny(&v, addr == 0 || size == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, !r->m.has_current, ACL_ERROR_RT_CONTEXT_NULL);
    is_mixed = map != NULL && model_is_on_host(map->phys) && last != NULL &&
               !model_is_on_host(last->phys);
    deny(&v,
         (block == NULL || block->device < 0) &&
             (map == NULL || model_is_on_host(map->phys)) && !is_mixed,
         ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, is_mixed, ACL_ERROR_RT_PARAM_INVALID); /* device memory comes behind it */
    doubt(&v, span.n_soft + span.n_hard > 0, ACL_ERROR_RT_PARAM_INVALID);
    deny(&v, block != NULL && size > block->size - (addr - block->start),
         ACL_ERROR_RT_PARAM_INVALID);
    run_log(r, "aclrtMem%s(%#zx, %zu)", is_flush ? "Flush" : "Invalidate", addr, size);
    settle(r,
           is_flush ? aclrtMemFlush((void *)addr, size)
                    : aclrtMemInvalidate((void *)addr, size),
           &v);
}
