/* Shards: a thread keeps its part, threads have different ones, and a tally adds up. */
#include "unit.h"

#include <stdbool.h>

#include "base/shard.h"
#include "support/process.h"

static unsigned parts[AM_SHARDS];

static const char *note_part(struct worker *self)
{
    unsigned part = am_shard();

    worker_check(part < AM_SHARDS);
    for (int i = 0; i < 100; i++)
        worker_check(am_shard() == part);
    parts[self->index] = part;
    return NULL;
}

static void as_many_threads_as_parts_share_none(void **state)
{
    struct worker workers[AM_SHARDS];
    bool is_taken[AM_SHARDS] = {false};

    for (unsigned i = 0; i < AM_SHARDS; i++)
        workers[i] = (struct worker){.run = note_part};
    assert_null(run_workers(workers, AM_SHARDS));
    for (unsigned i = 0; i < AM_SHARDS; i++) {
        assert_false(is_taken[parts[i]]);
        is_taken[parts[i]] = true;
    }
}

static void parts_share_no_line_of_the_cache(void **state)
{
    static struct am_tally tally;

    for (unsigned i = 1; i < AM_SHARDS; i++)
        assert_true((uintptr_t)&tally.part[i].n - (uintptr_t)&tally.part[i - 1].n >= 64);
}

#define N_ADDS 10000

/* Ones that another thread takes back: a part may be below zero. */
static const char *add_or_take_back(struct worker *self)
{
    for (int i = 0; i < N_ADDS; i++)
        am_tally_add(self->shared, self->index % 4 == 0 ? -1 : 1);
    return NULL;
}

static void a_tally_is_the_sum_of_what_all_threads_added(void **state)
{
    static struct am_tally tally;
    struct worker workers[8];

    for (unsigned i = 0; i < 8; i++)
        workers[i] = (struct worker){.run = add_or_take_back, .shared = &tally};
    assert_null(run_workers(workers, 8));
    assert_int_equal(am_tally_sum(&tally), 4 * N_ADDS);
    am_tally_add(&tally, -4 * N_ADDS);
    assert_int_equal(am_tally_sum(&tally), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_many_threads_as_parts_share_none),
        cmocka_unit_test(parts_share_no_line_of_the_cache),
        cmocka_unit_test(a_tally_is_the_sum_of_what_all_threads_added),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
