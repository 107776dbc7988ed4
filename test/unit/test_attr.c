/*
 * Memory attributes against the documents' list, for every product, location and rule
 * set.
 */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/util.h"
#include "core/device/attr.h"
#include "core/device/setup.h"

#define NONE ""                                   /* physical memory cannot have it */
#define ALL "950 A3 A2 910 310P 310B 310B-EP 310" /* on whatever product */

/* The list of the newest aclrtMallocPhysical page, and that of 8.0. */
static const struct {
    int value;
    const char *name;
    size_t granularity;
    uint32_t page_size;
    const char *on_devices; /* products that take it for their memory */
    bool on_hosts;
    bool in_8_0;
} table[] = {
    {0, "ACL_DDR_MEM", 2 * AM_MIB, 4096, NONE, false, false},
    {1, "ACL_HBM_MEM", 2 * AM_MIB, 4096, NONE, false, false},
    {2, "ACL_DDR_MEM_HUGE", 2 * AM_MIB, 2 * AM_MIB, NONE, true, false},
    {3, "ACL_DDR_MEM_NORMAL", 2 * AM_MIB, 4096, NONE, true, false},
    {4, "ACL_HBM_MEM_HUGE", 2 * AM_MIB, 2 * AM_MIB, ALL, true, true},
    {5, "ACL_HBM_MEM_NORMAL", 2 * AM_MIB, 2 * AM_MIB, ALL, true, true},
    {6, "ACL_DDR_MEM_P2P_HUGE", 2 * AM_MIB, 2 * AM_MIB, NONE, true, false},
    {7, "ACL_DDR_MEM_P2P_NORMAL", 2 * AM_MIB, 4096, NONE, true, false},
    {8, "ACL_HBM_MEM_P2P_HUGE", 2 * AM_MIB, 2 * AM_MIB, NONE, false, false},
    {9, "ACL_HBM_MEM_P2P_NORMAL", 2 * AM_MIB, 4096, NONE, false, false},
    {10, "ACL_HBM_MEM_HUGE1G", AM_GIB, AM_GIB, "950 A3 A2", false, false},
    {11, "ACL_HBM_MEM_P2P_HUGE1G", AM_GIB, AM_GIB, NONE, false, false},
    {12, "ACL_MEM_NORMAL", 2 * AM_MIB, 4096, ALL, true, false},
    {13, "ACL_MEM_HUGE", 2 * AM_MIB, 2 * AM_MIB, ALL, true, false},
    {14, "ACL_MEM_HUGE1G", AM_GIB, AM_GIB, "A3 A2", false, false},
    {15, "ACL_MEM_P2P_NORMAL", 2 * AM_MIB, 4096, ALL, true, false},
    {16, "ACL_MEM_P2P_HUGE", 2 * AM_MIB, 2 * AM_MIB, ALL, true, false},
    {17, "ACL_MEM_P2P_HUGE1G", AM_GIB, AM_GIB, "A3", false, false},
};

static const char *const products[] = {"950",  "A3",   "A2",      "910",
                                       "310P", "310B", "310B-EP", "310"};

static bool has_word(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n) {
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
            return true;
    }
    return false;
}

static aclError check(int attr, int location)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = (aclrtMemAttr)attr,
        .location.type = (aclrtMemLocationType)location,
    };

    return am_attr_check(&prop);
}

static void product_set(const char *name)
{
    char soc[AM_SOC_SIZE];

    am_setup.product = am_product_find(name, soc);
}

static int play(void **state)
{
    product_set("A3");
    am_setup.is_strict = false;
    am_error_take_messages();
    return 0;
}

static void every_attribute_is_in_the_table_under_its_number(void **state)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(table); i++) {
        const struct am_attr *attr = am_attr_find((aclrtMemAttr)i);

        assert_int_equal(table[i].value, i);
        assert_non_null(attr);
        assert_string_equal(attr->name, table[i].name);
        assert_int_equal(am_attr_granularity(attr), table[i].granularity);
        assert_int_equal(am_attr_page_size((aclrtMemAttr)i), table[i].page_size);
    }
}

static void a_number_that_is_no_attribute_is_refused(void **state)
{
    static const int wrong[] = {18, 19, 255, 1 << 30, INT32_MAX, INT32_MIN, -1};

    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++) {
        char words[32];

        assert_null(am_attr_find((aclrtMemAttr)wrong[i]));
        assert_int_equal(check(wrong[i], ACL_MEM_LOCATION_TYPE_DEVICE),
                         ACL_ERROR_INVALID_PARAM);
        snprintf(words, sizeof words, "memAttr is %d", wrong[i]);
        assert_contains(am_error_take_messages(), words);
    }
}

