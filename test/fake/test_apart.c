/* GPUs that do not reach each other's memory. */
#include "support/support.h"
#include "support/vmm.h"

static void memory_is_not_mapped_for_a_gpu_that_cannot_reach_it(void **state)
{
    struct block block = block_create(CHUNK);
    aclrtDrvMemHandle there = NULL;
    aclrtDrvMemHandle here = NULL;
    void *va = reserve(CHUNK);
    uint64_t number = 0;

    assert_acl_ok(aclrtMemExportToShareableHandle(block.handle, ACL_MEM_HANDLE_TYPE_NONE,
                                                  1, &number));
    assert_acl_ok(aclrtMemImportFromShareableHandle(number, 1, &there));
    assert_refused(aclrtMapMem(va, CHUNK, 0, there, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "cannot access");
    assert_acl_ok(aclrtFreePhysical(there));
    assert_acl_ok(aclrtMemImportFromShareableHandle(number, 0, &here));
    map(va, CHUNK, here);
    put_pattern(va, CHUNK, 1);
    assert_pattern(block.va, CHUNK, 1);
    assert_acl_ok(aclrtUnmapMem(va));
    assert_acl_ok(aclrtFreePhysical(here));
    assert_acl_ok(aclrtReleaseMemAddress(va));
    block_destroy(&block);
}

/* The driver takes the bytes through the host. */
static void a_copy_between_them_works_all_the_same(void **state)
{
    struct block from = block_create(CHUNK);
    aclrtDrvMemHandle handle = alloc_on(1, CHUNK);
    void *to = reserve(CHUNK);

    map(to, CHUNK, handle);
    assert_acl(aclrtDeviceEnablePeerAccess(1, 0), ACL_ERROR_RT_FEATURE_NOT_SUPPORT);
    assert_message_has("cannot access");
    put_pattern(from.va, CHUNK, 2);
    assert_acl_ok(set_access(from.va, CHUNK, ACL_MEM_LOCATION_TYPE_DEVICE, 1,
                             ACL_RT_MEM_ACCESS_FLAGS_READ));
    assert_acl_ok(
        aclrtMemcpyAsync(to, CHUNK, from.va, CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE, NULL));
    assert_acl_ok(aclrtSynchronizeStream(NULL));
    assert_pattern(to, CHUNK, 2);
    assert_acl_ok(aclrtUnmapMem(to));
    assert_acl_ok(aclrtFreePhysical(handle));
    assert_acl_ok(aclrtReleaseMemAddress(to));
    block_destroy(&from);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim(memory_is_not_mapped_for_a_gpu_that_cannot_reach_it),
        claim(a_copy_between_them_works_all_the_same),
    };

    return run_claims(claims);
}
