/* Slabs: memory that stays an object of its type for ever. */
#include "unit.h"

#include <stdatomic.h>
#include <string.h>

#include "base/slab.h"
#include "base/util.h"
#include "support/process.h"

struct thing {
    atomic_uint refs;
    unsigned char body[84]; /* with refs no multiple of 16 */
};

/*
 * With its link it is a power of two, so that a block, which has a link too, is full to
 * the brim.
 */
struct even_thing {
    atomic_uint refs;
    unsigned char body[116];
};

/* One block of a slab is 64 KB; this is more than three of them. */
#define N_MANY 2500

static struct am_slab *things_slab;

static bool is_zero(const struct thing *thing)
{
    static const unsigned char zero[sizeof thing->body];

    return thing->refs == 0 && memcmp(thing->body, zero, sizeof zero) == 0;
}

static void an_object_is_born_zero_and_aligned(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");

    for (int i = 0; i < N_MANY; i++) {
        struct thing *thing = am_slab_take(&slab);

        assert_non_null(thing);
        assert_true(is_zero(thing));
        assert_int_equal((uintptr_t)thing % 16, 0);
        thing->refs = 1;
        memset(thing->body, 0xff, sizeof thing->body);
    }
}

static void live_objects_share_no_byte(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");
    static struct thing *things[N_MANY];

    for (unsigned i = 0; i < N_MANY; i++) {
        things[i] = am_slab_take(&slab);
        assert_non_null(things[i]);
        things[i]->refs = i;
        memset(things[i]->body, (int)(i % 251), sizeof things[i]->body);
    }
    for (unsigned i = 0; i < N_MANY; i++) {
        assert_int_equal(things[i]->refs, i);
        for (size_t k = 0; k < sizeof things[i]->body; k++)
            assert_int_equal(things[i]->body[k], i % 251);
    }
}

static void the_last_object_of_a_block_lies_in_it(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct even_thing, "test");

    for (int i = 0; i < N_MANY; i++) {
        struct even_thing *thing = am_slab_take(&slab);

        assert_non_null(thing);
        memset(thing->body, 0xff, sizeof thing->body); /* a sanitizer looks on */
    }
}

static void giving_back_touches_no_byte_of_the_object(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");
    struct thing *thing = am_slab_take(&slab);
    struct thing before;

    assert_non_null(thing);
    thing->refs = 0;
    memset(thing->body, 0x5a, sizeof thing->body);
    memcpy(&before, thing, sizeof before);
    am_slab_give(&slab, thing);
    assert_memory_equal(thing, &before, sizeof before);
}

static void freed_frames_are_reused_first(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");
    struct thing *a = am_slab_take(&slab);
    struct thing *b = am_slab_take(&slab);

    assert_true(a != NULL && b != NULL);
    b->body[0] = 7;
    am_slab_give(&slab, a);
    am_slab_give(&slab, b);
    assert_ptr_equal(am_slab_take(&slab), b);
    assert_int_equal(b->body[0], 7); /* what its last user left */
    assert_ptr_equal(am_slab_take(&slab), a);
}

static void memory_is_asked_for_only_when_none_is_spare(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");
    static struct thing *things[N_MANY];

    for (int i = 0; i < N_MANY; i++)
        things[i] = am_slab_take(&slab);
    for (int i = 0; i < N_MANY; i++)
        am_slab_give(&slab, things[i]);
    am_fault_arm(1, true);
    for (int i = 0; i < N_MANY; i++)
        assert_non_null(am_slab_take(&slab));
    am_fault_disarm();
    assert_false(am_fault_fired());
}

static void failed_growth_gives_null_and_loses_nothing(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");
    struct thing *thing;

    am_fault_arm(1, true);
    assert_null(am_slab_take(&slab));
    am_fault_disarm();
    thing = am_slab_take(&slab);
    assert_non_null(thing);
    am_slab_give(&slab, thing);
    am_fault_arm(1, true);
    assert_ptr_equal(am_slab_take(&slab), thing);
    am_fault_disarm();
}

/* More than one thread's list holds: they go on to other threads. */
static const char *take_many(struct worker *self)
{
    struct thing **things = self->shared;

    for (int i = 0; i < N_MANY; i++) {
        things[i] = am_slab_take(things_slab);
        worker_check(things[i] != NULL);
    }
    return NULL;
}

static void memory_freed_by_one_thread_serves_another(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");
    static struct thing *things[N_MANY];
    static struct thing *again[N_MANY];
    size_t kept = 0;

    things_slab = &slab;
    assert_null(run_thread(take_many, things));
    for (int i = 0; i < N_MANY; i++)
        am_slab_give(&slab, things[i]);
    assert_null(run_thread(take_many, again));
    for (int i = 0; i < N_MANY; i++) {
        again[i]->body[0] = 0;
        things[i]->body[0] = 0;
    }
    for (int i = 0; i < N_MANY; i++)
        again[i]->body[0] = 1;
    for (int i = 0; i < N_MANY; i++)
        kept += things[i]->body[0] == 0;
    assert_in_range(kept, 0, 96); /* in this thread's list */
}

static void objects_share_no_line_of_the_cache(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");

    for (int i = 0; i < N_MANY; i++)
        assert_int_equal((uintptr_t)am_slab_take(&slab) % 64, 0);
}

/* refs is who has it: taken while it is not 0, an object would have two owners. */
static const char *take_and_give(struct worker *self)
{
    struct thing *mine[16];

    for (int round = 0; round < 1000; round++) {
        for (size_t i = 0; i < AM_ARRAY_SIZE(mine); i++) {
            mine[i] = am_slab_take(self->shared);
            worker_check(mine[i] != NULL);
            worker_check(atomic_exchange(&mine[i]->refs, self->index + 1) == 0);
        }
        for (size_t i = 0; i < AM_ARRAY_SIZE(mine); i++) {
            worker_check(atomic_exchange(&mine[i]->refs, 0) == self->index + 1);
            am_slab_give(self->shared, mine[i]);
        }
    }
    return NULL;
}

static void no_two_threads_have_one_object(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");
    struct worker workers[4];
    const char *failure;

    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = take_and_give, .shared = &slab};
    failure = run_workers(workers, 4);
    if (failure != NULL)
        fail_msg("%s", failure);
}

/* Large enough for blocks of 2 MB, which come after the first ones. */
#define N_LARGE 30000

static void objects_of_large_blocks_are_born_zero_and_aligned(void **state)
{
    static struct am_slab slab = AM_SLAB_INIT(struct thing, "test");

    for (unsigned i = 0; i < N_LARGE; i++) {
        struct thing *thing = am_slab_take(&slab);

        assert_non_null(thing);
        assert_true(is_zero(thing));
        assert_int_equal((uintptr_t)thing % 64, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_object_is_born_zero_and_aligned),
        cmocka_unit_test(objects_of_large_blocks_are_born_zero_and_aligned),
        cmocka_unit_test(live_objects_share_no_byte),
        cmocka_unit_test(the_last_object_of_a_block_lies_in_it),
        cmocka_unit_test(giving_back_touches_no_byte_of_the_object),
        cmocka_unit_test(freed_frames_are_reused_first),
        cmocka_unit_test(memory_is_asked_for_only_when_none_is_spare),
        cmocka_unit_test(failed_growth_gives_null_and_loses_nothing),
        cmocka_unit_test(memory_freed_by_one_thread_serves_another),
        cmocka_unit_test(objects_share_no_line_of_the_cache),
        cmocka_unit_test(no_two_threads_have_one_object),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
