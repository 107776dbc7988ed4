/*
 * Small blocks, and the gaps of their pages.
 *
 * A small block lies in one page, and so does each gap beside it.  Then a gap has one of 4096
 * sizes, and each size has a list: two lookups in a bitmap find the tightest gap that serves.
 * The gap of a page without blocks is the whole page, and in the last list.
 *
 * In a page with memory that other blocks live in, a small block is placed and freed without a check of
 * pages, idle ones and costs.  That is nearly always so, and has separate functions: a program
 * leaves little of the engine in the caches, so that each line of code and data counts.
 */
#include "fit/internal.h"

#define N_TIGHTEST 4

static uint64_t bin_of(const struct am_fit *fit, uint64_t size)
{
    return (size >> fit->bin_shift) - 1;
}

void am_fit_hole_insert(struct am_fit *fit, struct am_fit_gap *gap)
{
    am_fit_bin_insert(&fit->holes, &gap->left, bin_of(fit, gap->size));
}

void am_fit_hole_remove(struct am_fit *fit, struct am_fit_gap *gap)
{
    am_fit_bin_remove(&fit->holes, &gap->left, bin_of(fit, gap->size));
}

/* The bins have the left border of each hole. */
static struct am_fit_gap *hole_of(struct am_fit_border *border)
{
    return border != NULL ? border_gap(border) : NULL;
}

struct am_fit_gap *am_fit_hole_tightest(struct am_fit *fit, uint64_t size)
{
    return hole_of(am_fit_bin_first(&fit->holes, bin_of(fit, size)));
}

struct am_fit_gap *am_fit_hole_larger(struct am_fit *fit, struct am_fit_gap *gap)
{
    return hole_of(am_fit_bin_next(&fit->holes, &gap->left, bin_of(fit, gap->size)));
}

uint64_t am_fit_hole_widest(const struct am_fit *fit)
{
    for (unsigned i = N_BINS - 1; i-- > 0;) {
        if (!LIST_EMPTY(&fit->holes.lists[i]))
            return (i + 1ull) << fit->bin_shift;
    }
    return 0;
}

struct am_fit_gap *am_fit_small_choose(struct am_fit *fit, uint64_t size)
{
    struct am_fit_gap *gap = am_fit_hole_tightest(fit, size), *lowest = NULL;

    for (unsigned n = 0; n < N_TIGHTEST; n++) {
        if (gap == NULL || gap->size == fit->config.page)
            break;
        if (lowest == NULL || gap->addr < lowest->addr)
            lowest = gap;
        if (gap->size == size)
            break;
        gap = am_fit_hole_larger(fit, gap);
    }
    return lowest;
}

static struct am_fit_page *small_page(const struct am_fit_block *block)
{
    return &block->area->pages[0];
}

bool am_fit_small_place(struct am_fit *fit, struct am_fit_block *block, uint64_t size,
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
    am_fit_hole_remove(fit, gap);
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
    if (block->gap.size != 0)
        am_fit_hole_insert(fit, &block->gap);
    /* The block begins a run at the start of the page, and ends one where it fills the gap. */
    fit->stats.runs += left->size == 0;
    fit->stats.runs -= next != NULL && block->gap.size == 0;
    return true;
}

bool am_fit_small_leave(struct am_fit *fit, struct am_fit_block *block,
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
    if (gap->size != 0) {
        am_fit_hole_remove(fit, gap);
        use_add(&use, gap->head);
    }
    if (block->gap.size != 0) {
        am_fit_hole_remove(fit, &block->gap);
        use_add(&use, block->gap.head);
    }
    /* The block began a run unless it adjoins another one, and so does the next from now on. */
    fit->stats.runs -= left->size == 0 || gap->size != 0;
    fit->stats.runs += next != NULL && block->gap.size == 0;
    gap->size += block->size + block->gap.size;
    gap->head = use;
    block_remove(block);
    am_fit_hole_insert(fit, gap);
    return true;
}