static void device_memory_takes_what_the_product_has(void **state)
{
    for (size_t p = 0; p < AM_ARRAY_SIZE(products); p++) {
        product_set(products[p]);
        for (size_t i = 0; i < AM_ARRAY_SIZE(table); i++) {
            aclError expected = has_word(table[i].on_devices, products[p]) ? ACL_SUCCESS
                                : table[i].on_devices[0] == '\0'
                                    ? ACL_ERROR_INVALID_PARAM
                                    : ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
            aclError got = check((int)i, ACL_MEM_LOCATION_TYPE_DEVICE);

            if (got != expected)
                fail_msg("%s on %s: %d, not %d", table[i].name, products[p], got,
                         expected);
            if (expected == ACL_ERROR_RT_FEATURE_NOT_SUPPORT)
                assert_contains(am_error_take_messages(), table[i].name);
        }
    }
}

static void host_memory_takes_all_but_one_gigabyte_pages(void **state)
{
    static const int locations[] = {ACL_MEM_LOCATION_TYPE_HOST,
                                    ACL_MEM_LOCATION_TYPE_HOST_NUMA};

    for (size_t k = 0; k < AM_ARRAY_SIZE(locations); k++) {
        for (size_t i = 0; i < AM_ARRAY_SIZE(table); i++) {
            aclError got = check((int)i, locations[k]);

            if (got != (table[i].on_hosts ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM))
                fail_msg("%s at location %d: %d", table[i].name, locations[k], got);
        }
    }
}

static void there_is_no_memory_at_other_locations(void **state)
{
    static const int wrong[] = {
        ACL_MEM_LOCATION_TYPE_UNREGISTERED, 3, 5, 255, -1, INT32_MIN};

    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++) {
        assert_int_equal(check(ACL_HBM_MEM_HUGE, wrong[i]), ACL_ERROR_INVALID_PARAM);
        assert_contains(am_error_take_messages(), "location.type is");
    }
}

static void strict_takes_what_8_0_took(void **state)
{
    am_setup.is_strict = true;
    for (size_t i = 0; i < AM_ARRAY_SIZE(table); i++) {
        aclError got = check((int)i, ACL_MEM_LOCATION_TYPE_DEVICE);

        if (got != (table[i].in_8_0 ? ACL_SUCCESS : ACL_ERROR_INVALID_PARAM))
            fail_msg("%s: %d", table[i].name, got);
        got = check((int)i, ACL_MEM_LOCATION_TYPE_HOST);
        if (got != ACL_ERROR_INVALID_PARAM)
            fail_msg("%s for the host: %d", table[i].name, got);
    }
}

static void what_only_strict_refuses_names_the_rule_and_the_edition(void **state)
{
    am_setup.is_strict = true;
    assert_int_equal(check(ACL_MEM_HUGE, ACL_MEM_LOCATION_TYPE_DEVICE),
                     ACL_ERROR_INVALID_PARAM);
    assert_contains(am_error_take_messages(),
                    "ACL_MEM_HUGE, which came with edition 8.5");
    assert_int_equal(check(ACL_HBM_MEM_HUGE1G, ACL_MEM_LOCATION_TYPE_DEVICE),
                     ACL_ERROR_INVALID_PARAM);
    assert_contains(am_error_take_messages(), "edition 8.1");
    assert_int_equal(check(ACL_HBM_MEM_HUGE, ACL_MEM_LOCATION_TYPE_HOST),
                     ACL_ERROR_INVALID_PARAM);
    assert_contains(am_error_take_messages(), "ACLMEM_RULES=strict");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define on_a3(f_) cmocka_unit_test_setup(f_, play)
        on_a3(every_attribute_is_in_the_table_under_its_number),
        on_a3(a_number_that_is_no_attribute_is_refused),
        on_a3(device_memory_takes_what_the_product_has),
        on_a3(host_memory_takes_all_but_one_gigabyte_pages),
        on_a3(there_is_no_memory_at_other_locations),
        on_a3(strict_takes_what_8_0_took),
        on_a3(what_only_strict_refuses_names_the_rule_and_the_edition),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
