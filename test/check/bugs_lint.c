/* Calls that the default rules take and some edition or product refuses: none is refused here. */
#include "bugs.h"

MISTAKE aclrtDrvMemHandle take_odd(size_t size)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle handle;

    MUST(aclrtMallocPhysical(&handle, size, &prop, 0));
    return handle;
}

static void odd_size(bool is_fixed)
{
    MUST(aclrtFreePhysical(take_odd(is_fixed ? CHUNK : CHUNK - 5)));
}

MISTAKE void free_mapped(aclrtDrvMemHandle handle)
{
    MUST(aclrtFreePhysical(handle));
}

static void freed_while_mapped(bool is_fixed)
{
    struct chunk chunk = chunk_open();

    if (is_fixed)
        MUST(aclrtUnmapMem(chunk.va));
    free_mapped(chunk.handle);
    if (!is_fixed)
        MUST(aclrtUnmapMem(chunk.va));
    MUST(aclrtReleaseMemAddress(chunk.va));
}

MISTAKE void copy_from(void *device, const void *host, aclrtStream stream)
{
    MUST(aclrtMemcpyAsync(device, 64, host, 64, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    MUST(aclrtSynchronizeStream(stream));
}

static void pageable_copy(bool is_fixed)
{
    static _Alignas(64) char own[64];
    aclrtStream stream = stream_open();
    void *block = block_open(64);
    void *host = host_open(64);

    copy_from(block, is_fixed ? host : own, stream);
    MUST(aclrtFreeHost(host));
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

/* ---- virtual memory ---- */

MISTAKE void *reserve_at(void *wish, uint64_t flags)
{
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, wish, flags));
    return va;
}

static void wish_for_an_address(bool is_fixed)
{
    void *va = reserve_at(is_fixed ? NULL : (void *)((uintptr_t)17 << 40), 1);

    MUST(aclrtReleaseMemAddress(va));
}

MISTAKE aclrtDrvMemHandle take_with(aclrtPhysicalMemProp prop)
{
    aclrtDrvMemHandle handle;

    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    return handle;
}

static void memory_of_the_host(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);

    if (!is_fixed)
        prop.location.type = ACL_MEM_LOCATION_TYPE_HOST;
    MUST(aclrtFreePhysical(take_with(prop)));
}

static void newer_attribute(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);

    prop.memAttr = is_fixed ? ACL_HBM_MEM_NORMAL : ACL_MEM_NORMAL;
    MUST(aclrtFreePhysical(take_with(prop)));
}

MISTAKE void map_at(void *va, size_t size, aclrtDrvMemHandle handle)
{
    MUST(aclrtMapMem(va, size, 0, handle, 0));
}

static void flags_and_pages(bool is_fixed)
{
    void *va = reserve_at(NULL, is_fixed);
    aclrtDrvMemHandle handle = take_with(device_prop(0));

    map_at(va, CHUNK, handle);
    MUST(aclrtUnmapMem(va));
    MUST(aclrtFreePhysical(handle));
    MUST(aclrtReleaseMemAddress(va));
}

static void part_of_a_handle(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle handle;
    void *va = reserve_at(NULL, 1);

    MUST(aclrtMallocPhysical(&handle, is_fixed ? CHUNK : 2 * CHUNK, &prop, 0));
    map_at(va, CHUNK, handle);
    MUST(aclrtUnmapMem(va));
    MUST(aclrtFreePhysical(handle));
    MUST(aclrtReleaseMemAddress(va));
}

static void two_devices_in_a_reservation(bool is_fixed)
{
    aclrtDrvMemHandle handle[2];
    void *va;

    MUST(aclrtReserveMemAddress(&va, 2 * CHUNK, 0, NULL, 1));
    for (int i = 0; i < 2; i++) {
        handle[i] = take_with(device_prop(is_fixed ? 0 : i));
        map_at((char *)va + (size_t)i * CHUNK, CHUNK, handle[i]);
    }
    for (int i = 0; i < 2; i++) {
        MUST(aclrtUnmapMem((char *)va + (size_t)i * CHUNK));
        MUST(aclrtFreePhysical(handle[i]));
    }
    MUST(aclrtReleaseMemAddress(va));
}

/* ---- sharing ---- */

MISTAKE uint64_t export_it(aclrtDrvMemHandle handle, uint64_t flags)
{
    uint64_t number;

    MUST(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, flags,
                                         &number));
    return number;
}

static void export_for_everybody(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_with(device_prop(0));

    export_it(handle, !is_fixed);
    MUST(aclrtFreePhysical(handle));
}

MISTAKE void import_it(uint64_t number)
{
    aclrtDrvMemHandle handle;

    MUST(aclrtMemImportFromShareableHandle(number, 0, &handle));
    MUST(aclrtFreePhysical(handle));
}

