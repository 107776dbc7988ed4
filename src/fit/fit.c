/* Placing and freeing blocks; fit.h has the idea, gap.c the index, page.c the memory. */
#include "fit/fit.h"

#include <string.h>

#include "base/sys.h"
#include "fit/internal.h"

/* So large a part of the held pages has to be idle before a block takes some unasked. */
#define MANY 8

#define BLOCK_SIZE ((sizeof(struct am_fit_block) + LINE - 1) / LINE * LINE)

struct am_fit *am_fit_create(const struct am_fit_config *config,
                             const struct am_fit_ops *ops, void *ctx)
{
    struct am_fit *fit = am_sys_calloc(1, sizeof *fit);

    if (fit == NULL)
        return NULL;
    fit->config = *config;
    fit->ops = ops;
    fit->ctx = ctx;
    fit->page_shift = (unsigned)__builtin_ctzll(config->page);
    fit->bin_shift = fit->page_shift - (unsigned)__builtin_ctz(N_BINS);
    TAILQ_INIT(&fit->areas);
    TAILQ_INIT(&fit->idle);
    TAILQ_INIT(&fit->aliases);
    LIST_INIT(&fit->loose);
    return fit;
}

/* Records begin at cache lines, and so do the caller's bytes. */
static struct am_fit_block *block_take(struct am_fit *fit)
{
    size_t size = BLOCK_SIZE + am_align_up(fit->config.extra, LINE);
    struct am_fit_block *block = fit->spare;

    if (block != NULL) {
        fit->spare = block->next;
        return block;
    }
    block = am_sys_aligned_alloc(LINE, size);
    return block != NULL ? memset(block, 0, size) : NULL;
}

static void block_give(struct am_fit *fit, struct am_fit_block *block)
{
    block->next = fit->spare;
    fit->spare = block;
}

void am_fit_destroy(struct am_fit *fit)
{
    struct am_fit_frame *frame;
    struct am_fit_area *area;
    struct am_fit_block *block;
    struct am_fit_page *page;

    if (fit == NULL)
        return;
    TAILQ_FOREACH (page, &fit->aliases, link)
        fit->ops->unmap(fit->ctx, fit_page_addr(fit, page), page->alias->memory);
    while ((area = TAILQ_FIRST(&fit->areas)) != NULL) {
        for (uint64_t i = 0; i < area->n_pages; i++) {
            page = &area->pages[i];
            if (area->mapped[i / 64] == 0) {
                i |= 63;
            } else if (page->frame != NULL) {
                fit->ops->unmap(fit->ctx, fit_page_addr(fit, page), page->frame->memory);
                LIST_INSERT_HEAD(&fit->loose, page->frame, link);
            }
        }
        while ((block = area->head.next) != NULL) {
            block_remove(block);
            block_give(fit, block);
        }
        am_fit_area_destroy(fit, area);
    }
    /* Only now: places in several areas may have mapped one. */
    while ((frame = LIST_FIRST(&fit->loose)) != NULL) {
        LIST_REMOVE(frame, link);
        fit->ops->destroy(fit->ctx, frame->memory);
        free(frame);
    }
    while ((block = fit->spare) != NULL) {
        fit->spare = block->next;
        free(block);
    }
    free(fit);
}

/* What the rest of a gap has to know of a page in which a block comes to live. */
static struct am_fit_use page_use_in(const struct am_fit *fit, struct am_fit_gap *gap,
                                     uint64_t page)
{
    struct am_fit_page *p = fit_page_at(fit, gap_block(gap)->area, page);

    return p->n_live == 0 ? am_fit_page_use(p) : am_fit_gap_use(fit, gap, page);
}

/* A run begins behind a gap, and at the start of an area. */
static bool block_begins_run(struct am_fit_block *block)
{
    struct am_fit_block *before = block->prev;

    return before->size == 0 || before->gap.size != 0;
}

static bool next_begins_run(struct am_fit_block *block)
{
    return block->next != NULL && block_begins_run(block->next);
}

/* The block takes its place: the gap becomes what is left of it on both sides. */
static void block_link(struct am_fit *fit, struct am_fit_block *block,
                       struct am_fit_gap *gap, struct am_fit_use first,
                       struct am_fit_use last)
{
    struct am_fit_block *left = gap_block(gap);
    uint64_t end = gap->addr + gap->size;
    bool had_next = gap_has_right(gap);

    am_fit_gap_remove(fit, gap);
    block->gap.addr = block->addr + block->size;
    block->gap.size = end - block->gap.addr;
    block->gap.head = last;
    block->gap.tail = gap->tail;
    gap->size = block->addr - gap->addr;
    gap->tail = first;
    block_insert_after(left, block);
    am_fit_gap_insert(fit, gap);
    am_fit_gap_insert(fit, &block->gap);
    fit->stats.runs += block_begins_run(block) + next_begins_run(block) - had_next;
}

