/* Placement: where blocks go, what that costs, and what is never done. */
#include "fit_fixture.h"
#include "fit_model.h"

#include <stdlib.h>
#include <string.h>

#define KB ((uint64_t)1 << 10)
#define N_LAYERS 16u
#define MOVED_MAX 16

static void a_block_begins_in_the_page_in_which_its_neighbour_ends(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *a = take(f, PAGE + PAGE / 2);
    struct am_fit_block *b = take(f, 2 * PAGE + PAGE / 2);

    assert_true(am_fit_addr(b) == am_fit_addr(a) + am_fit_size(a) ||
                am_fit_addr(a) == am_fit_addr(b) + am_fit_size(b));
    assert_int_equal(stats_of(f).used, 4);
    assert_int_equal(stats_of(f).runs, 1);
    fixture_end(f);
}

static void the_tightest_border_that_holds_the_rest_is_taken(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *wide = take(f, 100 * PAGE + PAGE / 4); /* leaves 3/4 */
    struct am_fit_block *middle = take(f, 3 * PAGE);            /* keeps the two apart */
    struct am_fit_block *tight =
        take(f, 100 * PAGE + PAGE / 8); /* fills to 3/8 or beyond */
    uint64_t used = stats_of(f).used;

    take(f, 5 * PAGE + PAGE / 2);
    assert_int_equal(stats_of(f).used, used + 5);
    assert_true(am_fit_addr(wide) != am_fit_addr(middle) && tight != NULL);
    fixture_end(f);
}

static void blocks_of_whole_pages_share_none(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *blocks[64];

    for (unsigned i = 0; i < 64; i++)
        blocks[i] = take(f, i % 2 == 0 ? 4 * PAGE : PAGE + 512 * (i + 1));
    for (unsigned i = 1; i < 64; i += 2)
        give(f, blocks[i]);
    for (unsigned i = 0; i < 64; i += 2)
        assert_int_equal(am_fit_addr(blocks[i]) % PAGE, 0);
    assert_int_equal(stats_of(f).used, 32 * 4);
    fixture_end(f);
}

static void small_blocks_take_holes_in_held_pages(void **state)
{
    struct fixture *f = fixture_new(0);

    take(f, 1);
    for (unsigned i = 0; i < 300; i++)
        take(f, 1 + i % (4 * KB));
    assert_int_equal(stats_of(f).used, 1);
    fixture_end(f);
}

/* A page of small blocks with gaps of these many units, in this order, and a block behind each. */
static void gaps_make(struct fixture *f, const unsigned *units, unsigned n)
{
    struct am_fit_block *blocks[16];
    uint64_t left = PAGE;

    for (unsigned i = 0; i < n; i++) {
        blocks[i] = take(f, units[i] * UNIT);
        take(f, UNIT);
        left -= (units[i] + 1) * UNIT;
    }
    while (left > 0) {
        uint64_t size = left < 500 * KB ? left : 500 * KB;

        take(f, size);
        left -= size;
    }
    for (unsigned i = 0; i < n; i++)
        give(f, blocks[i]);
}

static void
a_small_block_takes_a_gap_of_its_size_or_the_lowest_of_the_tightest(void **state)
{
    struct fixture *f = fixture_new(0);
    uint64_t base = f->next_base;

    gaps_make(f, (const unsigned[]){900, 12, 9, 6, 11, 10, 7}, 7);
    assert_int_equal(stats_of(f).used, 1);
    /* Just this size, though others lie below. */
    assert_int_equal(am_fit_addr(take(f, 7 * UNIT)) - base, 954 * UNIT);
    /* The four tightest of at least 8 are 9, 10, 11 and 12; that of 12 is the lowest. */
    assert_int_equal(am_fit_addr(take(f, 8 * UNIT)) - base, 901 * UNIT);
    assert_int_equal(am_fit_addr(take(f, 6 * UNIT)) - base, 924 * UNIT);
    assert_int_equal(am_fit_addr(take(f, 13 * UNIT)) - base, 0);
    assert_int_equal(stats_of(f).used, 1);
    assert_int_equal(am_fit_largest(f->fit, 0), 887 * UNIT);
    fixture_end(f);
}

