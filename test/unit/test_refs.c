/* Reference counts in parts: none is lost, and the last drop is seen once. */
#include "unit.h"

#include "base/refs.h"
#include "support/process.h"

static struct am_refs refs;

static void the_makers_drop_is_the_last_where_it_is_alone(void **state)
{
    am_refs_init(&refs);
    assert_true(am_refs_try(&refs));
    assert_false(am_refs_drop(&refs));
    am_refs_gather(&refs);
    assert_true(am_refs_drop(&refs));
    assert_false(am_refs_try(&refs));
}

static void a_reference_outlives_the_makers(void **state)
{
    am_refs_init(&refs);
    am_refs_more(&refs);
    am_refs_gather(&refs);
    assert_false(am_refs_drop(&refs)); /* the maker's */
    assert_true(am_refs_try(&refs));
    am_refs_more(&refs);
    assert_false(am_refs_drop(&refs));
    assert_false(am_refs_drop(&refs));
    assert_true(am_refs_drop(&refs));
    assert_false(am_refs_try(&refs));
}

/* Drops what the main thread took: this part goes below zero. */
static const char *drop_ten(struct worker *self)
{
    for (int i = 0; i < 10; i++)
        worker_check(!am_refs_drop(&refs));
    return NULL;
}

static void a_reference_may_be_dropped_by_another_thread(void **state)
{
    for (int round = 0; round < 40; round++) { /* the parts come in every order */
        am_refs_init(&refs);
        for (int i = 0; i < 11; i++)
            am_refs_more(&refs);
        assert_null(run_thread(drop_ten, NULL));
        am_refs_gather(&refs);
        assert_false(am_refs_drop(&refs));
        assert_true(am_refs_drop(&refs));
    }
}

static atomic_uint n_last;

/* References come and go until none is left. */
static const char *use_until_the_end(struct worker *self)
{
    unsigned held = 0;

    for (unsigned i = 0; i < 100000; i++) {
        if (held == 0 || i % 3 != 0) {
            if (!am_refs_try(&refs))
                break;
            held++;
        } else {
            n_last += am_refs_drop(&refs);
            held--;
        }
        worker_check(n_last == 0 || held == 0);
    }
    while (held-- > 0)
        n_last += am_refs_drop(&refs);
    return NULL;
}

static const char *end_it(struct worker *self)
{
    am_refs_gather(&refs);
    n_last += am_refs_drop(&refs);
    return NULL;
}

static void exactly_one_drop_is_the_last(void **state)
{
    for (int round = 0; round < 20; round++) {
        struct worker workers[5] = {{.run = use_until_the_end},
                                    {.run = use_until_the_end},
                                    {.run = end_it},
                                    {.run = use_until_the_end},
                                    {.run = use_until_the_end}};

        n_last = 0;
        am_refs_init(&refs);
        assert_null(run_workers(workers, 5));
        assert_int_equal(n_last, 1);
        assert_false(am_refs_try(&refs));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_makers_drop_is_the_last_where_it_is_alone),
        cmocka_unit_test(a_reference_outlives_the_makers),
        cmocka_unit_test(a_reference_may_be_dropped_by_another_thread),
        cmocka_unit_test(exactly_one_drop_is_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
