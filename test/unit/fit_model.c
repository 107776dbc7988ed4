#include "fit_model.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fit/fit.h"
#include "fit_check.h"

#define PAGE 4096u
#define UNIT 64u
#define UNITS (PAGE / UNIT)
#define SPAN (64u * PAGE)
#define BASE ((uint64_t)1 << 40)
#define N_PAGES 2048u /* of addresses */
#define N_STREAMS 4u
#define N_BLOCKS 256u
#define N_DEPS 4096u
#define N_FRAMES 4096u

struct model_page {
    uint64_t frame;            /* 0: none */
    uint64_t freed[N_STREAMS]; /* the ticket of a stream's last use there; 0: none */
};

/*
 * A page of memory may be mapped at several addresses; blocks use it at one.  What is used at
 * another comes later in stream order, unit by unit, wherever the unit was used before.
 */
struct model_frame {
    bool is_alive;
    unsigned n_mapped;
    unsigned n_blocks;       /* that are awake */
    struct model_page *used; /* by them, or by the last ones */
    uint64_t freed[UNITS][N_STREAMS];
};

struct model_block {
    struct am_fit_block *block;
    uint64_t addr, size;
    unsigned stream;
    uint64_t also; /* other streams that use it */
};

/* From its ticket `at` on the stream's work comes after the lender's ticket. */
struct dep {
    unsigned stream, lender;
    uint64_t at, ticket;
};

struct model {
    struct am_fit *fit;
    struct model_page *pages;
    uint64_t n_reserved;                 /* pages */
    struct model_frame frames[N_FRAMES]; /* by number; none has number 0 */
    uint64_t last_frame, n_alive, n_mapped;
    bool is_aliased;
    uint64_t next_ticket;
    uint64_t done[N_STREAMS];
    struct dep deps[N_DEPS];
    size_t n_deps;
    struct model_block blocks[N_BLOCKS];
    unsigned fail_in; /* calls until one fails; 0: none does */
    bool failed;
    uint64_t hash;
};

static void require(bool is_true, const char *what)
{
    if (is_true)
        return;
    fprintf(stderr, "fit model: %s\n", what);
    abort();
}

static bool call_fails(struct model *m)
{
    if (m->fail_in == 0 || --m->fail_in > 0)
        return false;
    m->failed = true;
    return true;
}

static struct model_page *page_at(struct model *m, uint64_t addr)
{
    require(addr >= BASE && (addr - BASE) / PAGE < m->n_reserved,
            "an address of no area");
    return &m->pages[(addr - BASE) / PAGE];
}

static int model_reserve(void *ctx, uint64_t size, uint64_t *ret_base)
{
    struct model *m = ctx;

    if (call_fails(m) || m->n_reserved + size / PAGE > N_PAGES)
        return 5;
    *ret_base = BASE + m->n_reserved * PAGE;
    m->n_reserved += size / PAGE;
    return 0;
}

static void model_release(void *ctx, uint64_t base, uint64_t size)
{
    for (uint64_t at = base; at < base + size; at += PAGE)
        require(page_at(ctx, at)->frame == 0,
                "addresses released with memory behind them");
}

static int model_create(void *ctx, void **ret_frame)
{
    struct model *m = ctx;

    if (call_fails(m))
        return 6;
    do
        m->last_frame = m->last_frame % (N_FRAMES - 1) + 1;
    while (m->frames[m->last_frame].is_alive);
    m->frames[m->last_frame] = (struct model_frame){.is_alive = true};
    m->n_alive++;
    *ret_frame = (void *)(uintptr_t)m->last_frame;
    return 0;
}

static void model_destroy(void *ctx, void *frame)
{
    struct model *m = ctx;

    require(m->frames[(uintptr_t)frame].is_alive, "destroyed twice");
    require(m->frames[(uintptr_t)frame].n_mapped == 0, "a page destroyed that is mapped");
    m->frames[(uintptr_t)frame].is_alive = false;
    m->n_alive--;
}

