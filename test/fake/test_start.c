/* aclInit() where the cuda backend cannot start: the message must have REFUSED_WITH's words. */
#include <stdlib.h>

#include "support/support.h"

static void the_message_says_what_is_missing(void **state)
{
    assert_refused(aclInit(NULL), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   getenv("REFUSED_WITH"));
}

static void auto_takes_the_host_instead(void **state)
{
    setenv("ACLMEM_BACKEND", "auto", 1);
    assert_acl_ok(aclInit(NULL));
    assert_acl_ok(aclFinalize());
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        cmocka_unit_test(the_message_says_what_is_missing),
        cmocka_unit_test(auto_takes_the_host_instead),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