static void a_small_block_lies_in_one_page(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *blocks[100];

    for (unsigned i = 0; i < 100; i++) {
        blocks[i] = take(f, 300 * KB + i % 16 * UNIT);
        assert_true(am_fit_addr(blocks[i]) / PAGE ==
                    (am_fit_addr(blocks[i]) + am_fit_size(blocks[i]) - 1) / PAGE);
    }
    assert_int_equal(stats_of(f).used, 17); /* six in a page */
    for (unsigned i = 0; i < 100; i++)
        give(f, blocks[i]);
    /* A page without blocks that has memory serves next. */
    f->n_calls = 0;
    take(f, 4 * KB);
    assert_int_equal(f->n_calls, 0);
    assert_int_equal(stats_of(f).idle, 16);
    fixture_end(f);
}

static void a_small_block_beside_others_takes_no_call_and_no_wait(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *first, *second;
    struct am_fit_use wait;

    assert_null(am_fit_alloc_small(f->fit, 4 * KB, 0)); /* no page has blocks */
    first = take(f, 4 * KB);
    assert_null(am_fit_alloc_small(f->fit, 600 * KB, 0)); /* not small */
    f->n_calls = 0;
    second = am_fit_alloc_small(f->fit, 4 * KB, 0);
    assert_int_equal(am_fit_addr(second), am_fit_addr(first) + 4 * KB);
    assert_int_equal(stats_of(f).runs, 1);
    /* Stream 0 has work on the gap behind the first block: it need not wait for itself. */
    am_fit_free(f->fit, second, (struct am_fit_use){1, 7});
    assert_null(am_fit_alloc_small(f->fit, 4 * KB, 1));
    second = am_fit_alloc_small(f->fit, 4 * KB, 0);
    assert_non_null(second);
    assert_null(am_fit_check(f->fit));
    assert_int_equal(f->n_calls, 0);
    f->done[0] = 7;
    /* A page whose blocks are asleep has no memory. */
    assert_int_equal(am_fit_sleep(f->fit, first, &wait), 0);
    assert_int_equal(am_fit_sleep(f->fit, second, &wait), 0);
    assert_null(am_fit_alloc_small(f->fit, 4 * KB, 0));
    fixture_end(f);
}

static void a_freed_place_is_used_again_without_a_call(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *b = take(f, 10 * PAGE + 5);
    uint64_t addr = am_fit_addr(b);
    uint64_t n_calls = f->n_calls;

    give(f, b);
    b = take(f, 10 * PAGE + 5);
    assert_int_equal(am_fit_addr(b), addr);
    assert_int_equal(f->n_calls, n_calls);
    fixture_end(f);
}

static int take_ready(struct fixture *f, uint64_t size)
{
    struct am_fit_block *block;
    struct am_fit_use wait;

    return am_fit_alloc_ready(f->fit, size, 0, &block, &wait);
}

static void memory_that_is_ready_takes_no_call(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *blocks[64];
    uint64_t n_calls;

    for (unsigned i = 0; i < 64; i++)
        blocks[i] = take(f, PAGE / 8);
    n_calls = f->n_calls;
    assert_int_equal(take_ready(f, PAGE / 8), AM_FIT_GROWS); /* all pages are full */
    give(f, blocks[7]);
    assert_int_equal(take_ready(f, PAGE / 8), 0); /* a hole */
    for (unsigned i = 8; i < 16; i++)
        give(f, blocks[i]);
    assert_int_equal(stats_of(f).idle, 1);
    assert_int_equal(take_ready(f, PAGE / 8), AM_FIT_GROWS); /* few pages are idle */
    for (unsigned i = 16; i < 64; i++)
        give(f, blocks[i]);
    assert_int_equal(take_ready(f, PAGE / 8), 0); /* many are */
    assert_int_equal(f->n_calls, n_calls);
    assert_int_equal(stats_of(f).n_live, 9);
    fixture_end(f);
}

static void idle_pages_move_before_new_ones_are_created(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *gone = take(f, 8 * PAGE);
    struct am_fit_block *stays = take(f, PAGE);

    give(f, gone);
    take(f, 64 * PAGE);
    assert_int_equal(stats_of(f).creates, 65);
    assert_int_equal(stats_of(f).idle, 0);
    assert_true(am_fit_size(stays) == PAGE);
    fixture_end(f);
}

static void new_pages_come_first_while_memory_is_ample(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *gone;

    take(f, PAGE);
    gone = take(f, 8 * PAGE);
    take(f, PAGE);
    give(f, gone); /* between two others */
    am_fit_set_limits(f->fit, 0, 0, 70);
    take(f, 64 * PAGE);
    assert_int_equal(stats_of(f).creates, 70);
    assert_int_equal(stats_of(f).remaps, 4);
    fixture_end(f);
}

