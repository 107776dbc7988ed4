/*
 * aclFinalize and aclInit while other threads are inside calls.
 *
 * A call that has begun goes on beside the stop, and beside the next start.  It may fail;
 * it must not hang, crash, or keep anything that the stop released.  The calls here check
 * no codes for that reason.  ThreadSanitizer reports a call that reads data which a start
 * writes, so each kind of call has a thread of its own.
 *
 * A pointer or an event from before the stop may name another thread's object after the
 * next start, as on a device.  So only one thread writes to device memory.
 */
#include "support/pools.h"
#include "support/process.h"
#include "support/vmm.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_STOPS = 20, MOST_ROUNDS = 200000 };

static atomic_bool is_over;

static bool is_ok(aclError rc)
{
    return rc == ACL_SUCCESS;
}

/* ---- calls ---- */

static void map_memory(void)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    void *va = NULL;

    if (is_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0)) &&
        is_ok(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1)) &&
        is_ok(aclrtMapMem(va, CHUNK, 0, handle, 0)))
        (void)aclrtUnmapMem(va);
    if (va != NULL)
        (void)aclrtReleaseMemAddress(va);
    if (handle != NULL)
        (void)aclrtFreePhysical(handle);
}

static void share_memory(void)
{
    aclrtPhysicalMemProp prop = device_prop(0, ACL_HBM_MEM_HUGE);
    aclrtDrvMemHandle handle = NULL;
    aclrtDrvMemHandle import = NULL;
    uint64_t number = 0;

    if (is_ok(aclrtMallocPhysical(&handle, CHUNK, &prop, 0)) &&
        is_ok(aclrtMemExportToShareableHandle(
            handle, ACL_MEM_HANDLE_TYPE_NONE,
            ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION, &number)) &&
        is_ok(aclrtMemImportFromShareableHandle(number, 0, &import)))
        (void)aclrtFreePhysical(import);
    /* No process has this number, so the runtime directory is searched. */
    if (is_ok(aclrtMemImportFromShareableHandle(UINT64_C(1) << 62 | number, 0, &import)))
        (void)aclrtFreePhysical(import);
    if (handle != NULL)
        (void)aclrtFreePhysical(handle);
}

static void allocate_blocks(void)
{
    void *small = NULL;
    void *large = NULL;
    void *pinned = NULL;

    (void)aclrtSetDevice(0);
    (void)aclrtMalloc(&small, 100, ACL_MEM_MALLOC_HUGE_FIRST);
    (void)aclrtMalloc(&large, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST);
    (void)aclrtMallocHost(&pinned, 100);
    (void)aclrtFree(small);
    (void)aclrtFree(large);
    (void)aclrtFreeHost(pinned);
}

static void ask_everything(void)
{
    const char *soc = aclrtGetSocName();
    size_t free_size, total;
    aclrtContext context;
    uint32_t n_devices;
    int32_t can_access;
    int64_t value;
    char name[64];
    char bus[32];

    snprintf(name, sizeof name, "%s", soc != NULL ? soc : "");
    (void)aclrtGetDeviceCount(&n_devices);
    (void)aclrtSetDevice(0);
    (void)aclrtGetCurrentContext(&context);
    (void)aclrtGetMemInfo(ACL_HBM_MEM, &free_size, &total);
    (void)aclrtGetDeviceInfo(0, ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE, &value);
    (void)aclrtDeviceGetPCIBusId(0, bus, sizeof bus);
    (void)aclrtDeviceCanAccessPeer(&can_access, 0, 1);
    (void)aclrtSetSysParamOpt(ACL_OPT_DETERMINISTIC, 1);
    (void)aclrtGetSysParamOpt(ACL_OPT_DETERMINISTIC, &value);
    (void)aclmem_option("ACLMEM_PRODUCT");
    (void)aclGetRecentErrMsg();
    (void)aclrtResetDevice(0);
}

static void do_nothing(void *data)
{
}

static void use_streams(void)
{
    aclrtStream first = NULL;
    aclrtStream second = NULL;
    aclrtEvent event = NULL;
    char bytes[64] = "";
    void *p = NULL;

    (void)aclrtSetDevice(0);
    if (is_ok(aclrtCreateStream(&first)) && is_ok(aclrtCreateStream(&second)) &&
        is_ok(aclrtCreateEvent(&event)) &&
        is_ok(aclrtMalloc(&p, sizeof bytes, ACL_MEM_MALLOC_HUGE_FIRST))) {
        (void)aclrtMemcpyAsync(p, sizeof bytes, bytes, sizeof bytes,
                               ACL_MEMCPY_HOST_TO_DEVICE, first);
        (void)aclrtRecordEvent(event, first);
        (void)aclrtStreamWaitEvent(second, event);
        (void)aclrtMemsetAsync(p, sizeof bytes, 1, sizeof bytes, second);
        (void)aclrtLaunchHostFunc(second, do_nothing, NULL);
        (void)aclrtSynchronizeEvent(event);
        (void)aclrtSynchronizeStream(second);
        (void)aclrtSynchronizeDevice();
    }
    (void)aclrtFree(p);
    if (event != NULL)
        (void)aclrtDestroyEvent(event);
    if (second != NULL)
        (void)aclrtDestroyStream(second);
    if (first != NULL)
        (void)aclrtDestroyStreamForce(first);
}

