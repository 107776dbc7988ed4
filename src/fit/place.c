/*
 * Choosing a place.
 *
 * Small blocks have pages of their own, and lie in one page each: gap.c has the lists of
 * their gaps.  For large ones the places that can be best are few: the ends of the tightest
 * gaps, which a block may fill exactly; the borders with the fewest free bytes that still
 * hold the block's odd bytes; and, for a new row, an empty area, idle pages inside a gap
 * or the middle of the widest one.  Each is found in the index in O(log n), a bounded number of
 * them is compared, and the cheapest is taken.
 *
 * Tried: comparing twice as many places gains nothing, in recorded traces and in
 * random ones.  Neither does a place beside the block that was placed last, nor a penalty for a rest
 * of the gap that is smaller than the block, in programs with phases.
 * Areas for blocks of whole pages gain 0.1 % and need four times the remaps, since their
 * pages cannot be used by others in place; beginning such blocks at a page anywhere gains
 * the same and needs none.
 */
#include "fit/internal.h"

/* Places that are compared, of each kind. */
#define N_TIGHTEST 6
#define N_BORDERS 6
#define N_CHECKS 32 /* borders that are checked, of gaps wide enough or not */
#define N_EMPTY 4
#define N_BUSY 8
#define N_ROWS 8
#define N_SPARE 8 /* pages below the limit */

/*
 * What a place costs, in thousandths of a page.  A page that is mapped elsewhere has to be
 * moved, which takes time but no memory; a wait for another stream takes neither, but may
 * hold this one up.  While many pages are idle, memory is cheap and moving is not: a block then
 * rather takes two pages more than to have one moved.
 */
#define COST_NEW 1000
#define COST_RETURNS 5 /* a page that is mapped there too */
#define COST_UNMAPPED 50
#define COST_UNMAPPED_EASY 2000
#define COST_WAIT 1000

/* Many: more than what the block needs and such a part of what is held. */
#define EASY 64

/* Little is lost at borders: such a part of the pages in which blocks live. */
#define LITTLE 64

/* A new row begins in a gap at least ROOM times as large as the block. */
#define ROOM 4
/* A row of whole pages can grow in a gap at least this many times as large as the block. */
#define ROW_ROOM 128

/*
 * A cache that grows replaces each of its blocks by a block that is larger by at most a GROWTHth.  Before
 * the first of them is replaced again, at most N_GROWING others are.  The room that is left for these
 * is at most a GROWTH_ROOMth of the block.  Smaller blocks than GROWTH_PAGES are moved at low cost.
 */
#define GROWTH 32
#define GROWTH_PAGES 4
#define GROWTH_ROOM 8
#define N_GROWING 64

bool am_fit_use_is_over(struct am_fit *fit, struct am_fit_use *use,
                        enum am_fit_action action)
{
    if (use->streams != 0)
        use->streams = fit->ops->pending(fit->ctx, use, action);
    return use->streams == 0;
}

bool am_fit_has_idle(const struct am_fit *fit, uint64_t size, uint64_t part)
{
    uint64_t held = fit->stats.used + fit->stats.idle;
    uint64_t n_pages = (size >> fit->page_shift) + 1;

    return fit->stats.idle > n_pages + held / part;
}

static uint64_t cost_unmapped(const struct am_fit *fit, uint64_t size)
{
    return am_fit_has_idle(fit, size, EASY) ? COST_UNMAPPED_EASY : COST_UNMAPPED;
}

/* The work of other streams on the block's bytes, if it were placed there. */
static struct am_fit_use use_of_others(struct am_fit *fit, const struct am_fit_request *r,
                                       struct am_fit_gap *gap, uint64_t addr)
{
    struct am_fit_area *area = gap_block(gap)->area;
    uint64_t last = fit_page_of(fit, addr + r->size - 1);
    struct am_fit_use use = {0};