static void an_idle_page_will_do_where_no_new_one_is_to_be_had(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *gone[2];

    take(f, PAGE);
    gone[0] = take(f, 4 * PAGE);
    take(f, PAGE);
    gone[1] = take(f, 4 * PAGE);
    take(f, PAGE);
    give(f, gone[0]);
    give(f, gone[1]);
    am_fit_set_limits(f->fit, 11, 0, 70);
    take(f, 8 * PAGE);
    assert_int_equal(stats_of(f).creates, 11);
    assert_true(stats_of(f).remaps > 0);
    fixture_end(f);
}

/*
 * A cache of keys and values: each token, the blocks of each layer are made anew, a little
 * longer, and the old ones freed.  A third of the memory is idle, so that there is no reason to move any.
 */
/* Idle pages that lie in a row inside a gap, while both of its ends have none. */
static void a_row_of_idle_pages_is_found_inside_a_gap(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *blocks[5];
    struct am_fit_use wait;
    uint64_t addr, n_calls;

    for (unsigned i = 0; i < 5; i++)
        blocks[i] = take(f, i == 2 ? 20 * PAGE : 8 * PAGE);
    addr = am_fit_addr(blocks[2]);
    assert_int_equal(am_fit_addr(blocks[3]) - am_fit_addr(blocks[1]), 28 * PAGE);
    give(f, blocks[1]);
    give(f, blocks[3]);
    give_queued(f, blocks[2], 1);
    assert_int_equal(am_fit_trim(f->fit, 0, &wait), 0);
    f->done[0] = 1;
    assert_int_equal(stats_of(f).idle, 20);
    n_calls = f->n_calls;
    assert_int_equal(am_fit_addr(take(f, 19 * PAGE + PAGE / 2)), addr);
    assert_int_equal(f->n_calls, n_calls);
    fixture_end(f);
}

static void blocks_that_grow_a_little_leave_idle_pages_where_they_are(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *blocks[2 * N_LAYERS] = {0};
    uint64_t n_moved = 0;

    take(f, 300 * PAGE);
    give(f, take(f, 550 * PAGE));
    for (unsigned token = 0; token < 64; token++) {
        for (unsigned i = 0; i < N_LAYERS; i++) {
            uint64_t size = (320 + token) * 64 * KB;
            struct am_fit_block *k = take(f, size), *v = take(f, size);

            if (token > 0) {
                give(f, blocks[2 * i]);
                give(f, blocks[2 * i + 1]);
            }
            blocks[2 * i] = k;
            blocks[2 * i + 1] = v;
        }
        if (token == 0)
            n_moved = stats_of(f).remaps;
    }
    print_message("%u blocks, %u pages moved\n", 64 * 2 * N_LAYERS,
                  (unsigned)(stats_of(f).remaps - n_moved));
    assert_true(stats_of(f).remaps - n_moved <= MOVED_MAX);
    assert_int_equal(stats_of(f).creates, 850);
    fixture_end(f);
}

static void a_block_shares_the_page_of_a_smaller_one_at_the_limit(void **state)
{
    struct fixture *f = fixture_new(11);

    take(f, 5 * PAGE + PAGE / 4);
    take(f, 5 * PAGE + PAGE / 4 + 64 * KB);
    assert_int_equal(stats_of(f).used, 11);
    fixture_end(f);

    /* Where there is memory, the smaller one is expected to be freed. */
    f = fixture_new(12);
    take(f, 5 * PAGE + PAGE / 4);
    take(f, 5 * PAGE + PAGE / 4 + 64 * KB);
    assert_int_equal(stats_of(f).used, 12);
    assert_int_equal(stats_of(f).runs, 2);
    fixture_end(f);
}

static void the_limit_counts_pages(void **state)
{
    struct fixture *f = fixture_new(4);
    struct am_fit_block *block;
    struct am_fit_use wait;

    take(f, 2 * PAGE);
    assert_int_equal(am_fit_alloc(f->fit, 3 * PAGE, 0, &block, &wait), AM_FIT_LIMIT);
    assert_int_equal(stats_of(f).n_live, 1);
    block = take(f, 2 * PAGE);
    assert_int_equal(stats_of(f).used, 4);
    give(f, block);
    fixture_end(f);
}