static int model_map(void *ctx, uint64_t addr, void *frame)
{
    struct model *m = ctx;

    if (call_fails(m))
        return 7;
    require(page_at(m, addr)->frame == 0, "mapped twice");
    require(m->frames[(uintptr_t)frame].is_alive, "mapped what is destroyed");
    require(m->frames[(uintptr_t)frame].n_mapped++ == 0 || m->is_aliased,
            "one page at two addresses");
    page_at(m, addr)->frame = (uintptr_t)frame;
    memset(page_at(m, addr)->freed, 0, sizeof page_at(m, addr)->freed);
    m->n_mapped++;
    return 0;
}

static int model_unmap(void *ctx, uint64_t addr, void *frame)
{
    struct model *m = ctx;
    struct model_page *page = page_at(m, addr);
    struct model_frame *f = &m->frames[(uintptr_t)frame];

    if (call_fails(m))
        return 8;
    require(page->frame == (uintptr_t)frame, "unmapped another frame");
    for (unsigned s = 0; s < N_STREAMS; s++)
        require(page->freed[s] <= m->done[s], "unmapped under queued work");
    require(f->n_blocks == 0 || f->used != page, "unmapped under a block");
    if (f->used == page)
        f->used = NULL;
    f->n_mapped--;
    page->frame = 0;
    m->n_mapped--;
    return 0;
}

static uint64_t model_pending(void *ctx, const struct am_fit_use *use,
                              enum am_fit_action action)
{
    struct model *m = ctx;
    uint64_t streams = 0;

    for (unsigned s = 0; s < N_STREAMS; s++) {
        if ((use->streams >> s & 1) != 0 && m->done[s] < use->ticket)
            streams |= 1u << s;
    }
    return streams;
}

static const struct am_fit_ops ops = {
    .reserve = model_reserve,
    .release = model_release,
    .create = model_create,
    .destroy = model_destroy,
    .map = model_map,
    .unmap = model_unmap,
    .pending = model_pending,
};

/* The stream has done its work up to the ticket, and so have those it waits for. */
static void stream_advance(struct model *m, unsigned stream, uint64_t ticket)
{
    if (m->done[stream] >= ticket)
        return;
    for (size_t i = 0; i < m->n_deps; i++) {
        struct dep *dep = &m->deps[i];

        if (dep->stream == stream && dep->at <= ticket)
            stream_advance(m, dep->lender, dep->ticket);
    }
    m->done[stream] = ticket;
}

static void streams_advance(struct model *m, struct am_fit_use use)
{
    for (unsigned s = 0; s < N_STREAMS; s++) {
        if ((use.streams >> s & 1) != 0)
            stream_advance(m, s, use.ticket);
    }
}

static void deps_compact(struct model *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n_deps; i++) {
        if (m->done[m->deps[i].lender] < m->deps[i].ticket)
            m->deps[n++] = m->deps[i];
    }
    m->n_deps = n;
    if (n > N_DEPS - N_STREAMS)
        streams_advance(
            m, (struct am_fit_use){.streams = -1ull, .ticket = m->next_ticket++});
}

/* Nothing of another stream is queued on these bytes but what the engine told to wait for. */
static void check_order(struct model *m, const struct model_block *b,
                        struct am_fit_use wait)
{
    for (uint64_t at = b->addr; at < b->addr + b->size; at += UNIT) {
        uint64_t *freed = m->frames[page_at(m, at)->frame].freed[at % PAGE / UNIT];

        for (unsigned s = 0; s < N_STREAMS; s++) {
            if (s != b->stream && freed[s] > m->done[s])
                require((wait.streams >> s & 1) != 0 && wait.ticket >= freed[s],
                        "memory of another stream, and no wait");
            if (s != b->stream)
                freed[s] = 0; /* ordered, from here on */
        }
    }
}