static void own_export(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_with(device_prop(0));
    int32_t pid;
    uint64_t number = export_it(handle, 0);

    MUST(aclrtDeviceGetBareTgid(&pid));
    MUST(aclrtMemSetPidToShareableHandle(number, &pid, 1));
    if (!is_fixed)
        import_it(number);
    MUST(aclrtFreePhysical(handle));
}

/* ---- copies, events ---- */

MISTAKE void copy_as(void *to, const void *from, aclrtMemcpyKind kind)
{
    MUST(aclrtMemcpy(to, 64, from, 64, kind));
}

static void wrong_kind(bool is_fixed)
{
    static char own[64];
    void *block = block_open(64);

    copy_as(block, own,
            is_fixed ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_DEVICE);
    MUST(aclrtFree(block));
}

static void newer_kind(bool is_mended)
{
    static char own[64];
    void *block = block_open(64);

    copy_as(block, own,
            is_mended ? ACL_MEMCPY_DEFAULT : ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE);
    MUST(aclrtFree(block));
}

/* What every edition refuses is no matter of editions. */
static void values_of_no_edition(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle handle = NULL;
    char own[64] = "";
    void *block = block_open(64);

    (void)aclrtMemcpy(block, 64, own, 64, (aclrtMemcpyKind)99);
    prop.memAttr = (aclrtMemAttr)99;
    (void)aclrtMallocPhysical(&handle, CHUNK, &prop, 0);
    prop = device_prop(0);
    prop.location.type = (aclrtMemLocationType)99;
    (void)aclrtMallocPhysical(&handle, CHUNK, &prop, 0);
    MUST(aclrtFree(block));
}

MISTAKE void free_null(void)
{
    MUST(aclrtFreeHost(NULL));
}

static void null_freed(bool is_mended)
{
    if (!is_mended)
        free_null();
}

MISTAKE void *reserve_no_uc(size_t size, uint64_t flags)
{
    void *va = NULL;

    MUST(aclrtReserveMemAddressNoUCMemory(&va, size, 0, (void *)(78ull << 40), flags));
    return va;
}

static void no_uc_flags(bool is_mended)
{
    MUST(aclrtReleaseMemAddress(reserve_no_uc((size_t)1 << 30, is_mended ? 0 : 1)));
}

static void no_uc_size(bool is_mended)
{
    MUST(aclrtReleaseMemAddress(reserve_no_uc((size_t)1 << (is_mended ? 30 : 21), 0)));
}

MISTAKE void fill_it(void *at)
{
    MUST(aclrtMemset(at, 64, 0, 64));
}

static void fill_of_own_memory(bool is_fixed)
{
    static char own[64];
    void *block = block_open(64);

    fill_it(is_fixed ? block : own);
    MUST(aclrtFree(block));
}

MISTAKE float time_between(aclrtEvent start, aclrtEvent end)
{
    float ms;

    MUST(aclrtEventElapsedTime(&ms, start, end));
    return ms;
}

