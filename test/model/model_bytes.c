/*
 * What the model knows of contents, and the rules of copies.
 *
 * An address is looked up byte by byte: mapping, offset into the memory, chunk, site. 
 * The loops walk only over the bytes of sites, so a copy of many megabytes costs 192
 * look-ups a chunk.
 *
 * Two things make the outcome of a copy depend on the order in which its bytes move: a
 * source and a destination that share memory, and a destination in which the same memory
 * is mapped twice.  The contract promises nothing for them, so the bytes are unknown
 * afterwards.
 */
#include "model.h"

enum { MAX_PIECES = 64 };

/* A part of a range that lies in one mapping, or in one block. */
struct piece {
    const void *memory; /* the phys, or the block */
    size_t offset;      /* in that */
    size_t size;
    int device; /* -1: the host's */
    bool is_map;
};

size_t model_site_offset(unsigned i)
{
    static const size_t offsets[MODEL_SITES] = {0, MODEL_CHUNK / 2,
                                                MODEL_CHUNK - MODEL_SITE_SIZE};

    return offsets[i];
}

/* The same in a block: its ends. */
static uintptr_t next_block_byte(const struct model_block *block, uintptr_t addr)
{
    size_t offset = addr - block->start;

    if (offset < MODEL_EDGE || offset + MODEL_EDGE >= block->asked)
        return addr;
    return block->start + block->asked - MODEL_EDGE;
}

/*
 * The first address from addr on that belongs to a site.  Mappings start at chunks, so
 * addresses do too.
 */
static uintptr_t next_site_byte(struct model *m, uintptr_t addr)
{
    const struct model_block *block = model_find_block(m, addr);
    size_t in_chunk = addr % MODEL_CHUNK;

    if (block != NULL)
        return next_block_byte(block, addr);

    for (unsigned i = 0; i < MODEL_SITES; i++) {
        size_t offset = model_site_offset(i);

        if (in_chunk < offset)
            return addr - in_chunk + offset;
        if (in_chunk - offset < MODEL_SITE_SIZE)
            return addr;
    }
    return addr - in_chunk + MODEL_CHUNK;
}

int16_t *model_phys_byte(const struct model_phys *phys, size_t offset)
{
    size_t in_chunk = offset % MODEL_CHUNK;

    for (unsigned i = 0; i < MODEL_SITES; i++) {
        size_t site = model_site_offset(i);

        if (in_chunk >= site && in_chunk - site < MODEL_SITE_SIZE)
            return phys->bytes + offset / MODEL_CHUNK * MODEL_CHUNK_BYTES +
                   i * MODEL_SITE_SIZE + (in_chunk - site);
    }
    return NULL;
}

static int16_t *find_byte(struct model *m, uintptr_t addr)
{
    struct model_map *map = model_find_map(m, addr);
    struct model_block *block = model_find_block(m, addr);

    if (block != NULL)
        return model_block_byte(block, addr - block->start);
    return map != NULL ? model_phys_byte(map->phys, addr - map->start) : NULL;
}

int model_peek(struct model *m, uintptr_t addr)
{
    int16_t *byte = find_byte(m, addr);

    return byte != NULL ? *byte : MODEL_UNKNOWN;
}

void model_poke(struct model *m, uintptr_t addr, int value)
{
    int16_t *byte = find_byte(m, addr);

    if (byte != NULL)
        *byte = (int16_t)value;
}

/*
 * Own memory may be used through its own device or through the one that works: the
 * current one, or the stream's; -1 for the host, which looks at it without a context.
 */
static void check_right(struct verdict *v, const struct model_map *map,
                        enum model_need need, int worker)
{
    int own =
        model_is_on_host(map->phys) ? map->host : map->dev[map->phys->prop.location.id];
    int current = worker >= 0 ? map->dev[worker] : map->host;
    bool has_right = (own & (int)need) != 0;

    if (current == MODEL_UNKNOWN)
        doubt(v, !has_right, ACL_ERROR_RT_PARAM_INVALID);
    else
        deny(v, !has_right && (current & (int)need) == 0, ACL_ERROR_RT_PARAM_INVALID);
}

/* A block is its own device's, and the host's; a copy that leaves it is refused. */
static void check_block(const struct model *m, struct verdict *v,
                        const struct model_block *block, uintptr_t addr, size_t size)
{
    size_t offset = addr - block->start;
    bool is_beyond = offset >= block->asked || size > block->asked - offset;

    deny(v, size > block->size - offset, ACL_ERROR_RT_PARAM_INVALID);
    deny_strict(m, v, is_beyond, ACL_ERROR_RT_PARAM_INVALID);
    doubt(v, is_beyond, ACL_ERROR_RT_PARAM_INVALID);
}

