/*
 * Operations that move bytes: copies and fills.
 *
 * Spans start at or near a site and are short, since those are the bytes the model knows;
 * one in twenty is made of whole chunks.  Addresses come from reservations of this run or
 * from its host buffer only: an address that the library does not know is the program's
 * own memory to it, and copying there would be the test's crash, not the library's.
 */
#include "run.h"

enum { MAX_CHUNKS = 4 }; /* of one copy; the host buffer has room for them */

static size_t arg_count(struct run *r)
{
    static const size_t wrong[] = {0, SIZE_MAX, SIZE_MAX / 2, (size_t)1 << 40};

    if (chance(r, 1))
        return pick_of(r, wrong);
    if (chance(r, 5))
        return (1 + pick(r, MAX_CHUNKS)) * MODEL_CHUNK;
    return 1 + pick(r, 3 * MODEL_SITE_SIZE);
}

uintptr_t arg_span(struct run *r, size_t count)
{
    struct model_map *map = arg_map(r);
    struct model_range *range = arg_range(r);
    size_t at;

    if (range != NULL && (map == NULL || chance(r, 3)))
        return range->start + pick(r, 16) % (range->size / MODEL_CHUNK) * MODEL_CHUNK;
    if (map == NULL)
        return 0;
    at = pick(r, (uint32_t)(map->size / MODEL_CHUNK)) * MODEL_CHUNK;
    if (count < MODEL_CHUNK || chance(r, 20))
        at += model_site_offset(pick(r, MODEL_SITES)) + pick(r, MODEL_SITE_SIZE);
    if (at + count > map->size && count <= map->size && !chance(r, 20))
        at = map->size - count;
    return map->start + at;
}

/* Bytes at one of the ends of a block. */
static uintptr_t block_span(struct run *r, const struct model_block *block, size_t count)
{
    size_t at = pick(r, MODEL_EDGE);

    if (count >= block->asked)
        return block->start;
    if (chance(r, 50) || at > block->asked - count)
        at = block->asked - count;
    return block->start + (chance(r, 3) ? at + 1 + pick(r, 200) : at);
}

static struct model_side arg_side(struct run *r, bool is_host, size_t count)
{
    struct model_block *block = arg_block(r, MODEL_ANY);
    size_t at;

    if (!is_host && block != NULL && chance(r, 45))
        return (struct model_side){block_span(r, block, count), NULL};
    if (!is_host)
        return (struct model_side){arg_span(r, count), NULL};
    at = pick(r, 4096);
    if (chance(r, 1))
        return (struct model_side){0, NULL};
    return (struct model_side){(uintptr_t)r->host + at, r->host + at};
}

static int arg_kind(struct run *r, bool is_from_host, bool is_to_host)
{
    static const int wrong[] = {-1, 8, 100};

    if (chance(r, 1))
        return pick_of(r, wrong);
    if (chance(r, r->opt.is_strict ? 3 : 60))
        return (int)pick(r, 8);
    return (is_from_host ? 0 : 2) + (is_to_host ? 0 : 1);
}

bool is_ours(struct run *r, uintptr_t addr, size_t count)
{
    struct model_range *range = model_find_range(&r->m, addr);

    return r->opt.is_alone || range == NULL ||
           count <= range->size - (addr - range->start);
}

/* What the library does not know is the program's own to it, and would be used as it is. */
static bool is_tracked(struct run *r, uintptr_t addr)
{
    return addr == 0 || model_find_range(&r->m, addr) != NULL ||
           model_find_block(&r->m, addr) != NULL;
}

/*
 * Whether the call is safe to make at all: a host side must have room for what would
 * move.
 */
static bool is_safe(struct run *r, const struct model_side *dst,
                    const struct model_side *src, size_t count, const struct verdict *v)
{
    bool has_host = dst->host != NULL || src->host != NULL;
    bool overlaps = dst->host != NULL && src->host != NULL &&
                    dst->addr + count > src->addr && src->addr + count > dst->addr;

    if ((dst->host == NULL && !is_tracked(r, dst->addr)) ||
        (src->host == NULL && !is_tracked(r, src->addr)))
        return false;
    return !overlaps && is_ours(r, dst->addr, count) && is_ours(r, src->addr, count) &&
           (!has_host || count <= MAX_CHUNKS * MODEL_CHUNK || verdict_is_refusal(v));
}