    if ((fit->streams & ~r->stream) == 0)
        return use;
    for (uint64_t i = fit_page_of(fit, addr); i <= last; i++) {
        struct am_fit_page *page = fit_page_at(fit, area, i);
        struct am_fit_use part =
            page->n_live == 0 ? am_fit_page_use(page) : am_fit_gap_use(fit, gap, i);

        if ((part.streams & ~r->stream) != 0)
            use_add(&use, part);
    }
    use.streams &= ~r->stream;
    if (am_fit_use_is_over(fit, &use, AM_FIT_REUSE))
        use = (struct am_fit_use){0};
    return use;
}

/*
 * Whether the block is a little larger than its neighbour: a cache grows, and the neighbour is replaced
 * next.  A page that both touch counts as a new one, since the neighbour is freed.  A request
 * that found no memory before takes every page that it can share.
 */
static bool is_outgrown(const struct am_fit *fit, const struct am_fit_request *r,
                        const struct am_fit_block *block)
{
    return !r->may_wait && r->size >= GROWTH_PAGES * fit->config.page &&
           block->size < r->size && r->size - block->size <= r->size / GROWTH;
}

/* Pages in which no block lives: the neighbours live in the first and in the last one. */
static void count_new(struct am_fit_place *place, const struct am_fit_request *r,
                      uint64_t n, bool has_left, bool has_right)
{
    place->n_new = n - has_left - (has_right && !(has_left && n == 1));
    place->cost = place->n_new * COST_NEW;
    /* A gap that is filled leaves nothing.  In held pages the tightest one counts. */
    if (place->gap->size == r->size)
        place->rest = 0;
    else
        place->rest = place->n_new == 0 ? place->gap->size : 1 + place->beside;
}

static bool is_better(const struct am_fit_place *place, const struct am_fit_place *best)
{
    return place->cost < best->cost ||
           (place->cost == best->cost && place->rest < best->rest);
}

/* The cost of those of the n pages that have no memory. */
static uint64_t cost_missing(struct am_fit *fit, struct am_fit_place *place,
                             uint64_t first, uint64_t n, uint64_t size)
{
    const struct am_fit_area *area = gap_block(place->gap)->area;
    uint64_t n_returning = 0;

    if (fit->stats.aliases > 0)
        n_returning = am_fit_pages_returning(fit, area, first, n, &place->is_busy);
    place->n_moves = place->n_missing - n_returning;
    return n_returning * COST_RETURNS + place->n_moves * cost_unmapped(fit, size);
}

/*
 * Keeps the better one of the best place so far and this one, which loses `loss` bytes for later
 * blocks.  Each check makes a place dearer, and
 * most are rejected before their pages are read: pages are not in the caches.
 */
static void try_at(struct am_fit *fit, const struct am_fit_request *r,
                   struct am_fit_gap *gap, uint64_t addr, uint64_t loss,
                   struct am_fit_place *best)
{
    struct am_fit_area *area = gap_block(gap)->area;
    uint64_t first = fit_page_of(fit, addr);
    uint64_t last = fit_page_of(fit, addr + r->size - 1);
    uint64_t n = last - first + 1;
    uint64_t before = fit_in_page(fit, addr);
    uint64_t behind = fit_in_page(fit, -(addr + r->size));
    bool has_left = gap_has_left(gap) && first == fit_page_of(fit, gap->addr - 1) &&
                    !is_outgrown(fit, r, gap_block(gap));
    bool has_right = gap_has_right(gap) &&
                     last == fit_page_of(fit, gap->addr + gap->size) &&
                     !is_outgrown(fit, r, gap_block(gap)->next);
    struct am_fit_place place = {
        .gap = gap, .addr = addr, .beside = loss + (before < behind ? before : behind)};
    bool waits;

    count_new(&place, r, n, has_left, has_right);
    if (!is_better(&place, best))
        return;
    place.n_missing = am_fit_pages_missing(fit, area, first, n);
    if (place.n_missing != 0) {
        if (!r->may_call || place.cost + place.n_missing * COST_RETURNS > best->cost)
            return;
        /* Where all that live in a page are asleep, it has none either. */
        count_new(&place, r, n, has_left && fit_page_at(fit, area, first)->frame,
                  has_right && fit_page_at(fit, area, last)->frame);
        place.cost += cost_missing(fit, &place, first, n, r->size);
        if (!is_better(&place, best))
            return;
    }
    place.wait = use_of_others(fit, r, gap, addr);
    waits = place.wait.streams != 0 || place.is_busy;
    if (waits && fit->config.is_apart)
        return;
    if (waits && !r->may_wait)
        place.cost += COST_WAIT;
    if (is_better(&place, best))
        *best = place;
}