/* Small and large blocks have pages of their own as long as there are pages. */
static void the_last_page_serves_blocks_of_both_kinds(void **state)
{
    struct fixture *f = fixture_new(1);
    struct am_fit_block *small = take(f, 4096);
    struct am_fit_block *large;
    struct am_fit_use wait;
    uint64_t largest = am_fit_largest(f->fit, 0);

    assert_int_equal(largest, PAGE - 4096);
    assert_int_equal(am_fit_alloc(f->fit, largest + 512, 0, &large, &wait), AM_FIT_LIMIT);
    large = take(f, largest);
    assert_int_equal(am_fit_largest(f->fit, 0), 0);
    give(f, small);
    assert_int_equal(am_fit_largest(f->fit, 0), 4096);
    small = take(f, 4096);
    assert_int_equal(stats_of(f).used, 1);
    give(f, large);
    give(f, small);
    fixture_end(f);
}

/* Among many narrow holes and a few wide ones, when few more pages are to be had. */
static void largest_among_many_holes(uint64_t seed)
{
    struct am_fit_block *blocks[200], *large;
    struct fixture *f = fixture_new(0);
    uint64_t n_more = random_below(&seed, 3);
    struct am_fit_use wait;
    uint64_t largest;

    for (unsigned i = 0; i < 200; i++)
        blocks[i] = take(f, (i % 16 == 0 ? 8 * PAGE : 512 * KB) +
                                random_below(&seed, 2048) * UNIT);
    for (unsigned i = 0; i < 200; i++) {
        if (i % 16 == 0 || random_below(&seed, 2) == 0)
            give(f, blocks[i]);
    }
    assert_int_equal(am_fit_trim(f->fit, 0, &wait), 0);
    am_fit_set_limits(f->fit, am_fit_held(f->fit) + n_more, 0, 0);
    largest = am_fit_largest(f->fit, n_more);
    assert_int_equal(am_fit_alloc(f->fit, largest, 0, &large, &wait), 0);
    fixture_end(f);
}

static void the_largest_block_that_should_fit_does(void **state)
{
    for (uint64_t seed = 1; seed <= 50; seed++)
        largest_among_many_holes(seed);
}

static void a_page_with_queued_work_is_not_unmapped(void **state)
{
    struct fixture *f = fixture_new(8);
    struct am_fit_block *b = take(f, 8 * PAGE);
    struct am_fit_use wait;

    am_fit_free(f->fit, b, (struct am_fit_use){.streams = 1, .ticket = 5});
    /* Larger than what is mapped in one place, so something has to move. */
    take(f, PAGE);
    assert_int_equal(am_fit_trim(f->fit, 0, &wait), 0);
    assert_int_equal(wait.streams, 1);
    assert_int_equal(wait.ticket, 5);
    assert_int_equal(stats_of(f).idle, 7);
    f->done[0] = 5;
    assert_int_equal(am_fit_trim(f->fit, 0, &wait), 0);
    assert_int_equal(stats_of(f).idle, 0);
    fixture_end(f);
}

static void a_full_pool_names_the_work_to_wait_for(void **state)
{
    struct fixture *f = fixture_new(8);
    struct am_fit_block *a = take(f, 3 * PAGE);
    struct am_fit_block *b = take(f, 2 * PAGE);
    struct am_fit_block *c = take(f, 3 * PAGE);
    struct am_fit_use wait;

    am_fit_free(f->fit, a, (struct am_fit_use){.streams = 1, .ticket = 5});
    am_fit_free(f->fit, c, (struct am_fit_use){.streams = 1, .ticket = 6});
    assert_int_equal(am_fit_alloc(f->fit, 6 * PAGE, 0, &c, &wait), AM_FIT_BUSY);
    assert_int_equal(wait.ticket, 5);
    f->done[0] = 5;
    assert_int_equal(am_fit_alloc(f->fit, 6 * PAGE, 0, &c, &wait), 0);
    assert_int_equal(stats_of(f).used, 8);
    assert_true(am_fit_size(b) == 2 * PAGE);
    fixture_end(f);
}

