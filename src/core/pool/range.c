/* See range.h. */
#include "core/pool/range.h"

#include <errno.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"

static int start_compare(struct am_range *a, struct am_range *b)
{
    return (a->start > b->start) - (a->start < b->start);
}

/* By size, then by place: of equal ones the first is the best. */
static int size_compare(struct am_range *a, struct am_range *b)
{
    if (a->size != b->size)
        return a->size > b->size ? 1 : -1;
    return start_compare(a, b);
}

RB_GENERATE_INTERNAL(am_ranges_by_start, am_range, by_start, start_compare,
                     __attribute__((unused)) static)
RB_GENERATE_INTERNAL(am_ranges_by_size, am_range, by_size, size_compare,
                     __attribute__((unused)) static)

struct am_freeing *am_freeing_ref(struct am_freeing *freeing)
{
    am_ref_more(&freeing->refs);
    return freeing;
}

void am_freeing_put(struct am_freeing *freeing)
{
    if (freeing != NULL && am_ref_drop(&freeing->refs))
        free(freeing);
}

int am_ranges_init(struct am_ranges *ranges, size_t size)
{
    struct am_range *range = am_sys_calloc(1, sizeof *range);

    if (range == NULL)
        return -ENOMEM;
    *ranges = (struct am_ranges){.n_live = 0};
    RB_INIT(&ranges->all);
    RB_INIT(&ranges->idle);
    LIST_INIT(&ranges->of_streams);
    range->size = size;
    RB_INSERT(am_ranges_by_start, &ranges->all, range);
    RB_INSERT(am_ranges_by_size, &ranges->idle, range);
    return 0;
}

void am_ranges_destroy(struct am_ranges *ranges)
{
    struct am_range *range;

    while ((range = RB_ROOT(&ranges->all)) != NULL) {
        RB_REMOVE(am_ranges_by_start, &ranges->all, range);
        am_freeing_put(range->freeing);
        am_freeing_put(range->after);
        free(range);
    }
}

struct am_range *am_ranges_find(struct am_ranges *ranges, size_t at)
{
    struct am_range key = {.start = at};
    struct am_range *range = RB_NFIND(am_ranges_by_start, &ranges->all, &key);

    if (range == NULL)
        range = RB_MAX(am_ranges_by_start, &ranges->all);
    else if (range->start > at)
        range = RB_PREV(am_ranges_by_start, &ranges->all, range);
    return at - range->start < range->size ? range : NULL;
}

struct am_range *am_ranges_fit(struct am_ranges *ranges, size_t size)
{
    struct am_range key = {.size = size};

    return RB_NFIND(am_ranges_by_size, &ranges->idle, &key);
}

struct am_range *am_ranges_next(struct am_range *idle)
{
    return RB_NEXT(am_ranges_by_size, NULL, idle);
}

struct am_range *am_ranges_behind(struct am_range *range)
{
    return RB_NEXT(am_ranges_by_start, NULL, range);
}

static bool is_pending(const struct am_freeing *freeing)
{
    return freeing != NULL && !freeing->is_done;
}

/* Whether it is idle, and nobody's or last freed on the stream. */
static bool is_own(const struct am_range *range, int32_t stream)
{
    return !range->is_live &&
           (range->freeing == NULL || range->freeing->stream == stream);
}

bool am_range_is_for(const struct am_range *range, int32_t stream)
{
    return is_own(range, stream) && !is_pending(range->after);
}

bool am_range_is_lent_to(const struct am_range *range, int32_t stream)
{
    return range->freeing != NULL && (is_own(range, stream) || !is_pending(range->after));
}

struct am_freeing *am_range_lender(const struct am_range *live,
                                   struct am_freeing *freeing)
{
    return is_pending(live->after) ? live->after : freeing;
}

void am_range_borrow(struct am_range *live, struct am_freeing *lender)
{
    am_freeing_ref(lender);
    am_freeing_put(live->after);
    live->after = lender;
}

bool am_range_is_busy(const struct am_range *range)
{
    return range->is_live || is_pending(range->freeing) || is_pending(range->after);
}

static void after_forget(struct am_range *range)
{
    am_freeing_put(range->after);
    range->after = NULL;
}

/*
 * An idle range enters the trees' other halves: by size, and with those that are not for
 * all.
 */
static void idle_enter(struct am_ranges *ranges, struct am_range *range)
{
    RB_INSERT(am_ranges_by_size, &ranges->idle, range);
    if (range->freeing != NULL)
        LIST_INSERT_HEAD(&ranges->of_streams, range, of_streams);
}

static void idle_leave(struct am_ranges *ranges, struct am_range *range)
{
    RB_REMOVE(am_ranges_by_size, &ranges->idle, range);
    if (range->freeing != NULL)
        LIST_REMOVE(range, of_streams);
}

/* Cuts an idle range in two, for the same users: 0 or -ENOMEM. */
static int idle_split(struct am_ranges *ranges, struct am_range *idle, size_t size)
{
    struct am_range *rest;

    am_assert(!idle->is_live && size <= idle->size);
    if (size == idle->size)
        return 0;
    rest = am_sys_calloc(1, sizeof *rest);
    if (rest == NULL)
        return -ENOMEM;
    idle_leave(ranges, idle);
    rest->start = idle->start + size;
    rest->size = idle->size - size;
    rest->freeing = idle->freeing != NULL ? am_freeing_ref(idle->freeing) : NULL;
    rest->after = idle->after != NULL ? am_freeing_ref(idle->after) : NULL;
    idle->size = size;
    RB_INSERT(am_ranges_by_start, &ranges->all, rest);
    idle_enter(ranges, rest);
    idle_enter(ranges, idle);
    return 0;
}

