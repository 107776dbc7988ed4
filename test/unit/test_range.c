/*
 * The ranges of a pool: single steps, and random ones beside a table that has an entry
 * for each byte.
 */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "core/pool/range.h"
#include "support/support.h"

enum { SIZE = 64, STREAMS = 3 };

static struct am_freeing *freeing_create(int32_t stream, uint64_t ticket)
{
    struct am_freeing *freeing = calloc(1, sizeof *freeing);

    assert_non_null(freeing);
    freeing->refs = 1;
    freeing->stream = stream;
    freeing->ticket = ticket;
    am_waitlist_init(&freeing->waiting);
    return freeing;
}

static struct am_ranges begin(void)
{
    struct am_ranges ranges;

    assert_int_equal(am_ranges_init(&ranges, SIZE), 0);
    return ranges;
}

static struct am_range *take(struct am_ranges *ranges, size_t size)
{
    struct am_range *range = am_ranges_fit(ranges, size);

    assert_non_null(range);
    assert_int_equal(am_ranges_take(ranges, range, size), 0);
    assert_true(range->is_live);
    assert_int_equal(range->size, size);
    return range;
}

static void the_best_fit_is_the_smallest_that_is_large_enough(void **state)
{
    struct am_ranges ranges = begin();
    struct am_range *a = take(&ranges, 10), *b = take(&ranges, 1), *c = take(&ranges, 5);
    struct am_range *d = take(&ranges, 1);

    assert_int_equal(a->start, 0);
    assert_int_equal(d->start, 16);
    assert_int_equal(ranges.live, 17);
    am_ranges_give(&ranges, a, NULL);
    am_ranges_give(&ranges, c, NULL);
    assert_ptr_equal(am_ranges_fit(&ranges, 4), c);
    assert_ptr_equal(am_ranges_fit(&ranges, 6), a);
    assert_int_equal(am_ranges_fit(&ranges, 11)->start, 17);
    assert_null(am_ranges_fit(&ranges, SIZE));
    am_ranges_give(&ranges, b, NULL);
    assert_int_equal(am_ranges_fit(&ranges, 11)->start, 0); /* three joined: 16 */
    am_ranges_give(&ranges, d, NULL);
    assert_int_equal(am_ranges_fit(&ranges, SIZE)->size, SIZE);
    assert_int_equal(ranges.n_live, 0);
    am_ranges_destroy(&ranges);
}

/* A range that a stream freed twice is for all only when the later free is done. */
static void joined_ranges_wait_for_the_last_free(void **state)
{
    struct am_ranges ranges = begin();
    struct am_range *a = take(&ranges, 10), *b = take(&ranges, 10),
                    *end = take(&ranges, 44);
    struct am_freeing *first = freeing_create(1, 1), *second = freeing_create(1, 2);
    struct am_range *joined;

    am_ranges_give(&ranges, b, first);
    am_ranges_give(&ranges, a, second);
    joined = am_ranges_fit(&ranges, 20);
    assert_non_null(joined);
    assert_true(am_range_is_for(joined, 1) && !am_range_is_for(joined, 2));
    first->is_done = true;
    am_ranges_open(&ranges, 1);
    assert_false(am_range_is_for(joined, 2));

    /* The part that `second` was about is taken again; the rest is still its. */
    assert_int_equal(am_ranges_take(&ranges, joined, 10), 0);
    second->is_done = true;
    am_ranges_open(&ranges, 1);
    assert_true(am_range_is_for(am_ranges_find(&ranges, 15), 2));
    am_ranges_give(&ranges, joined, NULL);
    am_ranges_give(&ranges, end, NULL);
    assert_int_equal(am_ranges_fit(&ranges, SIZE)->size, SIZE);
    am_freeing_put(first);
    am_freeing_put(second);
    am_ranges_destroy(&ranges);
}

static void gathering_joins_what_one_stream_may_have(void **state)
{
    struct am_ranges ranges = begin();
    struct am_range *a = take(&ranges, 20), *b = take(&ranges, 20),
                    *c = take(&ranges, 24);
    struct am_freeing *one = freeing_create(1, 1), *two = freeing_create(2, 2);
    struct am_range *joined;

    am_ranges_give(&ranges, a, NULL);
    am_ranges_give(&ranges, b, one);
    am_ranges_give(&ranges, c, two);
    assert_null(am_ranges_fit(&ranges, 25));
    assert_null(am_ranges_gather(&ranges, 3, 25));
    assert_null(am_ranges_gather(&ranges, 1, 41));
    assert_null(am_ranges_gather(&ranges, 1, 20)); /* a is enough, so nothing is joined */
    joined = am_ranges_gather(&ranges, 1, 25);
    assert_ptr_equal(joined, a);
    assert_int_equal(joined->size, 25);
    assert_false(am_range_is_for(joined, 2));
    assert_int_equal(am_ranges_find(&ranges, 25)->size,
                     15); /* the rest of b is as it was */
    assert_true(am_range_is_for(am_ranges_find(&ranges, 25), 1));
    one->is_done = true;
    am_ranges_open(&ranges, 1);
    assert_true(am_range_is_for(am_ranges_find(&ranges, 39), 2));
    am_freeing_put(one);
    am_freeing_put(two);
    am_ranges_destroy(&ranges);
}

