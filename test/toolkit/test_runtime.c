/*
 * The names below AscendCL, as memfabric uses them: looked up on the handle of
 * libascendcl.so, all of them before anything else.
 */
#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

#include "support/support.h"
#include "support/vmm.h"

#define AM_RUNTIME(name_, params_) static int32_t(*name_) params_;
#include "../../src/toolkit/runtime.def"
#undef AM_RUNTIME

/* What the client asks rtGetDeviceInfo. */
enum { CHIP = 18, DIE = 19, SDID = 26, SERVER = 27, POD = 29, ADDRESS_MODE = 30 };

static int look_up(void **state)
{
    void *library = dlopen("libascendcl.so", RTLD_NOW | RTLD_NOLOAD);

    assert_non_null(library);
#define AM_RUNTIME(name_, params_) \
    *(void **)&name_ = dlsym(library, #name_); \
    assert_non_null(name_);
#include "../../src/toolkit/runtime.def"
#undef AM_RUNTIME
    return 0;
}

static int64_t device_info(uint32_t device, int32_t info)
{
    int64_t value = -77;

    assert_acl_ok(rtGetDeviceInfo(device, 0, info, &value));
    assert_string_equal(kept_message(), "");
    return value;
}

static void a_machine_in_no_supernode_says_so(void **state)
{
    start("default", "ACLMEM_PRODUCT=A2");
    assert_int_equal(device_info(1, CHIP), 1);
    assert_int_equal(device_info(1, DIE), 0);
    assert_int_equal(device_info(1, SDID), 1);
    assert_int_equal(device_info(1, SERVER), 0x3FF);
    assert_int_equal(device_info(1, POD), 0xFFFFFFFF);
    assert_int_equal(device_info(1, ADDRESS_MODE), 0);
}

static void a_machine_of_a_supernode_says_which(void **state)
{
    int64_t value;

    start("default", "ACLMEM_PRODUCT=A3");
    assert_acl_ok(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_SUPER_POD_DEVICE_ID, &value));
    assert_int_equal(device_info(1, SDID), value);
    assert_acl_ok(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_SUPER_POD_SERVER_ID, &value));
    assert_int_equal(device_info(1, SERVER), value);
    assert_acl_ok(aclrtGetDeviceInfo(1, ACL_DEV_ATTR_SUPER_POD_ID, &value));
    assert_int_equal(device_info(1, POD), value);
}

static void unknown_properties_of_a_device_are_refused(void **state)
{
    int64_t value = -77;

    assert_bad_arg(rtGetDeviceInfo(0, 0, CHIP, NULL), "value is NULL");
    assert_refused(rtGetDeviceInfo(0, 1, CHIP, &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "moduleType is 1");
    assert_refused(rtGetDeviceInfo(0, 0, 1, &value), ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
                   "infoType is 1");
    assert_refused(rtGetDeviceInfo(9, 0, CHIP, &value), ACL_ERROR_RT_INVALID_DEVICEID,
                   "9");
    assert_int_equal(value, -77);
}

static void ids_are_those_of_ascendcl(void **state)
{
    int32_t expected, logic = -1;
    uint32_t pid = 0;

    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtDeviceGetBareTgid(&expected));
    assert_acl_ok(rtDeviceGetBareTgid(&pid));
    assert_int_equal(pid, expected);
    assert_acl_ok(aclrtGetLogicDevIdByUserDevId(1, &expected));
    assert_acl_ok(rtGetLogicDevIdByUserDevId(1, &logic));
    assert_int_equal(logic, expected);
}

