/*
 * Which attribute may lie where, on which product, under which rules: one table, held by
 * both aclrtMallocPhysical and aclrtMemGetAllocationGranularity, which must agree even
 * where the documents leave the answer open.
 */
#include "support/vmm.h"

#include <stdio.h>
#include <string.h>

/*
 * For each attribute three letters, for a device, the host, and a NUMA node of the host:
 *   y  taken
 *   n  100000: no edition knows this use
 *   u  207000: the product does not have it
 *   x  one of the two, since both hold
 *   .  not documented; the two functions agree
 */
enum { N_ATTRS = 18, N_LOCATIONS = 3, MAX_PRODUCTS = 8 };

struct table {
    const char *rules;
    const char *products[MAX_PRODUCTS]; /* NULL ends */
    struct {
        const char *attr;
        const char *cell[MAX_PRODUCTS];
    } rows[N_ATTRS];
};

/* clang-format off */
static const struct table by_default = {
    "default",
    {"A2", "A3", "950", "910", "310P", "310B-EP", "310B", "310"},
    {
        {"DDR",            {"nnn", "nnn", "nnn", "nnn", "nnn", "nnn", "xxx", "xxx"}},
        {"HBM",            {"nnn", "nnn", "nnn", "nnn", "nnn", "nnn", "xxx", "xxx"}},
        {"DDR_HUGE",       {"nyy", "nyy", "n..", "n..", "...", "...", "xuu", "xuu"}},
        {"DDR_NORMAL",     {"nyy", "nyy", "n..", "n..", "...", "...", "xuu", "xuu"}},
        {"HBM_HUGE",       {"yyy", "yyy", "y..", "y..", "y..", "y..", "uuu", "uuu"}},
        {"HBM_NORMAL",     {"yyy", "yyy", "y..", "y..", "y..", "y..", "uuu", "uuu"}},
        {"DDR_P2P_HUGE",   {"nyy", "nyy", "n..", "n..", "...", "...", "xuu", "xuu"}},
        {"DDR_P2P_NORMAL", {"nyy", "nyy", "n..", "n..", "...", "...", "xuu", "xuu"}},
        {"HBM_P2P_HUGE",   {"nnn", "nnn", "nnn", "nnn", "nnn", "nnn", "xxx", "xxx"}},
        {"HBM_P2P_NORMAL", {"nnn", "nnn", "nnn", "nnn", "nnn", "nnn", "xxx", "xxx"}},
        {"HBM_HUGE1G",     {"ynn", "ynn", "ynn", "uxx", "uxx", "uxx", "uxx", "uxx"}},
        {"HBM_P2P_HUGE1G", {"nnn", "nnn", "nnn", "nnn", "nnn", "nnn", "xxx", "xxx"}},
        {"MEM_NORMAL",     {"yyy", "yyy", "y..", "y..", "y..", "y..", "uuu", "uuu"}},
        {"MEM_HUGE",       {"yyy", "yyy", "y..", "y..", "y..", "y..", "uuu", "uuu"}},
        {"MEM_HUGE1G",     {"ynn", "ynn", "uxx", "uxx", "uxx", "uxx", "uxx", "uxx"}},
        {"MEM_P2P_NORMAL", {"yyy", "yyy", "y..", "...", "...", "...", "uuu", "uuu"}},
        {"MEM_P2P_HUGE",   {"yyy", "yyy", "y..", "...", "...", "...", "uuu", "uuu"}},
        {"MEM_P2P_HUGE1G", {"uxx", "ynn", "uxx", "uxx", "uxx", "uxx", "uxx", "uxx"}},
    },
};

/*
 * What 8.0 had, on the products that every edition has: HBM_HUGE and HBM_NORMAL of a
 * device.
 */
