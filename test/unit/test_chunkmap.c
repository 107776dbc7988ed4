/* The address table: borders, failure, and readers without a lock. */
#include "unit.h"

#include <sched.h>
#include <stdlib.h>

#include "base/chunkmap.h"
#include "base/sys.h"
#include "support/process.h"

#define LEAF_SPAN (AM_CHUNK << AM_LEAF_BITS) /* 32 GB */
#define ADDRESS_END ((uintptr_t)1 << AM_ADDRESS_BITS)

static int objects[4];

static int map_make(void **state)
{
    *state = calloc(1, sizeof(struct am_chunkmap));
    return *state == NULL;
}

/* Leaves stay for the life of a map, and maps live for ever but here. */
static int map_drop(void **state)
{
    struct am_chunkmap *map = *state;

    for (size_t i = 0; i < AM_ARRAY_SIZE(map->top); i++) {
        if (map->top[i] != NULL)
            munmap(map->top[i], sizeof(struct am_chunkleaf));
    }
    free(map);
    return 0;
}

static size_t leaf_count(struct am_chunkmap *map)
{
    size_t n = 0;

    for (size_t i = 0; i < AM_ARRAY_SIZE(map->top); i++)
        n += map->top[i] != NULL;
    return n;
}

static void bind_range(struct am_chunkmap *map, uintptr_t addr, size_t size, void *object)
{
    assert_int_equal(am_chunkmap_prepare(map, addr, size), 0);
    am_chunkmap_set(map, addr, size, object);
}

static void an_empty_map_finds_nothing(void **state)
{
    struct am_chunkmap *map = *state;
    static const uintptr_t anywhere[] = {
        0,           1,           AM_CHUNK, LEAF_SPAN - 1, LEAF_SPAN, ADDRESS_END - 1,
        ADDRESS_END, UINTPTR_MAX,
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(anywhere); i++)
        assert_null(am_chunkmap_find(map, anywhere[i]));
    assert_int_equal(leaf_count(map), 0);
}

static void every_byte_of_a_range_finds_its_object_and_no_other_byte_does(void **state)
{
    struct am_chunkmap *map = *state;
    uintptr_t at = 16 * AM_TIB + 5 * AM_CHUNK;

    bind_range(map, at, 3 * AM_CHUNK, &objects[0]);
    assert_ptr_equal(am_chunkmap_find(map, at), &objects[0]);
    assert_ptr_equal(am_chunkmap_find(map, at + AM_CHUNK - 1), &objects[0]);
    assert_ptr_equal(am_chunkmap_find(map, at + AM_CHUNK), &objects[0]);
    assert_ptr_equal(am_chunkmap_find(map, at + 3 * AM_CHUNK - 1), &objects[0]);
    assert_null(am_chunkmap_find(map, at - 1));
    assert_null(am_chunkmap_find(map, at + 3 * AM_CHUNK));
}

static void the_same_place_in_another_leaf_is_another_place(void **state)
{
    struct am_chunkmap *map = *state;

    bind_range(map, AM_CHUNK, AM_CHUNK, &objects[0]);
    bind_range(map, LEAF_SPAN + AM_CHUNK, AM_CHUNK, &objects[1]);
    assert_ptr_equal(am_chunkmap_find(map, AM_CHUNK), &objects[0]);
    assert_ptr_equal(am_chunkmap_find(map, LEAF_SPAN + AM_CHUNK), &objects[1]);
    assert_null(am_chunkmap_find(map, 2 * LEAF_SPAN + AM_CHUNK));
}

static void a_range_over_the_border_of_leaves_is_one_range(void **state)
{
    struct am_chunkmap *map = *state;
    uintptr_t at = 3 * LEAF_SPAN - AM_CHUNK;

    bind_range(map, at, LEAF_SPAN + 2 * AM_CHUNK, &objects[0]);
    assert_int_equal(leaf_count(map), 3);
    assert_null(am_chunkmap_find(map, at - 1));
    assert_ptr_equal(am_chunkmap_find(map, at), &objects[0]);
    assert_ptr_equal(am_chunkmap_find(map, 3 * LEAF_SPAN), &objects[0]);
    assert_ptr_equal(am_chunkmap_find(map, 4 * LEAF_SPAN - 1), &objects[0]);
    assert_ptr_equal(am_chunkmap_find(map, 4 * LEAF_SPAN), &objects[0]);
    assert_null(am_chunkmap_find(map, 4 * LEAF_SPAN + AM_CHUNK));
}

