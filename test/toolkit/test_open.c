/*
 * rtIpcOpenMemory with each system call and allocation failing in turn: what it could not
 * open is not open, and what it opened can be closed by its address.
 */
#include "support/fault.h"
#include "support/support.h"

#define AM_RUNTIME(name_, params_) int32_t name_ params_;
#include "../../src/toolkit/runtime.def"
#undef AM_RUNTIME

static void memory_is_open_or_it_is_not(void **state)
{
    uint64_t n_refused = 0;
    char name[65];
    int32_t pid;
    void *p;

    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtMalloc(&p, 2 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(rtIpcSetMemoryName(p, 2 * MIB, name, sizeof(name)));
    assert_acl_ok(rtDeviceGetBareTgid((uint32_t *)&pid));
    assert_acl_ok(rtSetIpcMemorySuperPodPid(name, 0, &pid, 1));
    for_each_fault (n) {
        void *opened = NULL;
        int32_t rc = rtIpcOpenMemory(&opened, name);

        am_fault_disarm();
        assert_true(rc != ACL_SUCCESS || opened != NULL);
        assert_true(rc == ACL_SUCCESS || am_fault_fired());
        if (rc == ACL_SUCCESS) {
            assert_acl_ok(rtIpcCloseMemory(opened));
        } else {
            assert_null(opened);
            n_refused++;
        }
    }
    assert_true(n_refused > 0);
    assert_acl_ok(rtIpcDestroyMemoryName(name));
    assert_acl_ok(aclrtFree(p));
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(memory_is_open_or_it_is_not),
    };

    return run_claims(claims);
}