static void memory_of_another_stream_comes_with_a_wait(void **state)
{
    struct fixture *f = fixture_new(4);
    struct am_fit_block *b = take(f, 4 * PAGE);
    struct am_fit_use wait;

    am_fit_free(f->fit, b, (struct am_fit_use){.streams = 1, .ticket = 7});
    assert_int_equal(am_fit_alloc(f->fit, 4 * PAGE, 0, &b, &wait), 0);
    assert_int_equal(wait.streams, 0); /* the same stream: in its own order */
    am_fit_free(f->fit, b, (struct am_fit_use){.streams = 1, .ticket = 8});
    assert_int_equal(am_fit_alloc(f->fit, 4 * PAGE, 3, &b, &wait), 0);
    assert_int_equal(wait.streams, 1);
    assert_int_equal(wait.ticket, 8);
    am_fit_free(f->fit, b, (struct am_fit_use){.streams = 8, .ticket = 9});
    f->done[3] = 9;
    assert_int_equal(am_fit_alloc(f->fit, 4 * PAGE, 0, &b, &wait), 0);
    assert_int_equal(wait.streams, 0);
    fixture_end(f);
}

static void a_sleeping_block_keeps_its_address_and_no_memory(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *a = take(f, 4 * PAGE + 5);
    struct am_fit_block *b = take(f, 3 * PAGE);
    uint64_t addr = am_fit_addr(a);
    struct am_fit_use wait;

    assert_int_equal(am_fit_sleep(f->fit, a, &wait), 0);
    assert_true(am_fit_is_asleep(a));
    assert_int_equal(stats_of(f).used, 3);
    assert_int_equal(am_fit_wake(f->fit, a, &wait), 0);
    assert_int_equal(am_fit_addr(a), addr);
    assert_int_equal(stats_of(f).used, 8);
    assert_int_equal(am_fit_sleep(f->fit, a, &wait), 0);
    give(f, a);
    give(f, b);
    fixture_end(f);
}

static void a_page_under_queued_work_does_not_go_to_sleep(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block *a = take(f, 4 * PAGE + PAGE / 2);
    struct am_fit_block *b = take(f, PAGE / 2);
    struct am_fit_use wait;

    assert_int_equal(am_fit_addr(b), am_fit_addr(a) + am_fit_size(a));
    am_fit_free(f->fit, b, (struct am_fit_use){.streams = 4, .ticket = 7});
    assert_int_equal(am_fit_sleep(f->fit, a, &wait), AM_FIT_BUSY);
    assert_int_equal(wait.streams, 4);
    assert_int_equal(wait.ticket, 7);
    assert_true(am_fit_is_asleep(a));
    assert_int_equal(stats_of(f).used, 1);
    assert_null(am_fit_check(f->fit));
    f->done[2] = 7;
    assert_int_equal(am_fit_sleep(f->fit, a, &wait), 0);
    assert_int_equal(stats_of(f).used, 0);
    give(f, a);
    fixture_end(f);
}

/*
 * The adversary of the bound: pairs of blocks of a page and a unit, with blocks of a page less
 * a unit on both sides, which then go.  Each pair begins in the last unit of a page and
 * ends in the first unit of another one.
 */
static void an_adversary_reaches_two_pages_a_run(void **state)
{
    enum { N = 100 };
    static const uint64_t sizes[] = {PAGE - UNIT, PAGE + UNIT, PAGE + UNIT, PAGE - UNIT};
    struct fixture *f = fixture_new(0);
    static struct am_fit_block *blocks[4 * N];
    struct am_fit_stats stats;

    for (unsigned i = 0; i < 4 * N; i++)
        blocks[i] = take(f, sizes[i % 4]);
    assert_int_equal(stats_of(f).used * PAGE, stats_of(f).live); /* not a byte is lost */
    for (unsigned i = 0; i < 4 * N; i++) {
        if (am_fit_size(blocks[i]) < PAGE)
            give(f, blocks[i]);
    }
    stats = stats_of(f);
    assert_int_equal(stats.runs, N);
    assert_int_equal(stats.used * PAGE, stats.live + N * (2 * PAGE - 2 * UNIT));
    /* Later blocks take the holes, or begin runs that keep to the bound too. */
    for (unsigned i = 0; i < N; i++)
        take(f, i % 2 == 0 ? PAGE - UNIT : 2 * PAGE);
    stats = stats_of(f);
    assert_true(stats.used * PAGE <= stats.live + 2 * PAGE * stats.runs);
    fixture_end(f);
}

