/* Placement where a page may be mapped in several places. */
#include "fit_fixture.h"

/*
 * Memory for 8 pages.  Between two blocks lie three idle pages and the half of another: the
 * block of three pages and a half that was there costs least there, and one of four pages does
 * not fit.  So the three pages go to and fro between these two.
 */
struct to_and_fro {
    struct fixture *f;
    uint64_t here;            /* where the first block was */
    uint64_t there;           /* where the block of four pages is */
    struct am_fit_block *now; /* the one that is live */
    uint64_t ticket;
};

#define HERE (3 * PAGE + PAGE / 2)
#define THERE (4 * PAGE)

static struct to_and_fro to_and_fro_make(bool is_aliased)
{
    struct to_and_fro t = {.f = fixture_make(8, is_aliased)};
    struct am_fit_block *between;

    take(t.f, PAGE + PAGE / 2);
    between = take(t.f, HERE);
    take(t.f, 2 * PAGE);
    t.here = am_fit_addr(between);
    give(t.f, between);
    t.now = take(t.f, THERE);
    t.there = am_fit_addr(t.now);
    assert_int_equal(stats_of(t.f).remaps, 3);
    assert_int_equal(stats_of(t.f).aliases, is_aliased ? 3 : 0);
    return t;
}

static void go(struct to_and_fro *t, uint64_t size)
{
    give(t->f, t->now);
    t->now = take(t->f, size);
    assert_int_equal(am_fit_addr(t->now), size == HERE ? t->here : t->there);
    assert_null(am_fit_check(t->f->fit));
}

static void a_page_that_moves_back_takes_no_call(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);
    uint64_t n_calls = t.f->n_calls;

    for (unsigned i = 0; i < 10; i++) {
        go(&t, HERE);
        go(&t, THERE);
    }
    assert_int_equal(t.f->n_calls, n_calls);
    assert_int_equal(stats_of(t.f).remaps, 3);
    assert_int_equal(stats_of(t.f).returns, 60);
    assert_int_equal(stats_of(t.f).aliases, 3);
    fixture_end(t.f);
}

static void pages_are_mapped_once_where_that_is_asked_for(void **state)
{
    struct to_and_fro t = to_and_fro_make(false);
    uint64_t n_calls = t.f->n_calls;

    go(&t, HERE);
    assert_int_equal(t.f->n_calls, n_calls + 6);
    assert_int_equal(t.f->n_mapped, 8);
    assert_int_equal(stats_of(t.f).returns, 0);
    fixture_end(t.f);
}

static void a_page_is_behind_one_block_of_two_that_map_it(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);
    struct am_fit_block *block;
    struct am_fit_use wait;

    assert_int_equal(am_fit_alloc(t.f->fit, HERE, 0, &block, &wait), AM_FIT_LIMIT);
    assert_null(am_fit_check(t.f->fit));
    fixture_end(t.f);
}

/* The streams' work is queued, and never done. */
static struct am_fit_use go_queued(struct to_and_fro *t, uint64_t streams, uint64_t size,
                                   unsigned stream)
{
    struct am_fit_use use = {.streams = streams, .ticket = ++t->ticket};
    struct am_fit_use wait;

    am_fit_free(t->f->fit, t->now, use);
    assert_int_equal(am_fit_alloc(t->f->fit, size, stream, &t->now, &wait), 0);
    assert_int_equal(am_fit_addr(t->now), size == HERE ? t->here : t->there);
    assert_null(am_fit_check(t->f->fit));
    return wait;
}

static void a_page_moves_back_in_the_order_of_its_stream(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);
    uint64_t n_calls = t.f->n_calls;

    for (unsigned i = 0; i < 10; i++) {
        assert_int_equal(go_queued(&t, 1, HERE, 0).streams, 0);
        assert_int_equal(go_queued(&t, 1, THERE, 0).streams, 0);
    }
    assert_int_equal(t.f->n_calls, n_calls);
    assert_int_equal(t.f->n_asked, 0);
    assert_int_equal(stats_of(t.f).returns, 60);
    fixture_end(t.f);
}

static void a_page_of_another_stream_moves_back_with_a_wait_for_it(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);
    struct am_fit_use wait = go_queued(&t, 1u << 1 | 1u << 2, HERE, 2);

    assert_int_equal(wait.streams, 1u << 1);
    assert_int_equal(wait.ticket, t.ticket);
    assert_int_equal(stats_of(t.f).returns, 3);
    fixture_end(t.f);
}

