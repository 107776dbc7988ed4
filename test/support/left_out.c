/*
 * For tests of another processor, which run in qemu-user: a test of left_out.def is replaced by
 * one that says why it is not run.  Programs are linked with --wrap=_cmocka_run_group_tests.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static const struct left_out {
    const char *program;
    const char *test;
    const char *why;
} all[] = {
#define LEFT_OUT(program_, test_, why_) {#program_, #test_, why_},
#include "support/left_out.def"
#undef LEFT_OUT
};

int __real__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests,
                                   size_t n, CMFixtureFunction begin,
                                   CMFixtureFunction end);
int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests,
                                   size_t n, CMFixtureFunction begin,
                                   CMFixtureFunction end);

static void leave_out(void **state)
{
    skip();
}

/* The same claim by other rules is another test: "strict: NAME". */
static bool is_test(const char *name, const char *wanted)
{
    const char *colon = strstr(name, ": ");

    return strcmp(colon != NULL ? colon + 2 : name, wanted) == 0;
}

static const char *why_not(const char *test)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        if (strcmp(all[i].program, program_invocation_short_name) == 0 &&
            is_test(test, all[i].test))
            return all[i].why;
    }
    return NULL;
}

int __wrap__cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests,
                                   size_t n, CMFixtureFunction begin,
                                   CMFixtureFunction end)
{
    struct CMUnitTest *mine = calloc(n, sizeof *mine);
    int failed;

    if (mine == NULL)
        return 1;
    for (size_t i = 0; i < n; i++) {
        const char *why = why_not(tests[i].name);

        mine[i] = tests[i];
        if (why == NULL)
            continue;
        printf("left out: %s, %s: %s\n", program_invocation_short_name, tests[i].name,
               why);
        mine[i].test_func = leave_out;
        mine[i].setup_func = NULL;
        mine[i].teardown_func = NULL;
    }
    fflush(stdout);
    failed = __real__cmocka_run_group_tests(name, mine, n, begin, end);
    free(mine);
    return failed;
}