/* Bytes between blocks cost pages that an engine near its limit needs for blocks. */
static bool has_room_to_skip(const struct am_fit *fit, uint64_t size)
{
    uint64_t max = fit->config.max_pages;

    return max == 0 ||
           am_fit_held(fit) + fit_page_of(fit, size) + N_SPARE + max / 16 <= max;
}

/*
 * Blocks of whole pages begin at a page: there they never share one.  So do those whose last
 * page is nearly full, which lose less that way than at two borders when their
 * neighbours go.  What they lose is little of the page, and of the block.
 */
static bool is_whole(const struct am_fit *fit, uint64_t size)
{
    uint64_t unused = fit_in_page(fit, -size);

    return has_room_to_skip(fit, size) && unused <= fit->config.page / 10 &&
           unused <= size / 100;
}

/* The bytes of a border that a block skips to begin or end at a page, unless they save one. */
static uint64_t border_skip(const struct am_fit *fit, uint64_t size, uint64_t free)
{
    uint64_t odd = fit_in_page(fit, size);

    return (odd == 0 || odd > free) && is_whole(fit, size) ? free : 0;
}

/*
 * What a place beside a border with `free` bytes loses for later blocks.  A block that
 * begins at a page makes these bytes useless, and one that does not ends the row of whole pages
 * for blocks that do, if the gap has room for such a row.  So each kind of blocks gathers in
 * separate rows.
 */
static uint64_t border_loss(const struct am_fit *fit, const struct am_fit_request *r,
                            const struct am_fit_gap *gap, uint64_t free)
{
    if (gap->size == r->size)
        return 0;
    if (is_whole(fit, r->size))
        return border_skip(fit, r->size, free);
    return free == 0 && gap->size / ROW_ROOM >= r->size ? fit->config.page : 0;
}

/*
 * The distance to an outgrown neighbour.  After the neighbour is freed, the gap holds the next block of
 * the cache, and so on: the gap moves through the cache, and nearly all pages stay in place.
 */
static uint64_t growth_room(const struct am_fit *fit, const struct am_fit_request *r,
                            const struct am_fit_gap *gap,
                            const struct am_fit_block *neighbour)
{
    uint64_t room = N_GROWING * (r->size - neighbour->size);
    uint64_t most = r->size / GROWTH_ROOM & -fit->config.unit;
    uint64_t rest = gap->size - r->size;

    room = room < most ? room : most;
    return room < rest ? room : rest;
}

/* Beside the block at the border, in a gap that is large enough. */
static void try_border(struct am_fit *fit, const struct am_fit_request *r,
                       struct am_fit_border *border, struct am_fit_place *best)
{
    struct am_fit_gap *gap = border_gap(border);
    struct am_fit_block *left = gap_block(gap);
    struct am_fit_block *neighbour = border->is_right ? left->next : left;
    uint64_t free = fit_border_free(fit, border);
    uint64_t skip = border_skip(fit, r->size, free);
    uint64_t loss = border_loss(fit, r, gap, free);
    uint64_t rest = gap->size - r->size;

    if (is_outgrown(fit, r, neighbour)) {
        skip = growth_room(fit, r, gap, neighbour);
        loss = 0;
    }
    if (rest >= skip)
        try_at(fit, r, gap, gap->addr + (border->is_right ? rest - skip : skip), loss,
               best);
}

typedef struct am_fit_border *border_step_fn(struct am_fit *fit,
                                             struct am_fit_border *border);

/*
 * A border and those after it.  Many may belong to narrow gaps; all are checked
 * only when there is no place otherwise.
 */
static void try_borders(struct am_fit *fit, const struct am_fit_request *r,
                        struct am_fit_border *border, border_step_fn *step,
                        struct am_fit_place *best)
{
    unsigned n = 0;