void op_copy(struct run *r)
{
    bool is_from_host = chance(r, 45), is_to_host = chance(r, is_from_host ? 5 : 60);
    size_t count = is_from_host && is_to_host ? 1 + pick(r, 64) : arg_count(r);
    struct model_side dst = arg_side(r, is_to_host, count);
    struct model_side src = arg_side(r, is_from_host, count);
    size_t dest_max =
        chance(r, 2) && count > 0 ? count - 1 : count + pick(r, 2) * (1 << 20);
    int kind = arg_kind(r, is_from_host, is_to_host);
    struct verdict v = model_may_copy(&r->m, &dst, dest_max, &src, count, kind);
    uintptr_t wrong;

    if (!is_safe(r, &dst, &src, count, &v))
        return;
    run_log(r, "aclrtMemcpy(%#zx%s, %zu, %#zx%s, %zu, %d)", dst.addr,
            is_to_host ? " host" : "", dest_max, src.addr, is_from_host ? " host" : "",
            count, kind);
    if (!settle(r,
                aclrtMemcpy((void *)dst.addr, dest_max, (void *)src.addr, count,
                            (aclrtMemcpyKind)kind),
                &v))
        return;
    if (dst.host != NULL && src.host != NULL)
        return;
    wrong = model_copy(&r->m, &dst, &src, count);
    expect(r, wrong == 0, "the byte at %#zx is 0x%02x, not 0x%02x", wrong,
           (unsigned)dst.host[wrong - src.addr], (unsigned)model_peek(&r->m, wrong));
}

void op_fill(struct run *r)
{
    size_t count = arg_count(r);
    uintptr_t addr = chance(r, 1) ? 0 : arg_side(r, false, count).addr;
    size_t max = chance(r, 2) && count > 0 ? count - 1 : count;
    int32_t value = (int32_t)pick(r, 256) - (chance(r, 5) ? 1000 : 0);
    struct verdict v = model_may_fill(&r->m, addr, max, count);

    if (!is_ours(r, addr, count) || !is_tracked(r, addr))
        return;
    run_log(r, "aclrtMemset(%#zx, %zu, %d, %zu)", addr, max, value, count);
    if (settle(r, aclrtMemset((void *)addr, max, value, count), &v))
        model_fill(&r->m, addr, value, count);
}

/* As the program would: queue it, go on, and wait before the bytes are used. */
static void wait_for(struct run *r, void *stream)
{
    run_log(r, "aclrtSynchronizeStream(%p)", stream);
    settle_ok(r, aclrtSynchronizeStream(stream));
    model_synced(&r->m, stream);
}

/* Work of these is done some time, and nobody can wait for it. */
static bool can_wait_for(struct run *r, void *stream)
{
    struct model_stream *found = model_find_stream(&r->m, stream);

    return found == NULL || (found->flags & ~3u) == 0;
}

void op_copy_async(struct run *r)
{
    bool is_from_host = chance(r, 45), is_to_host = chance(r, is_from_host ? 5 : 60);
    size_t count = is_from_host && is_to_host ? 1 + pick(r, 64) : arg_count(r);
    struct model_side dst = arg_side(r, is_to_host, count);
    struct model_side src = arg_side(r, is_from_host, count);
    size_t dest_max = chance(r, 2) && count > 0 ? count - 1 : count;
    int kind = arg_kind(r, is_from_host, is_to_host);
    void *stream = arg_stream(r);
    struct verdict v;
    uintptr_t wrong;

    if (r->opt.is_strict && chance(r, 80)) {
        dst.addr &= ~(uintptr_t)63;
        src.addr &= ~(uintptr_t)63;
        dst.host = is_to_host ? (uint8_t *)dst.addr : NULL;
        src.host = is_from_host ? (uint8_t *)src.addr : NULL;
    }
    v = model_may_copy_async(&r->m, &dst, dest_max, &src, count, kind, stream);
    if (!is_safe(r, &dst, &src, count, &v) || !can_wait_for(r, stream))
        return;
    run_log(r, "aclrtMemcpyAsync(%#zx%s, %zu, %#zx%s, %zu, %d, %p)", dst.addr,
            is_to_host ? " host" : "", dest_max, src.addr, is_from_host ? " host" : "",
            count, kind, stream);
    if (!settle(r,
                aclrtMemcpyAsync((void *)dst.addr, dest_max, (void *)src.addr, count,
                                 (aclrtMemcpyKind)kind, stream),
                &v))
        return;
    wait_for(r, stream);
    wrong = model_copy(&r->m, &dst, &src, count);
    expect(r, wrong == 0, "the byte at %#zx is 0x%02x, not 0x%02x", wrong,
           (unsigned)dst.host[wrong - src.addr], (unsigned)model_peek(&r->m, wrong));
}

void op_fill_async(struct run *r)
{
    size_t count = arg_count(r);
    uintptr_t addr = chance(r, 1) ? 0 : arg_side(r, false, count).addr;
    size_t max = chance(r, 2) && count > 0 ? count - 1 : count;
    int32_t value = (int32_t)pick(r, 256);
    void *stream = arg_stream(r);
    struct verdict v = model_may_fill_async(&r->m, addr, max, count, stream);

    if (!is_ours(r, addr, count) || !is_tracked(r, addr) || !can_wait_for(r, stream))
        return;
    run_log(r, "aclrtMemsetAsync(%#zx, %zu, %d, %zu, %p)", addr, max, value, count,
            stream);
    if (!settle(r, aclrtMemsetAsync((void *)addr, max, value, count, stream), &v))
        return;
    wait_for(r, stream);
    model_fill(&r->m, addr, value, count);
}
