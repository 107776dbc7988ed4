/*
 * The index of gaps beside large blocks; small.c has the others.
 *
 * All gaps are in one tree by size, for the tightest one.  The two borders of a gap are in
 * the tree of their class: the free bytes of the border's page, in steps of a 4096th of a page.
 * Above the classes stands a tree of maxima, so that the first class at or above some bytes
 * that has a gap of some size is found in 12 steps, whatever the number of gaps.
 */
#include "fit/internal.h"

static int gap_compare(struct am_fit_gap *a, struct am_fit_gap *b)
{
    if (a->size != b->size)
        return a->size < b->size ? -1 : 1;
    return (a->addr > b->addr) - (a->addr < b->addr);
}

RB_GENERATE(am_fit_gaps, am_fit_gap, node, gap_compare)

/* Both borders of a gap may be in one class; the left one comes first. */
static int border_compare(struct am_fit_border *a, struct am_fit_border *b)
{
    int order = gap_compare(a->gap, b->gap);

    return order != 0 ? order : (a > b) - (a < b);
}

RB_GENERATE(am_fit_borders, am_fit_border, node, border_compare)

/* The largest gap of a class has another size. */
static void class_set(struct am_fit_index *index, uint32_t class, uint64_t size)
{
    size_t i = N_CLASSES + class;

    while (index->widest[i] != size) {
        uint64_t other;

        index->widest[i] = size;
        if (i == 1)
            return;
        other = index->widest[i ^ 1];
        size = size > other ? size : other;
        i /= 2;
    }
}

/* The first class from `from` on with a gap of at least `size`; N_CLASSES: none. */
static uint32_t class_find(const struct am_fit_index *index, uint32_t from, uint64_t size)
{
    size_t i = N_CLASSES + from;

    if (from >= N_CLASSES)
        return N_CLASSES;
    while (index->widest[i] < size) {
        while (i & 1) /* a right child: nothing more below its parent */
            i /= 2;
        if (i == 0)
            return N_CLASSES;
        i++;
    }
    while (i < N_CLASSES) {
        i *= 2;
        if (index->widest[i] < size)
            i++;
    }
    return (uint32_t)(i - N_CLASSES);
}

static void border_insert(struct am_fit *fit, struct am_fit_gap *gap,
                          struct am_fit_border *border, uint64_t free, bool has_neighbour)
{
    struct am_fit_index *index = &fit->index;

    border->gap = gap;
    border->class = N_CLASSES;
    if (!has_neighbour)
        return;
    border->class = (uint32_t)(free >> fit->class_shift);
    RB_INSERT(am_fit_borders, &index->borders[border->class], border);
    if (gap->size > index->widest[N_CLASSES + border->class])
        class_set(index, border->class, gap->size);
}

static void border_remove(struct am_fit_index *index, struct am_fit_border *border)
{
    struct am_fit_border *last;

    if (border->class == N_CLASSES)
        return;
    RB_REMOVE(am_fit_borders, &index->borders[border->class], border);
    if (border->gap->size < index->widest[N_CLASSES + border->class])
        return;
    last = RB_MAX(am_fit_borders, &index->borders[border->class]);
    class_set(index, border->class, last != NULL ? last->gap->size : 0);
}

void am_fit_gap_insert(struct am_fit *fit, struct am_fit_gap *gap)
{
    if (gap->size == 0)
        return;
    if (gap_block(gap)->area->is_small) {
        am_fit_bin_insert(fit, gap);
        return;
    }
    RB_INSERT(am_fit_gaps, &fit->index.by_size, gap);
    border_insert(fit, gap, &gap->left, fit_in_page(fit, -gap->addr), gap_has_left(gap));
    border_insert(fit, gap, &gap->right, fit_in_page(fit, gap->addr + gap->size),
                  gap_has_right(gap));
}

void am_fit_gap_remove(struct am_fit *fit, struct am_fit_gap *gap)
{
    if (gap->size == 0)
        return;
    if (gap_block(gap)->area->is_small) {
        am_fit_bin_remove(fit, gap);
        return;
    }
    RB_REMOVE(am_fit_gaps, &fit->index.by_size, gap);
    border_remove(&fit->index, &gap->left);
    border_remove(&fit->index, &gap->right);
}

struct am_fit_gap *am_fit_gap_tightest(struct am_fit_index *index, uint64_t size)
{
    struct am_fit_gap key = {.size = size};

    return RB_NFIND(am_fit_gaps, &index->by_size, &key);
}

struct am_fit_gap *am_fit_gap_larger(struct am_fit_gap *gap)
{
    return RB_NEXT(am_fit_gaps, NULL, gap);
}

struct am_fit_gap *am_fit_gap_widest(struct am_fit_index *index)
{
    return RB_MAX(am_fit_gaps, &index->by_size);
}

struct am_fit_use am_fit_gap_use(const struct am_fit *fit, const struct am_fit_gap *gap,
                                 uint64_t page)
{
    struct am_fit_use use = {0};

    if (gap->size == 0)
        return use;
    if (page == fit_page_of(fit, gap->addr))
        use_add(&use, gap->head);
    if (page == fit_page_of(fit, gap->addr + gap->size - 1))
        use_add(&use, gap->tail);
    return use;
}

static struct am_fit_border *class_tightest(struct am_fit_index *index, uint32_t class,
                                            uint64_t size)
{
    struct am_fit_gap gap = {.size = size};
    struct am_fit_border key = {.gap = &gap};

    if (class == N_CLASSES)
        return NULL;
    return RB_NFIND(am_fit_borders, &index->borders[class], &key);
}

struct am_fit_border *am_fit_border_first(const struct am_fit *fit,
                                          struct am_fit_index *index, uint64_t free,
                                          uint64_t size)
{
    uint64_t class = (free + ((uint64_t)1 << fit->class_shift) - 1) >> fit->class_shift;

    return class_tightest(index, class_find(index, (uint32_t) class, size), size);
}

struct am_fit_border *am_fit_border_next(struct am_fit_index *index,
                                         struct am_fit_border *border, uint64_t size)
{
    struct am_fit_border *next = RB_NEXT(am_fit_borders, NULL, border);

    if (next != NULL)
        return next;
    return class_tightest(index, class_find(index, border->class + 1, size), size);
}