static void check_place(struct model *m, const struct model_block *b)
{
    require(b->addr % UNIT == 0, "not aligned");
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        const struct model_block *o = &m->blocks[i];

        if (o->block != NULL && o != b)
            require(o->addr + o->size <= b->addr || b->addr + b->size <= o->addr,
                    "two blocks share a byte");
    }
}

/* The block has its pages, all of them at these addresses alone, or has them no more. */
static void pages_use(struct model *m, const struct model_block *b, bool is_used)
{
    for (uint64_t at = b->addr - b->addr % PAGE; at < b->addr + b->size; at += PAGE) {
        struct model_page *page = page_at(m, at);
        struct model_frame *frame = &m->frames[page->frame];

        require(page->frame != 0, "a block without memory");
        if (is_used && frame->used != page) {
            require(frame->n_blocks == 0, "one page behind blocks at two addresses");
            frame->used = page;
        }
        frame->n_blocks += is_used ? 1u : -1u;
    }
}

/* As the pool does. */
static int place_get(struct am_fit *fit, uint64_t size, unsigned stream,
                     struct am_fit_block **ret_block, struct am_fit_use *ret_wait)
{
    int rc = AM_FIT_GROWS;

    *ret_wait = (struct am_fit_use){0};
    *ret_block = am_fit_alloc_small(fit, size, stream);
    if (*ret_block != NULL)
        return 0;
    if (size < PAGE / 4)
        rc = am_fit_alloc_ready(fit, size, stream, ret_block, ret_wait);
    if (rc == AM_FIT_GROWS)
        rc = am_fit_alloc(fit, size, stream, ret_block, ret_wait);
    return rc;
}

static void block_alloc(struct model *m, struct model_block *b, uint64_t size,
                        unsigned stream)
{
    struct am_fit_use wait;
    int rc;

    m->failed = false;
    do {
        rc = place_get(m->fit, size, stream, &b->block, &wait);
        if (rc == AM_FIT_BUSY)
            streams_advance(m, wait);
    } while (rc == AM_FIT_BUSY);
    if (rc != 0) {
        b->block = NULL;
        require(m->failed || rc == AM_FIT_LIMIT || rc == 5, "failed without a reason");
        return;
    }
    b->addr = am_fit_addr(b->block);
    b->size = am_fit_size(b->block);
    b->stream = stream;
    b->also = 0;
    require(b->size >= size, "too small");
    check_place(m, b);
    pages_use(m, b, true);
    check_order(m, b, wait);
    deps_compact(m);
    for (unsigned s = 0; s < N_STREAMS; s++) {
        if ((wait.streams >> s & 1) != 0)
            m->deps[m->n_deps++] = (struct dep){stream, s, m->next_ticket, wait.ticket};
    }
    m->hash = (m->hash ^ b->addr) * 0x100000001b3;
}

static void block_free(struct model *m, struct model_block *b)
{
    struct am_fit_use use = {b->also | 1u << b->stream, m->next_ticket++};

    if (am_fit_is_asleep(b->block))
        use = (struct am_fit_use){0};
    else
        pages_use(m, b, false);
    for (uint64_t at = b->addr; use.streams != 0 && at < b->addr + b->size; at += UNIT) {
        struct model_page *page = page_at(m, at);
        uint64_t *freed = m->frames[page->frame].freed[at % PAGE / UNIT];

        for (unsigned s = 0; s < N_STREAMS; s++) {
            freed[s] = (use.streams >> s & 1) != 0 ? use.ticket : 0;
            page->freed[s] = freed[s] != 0 ? use.ticket : page->freed[s];
        }
    }
    am_fit_free(m->fit, b->block, use);
    b->block = NULL;
}

