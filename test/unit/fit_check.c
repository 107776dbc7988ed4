/* See fit_check.h. */
#include "fit_check.h"

#include "fit/internal.h"

/* The counters, counted again. */
struct count {
    struct am_fit_stats stats;
    uint64_t n_gaps;
    uint64_t n_mapped; /* pages that map a frame */
    uint64_t n_places; /* pages in the lists of the frames */
};

/* Each page in the frame's list maps it, and has it only if it is the owner. */
static const char *check_frame(const struct am_fit_frame *frame, struct count *count)
{
    const struct am_fit_page *page;
    unsigned n = 0;

    LIST_FOREACH (page, &frame->places, at) {
        n++;
        if ((page == frame->owner ? page->frame : page->alias) != frame)
            return "a frame is not mapped where it should be";
    }
    count->n_places += n;
    return n == frame->n_places ? NULL : "a frame does not know its places";
}

static const char *check_page(const struct am_fit *fit, struct am_fit_area *area,
                              struct am_fit_page *page, struct count *count)
{
    uint64_t i = (uint64_t)(page - area->pages);
    uint64_t addr = area->base + (i << fit->page_shift);
    bool bit = area->mapped[i / 64] >> i % 64 & 1;
    struct am_fit_block *block;
    uint32_t n_live = 0, n_awake = 0;

    if (bit != (page->frame != NULL))
        return "a page's bit and its memory disagree";
    if (page->n_live > 0) {
        for (block = &area->head; block != NULL; block = block->next) {
            if (block->addr < addr + fit->config.page &&
                block->addr + block->size > addr && block->size != 0) {
                n_live++;
                n_awake += !block->is_asleep;
            }
        }
    }
    if (n_live != page->n_live || n_awake != page->n_awake)
        return "a page does not know its blocks";
    if (n_awake > 0 && page->frame == NULL)
        return "an awake block has no memory";
    if (page->frame != NULL && (page->alias != NULL || page->frame->owner != page))
        return "a page has memory that is behind another page";
    if (page->alias != NULL && (page->alias->owner == page || n_live > 0))
        return "a page with blocks maps memory that it does not have";
    count->n_mapped += page->frame != NULL || page->alias != NULL;
    count->stats.aliases += page->alias != NULL;
    count->stats.used += page->frame != NULL && n_live > 0;
    count->stats.idle += page->frame != NULL && n_live == 0;
    return page->frame != NULL ? check_frame(page->frame, count) : NULL;
}

static const char *check_blocks(struct am_fit *fit, struct am_fit_area *area,
                                struct count *count)
{
    struct am_fit_block *block;
    uint64_t at = area->base;
    bool is_run = false;

