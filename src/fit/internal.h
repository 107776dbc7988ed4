/* What the files of the placement engine share.  fit.h has the idea. */
#ifndef AM_FIT_INTERNAL_H
#define AM_FIT_INTERNAL_H

#include <bsd/sys/tree.h>
#include <sys/queue.h>

#include "base/util.h"
#include "fit/fit.h"

#define N_BINS 4096 /* for the bytes of a page, in units */
#define LINE 64u    /* bytes of a cache line */

struct am_fit_area;
struct am_fit_gap;

/*
 * One page of memory.  It is behind its owner alone; places where it was before may still map it,
 * and have nothing of it until it is theirs again.
 */
struct am_fit_frame {
    void *memory;                    /* what the operations know it by */
    struct am_fit_page *owner;       /* NULL: it is loose */
    LIST_HEAD(, am_fit_page) places; /* that map it, the owner's among them */
    unsigned n_places;
    LIST_ENTRY(am_fit_frame) link; /* of the loose ones */
};

/* One page of addresses. */
struct am_fit_page {
    struct am_fit_frame *frame; /* the memory behind it, or NULL */
    struct am_fit_frame *alias; /* mapped there, but not behind it; then frame is NULL */
    LIST_ENTRY(am_fit_page) at; /* of the frame's or the alias's places */
    uint32_t n_live;            /* live blocks that touch it */
    uint32_t n_awake;
    struct am_fit_area *area;      /* NULL: no block touched it yet, and all is 0 */
    struct am_fit_use use;         /* idle, or an alias: work that may still touch it */
    TAILQ_ENTRY(am_fit_page) link; /* idle, or an alias: in the order of becoming so */
};

TAILQ_HEAD(am_fit_pages, am_fit_page);

/* One end of a gap. */
struct am_fit_border {
    LIST_ENTRY(am_fit_border) in_bin;
    bool is_right;
    bool is_in; /* false: the area ends there, without a neighbour */
};

/* Borders by a number of bytes up to a page: two lookups in a bitmap find the next one. */
struct am_fit_bins {
    uint64_t words;             /* a bit for each word that is not 0 */
    uint64_t bits[N_BINS / 64]; /* a bit for each list that is not empty */
    LIST_HEAD(, am_fit_border) lists[N_BINS];
};

/* The free addresses behind a block, up to the next block or the area's end. */
struct am_fit_gap {
    struct am_fit_use head; /* work on its bytes in its first page, where blocks live */
    uint64_t addr;
    uint64_t size;             /* 0: no gap, in no index */
    struct am_fit_border left; /* in a page of small blocks the rest is not used */
    struct am_fit_border right;
    RB_ENTRY(am_fit_gap) node;
    struct am_fit_use tail; /* as head, of its last page, if that is another one */
};

RB_HEAD(am_fit_gaps, am_fit_gap);

struct am_fit_block {
    uint64_t addr;
    uint64_t size; /* 0: the head of its area */
    struct am_fit_area *area;
    struct am_fit_block *prev, *next; /* of the area, by address; the head is the first */
    bool is_asleep;
    struct am_fit_gap gap; /* behind it */
};

_Static_assert(offsetof(struct am_fit_block, gap.addr) == LINE &&
                   offsetof(struct am_fit_block, gap.node) == 2 * LINE,
               "a lookup of a block, and of a gap, reads one cache line");

/* Addresses reserved in one go. */
struct am_fit_area {
    uint64_t base;
    uint64_t size;
    uint64_t origin;   /* where the first block of the empty area goes */
    uint64_t n_mapped; /* pages with a frame or an alias */
    bool is_small;     /* one page, for small blocks only */
    struct am_fit_block head;
    TAILQ_ENTRY(am_fit_area) link;
    uint64_t n_pages;
    struct am_fit_page *pages; /* the records of pages without a block take no memory */
    uint64_t *mapped;          /* a bit for each page with a frame */
};

struct am_fit {
    struct am_fit_config config;
    const struct am_fit_ops *ops;
    void *ctx;
    unsigned page_shift;
    unsigned bin_shift; /* bytes -> bin */
    uint64_t streams;   /* that ever used a block */