/* The adversary for small blocks, which no allocator escapes that does not move them. */
static void one_small_block_keeps_its_page(void **state)
{
    enum { N_PAGES = 8, PER_PAGE = PAGE / UNIT };
    static struct am_fit_block *blocks[N_PAGES * PER_PAGE];
    static bool is_kept[N_PAGES];
    struct fixture *f = fixture_new(0);
    uint64_t first = UINT64_MAX;

    for (unsigned i = 0; i < N_PAGES * PER_PAGE; i++) {
        blocks[i] = take(f, UNIT);
        if (am_fit_addr(blocks[i]) < first)
            first = am_fit_addr(blocks[i]);
    }
    assert_int_equal(stats_of(f).used, N_PAGES);
    for (unsigned i = 0; i < N_PAGES * PER_PAGE; i++) {
        bool *kept = &is_kept[(am_fit_addr(blocks[i]) - first) / PAGE];

        if (*kept)
            give(f, blocks[i]);
        *kept = true;
    }
    assert_int_equal(stats_of(f).n_live, N_PAGES);
    assert_int_equal(stats_of(f).used, N_PAGES);
    /* The holes serve later blocks: the pages were not lost for good. */
    for (unsigned i = 0; i < N_PAGES * (PER_PAGE - 1); i++)
        take(f, UNIT);
    assert_int_equal(stats_of(f).used, N_PAGES);
    fixture_end(f);
}

static void each_failing_call_leaves_all_as_it_was(void **state)
{
    for (uint64_t n = 1;; n++) {
        struct fixture *f = fixture_new(0);
        struct am_fit_block *a = take(f, 5 * PAGE + 9);
        struct am_fit_block *b = take(f, 9 * PAGE + 9);
        struct am_fit_block *c = NULL;
        uint64_t live = stats_of(f).live - am_fit_size(a);
        struct am_fit_use wait;
        int rc;

        give(f, a);
        f->n_fallible = 0;
        f->fail_at = n;
        rc = am_fit_alloc(f->fit, 30 * PAGE + 5, 0, &c, &wait);
        assert_null(am_fit_check(f->fit));
        if (rc != 0) {
            assert_in_range(rc, 11, 13);
            assert_int_equal(stats_of(f).live, live);
            assert_int_equal(stats_of(f).used + stats_of(f).idle + stats_of(f).loose,
                             f->n_frames);
            take(f, 30 * PAGE + 5);
        }
        f->fail_at = 0;
        give(f, b);
        fixture_end(f);
        if (rc == 0)
            return;
    }
}

static void no_memory_for_books_is_no_block(void **state)
{
    for_each_fault (n) {
        struct am_fit_config config = {.page = PAGE, .unit = 512, .span = 64 * PAGE};
        struct fixture *f = calloc(1, sizeof *f);
        struct am_fit_block *block;
        struct am_fit_use wait;

        f->fit = am_fit_create(&config, &fixture_ops, f);
        if (f->fit != NULL) {
            int rc = am_fit_alloc(f->fit, 20 * PAGE + 1, 0, &block, &wait);

            assert_int_equal(rc, am_fault_fired() ? AM_FIT_NO_MEMORY : 0);
            assert_null(am_fit_check(f->fit));
        }
        am_fit_destroy(f->fit);
        assert_int_equal(f->n_frames, 0);
        free(f);
    }
}

static uint64_t random_run(uint64_t seed, size_t n)
{
    uint8_t *bytes = malloc(n);
    uint64_t hash;

    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(random_next(&seed) >> 11);
    hash = fit_model_run(bytes, n);
    free(bytes);
    return hash;
}

static void random_operations_agree_with_the_model(void **state)
{
    for (uint64_t seed = 1; seed <= 50; seed++)
        random_run(seed, 4 * 2000);
}

static void the_same_calls_give_the_same_addresses(void **state)
{
    assert_int_equal(random_run(77, 4 * 2000), random_run(77, 4 * 2000));
}

/* Sizes that a training and a serving program ask for, as often as they do. */
static const uint64_t sizes[] = {
    512,      512,      4096,     8192,      8192,      16384,     16384,
    34816,    65536,    131072,   262144,    524288,    2097152,   3932160,
    4194304,  7569408,  7569408,  8388608,   8388608,   8388608,   15138816,
    15138816, 16777216, 18874368, 23068672,  23068672,  31457280,  31457280,
    33030144, 41287680, 60555264, 121110528, 131072000, 242221056, 262144000,
};

