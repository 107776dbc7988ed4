/* See bytes.h. */
#include "layer/bytes.h"

#include <string.h>

#include "base/tree.h"
#include "layer/metadata.h"
#include "layer/memory.h"

#define PAGE_BITS 12
#define PAGE ((uint64_t)1 << PAGE_BITS)
#define ALL ((uint64_t *)1)

struct am_segment {
    RB_ENTRY(am_segment) node;
    uint64_t start;
    uint64_t end;
    uint32_t n_reads;
    bool has_write;
    struct am_access write;
    uint32_t max_reads;      /* room */
    struct am_access *reads; /* since the write, none of which knows another one */
};

AM_TREE(am_segments, am_segment, node, start)

struct am_bytes *am_bytes_get(struct am_bytes *bytes)
{
    if (bytes != NULL)
        bytes->refs++;
    return bytes;
}

struct am_bytes *am_bytes_of(struct am_object *object)
{
    struct am_bytes *bytes = object->bytes;

    if (bytes != NULL)
        return bytes;
    bytes = am_meta_alloc(sizeof *bytes);
    if (bytes == NULL)
        return NULL;
    bytes->refs = 1;
    bytes->n_handles = 1;
    bytes->size = object->size;
    bytes->key = object->key;
    bytes->kind = object->kind;
    bytes->made = object->made;
    object->bytes = bytes;
    return bytes;
}

static void segment_delete(struct am_bytes *bytes, struct am_segment *segment)
{
    RB_REMOVE(am_segments, &bytes->segments, segment);
    bytes->n_segments--;
    free(segment->reads);
    free(segment);
}

void am_bytes_put(struct am_bytes *bytes)
{
    struct am_segment *segment;

    if (bytes == NULL || --bytes->refs > 0)
        return;
    am_bytes_put(bytes->origin);
    am_values_free(bytes);
    while ((segment = RB_MIN(am_segments, &bytes->segments)) != NULL)
        segment_delete(bytes, segment);
    for (uint64_t i = 0; bytes->written != NULL && i < (bytes->size + PAGE - 1) / PAGE;
         i++) {
        if (bytes->written[i] != ALL)
            free(bytes->written[i]);
    }
    free(bytes->written);
    free(bytes);
}

/* ---- history ---- */

/* The first segment that ends behind `at`. */
static struct am_segment *segment_at(struct am_bytes *bytes, uint64_t at)
{
    struct am_segment *s = RB_ROOT(&bytes->segments);
    struct am_segment *found = NULL;

    while (s != NULL) {
        if (s->end > at) {
            found = s;
            s = RB_LEFT(s, node);
        } else {
            s = RB_RIGHT(s, node);
        }
    }
    return found;
}

/* Whether `other` conflicts with what has this clock. */
static bool is_unordered(const struct am_access *other, const struct am_access *access,
                         const struct am_clock *clock)
{
    return !other->is_order_unknown && !access->is_order_unknown &&
           am_clock_get(clock, other->agent) < other->step;
}

bool am_bytes_conflict(struct am_bytes *bytes, uint64_t at, uint64_t size,
                       const struct am_access *access, const struct am_clock *clock,
                       struct am_access *ret_other, uint64_t *ret_at)
{
    for (struct am_segment *s = segment_at(bytes, at); s != NULL && s->start < at + size;
         s = RB_NEXT(am_segments, &bytes->segments, s)) {
        *ret_at = s->start > at ? s->start : at;
        if (s->has_write && is_unordered(&s->write, access, clock)) {
            *ret_other = s->write;
            return true;
        }
        for (uint32_t i = 0; access->is_write && i < s->n_reads; i++) {
            if (is_unordered(&s->reads[i], access, clock)) {
                *ret_other = s->reads[i];
                return true;
            }
        }
    }
    return false;
}

void am_bytes_undone(struct am_bytes *bytes, const struct am_clock *clock,
                     am_range_fn each, void *arg)
{
    const struct am_access host = {.step = 0};
    struct am_segment *s;

    RB_FOREACH (s, am_segments, &bytes->segments) {
        bool is_read = false;

        if (s->has_write && is_unordered(&s->write, &host, clock)) {
            each(s->start, s->end, true, arg);
            continue;
        }
        for (uint32_t i = 0; i < s->n_reads; i++)
            is_read |= is_unordered(&s->reads[i], &host, clock);
        if (is_read)
            each(s->start, s->end, false, arg);
    }
}

/* A new segment with the contents of `like`, or with none. */
static struct am_segment *segment_add(struct am_bytes *bytes, uint64_t start,
                                      uint64_t end, const struct am_segment *like)
{
    struct am_segment *s = am_meta_alloc(sizeof *s);

    if (s == NULL)
        return NULL;
    if (like != NULL) {
        s->has_write = like->has_write;
        s->write = like->write;
        if (like->n_reads > 0) {
            s->reads = am_meta_alloc(like->n_reads * sizeof s->reads[0]);
            if (s->reads != NULL) {
                memcpy(s->reads, like->reads, like->n_reads * sizeof s->reads[0]);
                s->n_reads = s->max_reads = like->n_reads;
            }
        }
    }
    s->start = start;
    s->end = end;
    RB_INSERT(am_segments, &bytes->segments, s);
    bytes->n_segments++;
    return s;
}