    TAILQ_HEAD(, am_fit_area) areas; /* those of one page come last */
    struct am_fit_gaps by_size;      /* the gaps beside large blocks */
    struct am_fit_bins
        borders;              /* their borders, by the free bytes of the border's page */
    struct am_fit_bins holes; /* the gaps of pages for small blocks, by size */
    struct am_fit_pages idle;
    struct am_fit_pages aliases;
    LIST_HEAD(, am_fit_frame) loose; /* without an owner */
    struct am_fit_use late;          /* found in this placement: not over yet */
    struct am_fit_block *spare;      /* records without a block: a list through next */
    struct am_fit_stats stats;
};

static inline uint64_t fit_page_of(const struct am_fit *fit, uint64_t addr)
{
    return addr >> fit->page_shift;
}

static inline uint64_t fit_in_page(const struct am_fit *fit, uint64_t addr)
{
    return addr & (fit->config.page - 1);
}

static inline struct am_fit_page *
fit_page_at(const struct am_fit *fit, const struct am_fit_area *area, uint64_t page)
{
    return &area->pages[page - fit_page_of(fit, area->base)];
}

/* The first page that the block touches, and the last one. */
static inline struct am_fit_page *fit_block_pages(const struct am_fit *fit,
                                                  const struct am_fit_block *block,
                                                  struct am_fit_page **ret_last)
{
    uint64_t last = fit_page_of(fit, block->addr + block->size - 1);

    *ret_last = fit_page_at(fit, block->area, last);
    return fit_page_at(fit, block->area, fit_page_of(fit, block->addr));
}

static inline uint64_t fit_page_addr(const struct am_fit *fit,
                                     const struct am_fit_page *page)
{
    return page->area->base + ((uint64_t)(page - page->area->pages) << fit->page_shift);
}

static inline void use_add(struct am_fit_use *use, struct am_fit_use more)
{
    use->streams |= more.streams;
    if (more.streams != 0 && more.ticket > use->ticket)
        use->ticket = more.ticket;
}

RB_PROTOTYPE(am_fit_gaps, am_fit_gap, node, )

/* gap.c: the index.  A gap of size 0 is not in it. */
void am_fit_gap_insert(struct am_fit *fit, struct am_fit_gap *gap);
void am_fit_gap_remove(struct am_fit *fit, struct am_fit_gap *gap);
/* The tightest gap of at least `size` bytes, which the next larger one follows; NULL: none. */
struct am_fit_gap *am_fit_gap_tightest(struct am_fit *fit, uint64_t size);
/* The border with the fewest free bytes, but at least `free`, and the next one; NULL: none. */
struct am_fit_border *am_fit_border_first(struct am_fit *fit, uint64_t free);
struct am_fit_border *am_fit_border_next(struct am_fit *fit,
                                         struct am_fit_border *border);
/* The border with the most free bytes, but less than `free`, and the next one; NULL: none. */
struct am_fit_border *am_fit_border_below(struct am_fit *fit, uint64_t free);
struct am_fit_border *am_fit_border_previous(struct am_fit *fit,
                                             struct am_fit_border *border);

/* In pages of small blocks: the tightest gap of at least `size` bytes, and the next one. */
struct am_fit_gap *am_fit_hole_tightest(struct am_fit *fit, uint64_t size);
struct am_fit_gap *am_fit_hole_larger(struct am_fit *fit, struct am_fit_gap *gap);
/* The largest gap beside a block, in bytes. */
uint64_t am_fit_hole_widest(const struct am_fit *fit);
/*
 * A gap of just this size, or the lowest of the tightest ones: low pages fill, and high ones
 * become empty.  NULL: none in a page with blocks.
 */
struct am_fit_gap *am_fit_small_choose(struct am_fit *fit, uint64_t size);

static inline void block_insert_after(struct am_fit_block *left,
                                      struct am_fit_block *block)
{
    block->prev = left;
    block->next = left->next;
    if (block->next != NULL)
        block->next->prev = block;
    left->next = block;
}

static inline void block_remove(struct am_fit_block *block)
{
    block->prev->next = block->next;
    if (block->next != NULL)
        block->next->prev = block->prev;
}

static inline struct am_fit_block *gap_block(struct am_fit_gap *gap)
{
    return AM_CONTAINER_OF(gap, struct am_fit_block, gap);
}

static inline struct am_fit_gap *border_gap(struct am_fit_border *border)
{
    return border->is_right ? AM_CONTAINER_OF(border, struct am_fit_gap, right)
                            : AM_CONTAINER_OF(border, struct am_fit_gap, left);
}