static void check_span_for(struct model *m, struct verdict *v, uintptr_t addr,
                           size_t size, enum model_need need, int worker)
{
    const struct model_block *block = model_find_block(m, addr);

    if (block != NULL) {
        check_block(m, v, block, addr, size);
        return;
    }
    while (size > 0) {
        struct model_map *map = model_find_map(m, addr);
        size_t here;

        deny(v, map == NULL, ACL_ERROR_RT_PARAM_INVALID);
        if (map == NULL)
            return;
        if (need != MODEL_NOTHING)
            check_right(v, map, need, worker);
        here = map->size - (addr - map->start);
        here = here < size ? here : size;
        addr += here;
        size -= here;
    }
}

void model_check_span(struct model *m, struct verdict *v, uintptr_t addr, size_t size,
                      enum model_need need)
{
    check_span_for(m, v, addr, size, need, m->has_current ? m->current : -1);
}

static unsigned cut(struct model *m, uintptr_t addr, size_t size, struct piece *pieces)
{
    const struct model_block *block = model_find_block(m, addr);
    unsigned n = 0;

    if (block != NULL) {
        pieces[0] =
            (struct piece){block, addr - block->start, size, block->device, false};
        return 1;
    }
    while (size > 0 && n < MAX_PIECES) {
        struct model_map *map = model_find_map(m, addr);
        size_t offset = addr - map->start;
        size_t here = map->size - offset < size ? map->size - offset : size;

        pieces[n++] = (struct piece){
            map->phys, offset, here,
            model_is_on_host(map->phys) ? -1 : (int)map->phys->prop.location.id, true};
        addr += here;
        size -= here;
    }
    return n;
}

static bool is_shared(const struct piece *a, const struct piece *b)
{
    return a->memory == b->memory && a->offset < b->offset + b->size &&
           b->offset < a->offset + a->size;
}

/* Whether the bytes' order of moving decides what the destination holds afterwards. */
static bool is_ordered(const struct piece *dst, unsigned n_dst, const struct piece *src,
                       unsigned n_src)
{
    for (unsigned i = 0; i < n_dst; i++) {
        for (unsigned j = 0; j < n_src; j++)
            if (is_shared(&dst[i], &src[j]))
                return true;
        for (unsigned j = 0; j < i; j++)
            if (is_shared(&dst[i], &dst[j]))
                return true;
    }
    return false;
}

static bool joins_devices(const struct piece *a, unsigned n_a, const struct piece *b,
                          unsigned n_b)
{
    for (unsigned i = 0; i < n_a; i++)
        for (unsigned j = 0; j < n_b; j++)
            if (a[i].device >= 0 && b[j].device >= 0 && a[i].device != b[j].device)
                return true;
    return false;
}

static bool has_map(const struct piece *pieces, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (pieces[i].is_map)
            return true;
    return false;
}

/* Of blocks alone: one of the two devices must reach the other. */
static void check_peers(const struct model *m, struct verdict *v, int a, int b)
{
    deny(v, !model_reaches(m, a, b) && !model_reaches(m, b, a),
         ACL_ERROR_RT_PARAM_INVALID);
}

static int side_type(struct model *m, const struct model_side *side)
{
    struct model_map *map = model_find_map(m, side->addr);
    struct model_block *block = model_find_block(m, side->addr);

    if (side->host != NULL)
        return ACL_MEM_LOCATION_TYPE_HOST;
    if (block != NULL)
        return block->kind == MODEL_MANAGED ? ACL_MEM_LOCATION_TYPE_MANAGED
               : block->device < 0          ? ACL_MEM_LOCATION_TYPE_HOST
                                            : ACL_MEM_LOCATION_TYPE_DEVICE;
    return map == NULL || !model_is_on_host(map->phys) ? ACL_MEM_LOCATION_TYPE_DEVICE
                                                       : ACL_MEM_LOCATION_TYPE_HOST;
}

static bool is_device_side(struct model *m, const struct model_side *side)
{
    return side_type(m, side) == ACL_MEM_LOCATION_TYPE_DEVICE;
}

static bool is_managed_side(struct model *m, const struct model_side *side)
{
    return side_type(m, side) == ACL_MEM_LOCATION_TYPE_MANAGED;
}