/* A segment that reaches over `at` becomes two. */
static void segment_split(struct am_bytes *bytes, uint64_t at)
{
    struct am_segment *s = segment_at(bytes, at);
    uint64_t end;

    if (s == NULL || s->start >= at)
        return;
    end = s->end;
    s->end = at;
    segment_add(bytes, at, end, s);
}

static void segment_touch(struct am_segment *s, const struct am_access *access,
                          const struct am_clock *clock)
{
    uint32_t n = 0;

    if (access->is_write) {
        s->has_write = true;
        s->write = *access;
        s->n_reads = 0;
        return;
    }
    for (uint32_t i = 0; i < s->n_reads; i++) {
        if (am_clock_get(clock, s->reads[i].agent) < s->reads[i].step)
            s->reads[n++] = s->reads[i];
    }
    s->n_reads = n;
    if (n == s->max_reads) {
        uint32_t max = n > 0 ? 2 * n : 2;
        struct am_access *more = am_meta_realloc(s->reads, max * sizeof *more);

        if (more == NULL)
            return;
        s->reads = more;
        s->max_reads = max;
    }
    s->reads[s->n_reads++] = *access;
}

static bool is_same(const struct am_access *a, const struct am_access *b)
{
    return a->agent == b->agent && a->step == b->step;
}

static bool are_alike(const struct am_segment *a, const struct am_segment *b)
{
    if (a->has_write != b->has_write || a->n_reads != b->n_reads)
        return false;
    if (a->has_write && !is_same(&a->write, &b->write))
        return false;
    for (uint32_t i = 0; i < a->n_reads; i++) {
        if (!is_same(&a->reads[i], &b->reads[i]))
            return false;
    }
    return true;
}

/* Neighbours that say the same become one. */
static void segments_merge(struct am_bytes *bytes, uint64_t at, uint64_t end)
{
    struct am_segment *s = segment_at(bytes, at > 0 ? at - 1 : 0);
    struct am_segment *next;

    while (s != NULL && s->start <= end) {
        next = RB_NEXT(am_segments, &bytes->segments, s);
        if (next != NULL && next->start == s->end && are_alike(s, next)) {
            s->end = next->end;
            segment_delete(bytes, next);
        } else {
            s = next;
        }
    }
}

void am_bytes_note(struct am_bytes *bytes, uint64_t at, uint64_t size,
                   const struct am_access *access, const struct am_clock *clock)
{
    uint64_t end = at + size;
    uint64_t from = at;
    struct am_segment *s;

    segment_split(bytes, at);
    segment_split(bytes, end);
    while (from < end) {
        s = segment_at(bytes, from);
        if (s == NULL || s->start > from) {
            uint64_t to = s != NULL && s->start < end ? s->start : end;

            s = segment_add(bytes, from, to, NULL);
            if (s == NULL)
                return;
        }
        segment_touch(s, access, clock);
        from = s->end;
    }
    segments_merge(bytes, at, end);
}

static bool is_known(const struct am_segment *s, const struct am_clock *clock)
{
    if (s->has_write && am_clock_get(clock, s->write.agent) < s->write.step)
        return false;
    for (uint32_t i = 0; i < s->n_reads; i++) {
        if (am_clock_get(clock, s->reads[i].agent) < s->reads[i].step)
            return false;
    }
    return true;
}

void am_bytes_prune(struct am_bytes *bytes, const struct am_clock *clock)
{
    struct am_segment *s;
    struct am_segment *next;

    for (s = RB_MIN(am_segments, &bytes->segments); s != NULL; s = next) {
        next = RB_NEXT(am_segments, &bytes->segments, s);
        if (is_known(s, clock))
            segment_delete(bytes, s);
    }
    bytes->prune_at = 2 * bytes->n_segments;
    if (bytes->prune_at < AM_SEGMENTS_MIN)
        bytes->prune_at = AM_SEGMENTS_MIN;
}

uint64_t am_bytes_last_step(struct am_bytes *bytes, uint32_t agent)
{
    struct am_segment *s;
    uint64_t last = 0;

    RB_FOREACH (s, am_segments, &bytes->segments) {
        if (s->has_write && s->write.agent == agent && s->write.step > last)
            last = s->write.step;
        for (uint32_t i = 0; i < s->n_reads; i++) {
            if (s->reads[i].agent == agent && s->reads[i].step > last)
                last = s->reads[i].step;
        }
    }
    return last;
}

/* ---- uses of an area ---- */

struct am_uses {
    uint32_t n;
    uint32_t max;
    struct am_access list[];
};

