/* Several devices on one GPU: ACLMEM_DEVICES above the number of GPUs. */
#include <string.h>

#include "fake/control.h"
#include "support/blocks.h"
#include "support/events.h"
#include "support/vmm.h"
#include "support/work.h"

#define GPU_MEMORY (2 * GIB) /* FAKE_CUDA_MEMORY */
#define CONTEXT (64 * MIB)   /* memory that the driver itself uses */

static void use_devices(const char *devices)
{
    start("default", devices, "ACLMEM_MEMORY=64G");
    assert_acl_ok(aclrtSetDevice(0));
}

static void each_device_has_its_share_of_the_memory(void **state)
{
    aclrtDrvMemHandle handle[4], more = NULL;
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    size_t size = GPU_MEMORY / 4 - CONTEXT;
    uint32_t n = 0;

    use_devices("ACLMEM_DEVICES=4");
    assert_acl_ok(aclrtGetDeviceCount(&n));
    assert_int_equal(n, 4);
    for (uint32_t i = 0; i < n; i++) {
        prop.location.id = i;
        assert_acl_ok(aclrtSetDevice((int32_t)i));
        assert_int_equal(total_memory(), GPU_MEMORY / 4);
        assert_acl_ok(aclrtMallocPhysical(&handle[i], size, &prop, 0));
        assert_int_equal(free_memory(), GPU_MEMORY / 4 - size);
        assert_refused(aclrtMallocPhysical(&more, CONTEXT + CHUNK, &prop, 0),
                       ACL_ERROR_RT_MEMORY_ALLOCATION, "Failed to allocate");
    }
    for (uint32_t i = 0; i < n; i++)
        assert_acl_ok(aclrtFreePhysical(handle[i]));
}

/* The heap of the first device keeps 8 MB for reuse, which the second device needs. */
static void memory_that_one_device_keeps_is_free_for_the_other(void **state)
{
    void *blocks[100];
    aclrtDrvMemHandle handles[2];

    use_devices("ACLMEM_DEVICES=2");
    for (int i = 0; i < 100; i++)
        blocks[i] = device_malloc(MIB / 2);
    for (int i = 0; i < 100; i++)
        device_free(blocks[i]);
    handles[0] = alloc_on(0, GPU_MEMORY / 2 - CONTEXT);
    assert_acl_ok(aclrtSetDevice(1));
    assert_int_equal(free_memory(), GPU_MEMORY / 2);
    handles[1] = alloc_on(1, GPU_MEMORY / 2);
    assert_int_equal(free_memory(), 0);
    for (int i = 0; i < 2; i++)
        assert_acl_ok(aclrtFreePhysical(handles[i]));
}

/* A copy between two devices is the driver's plain copy, not the one between GPUs. */
static void a_copy_between_the_devices_stays_inside_the_gpu(void **state)
{
    struct block from, to = {.size = CHUNK};
    char *there, *here;
    aclrtStream stream;
    int32_t can = 0;

    use_devices("ACLMEM_DEVICES=2");
    from = block_create(CHUNK);
    to.handle = alloc_on(1, CHUNK);
    to.va = reserve(CHUNK);
    map(to.va, CHUNK, to.handle);
    here = device_malloc(1000);
    assert_acl_ok(aclrtSetDevice(1));
    there = device_malloc(1000);
    assert_acl_ok(aclrtSetDevice(0));
    stream = make_stream();
    put_pattern(from.va, CHUNK, 1);
    put_pattern(here, 1000, 2);
    fake_cuda_fail("cuMemcpyPeerAsync", 0, 0, false);

    assert_acl(aclrtMemcpyAsync(to.va, CHUNK, from.va, CHUNK, ACL_MEMCPY_DEVICE_TO_DEVICE,
                                stream),
               ACL_ERROR_RT_PARAM_INVALID);
    assert_message_has("aclrtDeviceEnablePeerAccess");
    assert_acl_ok(aclrtDeviceCanAccessPeer(&can, 0, 1));
    assert_int_equal(can, 1);
    assert_acl_ok(aclrtDeviceEnablePeerAccess(1, 0));
    assert_acl_ok(aclrtMemcpyAsync(to.va, CHUNK, from.va, CHUNK,
                                   ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_pattern(to.va, CHUNK, 1);
    assert_acl_ok(aclrtMemcpy(there, 1000, here, 1000, ACL_MEMCPY_DEVICE_TO_DEVICE));
    assert_pattern(there, 1000, 2);
    assert_int_equal(fake_cuda_calls(), 0);

    end_stream(stream);
    device_free(here);
    device_free(there);
    block_destroy(&to);
    block_destroy(&from);
    assert_acl_ok(aclrtDeviceDisablePeerAccess(1));
}

/* A stream of one device waits for a record of the other. */
static void a_stream_waits_for_the_other_device(void **state)
{
    aclrtStream first, second;
    aclrtEvent event;
    char *block, *pinned;

    use_devices("ACLMEM_DEVICES=2");
    first = make_stream();
    event = make_event();
    block = device_malloc(1000);
    pinned = host_malloc(1000);
    memset(pinned, 7, 1000);
    assert_acl_ok(aclrtSetDevice(1));
    second = make_stream();
    assert_acl_ok(aclrtDeviceEnablePeerAccess(0, 0));
    fake_cuda_hold(true);
    assert_acl_ok(
        aclrtMemcpyAsync(block, 1000, pinned, 1000, ACL_MEMCPY_HOST_TO_DEVICE, first));
    fake_cuda_hold_busy(); /* the first record waits for another stream */
    assert_acl_ok(aclrtRecordEvent(event, first));
    assert_acl_ok(aclrtStreamWaitEvent(second, event));
    memset(pinned, 7, 1000);
    assert_acl_ok(aclrtMemsetAsync(block, 500, 8, 500, second));
    fake_cuda_hold(false);
    assert_acl_ok(aclrtSynchronizeStream(second));
    assert_all_bytes(block, 500, 8);
    assert_all_bytes(block + 500, 500, 7);
    end_stream(second);
    assert_acl_ok(aclrtDeviceDisablePeerAccess(0));
    assert_acl_ok(aclrtSetDevice(0));
    end_stream(first);
    assert_acl_ok(aclrtDestroyEvent(event));
    device_free(block);
    host_free(pinned);
}

static void the_devices_have_names_of_their_own(void **state)
{
    aclrtUuid first, second;

    use_devices("ACLMEM_DEVICES=2");
    assert_acl_ok(aclrtDeviceGetUuid(0, &first));
    assert_acl_ok(aclrtDeviceGetUuid(1, &second));
    assert_memory_not_equal(&first, &second, sizeof first);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(each_device_has_its_share_of_the_memory),
        claim_alone(memory_that_one_device_keeps_is_free_for_the_other),
        claim_alone(a_copy_between_the_devices_stays_inside_the_gpu),
        claim_alone(a_stream_waits_for_the_other_device),
        claim_alone(the_devices_have_names_of_their_own),
    };

    return run_claims(claims);
}
