/*
 * Areas of addresses, and the memory behind their pages.
 *
 * A page is unused (no memory, no block), used (blocks and memory), idle (memory, no block),
 * or asleep (blocks, all of them asleep, and no memory).  A frame is behind exactly one page, or
 * loose: that is what is left when mapping a frame failed after it was unmapped elsewhere.
 */
#include <string.h>

#include "base/sys.h"
#include "fit/internal.h"

/* How many idle pages are asked whether their work is done before the caller has to wait. */
#define N_VICTIMS 8

struct am_fit_area *am_fit_area_create(struct am_fit *fit, uint64_t size, bool is_small,
                                       int *ret_rc)
{
    struct am_fit_area *area = am_sys_calloc(1, sizeof *area);
    uint64_t n_groups = (size >> fit->page_shift) / GROUP_PAGES + 1;

    *ret_rc = AM_FIT_NO_MEMORY;
    if (area == NULL)
        return NULL;
    area->groups = am_sys_calloc(n_groups, sizeof *area->groups);
    if (area->groups == NULL)
        goto err_area;
    *ret_rc = fit->ops->reserve(fit->ctx, size, &area->base);
    if (*ret_rc != 0)
        goto err_groups;

    area->size = size;
    area->is_small = is_small;
    area->n_groups = n_groups;
    /* Blocks are placed on both sides of the first one. */
    area->origin = area->base + ((size >> fit->page_shift) / 2 << fit->page_shift);
    TAILQ_INIT(&area->blocks);
    area->head.addr = area->base;
    area->head.area = area;
    TAILQ_INSERT_TAIL(&area->blocks, &area->head, link);
    area->head.gap.addr = area->base;
    area->head.gap.size = size;
    am_fit_gap_insert(fit, &area->head.gap);
    TAILQ_INSERT_TAIL(&fit->areas, area, link);
    fit->stats.areas++;
    return area;

err_groups:
    free(area->groups);
err_area:
    free(area);
    return NULL;
}

void am_fit_area_destroy(struct am_fit *fit, struct am_fit_area *area)
{
    am_fit_gap_remove(fit, &area->head.gap);
    TAILQ_REMOVE(&fit->areas, area, link);
    fit->stats.areas--;
    fit->ops->release(fit->ctx, area->base, area->size);
    for (uint64_t i = 0; i < area->n_groups; i++)
        free(area->groups[i]);
    free(area->groups);
    free(area);
}

int am_fit_pages_prepare(struct am_fit *fit, struct am_fit_area *area, uint64_t addr,
                         uint64_t size)
{
    uint64_t first = fit_page_of(fit, addr - area->base) / GROUP_PAGES;
    uint64_t last = fit_page_of(fit, addr - area->base + size - 1) / GROUP_PAGES;

    for (uint64_t i = first; i <= last; i++) {
        struct am_fit_group *group = area->groups[i];

        if (group != NULL)
            continue;
        group = am_sys_calloc(1, sizeof *group);
        if (group == NULL)
            return AM_FIT_NO_MEMORY;
        for (unsigned j = 0; j < GROUP_PAGES; j++) {
            group->pages[j].addr =
                area->base + ((i * GROUP_PAGES + j) << fit->page_shift);
            group->pages[j].area = area;
        }
        area->groups[i] = group;
    }
    return 0;
}

struct am_fit_page *am_fit_page_find(const struct am_fit *fit,
                                     const struct am_fit_area *area, uint64_t page)
{
    uint64_t i = page - fit_page_of(fit, area->base);
    struct am_fit_group *group = area->groups[i / GROUP_PAGES];

    return group != NULL ? &group->pages[i % GROUP_PAGES] : NULL;
}

uint64_t am_fit_pages_missing(const struct am_fit *fit, const struct am_fit_area *area,
                              uint64_t page, uint64_t n)
{
    uint64_t i = page - fit_page_of(fit, area->base);
    uint64_t n_mapped = 0;

    for (uint64_t end = i + n; i < end;) {
        const struct am_fit_group *group = area->groups[i / GROUP_PAGES];
        unsigned bit = (unsigned)(i % 64);
        uint64_t step = end - i < 64 - bit ? end - i : 64 - bit;

        if (group != NULL) {
            uint64_t all = step < 64 ? (1ull << step) - 1 : UINT64_MAX;
            uint64_t word = group->mapped[i % GROUP_PAGES / 64] >> bit & all;

            /* Mostly all or none: counting the bits is a call on old processors. */
            if (word == all)
                n_mapped += step;
            else if (word != 0)
                n_mapped += (unsigned)__builtin_popcountll(word);
        }
        i += step;
    }
    return n - n_mapped;
}

static void page_set_frame(struct am_fit *fit, struct am_fit_page *page, void *frame)
{
    struct am_fit_area *area = page->area;
    uint64_t i = fit_page_of(fit, page->addr - area->base);
    uint64_t *word = &area->groups[i / GROUP_PAGES]->mapped[i % GROUP_PAGES / 64];

    page->frame = frame;
    if (frame != NULL)
        *word |= 1ull << i % 64;
    else
        *word &= ~(1ull << i % 64);
    if (frame != NULL)
        area->n_mapped++;
    else
        area->n_mapped--;
}