static void times_of_two_streams(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtEvent start;
    aclrtEvent end;

    MUST(aclrtCreateEvent(&start));
    MUST(aclrtCreateEvent(&end));
    MUST(aclrtRecordEvent(start, first));
    MUST(aclrtSynchronizeStream(first));
    MUST(aclrtRecordEvent(end, is_fixed ? first : second));
    MUST(aclrtSynchronizeDevice());
    time_between(start, end);
    MUST(aclrtDestroyEvent(start));
    MUST(aclrtDestroyEvent(end));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

MISTAKE void wait_on(aclrtStream stream, aclrtEvent event)
{
    MUST(aclrtStreamWaitEvent(stream, event));
}

static void event_without_sync(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent event;

    MUST(aclrtCreateEventWithFlag(&event, ACL_EVENT_TIME_LINE |
                                              (is_fixed ? ACL_EVENT_SYNC : 0u)));
    MUST(aclrtRecordEvent(event, stream));
    wait_on(stream, event);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void ask_state(uint32_t *flags)
{
    int32_t is_active;

    MUST(aclrtGetPrimaryCtxState(0, flags, &is_active));
}

static void flags_of_a_context(bool is_fixed)
{
    uint32_t flags;

    ask_state(is_fixed ? NULL : &flags);
}

static void count(void *n)
{
    ++*(int *)n;
}

MISTAKE void call_on(aclrtStream stream, int *n)
{
    MUST(aclrtLaunchHostFunc(stream, count, n));
}

static void function_in_a_capture(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclmdlRI model;
    int n = 0;

    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    if (!is_fixed)
        call_on(stream, &n);
    MUST(aclmdlRICaptureEnd(stream, &model));
    if (is_fixed)
        call_on(stream, &n);
    MUST(aclmdlRIExecuteAsync(model, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void record_flagged(aclrtEvent event, aclrtStream stream)
{
    MUST(aclrtRecordEventWithFlag(event, stream, ACL_EVENT_RECORD_EXTERNAL));
}

/* On captured streams the flag needs no finding: the function has a row for CANN 9.1. */
static void flag_without_a_capture(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent event;
    aclmdlRI model;

    MUST(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    if (!is_fixed)
        record_flagged(event, stream);
    MUST(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    if (is_fixed)
        record_flagged(event, stream);
    MUST(aclmdlRICaptureEnd(stream, &model));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclmdlRIDestroy(model));
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(stream));
}

/* Products: there is no finding, and the last lines name those that lack it. */
static void pool_of_a2(bool is_fixed)
{
    MUST(aclrtMemPoolDestroy(pool_open(64 * MIB)));
}

MISTAKE void export_to_fabric(aclrtDrvMemHandle handle, aclrtMemSharedHandleType type)
{
    aclrtMemFabricHandle shared;

    MUST(aclrtMemExportToShareableHandleV2(handle, 0, type, &shared));
}

static void fabric_handle(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_odd(CHUNK);

    export_to_fabric(handle, is_fixed ? ACL_MEM_SHARE_HANDLE_TYPE_DEFAULT
                                      : ACL_MEM_SHARE_HANDLE_TYPE_FABRIC);
    MUST(aclrtFreePhysical(handle));
}

static void newer_function(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    aclrtDrvMemHandle again;

    MUST(aclrtMemRetainAllocationHandle(chunk.va, &again));
    MUST(aclrtFreePhysical(again));
    chunk_close(chunk);
}

static void nothing(bool is_fixed)
{
}

#define LINT .options = "--lint"

const struct bug lint_bugs[] = {
    BUG("portability/size", odd_size, "portability", "size is 2097147", "take_odd",
        .options = "--lint"),
    BUG("portability/mapped", freed_while_mapped, "portability",
        "freed while its memory is mapped", "free_mapped", .options = "--lint"),
    BUG("portability/pageable", pageable_copy, "portability",
        "src is memory that is not pinned", "copy_from", .options = "--lint"),
    BUG("portability/wish", wish_for_an_address, "portability", "take NULL only",
        "reserve_at", LINT),
    BUG("portability/host", memory_of_the_host, "portability",
        "before CANN 8.5 allocate physical memory of devices only", "take_with", LINT),
    BUG("portability/attribute", newer_attribute, "portability",
        "which came with CANN 8.5", "take_with", LINT),
    BUG("portability/flags", flags_and_pages, "portability",
        "reserved with flags 0, and the memory has huge pages", "map_at", LINT),
    BUG("portability/part", part_of_a_handle, "portability",
        "size is 2097152 and the handle's is 4194304", "map_at", LINT),
    BUG("portability/mixed", two_devices_in_a_reservation, "portability",
        "own memory of device 0 mapped, and the handle is own memory of device 1",
        "map_at", LINT),
    BUG("portability/export", export_for_everybody, "portability",
        "editions before CANN 8.3 take only 0", "export_it", LINT),
    BUG("portability/own", own_export, "portability", "import its own export",
        "import_it", LINT),
    BUG("portability/kind", wrong_kind, "portability",
        "kind is ACL_MEMCPY_DEVICE_TO_DEVICE, and the", "copy_as", LINT),
    BUG("portability/newer_kind", newer_kind, "portability",
        "kind is ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, and the", "copy_as", LINT),
    BUG("portability/null", null_freed, "portability", "hostPtr is NULL", "free_null",
        LINT),
    BUG("portability/no_uc_flags", no_uc_flags, "portability", "flags is 0x1",
        "reserve_no_uc", LINT, .product = "A3"),
    BUG("portability/no_uc_size", no_uc_size, "portability", "multiples of 1 GB only",
        "reserve_no_uc", LINT, .product = "A3"),
    BUG("portability/fill", fill_of_own_memory, "portability",
        "devPtr is the program's own memory", "fill_it", LINT),
    BUG("portability/times", times_of_two_streams, "portability",
        "recorded in two streams", "time_between", LINT),
    BUG("portability/sync", event_without_sync, "portability",
        "was made without ACL_EVENT_SYNC", "wait_on", LINT),
    BUG("portability/state", flags_of_a_context, "portability", "flags is given",
        "ask_state", LINT),
    BUG("portability/fabric", fabric_handle, "portability",
        "shareType is ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, which only A3 has",
        "export_to_fabric", LINT, .product = "A3"),
    BUG("portability/captured_function", function_in_a_capture, "portability",
        "editions before CANN 8.5 capture no host functions", "call_on", LINT),
    BUG("portability/external", flag_without_a_capture, "portability",
        "on a stream that is not captured", "record_flagged", LINT),
    BUG("none/no_edition", values_of_no_edition, "", "", "", LINT),
    BUG("none/newer", newer_function, "", "", "", LINT),
    BUG("none/nothing", nothing, "", "", ""),
    BUG("none/products", pool_of_a2, "", "", "", LINT),
    {.name = NULL},
};
