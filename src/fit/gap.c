/*
 * The index of gaps.
 *
 * The gaps beside large blocks are in one tree by size, for the tightest one.  Their two borders
 * are in bins by the free bytes of the border's page, in steps of a 4096th of a page.  A small
 * block lies in one page, and so does each gap beside it.  Such a gap has one of 4096 sizes, and
 * its left border is in a bin by its size; the gap of a page without blocks is the whole page,
 * and in the last bin.  So all but the tree takes a few instructions, and few cache lines: a
 * program leaves little of the engine in the caches.
 */
#include "fit/internal.h"

#define N_TIGHTEST 4 /* gaps of small blocks that are compared */

static int gap_compare(struct am_fit_gap *a, struct am_fit_gap *b)
{
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return (a->addr > b->addr) - (a->addr < b->addr);
}

RB_GENERATE(am_fit_gaps, am_fit_gap, node, gap_compare)

static void bin_insert(struct am_fit_bins *bins, struct am_fit_border *border, uint64_t i)
{
    struct am_fit_border *first = LIST_FIRST(&bins->lists[i]);

    /* The tightest and the lowest first, nearly: low pages fill, and high ones become empty. */
    if (first != NULL && gap_compare(border_gap(first), border_gap(border)) < 0)
        LIST_INSERT_AFTER(first, border, in_bin);
    else
        LIST_INSERT_HEAD(&bins->lists[i], border, in_bin);
    bins->bits[i / 64] |= 1ull << i % 64;
    bins->words |= 1ull << i / 64;
}

static void bin_remove(struct am_fit_bins *bins, struct am_fit_border *border, uint64_t i)
{
    LIST_REMOVE(border, in_bin);
    if (!LIST_EMPTY(&bins->lists[i]))
        return;
    bins->bits[i / 64] &= ~(1ull << i % 64);
    if (bins->bits[i / 64] == 0)
        bins->words &= ~(1ull << i / 64);
}

/* The first border from a bin on. */
static struct am_fit_border *bin_first(struct am_fit_bins *bins, uint64_t i)
{
    uint64_t word = i / 64;
    uint64_t bits, words;

    if (i >= N_BINS)
        return NULL;
    bits = bins->bits[word] >> i % 64;
    if (bits != 0)
        return LIST_FIRST(&bins->lists[i + (unsigned)__builtin_ctzll(bits)]);
    words = bins->words >> word >> 1;
    if (words == 0)
        return NULL;
    word += 1 + (unsigned)__builtin_ctzll(words);
    return LIST_FIRST(
        &bins->lists[64 * word + (unsigned)__builtin_ctzll(bins->bits[word])]);
}

static struct am_fit_border *bin_next(struct am_fit_bins *bins,
                                      struct am_fit_border *border, uint64_t i)
{
    struct am_fit_border *next = LIST_NEXT(border, in_bin);

    return next != NULL ? next : bin_first(bins, i + 1);
}

/* The first border of the last bin before this one. */
static struct am_fit_border *bin_before(struct am_fit_bins *bins, uint64_t i)
{
    uint64_t word = i / 64;
    uint64_t bits = bins->bits[word] & ((1ull << i % 64) - 1);
    uint64_t words = bins->words & ((1ull << word) - 1);

    if (bits == 0) {
        if (words == 0)
            return NULL;
        word = 63 - (unsigned)__builtin_clzll(words);
        bits = bins->bits[word];
    }
    return LIST_FIRST(&bins->lists[64 * word + 63 - (unsigned)__builtin_clzll(bits)]);
}

static uint64_t hole_bin(const struct am_fit *fit, uint64_t size)
{
    return (size >> fit->bin_shift) - 1;
}

static uint64_t bin_of(const struct am_fit *fit, struct am_fit_border *border)
{
    return fit_border_free(fit, border) >> fit->bin_shift;
}

static void border_insert(struct am_fit *fit, struct am_fit_border *border, bool is_right)
{
    border->is_right = is_right;
    bin_insert(&fit->borders, border, bin_of(fit, border));
}

void am_fit_gap_insert(struct am_fit *fit, struct am_fit_gap *gap)
{
    if (gap->size == 0)
        return;
    if (gap_block(gap)->area->is_small) {
        bin_insert(&fit->holes, &gap->left, hole_bin(fit, gap->size));
        return;
    }
    if (fit_page_of(fit, gap->addr) == fit_page_of(fit, gap->addr + gap->size - 1))
        use_add(&gap->head, gap->tail);
    RB_INSERT(am_fit_gaps, &fit->by_size, gap);
    gap->left.is_in = gap_has_left(gap);
    gap->right.is_in = gap_has_right(gap);
    if (gap->left.is_in)
        border_insert(fit, &gap->left, false);
    if (gap->right.is_in)
        border_insert(fit, &gap->right, true);
}

void am_fit_gap_remove(struct am_fit *fit, struct am_fit_gap *gap)
{
    if (gap->size == 0)
        return;
    if (gap_block(gap)->area->is_small) {
        bin_remove(&fit->holes, &gap->left, hole_bin(fit, gap->size));
        return;
    }
    RB_REMOVE(am_fit_gaps, &fit->by_size, gap);
    if (gap->left.is_in)
        bin_remove(&fit->borders, &gap->left, bin_of(fit, &gap->left));
    if (gap->right.is_in)
        bin_remove(&fit->borders, &gap->right, bin_of(fit, &gap->right));
}

struct am_fit_gap *am_fit_gap_tightest(struct am_fit *fit, uint64_t size)
{
    struct am_fit_gap key = {.size = size};

    return RB_NFIND(am_fit_gaps, &fit->by_size, &key);
}

struct am_fit_border *am_fit_border_first(struct am_fit *fit, uint64_t free)
{
    return bin_first(&fit->borders, free >> fit->bin_shift);
}

struct am_fit_border *am_fit_border_next(struct am_fit *fit, struct am_fit_border *border)
{
    return bin_next(&fit->borders, border, bin_of(fit, border));
}

struct am_fit_border *am_fit_border_below(struct am_fit *fit, uint64_t free)
{
    return bin_before(&fit->borders, free >> fit->bin_shift);
}

struct am_fit_border *am_fit_border_previous(struct am_fit *fit,
                                             struct am_fit_border *border)
{
    struct am_fit_border *next = LIST_NEXT(border, in_bin);

    return next != NULL ? next : bin_before(&fit->borders, bin_of(fit, border));
}

static struct am_fit_gap *hole_of(struct am_fit_border *border)
{
    return border != NULL ? border_gap(border) : NULL;
}

struct am_fit_gap *am_fit_hole_tightest(struct am_fit *fit, uint64_t size)
{
    return hole_of(bin_first(&fit->holes, hole_bin(fit, size)));
}

struct am_fit_gap *am_fit_hole_larger(struct am_fit *fit, struct am_fit_gap *gap)
{
    return hole_of(bin_next(&fit->holes, &gap->left, hole_bin(fit, gap->size)));
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

struct am_fit_use am_fit_gap_use(const struct am_fit *fit, const struct am_fit_gap *gap,
                                 uint64_t page)
{
    if (gap->size != 0 && page == fit_page_of(fit, gap->addr))
        return gap->head;
    if (gap->size != 0 && page == fit_page_of(fit, gap->addr + gap->size - 1))
        return gap->tail;
    return (struct am_fit_use){0};
}
