/*
 * A program that is linked with every library of the toolkit (-z now) starts, finds each
 * function in the library that the vendor has it in, and is refused in words by those
 * that would run something.
 */
#define NAME_AT(name_) (any_fn) name_
#include "toolkit/names.h"

#include <dlfcn.h>
#include <string.h>

#include "support/support.h"

static void every_function_is_in_its_own_library(void **state)
{
    for (int i = 0; i < N_NAMES; i++) {
        Dl_info info;

        assert_int_not_equal(dladdr((void *)names[i].at, &info), 0);
        if (strstr(info.dli_fname, names[i].library) == NULL)
            fail_msg("%s is in %s, not in %s", names[i].name, info.dli_fname,
                     names[i].library);
    }
}

static void functions_that_would_run_an_operator_refuse(void **state)
{
    int n_refused = 0;

    for (int i = 0; i < N_NAMES; i++) {
        const char *message;

        if (names[i].gives_its_value == NULL)
            continue;
        n_refused++;
        aclGetRecentErrMsg();
        if (!names[i].gives_its_value(names[i].at))
            fail_msg("%s gives another value than its row says", names[i].name);
        assert_int_equal(aclrtGetLastError(ACL_RT_THREAD_LEVEL),
                         ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
        message = aclGetRecentErrMsg();
        assert_non_null(message);
        assert_non_null(strstr(message, names[i].name));
        assert_non_null(strstr(message, "aclmem emulates memory, not operators"));
    }
    assert_in_range(n_refused, 50, N_NAMES);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(every_function_is_in_its_own_library),
        claim_alone(functions_that_would_run_an_operator_refuse),
    };

    return run_claims(claims);
}
