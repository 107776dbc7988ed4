/*
 * Which attribute may lie where, on which product, under which rules: one table, held by both
 * aclrtMallocPhysical and aclrtMemGetAllocationGranularity, which must agree even where the documents
 * leave the answer open.
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
enum { N_ATTRS = 18, N_LOCATIONS = 3 };

struct column {
    const char *product;
    const char *cell[N_ATTRS];
};

static const char *const attr_names[N_ATTRS] = {
    "DDR",        "HBM",         "DDR_HUGE",   "DDR_NORMAL",     "HBM_HUGE",   "HBM_NORMAL",
    "DDR_P2P_HUGE", "DDR_P2P_NORMAL", "HBM_P2P_HUGE", "HBM_P2P_NORMAL", "HBM_HUGE1G", "HBM_P2P_HUGE1G",
    "MEM_NORMAL", "MEM_HUGE",    "MEM_HUGE1G", "MEM_P2P_NORMAL", "MEM_P2P_HUGE", "MEM_P2P_HUGE1G",
};

static const struct column by_default[] = {
    {"A2",
     {"nnn", "nnn", "nyy", "nyy", "yyy", "yyy", "nyy", "nyy", "nnn", "nnn", "ynn", "nnn", "yyy",
      "yyy", "ynn", "yyy", "yyy", "uxx"}},
    {"A3",
     {"nnn", "nnn", "nyy", "nyy", "yyy", "yyy", "nyy", "nyy", "nnn", "nnn", "ynn", "nnn", "yyy",
      "yyy", "ynn", "yyy", "yyy", "ynn"}},
    {"950",
     {"nnn", "nnn", "n..", "n..", "y..", "y..", "n..", "n..", "nnn", "nnn", "ynn", "nnn", "y..",
      "y..", "uxx", "y..", "y..", "uxx"}},
    {"910",
     {"nnn", "nnn", "n..", "n..", "y..", "y..", "n..", "n..", "nnn", "nnn", "uxx", "nnn", "y..",
      "y..", "uxx", "...", "...", "uxx"}},
    {"310P",
     {"nnn", "nnn", "...", "...", "y..", "y..", "...", "...", "nnn", "nnn", "uxx", "nnn", "y..",
      "y..", "uxx", "...", "...", "uxx"}},
    {"310B-EP",
     {"nnn", "nnn", "...", "...", "y..", "y..", "...", "...", "nnn", "nnn", "uxx", "nnn", "y..",
      "y..", "uxx", "...", "...", "uxx"}},
    {"310B",
     {"xxx", "xxx", "xuu", "xuu", "uuu", "uuu", "xuu", "xuu", "xxx", "xxx", "uxx", "xxx", "uuu",
      "uuu", "uxx", "uuu", "uuu", "uxx"}},
    {"310",
     {"xxx", "xxx", "xuu", "xuu", "uuu", "uuu", "xuu", "xuu", "xxx", "xxx", "uxx", "xxx", "uuu",
      "uuu", "uxx", "uuu", "uuu", "uxx"}},
};

/* What 8.0 had: HBM_HUGE and HBM_NORMAL, on a device. */
static const struct column by_strict[] = {
    {"A2",
     {"nnn", "nnn", "nnn", "nnn", "ynn", "ynn", "nnn", "nnn", "nnn", "nnn", "nnn", "nnn", "nnn",
      "nnn", "nnn", "nnn", "nnn", "xxx"}},
    {"A3",
     {"nnn", "nnn", "nnn", "nnn", "ynn", "ynn", "nnn", "nnn", "nnn", "nnn", "nnn", "nnn", "nnn",
      "nnn", "nnn", "nnn", "nnn", "nnn"}},
    {"950",
     {"xxx", "xxx", "xxx", "xxx", "uxx", "uxx", "xxx", "xxx", "xxx", "xxx", "xxx", "xxx", "xxx",
      "xxx", "xxx", "xxx", "xxx", "xxx"}},
    {"910",
     {"xxx", "xxx", "xxx", "xxx", "uxx", "uxx", "xxx", "xxx", "xxx", "xxx", "xxx", "xxx", "xxx",
      "xxx", "xxx", "xxx", "xxx", "xxx"}},
    {"310P",
     {"xxx", "xxx", "xxx", "xxx", "uxx", "uxx", "xxx", "xxx", "xxx", "xxx", "xxx", "xxx", "xxx",
      "xxx", "xxx", "xxx", "xxx", "xxx"}},
    {"310B-EP",
     {"xxx", "xxx", "xxx", "xxx", "uxx", "uxx", "xxx", "xxx", "xxx", "xxx", "xxx", "xxx", "xxx",
      "xxx", "xxx", "xxx", "xxx", "xxx"}},
};

static const aclrtMemLocationType location_types[N_LOCATIONS] = {
    ACL_MEM_LOCATION_TYPE_DEVICE,
    ACL_MEM_LOCATION_TYPE_HOST,
    ACL_MEM_LOCATION_TYPE_HOST_NUMA,
};