static void check_kind(struct model *m, struct verdict *v, const struct model_side *dst,
                       const struct model_side *src, int kind)
{
    int right = (is_device_side(m, src) ? 2 : 0) + (is_device_side(m, dst) ? 1 : 0);
    bool is_managed = is_managed_side(m, src) || is_managed_side(m, dst);
    bool is_wrong = kind >= 0 && kind <= 3 && kind != right;

    deny(v, kind < 0 || kind > 7, ACL_ERROR_INVALID_PARAM);
    deny_strict(m, v, is_wrong && !is_managed, ACL_ERROR_RT_PARAM_INVALID);
    doubt(v, m->is_strict && (kind > 4 || is_wrong), ACL_ERROR_RT_PARAM_INVALID);
    doubt(v, m->is_strict, ACL_ERROR_INVALID_PARAM);
}

/*
 * Between two devices virtual memory is copied on a stream only, wherever in the ranges
 * they meet; blocks as peers.
 */
static void check_devices(struct model *m, struct verdict *v,
                          const struct model_side *dst, const struct model_side *src,
                          size_t count, bool is_async)
{
    struct piece to[MAX_PIECES] = {0}, from[MAX_PIECES] = {0};
    unsigned n_to = dst->host == NULL ? cut(m, dst->addr, count, to) : 0;
    unsigned n_from = src->host == NULL ? cut(m, src->addr, count, from) : 0;
    bool is_between = joins_devices(to, n_to, from, n_from);
    bool is_map = has_map(to, n_to) || has_map(from, n_from);
    bool is_mixed =
        joins_devices(to, n_to, to, n_to) || joins_devices(from, n_from, from, n_from);

    deny(v, !is_async && is_between && is_map, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    doubt(v, !is_async && is_mixed, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    if (is_between && !is_map)
        check_peers(m, v, to[0].device, from[0].device);
    /* Which rights of mappings count for which device is told elsewhere. */
    doubt(v, is_async && (is_between || is_mixed) && is_map, ACL_ERROR_RT_PARAM_INVALID);
}

/* What both forms ask of the arguments. */
static struct verdict may_move(struct model *m, const struct model_side *dst,
                               size_t dest_max, const struct model_side *src,
                               size_t count, int worker, bool is_async)
{
    struct verdict v = {0}, spans = {0};

    deny(&v, dst->addr == 0 || src->addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, count == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, count > dest_max, ACL_ERROR_INVALID_PARAM);
    deny(&v, !m->has_current && !is_async, ACL_ERROR_RT_CONTEXT_NULL);
    if (dst->host == NULL)
        check_span_for(m, &spans, dst->addr, count, MODEL_WRITE, worker);
    if (src->host == NULL)
        check_span_for(m, &spans, src->addr, count, MODEL_READ, worker);
    deny(&v, spans.n_hard > 0, ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, spans.n_soft > 0, ACL_ERROR_RT_PARAM_INVALID);
    if (spans.n_hard == 0)
        check_devices(m, &v, dst, src, count, is_async);
    else
        doubt(&v, true, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    return v;
}

struct verdict model_may_copy(struct model *m, const struct model_side *dst,
                              size_t dest_max, const struct model_side *src, size_t count,
                              int kind)
{
    int worker = m->has_current ? m->current : -1;
    struct verdict v = may_move(m, dst, dest_max, src, count, worker, false);

    check_kind(m, &v, dst, src, kind);
    return v;
}

/* Memory that a device reaches by itself: not the program's own. */
static bool is_reached(struct model *m, const struct model_side *side, size_t count)
{
    struct model_registered *reg = model_find_registered(m, side->addr, 1);

    return side->host == NULL ||
           (reg != NULL && count <= reg->size - (side->addr - reg->start));
}

/* A range may begin in memory of the host's and go on in a device's. */
static bool touches_device(struct model *m, const struct model_side *side, size_t count)
{
    struct piece pieces[MAX_PIECES];
    struct verdict holes = {0};
    unsigned n;

    if (side->host != NULL)
        return false;
    check_span_for(m, &holes, side->addr, count, MODEL_NOTHING, -1);
    if (verdict_is_refusal(&holes))
        return true; /* and refused for that */
    n = cut(m, side->addr, count, pieces);
    for (unsigned i = 0; i < n; i++)
        if (pieces[i].device >= 0)
            return true;
    return false;
}

struct verdict model_may_copy_async(struct model *m, const struct model_side *dst,
                                    size_t dest_max, const struct model_side *src,
                                    size_t count, int kind, const void *stream)
{
    struct verdict use = model_may_use_stream(m, stream);
    int worker = verdict_is_refusal(&use) ? -1 : model_stream_device(m, stream);
    struct verdict v = may_move(m, dst, dest_max, src, count, worker, true);
    bool has_device = touches_device(m, dst, count) || touches_device(m, src, count);
    bool has_managed = is_managed_side(m, dst) || is_managed_side(m, src);

    for (unsigned i = 0; i < use.n_hard; i++)
        deny(&v, true, use.hard[i]);
    check_kind(m, &v, dst, src, kind);
    doubt(&v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    deny(&v, !has_device && !has_managed, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    doubt(&v, kind == ACL_MEMCPY_HOST_TO_HOST, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    deny_strict(m, &v, dst->addr % 64 != 0 || src->addr % 64 != 0,
                ACL_ERROR_RT_ADDR_UNALIGNED);
    deny_strict(m, &v, !is_reached(m, dst, count) || !is_reached(m, src, count),
                ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

static uintptr_t copy_to_host(struct model *m, uint8_t *dst, uintptr_t src, size_t count)
{
    for (uintptr_t at = next_site_byte(m, src); at - src < count;
         at = next_site_byte(m, at + 1)) {
        int16_t *byte = find_byte(m, at);
        uint8_t got = dst[at - src];

        if (byte == NULL)
            continue;
        if (*byte == MODEL_UNKNOWN)
            *byte = got;
        else if (*byte != got)
            return at;
    }
    return 0;
}

static void copy_from_host(struct model *m, uintptr_t dst, const uint8_t *src,
                           size_t count, bool is_known)
{
    for (uintptr_t at = next_site_byte(m, dst); at - dst < count;
         at = next_site_byte(m, at + 1))
        model_poke(m, at, is_known ? src[at - dst] : MODEL_UNKNOWN);
}

static void copy_inside(struct model *m, uintptr_t dst, uintptr_t src, size_t count,
                        bool is_known)
{
    for (uintptr_t at = next_site_byte(m, dst); at - dst < count;
         at = next_site_byte(m, at + 1))
        model_poke(m, at, is_known ? model_peek(m, src + (at - dst)) : MODEL_UNKNOWN);
}

uintptr_t model_copy(struct model *m, const struct model_side *dst,
                     const struct model_side *src, size_t count)
{
    struct piece to[MAX_PIECES], from[MAX_PIECES];
    unsigned n_to, n_from = 0;
    bool is_known;

    if (dst->host != NULL)
        return copy_to_host(m, dst->host, src->addr, count);
    n_to = cut(m, dst->addr, count, to);
    if (src->host == NULL)
        n_from = cut(m, src->addr, count, from);
    is_known = !is_ordered(to, n_to, from, n_from);
    if (src->host != NULL)
        copy_from_host(m, dst->addr, src->host, count, is_known);
    else
        copy_inside(m, dst->addr, src->addr, count, is_known);
    return 0;
}

static struct verdict may_fill_for(struct model *m, uintptr_t addr, size_t max,
                                   size_t count, int worker)
{
    struct verdict v = {0}, span = {0};

    deny(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, count == 0 || count > max, ACL_ERROR_INVALID_PARAM);
    check_span_for(m, &span, addr, count, MODEL_WRITE, worker);
    deny(&v, span.n_hard > 0, ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, span.n_soft > 0, ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

struct verdict model_may_fill(struct model *m, uintptr_t addr, size_t max, size_t count)
{
    struct verdict v =
        may_fill_for(m, addr, max, count, m->has_current ? m->current : -1);

    deny(&v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    return v;
}

struct verdict model_may_fill_async(struct model *m, uintptr_t addr, size_t max,
                                    size_t count, const void *stream)
{
    struct verdict use = model_may_use_stream(m, stream);
    int worker = verdict_is_refusal(&use) ? -1 : model_stream_device(m, stream);
    struct verdict v = may_fill_for(m, addr, max, count, worker);

    for (unsigned i = 0; i < use.n_hard; i++)
        deny(&v, true, use.hard[i]);
    return v;
}

void model_fill(struct model *m, uintptr_t addr, int value, size_t count)
{
    for (uintptr_t at = next_site_byte(m, addr); at - addr < count;
         at = next_site_byte(m, at + 1))
        model_poke(m, at, value & 0xff);
}
