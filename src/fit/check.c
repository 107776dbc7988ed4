/* The invariants of the engine, for tests: every one of them, slowly. */
#include "fit/internal.h"

/* What the books should say, counted anew. */
struct count {
    struct am_fit_stats stats;
    uint64_t n_gaps;
};

static const char *check_page(const struct am_fit *fit, struct am_fit_area *area,
                              struct am_fit_page *page, struct count *count)
{
    uint64_t i = fit_page_of(fit, page->addr - area->base);
    bool bit = area->groups[i / GROUP_PAGES]->mapped[i % GROUP_PAGES / 64] >> i % 64 & 1;
    struct am_fit_block *block;
    uint32_t n_live = 0, n_awake = 0;

    if (bit != (page->frame != NULL))
        return "a page's bit and its memory disagree";
    if (page->n_live > 0) {
        TAILQ_FOREACH (block, &area->blocks, link) {
            if (block->addr < page->addr + fit->config.page &&
                block->addr + block->size > page->addr && block->size != 0) {
                n_live++;
                n_awake += !block->is_asleep;
            }
        }
    }
    if (n_live != page->n_live || n_awake != page->n_awake)
        return "a page does not know its blocks";
    if (n_awake > 0 && page->frame == NULL)
        return "an awake block has no memory";
    count->stats.used += page->frame != NULL && n_live > 0;
    count->stats.idle += page->frame != NULL && n_live == 0;
    return NULL;
}

static const char *check_blocks(struct am_fit *fit, struct am_fit_area *area,
                                struct count *count)
{
    struct am_fit_block *block;
    uint64_t at = area->base;
    bool is_run = false;

    TAILQ_FOREACH (block, &area->blocks, link) {
        uint64_t last = fit_page_of(fit, block->addr + block->size - 1);

        if (block->addr != at || block->gap.addr != at + block->size ||
            block->area != area)
            return "blocks and gaps do not follow each other";
        at += block->size + block->gap.size;
        count->stats.live += block->size;
        count->stats.n_live += block->size != 0;
        count->stats.runs += block->size != 0 && !is_run;
        is_run = block->size != 0 && block->gap.size == 0;
        if (block->gap.size != 0) {
            count->n_gaps++;
            if (RB_FIND(am_fit_gaps, &gap_index(fit, &block->gap)->by_size,
                        &block->gap) != &block->gap)
                return "a gap is not in the index";
        }
        for (uint64_t i = fit_page_of(fit, block->addr); block->size != 0 && i <= last;
             i++) {
            struct am_fit_page *page = am_fit_page_find(fit, area, i);

            if (page == NULL || page->n_live == 0)
                return "a block lies in a page that does not know it";
        }
    }
    return at == area->base + area->size ? NULL : "the area has another size";
}

static const char *check_area(struct am_fit *fit, struct am_fit_area *area,
                              struct count *count)
{
    const char *wrong = check_blocks(fit, area, count);
    uint64_t n_mapped = 0;

    for (uint64_t i = 0; wrong == NULL && i < area->n_groups; i++) {
        if (area->groups[i] == NULL)
            continue;
        for (unsigned j = 0; wrong == NULL && j < GROUP_PAGES; j++) {
            struct am_fit_page *page = &area->groups[i]->pages[j];

            wrong = check_page(fit, area, page, count);
            n_mapped += page->frame != NULL;
        }
    }
    if (wrong == NULL && n_mapped != area->n_mapped)
        wrong = "an area does not know how many pages are mapped";
    return wrong;
}

static const char *check_index(struct am_fit_index *index, uint64_t *n_gaps)
{
    struct am_fit_border *border;
    struct am_fit_gap *gap;

    RB_FOREACH (gap, am_fit_gaps, &index->by_size)
        ++*n_gaps;
    for (uint32_t i = 0; i < N_CLASSES; i++) {
        uint64_t widest = 0;

        RB_FOREACH (border, am_fit_borders, &index->borders[i]) {
            if (border->class != i || border->gap->size < widest)
                return "a border is in the wrong class, or out of order";
            widest = border->gap->size;
        }
        if (index->widest[N_CLASSES + i] != widest)
            return "a class does not know its widest gap";
    }
    for (uint32_t i = 1; i < N_CLASSES; i++) {
        uint64_t left = index->widest[2 * i], right = index->widest[2 * i + 1];

        if (index->widest[i] != (left > right ? left : right))
            return "the tree of the widest gaps is wrong";
    }
    return NULL;
}

const char *am_fit_check(struct am_fit *fit)
{
    struct count count = {0};
    struct am_fit_area *area;
    struct am_fit_page *page;
    const char *wrong = NULL;
    uint64_t n_idle = 0;
    uint64_t n_gaps = 0;

    TAILQ_FOREACH (area, &fit->areas, link) {
        wrong = check_area(fit, area, &count);
        if (wrong != NULL)
            return wrong;
    }
    TAILQ_FOREACH (page, &fit->idle, link) {
        n_idle++;
        if (page->frame == NULL || page->n_live > 0)
            return "a page that is not idle is in the list of the idle ones";
    }
    if (n_idle != count.stats.idle || fit->stats.idle != count.stats.idle ||
        fit->stats.used != count.stats.used)
        return "the numbers of pages are wrong";
    if (fit->stats.live != count.stats.live || fit->stats.n_live != count.stats.n_live ||
        fit->stats.runs != count.stats.runs)
        return "the numbers of blocks are wrong";
    for (unsigned i = 0; wrong == NULL && i < 2; i++)
        wrong = check_index(&fit->index[i], &n_gaps);
    return wrong == NULL && n_gaps != count.n_gaps ? "a gap that is none is in the index"
                                                   : wrong;
}