static size_t granularity_of(aclrtMemAttr attr)
{
    bool is_1g = attr == ACL_HBM_MEM_HUGE1G || attr == ACL_MEM_HUGE1G || attr == ACL_MEM_P2P_HUGE1G;

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
    aclError rc = aclrtMemGetAllocationGranularity(prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM,
                                                   &minimum);
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

static void check_cell(const struct column *c, int attr, int where)
{
    aclrtPhysicalMemProp prop = located_prop(location_types[where], 0, (aclrtMemAttr)attr);
    char letter = c->cell[attr][where];
    aclError granularity = ask_granularity(&prop), allocation = ask_allocation(&prop);
    static const char *const places[] = {"device", "host", "NUMA node"};

    if (!answers(granularity, letter) || granularity != allocation)
        fail_msg("%s on the %s of a %s: granularity gives %d, allocation %d, the table says '%c': %s",
                 attr_names[attr], places[where], c->product, granularity, allocation, letter,
                 aclGetRecentErrMsg());
}

static void check_column(const struct column *c, const char *rules)
{
    char product[64];

    snprintf(product, sizeof(product), "ACLMEM_PRODUCT=%s", c->product);
    start(rules, product, "ACLMEM_MEMORY=4G");
    allow_warnings();
    assert_acl_ok(aclrtSetDevice(0));
    for (int attr = 0; attr < N_ATTRS; attr++) {
        for (int where = 0; where < N_LOCATIONS; where++)
            check_cell(c, attr, where);
    }
    assert_acl_ok(aclFinalize());
}

static void attributes_locations_and_products_by_default(void **state)
{
    for (size_t i = 0; i < sizeof(by_default) / sizeof(by_default[0]); i++)
        check_column(&by_default[i], "default");
}

static void attributes_locations_and_products_by_strict(void **state)
{
    for (size_t i = 0; i < sizeof(by_strict) / sizeof(by_strict[0]); i++)
        check_column(&by_strict[i], "strict");
}

/* What some edition takes and strict does not, it refuses with its name. */
static void strict_says_that_it_is_strict(void **state)
{
    const struct column *loose = &by_default[0], *tight = &by_strict[0];

    for (int attr = 0; attr < N_ATTRS; attr++) {
        for (int where = 0; where < N_LOCATIONS; where++) {
            aclrtPhysicalMemProp prop = located_prop(location_types[where], 0, (aclrtMemAttr)attr);
            aclrtDrvMemHandle handle = NULL;
            size_t granularity = 7;

            if (loose->cell[attr][where] != 'y' || tight->cell[attr][where] != 'n')
                continue;
            assert_refused(aclrtMallocPhysical(&handle, CHUNK, &prop, 0), ACL_ERROR_INVALID_PARAM,
                           "strict");
            assert_refused(aclrtMemGetAllocationGranularity(
                               &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                           ACL_ERROR_INVALID_PARAM, "strict");
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

        assert_refused(aclrtMallocPhysical(&handle, CHUNK, &prop, 0), ACL_ERROR_INVALID_PARAM,
                       "memAttr|attribute");
        assert_refused(aclrtMemGetAllocationGranularity(
                           &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                       ACL_ERROR_INVALID_PARAM, "memAttr|attribute");
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

        assert_refused(aclrtMallocPhysical(&handle, CHUNK, &prop, 0), ACL_ERROR_INVALID_PARAM,
                       "location");
        assert_refused(aclrtMemGetAllocationGranularity(
                           &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                       ACL_ERROR_INVALID_PARAM, "location");
    }
    assert_int_equal(granularity, 7);
}

static void granularity_wants_good_arguments(void **state)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    size_t granularity = 7;

    assert_refused(aclrtMemGetAllocationGranularity(
                       NULL, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                   ACL_ERROR_INVALID_PARAM, "prop");
    assert_refused(
        aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, NULL),
        ACL_ERROR_INVALID_PARAM, "granularity");
    assert_refused(aclrtMemGetAllocationGranularity(&prop, ACL_RT_MEM_ALLOC_GRANULARITY_UNDEF,
                                                    &granularity),
                   ACL_ERROR_INVALID_PARAM, "option");
    assert_refused(aclrtMemGetAllocationGranularity(&prop, (aclrtMemGranularityOptions)2, &granularity),
                   ACL_ERROR_INVALID_PARAM, "option");
    prop.location.id = 2;
    assert_refused(aclrtMemGetAllocationGranularity(
                       &prop, ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM, &granularity),
                   ACL_ERROR_RT_INVALID_DEVICEID, "2");
    assert_int_equal(granularity, 7);
}

static void a_numa_node_must_exist(void **state)
{
    aclrtPhysicalMemProp prop = located_prop(ACL_MEM_LOCATION_TYPE_HOST_NUMA, 4000, ACL_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;

    assert_refused_either(aclrtMallocPhysical(&handle, CHUNK, &prop, 0), ACL_ERROR_RT_PARAM_INVALID,
                          ACL_ERROR_INVALID_PARAM, "4000");
    assert_null(handle);
}

static void the_host_has_no_number(void **state)
{
    aclrtPhysicalMemProp prop = located_prop(ACL_MEM_LOCATION_TYPE_HOST, 12345, ACL_MEM_HUGE);
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