static void use_notifies(void)
{
    aclrtNotify imported = NULL;
    aclrtNotify notify = NULL;
    aclrtStream stream = NULL;
    char key[65] = "";

    (void)aclrtSetDevice(0);
    if (is_ok(aclrtCreateStream(&stream)) && is_ok(aclrtCreateNotify(&notify, 0))) {
        if (is_ok(aclrtRecordNotify(notify, stream)))
            (void)aclrtWaitAndResetNotify(notify, stream, 1000);
        if (is_ok(aclrtNotifyGetExportKey(
                notify, key, sizeof key,
                ACL_RT_NOTIFY_EXPORT_FLAG_DISABLE_PID_VALIDATION)) &&
            is_ok(aclrtNotifyImportByKey(&imported, key, 0)))
            (void)aclrtDestroyNotify(imported);
        (void)aclrtSynchronizeStream(stream);
    }
    if (notify != NULL)
        (void)aclrtDestroyNotify(notify);
    if (stream != NULL)
        (void)aclrtDestroyStreamForce(stream);
}

static void use_pools(void)
{
    aclrtMemPoolProps props = pool_props(64 * MIB);
    aclrtMemPool pool = NULL;
    aclrtStream stream = NULL;
    void *p = NULL;

    (void)aclrtSetDevice(0);
    if (is_ok(aclrtCreateStream(&stream)) && is_ok(aclrtMemPoolCreate(&pool, &props)) &&
        is_ok(aclrtMemPoolMallocAsync(&p, CHUNK, pool, stream))) {
        (void)aclrtMemPoolFreeAsync(p, stream);
        (void)aclrtSynchronizeStream(stream);
        (void)aclrtMemPoolTrimTo(pool, 0);
    }
    if (pool != NULL)
        (void)aclrtMemPoolDestroy(pool);
    if (stream != NULL)
        (void)aclrtDestroyStream(stream);
}

static void use_host_memory(void)
{
    static char page[2 * 4096] __attribute__((aligned(4096)));
    void *managed = NULL;
    void *device;

    (void)aclrtSetDevice(0);
    if (is_ok(aclrtHostRegister(page, 4096, ACL_HOST_REGISTER_MAPPED, &device)))
        (void)aclrtHostGetDevicePointer(page, &device, 0);
    (void)aclrtHostUnregister(page);
    if (is_ok(aclrtMemAllocManaged(&managed, CHUNK, 1)))
        (void)aclrtFree(managed);
}

static const char *set_and_allocate(struct worker *self)
{
    allocate_blocks();
    return NULL;
}

/* The thread's own lists of blocks end with it, beside the stop. */
static void start_a_thread(void)
{
    (void)run_thread(set_and_allocate, NULL);
}

/* ---- the stop ---- */

static const char *call_all_the_time(struct worker *self)
{
    void (*const *call)(void) = self->shared;

    for (unsigned i = 0; i < MOST_ROUNDS && !is_over; i++)
        (*call)();
    return NULL;
}

/* A file that changes options, for every second start. */
static void file_make(char *path)
{
    int fd = mkstemp(path);

    assert_true(fd >= 0 && dprintf(fd, "{\"err_msg_mode\": \"1\", \"aclmem\": "
                                       "{\"product\": \"Ascend950PR_9599\"}}") > 0);
    close(fd);
}

/* This thread makes the calls too, so that each start is followed by work. */
static void stop_beside(void (*const *calls)(void), unsigned n)
{
    char path[] = "/tmp/aclmem_test_XXXXXX";
    struct worker workers[4] = {0};

    start("default", "ACLMEM_LOG=error");
    /* A wait whose record came too late: the stop gives its stream up, with a warning. */
    allow_warnings();
    file_make(path);
    is_over = false;
    for (unsigned i = 0; i < n; i++) {
        workers[i] = (struct worker){
            .run = call_all_the_time, .index = i, .shared = (void *)&calls[i]};
        assert_int_equal(worker_start(&workers[i]), 0);
    }
    for (unsigned i = 0; i < N_STOPS; i++) {
        assert_acl_ok(aclFinalize());
        assert_acl_ok(aclInit(i % 2 == 0 ? path : NULL));
        for (unsigned k = 0; k < n; k++) {
            if (calls[k] != use_streams) /* the thread that writes to device memory */
                calls[k]();
        }
    }
    is_over = true;
    for (unsigned i = 0; i < n; i++)
        assert_null(worker_join(&workers[i]));
    unlink(path);
    assert_acl_ok(aclFinalize());
    assert_int_equal(stats().handles, 0);
    assert_int_equal(stats().mappings, 0);
}

static void finalize_beside_calls_for_memory_leaves_nothing(void **state)
{
    static void (*const calls[])(void) = {map_memory, share_memory, allocate_blocks};

    stop_beside(calls, 3);
}

static void finalize_beside_queries_leaves_nothing(void **state)
{
    static void (*const calls[])(void) = {ask_everything, ask_everything, start_a_thread};

    stop_beside(calls, 3);
}

static void finalize_beside_work_on_streams_leaves_nothing(void **state)
{
    static void (*const calls[])(void) = {use_streams, use_notifies, use_pools,
                                          ask_everything};

    stop_beside(calls, 4);
}

static void finalize_beside_calls_for_host_memory_leaves_nothing(void **state)
{
    static void (*const calls[])(void) = {use_host_memory, allocate_blocks, share_memory};

    stop_beside(calls, 3);
}

int main(void)
{
    const struct CMUnitTest claims[] = {
        claim_alone(finalize_beside_calls_for_memory_leaves_nothing),
        claim_alone(finalize_beside_queries_leaves_nothing),
        claim_alone(finalize_beside_work_on_streams_leaves_nothing),
        claim_alone(finalize_beside_calls_for_host_memory_leaves_nothing),
    };

    return run_claims(claims);
}
