/* The two halves of an import, from inside. */
#include "unit.h"

#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "core/device/device.h"
#include "core/exchange/exchange.h"
#include "core/ipc/share.h"
#include "core/vmm/phys.h"
#include "support/support.h"
#include "support/vmm.h"

static void a_fetch_that_fails_writes_nothing(void **state)
{
    struct am_share_handle wrong = {.number = 1};
    struct am_import import, before;

    memset(&import, 0x5a, sizeof import);
    memcpy(&before, &import, sizeof import);
    assert_acl(am_share_fetch(AM_SHARE_MEMORY, &wrong, &am_devices.device[0], &import),
               ACL_ERROR_RT_NO_PERMISSION);
    assert_memory_equal(&import, &before, sizeof import);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        claim(a_fetch_that_fails_writes_nothing),
    };

    return run_claims(tests);
}
