/* Facts about starting, devices and contexts. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake/facts.h"

static void before_init(void)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle;
    CUcontext context;
    CUdeviceptr addr;
    void *host;
    size_t size;
    int number;

    say_code("version", cu.cuDriverGetVersion(&number));
    say_code("count", cu.cuDeviceGetCount(&number));
    say_code("device", cu.cuDeviceGet(&number, 0));
    say_code("current", cu.cuCtxGetCurrent(&context));
    say_code("reserve", cu.cuMemAddressReserve(&addr, CHUNK, 0, 0, 0));
    say_code("create", cu.cuMemCreate(&handle, CHUNK, &prop, 0));
    say_code("granularity", cu.cuMemGetAllocationGranularity(&size, &prop, 0));
    say_code("pinned", cu.cuMemHostAlloc(&host, 4096, 0));
    say_code("attribute",
             cu.cuPointerGetAttribute(&number, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, 4096));
}

static void init(void)
{
    say_code("flags", cu.cuInit(1));
    say_code("first", cu.cuInit(0));
    say_code("again", cu.cuInit(0));
}

/* The child of a process that uses the driver. */
static void forked(void)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = device_prop();
    CUcontext context;
    pid_t child;
    int count;

    use_device();
    child = fork();
    if (child == 0) {
        say_code("init", cu.cuInit(0));
        say_code("count", cu.cuDeviceGetCount(&count));
        say_code("current", cu.cuCtxGetCurrent(&context));
        say_code("create", cu.cuMemCreate(&handle, CHUNK, &prop, 0));
        say_code("synchronize", cu.cuCtxSynchronize());
        _exit(0);
    }
    waitpid(child, NULL, 0);
}

static void error_names(void)
{
    const char *text = "untouched";

    must(cu.cuInit(0), "cuInit");
    say_code("good", cu.cuGetErrorName(CUDA_ERROR_ILLEGAL_ADDRESS, &text));
    say_yes("is_name", text && !strcmp(text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    say_code("unknown", cu.cuGetErrorName((CUresult)12345, &text));
    say_yes("unknown_is_null", text == NULL);
    say_code("string", cu.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text));
    say_yes("string_is_out_of_memory", text && !strcmp(text, "out of memory"));
    say_code("unknown_string", cu.cuGetErrorString((CUresult)12345, &text));
}

static void devices(void)
{
    CUdevice device;
    size_t size;
    int count;
    int value;

    must(cu.cuInit(0), "cuInit");
    must(cu.cuDeviceGetCount(&count), "count");
    say_code("null_count", cu.cuDeviceGetCount(NULL));
    say_code("negative", cu.cuDeviceGet(&device, -1));
    say_code("beyond", cu.cuDeviceGet(&device, count));
    say_code("null", cu.cuDeviceGet(NULL, 0));
    say_code("first", cu.cuDeviceGet(&device, 0));
    say_number("is", device);
    say_code("total_beyond", cu.cuDeviceTotalMem_v2(&size, count));
    say_code("total_null", cu.cuDeviceTotalMem_v2(NULL, 0));
    say_code("attribute_beyond",
             cu.cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_PCI_BUS_ID, count));
    say_code("attribute_unknown",
             cu.cuDeviceGetAttribute(&value, (CUdevice_attribute)9999, 0));
    say_code("peer_itself", cu.cuDeviceCanAccessPeer(&value, 0, 0));
    say_code("peer_beyond", cu.cuDeviceCanAccessPeer(&value, 0, count));
}

static void device_peer_itself(void)
{
    int value = -1;

    must(cu.cuInit(0), "cuInit");
    must(cu.cuDeviceCanAccessPeer(&value, 0, 0), "can");
    say_number("can", value);
}

static void device_attributes(void)
{
    static const struct {
        const char *key;
        CUdevice_attribute attribute;
    } wanted[] = {
        {"unified_addressing", CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING},
        {"vmm", CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED},
        {"posix_fd", CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED},
        {"registered_same_pointer",
         CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM},
    };
    int value;

    must(cu.cuInit(0), "cuInit");
    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++) {
        must(cu.cuDeviceGetAttribute(&value, wanted[i].attribute, 0), wanted[i].key);
        say_number(wanted[i].key, value);
    }
}