static int block_place(struct am_fit *fit, const struct am_fit_request *request,
                       struct am_fit_block *block, struct am_fit_use *ret_wait)
{
    struct am_fit_page *page, *last_page;
    struct am_fit_area *area;
    struct am_fit_use first, last;
    struct am_fit_place place;
    int rc = am_fit_place_find(fit, request, &place);

    if (rc != 0)
        return rc;
    area = gap_block(place.gap)->area;
    block->addr = place.addr;
    block->size = request->size;
    block->area = area;
    block->is_asleep = false;
    first = page_use_in(fit, place.gap, fit_page_of(fit, block->addr));
    last = page_use_in(fit, place.gap, fit_page_of(fit, block->addr + block->size - 1));
    am_fit_pages_pin(fit, block);
    if (place.n_missing != 0)
        rc = am_fit_pages_fill(fit, block, ret_wait);
    if (rc != 0) {
        am_fit_pages_unpin(fit, block, (struct am_fit_use){0});
        return rc;
    }

    /* What was queued on the pages before is over, or waited for. */
    for (page = fit_block_pages(fit, block, &last_page); page <= last_page; page++)
        page->use = (struct am_fit_use){0};
    if (area->head.gap.size == area->size)
        area->origin = place.addr;
    block_link(fit, block, place.gap, first, last);
    *ret_wait = place.wait;
    return 0;
}

static int alloc(struct am_fit *fit, struct am_fit_request request,
                 struct am_fit_block **ret_block, struct am_fit_use *ret_wait)
{
    struct am_fit_block *block = block_take(fit);
    int rc;

    *ret_wait = fit->late = (struct am_fit_use){0};
    if (block == NULL)
        return AM_FIT_NO_MEMORY;
    rc = block_place(fit, &request, block, ret_wait);
    if (rc == AM_FIT_BUSY || rc == AM_FIT_LIMIT) {
        /* Better this stream waits for another one than the caller. */
        request.may_wait = true;
        rc = block_place(fit, &request, block, ret_wait);
    }
    if (rc == AM_FIT_LIMIT || rc > 0) {
        int guest;

        /* No page is to be had: better beside strangers than nowhere. */
        request.may_wait = request.is_guest = true;
        guest = block_place(fit, &request, block, ret_wait);
        rc = guest == 0 || guest == AM_FIT_BUSY ? guest : rc;
    }
    if (rc != 0) {
        block_give(fit, block);
        return rc;
    }
    fit->streams |= request.stream;
    fit->stats.live += request.size;
    fit->stats.n_live++;
    *ret_block = block;
    return 0;
}

static uint64_t stream_bit(unsigned stream)
{
    return stream < AM_FIT_STREAMS ? 1ull << stream : 0;
}

int am_fit_alloc(struct am_fit *fit, uint64_t size, unsigned stream,
                 struct am_fit_block **ret_block, struct am_fit_use *ret_wait)
{
    struct am_fit_request request = {.size = am_align_up(size, fit->config.unit),
                                     .stream = stream_bit(stream),
                                     .may_grow = true,
                                     .may_call = true};

    return alloc(fit, request, ret_block, ret_wait);
}

static struct am_fit_page *small_page(const struct am_fit_block *block)
{
    return &block->area->pages[0];
}

/*
 * In a page with memory that other blocks live in, a small block is placed and freed without a
 * check of pages, idle ones and costs.  That is nearly always so: a program leaves little of the
 * engine in the caches, so that each line of code and data counts.  False: every place needs a
 * wait, or memory.
 */
static bool small_link(struct am_fit *fit, struct am_fit_block *block, uint64_t size,
                       uint64_t stream)
{
    struct am_fit_gap *gap = am_fit_small_choose(fit, size);
    struct am_fit_block *left, *next;
    struct am_fit_page *page;

    if (gap == NULL || (gap->head.streams & ~stream) != 0)
        return false;
    left = gap_block(gap);
    page = small_page(left);
    if (page->frame == NULL) /* all that live there are asleep */
        return false;
    page->n_live++;
    page->n_awake++;
    am_fit_gap_remove(fit, gap);
    next = left->next;
    block->addr = gap->addr;
    block->size = size;
    block->area = left->area;
    block->is_asleep = false;
    block->gap.addr = gap->addr + size;
    block->gap.size = gap->size - size;
    block->gap.head = gap->head;
    block_insert_after(left, block);
    gap->size = 0;
    am_fit_gap_insert(fit, &block->gap);
    /* The block begins a run at the start of the page, and ends one where it fills the gap. */
    fit->stats.runs += left->size == 0;
    fit->stats.runs -= next != NULL && block->gap.size == 0;
    return true;
}