static void a_range_that_ends_at_a_border_makes_no_leaf_behind_it(void **state)
{
    struct am_chunkmap *map = *state;

    assert_int_equal(am_chunkmap_prepare(map, LEAF_SPAN - AM_CHUNK, AM_CHUNK), 0);
    assert_int_equal(leaf_count(map), 1);
    assert_null(map->top[1]);
}

static void the_first_and_the_last_chunk_of_48_bits_can_be_bound(void **state)
{
    struct am_chunkmap *map = *state;

    bind_range(map, 0, AM_CHUNK, &objects[0]);
    bind_range(map, ADDRESS_END - AM_CHUNK, AM_CHUNK, &objects[1]);
    assert_ptr_equal(am_chunkmap_find(map, 0), &objects[0]);
    assert_ptr_equal(am_chunkmap_find(map, ADDRESS_END - 1), &objects[1]);
    /* What lies above has the same low bits and is nobody's. */
    assert_null(am_chunkmap_find(map, ADDRESS_END));
    assert_null(am_chunkmap_find(map, UINTPTR_MAX));
}

/* Threads that bind neighbours at the same time do not wait for each other's line. */
static void neighbours_have_entries_in_different_lines(void **state)
{
    static bool is_taken[1u << AM_LEAF_BITS];

    for (uintptr_t chunk = 0; chunk < 1u << AM_LEAF_BITS; chunk++) {
        size_t entry = am_chunk_entry(chunk);

        assert_false(is_taken[entry]);
        is_taken[entry] = true;
        assert_int_equal(entry / 512, chunk / 512); /* one page for a gigabyte */
        if (chunk % 32 != 0)
            assert_true(entry / 8 != am_chunk_entry(chunk - 1) / 8);
    }
}

static const char *bind_own_chunks(struct worker *self)
{
    struct am_chunkmap *map = self->shared;

    for (size_t i = 0; i < 64; i++) {
        uintptr_t at = i * LEAF_SPAN + self->index * AM_CHUNK;

        worker_check(am_chunkmap_prepare(map, at, AM_CHUNK) == 0);
        am_chunkmap_set(map, at, AM_CHUNK, &objects[self->index]);
    }
    return NULL;
}

static void threads_bind_chunks_of_one_leaf(void **state)
{
    struct worker workers[4];

    for (unsigned i = 0; i < 4; i++)
        workers[i] = (struct worker){.run = bind_own_chunks, .shared = *state};
    assert_null(run_workers(workers, 4));
    for (size_t i = 0; i < 64; i++) {
        for (size_t k = 0; k < 4; k++)
            assert_ptr_equal(am_chunkmap_find(*state, i * LEAF_SPAN + k * AM_CHUNK),
                             &objects[k]);
    }
    assert_int_equal(leaf_count(*state), 64);
}

static void entering_null_takes_back(void **state)
{
    struct am_chunkmap *map = *state;

    bind_range(map, 4 * AM_CHUNK, 4 * AM_CHUNK, &objects[0]);
    am_chunkmap_set(map, 5 * AM_CHUNK, 2 * AM_CHUNK, NULL);
    assert_ptr_equal(am_chunkmap_find(map, 5 * AM_CHUNK - 1), &objects[0]);
    assert_null(am_chunkmap_find(map, 5 * AM_CHUNK));
    assert_null(am_chunkmap_find(map, 7 * AM_CHUNK - 1));
    assert_ptr_equal(am_chunkmap_find(map, 7 * AM_CHUNK), &objects[0]);
}

static void failed_prepare_changes_nothing_that_a_reader_sees(void **state)
{
    struct am_chunkmap *map = *state;
    uintptr_t at = 7 * LEAF_SPAN + AM_CHUNK;
    size_t size = 3 * LEAF_SPAN;
    size_t n_failed = 0;

    bind_range(map, at, AM_CHUNK, &objects[0]);
    for_each_lasting_fault (n) {
        int rc = am_chunkmap_prepare(map, at, size);

        assert_int_equal(rc, am_fault_fired() ? -ENOMEM : 0);
        n_failed += rc != 0;
        assert_ptr_equal(am_chunkmap_find(map, at), &objects[0]);
        for (uintptr_t p = at + AM_CHUNK; p < at + size; p += LEAF_SPAN / 2)
            assert_null(am_chunkmap_find(map, p));
    }
    assert_true(n_failed > 0);
    am_chunkmap_set(map, at, size, &objects[1]);
    assert_ptr_equal(am_chunkmap_find(map, at + size - 1), &objects[1]);
}