static void device_names(void)
{
    char full[256];
    char text[64] = "";
    CUuuid uuid;

    must(cu.cuInit(0), "cuInit");
    must(cu.cuDeviceGetName(full, sizeof(full), 0), "name");
    memset(text, 'x', sizeof(text));
    say_code("short", cu.cuDeviceGetName(text, 4, 0));
    say_yes("short_is_cut", !strncmp(text, full, 3) && text[3] == '\0');
    memset(text, 0, sizeof(text));
    say_code("pci", cu.cuDeviceGetPCIBusId(text, sizeof(text), 0));
    for (char *at = text; *at; at++)
        *at = isxdigit((unsigned char)*at) ? 'h' : *at;
    printf(" form=%s", text);
    memset(text, 'x', sizeof(text));
    say_code("pci_short", cu.cuDeviceGetPCIBusId(text, 8, 0));
    say_code("uuid", cu.cuDeviceGetUuid_v2(&uuid, 0));
    say_code("uuid_beyond", cu.cuDeviceGetUuid_v2(&uuid, 1000));
}

static void device_memory(void)
{
    size_t total_device;
    size_t total;
    size_t left;

    use_device();
    must(cu.cuDeviceTotalMem_v2(&total_device, 0), "total");
    must(cu.cuMemGetInfo_v2(&left, &total), "info");
    say_yes("same_total", total == total_device);
    say_yes("less_is_free", left < total);
    say_code("null", cu.cuMemGetInfo_v2(NULL, NULL));
}

static void no_context(void)
{
    CUcontext context = (CUcontext)0x10;
    CUdevice device;
    CUstream stream;
    CUevent event;
    void *host;
    size_t a;
    size_t b;
    int least;
    int greatest;

    must(cu.cuInit(0), "cuInit");
    say_code("current", cu.cuCtxGetCurrent(&context));
    say_yes("is_null", context == NULL);
    say_code("device", cu.cuCtxGetDevice(&device));
    say_code("synchronize", cu.cuCtxSynchronize());
    say_code("info", cu.cuMemGetInfo_v2(&a, &b));
    say_code("range", cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    say_code("stream", cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0));
    say_code("event", cu.cuEventCreate(&event, CU_EVENT_DEFAULT));
    say_code("pinned", cu.cuMemHostAlloc(&host, 4096, 0));
    say_code("free_null", cu.cuMemFreeHost(NULL));
    say_code("query", cu.cuStreamQuery(NULL));
    say_code("pop", cu.cuCtxPopCurrent_v2(&context));
    say_code("set_null", cu.cuCtxSetCurrent(NULL));
    say_code("push_null", cu.cuCtxPushCurrent_v2(NULL));
}

/* Virtual memory knows devices, not contexts. */
static void no_context_vmm(void)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr addr = 0;
    size_t size;
    int type = -1;

    must(cu.cuInit(0), "cuInit");
    say_code("granularity", cu.cuMemGetAllocationGranularity(&size, &prop, 0));
    say_code("reserve", cu.cuMemAddressReserve(&addr, CHUNK, 0, 0, 0));
    say_code("create", cu.cuMemCreate(&handle, CHUNK, &prop, 0));
    say_code("map", cu.cuMemMap(addr, CHUNK, 0, handle, 0));
    say_code("access", set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE));
    say_code("attribute",
             cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr));
    say_code("copy", cu.cuMemsetD8Async(addr, 1, 16, NULL));
    say_code("unmap", cu.cuMemUnmap(addr, CHUNK));
    say_code("release", cu.cuMemRelease(handle));
    say_code("free", cu.cuMemAddressFree(addr, CHUNK));
}