struct am_fit_block *am_fit_alloc_small(struct am_fit *fit, uint64_t size,
                                        unsigned stream)
{
    struct am_fit_block *block;

    size = am_align_up(size, fit->config.unit);
    if (size >= fit->config.page / 4)
        return NULL;
    block = block_take(fit);
    if (block == NULL)
        return NULL;
    if (!small_link(fit, block, size, 1ull << stream)) {
        block_give(fit, block);
        return NULL;
    }
    fit->streams |= 1ull << stream;
    fit->stats.live += size;
    fit->stats.n_live++;
    return block;
}

int am_fit_alloc_ready(struct am_fit *fit, uint64_t size, unsigned stream,
                       struct am_fit_block **ret_block, struct am_fit_use *ret_wait)
{
    struct am_fit_request request = {.size = am_align_up(size, fit->config.unit),
                                     .stream = 1ull << stream,
                                     .may_grow = am_fit_has_idle(fit, size, MANY)};

    return alloc(fit, request, ret_block, ret_wait);
}

/*
 * A page of the block that other blocks still live in leaves its work to the gap; one that
 * became idle takes over what the gaps beside the block knew of it.
 */
static struct am_fit_use page_leave(struct am_fit *fit, struct am_fit_block *block,
                                    uint64_t page, struct am_fit_use beside,
                                    struct am_fit_use use)
{
    struct am_fit_page *p = fit_page_at(fit, block->area, page);

    if (p->n_live == 0)
        use_add(&p->use, beside);
    use_add(&beside, use);
    return beside;
}

static void block_unlink(struct am_fit *fit, struct am_fit_block *block,
                         struct am_fit_use use)
{
    struct am_fit_block *left = block->prev;
    uint64_t first = fit_page_of(fit, block->addr);
    uint64_t last = fit_page_of(fit, block->addr + block->size - 1);
    struct am_fit_use at_first = am_fit_gap_use(fit, &left->gap, first);
    struct am_fit_use at_last = am_fit_gap_use(fit, &block->gap, last);
    struct am_fit_gap *gap = &left->gap;
    bool has_next = block->next != NULL;

    fit->stats.runs +=
        has_next - (uint64_t)block_begins_run(block) - next_begins_run(block);
    if (first == last) {
        use_add(&at_first, at_last);
        at_last = at_first;
    }
    am_fit_block_set_awake(fit, block, true);
    am_fit_pages_unpin(fit, block, use);
    at_first = page_leave(fit, block, first, at_first, use);
    at_last = page_leave(fit, block, last, at_last, use);

    am_fit_gap_remove(fit, gap);
    am_fit_gap_remove(fit, &block->gap);
    block_remove(block);
    if (gap->size == 0 || fit_page_of(fit, gap->addr) == first)
        gap->head = at_first;
    if (block->gap.size == 0 ||
        fit_page_of(fit, block->gap.addr + block->gap.size - 1) == last)
        gap->tail = at_last;
    else
        gap->tail = block->gap.tail;
    gap->size += block->size + block->gap.size;
    am_fit_gap_insert(fit, gap);
}

/* A small block leaves a page in which others live; false: it does not. */
static bool small_unlink(struct am_fit *fit, struct am_fit_block *block,
                         struct am_fit_use use)
{
    struct am_fit_block *left = block->prev, *next = block->next;
    struct am_fit_gap *gap = &left->gap;
    struct am_fit_page *page;

    if (!block->area->is_small || block->is_asleep)
        return false;
    page = small_page(block);
    if (page->n_live == 1)
        return false;
    page->n_live--;
    page->n_awake--;
    am_fit_gap_remove(fit, gap);
    am_fit_gap_remove(fit, &block->gap);
    if (gap->size != 0)
        use_add(&use, gap->head);
    if (block->gap.size != 0)
        use_add(&use, block->gap.head);
    /* The block began a run unless it adjoins another one, and so does the next from now on. */
    fit->stats.runs -= left->size == 0 || gap->size != 0;
    fit->stats.runs += next != NULL && block->gap.size == 0;
    gap->size += block->size + block->gap.size;
    gap->head = use;
    block_remove(block);
    am_fit_gap_insert(fit, gap);
    return true;
}

void am_fit_free(struct am_fit *fit, struct am_fit_block *block, struct am_fit_use use)
{
    if (!small_unlink(fit, block, use))
        block_unlink(fit, block, use);
    fit->streams |= use.streams;
    fit->stats.live -= block->size;
    fit->stats.n_live--;
    block_give(fit, block);
}

