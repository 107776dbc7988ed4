/* Identifiers made from names: base/machine.c. */
#include "support/support.h"

#include <stdio.h>
#include <string.h>

#include "base/machine.h"

enum { N = 1000 };

static void assert_all_differ(uint8_t (*all)[AM_UUID_SIZE])
{
    for (int i = 0; i < N; i++) {
        assert_int_equal(all[i][6] & 0xf0, 0x80);
        assert_int_equal(all[i][8] & 0xc0, 0x80);
        for (int k = 0; k < i; k++)
            assert_memory_not_equal(all[i], all[k], AM_UUID_SIZE);
    }
}

static void names_of_one_space_have_different_ids(void **state)
{
    static const uint8_t space[AM_UUID_SIZE] = {1};
    uint8_t all[N][AM_UUID_SIZE], again[AM_UUID_SIZE];
    char name[32];

    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof(name), "aclmem device %d", i);
        am_uuid_make(space, name, all[i]);
    }
    assert_all_differ(all);
    am_uuid_make(space, name, again);
    assert_memory_equal(again, all[N - 1], AM_UUID_SIZE);
}

static void a_name_has_different_ids_in_different_spaces(void **state)
{
    uint8_t all[N][AM_UUID_SIZE], space[AM_UUID_SIZE] = {0};

    for (int i = 0; i < N; i++) {
        memcpy(space + i % 13, &i, 2);
        space[15] = (uint8_t)(i % 13);
        space[14] = (uint8_t)(i / 13);
        am_uuid_make(space, "", all[i]);
    }
    assert_all_differ(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_of_one_space_have_different_ids),
        cmocka_unit_test(a_name_has_different_ids_in_different_spaces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
