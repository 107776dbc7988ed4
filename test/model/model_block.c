/*
 * The model's blocks: device memory, pinned host memory, managed memory; and what a
 * device has left.
 *
 * A block is the program's from its start for as many bytes as were asked for.  The
 * documents add up to 64 more (rounding to 32, and 32), of which the model says nothing
 * under the default rules; behind those nothing is the block's.
 */
#include "model.h"

#include <string.h>

enum { PAD = 32 };

struct model_block *model_find_block(struct model *m, uintptr_t addr)
{
    for (int i = 0; i < MODEL_BLOCKS; i++)
        if (m->block[i].is_used && addr >= m->block[i].start &&
            addr - m->block[i].start < m->block[i].size)
            return &m->block[i];
    return NULL;
}

struct model_block *model_find_block_at(struct model *m, uintptr_t addr, int kinds)
{
    struct model_block *block = model_find_block(m, addr);

    return block != NULL && block->start == addr && ((int)block->kind & kinds) ? block
                                                                               : NULL;
}

bool model_is_blockless(const struct model *m, uintptr_t start, size_t size)
{
    for (int i = 0; i < MODEL_BLOCKS; i++)
        if (m->block[i].is_used && start < m->block[i].start + m->block[i].size &&
            m->block[i].start < start + size)
            return false;
    return true;
}

unsigned model_count_blocks(const struct model *m, int kinds)
{
    unsigned n = 0;

    for (int i = 0; i < MODEL_BLOCKS; i++)
        n += m->block[i].is_used && ((int)m->block[i].kind & kinds);
    return n;
}

int16_t *model_block_byte(struct model_block *block, size_t offset)
{
    if (offset >= block->asked)
        return NULL;
    if (offset < MODEL_EDGE)
        return &block->head[offset];
    if (offset >= block->asked - MODEL_EDGE)
        return &block->tail[offset - (block->asked - MODEL_EDGE)];
    return NULL;
}

struct model_block *model_add_block(struct model *m, enum model_kind kind,
                                    uintptr_t start, size_t asked, size_t size)
{
    struct model_block *block = m->block;

    while (block->is_used)
        block++;
    *block = (struct model_block){.is_used = true,
                                  .kind = kind,
                                  .start = start,
                                  .asked = asked,
                                  .size = size,
                                  .device = -1};
    for (int i = 0; i < MODEL_EDGE; i++)
        block->head[i] = block->tail[i] = MODEL_UNKNOWN;
    return block;
}

void model_drop_block(struct model *m, struct model_block *block)
{
    if (block->kind == MODEL_DEVICE)
        m->dev[block->device].is_learned = false;
    block->is_used = false;
}

static size_t sum_blocks(const struct model *m, int device, bool is_most)
{
    size_t sum = 0;

    for (int i = 0; i < MODEL_BLOCKS; i++) {
        const struct model_block *block = &m->block[i];

        if (block->is_used && block->kind == MODEL_DEVICE && block->device == device)
            sum += is_most ? block->charge : block->asked;
    }
    return sum;
}

void model_left(const struct model *m, int device, size_t *ret_least, size_t *ret_most)
{
    const struct model_device *dev = &m->dev[device];
    size_t left = dev->total - dev->used;
    size_t least = dev->is_learned ? dev->charge : sum_blocks(m, device, true);
    size_t most = dev->is_learned ? dev->charge : sum_blocks(m, device, false);

    /* With company, idle memory of a pool may go at any time: others synchronise, too. */
    for (int i = 0; i < MODEL_POOLS; i++)
        if (m->pool[i].is_used && m->pool[i].device == device)
            left -= m->is_shared ? m->pool[i].used : m->pool[i].reserved;
    *ret_most = left > most ? left - most : 0;
    *ret_least = left > least ? left - least : 0;
}

static bool is_1g(unsigned policy)
{
    return policy == ACL_MEM_MALLOC_HUGE1G_ONLY ||
           policy == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P;
}

/* Of a policy with further bits, the base. */
static unsigned base_of(unsigned policy, enum model_malloc how)
{
    const unsigned more = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH |
                          ACL_MEM_ACCESS_USER_SPACE_READONLY;

    return how == MALLOC_CFG ? policy & ~more : policy;
}

static void check_policy(const struct model *m, struct verdict *v, unsigned policy,
                         enum model_malloc how)
{
    const unsigned widths = ACL_MEM_TYPE_LOW_BAND_WIDTH | ACL_MEM_TYPE_HIGH_BAND_WIDTH;
    unsigned base = base_of(policy, how);
    bool is_cached = base <= ACL_MEM_MALLOC_NORMAL_ONLY || base == 6;