int am_fit_trim(struct am_fit *fit, uint64_t keep, struct am_fit_use *ret_wait)
{
    struct am_fit_area *area, *next_area;
    struct am_fit_page *page, *next;
    int rc = 0;

    *ret_wait = (struct am_fit_use){0};
    while (rc == 0 && fit->stats.loose > 0 && fit->stats.idle + fit->stats.loose > keep)
        rc = am_fit_frame_drop(fit, LIST_FIRST(&fit->loose));
    for (page = TAILQ_FIRST(&fit->idle);
         rc == 0 && page != NULL && fit->stats.idle > keep; page = next) {
        next = TAILQ_NEXT(page, link);
        if (!am_fit_use_is_over(fit, &page->use, AM_FIT_UNMAP)) {
            if (ret_wait->streams == 0)
                *ret_wait = page->use;
            continue;
        }
        rc = am_fit_page_drop(fit, page);
    }
    for (area = TAILQ_FIRST(&fit->areas); area != NULL; area = next_area) {
        next_area = TAILQ_NEXT(area, link);
        if (area->n_mapped == 0 && area->head.gap.size == area->size)
            am_fit_area_destroy(fit, area);
    }
    return rc;
}

/* The work of freed blocks in a page where the block lives: all gaps there know of some. */
static struct am_fit_use page_freed_use(const struct am_fit *fit,
                                        struct am_fit_block *block, uint64_t page)
{
    struct am_fit_use use = {0};

    while (block->size != 0 && fit_page_of(fit, block->addr) >= page)
        block = block->prev;
    for (; block != NULL && (block->size == 0 || fit_page_of(fit, block->addr) <= page);
         block = block->next)
        use_add(&use, am_fit_gap_use(fit, &block->gap, page));
    return use;
}

int am_fit_sleep(struct am_fit *fit, struct am_fit_block *block,
                 struct am_fit_use *ret_wait)
{
    uint64_t last = fit_page_of(fit, block->addr + block->size - 1);

    *ret_wait = (struct am_fit_use){0};
    am_fit_block_set_awake(fit, block, false);
    for (uint64_t i = fit_page_of(fit, block->addr); i <= last; i++) {
        struct am_fit_page *page = fit_page_at(fit, block->area, i);
        struct am_fit_use use;
        int rc;

        if (page->n_awake > 0 || page->frame == NULL)
            continue;
        use = page_freed_use(fit, block, i);
        if (!am_fit_use_is_over(fit, &use, AM_FIT_UNMAP)) {
            use_add(ret_wait, use);
            continue;
        }
        rc = am_fit_page_drop(fit, page);
        if (rc != 0)
            return rc;
    }
    return ret_wait->streams != 0 ? AM_FIT_BUSY : 0;
}

int am_fit_wake(struct am_fit *fit, struct am_fit_block *block,
                struct am_fit_use *ret_wait)
{
    int rc;

    *ret_wait = fit->late = (struct am_fit_use){0};
    if (!block->is_asleep)
        return 0;
    rc = am_fit_pages_fill(fit, block, ret_wait);
    if (rc == 0)
        am_fit_block_set_awake(fit, block, true);
    return rc;
}

bool am_fit_is_asleep(const struct am_fit_block *block)
{
    return block->is_asleep;
}

uint64_t am_fit_addr(const struct am_fit_block *block)
{
    return block->addr;
}

uint64_t am_fit_size(const struct am_fit_block *block)
{
    return block->size;
}

void *am_fit_extra(struct am_fit_block *block)
{
    return (char *)block + BLOCK_SIZE;
}

struct am_fit_block *am_fit_next(struct am_fit *fit, struct am_fit_block *block)
{
    struct am_fit_area *area = block != NULL ? block->area : TAILQ_FIRST(&fit->areas);

    if (area == NULL)
        return NULL;
    block = block != NULL ? block->next : area->head.next;
    while (block == NULL && (area = TAILQ_NEXT(area, link)) != NULL)
        block = area->head.next;
    return block;
}

void am_fit_set_limits(struct am_fit *fit, uint64_t max_pages, uint64_t slack,
                       uint64_t ample)
{
    fit->config.max_pages = max_pages;
    fit->config.slack = slack;
    fit->config.ample = ample;
}

void am_fit_set_apart(struct am_fit *fit, bool is_apart)
{
    fit->config.is_apart = is_apart;
}

void am_fit_get_stats(const struct am_fit *fit, struct am_fit_stats *ret_stats)
{
    *ret_stats = fit->stats;
}
