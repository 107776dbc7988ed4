/* The list of backends. */
#include "unit.h"

#include <stdio.h>
#include <string.h>

#include "backend/backend.h"

static void the_host_backend_is_found_by_its_name_in_any_case(void **state)
{
    const struct am_backend_ops *host = am_backend_find("host");

    assert_non_null(host);
    assert_string_equal(host->name, "host");
    assert_ptr_equal(am_backend_find("HOST"), host);
}

static void there_is_no_backend_of_another_name(void **state)
{
    assert_null(am_backend_find(""));
    assert_null(am_backend_find("hos"));
    assert_null(am_backend_find("host "));
    assert_null(am_backend_find("npu"));
}

static void the_hosts_table_has_every_function_that_its_caps_promise(void **state)
{
    const struct am_backend_ops *host = am_backend_find("host");

    assert_int_equal(host->caps,
                     AM_CAP_HOST_VIEW | AM_CAP_MAP_PART | AM_CAP_SHARE | AM_CAP_FABRIC);
    assert_true(host->bank_open != NULL && host->bank_close != NULL);
    assert_true(host->mem_create != NULL && host->mem_destroy != NULL);
    assert_true(host->reserve != NULL && host->release != NULL);
    assert_true(host->map != NULL && host->protect != NULL && host->unmap != NULL);
    assert_true(host->copy != NULL && host->fill != NULL);
    assert_true(host->view_open != NULL && host->view_close != NULL);
    assert_true(host->mem_export != NULL && host->mem_import != NULL);
}

/* What the option takes is what there is: the start relies on it. */
static void every_choice_of_the_option_is_a_backend(void **state)
{
    static const struct {
        const char *id;
        const char *choices;
    } options[] = {
#define AM_OPTION(id_, type_, default_, choices_, help_) {#id_, choices_},
#include "base/options.def"
#undef AM_OPTION
    };
    size_t i = 0;
    const char *at;
    char name[32];

    while (strcmp(options[i].id, "backend") != 0)
        i++;
    at = options[i].choices;
    for (;;) {
        size_t n = strcspn(at, "|");

        assert_true(n > 0 && n < sizeof name);
        snprintf(name, sizeof name, "%.*s", (int)n, at);
        if (strcmp(name, "auto") != 0) /* one of the others */
            assert_non_null(am_backend_find(name));
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_backend_is_found_by_its_name_in_any_case),
        cmocka_unit_test(there_is_no_backend_of_another_name),
        cmocka_unit_test(the_hosts_table_has_every_function_that_its_caps_promise),
        cmocka_unit_test(every_choice_of_the_option_is_a_backend),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