struct am_range *am_ranges_skip(struct am_ranges *ranges, struct am_range *idle,
                                size_t skip)
{
    if (skip == 0)
        return idle;
    return idle_split(ranges, idle, skip) == 0 ? am_ranges_behind(idle) : NULL;
}

int am_ranges_take(struct am_ranges *ranges, struct am_range *idle, size_t size)
{
    if (idle_split(ranges, idle, size) != 0)
        return -ENOMEM;
    idle_leave(ranges, idle);
    am_freeing_put(idle->freeing);
    idle->freeing = NULL;
    idle->is_live = true;
    ranges->n_live++;
    ranges->live += size;
    return 0;
}

/* Two idle neighbours become one, for the users of the one that was freed last. */
static struct am_range *ranges_join(struct am_ranges *ranges, struct am_range *low,
                                    struct am_range *high)
{
    struct am_freeing *last = low->freeing;
    struct am_freeing *other = high->freeing;

    if (last == NULL || (other != NULL && other->ticket > last->ticket)) {
        last = high->freeing;
        other = low->freeing;
    }
    idle_leave(ranges, low);
    idle_leave(ranges, high);
    RB_REMOVE(am_ranges_by_start, &ranges->all, high);
    am_freeing_put(other);
    am_freeing_put(high->after); /* the same as low's, or done */
    if (!is_pending(low->after))
        after_forget(low);
    low->freeing = last;
    low->size += high->size;
    idle_enter(ranges, low);
    free(high);
    return low;
}

static bool has_same_users(const struct am_range *a, const struct am_range *b)
{
    if (a->is_live || b->is_live)
        return false;
    if ((is_pending(a->after) || is_pending(b->after)) && a->after != b->after)
        return false;
    if (a->freeing == NULL || b->freeing == NULL)
        return a->freeing == b->freeing;
    return a->freeing->stream == b->freeing->stream;
}

/* Joins an idle range with its neighbours for the same users. */
static void ranges_settle(struct am_ranges *ranges, struct am_range *range)
{
    struct am_range *low = RB_PREV(am_ranges_by_start, &ranges->all, range);
    struct am_range *high = RB_NEXT(am_ranges_by_start, &ranges->all, range);

    if (high != NULL && has_same_users(range, high))
        range = ranges_join(ranges, range, high);
    if (low != NULL && has_same_users(low, range))
        ranges_join(ranges, low, range);
}

void am_ranges_give(struct am_ranges *ranges, struct am_range *live,
                    struct am_freeing *freeing)
{
    am_assert(live->is_live);
    live->is_live = false;
    live->freeing = freeing != NULL ? am_freeing_ref(freeing) : NULL;
    ranges->n_live--;
    ranges->live -= live->size;
    idle_enter(ranges, live);
    ranges_settle(ranges, live);
}

/* The range is for all from now on. */
static void range_open(struct am_ranges *ranges, struct am_range *range)
{
    idle_leave(ranges, range);
    am_freeing_put(range->freeing);
    range->freeing = NULL;
    after_forget(range);
    idle_enter(ranges, range);
    ranges_settle(ranges, range);
}

/* One that was freed, or lent, on the stream, where nothing is before it any more. */
static struct am_range *done_find(struct am_ranges *ranges, int32_t stream)
{
    struct am_range *range;

    LIST_FOREACH (range, &ranges->of_streams, of_streams) {
        if ((range->freeing->stream == stream ||
             (range->after != NULL && range->after->stream == stream)) &&
            !am_range_is_busy(range))
            return range;
    }
    return NULL;
}

void am_ranges_open(struct am_ranges *ranges, int32_t stream)
{
    struct am_range *range;

    while ((range = done_find(ranges, stream)) != NULL)
        range_open(ranges, range);
}

/* The ranges from low to high become one. */
static struct am_range *ranges_join_all(struct am_ranges *ranges, struct am_range *low,
                                        struct am_range *high)
{
    size_t end = high->start + high->size;

    while (low->start + low->size < end)
        ranges_join(ranges, low, RB_NEXT(am_ranges_by_start, &ranges->all, low));
    return low;
}

struct am_range *am_ranges_gather(struct am_ranges *ranges, int32_t stream, size_t size)
{
    struct am_range *low = NULL;
    struct am_range *range;
    size_t total = 0;

    RB_FOREACH (range, am_ranges_by_start, &ranges->all) {
        if (!am_range_is_for(range, stream) || range->size >= size) {
            low = NULL; /* one that is large enough by itself needs no neighbours */
            continue;
        }
        if (low == NULL) {
            low = range;
            total = 0;
        }
        total += range->size;
        if (total >= size)
            return idle_split(ranges, range, range->size - (total - size)) == 0
                       ? ranges_join_all(ranges, low, range)
                       : NULL;
    }
    return NULL;
}
