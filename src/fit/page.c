/*
 * Areas of addresses, and the memory behind their pages.
 *
 * A page is unused (no memory, no block), used (blocks and memory), idle (memory, no block),
 * or asleep (blocks, all of them asleep, and no memory).  A frame is behind exactly one page, or
 * loose: that is what is left when mapping a frame failed after it left another page.
 *
 * Where a page may be mapped in several places, a frame that leaves an unused page stays mapped
 * there: the page is an alias.  A block that comes to live there while the frame is idle elsewhere
 * gets the frame back without a call.  Its work runs after the work of the other place in stream
 * order, as it does in a page that is idle in place; so nothing is waited for, and the alias that
 * the other place then is may still have queued work.  It is unmapped when that is over.
 *
 * When the work of a frame's owner is done, the work of its aliases is: it ran before.
 */
#include <string.h>

#include "base/sys.h"
#include "fit/internal.h"

/* How many idle pages are asked whether their work is done before the caller has to wait. */
#define N_VICTIMS 8
/* Pages with memory, and 64 pages without, that a search for a row of pages checks. */
#define N_CHECKS 8192

struct am_fit_area *am_fit_area_create(struct am_fit *fit, uint64_t size, bool is_small,
                                       int *ret_rc)
{
    struct am_fit_area *area = am_sys_calloc(1, sizeof *area);
    uint64_t n_pages = size >> fit->page_shift;
    uint64_t n_words = n_pages / 64 + 1;

    *ret_rc = AM_FIT_NO_MEMORY;
    if (area == NULL)
        return NULL;
    area->pages =
        am_sys_calloc(1, n_pages * sizeof *area->pages + n_words * sizeof *area->mapped);
    if (area->pages == NULL)
        goto err_area;
    *ret_rc = fit->ops->reserve(fit->ctx, size, &area->base);
    if (*ret_rc != 0)
        goto err_pages;

    area->size = size;
    area->is_small = is_small;
    area->n_pages = n_pages;
    area->mapped = (uint64_t *)(area->pages + n_pages);
    /* Blocks are placed on both sides of the first one. */
    area->origin = area->base + (n_pages / 2 << fit->page_shift);
    area->head.addr = area->base;
    area->head.area = area;
    area->head.gap.addr = area->base;
    area->head.gap.size = size;
    am_fit_gap_insert(fit, &area->head.gap);
    if (is_small)
        TAILQ_INSERT_TAIL(&fit->areas, area, link);
    else
        TAILQ_INSERT_HEAD(&fit->areas, area, link);
    return area;

err_pages:
    free(area->pages);
err_area:
    free(area);
    return NULL;
}

void am_fit_area_destroy(struct am_fit *fit, struct am_fit_area *area)
{
    am_fit_gap_remove(fit, &area->head.gap);
    TAILQ_REMOVE(&fit->areas, area, link);
    fit->ops->release(fit->ctx, area->base, area->size);
    free(area->pages);
    free(area);
}

uint64_t am_fit_pages_missing(const struct am_fit *fit, const struct am_fit_area *area,
                              uint64_t page, uint64_t n)
{
    uint64_t i = page - fit_page_of(fit, area->base);
    uint64_t n_mapped = 0;

    for (uint64_t end = i + n; i < end;) {
        uint64_t step = end - i < 64 - i % 64 ? end - i : 64 - i % 64;
        uint64_t all = step < 64 ? (1ull << step) - 1 : UINT64_MAX;
        uint64_t word = area->mapped[i / 64] >> i % 64 & all;

        /* Mostly all or none: counting the bits is a call on old processors. */
        if (word == all)
            n_mapped += step;
        else if (word != 0)
            n_mapped += (unsigned)__builtin_popcountll(word);
        i += step;
    }
    return n - n_mapped;
}

