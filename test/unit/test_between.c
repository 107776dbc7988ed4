/*
 * Calls that another thread comes between: at every moment at which the first has no lock,
 * the second does all it has to do.
 */
#include "unit.h"

#include "moments.h"
#include "support/support.h"
#include "support/vmm.h"

/* ---- a handle comes back while it is freed ---- */

static aclError export_open(aclrtDrvMemHandle handle, uint64_t *ret_number)
{
    return aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE,
                                           ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                           ret_number);
}

static bool can_be_imported(uint64_t number)
{
    aclrtDrvMemHandle handle;

    if (aclrtMemImportFromShareableHandle(number, 0, &handle) != ACL_SUCCESS)
        return false;
    assert_acl_ok(aclrtFreePhysical(handle));
    return true;
}

struct comeback {
    void *va; /* where the memory is mapped */
    aclrtDrvMemHandle handle;
    bool is_refused; /* a second export is */
    uint64_t number; /* of the last export */
};

static void retain_and_export(void *arg)
{
    struct comeback *c = arg;

    assert_acl_ok(aclrtMemRetainAllocationHandle(c->va, &c->handle));
    c->is_refused = export_open(c->handle, &c->number) != ACL_SUCCESS;
}

/* Whoever was told a number has it for as long as the handle lives, and no longer. */
static void free_while_it_comes_back(bool was_exported)
{
    struct comeback c = {.va = reserve(CHUNK)};

    for (unsigned n = 1, was_between = true; was_between; n++) {
        aclrtDrvMemHandle handle = alloc(CHUNK);

        map(c.va, CHUNK, handle);
        if (was_exported)
            assert_acl_ok(export_open(handle, &c.number));
        moment_arm(n, retain_and_export, &c);
        assert_acl_ok(aclrtFreePhysical(handle));
        was_between = moment_disarm();
        if (!was_between)
            retain_and_export(&c);
        assert_true(!c.is_refused || was_exported);
        assert_true(can_be_imported(c.number));
        assert_acl_ok(aclrtFreePhysical(c.handle));
        assert_false(can_be_imported(c.number));
        assert_acl_ok(aclrtUnmapMem(c.va));
    }
    assert_acl_ok(aclrtReleaseMemAddress(c.va));
}

static void a_handle_that_comes_back_is_exported(void **state)
{
    free_while_it_comes_back(false);
}

static void a_handle_that_comes_back_is_exported_once(void **state)
{
    free_while_it_comes_back(true);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(a_handle_that_comes_back_is_exported),
        claim(a_handle_that_comes_back_is_exported_once),
    };

    return run_claims(claims);
}