    deny(v, how == MALLOC_CACHED && !is_cached, ACL_ERROR_INVALID_PARAM);
    deny(v, how == MALLOC_CFG && (base > 7 || (policy & widths) == widths),
         ACL_ERROR_INVALID_PARAM);
    deny_strict(m, v, is_1g(base), ACL_ERROR_INVALID_PARAM);
    doubt(v, base == ACL_MEM_MALLOC_HUGE1G_ONLY_P2P, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

static size_t padded(size_t size, unsigned base, enum model_malloc how)
{
    if (is_1g(base))
        return model_round_up(size, 32);
    return model_round_up(size, 32) + (how == MALLOC_ALIGN32 ? 0 : PAD);
}

static size_t most_charged(size_t size, unsigned base)
{
    return model_round_up(size, is_1g(base) ? MODEL_GIB : MODEL_CHUNK);
}

/*
 * A small block may find room in a chunk that others pay for: of what blocks cost, more
 * than they have is such room.
 */
static void check_room(const struct model *m, struct verdict *v, size_t need,
                       size_t charge)
{
    size_t least, most, idle;

    model_left(m, m->current, &least, &most);
    idle = m->dev[m->current].is_learned
               ? m->dev[m->current].charge - sum_blocks(m, m->current, false)
               : sum_blocks(m, m->current, true);
    deny(v, need > most + idle, ACL_ERROR_RT_MEMORY_ALLOCATION);
    doubt(v, charge > least || m->is_shared, ACL_ERROR_RT_MEMORY_ALLOCATION);
}

struct verdict model_may_malloc_block(const struct model *m, const void *out, size_t size,
                                      unsigned policy, enum model_malloc how)
{
    struct verdict v = {0};
    unsigned base = base_of(policy, how);

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, size == 0, ACL_ERROR_INVALID_PARAM);
    check_policy(m, &v, policy, how);
    deny(&v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    if (size > MODEL_ENDLESS)
        deny(&v, true, ACL_ERROR_RT_MEMORY_ALLOCATION);
    else if (m->has_current && size > 0)
        check_room(m, &v, padded(size, base, how),
                   most_charged(padded(size, base, how), base));
    return v;
}

static uint32_t page_of(size_t size, unsigned base)
{
    if (is_1g(base))
        return MODEL_GIB;
    if (base > 7)
        return size >= MODEL_CHUNK ? MODEL_CHUNK : 4096;
    switch (base % 3) {
    case ACL_MEM_MALLOC_HUGE_FIRST:
        return size > MODEL_MIB ? MODEL_CHUNK : 4096;
    case ACL_MEM_MALLOC_HUGE_ONLY:
        return MODEL_CHUNK;
    default:
        return 4096;
    }
}

struct model_block *model_malloc_block(struct model *m, uintptr_t start, size_t size,
                                       unsigned policy, enum model_malloc how)
{
    unsigned base = base_of(policy, how);
    size_t whole = padded(size, base, how);
    struct model_block *block = model_add_block(m, MODEL_DEVICE, start, size, whole);

    block->device = m->current;
    block->page = page_of(size, base);
    block->charge = most_charged(whole, base);
    m->dev[m->current].is_learned = false;
    return block;
}

struct verdict model_may_free_block(struct model *m, uintptr_t addr, int kinds)
{
    struct verdict v = {0};

    deny(&v, model_find_block_at(m, addr, kinds) == NULL, ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

/* What was registered of it no longer is. */
void model_free_block(struct model *m, uintptr_t addr)
{
    struct model_block *block = model_find_block(m, addr);

    for (int i = 0; i < MODEL_REGISTERED; i++)
        if (m->registered[i].is_used && m->registered[i].start >= block->start &&
            m->registered[i].start < block->start + block->size)
            m->registered[i].is_used = false;
    model_drop_block(m, block);
}

struct verdict model_may_malloc_host(const struct model *m, const void *out, size_t size)
{
    struct verdict v = {0};

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, size == 0, ACL_ERROR_INVALID_PARAM);
    deny_strict(m, &v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    deny(&v, size > MODEL_ENDLESS, ACL_ERROR_RT_MEMORY_ALLOCATION);
    doubt(&v, size > 64 * MODEL_MIB, ACL_ERROR_RT_MEMORY_ALLOCATION);
    doubt(&v, m->is_strict, ACL_ERROR_RT_RESOURCE_ALLOC_FAIL); /* the lock limit */
    return v;
}

struct verdict model_may_malloc_managed(const struct model *m, const void *out,
                                        size_t size, uint32_t flag)
{
    struct verdict v = {0};

    deny(&v, out == NULL, ACL_ERROR_INVALID_PARAM);
    deny(&v, size == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, flag != ACL_RT_MEM_ATTACH_GLOBAL, ACL_ERROR_INVALID_PARAM);
    deny(&v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    deny(&v, size > (size_t)3 << 40, ACL_ERROR_RT_MEMORY_ALLOCATION);
    return v;
}