    for (unsigned n_checks = 0; border != NULL && n < N_BORDERS; n_checks++) {
        if (n_checks == N_CHECKS && !r->may_wait)
            return;
        if (border_gap(border)->size >= r->size) {
            try_border(fit, r, border, best);
            n++;
        }
        border = step(fit, border);
    }
}

/* Where the first block of an empty area was last time, pages may be mapped. */
static void try_empty(struct am_fit *fit, const struct am_fit_request *r,
                      struct am_fit_place *best)
{
    struct am_fit_area *area;
    unsigned n = 0;

    TAILQ_FOREACH (area, &fit->areas, link) {
        uint64_t addr = area->origin;

        if (area->is_small)
            break;
        if (area->head.gap.size != area->size || area->size < r->size)
            continue;
        if (area->base + area->size - addr < r->size)
            addr = area->base +
                   ((area->size - r->size) >> fit->page_shift << fit->page_shift);
        try_at(fit, r, &area->head.gap, addr, 0, best);
        if (++n == N_EMPTY)
            break;
    }
}

static void try_middle(struct am_fit *fit, const struct am_fit_request *r,
                       struct am_fit_place *best)
{
    struct am_fit_gap *gap = RB_MAX(am_fit_gaps, &fit->by_size);

    if (gap != NULL && gap->size / ROOM >= r->size &&
        gap->size >= ROOM * fit->config.page)
        try_at(fit, r, gap,
               (gap->addr + gap->size / 2) >> fit->page_shift << fit->page_shift, 0,
               best);
}

/* Blocks that sleep are live, and use no page. */
static bool has_little_lost(const struct am_fit *fit)
{
    uint64_t used = fit->stats.used << fit->page_shift;

    return used <= fit->stats.live + used / LITTLE;
}

/*
 * Where idle pages lie in a row.  Such a place is beside no block, so it costs up to a page more than
 * one at a border; but no page has to be moved there.
 */
static void try_rows(struct am_fit *fit, const struct am_fit_request *r, uint64_t n_pages,
                     struct am_fit_place *best)
{
    struct am_fit_gap *gap = am_fit_gap_tightest(fit, n_pages << fit->page_shift);

    for (unsigned n = 0; gap != NULL && n < N_ROWS; n++) {
        uint64_t first = fit_page_of(fit, gap->addr + fit->config.page - 1);
        uint64_t end = fit_page_of(fit, gap->addr + gap->size);

        if (am_fit_row_find(fit, gap_block(gap)->area, &first, end, n_pages))
            try_at(fit, r, gap, first << fit->page_shift, 0, best);
        gap = RB_NEXT(am_fit_gaps, &fit->by_size, gap);
    }
}

/* A gap of just this size with memory behind all of it: what a steady program finds. */
static bool is_perfect(const struct am_fit_request *r, const struct am_fit_place *best)
{
    return best->gap != NULL && best->gap->size == r->size && best->wait.streams == 0 &&
           best->cost == best->n_new * COST_NEW;
}

/* The tightest gaps for small blocks of at least `size` bytes. */
static void try_holes(struct am_fit *fit, const struct am_fit_request *r, uint64_t size,
                      unsigned n, struct am_fit_place *best)
{
    struct am_fit_gap *gap = am_fit_hole_tightest(fit, size);

    for (; gap != NULL && n > 0 && best->cost != 0; n--) {
        try_at(fit, r, gap, gap->addr, 0, best);
        gap = am_fit_hole_larger(fit, gap);
    }
}

static void find_small(struct am_fit *fit, const struct am_fit_request *r,
                       struct am_fit_place *best)
{
    struct am_fit_gap *gap;

    if (r->size > fit->config.page)
        return;
    gap = am_fit_small_choose(fit, r->size);
    if (gap != NULL)
        try_at(fit, r, gap, gap->addr, 0, best);
    /* Another stream has work there, or all that live there are asleep. */
    try_holes(fit, r, r->size, N_BUSY, best);
    try_holes(fit, r, fit->config.page, N_EMPTY, best);
}

