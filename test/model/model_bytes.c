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

/* A part of a range that lies in one mapping. */
struct piece {
    const struct model_phys *phys;
    size_t offset; /* in phys */
    size_t size;
};

size_t model_site_offset(unsigned i)
{
    static const size_t offsets[MODEL_SITES] = {0, MODEL_CHUNK / 2,
                                                MODEL_CHUNK - MODEL_SITE_SIZE};

    return offsets[i];
}

/*
 * The first address from addr on that belongs to a site.  Mappings start at chunks, so
 * addresses do too.
 */
static uintptr_t next_site_byte(uintptr_t addr)
{
    size_t in_chunk = addr % MODEL_CHUNK;

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

/* Own memory may be used through its own device or through the current one. */
static void check_right(const struct model *m, struct verdict *v,
                        const struct model_map *map, enum model_need need)
{
    int own =
        model_is_on_host(map->phys) ? map->host : map->dev[map->phys->prop.location.id];
    int current = m->has_current ? map->dev[m->current] : 0;
    bool has_right = (own & (int)need) != 0;

    if (current == MODEL_UNKNOWN)
        doubt(v, !has_right, ACL_ERROR_RT_PARAM_INVALID);
    else
        deny(v, !has_right && (current & (int)need) == 0, ACL_ERROR_RT_PARAM_INVALID);
}

void model_check_span(struct model *m, struct verdict *v, uintptr_t addr, size_t size,
                      enum model_need need)
{
    while (size > 0) {
        struct model_map *map = model_find_map(m, addr);
        size_t here;

        deny(v, map == NULL, ACL_ERROR_RT_PARAM_INVALID);
        if (map == NULL)
            return;
        check_right(m, v, map, need);
        here = map->size - (addr - map->start);
        here = here < size ? here : size;
        addr += here;
        size -= here;
    }
}

static unsigned cut(struct model *m, uintptr_t addr, size_t size, struct piece *pieces)
{
    unsigned n = 0;

    while (size > 0 && n < MAX_PIECES) {
        struct model_map *map = model_find_map(m, addr);
        size_t offset = addr - map->start;
        size_t here = map->size - offset < size ? map->size - offset : size;

        pieces[n++] = (struct piece){map->phys, offset, here};
        addr += here;
        size -= here;
    }
    return n;
}

static bool is_shared(const struct piece *a, const struct piece *b)
{
    return a->phys == b->phys && a->offset < b->offset + b->size &&
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

/* A synchronous copy between two devices is refused, wherever in the ranges they meet. */
static bool joins_devices(const struct piece *a, unsigned n_a, const struct piece *b,
                          unsigned n_b)
{
    for (unsigned i = 0; i < n_a; i++)
        for (unsigned j = 0; j < n_b; j++)
            if (!model_is_on_host(a[i].phys) && !model_is_on_host(b[j].phys) &&
                a[i].phys->prop.location.id != b[j].phys->prop.location.id)
                return true;
    return false;
}

static bool is_device_side(struct model *m, const struct model_side *side)
{
    struct model_map *map = model_find_map(m, side->addr);

    return side->host == NULL && (map == NULL || !model_is_on_host(map->phys));
}

static void check_kind(struct model *m, struct verdict *v, const struct model_side *dst,
                       const struct model_side *src, int kind)
{
    int right = (is_device_side(m, src) ? 2 : 0) + (is_device_side(m, dst) ? 1 : 0);

    deny(v, kind < 0 || kind > 7, ACL_ERROR_INVALID_PARAM);
    deny_strict(m, v, kind >= 0 && kind <= 3 && kind != right,
                ACL_ERROR_RT_PARAM_INVALID);
    doubt(v, m->is_strict && kind > 3, ACL_ERROR_RT_PARAM_INVALID);
    doubt(v, m->is_strict, ACL_ERROR_INVALID_PARAM);
}

static void check_devices(struct model *m, struct verdict *v,
                          const struct model_side *dst, const struct model_side *src,
                          size_t count)
{
    struct piece to[MAX_PIECES], from[MAX_PIECES];
    unsigned n_to = dst->host == NULL ? cut(m, dst->addr, count, to) : 0;
    unsigned n_from = src->host == NULL ? cut(m, src->addr, count, from) : 0;

    deny(v, joins_devices(to, n_to, from, n_from), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    doubt(v,
          joins_devices(to, n_to, to, n_to) || joins_devices(from, n_from, from, n_from),
          ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
}

struct verdict model_may_copy(struct model *m, const struct model_side *dst,
                              size_t dest_max, const struct model_side *src, size_t count,
                              int kind)
{
    struct verdict v = {0}, spans = {0};

    deny(&v, dst->addr == 0 || src->addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, count == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, count > dest_max, ACL_ERROR_INVALID_PARAM);
    deny(&v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    check_kind(m, &v, dst, src, kind);
    if (dst->host == NULL)
        model_check_span(m, &spans, dst->addr, count, MODEL_WRITE);
    if (src->host == NULL)
        model_check_span(m, &spans, src->addr, count, MODEL_READ);
    deny(&v, spans.n_hard > 0, ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, spans.n_soft > 0, ACL_ERROR_RT_PARAM_INVALID);
    if (spans.n_hard == 0)
        check_devices(m, &v, dst, src, count);
    else
        doubt(&v, true, ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    return v;
}

static uintptr_t copy_to_host(struct model *m, uint8_t *dst, uintptr_t src, size_t count)
{
    for (uintptr_t at = next_site_byte(src); at - src < count;
         at = next_site_byte(at + 1)) {
        int16_t *byte = find_byte(m, at);
        uint8_t got = dst[at - src];

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
    for (uintptr_t at = next_site_byte(dst); at - dst < count;
         at = next_site_byte(at + 1))
        model_poke(m, at, is_known ? src[at - dst] : MODEL_UNKNOWN);
}

static void copy_inside(struct model *m, uintptr_t dst, uintptr_t src, size_t count,
                        bool is_known)
{
    for (uintptr_t at = next_site_byte(dst); at - dst < count;
         at = next_site_byte(at + 1))
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

struct verdict model_may_fill(struct model *m, uintptr_t addr, size_t max, size_t count)
{
    struct verdict v = {0}, span = {0};

    deny(&v, addr == 0, ACL_ERROR_INVALID_PARAM);
    deny(&v, count == 0 || count > max, ACL_ERROR_INVALID_PARAM);
    deny(&v, !m->has_current, ACL_ERROR_RT_CONTEXT_NULL);
    model_check_span(m, &span, addr, count, MODEL_WRITE);
    deny(&v, span.n_hard > 0, ACL_ERROR_RT_PARAM_INVALID);
    doubt(&v, span.n_soft > 0, ACL_ERROR_RT_PARAM_INVALID);
    return v;
}

void model_fill(struct model *m, uintptr_t addr, int value, size_t count)
{
    for (uintptr_t at = next_site_byte(addr); at - addr < count;
         at = next_site_byte(at + 1))
        model_poke(m, at, value & 0xff);
}
