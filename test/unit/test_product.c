/* The products against the documents' support tables. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "core/product.h"

/* What the pages say, product by product. */
static const struct {
    const char *name;
    const char *soc;
    bool is_rc;      /* no call of virtual memory management */
    bool has_hbm;    /* "a request for HBM is turned into DDR" elsewhere */
    bool in_some;    /* named by some edition's aclrtMallocPhysical */
    bool in_every;   /* by every one since 8.0 */
    bool has_mem_1g; /* ACL_MEM_HUGE1G: "only A3 and A2" */
    bool has_hbm_1g; /* ACL_HBM_MEM_HUGE1G: "A3, A2, 950" */
    bool has_p2p_1g; /* ACL_MEM_P2P_HUGE1G: "some forms of A3" */
    bool takes_hint; /* expectPtr of aclrtReserveMemAddress: "950: null only" */
    bool has_no_uc;  /* aclrtReserveMemAddressNoUCMemory: "A3 only" */
} table[] = {
    {"950", "Ascend950PR_9589", false, true, true, false, false, true, false, false,
     false},
    {"A3", "Ascend910_9391", false, true, true, true, true, true, true, true, true},
    {"A2", "Ascend910B1", false, true, true, true, true, true, false, true, false},
    {"910", "Ascend910A", false, true, true, false, false, false, false, true, false},
    {"310P", "Ascend310P3", false, false, true, false, false, false, false, true, false},
    {"310B", "Ascend310B1", true, false, false, false, false, false, false, false, false},
    {"310B-EP", "Ascend310B1", false, false, true, false, false, false, false, true,
     false},
    {"310", "Ascend310", true, false, false, false, false, false, false, false, false},
};

static bool has(const struct am_product *product, unsigned feature)
{
    return (product->features & feature) != 0;
}

static void every_product_supports_what_the_documents_say(void **state)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(table); i++) {
        const struct am_product *product = am_product_find(table[i].name);

        print_message("%s\n", table[i].name);
        assert_non_null(product);
        assert_string_equal(product->name, table[i].name);
        assert_string_equal(product->soc, table[i].soc);
        assert_int_equal(has(product, AM_PRODUCT_RC), table[i].is_rc);
        assert_int_equal(has(product, AM_PRODUCT_HBM), table[i].has_hbm);
        assert_int_equal(has(product, AM_PRODUCT_VMM), table[i].in_some);
        assert_int_equal(has(product, AM_PRODUCT_VMM_ALL), table[i].in_every);
        assert_int_equal(has(product, AM_PRODUCT_MEM_1G), table[i].has_mem_1g);
        assert_int_equal(has(product, AM_PRODUCT_HBM_1G), table[i].has_hbm_1g);
        assert_int_equal(has(product, AM_PRODUCT_P2P_1G), table[i].has_p2p_1g);
        assert_int_equal(has(product, AM_PRODUCT_HINT), table[i].takes_hint);
        assert_int_equal(has(product, AM_PRODUCT_NO_UC), table[i].has_no_uc);
    }
}

static void no_feature_contradicts_another(void **state)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(table); i++) {
        const struct am_product *product = am_product_find(table[i].name);
        unsigned all_1g = AM_PRODUCT_MEM_1G | AM_PRODUCT_HBM_1G | AM_PRODUCT_P2P_1G;

        assert_false(has(product, AM_PRODUCT_RC) && has(product, AM_PRODUCT_VMM));
        assert_true(has(product, AM_PRODUCT_VMM) || !has(product, AM_PRODUCT_VMM_ALL));
        assert_true(has(product, AM_PRODUCT_VMM) ||
                    !has(product, all_1g | AM_PRODUCT_NO_UC));
        assert_true(strlen(product->title) > 0);
    }
}

static void a_product_is_found_by_name_or_soc_in_any_case(void **state)
{
    assert_ptr_equal(am_product_find("a2"), am_product_find("A2"));
    assert_ptr_equal(am_product_find("310b-ep"), am_product_find("310B-EP"));
    assert_ptr_equal(am_product_find("Ascend910B1"), am_product_find("A2"));
    assert_ptr_equal(am_product_find("ASCEND310P3"), am_product_find("310P"));
}

static void there_is_no_other_product(void **state)
{
    static const char *const wrong[] = {"", "A", "A22", " A2", "910B", "Ascend", "H100"};

    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++)
        assert_null(am_product_find(wrong[i]));
}

/* Every name that is listed can be asked for, and none that the table has is missing. */
static void the_list_of_names_is_what_can_be_asked_for(void **state)
{
    char names[256];
    char *rest = names;
    char *name;
    size_t n = 0;

    snprintf(names, sizeof names, "%s", am_product_names());
    while ((name = strsep(&rest, ",")) != NULL) {
        name += strspn(name, " ");
        assert_non_null(am_product_find(name));
        assert_string_equal(name, table[n].name);
        n++;
    }
    assert_int_equal(n, AM_ARRAY_SIZE(table));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_product_supports_what_the_documents_say),
        cmocka_unit_test(no_feature_contradicts_another),
        cmocka_unit_test(a_product_is_found_by_name_or_soc_in_any_case),
        cmocka_unit_test(there_is_no_other_product),
        cmocka_unit_test(the_list_of_names_is_what_can_be_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