/* However long it goes on, at half the load and more, with lives mixed. */
static void long_runs_do_not_fragment(void **state)
{
    struct fixture *f = fixture_new(0);
    static struct am_fit_block *blocks[4000];
    uint64_t target = 4096 * PAGE;
    size_t n = 0;
    uint64_t seed = 9;
    double worst = 1;

    for (unsigned i = 0; i < 200000; i++) {
        uint64_t load = target / 2 + target / 2 * (i / 100 % 100) / 100;
        struct am_fit_stats stats = stats_of(f);

        if (stats.live < load) {
            blocks[n++] =
                take(f, sizes[random_below(&seed, sizeof sizes / sizeof *sizes)]);
        } else {
            /* Three in four die young. */
            size_t young = n < 64 ? n : 64;
            size_t slot = random_below(&seed, 4) > 0 ? n - 1 - random_below(&seed, young)
                                                     : random_below(&seed, n);

            give(f, blocks[slot]);
            blocks[slot] = blocks[--n];
        }
        if (i > 20000) {
            double ratio = (double)stats.live / (double)(stats.used * PAGE);

            worst = ratio < worst ? ratio : worst;
        }
    }
    print_message("worst live / used in 200,000 operations: %.4f\n", worst);
    assert_true(worst >= 0.97);
    fixture_end(f);
}

static void a_hundred_thousand_blocks_are_placed_and_freed(void **state)
{
    struct fixture *f = fixture_new(0);
    struct am_fit_block **blocks = calloc(100000, sizeof *blocks);

    for (unsigned i = 0; i < 100000; i++)
        blocks[i] = take(f, 512 * (1 + i % 97));
    for (unsigned i = 0; i < 100000; i += 2)
        give(f, blocks[i]);
    for (unsigned i = 0; i < 100000; i += 2)
        blocks[i] = take(f, 512 * (1 + i % 97));
    assert_int_equal(stats_of(f).n_live, 100000);
    assert_true(stats_of(f).live * 100 >= stats_of(f).used * PAGE * 99);
    for (unsigned i = 0; i < 100000; i++)
        give(f, blocks[i]);
    assert_int_equal(stats_of(f).used, 0);
    free(blocks);
    fixture_end(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_begins_in_the_page_in_which_its_neighbour_ends),
        cmocka_unit_test(the_tightest_border_that_holds_the_rest_is_taken),
        cmocka_unit_test(blocks_of_whole_pages_share_none),
        cmocka_unit_test(small_blocks_take_holes_in_held_pages),
        cmocka_unit_test(
            a_small_block_takes_a_gap_of_its_size_or_the_lowest_of_the_tightest),
        cmocka_unit_test(a_small_block_lies_in_one_page),
        cmocka_unit_test(a_small_block_beside_others_takes_no_call_and_no_wait),
        cmocka_unit_test(a_freed_place_is_used_again_without_a_call),
        cmocka_unit_test(memory_that_is_ready_takes_no_call),
        cmocka_unit_test(idle_pages_move_before_new_ones_are_created),
        cmocka_unit_test(new_pages_come_first_while_memory_is_ample),
        cmocka_unit_test(an_idle_page_will_do_where_no_new_one_is_to_be_had),
        cmocka_unit_test(a_row_of_idle_pages_is_found_inside_a_gap),
        cmocka_unit_test(blocks_that_grow_a_little_leave_idle_pages_where_they_are),
        cmocka_unit_test(a_block_shares_the_page_of_a_smaller_one_at_the_limit),
        cmocka_unit_test(the_limit_counts_pages),
        cmocka_unit_test(the_last_page_serves_blocks_of_both_kinds),
        cmocka_unit_test(the_largest_block_that_should_fit_does),
        cmocka_unit_test(a_page_with_queued_work_is_not_unmapped),
        cmocka_unit_test(a_full_pool_names_the_work_to_wait_for),
        cmocka_unit_test(memory_of_another_stream_comes_with_a_wait),
        cmocka_unit_test(a_sleeping_block_keeps_its_address_and_no_memory),
        cmocka_unit_test(a_page_under_queued_work_does_not_go_to_sleep),
        cmocka_unit_test(an_adversary_reaches_two_pages_a_run),
        cmocka_unit_test(one_small_block_keeps_its_page),
        cmocka_unit_test(each_failing_call_leaves_all_as_it_was),
        cmocka_unit_test(no_memory_for_books_is_no_block),
        cmocka_unit_test(random_operations_agree_with_the_model),
        cmocka_unit_test(the_same_calls_give_the_same_addresses),
        cmocka_unit_test(long_runs_do_not_fragment),
        cmocka_unit_test(a_hundred_thousand_blocks_are_placed_and_freed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