static const struct table by_strict = {
    "strict",
    {"A2", "A3", "950", "910", "310P", "310B-EP"},
    {
        {"DDR",            {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"HBM",            {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"DDR_HUGE",       {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"DDR_NORMAL",     {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"HBM_HUGE",       {"ynn", "ynn", "uxx", "uxx", "uxx", "uxx"}},
        {"HBM_NORMAL",     {"ynn", "ynn", "uxx", "uxx", "uxx", "uxx"}},
        {"DDR_P2P_HUGE",   {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"DDR_P2P_NORMAL", {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"HBM_P2P_HUGE",   {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"HBM_P2P_NORMAL", {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"HBM_HUGE1G",     {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"HBM_P2P_HUGE1G", {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"MEM_NORMAL",     {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"MEM_HUGE",       {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"MEM_HUGE1G",     {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"MEM_P2P_NORMAL", {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"MEM_P2P_HUGE",   {"nnn", "nnn", "xxx", "xxx", "xxx", "xxx"}},
        {"MEM_P2P_HUGE1G", {"xxx", "nnn", "xxx", "xxx", "xxx", "xxx"}},
    },
};

/* clang-format on */

static const aclrtMemLocationType location_types[N_LOCATIONS] = {
    ACL_MEM_LOCATION_TYPE_DEVICE,
    ACL_MEM_LOCATION_TYPE_HOST,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA,
};

static size_t granularity_of(aclrtMemAttr attr)
{
    bool is_1g = attr == ACL_HBM_MEM_HUGE1G || attr == ACL_MEM_HUGE1G ||
                 attr == ACL_MEM_P2P_HUGE1G;

    return is_1g ? GIB : CHUNK;
}

static bool answers(aclError rc, char letter)
{
    switch (letter) {
    case 'y':
        return rc == ACL_SUCCESS;
    case 'n':
        return rc == ACL_ERROR_INVALID_PARAM;
    case 'u':
        return rc == ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    case 'x':
        return rc == ACL_ERROR_INVALID_PARAM || rc == ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    default:
        return rc == ACL_SUCCESS || rc == ACL_ERROR_INVALID_PARAM ||
               rc == ACL_ERROR_RT_FEATURE_NOT_SUPPORT;
    }
}

static aclError ask_granularity(aclrtPhysicalMemProp *prop)
{
    size_t minimum = 7, recommended = 7;
    aclError rc = aclrtMemGetAllocationGranularity(
        prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &minimum);
    aclError same = aclrtMemGetAllocationGranularity(
        prop, ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED, &recommended);
    size_t expected = rc == ACL_SUCCESS ? granularity_of(prop->memAttr) : 7;

    assert_int_equal(rc, same);
    assert_int_equal(minimum, expected);
    assert_int_equal(recommended, expected);
    return rc;
}

/* Allocates, uses the memory, frees; or is refused and changes nothing. */
static aclError ask_allocation(const aclrtPhysicalMemProp *prop)
{
    struct snapshot before = take_snapshot();
    size_t size = granularity_of(prop->memAttr);
    aclrtDrvMemHandle handle = NULL;
    aclError rc = aclrtMallocPhysical(&handle, size, prop, 0);
    void *va;

    if (rc != ACL_SUCCESS) {
        assert_null(handle);
        assert_unchanged(before);
        return rc;
    }
    va = reserve(size);
    if (aclrtMapMem(va, size, 0, handle, 0) == ACL_SUCCESS) {
        put_pattern(va, 4096, prop->memAttr);
        assert_pattern(va, 4096, prop->memAttr);
        assert_acl_ok(aclrtUnmapMem(va));
    } else {
        /* Strict wants the reservation's page flag to agree, and this one says huge. */
        assert_string_equal(aclmem_option("ACLMEM_RULES"), "strict");
        assert_int_equal(prop->memAttr, ACL_HBM_MEM_NORMAL);
    }
    assert_acl_ok(aclrtReleaseMemAddress(va));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_unchanged(before);
    return rc;
}

static void check_cell(const struct table *t, int product, int attr, int where)
{
    static const char *const places[] = {"device", "host", "NUMA node"};
    aclrtPhysicalMemProp prop =
        located_prop(location_types[where], 0, (aclrtMemAttr)attr);
    char letter = t->rows[attr].cell[product][where];
    aclError granularity = ask_granularity(&prop), allocation = ask_allocation(&prop);

    if (!answers(granularity, letter) || granularity != allocation)
        fail_msg(
            "%s on the %s of a %s: granularity %d, allocation %d, the table has '%c': %s",
            t->rows[attr].attr, places[where], t->products[product], granularity,
            allocation, letter, aclGetRecentErrMsg());
}

static void check_product(const struct table *t, int product)
{
    char option[64];

    snprintf(option, sizeof(option), "ACLMEM_PRODUCT=%s", t->products[product]);
    start(t->rules, option, "ACLMEM_MEMORY=4G");
    allow_warnings();
    assert_acl_ok(aclrtSetDevice(0));
    for (int attr = 0; attr < N_ATTRS; attr++) {
        for (int where = 0; where < N_LOCATIONS; where++)
            check_cell(t, product, attr, where);
    }
    assert_acl_ok(aclFinalize());
}

static void check_table(const struct table *t)
{
    for (int i = 0; i < MAX_PRODUCTS && t->products[i] != NULL; i++)
        check_product(t, i);
}

static void attributes_locations_and_products_by_default(void **state)
{
    check_table(&by_default);
}

static void attributes_locations_and_products_by_strict(void **state)
{
    check_table(&by_strict);
}

/* What some edition takes and strict does not, it refuses with its name. */
static void strict_says_that_it_is_strict(void **state)
{
    for (int attr = 0; attr < N_ATTRS; attr++) {
        for (int where = 0; where < N_LOCATIONS; where++) {
            aclrtPhysicalMemProp prop =
                located_prop(location_types[where], 0, (aclrtMemAttr)attr);
            aclrtDrvMemHandle handle = NULL;
            size_t granularity = 7;

            if (by_default.rows[attr].cell[0][where] != 'y' ||
                by_strict.rows[attr].cell[0][where] != 'n')
                continue;
            assert_bad_arg(aclrtMallocPhysical(&handle, CHUNK, &prop, 0), "strict");
            assert_bad_arg(aclrtMemGetAllocationGranularity(
                               &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                           "strict");
        }
    }
}

static void attributes_that_do_not_exist_are_refused(void **state)
{
    static const int attrs[] = {-1, 18, 19, 1000, INT32_MAX};
    aclrtDrvMemHandle handle = NULL;
    size_t granularity = 7;

    for (size_t i = 0; i < sizeof(attrs) / sizeof(attrs[0]); i++) {
        aclrtPhysicalMemProp prop = device_prop(0, (aclrtMemAttr)attrs[i]);

        assert_bad_arg(aclrtMallocPhysical(&handle, CHUNK, &prop, 0),
                       "memAttr|attribute");
        assert_bad_arg(aclrtMemGetAllocationGranularity(
                           &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                       "memAttr|attribute");
    }
    assert_int_equal(granularity, 7);
}

static void locations_that_hold_no_physical_memory_are_refused(void **state)
{
    static const int types[] = {ACL_MEM_LOCATION_TYPE_UNREGISTERED, 3, 5, -1, 1000};
    aclrtDrvMemHandle handle = NULL;
    size_t granularity = 7;

    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        aclrtPhysicalMemProp prop =
            located_prop((aclrtMemLocationType)types[i], 0, ACL_HBM_MEM_HUGE);

        assert_bad_arg(aclrtMallocPhysical(&handle, CHUNK, &prop, 0), "location");
        assert_bad_arg(aclrtMemGetAllocationGranularity(
                           &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                       "location");
    }
    assert_int_equal(granularity, 7);
}

static void granularity_wants_good_arguments(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    size_t granularity = 7;

    assert_bad_arg(aclrtMemGetAllocationGranularity(
                       NULL, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                   "prop");
    assert_bad_arg(aclrtMemGetAllocationGranularity(
                       &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, NULL),
                   "granularity");
    assert_bad_arg(aclrtMemGetAllocationGranularity(
                       &prop, ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF, &granularity),
                   "option");
    assert_bad_arg(aclrtMemGetAllocationGranularity(&prop, (aclrtMemGranularityOptions)2,
                                                    &granularity),
                   "option");
    prop.location.id = 2;
    assert_refused(aclrtMemGetAllocationGranularity(
                       &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                   ACL_ERROR_RT_INVALID_DEVICEID, "2");
    assert_int_equal(granularity, 7);
}

static void a_numa_node_must_exist(void **state)
{
    aclrtPhysicalMemProp prop =
        located_prop(ACL_MEM_LOCATION_TYPE_HOST_NUMA, 4000, ACL_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    assert_refused_either(aclrtMallocPhysical(&handle, CHUNK, &prop, 0),
                          ACL_ERROR_RT_PARAM_INVALID, ACL_ERROR_INVALID_PARAM, "4000");
    assert_null(handle);
}

static void the_host_has_no_number(void **state)
{
    aclrtPhysicalMemProp prop =
        located_prop(ACL_MEM_LOCATION_TYPE_HOST, 12345, ACL_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    assert_acl_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    assert_acl_ok(aclrtFreePhysical(handle));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(attributes_locations_and_products_by_default),
        claim_alone(attributes_locations_and_products_by_strict),
        claim_strict(strict_says_that_it_is_strict),
        claim_both(attributes_that_do_not_exist_are_refused),
        claim_both(locations_that_hold_no_physical_memory_are_refused),
        claim_both(granularity_wants_good_arguments),
        claim(a_numa_node_must_exist),
        claim(the_host_has_no_number),
    };

    return run_claims(claims);
}
