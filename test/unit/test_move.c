/* Moving bytes: long moves go another way than short ones, and nobody can tell. */
#include "unit.h"

#include <stdlib.h>
#include <string.h>

#include "backend/host/host.h"

#define LONG (16 * AM_MIB) /* from here on the cache is bypassed */
#define ROOM (LONG + 4096) /* with some bytes before and behind that must not change */

static struct {
    uint8_t *from;
    uint8_t *to;
    uint8_t *expected;
} t;

static int begin(void **state)
{
    uint64_t seed = 3;

    t.from = malloc(ROOM);
    t.to = malloc(ROOM);
    t.expected = malloc(ROOM);
    if (t.from == NULL || t.to == NULL || t.expected == NULL)
        return -1;
    for (size_t i = 0; i < ROOM; i += 8) {
        uint64_t value = random_next(&seed);

        memcpy(t.from + i, &value, 8);
    }
    return 0;
}

static int end(void **state)
{
    free(t.from);
    free(t.to);
    free(t.expected);
    return 0;
}

/* Also that no byte before or behind changes. */
static void check_move(size_t to, size_t from, size_t size)
{
    memset(t.to, 0xee, ROOM);
    memset(t.expected, 0xee, ROOM);
    memcpy(t.expected + to, t.from + from, size);
    host_move(t.to + to, t.from + from, size);
    if (memcmp(t.to, t.expected, ROOM) != 0)
        fail_msg("%zu bytes from %zu to %zu", size, from, to);
}

static void short_moves_move(void **state)
{
    static const size_t sizes[] = {0, 1, 15, 63, 64, 65, 4096, AM_MIB + 1};

    for (size_t i = 0; i < AM_ARRAY_SIZE(sizes); i++)
        check_move(33, 7, sizes[i]);
}

static void long_moves_move_from_any_address_to_any(void **state)
{
    static const size_t offsets[] = {0, 1, 8, 15, 16, 17, 48, 63, 64};

    for (size_t i = 0; i < AM_ARRAY_SIZE(offsets); i++) {
        check_move(offsets[i], 0, LONG);
        check_move(64, offsets[i], LONG + 1);
        check_move(offsets[i], 64 - offsets[i], LONG + 128 - offsets[i]);
    }
}

static void every_length_around_the_border_moves_whole(void **state)
{
    static const size_t more[] = {0, 1, 2, 31, 62, 63, 64, 65, 66, 127, 128, 129};

    check_move(5, 3, LONG - 1);
    for (size_t i = 0; i < AM_ARRAY_SIZE(more); i++)
        check_move(5, 3, LONG + more[i]);
}

/* Overlapping by all but a few bytes, in either direction. */
static void long_moves_may_overlap(void **state)
{
    static const size_t steps[] = {0, 1, 64, 4000};

    for (size_t i = 0; i < AM_ARRAY_SIZE(steps); i++) {
        memcpy(t.to, t.from, ROOM);
        memcpy(t.expected, t.from, ROOM);
        memmove(t.expected + steps[i], t.expected, LONG);
        host_move(t.to + steps[i], t.to, LONG);
        assert_int_equal(memcmp(t.to, t.expected, ROOM), 0);

        memcpy(t.to, t.from, ROOM);
        memcpy(t.expected, t.from, ROOM);
        memmove(t.expected, t.expected + steps[i], LONG);
        host_move(t.to, t.to + steps[i], LONG);
        assert_int_equal(memcmp(t.to, t.expected, ROOM), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(short_moves_move),
        cmocka_unit_test(long_moves_move_from_any_address_to_any),
        cmocka_unit_test(every_length_around_the_border_moves_whole),
        cmocka_unit_test(long_moves_may_overlap),
    };

    return cmocka_run_group_tests(tests, begin, end);
}