/* A block that may not wait lies elsewhere, or nowhere. */
static void a_page_of_another_stream_does_not_move_back_unwaited_for(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);
    struct am_fit_use wait;
    struct am_fit_block *block;

    am_fit_set_apart(t.f->fit, true);
    am_fit_free(t.f->fit, t.now, (struct am_fit_use){.streams = 1u << 1, .ticket = 5});
    assert_int_equal(am_fit_alloc(t.f->fit, HERE, 0, &block, &wait), AM_FIT_BUSY);
    assert_int_equal(stats_of(t.f).returns, 0);
    am_fit_set_limits(t.f->fit, 12, 8, 0);
    assert_int_equal(am_fit_alloc(t.f->fit, HERE, 0, &block, &wait), 0);
    assert_int_equal(wait.streams, 0);
    assert_int_equal(stats_of(t.f).returns, 0);
    assert_int_equal(stats_of(t.f).creates, 12);
    fixture_end(t.f);
}

/* Two pages move back to a block that leaves a quarter of the second one free. */
static void the_rest_of_a_page_that_moved_back_is_waited_for(void **state)
{
    struct fixture *f = fixture_make(9, true);
    struct am_fit_block *between, *block;
    struct am_fit_use use = {.streams = 1, .ticket = 5};
    struct am_fit_use wait;

    take(f, PAGE + PAGE / 2);
    between = take(f, 3 * PAGE + PAGE / 4);
    take(f, 2 * PAGE + PAGE / 4);
    give(f, between);
    block = take(f, 4 * PAGE);
    assert_int_equal(stats_of(f).remaps, 2);
    am_fit_free(f->fit, block, use);
    between = take(f, 2 * PAGE + PAGE / 4);
    assert_int_equal(stats_of(f).returns, 2);
    assert_int_equal(am_fit_alloc(f->fit, PAGE - UNIT, 1, &block, &wait), 0);
    assert_int_equal(am_fit_addr(block), am_fit_addr(between) + am_fit_size(between));
    assert_int_equal(wait.streams, 1);
    assert_int_equal(wait.ticket, 5);
    fixture_end(f);
}

/* A page that moved back in stream order left queued work at its other address. */
static void a_place_is_not_unmapped_under_queued_work(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);
    struct am_fit_block *block;
    struct am_fit_use wait;

    go_queued(&t, 1, HERE, 0);
    am_fit_set_limits(t.f->fit, 11, 0, 0);
    assert_int_equal(am_fit_alloc(t.f->fit, THERE, 0, &block, &wait), AM_FIT_BUSY);
    assert_int_equal(wait.streams, 1);
    assert_int_equal(wait.ticket, t.ticket);
    t.f->done[0] = t.ticket;
    assert_int_equal(am_fit_alloc(t.f->fit, THERE, 0, &block, &wait), 0);
    assert_int_equal(am_fit_addr(block), t.there);
    assert_int_equal(stats_of(t.f).aliases, 0);
    fixture_end(t.f);
}

static void a_block_rather_lies_where_nothing_has_to_be_unmapped_first(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);
    uint64_t n_calls = t.f->n_calls;
    struct am_fit_block *block;
    struct am_fit_use wait;

    go_queued(&t, 1, HERE, 0);
    am_fit_set_limits(t.f->fit, 12, 8, 0);
    assert_int_equal(am_fit_alloc(t.f->fit, THERE, 0, &block, &wait), 0);
    assert_int_equal(t.f->n_calls, n_calls + 4);
    assert_int_equal(t.f->n_mapped, 8 + 3 + 4);
    fixture_end(t.f);
}

static void a_place_that_maps_a_page_in_use_gets_another(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);

    am_fit_set_limits(t.f->fit, 11, 0, 0);
    assert_int_equal(am_fit_addr(take(t.f, HERE)), t.here);
    assert_int_equal(stats_of(t.f).aliases, 0);
    assert_int_equal(stats_of(t.f).used, 11);
    assert_int_equal(t.f->n_mapped, 11);
    fixture_end(t.f);
}

static void a_page_that_goes_is_mapped_nowhere(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);
    struct am_fit_use wait;

    give(t.f, t.now);
    assert_int_equal(am_fit_trim(t.f->fit, 0, &wait), 0);
    assert_int_equal(t.f->n_frames, 4);
    assert_int_equal(t.f->n_mapped, 4);
    t.now = take(t.f, THERE);
    go(&t, HERE);
    go(&t, THERE);
    assert_int_equal(am_fit_sleep(t.f->fit, t.now, &wait), 0);
    assert_int_equal(t.f->n_frames, 4);
    assert_int_equal(t.f->n_mapped, 4);
    fixture_end(t.f);
}