bool am_fit_row_find(const struct am_fit *fit, const struct am_fit_area *area,
                     uint64_t *page, uint64_t end, uint64_t n)
{
    uint64_t base = fit_page_of(fit, area->base);
    uint64_t in_row = 0;
    unsigned n_checks = 0;

    for (uint64_t i = *page - base; i < end - base && n_checks < N_CHECKS; n_checks++) {
        uint64_t word = area->mapped[i / 64] >> i % 64;

        if (word == 0) {
            i = (i | 63) + 1;
            in_row = 0;
            continue;
        }
        in_row = (word & 1) != 0 ? in_row + 1 : 0;
        i++;
        if (in_row == n) {
            *page = base + i - n;
            return true;
        }
    }
    return false;
}

/*
 * Whether the work on an idle page or an alias is over.  A question that is answered with no may be
 * a call, so within one placement later work of the same streams is not asked for.
 */
static bool idle_is_over(struct am_fit *fit, struct am_fit_page *page)
{
    struct am_fit_use *use = &page->use;

    if ((use->streams & fit->late.streams) != 0 && use->ticket >= fit->late.ticket)
        return false;
    if (am_fit_use_is_over(fit, use, AM_FIT_UNMAP))
        return true;
    fit->late = *use;
    return false;
}

/* The frame that the page still maps is loose or idle. */
static bool page_may_return(const struct am_fit_page *page)
{
    const struct am_fit_frame *frame = page->alias;

    return frame != NULL && (frame->owner == NULL || frame->owner->n_live == 0);
}

struct am_fit_use am_fit_page_use(const struct am_fit_page *page)
{
    if (page->frame != NULL)
        return page->use;
    if (page_may_return(page) && page->alias->owner != NULL)
        return page->alias->owner->use;
    return (struct am_fit_use){0}; /* a page that moves there has none */
}

uint64_t am_fit_pages_returning(struct am_fit *fit, const struct am_fit_area *area,
                                uint64_t page, uint64_t n, bool *ret_is_busy)
{
    uint64_t n_returning = 0;

    for (uint64_t i = page; i < page + n; i++) {
        struct am_fit_page *p = fit_page_at(fit, area, i);

        if (p->alias == NULL)
            continue;
        if (page_may_return(p))
            n_returning++;
        else if (!idle_is_over(fit, p))
            *ret_is_busy = true;
    }
    return n_returning;
}

/* Whether the page has memory. */
static void page_set_bit(struct am_fit_page *page, bool is_set)
{
    uint64_t i = (uint64_t)(page - page->area->pages);
    uint64_t *word = &page->area->mapped[i / 64];

    if (is_set)
        *word |= 1ull << i % 64;
    else
        *word &= ~(1ull << i % 64);
}

void am_fit_pages_pin(struct am_fit *fit, const struct am_fit_block *block)
{
    struct am_fit_page *last, *page = fit_block_pages(fit, block, &last);

    for (; page <= last; page++) {
        page->area = block->area;
        if (page->n_live++ == 0 && page->frame != NULL) {
            TAILQ_REMOVE(&fit->idle, page, link);
            fit->stats.idle--;
            fit->stats.used++;
        }
        page->n_awake++;
    }
}

void am_fit_pages_unpin(struct am_fit *fit, const struct am_fit_block *block,
                        struct am_fit_use use)
{
    struct am_fit_page *last, *page = fit_block_pages(fit, block, &last);

    for (; page <= last; page++) {
        page->n_awake--;
        if (--page->n_live == 0 && page->frame != NULL) {
            use_add(&page->use, use);
            TAILQ_INSERT_TAIL(&fit->idle, page, link);
            fit->stats.idle++;
            fit->stats.used--;
        }
    }
}

void am_fit_block_set_awake(struct am_fit *fit, struct am_fit_block *block, bool is_awake)
{
    struct am_fit_page *last, *page = fit_block_pages(fit, block, &last);

    if (block->is_asleep == !is_awake)
        return;
    block->is_asleep = !is_awake;
    for (; page <= last; page++)
        page->n_awake += is_awake ? 1u : -1u;
}

uint64_t am_fit_held(const struct am_fit *fit)
{
    return fit->stats.used + fit->stats.idle + fit->stats.loose;
}

/* A loose frame, mapped at a page where a block is to live, comes to be behind it. */
static void page_take(struct am_fit *fit, struct am_fit_page *page,
                      struct am_fit_frame *frame)
{
    LIST_REMOVE(frame, link);
    fit->stats.loose--;
    frame->owner = page;
    page->frame = frame;
    page_set_bit(page, true);
    fit->stats.used++;
}