void am_fit_pages_pin(struct am_fit *fit, struct am_fit_area *area, uint64_t addr,
                      uint64_t size)
{
    for (uint64_t i = fit_page_of(fit, addr), last = fit_page_of(fit, addr + size - 1);
         i <= last; i++) {
        struct am_fit_page *page = am_fit_page_find(fit, area, i);

        if (page->n_live++ == 0 && page->frame != NULL) {
            TAILQ_REMOVE(&fit->idle, page, link);
            fit->stats.idle--;
            fit->stats.used++;
        }
        page->n_awake++;
    }
}

void am_fit_pages_unpin(struct am_fit *fit, struct am_fit_area *area, uint64_t addr,
                        uint64_t size, struct am_fit_use use)
{
    for (uint64_t i = fit_page_of(fit, addr), last = fit_page_of(fit, addr + size - 1);
         i <= last; i++) {
        struct am_fit_page *page = am_fit_page_find(fit, area, i);

        page->n_awake--;
        if (--page->n_live == 0 && page->frame != NULL) {
            use_add(&page->use, use);
            TAILQ_INSERT_TAIL(&fit->idle, page, link);
            fit->stats.idle++;
            fit->stats.used--;
        }
    }
}

void am_fit_pages_settle(struct am_fit *fit, struct am_fit_area *area, uint64_t addr,
                         uint64_t size)
{
    for (uint64_t i = fit_page_of(fit, addr), last = fit_page_of(fit, addr + size - 1);
         i <= last; i++)
        am_fit_page_find(fit, area, i)->use = (struct am_fit_use){0};
}

void am_fit_block_set_awake(struct am_fit *fit, struct am_fit_block *block, bool is_awake)
{
    uint64_t last = fit_page_of(fit, block->addr + block->size - 1);

    if (block->is_asleep == !is_awake)
        return;
    block->is_asleep = !is_awake;
    for (uint64_t i = fit_page_of(fit, block->addr); i <= last; i++) {
        struct am_fit_page *page = am_fit_page_find(fit, block->area, i);

        page->n_awake += is_awake ? 1u : -1u;
    }
}

static uint64_t fit_held(const struct am_fit *fit)
{
    return fit->stats.used + fit->stats.idle + fit->stats.loose;
}

/* A place for one more loose frame, before there is one. */
static int loose_prepare(struct am_fit *fit)
{
    uint64_t room = fit->loose_room == 0 ? 16 : 2 * fit->loose_room;
    void **more;

    if (fit->stats.loose < fit->loose_room)
        return 0;
    more = am_sys_realloc(fit->loose, room * sizeof *more);
    if (more == NULL)
        return AM_FIT_NO_MEMORY;
    fit->loose = more;
    fit->loose_room = room;
    return 0;
}

/* The page's frame becomes loose. */
static int page_detach(struct am_fit *fit, struct am_fit_page *page)
{
    int rc = loose_prepare(fit);

    if (rc == 0)
        rc = fit->ops->unmap(fit->ctx, page->addr, page->frame);
    if (rc != 0)
        return rc;
    fit->loose[fit->stats.loose++] = page->frame;
    page_set_frame(fit, page, NULL);
    if (page->n_live == 0) {
        TAILQ_REMOVE(&fit->idle, page, link);
        fit->stats.idle--;
    } else {
        fit->stats.used--;
    }
    page->use = (struct am_fit_use){0};
    return 0;
}

/* The page idle longest among the first few whose work is done; NULL: none. */
static struct am_fit_page *victim_find(struct am_fit *fit)
{
    struct am_fit_page *page;
    unsigned n = 0;

    TAILQ_FOREACH (page, &fit->idle, link) {
        if (page->use.streams == 0 || fit->ops->pending(fit->ctx, &page->use) == 0)
            return page;
        if (++n == N_VICTIMS)
            break;
    }
    return NULL;
}

static int frame_create(struct am_fit *fit)
{
    void *frame;
    int rc = loose_prepare(fit);

    if (rc == 0 && fit->config.max_pages != 0 && fit_held(fit) >= fit->config.max_pages)
        rc = AM_FIT_LIMIT;
    if (rc == 0)
        rc = fit->ops->create(fit->ctx, &frame);
    if (rc != 0)
        return rc;
    fit->loose[fit->stats.loose++] = frame;
    fit->stats.creates++;
    if (fit_held(fit) > fit->stats.peak_held)
        fit->stats.peak_held = fit_held(fit);
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
    if (fit_held(fit) < fit->config.ample && frame_create(fit) == 0)
        return 0;
    victim = victim_find(fit);
    if (victim != NULL) {
        rc = page_detach(fit, victim);
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

int am_fit_pages_fill(struct am_fit *fit, struct am_fit_area *area, uint64_t addr,
                      uint64_t size, struct am_fit_use *ret_wait)
{
    for (uint64_t i = fit_page_of(fit, addr), last = fit_page_of(fit, addr + size - 1);
         i <= last; i++) {
        struct am_fit_page *page = am_fit_page_find(fit, area, i);
        void *frame;
        int rc;

        if (page->frame != NULL)
            continue;
        rc = frame_get(fit, ret_wait);
        if (rc != 0)
            return rc;
        frame = fit->loose[fit->stats.loose - 1];
        rc = fit->ops->map(fit->ctx, page->addr, frame);
        if (rc != 0)
            return rc;
        fit->stats.loose--;
        page_set_frame(fit, page, frame);
        fit->stats.used++;
    }
    return 0;
}

int am_fit_page_drop(struct am_fit *fit, struct am_fit_page *page)
{
    int rc = page_detach(fit, page);

    if (rc == 0)
        fit->ops->destroy(fit->ctx, fit->loose[--fit->stats.loose]);
    return rc;
}