/* Blocks on a stream that has got there come and go; the most aliases that there were. */
static uint64_t churn(struct fixture *f, unsigned stream)
{
    struct am_fit_block *blocks[16] = {NULL};
    struct am_fit_use wait;
    uint64_t seed = 3, most = 0;

    for (unsigned i = 0; i < 4000; i++) {
        struct am_fit_block **block = &blocks[random_below(&seed, 16)];
        uint64_t size = PAGE / 2 + random_below(&seed, 8 * PAGE);

        if (*block != NULL)
            give(f, *block);
        if (am_fit_alloc(f->fit, size, stream, block, &wait) != 0)
            *block = NULL;
        assert_true(stats_of(f).aliases <= stats_of(f).used + stats_of(f).idle);
        most = stats_of(f).aliases > most ? stats_of(f).aliases : most;
    }
    return most;
}

static void there_are_no_more_aliases_than_pages(void **state)
{
    struct fixture *f = fixture_make(64, true);

    assert_int_equal(churn(f, 0), 64);
    assert_true(stats_of(f).returns > 0);
    fixture_end(f);
}

/* They are the oldest ones, with work on a stream that does not get there. */
static void aliases_with_queued_work_stay(void **state)
{
    struct to_and_fro t = to_and_fro_make(true);

    give_queued(t.f, t.now, 5);
    t.now = take(t.f, HERE);
    am_fit_set_limits(t.f->fit, 64, 8, 0);
    assert_int_equal(churn(t.f, 1), 64);
    t.f->done[0] = 5;
    fixture_end(t.f);
}

/* A block, at the second try if a call fails at the first. */
static struct am_fit_block *take_twice(struct fixture *f, uint64_t size)
{
    struct am_fit_block *block;
    struct am_fit_use wait;
    uint64_t live = stats_of(f).live;

    if (am_fit_alloc(f->fit, size, 0, &block, &wait) != 0) {
        assert_null(am_fit_check(f->fit));
        assert_int_equal(stats_of(f).live, live);
        block = take(f, size);
    }
    assert_null(am_fit_check(f->fit));
    assert_int_equal(stats_of(f).used + stats_of(f).idle + stats_of(f).loose,
                     f->n_frames);
    assert_int_equal(stats_of(f).used + stats_of(f).idle + stats_of(f).aliases,
                     f->n_mapped);
    return block;
}

static void each_failing_call_among_aliases_loses_nothing(void **state)
{
    bool has_failed = true;

    for (uint64_t n = 1; has_failed; n++) {
        struct to_and_fro t = to_and_fro_make(true);
        struct am_fit_block *here, *more;
        struct am_fit_use wait;

        t.f->n_fallible = 0;
        t.f->fail_at = n;
        give(t.f, t.now);
        here = take_twice(t.f, HERE);
        am_fit_set_limits(t.f->fit, 16, 0, 0);
        t.now = take_twice(t.f, THERE); /* pages that `here` has were mapped there */
        more = take_twice(t.f, 2 * PAGE);
        give(t.f, here);
        give(t.f, take_twice(t.f, 6 * PAGE));
        here = take_twice(t.f, HERE);
        give(t.f, here);
        give(t.f, t.now);
        if (am_fit_sleep(t.f->fit, more, &wait) != 0 ||
            am_fit_trim(t.f->fit, 0, &wait) != 0) {
            assert_null(am_fit_check(t.f->fit));
            assert_int_equal(am_fit_trim(t.f->fit, 0, &wait), 0);
        }
        assert_int_equal(stats_of(t.f).idle + stats_of(t.f).loose, 0);
        assert_int_equal(t.f->n_frames, stats_of(t.f).used);
        has_failed = t.f->n_fallible >= n;
        t.f->fail_at = 0;
        fixture_end(t.f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_that_moves_back_takes_no_call),
        cmocka_unit_test(pages_are_mapped_once_where_that_is_asked_for),
        cmocka_unit_test(a_page_is_behind_one_block_of_two_that_map_it),
        cmocka_unit_test(a_page_moves_back_in_the_order_of_its_stream),
        cmocka_unit_test(a_page_of_another_stream_moves_back_with_a_wait_for_it),
        cmocka_unit_test(a_page_of_another_stream_does_not_move_back_unwaited_for),
        cmocka_unit_test(the_rest_of_a_page_that_moved_back_is_waited_for),
        cmocka_unit_test(a_place_is_not_unmapped_under_queued_work),
        cmocka_unit_test(a_block_rather_lies_where_nothing_has_to_be_unmapped_first),
        cmocka_unit_test(a_place_that_maps_a_page_in_use_gets_another),
        cmocka_unit_test(a_page_that_goes_is_mapped_nowhere),
        cmocka_unit_test(there_are_no_more_aliases_than_pages),
        cmocka_unit_test(aliases_with_queued_work_stay),
        cmocka_unit_test(each_failing_call_among_aliases_loses_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
