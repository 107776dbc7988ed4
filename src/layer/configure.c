/* See layers.h. */
#include "layer/layers.h"

#include <unistd.h>

#include "base/error.h"
#include "base/options.h"
#include "layer/finding.h"

aclError am_layers_configure(void)
{
    const char *wrong;
    size_t n;

    AM_REQUIRE(am_kinds_choose(am_option_text(AM_OPTION_check), &wrong, &n),
               ACL_ERROR_INVALID_PARAM,
               "ACLMEM_CHECK is \"%s\", and there is no kind of finding \"%.*s\"",
               am_option_text(AM_OPTION_check), (int)n, wrong);
    AM_REQUIRE(am_fail_parse(am_option_text(AM_OPTION_fail)), ACL_ERROR_INVALID_PARAM,
               "ACLMEM_FAIL is \"%s\"; it takes FUNCTION:N, FUNCTION:N+ or "
               "FUNCTION:N=CODE, with * for any text of names that exist",
               am_option_text(AM_OPTION_fail));
    return ACL_SUCCESS;
}

bool am_layers_are_for_us(void)
{
    int64_t pid = am_option_number(AM_OPTION_layers_pid);

    return pid == 0 || pid == getpid();
}
