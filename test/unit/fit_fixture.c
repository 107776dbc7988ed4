/* See fit_fixture.h. */
#include "fit_fixture.h"

#include <stdlib.h>

#define BASE ((uint64_t)1 << 40)

static bool fails(struct fixture *f)
{
    return ++f->n_fallible == f->fail_at;
}

static int fake_reserve(void *ctx, uint64_t size, uint64_t *ret_base)
{
    struct fixture *f = ctx;

    if (fails(f))
        return 11;
    *ret_base = f->next_base;
    f->next_base += size;
    return 0;
}

static void fake_release(void *ctx, uint64_t base, uint64_t size)
{
}

static int fake_create(void *ctx, void **ret_frame)
{
    struct fixture *f = ctx;

    if (fails(f))
        return 12;
    *ret_frame = (void *)(uintptr_t)++f->n_frames;
    return 0;
}

static void fake_destroy(void *ctx, void *frame)
{
    struct fixture *f = ctx;

    f->n_frames--;
}

static int fake_map(void *ctx, uint64_t addr, void *frame)
{
    struct fixture *f = ctx;

    f->n_calls++;
    if (fails(f))
        return 13;
    f->n_mapped++;
    return 0;
}

static uint64_t page_number(uint64_t addr)
{
    return (addr - BASE) / PAGE % N_NUMBERS;
}

static int fake_unmap(void *ctx, uint64_t addr, void *frame)
{
    struct fixture *f = ctx;

    f->n_calls++;
    if (fails(f))
        return 13;
    assert_true(f->used[page_number(addr)] <= f->done[0]);
    f->n_mapped--;
    return 0;
}

static uint64_t fake_pending(void *ctx, const struct am_fit_use *use,
                             enum am_fit_action action)
{
    struct fixture *f = ctx;
    uint64_t streams = 0;

    f->n_asked++;
    for (unsigned s = 0; s < 64; s++) {
        if ((use->streams >> s & 1) != 0 && f->done[s] < use->ticket)
            streams |= 1ull << s;
    }
    return streams;
}

const struct am_fit_ops fixture_ops = {
    .reserve = fake_reserve,
    .release = fake_release,
    .create = fake_create,
    .destroy = fake_destroy,
    .map = fake_map,
    .unmap = fake_unmap,
    .pending = fake_pending,
};

struct fixture *fixture_make(uint64_t max_pages, bool is_aliased)
{
    struct am_fit_config config = {.page = PAGE,
                                   .unit = 512,
                                   .span = 1024 * PAGE,
                                   .max_pages = max_pages,
                                   .is_aliased = is_aliased};
    struct fixture *f = calloc(1, sizeof *f);

    f->next_base = BASE;
    f->fit = am_fit_create(&config, &fixture_ops, f);
    assert_non_null(f->fit);
    return f;
}

struct fixture *fixture_new(uint64_t max_pages)
{
    return fixture_make(max_pages, false);
}

void fixture_end(struct fixture *f)
{
    assert_null(am_fit_check(f->fit));
    am_fit_destroy(f->fit);
    assert_int_equal(f->n_frames, 0);
    assert_int_equal(f->n_mapped, 0);
    free(f);
}

struct am_fit_block *take(struct fixture *f, uint64_t size)
{
    struct am_fit_block *block;
    struct am_fit_use wait;

    assert_int_equal(am_fit_alloc(f->fit, size, 0, &block, &wait), 0);
    assert_int_equal(wait.streams, 0);
    return block;
}

void give(struct fixture *f, struct am_fit_block *block)
{
    am_fit_free(f->fit, block, (struct am_fit_use){0});
}

void give_queued(struct fixture *f, struct am_fit_block *block, uint64_t ticket)
{
    uint64_t first = page_number(am_fit_addr(block));
    uint64_t last = page_number(am_fit_addr(block) + am_fit_size(block) - 1);

    for (uint64_t i = first; i <= last; i++)
        f->used[i] = ticket;
    am_fit_free(f->fit, block, (struct am_fit_use){.streams = 1, .ticket = ticket});
}

struct am_fit_stats stats_of(struct fixture *f)
{
    struct am_fit_stats stats;

    am_fit_get_stats(f->fit, &stats);
    return stats;
}