static void find_large(struct am_fit *fit, const struct am_fit_request *r,
                       struct am_fit_place *best)
{
    uint64_t odd = fit_in_page(fit, r->size);
    uint64_t n_pages = (r->size + fit->config.page - 1) >> fit->page_shift;
    uint64_t fresh = n_pages * (COST_NEW + cost_unmapped(fit, r->size));
    struct am_fit_gap *gap = am_fit_gap_tightest(fit, r->size);

    for (unsigned n = 0; gap != NULL && n < N_TIGHTEST; n++) {
        if (gap->left.is_in)
            try_border(fit, r, &gap->left, best);
        if (gap->right.is_in && (gap->size != r->size || !gap->left.is_in))
            try_border(fit, r, &gap->right, best); /* not the same place */
        gap = RB_NEXT(am_fit_gaps, &fit->by_size, gap);
    }
    if (is_perfect(r, best) && (best->n_new == 0 || r->may_grow))
        return;
    try_borders(fit, r, am_fit_border_first(fit, odd), am_fit_border_next, best);
    if (best->cost >= n_pages * COST_NEW) {
        /* No page is saved: what is left of one becomes larger where most of it was free. */
        try_borders(fit, r, am_fit_border_below(fit, odd), am_fit_border_previous, best);
        try_borders(fit, r, am_fit_border_first(fit, 0), am_fit_border_next, best);
    }
    if (best->cost > n_pages * COST_NEW)
        try_empty(fit, r, best);
    if (best->cost > fresh)
        try_middle(fit, r, best);
    if (best->n_moves > 0 && has_little_lost(fit))
        try_rows(fit, r, n_pages, best);
}

int am_fit_place_find(struct am_fit *fit, const struct am_fit_request *r,
                      struct am_fit_place *best)
{
    /*
     * Small blocks have pages of their own.  In the holes beside large ones they would
     * stay behind when the large ones go, each in a separate page.
     */
    bool is_small = (r->size < fit->config.page / 4) != r->is_guest;
    uint64_t span = is_small ? fit->config.page : fit->config.span;
    struct am_fit_area *area;
    int rc = 0;

    *best = (struct am_fit_place){.cost = UINT64_MAX};
    if (is_small)
        find_small(fit, r, best);
    else
        find_large(fit, r, best);
    if (best->gap != NULL)
        return best->n_new == 0 || r->may_grow ? 0 : AM_FIT_GROWS;
    if (!r->may_call)
        return AM_FIT_GROWS;
    if (r->is_guest)
        return AM_FIT_LIMIT;

    /* Half of an area lies before its first block. */
    if (!is_small && r->size > span / 2)
        span = 2 * am_align_up(r->size, fit->config.page);
    area = am_fit_area_create(fit, span, is_small, &rc);
    if (area != NULL)
        try_at(fit, r, &area->head.gap, area->origin, 0, best);
    return rc;
}

/* Beside one block: its page's free bytes and the new pages, as far as the gap goes. */
static uint64_t largest_beside(struct am_fit *fit, uint64_t n_pages)
{
    uint64_t page = fit->config.page, unit = fit->config.unit;
    struct am_fit_border *border;
    uint64_t largest = 0;

    for (border = am_fit_border_first(fit, 0); border != NULL;
         border = am_fit_border_next(fit, border)) {
        struct am_fit_gap *gap = border_gap(border);
        uint64_t size = (n_pages << fit->page_shift) + fit_border_free(fit, border);

        size = size < gap->size ? size : gap->size;
        largest = size > largest ? size : largest;
    }
    if (largest > 0 &&
        is_whole(fit, largest)) /* a little less need not begin at a page */
        largest = ((largest - 1) & -page) + (page / 10 * 9 - 1) / unit * unit;
    return largest;
}

uint64_t am_fit_largest(struct am_fit *fit, uint64_t n_pages)
{
    uint64_t largest = n_pages << fit->page_shift;
    uint64_t beside = largest_beside(fit, n_pages);
    uint64_t in_page = am_fit_hole_widest(fit);

    largest = beside > largest ? beside : largest;
    return in_page > largest ? in_page : largest;
}
