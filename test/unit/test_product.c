/* The products against the documents' support tables. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "core/device/product.h"

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

static const struct am_product *find(const char *name)
{
    char soc[AM_SOC_SIZE];

    return am_product_find(name, soc);
}

static bool has(const struct am_product *product, unsigned feature)
{
    return (product->features & feature) != 0;
}

static void every_product_supports_what_the_documents_say(void **state)
{
    for (size_t i = 0; i < AM_ARRAY_SIZE(table); i++) {
        const struct am_product *product = find(table[i].name);

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
        const struct am_product *product = find(table[i].name);
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
    assert_ptr_equal(find("a2"), find("A2"));
    assert_ptr_equal(find("310b-ep"), find("310B-EP"));
    assert_ptr_equal(find("Ascend910B1"), find("A2"));
    assert_ptr_equal(find("ASCEND310P3"), find("310P"));
}

static void a_chip_belongs_to_its_product_and_keeps_its_name(void **state)
{
    static const struct {
        const char *name;
        const char *product;
        const char *soc;
    } rows[] = {
        {"A2", "A2", "Ascend910B1"},
        {"910B", "A2", "Ascend910B1"},
        {"910c", "A3", "Ascend910_9391"},
        {"Ascend910C", "A3", "Ascend910_9391"},
        {"Ascend910B", "910", "Ascend910B"},
        {"910A", "910", "Ascend910A"},
        {"Ascend910PremiumA", "910", "Ascend910PremiumA"},
        {"ascend910prob", "910", "Ascend910ProB"},
        {"Ascend910B2C", "A2", "Ascend910B2C"},
        {"910b3", "A2", "Ascend910B3"},
        {"Ascend910B4", "A2", "Ascend910B4"},
        {"Ascend910B4-1", "A2", "Ascend910B4-1"},
        {"Ascend910_9362", "A3", "Ascend910_9362"},
        {"910_9392", "A3", "Ascend910_9392"},
        {"Ascend310P1", "310P", "Ascend310P1"},
        {"310p7", "310P", "Ascend310P7"},
        {"Ascend310P3vir08", "310P", "Ascend310P3vir08"},
        {"Ascend310B4", "310B", "Ascend310B4"},
        {"Ascend310", "310", "Ascend310"},
        {"Ascend950PR_9599", "950", "Ascend950PR_9599"},
        {"Ascend950PR_9579", "950", "Ascend950PR_9579"},
        {"ASCEND950dt_957x", "950", "Ascend950DT_957x"},
        {"950pr_9589", "950", "Ascend950PR_9589"},
        {"Ascend950", "950", "Ascend950PR_9589"},
        {"ascend310p", "310P", "Ascend310P3"},
        {"Ascend310B", "310B", "Ascend310B1"},
        {"Ascend910", "910", "Ascend910A"},
        {"950PR", "950", "Ascend950PR"},
        {"Ascend950DT", "950", "Ascend950DT"},
        {"Ascend910C1", "A3", "Ascend910C1"},
        {"910c4", "A3", "Ascend910C4"},
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(rows); i++) {
        char soc[AM_SOC_SIZE] = "";
        const struct am_product *product = am_product_find(rows[i].name, soc);

        print_message("%s\n", rows[i].name);
        assert_non_null(product);
        assert_string_equal(product->name, rows[i].product);
        assert_string_equal(soc, rows[i].soc);
    }
}

static void there_is_no_other_product(void **state)
{
    static const char *const wrong[] = {
        "",
        "A",
        "A22",
        " A2",
        "910B9",
        "Ascend",
        "H100",
        "Ascend910B1x",
        "scend910B",
        "AscendA22",
        "Ascend950PR_",
        "Ascend950PR_1234567890123",
        "950PR_\33[",
        "Ascen",
        "AscendAscend310",
    };

    for (size_t i = 0; i < AM_ARRAY_SIZE(wrong); i++) {
        char soc[AM_SOC_SIZE] = "as before";

        assert_null(am_product_find(wrong[i], soc));
        assert_string_equal(soc, "as before");
    }
}

/* Each product is listed with its chip, and both can be asked for. */
static void the_list_of_names_is_what_can_be_asked_for(void **state)
{
    char names[512];
    char *rest = names;
    char *name;
    size_t n = 0;

    snprintf(names, sizeof names, "%s", am_product_names());
    while ((name = strsep(&rest, ",")) != NULL) {
        char *chip = strchr(name, '(') + 1;

        name += strspn(name, " ");
        chip[-2] = '\0';
        chip[strlen(chip) - 1] = '\0';
        assert_string_equal(name, table[n].name);
        assert_string_equal(chip, table[n].soc);
        assert_non_null(find(name));
        assert_non_null(find(chip));
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
        cmocka_unit_test(a_chip_belongs_to_its_product_and_keeps_its_name),
        cmocka_unit_test(there_is_no_other_product),
        cmocka_unit_test(the_list_of_names_is_what_can_be_asked_for),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
