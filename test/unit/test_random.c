/* A system that gives no random numbers: nothing is shared, and the message says why. */
#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/sys.h"
#include "support/support.h"
#include "support/vmm.h"

static int refusal; /* errno; 0: there are some */

ssize_t __real_am_sys_getrandom(void *buffer, size_t size, unsigned flags);
ssize_t __wrap_am_sys_getrandom(void *buffer, size_t size, unsigned flags);

ssize_t __wrap_am_sys_getrandom(void *buffer, size_t size, unsigned flags)
{
    if (refusal == 0)
        return __real_am_sys_getrandom(buffer, size, flags);
    errno = refusal;
    return -1;
}

static void the_reason_is_passed_on(void **state)
{
    uint8_t bytes[32] = {0}, zero[32] = {0};

    refusal = EPERM;
    assert_int_equal(am_random(bytes, sizeof bytes), -EPERM);
    assert_memory_equal(bytes, zero, sizeof bytes);
    refusal = 0;
    assert_int_equal(am_random(bytes, sizeof bytes), 0);
    assert_memory_not_equal(bytes, zero, sizeof bytes);
}

/* As under a filter of system calls: for the socket's name, and for a number. */
static void an_export_says_what_is_missing(void **state)
{
    aclrtDrvMemHandle handle = alloc(CHUNK), second = alloc(CHUNK);
    uint64_t number;

    for (int i = 0; i < 2; i++) {
        refusal = ENOSYS;
        assert_refused(
            aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number),
            ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no random numbers: Function not impl");
        assert_null(strstr(kept_message(), "/proc"));
        refusal = 0;
        assert_acl_ok(aclrtMemExportToShareableHandle(second, ACL_MEM_HANDLE_TYPE_NONE, 0,
                                                      &number));
        assert_acl_ok(aclrtFreePhysical(second));
        second = alloc(CHUNK);
    }
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtFreePhysical(second));
}

/* From the start: there is no ledger yet, and its directory is not to blame. */
static void so_does_one_of_a_process_without_a_ledger(void **state)
{
    aclrtDrvMemHandle handle;
    uint64_t number;

    refusal = EPERM;
    start("default", "ACLMEM_MEMORY=192M"); /* as no other test: a ledger of its own */
    refusal = 0;
    expect_warnings(1);
    handle = alloc(CHUNK);
    assert_refused(
        aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 0, &number),
        ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "no random numbers: Operation not permitted");
    assert_null(strstr(kept_message(), "ACLMEM_RUNTIME_DIR"));
    assert_acl_ok(aclrtFreePhysical(handle));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_reason_is_passed_on),
        claim(an_export_says_what_is_missing),
        claim_alone(so_does_one_of_a_process_without_a_ledger),
    };

    return run_claims(tests);
}