/* The bytes of the gap in the page in which the border's block ends or begins. */
static inline uint64_t fit_border_free(const struct am_fit *fit,
                                       struct am_fit_border *border)
{
    struct am_fit_gap *gap = border_gap(border);

    return fit_in_page(fit, border->is_right ? gap->addr + gap->size : -gap->addr);
}

/* Whether a block lies before the gap, and behind it. */
static inline bool gap_has_left(struct am_fit_gap *gap)
{
    return gap_block(gap)->size != 0;
}

static inline bool gap_has_right(struct am_fit_gap *gap)
{
    return gap_block(gap)->next != NULL;
}

/* The work that may touch the gap's bytes in one of its pages where blocks live too. */
struct am_fit_use am_fit_gap_use(const struct am_fit *fit, const struct am_fit_gap *gap,
                                 uint64_t page);

/* place.c: the choice. */
struct am_fit_request {
    uint64_t size;
    uint64_t stream; /* its bit */
    bool may_wait;   /* a wait for another stream costs nothing */
    bool may_grow;   /* the block may need pages in which none lives */
    bool may_call;   /* and such without memory */
    bool
        is_guest; /* beside blocks of the other kind, small or large: there is no room else */
};

struct am_fit_place {
    struct am_fit_gap *gap;
    uint64_t addr;
    uint64_t cost;
    uint64_t n_new;     /* pages in which no block lives */
    uint64_t n_missing; /* pages without memory */
    uint64_t n_moves;   /* those of them to which no memory returns by itself */
    bool is_busy;       /* the caller has to wait before one of them can have some */
    uint64_t beside; /* free bytes of its first or last page, the fewer, and its loss */
    uint64_t rest;   /* free bytes that the place leaves beside itself */
    struct am_fit_use wait;
};

int am_fit_place_find(struct am_fit *fit, const struct am_fit_request *r,
                      struct am_fit_place *ret_place);
/* Whether a part of the held pages is idle beyond what a block of `size` bytes needs. */
bool am_fit_has_idle(const struct am_fit *fit, uint64_t size, uint64_t part);
/* Drops the streams that do not prevent the action; whether none is left. */
bool am_fit_use_is_over(struct am_fit *fit, struct am_fit_use *use,
                        enum am_fit_action action);

/* page.c: memory behind addresses. */
struct am_fit_area *am_fit_area_create(struct am_fit *fit, uint64_t size, bool is_small,
                                       int *ret_rc);
/* With nothing mapped in it. */
void am_fit_area_destroy(struct am_fit *fit, struct am_fit_area *area);
/*
 * The first of n pages in a row that have memory, from `*page` on and before `end`; false: there
 * are none, or not among the first ones.
 */
bool am_fit_row_find(const struct am_fit *fit, const struct am_fit_area *area,
                     uint64_t *page, uint64_t end, uint64_t n);
/* How many of n pages have no memory. */
uint64_t am_fit_pages_missing(const struct am_fit *fit, const struct am_fit_area *area,
                              uint64_t page, uint64_t n);
/*
 * How many of them need no call to have some: what they still map is idle.  *ret_is_busy is set
 * where another one cannot have any yet: work is queued on what it maps, and that is in use.
 */
uint64_t am_fit_pages_returning(struct am_fit *fit, const struct am_fit_area *area,
                                uint64_t page, uint64_t n, bool *ret_is_busy);
/* Where no block lives: the queued work on the memory that one would get there. */
struct am_fit_use am_fit_page_use(const struct am_fit_page *page);
/* The block comes to live in its pages, or leaves: idle pages are those without one. */
void am_fit_pages_pin(struct am_fit *fit, const struct am_fit_block *block);
void am_fit_pages_unpin(struct am_fit *fit, const struct am_fit_block *block,
                        struct am_fit_use use);
/* Notes whether a block is awake. */
void am_fit_block_set_awake(struct am_fit *fit, struct am_fit_block *block,
                            bool is_awake);
/*
 * Memory behind all pages of the block.  A block that is placed there comes after the queued
 * work in stream order; a page where a block is asleep gets memory without any.
 */
int am_fit_pages_fill(struct am_fit *fit, const struct am_fit_block *block,
                      struct am_fit_use *ret_wait);
/* The page's memory goes: it is idle, or all its blocks are asleep. */
int am_fit_page_drop(struct am_fit *fit, struct am_fit_page *page);
/* A loose frame goes. */
int am_fit_frame_drop(struct am_fit *fit, struct am_fit_frame *frame);

#endif