/* The page's frame becomes loose; it is still mapped there, and may have queued work there. */
static void page_yield(struct am_fit *fit, struct am_fit_page *page)
{
    struct am_fit_frame *frame = page->frame;

    if (page->n_live == 0) {
        TAILQ_REMOVE(&fit->idle, page, link);
        fit->stats.idle--;
    } else {
        fit->stats.used--;
    }
    page_set_bit(page, false);
    page->frame = NULL;
    page->alias = frame;
    TAILQ_INSERT_TAIL(&fit->aliases, page, link);
    fit->stats.aliases++;
    frame->owner = NULL;
    LIST_INSERT_HEAD(&fit->loose, frame, link);
    fit->stats.loose++;
}

static void place_remove(struct am_fit_page *page, struct am_fit_frame *frame)
{
    LIST_REMOVE(page, at);
    frame->n_places--;
    page->area->n_mapped--;
    page->use = (struct am_fit_use){0};
}

static void alias_end(struct am_fit *fit, struct am_fit_page *page)
{
    TAILQ_REMOVE(&fit->aliases, page, link);
    fit->stats.aliases--;
    page->alias = NULL;
}

/* The work there is over. */
static int alias_unmap(struct am_fit *fit, struct am_fit_page *page)
{
    struct am_fit_frame *frame = page->alias;
    int rc = fit->ops->unmap(fit->ctx, fit_page_addr(fit, page), frame->memory);

    if (rc != 0)
        return rc;
    alias_end(fit, page);
    place_remove(page, frame);
    return 0;
}

/* The page's frame becomes loose, and is no longer mapped there. */
static int page_detach(struct am_fit *fit, struct am_fit_page *page)
{
    struct am_fit_frame *frame = page->frame;
    int rc = fit->ops->unmap(fit->ctx, fit_page_addr(fit, page), frame->memory);

    if (rc != 0)
        return rc;
    page_yield(fit, page);
    alias_end(fit, page);
    place_remove(page, frame);
    return 0;
}

/* The same for a frame that goes to another page: it may stay mapped here. */
static int page_move_out(struct am_fit *fit, struct am_fit_page *page)
{
    if (!fit->config.is_aliased)
        return page_detach(fit, page);
    page_yield(fit, page);
    return 0;
}

/*
 * One of the pages idle longest whose work is done; NULL: none of the first few.  It is one
 * that is mapped in the fewest places: the others are likely to be wanted in theirs again.
 */
static struct am_fit_page *victim_find(struct am_fit *fit)
{
    struct am_fit_page *victim = NULL;
    struct am_fit_page *page;
    unsigned n = 0;

    TAILQ_FOREACH (page, &fit->idle, link) {
        if ((victim == NULL || page->frame->n_places < victim->frame->n_places) &&
            idle_is_over(fit, page))
            victim = page;
        if (++n == N_VICTIMS || (victim != NULL && victim->frame->n_places == 1))
            break;
    }
    return victim;
}

static int frame_create(struct am_fit *fit)
{
    struct am_fit_frame *frame;
    int rc;

    if (fit->config.max_pages != 0 && am_fit_held(fit) >= fit->config.max_pages)
        return AM_FIT_LIMIT;
    frame = am_sys_calloc(1, sizeof *frame);
    if (frame == NULL)
        return AM_FIT_NO_MEMORY;
    rc = fit->ops->create(fit->ctx, &frame->memory);
    if (rc != 0) {
        free(frame);
        return rc;
    }
    LIST_INSERT_HEAD(&fit->loose, frame, link);
    fit->stats.loose++;
    fit->stats.creates++;
    return 0;
}