void am_uses_note(struct am_object *area, const struct am_access *access,
                  const struct am_clock *clock)
{
    struct am_uses *uses = area->uses;
    uint32_t n = 0;

    for (uint32_t i = 0; uses != NULL && i < uses->n; i++) {
        const struct am_access *use = &uses->list[i];

        if (use->agent != access->agent && am_clock_get(clock, use->agent) < use->step)
            uses->list[n++] = *use;
    }
    if (uses != NULL)
        uses->n = n;
    if (uses == NULL || n == uses->max) {
        uint32_t max = n > 0 ? 2 * n : 1;

        uses = am_meta_realloc(area->uses, sizeof *uses + max * sizeof uses->list[0]);
        if (uses == NULL)
            return;
        uses->max = max;
        area->uses = uses;
    }
    uses->list[n] = *access;
    uses->n = n + 1;
}

bool am_uses_find(const struct am_object *area, const struct am_clock *clock,
                  struct am_access *ret_access)
{
    const struct am_uses *uses = area->uses;

    for (uint32_t i = 0; uses != NULL && i < uses->n; i++) {
        const struct am_access *use = &uses->list[i];

        if (!use->is_order_unknown && am_clock_get(clock, use->agent) < use->step) {
            *ret_access = *use;
            return true;
        }
    }
    return false;
}

/* ---- written ---- */

/* Sets or clears bits of one page. */
static void page_change(struct am_bytes *bytes, uint64_t page, uint64_t at, uint64_t n,
                        bool is_written)
{
    uint64_t *bits = bytes->written[page];

    if (n == PAGE) {
        if (bits != ALL)
            free(bits);
        bytes->written[page] = is_written ? ALL : NULL;
        return;
    }
    if ((bits == ALL && is_written) || (bits == NULL && !is_written))
        return;
    if (bits == ALL || bits == NULL) {
        uint64_t left = bytes->size - page * PAGE; /* the last page may be short */
        size_t size = (size_t)((left < PAGE ? left : PAGE) + 63) / 64 * 8;
        uint64_t *made = am_meta_alloc(size);

        if (made == NULL) {
            bytes->written[page] = ALL; /* unknown: nothing is said of it */
            return;
        }
        memset(made, bits == ALL ? 0xff : 0, size);
        bytes->written[page] = bits = made;
    }
    for (; n > 0; at++, n--) {
        if (at % 64 == 0 && n >= 64) {
            bits[at / 64] = is_written ? UINT64_MAX : 0;
            at += 63;
            n -= 63;
        } else if (is_written) {
            bits[at / 64] |= UINT64_C(1) << at % 64;
        } else {
            bits[at / 64] &= ~(UINT64_C(1) << at % 64);
        }
    }
}

static void written_change(struct am_bytes *bytes, uint64_t at, uint64_t size,
                           bool is_written)
{
    if (bytes->is_shared)
        return; /* what others write is not known, and nothing is said of it */
    if (bytes->written == NULL)
        bytes->written =
            am_meta_alloc((bytes->size + PAGE - 1) / PAGE * sizeof *bytes->written);
    if (bytes->written == NULL)
        return;
    while (size > 0) {
        uint64_t in_page = at % PAGE;
        uint64_t n = size < PAGE - in_page ? size : PAGE - in_page;

        page_change(bytes, at / PAGE, in_page, n, is_written);
        at += n;
        size -= n;
    }
}

void am_bytes_write(struct am_bytes *bytes, uint64_t at, uint64_t size)
{
    written_change(bytes, at, size, true);
}

/* Whether the byte was written, and how many from it on are the same. */
static bool written_run(const struct am_bytes *bytes, uint64_t at, uint64_t max,
                        uint64_t *ret_n)
{
    const uint64_t *bits = bytes->written != NULL ? bytes->written[at / PAGE] : NULL;
    uint64_t in_page = at % PAGE;
    uint64_t room = max < PAGE - in_page ? max : PAGE - in_page;
    bool is_written;

    if (bits == NULL || bits == ALL) {
        *ret_n = room;
        return bits == ALL;
    }
    is_written = bits[in_page / 64] >> in_page % 64 & 1;
    for (*ret_n = 1; *ret_n < room; ++*ret_n) {
        uint64_t next = in_page + *ret_n;

        if ((bits[next / 64] >> next % 64 & 1) != is_written)
            break;
    }
    return is_written;
}

bool am_bytes_unwritten(const struct am_bytes *bytes, uint64_t at, uint64_t size,
                        uint64_t *ret_at)
{
    uint64_t n;

    for (; size > 0 && !bytes->is_shared; at += n, size -= n) {
        if (!written_run(bytes, at, size, &n)) {
            *ret_at = at;
            return true;
        }
    }
    return false;
}

void am_bytes_carry(struct am_bytes *to, uint64_t to_at, const struct am_bytes *from,
                    uint64_t from_at, uint64_t size)
{
    uint64_t n;

    if (from->is_shared) {
        am_bytes_write(to, to_at, size);
        return;
    }
    for (; size > 0; to_at += n, from_at += n, size -= n) {
        bool is_written = written_run(from, from_at, size, &n);

        written_change(to, to_at, n, is_written);
    }
}