static void peers_are_enabled_for_the_threads_device(void **state)
{
    int32_t status = -1;

    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(rtEnableP2P(0, 1, 0));
    assert_acl_ok(aclrtDevicePeerAccessStatus(0, 1, &status));
    assert_int_equal(status, 1);
    assert_refused(rtEnableP2P(1, 0, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "device 1 is not the thread's, which is 0");
    assert_refused(rtDisableP2P(1, 0), ACL_ERROR_RT_PARAM_INVALID,
                   "device 1 is not the thread's");
    assert_acl_ok(rtDisableP2P(0, 1));
    assert_acl_ok(aclrtDevicePeerAccessStatus(0, 1, &status));
    assert_int_equal(status, 0);
}

static void copy_there_and_back(uint32_t kind)
{
    const char sent[64] = "there and back";
    char received[64] = "";
    aclrtStream stream;
    void *p, *host;

    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtCreateStream(&stream));
    assert_acl_ok(aclrtMalloc(&p, 4096, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(aclrtMallocHost(&host, 4096));
    memcpy(host, sent, sizeof(sent));
    assert_acl_ok(
        rtMemcpyAsyncWithoutCheckKind(p, 4096, host, sizeof(sent), kind, stream));
    assert_acl_ok(aclrtSynchronizeStream(stream));
    assert_acl_ok(aclrtMemcpy(received, sizeof(received), p, sizeof(sent),
                              ACL_MEMCPY_DEVICE_TO_HOST));
    assert_string_equal(received, sent);
    assert_acl_ok(aclrtFreeHost(host));
    assert_acl_ok(aclrtFree(p));
    assert_acl_ok(aclrtDestroyStream(stream));
}

static void copies_are_queued(void **state)
{
    copy_there_and_back(ACL_MEMCPY_HOST_TO_DEVICE);
}

static void a_copy_of_another_kind_is_done(void **state)
{
    copy_there_and_back(ACL_MEMCPY_DEVICE_TO_DEVICE);
}

/* The memory's two addresses are in one process; processes are test/share's business. */
static void memory_is_opened_by_name_and_closed_by_address(void **state)
{
    char name[65] = "", received[8] = "";
    int32_t pid;
    void *p, *opened;

    assert_acl_ok(aclrtSetDevice(0));
    assert_acl_ok(aclrtMalloc(&p, 2 * MIB, ACL_MEM_MALLOC_HUGE_FIRST));
    assert_acl_ok(rtIpcSetMemoryName(p, 2 * MIB, name, sizeof(name)));
    assert_acl_ok(rtDeviceGetBareTgid((uint32_t *)&pid));
    assert_bad_arg(rtSetIpcMemorySuperPodPid(name, 0, &pid, 0), "num is 0");
    assert_acl_ok(rtSetIpcMemorySuperPodPid(name, 0, &pid, 1));
    assert_acl_ok(rtIpcOpenMemory(&opened, name));

    assert_acl_ok(aclrtMemcpy(opened, 8, "message", 8, ACL_MEMCPY_HOST_TO_DEVICE));
    assert_acl_ok(aclrtMemcpy(received, 8, p, 8, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_string_equal(received, "message");

    assert_refused(rtIpcCloseMemory((char *)opened + 1), ACL_ERROR_RT_PARAM_INVALID,
                   "no memory was opened at");
    assert_acl_ok(rtIpcCloseMemory(opened));
    assert_refused(rtIpcCloseMemory(opened), ACL_ERROR_RT_PARAM_INVALID,
                   "no memory was opened at");
    assert_bad_arg(rtIpcCloseMemory(NULL), "ptr is NULL");
    assert_acl_ok(rtIpcDestroyMemoryName(name));
    assert_refused(rtIpcOpenMemory(&opened, name), ACL_ERROR_RT_NO_PERMISSION, "exports");
    assert_bad_arg(rtIpcOpenMemory(NULL, name), "ptr is NULL");
    assert_bad_arg(rtIpcOpenMemory(&opened, NULL), "name is NULL");
    assert_acl_ok(aclrtFree(p));
}

static void memory_streams_and_events_are_those_of_ascendcl(void **state)
{
    size_t total = 0, before = 0, now = 0;
    void *p, *streams[2], *events[2];
    aclrtPtrAttributes attributes;
    float time = -1;

    assert_acl_ok(rtSetDevice(1));
    assert_acl_ok(rtMemGetInfoEx(0, &before, &total));
    assert_in_range(before, 1, total);
    assert_acl_ok(rtMalloc(&p, 64 * MIB, 2, 0));
    assert_acl_ok(aclrtPointerGetAttributes(p, &attributes));
    assert_int_equal(attributes.location.id, 1);
    assert_acl_ok(rtMemGetInfoEx(0, &now, &total));
    assert_true(before - now >= 64 * MIB);
    for (int i = 0; i < 2; i++) {
        assert_acl_ok(rtStreamCreate(&streams[i], 0));
        assert_acl_ok(rtEventCreate(&events[i]));
        if (i == 1)
            assert_acl_ok(rtStreamWaitEvent(streams[1], events[0]));
        assert_acl_ok(aclrtMemsetAsync(p, 64 * MIB, i, 64 * MIB, streams[i]));
        assert_acl_ok(rtEventRecord(events[i], streams[i]));
    }
    assert_acl_ok(rtEventSynchronize(events[1]));
    assert_acl_ok(rtStreamSynchronize(streams[1]));
    assert_acl_ok(rtEventElapsedTime(&time, events[0], events[1]));
    assert_true(time >= 0);
    for (int i = 0; i < 2; i++) {
        assert_acl_ok(rtEventDestroy(events[i]));
        assert_acl_ok(rtStreamDestroy(streams[i]));
    }
    assert_acl_ok(rtFree(p));
    assert_refused(rtFree(p), ACL_ERROR_RT_PARAM_INVALID, "freed");
}

static void a_notify_orders_two_streams_of_the_threads_device(void **state)
{
    void *notify, *streams[2];
    int32_t device = -1;
    unsigned char *p, byte = 0;

    assert_acl_ok(rtSetDevice(1));
    assert_acl_ok(rtGetDevice(&device));
    assert_int_equal(device, 1);
    assert_acl_ok(rtMalloc((void **)&p, MIB, 2, 0));
    assert_refused(rtNotifyCreate(0, &notify), ACL_ERROR_RT_PARAM_INVALID, "device 0");
    assert_acl_ok(rtNotifyCreate(1, &notify));
    for (int i = 0; i < 2; i++)
        assert_acl_ok(rtStreamCreate(&streams[i], 0));
    /* The second stream waits first. */
    assert_acl_ok(rtNotifyWait(notify, streams[1]));
    assert_acl_ok(aclrtMemsetAsync(p, MIB, 2, MIB, streams[1]));
    assert_acl_ok(aclrtMemsetAsync(p, MIB, 1, MIB, streams[0]));
    assert_acl_ok(rtNotifyRecord(notify, streams[0]));
    assert_acl_ok(rtDeviceSynchronize());
    assert_acl_ok(aclrtMemcpy(&byte, 1, p, 1, ACL_MEMCPY_DEVICE_TO_HOST));
    assert_int_equal(byte, 2);
    for (int i = 0; i < 2; i++)
        assert_acl_ok(rtStreamDestroy(streams[i]));
    assert_acl_ok(rtNotifyDestroy(notify));
    assert_acl_ok(rtFree(p));
}

static void a_device_with_ddr_has_memory_too(void **state)
{
    size_t left = 0, total = 0;

    start("default", "ACLMEM_PRODUCT=310P");
    assert_acl_ok(rtSetDevice(0));
    assert_acl_ok(rtMemGetInfoEx(0, &left, &total));
    assert_in_range(left, 1, total);
}

static void a_physical_handle_is_freed(void **state)
{
    aclrtDrvMemHandle handle = alloc(2 * MIB);

    assert_acl_ok(rtFreePhysical(handle));
    assert_false(aclrtFreePhysical(handle) == ACL_SUCCESS);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(a_machine_in_no_supernode_says_so),
        claim_alone(a_machine_of_a_supernode_says_which),
        claim_both(unknown_properties_of_a_device_are_refused),
        claim_both(ids_are_those_of_ascendcl),
        claim_both(peers_are_enabled_for_the_threads_device),
        claim_both(copies_are_queued),
        claim(a_copy_of_another_kind_is_done),
        claim(memory_is_opened_by_name_and_closed_by_address),
        claim(memory_streams_and_events_are_those_of_ascendcl),
        claim(a_notify_orders_two_streams_of_the_threads_device),
        claim_alone(a_device_with_ddr_has_memory_too),
        claim(a_physical_handle_is_freed),
    };

    look_up(NULL);
    return run_claims(claims);
}
