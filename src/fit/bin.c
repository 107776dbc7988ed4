/*
 * The gaps of the pages of small blocks.
 *
 * A small block lies in one page, and so does each gap beside it.  Then a gap has one of 4096
 * sizes, and each size has a list: two looks at a bitmap find the tightest gap that serves.
 * The gap of a page without blocks is the whole page, and in the last list.
 */
#include "fit/internal.h"

static unsigned bin_of(const struct am_fit *fit, uint64_t size)
{
    return (unsigned)((size >> fit->class_shift) - 1);
}

void am_fit_bin_insert(struct am_fit *fit, struct am_fit_gap *gap)
{
    struct am_fit_bins *bins = &fit->bins;
    unsigned i = bin_of(fit, gap->size);
    struct am_fit_gap *first = LIST_FIRST(&bins->gaps[i]);

    /* The lowest first, nearly: low pages fill, and high ones become empty. */
    if (first != NULL && first->addr < gap->addr)
        LIST_INSERT_AFTER(first, gap, in_bin);
    else
        LIST_INSERT_HEAD(&bins->gaps[i], gap, in_bin);
    bins->bits[i / 64] |= 1ull << i % 64;
    bins->words |= 1ull << i / 64;
}

void am_fit_bin_remove(struct am_fit *fit, struct am_fit_gap *gap)
{
    struct am_fit_bins *bins = &fit->bins;
    unsigned i = bin_of(fit, gap->size);

    LIST_REMOVE(gap, in_bin);
    if (!LIST_EMPTY(&bins->gaps[i]))
        return;
    bins->bits[i / 64] &= ~(1ull << i % 64);
    if (bins->bits[i / 64] == 0)
        bins->words &= ~(1ull << i / 64);
}

/* The first gap of the bins from i on. */
static struct am_fit_gap *bin_first(struct am_fit_bins *bins, unsigned i)
{
    unsigned word = i / 64;
    uint64_t bits, words;

    if (i >= N_CLASSES)
        return NULL;
    bits = bins->bits[word] >> i % 64;
    if (bits != 0)
        return LIST_FIRST(&bins->gaps[i + (unsigned)__builtin_ctzll(bits)]);
    words = bins->words >> word >> 1;
    if (words == 0)
        return NULL;
    word += 1 + (unsigned)__builtin_ctzll(words);
    return LIST_FIRST(
        &bins->gaps[64 * word + (unsigned)__builtin_ctzll(bins->bits[word])]);
}

struct am_fit_gap *am_fit_bin_tightest(struct am_fit *fit, uint64_t size)
{
    return bin_first(&fit->bins, bin_of(fit, size));
}

struct am_fit_gap *am_fit_bin_larger(struct am_fit *fit, struct am_fit_gap *gap)
{
    struct am_fit_gap *next = LIST_NEXT(gap, in_bin);

    return next != NULL ? next : bin_first(&fit->bins, bin_of(fit, gap->size) + 1);
}

uint64_t am_fit_bin_widest(const struct am_fit *fit)
{
    for (unsigned i = N_CLASSES - 1; i-- > 0;) {
        if (!LIST_EMPTY(&fit->bins.gaps[i]))
            return (i + 1ull) << fit->class_shift;
    }
    return 0;
}