    for (block = &area->head; block != NULL; block = block->next) {
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
            if (!area->is_small &&
                RB_FIND(am_fit_gaps, &fit->by_size, &block->gap) != &block->gap)
                return "a gap is not in the index";
        }
        for (uint64_t i = fit_page_of(fit, block->addr); block->size != 0 && i <= last;
             i++) {
            struct am_fit_page *page = fit_page_at(fit, area, i);

            if (page->n_live == 0)
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

    for (uint64_t i = 0; wrong == NULL && i < area->n_pages; i++) {
        struct am_fit_page *page = &area->pages[i];

        wrong = check_page(fit, area, page, count);
        n_mapped += page->frame != NULL || page->alias != NULL;
    }
    if (wrong == NULL && n_mapped != area->n_mapped)
        wrong = "an area does not know how many pages are mapped";
    return wrong;
}

/* The lists of frames and pages, beside what was counted in the areas. */
static const char *check_lists(const struct am_fit *fit, struct count *count)
{
    const struct am_fit_frame *frame;
    const struct am_fit_page *page;
    uint64_t n_idle = 0, n_aliases = 0, n_loose = 0;

    TAILQ_FOREACH (page, &fit->idle, link) {
        n_idle++;
        if (page->frame == NULL || page->n_live > 0)
            return "a page that is not idle is in the list of the idle ones";
    }
    TAILQ_FOREACH (page, &fit->aliases, link) {
        n_aliases++;
        if (page->alias == NULL)
            return "a page that is no alias is in the list of the aliases";
    }
    LIST_FOREACH (frame, &fit->loose, link) {
        const char *wrong = check_frame(frame, count);

        n_loose++;
        if (wrong != NULL || frame->owner != NULL)
            return wrong != NULL ? wrong : "a loose frame has an owner";
    }
    if (n_idle != count->stats.idle || fit->stats.idle != n_idle ||
        fit->stats.used != count->stats.used || fit->stats.loose != n_loose)
        return "the numbers of pages are wrong";
    if (n_aliases != count->stats.aliases || fit->stats.aliases != n_aliases ||
        count->n_places != count->n_mapped)
        return "the numbers of mappings are wrong";
    return NULL;
}

/* A bin has what belongs there; *ret_n is how many all of them have. */
static const char *check_bins(const struct am_fit *fit, const struct am_fit_bins *bins,
                              uint64_t (*bytes_of)(const struct am_fit *,
                                                   struct am_fit_border *),
                              uint64_t *ret_n)
{
    struct am_fit_border *border;

    *ret_n = 0;
    for (uint32_t i = 0; i < N_BINS; i++) {
        if ((bins->bits[i / 64] >> i % 64 & 1) == LIST_EMPTY(&bins->lists[i]))
            return "a bit and the list behind it disagree";
        if ((bins->words >> i / 64 & 1) != (bins->bits[i / 64] != 0))
            return "a bit and the word of bits behind it disagree";
        LIST_FOREACH (border, &bins->lists[i], in_bin) {
            ++*ret_n;
            if (bytes_of(fit, border) >> fit->bin_shift != i)
                return "a gap is in the wrong bin";
        }
    }
    return NULL;
}

static uint64_t hole_bytes(const struct am_fit *fit, struct am_fit_border *border)
{
    struct am_fit_gap *gap = border_gap(border);

    return gap_block(gap)->area->is_small ? gap->size - 1 : UINT64_MAX;
}

static uint64_t free_bytes(const struct am_fit *fit, struct am_fit_border *border)
{
    struct am_fit_gap *gap = border_gap(border);

    if (gap_block(gap)->area->is_small)
        return UINT64_MAX;
    return fit_border_free(fit, border);
}

static const char *check_index(struct am_fit *fit, uint64_t n_gaps)
{
    uint64_t n_holes, n_borders, n_sides = 0, n = 0;
    const char *wrong = check_bins(fit, &fit->holes, hole_bytes, &n_holes);
    struct am_fit_gap *gap;

    if (wrong == NULL)
        wrong = check_bins(fit, &fit->borders, free_bytes, &n_borders);
    if (wrong != NULL)
        return wrong;
    RB_FOREACH (gap, am_fit_gaps, &fit->by_size) {
        n++;
        n_sides += (uint64_t)gap_has_left(gap) + gap_has_right(gap);
    }
    if (n + n_holes != n_gaps)
        return "an empty gap is in the index";
    return n_borders == n_sides ? NULL : "a border is in no bin, or does not exist";
}

const char *am_fit_check(struct am_fit *fit)
{
    struct count count = {0};
    struct am_fit_area *area;
    const char *wrong = NULL;

    TAILQ_FOREACH (area, &fit->areas, link) {
        wrong = check_area(fit, area, &count);
        if (wrong != NULL)
            return wrong;
    }
    wrong = check_lists(fit, &count);
    if (wrong != NULL)
        return wrong;
    if (fit->stats.live != count.stats.live || fit->stats.n_live != count.stats.n_live ||
        fit->stats.runs != count.stats.runs)
        return "the numbers of blocks are wrong";
    return check_index(fit, count.n_gaps);
}
