/*
 * One GPU is lost, and the others are not.  Nothing brings a GPU back in a process, so each
 * claim has two of its own.
 */
#include "fake/whole_driver.h"
#include "fake/control.h"
#include "support/support.h"
#include "support/vmm.h"

/* A stream, device memory and pinned memory on each of two devices. */
struct side {
    int32_t device;
    aclrtStream stream;
    void *memory;
    void *host;
};

static void use(const struct side *side)
{
    assert_acl_ok(aclrtSetDevice(side->device));
}

static struct side side_create(int32_t device)
{
    struct side side = {.device = device};

    use(&side);
    assert_acl_ok(aclrtCreateStream(&side.stream));
    assert_acl_ok(aclrtMalloc(&side.memory, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMallocHost(&side.host, CHUNK));
    return side;
}

static aclError launch(const struct side *side)
{
    return aclrtMemcpyAsync(side->memory, CHUNK, side->host, CHUNK,
                            ACL_MEMCPY_HOST_TO_DEVICE, side->stream);
}

static void assert_works(const struct side *side)
{
    use(side);
    assert_acl_ok(launch(side));
    assert_acl_ok(aclrtSynchronizeStream(side->stream));
    assert_acl_ok(copy(side->memory, side->host, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE));
}

static int begin(void **state)
{
    start("default", "ACLMEM_DEVICES=8");
    return 0;
}

static int end(void **state)
{
    struct fake_cuda_counts counts;

    fake_cuda_fail(NULL, 0, 0, false);
    fake_cuda_hold(false);
    for (int i = 0; i < 8; i++)
        fake_cuda_break(i, CUDA_SUCCESS);
    (void)aclFinalize();
    fake_cuda_count(&counts);
    assert_int_equal(counts.handles, 0);
    assert_int_equal(counts.registered, 0);
    assert_int_equal(counts.streams, 0);
    assert_int_equal(counts.events, 0);
    assert_int_equal(counts.retained, 0);
    return 0;
}

/* Which is registered in some GPU's context, for all of them. */
static void host_memory_is_locked_by_another_gpu(void **state)
{
    struct side lost = side_create(0);
    struct side other = side_create(1);
    void *more = NULL;

    expect_warnings(1);
    fake_cuda_break(0, CUDA_ERROR_LAUNCH_FAILED);
    use(&other);
    assert_acl_ok(aclrtMallocHost(&more, 64 * MIB));
    assert_acl_ok(copy(other.memory, more, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_works(&other);
    assert_acl(copy(lost.memory, more, CHUNK, ACL_MEMCPY_HOST_TO_DEVICE),
               ACL_ERROR_RT_LOST_HEARTBEAT);
    assert_acl_ok(aclrtFreeHost(more));
    assert_acl_ok(aclrtFreeHost(other.host));
    assert_acl_ok(aclrtFreeHost(lost.host));
}

/* The driver fails the wait with the error of the event's GPU. */
static void a_gpu_that_waits_for_a_lost_gpu_is_not_lost(void **state)
{
    struct side lost = side_create(2);
    struct side other = side_create(3);
    aclrtEvent event = NULL;

    expect_warnings(1);
    assert_works(&lost);
    assert_works(&other);
    use(&lost);
    assert_acl_ok(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    fake_cuda_hold(true);
    assert_acl_ok(launch(&lost));
    assert_acl_ok(aclrtRecordEvent(event, lost.stream));
    fake_cuda_break(2, CUDA_ERROR_LAUNCH_FAILED);
    fake_cuda_hold(false);
    use(&other);
    assert_acl(aclrtStreamWaitEvent(other.stream, event), ACL_ERROR_RT_LOST_HEARTBEAT);
    assert_message_has("CUDA_ERROR_LAUNCH_FAILED");
    assert_works(&other);
    use(&lost);
    assert_acl(launch(&lost), ACL_ERROR_RT_LOST_HEARTBEAT);
    assert_message_has("can no longer use GPU 2");
}

/* Some memory the driver cannot lock, and has no better word for that. */
static void an_unknown_error_alone_loses_no_gpu(void **state)
{
    struct side side = side_create(4);
    static _Alignas(4096) char memory[4096];

    fake_cuda_fail("cuMemHostRegister_v2", 1, CUDA_ERROR_UNKNOWN, false);
    assert_acl(aclrtHostRegisterV2(memory, sizeof(memory), ACL_HOST_REG_PINNED),
               ACL_ERROR_RT_LOST_HEARTBEAT);
    assert_message_has("CUDA_ERROR_UNKNOWN");
    assert_works(&side);
    assert_acl_ok(aclrtHostRegisterV2(memory, sizeof(memory), ACL_HOST_REG_PINNED));
    assert_acl_ok(aclrtHostUnregister(memory));
}

int main(void)
{
#define lost_claim(f_) cmocka_unit_test_setup_teardown(f_, begin, end)
    const struct CMUnitTest claims[] = {
        lost_claim(host_memory_is_locked_by_another_gpu),
        lost_claim(a_gpu_that_waits_for_a_lost_gpu_is_not_lost),
        lost_claim(an_unknown_error_alone_loses_no_gpu),
    };

    return cmocka_run_group_tests(claims, NULL, NULL);
}
