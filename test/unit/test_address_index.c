/* Ranges of any size: their ends, what lies beside them, failure, and readers. */
#include "unit.h"

#include <stdlib.h>

#include "base/address_index.h"
#include "base/sys.h"
#include "support/process.h"

#define MID ((size_t)1 << AM_ADDRESS_MID_SHIFT)
#define TOP ((size_t)1 << AM_ADDRESS_TOP_SHIFT)
#define ADDRESS_END ((uintptr_t)1 << AM_ADDRESS_BITS)

static uint64_t objects[4];

static int map_make(void **state)
{
    *state = calloc(1, sizeof(struct am_address_index));
    return *state == NULL;
}

/* Nodes stay for the life of a map, and maps live for ever but here. */
static int map_drop(void **state)
{
    struct am_address_index *map = *state;

    for (size_t i = 0; i < AM_ARRAY_SIZE(map->top); i++) {
        struct am_address_node *node;

        if ((map->top[i] & 1) == 0)
            continue;
        node = (struct am_address_node *)(map->top[i] - 1);
        for (size_t k = 0; k < AM_ADDRESS_PARTS; k++) {
            if (node->entry[k] & 1)
                free((struct am_address_node *)(node->entry[k] - 1));
        }
        free(node);
    }
    free(map);
    return 0;
}

static void enter(struct am_address_index *map, uintptr_t start, size_t size,
                  void *object)
{
    assert_int_equal(am_address_prepare(map, start, size), 0);
    am_address_set(map, start, size, object);
}

/* Each byte at an end, and some between. */
static void assert_holds(struct am_address_index *map, uintptr_t start, size_t size,
                         void *object)
{
    assert_ptr_equal(am_address_find(map, start), object);
    assert_ptr_equal(am_address_find(map, start + size / 2), object);
    assert_ptr_equal(am_address_find(map, start + size - 1), object);
    if (start > 0)
        assert_null(am_address_find(map, start - 1));
    assert_null(am_address_find(map, start + size));
}

static void a_range_of_any_size_is_found_by_its_bytes_alone(void **state)
{
    static const size_t sizes[] = {
        AM_CHUNK, 3 * AM_CHUNK, MID - AM_CHUNK, MID,         MID + AM_CHUNK, 5 * MID,
        TOP,      TOP + MID,    2 * TOP,        32 * AM_TIB, TOP - AM_CHUNK,
    };
    static const uintptr_t starts[] = {
        16 * AM_TIB,       16 * AM_TIB + AM_CHUNK,       16 * AM_TIB + MID,
        17 * AM_TIB - MID, 17 * AM_TIB + TOP - AM_CHUNK, 0,
    };
    struct am_address_index *map = *state;

    for (size_t i = 0; i < AM_ARRAY_SIZE(sizes); i++) {
        for (size_t k = 0; k < AM_ARRAY_SIZE(starts); k++) {
            enter(map, starts[k], sizes[i], &objects[0]);
            assert_holds(map, starts[k], sizes[i], &objects[0]);
            assert_non_null(am_address_first(map, starts[k], 1));
            assert_ptr_equal(am_address_first(map, starts[k] + sizes[i] - 1, 2 * TOP),
                             &objects[0]);
            assert_null(am_address_first(map, starts[k] + sizes[i], 2 * TOP));
            am_address_set(map, starts[k], sizes[i], NULL);
            assert_null(am_address_first(map, 0, ADDRESS_END));
            assert_null(am_address_find(map, starts[k]));
            assert_null(am_address_find(map, starts[k] + sizes[i] - 1));
        }
    }
}

static void addresses_that_no_range_can_have_are_empty(void **state)
{
    struct am_address_index *map = *state;

    enter(map, 2 * TOP, AM_CHUNK, &objects[0]);
    assert_null(am_address_first(map, ADDRESS_END, TOP));
    assert_null(am_address_first(map, UINTPTR_MAX, 1));
    assert_null(am_address_first(map, 0, 2 * TOP));
    assert_non_null(am_address_first(map, 0, 2 * TOP + 1));
    assert_non_null(am_address_first(map, 0, SIZE_MAX));
}

static void neighbours_keep_to_themselves(void **state)
{
    struct am_address_index *map = *state;
    uintptr_t at = 16 * AM_TIB + 3 * AM_CHUNK;

    enter(map, at, TOP, &objects[0]);
    enter(map, at + TOP, AM_CHUNK, &objects[1]);
    enter(map, at - AM_CHUNK, AM_CHUNK, &objects[2]);
    assert_ptr_equal(am_address_find(map, at - 1), &objects[2]);
    assert_ptr_equal(am_address_find(map, at), &objects[0]);
    assert_ptr_equal(am_address_find(map, at + TOP - 1), &objects[0]);
    assert_ptr_equal(am_address_find(map, at + TOP), &objects[1]);
    am_address_set(map, at, TOP, NULL);
    assert_ptr_equal(am_address_find(map, at - 1), &objects[2]);
    assert_null(am_address_find(map, at));
    assert_ptr_equal(am_address_find(map, at + TOP), &objects[1]);
}