/* Has at least one loose frame: one that is, an idle page's, or a new one. */
static int frame_get(struct am_fit *fit, struct am_fit_use *ret_wait)
{
    struct am_fit_page *victim;
    struct am_fit_page *oldest = TAILQ_FIRST(&fit->idle);
    int rc;

    if (fit->stats.loose > 0)
        return 0;
    /* Where that fails an idle page will do. */
    if (am_fit_held(fit) < fit->config.ample && frame_create(fit) == 0)
        return 0;
    victim = victim_find(fit);
    if (victim != NULL) {
        rc = page_move_out(fit, victim);
        fit->stats.remaps += rc == 0;
        return rc;
    }
    if (oldest == NULL || fit->stats.idle <= fit->config.slack) {
        rc = frame_create(fit);
        if (rc == 0 || oldest == NULL)
            return rc;
    }
    *ret_wait = oldest->use;
    return AM_FIT_BUSY;
}

/* The memory that the page had before, and still maps, if it is to be had. */
static void page_return(struct am_fit *fit, struct am_fit_page *page)
{
    struct am_fit_frame *frame = page->alias;

    if (!page_may_return(page))
        return;
    page->use = am_fit_page_use(page); /* it stays if the block gets no place after all */
    if (frame->owner != NULL)
        page_yield(fit, frame->owner);
    alias_end(fit, page);
    page_take(fit, page, frame);
    fit->stats.returns++;
}

/*
 * There are no more aliases than pages: the oldest ones without queued work go.  Few are asked for
 * theirs; one that has none is the alias of the page that moved last.  One that cannot be unmapped
 * stays.
 */
static void aliases_limit(struct am_fit *fit)
{
    struct am_fit_page *page = TAILQ_FIRST(&fit->aliases), *next;
    unsigned n = 0, n_unmapped = 0;

    for (; page != NULL && n_unmapped < 2 && fit->stats.aliases > am_fit_held(fit);
         page = next) {
        next = TAILQ_NEXT(page, link);
        if (page->use.streams != 0 && (n++ >= N_VICTIMS || !idle_is_over(fit, page)))
            continue;
        alias_unmap(fit, page);
        n_unmapped++;
    }
}

static int page_fill(struct am_fit *fit, struct am_fit_page *page,
                     struct am_fit_use *ret_wait)
{
    struct am_fit_frame *frame;
    int rc;

    if (page->alias != NULL && !idle_is_over(fit, page)) {
        *ret_wait = page->use;
        return AM_FIT_BUSY;
    }
    rc = frame_get(fit, ret_wait);
    if (rc == 0 && page->alias != NULL)
        rc = alias_unmap(fit, page);
    if (rc != 0)
        return rc;
    frame = LIST_FIRST(&fit->loose);
    rc = fit->ops->map(fit->ctx, fit_page_addr(fit, page), frame->memory);
    if (rc != 0)
        return rc;
    LIST_INSERT_HEAD(&frame->places, page, at);
    frame->n_places++;
    page->area->n_mapped++;
    page_take(fit, page, frame);
    aliases_limit(fit);
    return 0;
}

int am_fit_pages_fill(struct am_fit *fit, const struct am_fit_block *block,
                      struct am_fit_use *ret_wait)
{
    struct am_fit_page *last, *first = fit_block_pages(fit, block, &last);
    int rc = 0;

    /* Before one page takes what another could have without a call. */
    for (struct am_fit_page *page = first; fit->stats.aliases > 0 && page <= last; page++)
        page_return(fit, page);
    for (struct am_fit_page *page = first; rc == 0 && page <= last; page++)
        rc = page->frame == NULL ? page_fill(fit, page, ret_wait) : 0;
    return rc;
}

int am_fit_frame_drop(struct am_fit *fit, struct am_fit_frame *frame)
{
    while (!LIST_EMPTY(&frame->places)) {
        int rc = alias_unmap(fit, LIST_FIRST(&frame->places));

        if (rc != 0)
            return rc;
    }
    LIST_REMOVE(frame, link);
    fit->stats.loose--;
    fit->ops->destroy(fit->ctx, frame->memory);
    free(frame);
    return 0;
}

int am_fit_page_drop(struct am_fit *fit, struct am_fit_page *page)
{
    int rc = page_detach(fit, page);

    if (rc == 0)
        rc = am_fit_frame_drop(fit, LIST_FIRST(&fit->loose));
    return rc;
}