/* Things of a context, used while none is current. */
static void no_context_use(void)
{
    CUdeviceptr addr;
    CUcontext context;
    CUstream stream;
    CUevent event;
    void *pinned;
    int type;

    use_device();
    addr = make_mapped(CHUNK);
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    event = make_event(CU_EVENT_DEFAULT);
    pinned = make_pinned(4096);
    must(cu.cuCtxPopCurrent_v2(&context), "pop");
    say_code("query", cu.cuStreamQuery(stream));
    say_code("synchronize", cu.cuStreamSynchronize(stream));
    say_code("record", cu.cuEventRecord(event, stream));
    say_code("event_synchronize", cu.cuEventSynchronize(event));
    say_code("event_query", cu.cuEventQuery(event));
    say_code("wait", cu.cuStreamWaitEvent(stream, event, 0));
    say_code("copy", cu.cuMemcpyHtoDAsync_v2(addr, pinned, 16, stream));
    say_code("any_copy", cu.cuMemcpyAsync(addr, (CUdeviceptr)pinned, 16, stream));
    say_code("fill", cu.cuMemsetD8Async(addr, 0, 16, stream));
    say_code("attribute",
             cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, addr));
    say_code("unregister", cu.cuMemHostUnregister(pinned));
    say_code("free_host", cu.cuMemFreeHost(pinned));
    say_code("event_destroy", cu.cuEventDestroy_v2(event));
    say_code("stream_destroy", cu.cuStreamDestroy_v2(stream));
}

static void primary(void)
{
    CUcontext first;
    CUcontext second;
    CUcontext current;
    unsigned flags;
    int active;

    must(cu.cuInit(0), "cuInit");
    say_code("release_unheld", cu.cuDevicePrimaryCtxRelease_v2(0));
    must(cu.cuDevicePrimaryCtxGetState(0, &flags, &active), "state");
    say_number("active", active);
    must(cu.cuDevicePrimaryCtxRetain(&first, 0), "retain");
    must(cu.cuDevicePrimaryCtxRetain(&second, 0), "retain");
    say_yes("same", first == second);
    must(cu.cuCtxGetCurrent(&current), "current");
    say_yes("becomes_current", current == first);
    must(cu.cuDevicePrimaryCtxGetState(0, &flags, &active), "state");
    say_number("active", active);
    say_number("flags", flags);
    must(cu.cuDevicePrimaryCtxRelease_v2(0), "release");
    must(cu.cuDevicePrimaryCtxGetState(0, &flags, &active), "state");
    say_number("active_after_one", active);
    must(cu.cuDevicePrimaryCtxRelease_v2(0), "release");
    must(cu.cuDevicePrimaryCtxGetState(0, &flags, &active), "state");
    say_number("active_after_two", active);
    say_code("third", cu.cuDevicePrimaryCtxRelease_v2(0));
    say_code("retain_beyond", cu.cuDevicePrimaryCtxRetain(&first, 1000));
}

/* The last release destroys what the context owns, even where it is current. */
static void primary_end(void)
{
    CUcontext before;
    CUcontext context = NULL;
    size_t a;
    size_t b;

    use_device();
    must(cu.cuCtxGetCurrent(&before), "current");
    make_stream(CU_STREAM_NON_BLOCKING);
    say_code("release", cu.cuDevicePrimaryCtxRelease_v2(0));
    say_code("current", cu.cuCtxGetCurrent(&context));
    say_yes("still_current", context == before);
    say_code("info", cu.cuMemGetInfo_v2(&a, &b));
    say_code("synchronize", cu.cuCtxSynchronize());
    say_code("retain", cu.cuDevicePrimaryCtxRetain(&context, 0));
    say_yes("same_again", context == before);
    say_code("info_again", cu.cuMemGetInfo_v2(&a, &b));
}

static void primary_end_pinned(void)
{
    void *pinned;
    int type = -1;

    use_device();
    pinned = make_pinned(4096);
    must(cu.cuDevicePrimaryCtxRelease_v2(0), "release");
    say_yes("can_read_after", can_read(pinned));
    use_device();
    say_code("attribute",
             cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      (CUdeviceptr)pinned));
    say_code("free", cu.cuMemFreeHost(pinned));
}