static void the_end_of_the_address_space_can_be_entered(void **state)
{
    struct am_address_index *map = *state;

    enter(map, ADDRESS_END - AM_CHUNK, AM_CHUNK, &objects[0]);
    assert_ptr_equal(am_address_find(map, ADDRESS_END - 1), &objects[0]);
    assert_null(am_address_find(map, ADDRESS_END));
    assert_null(am_address_find(map, UINTPTR_MAX));
    am_address_set(map, ADDRESS_END - AM_CHUNK, AM_CHUNK, NULL);
    enter(map, 0, ADDRESS_END, &objects[1]);
    assert_ptr_equal(am_address_find(map, 0), &objects[1]);
    assert_ptr_equal(am_address_find(map, ADDRESS_END - 1), &objects[1]);
}

static void failed_prepare_changes_nothing_that_a_reader_sees(void **state)
{
    struct am_address_index *map = *state;
    uintptr_t at = 16 * AM_TIB + AM_CHUNK;

    for (unsigned n = 1; n <= 4; n++) {
        am_fault_arm(n, true);
        assert_int_equal(am_address_prepare(map, at, 3 * TOP), -ENOMEM);
        am_fault_disarm();
        assert_null(am_address_find(map, at));
        assert_null(am_address_find(map, at + 3 * TOP - 1));
        map_drop(state);
        assert_int_equal(map_make(state), 0);
        map = *state;
    }
    enter(map, at, 3 * TOP, &objects[0]);
    am_fault_arm(1, true); /* what is there already needs no memory */
    assert_int_equal(am_address_prepare(map, at, 3 * TOP), 0);
    am_fault_disarm();
    assert_false(am_fault_fired());
}

#define CHUNKS (3 * 128 * 128)

/* A range that is entered; n is 0 when it is not. */
struct range {
    size_t first;
    size_t n;
};

/* As many chunks as are free from here on, at most n. */
static size_t room_at(struct range **model, size_t first, size_t n)
{
    size_t k = 0;

    while (k < n && first + k < CHUNKS && model[first + k] == NULL)
        k++;
    return k;
}

static void model_set(struct range **model, const struct range *range, struct range *to)
{
    for (size_t k = 0; k < range->n; k++)
        model[range->first + k] = to;
}

/* Beside a table with an entry for each chunk. */
static void random_ranges_agree_with_a_plain_table(void **state)
{
    static struct range *model[CHUNKS];
    static struct range ranges[2000];
    struct am_address_index *map = *state;
    uint64_t seed = 1;

    for (size_t round = 0; round < AM_ARRAY_SIZE(ranges); round++) {
        size_t first = random_below(&seed, CHUNKS);
        size_t limit = random_below(&seed, 4) == 0 ? CHUNKS : 200;
        struct range *range = model[first];

        if (range != NULL) {
            am_address_set(map, range->first * AM_CHUNK, range->n * AM_CHUNK, NULL);
            model_set(model, range, NULL);
        } else {
            range = &ranges[round];
            range->first = first;
            range->n = room_at(model, first, 1 + random_below(&seed, limit));
            enter(map, first * AM_CHUNK, range->n * AM_CHUNK, range);
            model_set(model, range, range);
        }
        for (int look = 0; look < 50; look++) {
            size_t k = random_below(&seed, CHUNKS);

            assert_ptr_equal(am_address_find(map, k * AM_CHUNK + 77), model[k]);
        }
    }
}

static const char *read_always(struct worker *self)
{
    for (int i = 0; i < 100000; i++) {
        void *found = am_address_find(self->shared, 16 * AM_TIB + MID / 2);

        worker_check(found == NULL || found == &objects[0]);
        worker_check(am_address_find(self->shared, 15 * AM_TIB) == NULL);
    }
    return NULL;
}

static const char *write_often(struct worker *self)
{
    for (int i = 0; i < 20000; i++) {
        size_t size = (size_t)(1 + i % 5) * MID + (size_t)(i % 3) * AM_CHUNK;

        if (am_address_prepare(self->shared, 16 * AM_TIB, size) != 0)
            break;
        am_address_set(self->shared, 16 * AM_TIB, size, &objects[0]);
        am_address_set(self->shared, 16 * AM_TIB, size, NULL);
    }
    return NULL;
}

static void readers_find_an_object_or_none(void **state)
{
    struct worker workers[3] = {{.run = read_always, .shared = *state},
                                {.run = read_always, .shared = *state},
                                {.run = write_often, .shared = *state}};

    assert_null(run_workers(workers, 3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define on_a_new_map(f_) cmocka_unit_test_setup_teardown(f_, map_make, map_drop)
        on_a_new_map(a_range_of_any_size_is_found_by_its_bytes_alone),
        on_a_new_map(addresses_that_no_range_can_have_are_empty),
        on_a_new_map(neighbours_keep_to_themselves),
        on_a_new_map(the_end_of_the_address_space_can_be_entered),
        on_a_new_map(failed_prepare_changes_nothing_that_a_reader_sees),
        on_a_new_map(random_ranges_agree_with_a_plain_table),
        on_a_new_map(readers_find_an_object_or_none),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