/* ---- random steps ---- */

/* What the table knows of a byte. */
struct byte {
    bool is_live;
    const struct am_freeing *freeing; /* idle: what freed it last; NULL: long ago */
};

struct world {
    struct am_ranges ranges;
    struct byte table[SIZE];
    struct am_freeing *frees[STREAMS + 1][64]; /* of each stream, in order */
    size_t n_frees[STREAMS + 1];
    size_t n_done[STREAMS + 1];
    uint64_t ticket;
    uint64_t seed;
};

static bool byte_is_for(const struct byte *byte, int32_t stream)
{
    return byte->freeing == NULL || byte->freeing->is_done ||
           byte->freeing->stream == stream;
}

static void check(struct world *w)
{
    struct am_range *last = NULL;
    size_t at = 0, live = 0;

    while (at < SIZE) {
        struct am_range *range = am_ranges_find(&w->ranges, at);

        assert_non_null(range);
        assert_int_equal(range->start, at);
        for (size_t i = at; i < at + range->size; i++) {
            assert_int_equal(w->table[i].is_live, range->is_live);
            /*
             * Who may have it, may in the table too; it may be kept longer than need be.
             */
            for (int32_t stream = 1; stream <= STREAMS; stream++) {
                if (am_range_is_for(range, stream))
                    assert_true(byte_is_for(&w->table[i], stream));
            }
        }
        if (range->is_live)
            live += range->size;
        else if (last != NULL && !last->is_live)
            assert_false(last->freeing == NULL && range->freeing == NULL);
        last = range;
        at += range->size;
    }
    assert_int_equal(at, SIZE);
    assert_int_equal(w->ranges.live, live);
}

static void step_take(struct world *w, int32_t stream)
{
    size_t size = 1 + random_below(&w->seed, 12);
    struct am_range *range = am_ranges_fit(&w->ranges, size);

    while (range != NULL && !am_range_is_for(range, stream))
        range = am_ranges_next(range);
    if (range == NULL)
        range = am_ranges_gather(&w->ranges, stream, size);
    if (range == NULL)
        return;
    assert_int_equal(am_ranges_take(&w->ranges, range, size), 0);
    for (size_t i = range->start; i < range->start + size; i++) {
        assert_false(w->table[i].is_live);
        w->table[i] = (struct byte){.is_live = true};
    }
}

static void step_give(struct world *w, int32_t stream)
{
    struct am_range *range = am_ranges_find(&w->ranges, random_below(&w->seed, SIZE));
    struct am_freeing *freeing;

    if (!range->is_live || w->n_frees[stream] == AM_ARRAY_SIZE(w->frees[stream]))
        return;
    freeing = freeing_create(stream, ++w->ticket);
    w->frees[stream][w->n_frees[stream]++] = freeing;
    for (size_t i = range->start; i < range->start + range->size; i++)
        w->table[i] = (struct byte){.freeing = freeing};
    am_ranges_give(&w->ranges, range, freeing);
}

/*
 * The stream gets to some of its frees; when to all of them, everything it freed is for
 * all.
 */
static void step_run(struct world *w, int32_t stream)
{
    size_t n = w->n_frees[stream] - w->n_done[stream];

    if (n > 0)
        n = 1 + random_below(&w->seed, n);
    while (n-- > 0)
        w->frees[stream][w->n_done[stream]++]->is_done = true;
    am_ranges_open(&w->ranges, stream);
    if (w->n_done[stream] < w->n_frees[stream])
        return;
    for (size_t i = 0; i < SIZE; i++) {
        const struct am_freeing *freeing = am_ranges_find(&w->ranges, i)->freeing;

        assert_true(freeing == NULL || freeing->stream != stream);
        if (w->table[i].freeing != NULL && w->table[i].freeing->stream == stream)
            w->table[i].freeing = NULL;
    }
    while (w->n_frees[stream] > 0)
        am_freeing_put(w->frees[stream][--w->n_frees[stream]]);
    w->n_done[stream] = 0;
}

static void random_steps_agree_with_a_table(void **state)
{
    for (uint64_t seed = 1; seed <= 50; seed++) {
        struct world w = {.ranges = begin(), .seed = seed};

        for (int i = 0; i < 2000; i++) {
            int32_t stream = 1 + (int32_t)random_below(&w.seed, STREAMS);

            switch (random_below(&w.seed, 5)) {
            case 0:
            case 1:
                step_take(&w, stream);
                break;
            case 2:
            case 3:
                step_give(&w, stream);
                break;
            default:
                step_run(&w, stream);
            }
            check(&w);
        }
        for (int32_t stream = 1; stream <= STREAMS; stream++) {
            for (size_t i = 0; i < w.n_frees[stream]; i++)
                am_freeing_put(w.frees[stream][i]);
        }
        am_ranges_destroy(&w.ranges);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_best_fit_is_the_smallest_that_is_large_enough),
        cmocka_unit_test(joined_ranges_wait_for_the_last_free),
        cmocka_unit_test(gathering_joins_what_one_stream_may_have),
        cmocka_unit_test(random_steps_agree_with_a_table),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