/* Mapped memory belongs to the device and outlives contexts, with its rights. */
static void primary_end_vmm(void)
{
    CUdeviceptr addr;
    unsigned char *pinned;
    CUstream stream;

    use_device();
    addr = make_mapped(CHUNK);
    must(cu.cuMemsetD8Async(addr, 7, CHUNK, NULL), "fill");
    must(cu.cuStreamSynchronize(NULL), "synchronize");
    must(cu.cuDevicePrimaryCtxRelease_v2(0), "release");
    use_device();
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    pinned = make_pinned(4096);
    pinned[0] = 0;
    say_code("copy", cu.cuMemcpyDtoHAsync_v2(pinned, addr, 16, stream));
    say_code("synchronize", cu.cuStreamSynchronize(stream));
    say_number("byte", pinned[0]);
    say_code("unmap", cu.cuMemUnmap(addr, CHUNK));
    say_code("free", cu.cuMemAddressFree(addr, CHUNK));
}

static void stack(void)
{
    CUcontext context = NULL;
    CUcontext primary;

    must(cu.cuInit(0), "cuInit");
    must(cu.cuDevicePrimaryCtxRetain(&primary, 0), "retain");
    say_code("push", cu.cuCtxPushCurrent_v2(primary));
    say_code("push", cu.cuCtxPushCurrent_v2(primary));
    say_code("pop", cu.cuCtxPopCurrent_v2(&context));
    say_yes("is_it", context == primary);
    must(cu.cuCtxGetCurrent(&context), "current");
    say_yes("below_is_it", context == primary);
    say_code("set_null", cu.cuCtxSetCurrent(NULL));
    must(cu.cuCtxGetCurrent(&context), "current");
    say_yes("null_now", context == NULL);
    say_code("pop_empty", cu.cuCtxPopCurrent_v2(&context));
    say_code("set", cu.cuCtxSetCurrent(primary));
    say_code("pop_null_out", cu.cuCtxPopCurrent_v2(NULL));
    must(cu.cuCtxGetCurrent(&context), "current");
    say_yes("null_now", context == NULL);
}

/* What set does to a stack of two: replaces the top, or takes it off. */
static void stack_set_null(void)
{
    CUcontext context = NULL;
    CUcontext primary;

    must(cu.cuInit(0), "cuInit");
    must(cu.cuDevicePrimaryCtxRetain(&primary, 0), "retain");
    must(cu.cuCtxPushCurrent_v2(primary), "push");
    must(cu.cuCtxPushCurrent_v2(primary), "push");
    must(cu.cuCtxSetCurrent(NULL), "set");
    must(cu.cuCtxGetCurrent(&context), "current");
    say_yes("null_after_one", context == NULL);
    say_code("pop", cu.cuCtxPopCurrent_v2(&context));
    say_yes("popped_null", context == NULL);
    must(cu.cuCtxGetCurrent(&context), "current");
    say_yes("null_after_pop", context == NULL);
}

static void *current_of_thread(void *arg)
{
    cu.cuCtxGetCurrent(arg);
    return NULL;
}

static void stack_of_threads(void)
{
    CUcontext context = (CUcontext)0x10;
    pthread_t thread;

    use_device();
    pthread_create(&thread, NULL, current_of_thread, &context);
    pthread_join(thread, NULL);
    say_yes("new_thread_has_none", context == NULL);
}

const struct fact facts_context[] = {
    {"init.before", before_init},
    {"init.call", init},
    {"init.forked", forked},
    {"init.error_names", error_names},
    {"device.get", devices},
    {"device.peer_itself", device_peer_itself},
    {"device.attributes", device_attributes},
    {"device.names", device_names},
    {"device.memory", device_memory},
    {"context.none", no_context},
    {"context.none_vmm", no_context_vmm},
    {"context.none_use", no_context_use},
    {"context.primary", primary},
    {"context.primary_end", primary_end},
    {"context.primary_end_pinned", primary_end_pinned},
    {"context.primary_end_vmm", primary_end_vmm},
    {"context.stack", stack},
    {"context.stack_set_null", stack_set_null},
    {"context.stack_of_threads", stack_of_threads},
    {NULL, NULL},
};