static void what_is_prepared_already_makes_no_system_call(void **state)
{
    struct am_chunkmap *map = *state;

    assert_int_equal(am_chunkmap_prepare(map, 0, 2 * LEAF_SPAN), 0);
    am_fault_arm(1, true);
    assert_int_equal(am_chunkmap_prepare(map, AM_CHUNK, 2 * LEAF_SPAN - AM_CHUNK), 0);
    am_fault_disarm();
    assert_false(am_fault_fired());
}

/* Each is written once, before it is entered: what a reader finds must be there whole. */
struct numbered {
    uint64_t number;
    uint64_t again;
};

#define N_NUMBERED 20000

struct flipping {
    struct am_chunkmap *map;
    struct numbered list[N_NUMBERED];
    atomic_uint n_looking; /* readers at work; the writer waits for them */
    atomic_bool is_over;
};

#define N_READERS 3

/* The range lies over two leaves. */
#define FLIP_AT (LEAF_SPAN - 2 * AM_CHUNK)
#define FLIP_SIZE (4 * AM_CHUNK)

static const char *flip(struct worker *self)
{
    struct flipping *f = self->shared;

    while (f->n_looking < N_READERS)
        sched_yield();
    for (size_t i = 0; i < N_NUMBERED; i++) {
        f->list[i] = (struct numbered){i + 1, i + 1};
        am_chunkmap_set(f->map, FLIP_AT, FLIP_SIZE, &f->list[i]);
        if (i % 4 == 3)
            am_chunkmap_set(f->map, FLIP_AT, FLIP_SIZE, NULL);
    }
    f->is_over = true;
    return NULL;
}

static const char *look(struct worker *self)
{
    struct flipping *f = self->shared;
    uintptr_t at = FLIP_AT + self->index % 4 * AM_CHUNK;
    uint64_t last = 0;

    f->n_looking++;
    for (int i = 0; i < 100 * N_NUMBERED && !f->is_over; i++) {
        struct numbered *found = am_chunkmap_find(f->map, at);

        worker_check(am_chunkmap_find(f->map, FLIP_AT - 1) == NULL);
        if (found == NULL)
            continue;
        worker_check(found >= f->list && found < f->list + N_NUMBERED);
        worker_check(found->number == found->again);
        worker_check(found->number >= last);
        last = found->number;
    }
    return NULL;
}

static void a_reader_finds_each_object_whole_while_entries_change(void **state)
{
    struct flipping *f = calloc(1, sizeof *f);
    struct worker workers[1 + N_READERS] = {
        {.run = flip}, {.run = look}, {.run = look}, {.run = look}};
    const char *failure;

    assert_non_null(f);
    f->map = *state;
    assert_int_equal(am_chunkmap_prepare(f->map, FLIP_AT, FLIP_SIZE), 0);
    for (unsigned i = 0; i <= N_READERS; i++)
        workers[i].shared = f;
    failure = run_workers(workers, 1 + N_READERS);
    free(f);
    if (failure != NULL)
        fail_msg("%s", failure);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define on_a_new_map(f_) cmocka_unit_test_setup_teardown(f_, map_make, map_drop)
        on_a_new_map(an_empty_map_finds_nothing),
        on_a_new_map(every_byte_of_a_range_finds_its_object_and_no_other_byte_does),
        on_a_new_map(the_same_place_in_another_leaf_is_another_place),
        on_a_new_map(a_range_over_the_border_of_leaves_is_one_range),
        on_a_new_map(a_range_that_ends_at_a_border_makes_no_leaf_behind_it),
        on_a_new_map(the_first_and_the_last_chunk_of_48_bits_can_be_bound),
        on_a_new_map(neighbours_have_entries_in_different_lines),
        on_a_new_map(threads_bind_chunks_of_one_leaf),
        on_a_new_map(entering_null_takes_back),
        on_a_new_map(failed_prepare_changes_nothing_that_a_reader_sees),
        on_a_new_map(what_is_prepared_already_makes_no_system_call),
        on_a_new_map(a_reader_finds_each_object_whole_while_entries_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