static void block_sleep_or_wake(struct model *m, struct model_block *b)
{
    struct am_fit_use wait;
    int rc;

    if (am_fit_is_asleep(b->block)) {
        do {
            rc = am_fit_wake(m->fit, b->block, &wait);
            streams_advance(m, wait);
        } while (rc == AM_FIT_BUSY);
        if (rc == 0)
            pages_use(m, b, true);
        return;
    }
    /* The block's own work is over; freed neighbours in its pages may have some. */
    streams_advance(m, (struct am_fit_use){b->also | 1u << b->stream, m->next_ticket++});
    pages_use(m, b, false);
    rc = am_fit_sleep(m->fit, b->block, &wait);
    if (rc == AM_FIT_BUSY && m->next_ticket % 2 == 0) {
        streams_advance(m, wait);
        rc = am_fit_sleep(m->fit, b->block, &wait);
        require(rc != AM_FIT_BUSY, "busy after the wait");
    }
}

static void check_books(struct model *m)
{
    const char *wrong = am_fit_check(m->fit);
    struct am_fit_stats stats;

    require(wrong == NULL, wrong);
    am_fit_get_stats(m->fit, &stats);
    require(stats.used + stats.idle + stats.aliases == m->n_mapped,
            "mapped pages miscounted");
    require(stats.used + stats.idle + stats.loose == m->n_alive, "a page was lost");
}

static void step(struct model *m, const uint8_t *in)
{
    struct model_block *b = &m->blocks[in[1] % N_BLOCKS];
    unsigned stream = in[3] % N_STREAMS;
    struct am_fit_use wait;
    uint64_t size, queued;

    switch (in[0] % 16) {
    case 0 ... 9:
        if (b->block != NULL) {
            block_free(m, b);
            break;
        }
        size = 1 + in[2] * (in[0] % 16 < 5 ? 7u : 211u);
        if (in[2] % 8 == 0)
            size = (1 + in[2] / 32) * PAGE;
        block_alloc(m, b, size, stream);
        break;
    case 10:
        if (b->block != NULL && !am_fit_is_asleep(b->block))
            b->also |= 1u << stream;
        break;
    case 11 ... 12:
        queued = m->next_ticket - 1; /* no stream has done what is not queued yet */
        stream_advance(m, stream, queued - queued * in[2] / 1024);
        break;
    case 13:
        am_fit_trim(m->fit, in[2] % 32, &wait);
        break;
    case 14:
        m->fail_in = in[2] % 16;
        break;
    case 15:
        if (b->block != NULL)
            block_sleep_or_wake(m, b);
        break;
    }
}

static struct model_page all_pages[N_PAGES]; /* zero between runs */

uint64_t fit_model_run(const uint8_t *bytes, size_t n_bytes)
{
    struct am_fit_config config = {.page = PAGE, .unit = UNIT, .span = SPAN};
    struct model *m = calloc(1, sizeof *m);
    struct am_fit_use all = {.streams = -1ull};
    uint64_t hash;

    m->pages = all_pages;
    m->next_ticket = 1;
    if (n_bytes > 1) {
        config.max_pages = bytes[0];
        config.slack = bytes[1] % 8;
        config.ample = bytes[1] / 8 % 16;
        config.is_aliased = m->is_aliased = bytes[1] >= 128;
    }
    m->fit = am_fit_create(&config, &ops, m);
    for (size_t i = 2, n = 0; i + 4 <= n_bytes; i += 4, n++) {
        step(m, bytes + i);
        if (n % 32 == 0)
            check_books(m);
    }
    check_books(m);
    m->fail_in = 0;
    for (unsigned i = 0; i < N_BLOCKS; i++) {
        if (m->blocks[i].block != NULL)
            block_free(m, &m->blocks[i]);
    }
    all.ticket = m->next_ticket;
    streams_advance(m, all);
    check_books(m);
    require(am_fit_trim(m->fit, 0, &all) == 0 && m->n_alive == 0, "memory is left");
    am_fit_destroy(m->fit);
    hash = m->hash;
    memset(m->pages, 0, m->n_reserved * sizeof *m->pages);
    free(m);
    return hash;
}
