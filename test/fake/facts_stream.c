/* Facts about streams, host functions and values. */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdint.h>

#include "fake/facts.h"

static void priorities(void)
{
    CUstream stream;
    int least = 77;
    int greatest = 77;

    use_device();
    say_code("range", cu.cuCtxGetStreamPriorityRange(&least, &greatest));
    say_number("least", least);
    say_number("greatest", greatest);
    say_code("null", cu.cuCtxGetStreamPriorityRange(NULL, NULL));
    say_code("too_high", cu.cuStreamCreateWithPriority(&stream, 0, -1000));
    say_code("too_low", cu.cuStreamCreateWithPriority(&stream, 0, 1000));
    say_code("flags", cu.cuStreamCreateWithPriority(&stream, 0x100, 0));
    say_code("null_out", cu.cuStreamCreateWithPriority(NULL, 0, 0));
}

static void querying(void)
{
    struct gate gate;
    CUstream stream;

    use_device();
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    say_code("idle", cu.cuStreamQuery(stream));
    hold(&gate, stream);
    say_code("held", cu.cuStreamQuery(stream));
    let_go(&gate);
    say_code("synchronize", cu.cuStreamSynchronize(stream));
    say_code("after", cu.cuStreamQuery(stream));
    say_code("null", cu.cuStreamQuery(NULL));
    say_code("legacy", cu.cuStreamQuery(CU_STREAM_LEGACY));
    say_code("destroy_null", cu.cuStreamDestroy_v2(NULL));
    say_code("destroy_legacy", cu.cuStreamDestroy_v2(CU_STREAM_LEGACY));
}

static void synchronize_event(void *arg)
{
    cu.cuEventSynchronize(arg);
}

/* Whether work on one stream waits for work on another that is held. */
static void say_waits(const char *key, CUstream held, CUstream later)
{
    CUevent event = make_event(CU_EVENT_DEFAULT);
    struct gate gate;

    hold(&gate, held);
    must(cu.cuEventRecord(event, later), "record");
    say_yes(key, !returns_at_once(synchronize_event, event, &gate));
    must(cu.cuCtxSynchronize(), "synchronize");
}

static void legacy(void)
{
    CUstream blocking;
    CUstream apart;

    use_device();
    blocking = make_stream(CU_STREAM_DEFAULT);
    apart = make_stream(CU_STREAM_NON_BLOCKING);
    say_waits("null_after_blocking", blocking, NULL);
    say_waits("null_after_non_blocking", apart, NULL);
    say_waits("blocking_after_null", NULL, blocking);
    say_waits("non_blocking_after_null", NULL, apart);
    say_waits("blocking_after_non_blocking", apart, blocking);
}

static void destroy_held(void)
{
    struct gate gate;
    CUstream stream;
    CUevent event;

    use_device();
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    event = make_event(CU_EVENT_DEFAULT);
    hold(&gate, stream);
    must(cu.cuEventRecord(event, stream), "record");
    say_code("destroy", cu.cuStreamDestroy_v2(stream));
    say_code("event", cu.cuEventQuery(event));
    let_go(&gate);
    say_code("synchronize", cu.cuEventSynchronize(event));
    say_code("event", cu.cuEventQuery(event));
}

static void wait_event(void)
{
    CUevent never = NULL;
    struct gate first;
    struct gate second;
    CUevent event;
    CUstream a;
    CUstream b;

    use_device();
    a = make_stream(CU_STREAM_NON_BLOCKING);
    b = make_stream(CU_STREAM_NON_BLOCKING);
    event = make_event(CU_EVENT_DEFAULT);
    never = make_event(CU_EVENT_DEFAULT);
    say_code("never_recorded", cu.cuStreamWaitEvent(b, never, 0));
    say_code("no_wait", cu.cuStreamSynchronize(b));
    say_code("flags", cu.cuStreamWaitEvent(b, never, 0x100));
    say_code("null", cu.cuStreamWaitEvent(b, NULL, 0));
    hold(&first, a);
    must(cu.cuEventRecord(event, a), "record");
    must(cu.cuStreamWaitEvent(b, event, 0), "wait");
    say_code("waits", cu.cuStreamQuery(b));
    /* Recorded again: the wait is for what was recorded before. */
    let_go(&first);
    hold(&second, a);
    must(cu.cuEventRecord(event, a), "record");
    say_code("old_record", cu.cuStreamSynchronize(b));
    say_code("new_record", cu.cuEventQuery(event));
    let_go(&second);
    say_code("end", cu.cuCtxSynchronize());
}

static struct {
    CUdeviceptr addr;
    CUstream stream;
    CUevent event;
    void *pinned;
    atomic_int turn;
    sem_t done;
} shared;

/* Calls of the driver from within a host function. */
static void call_driver(void *arg)
{
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle;
    CUcontext context = (CUcontext)1;
    CUdeviceptr addr;
    const char *name;
    CUstream stream;
    CUevent event;
    size_t a;
    size_t b;
    int count;

    say_code("name", cu.cuGetErrorName(CUDA_SUCCESS, &name));
    say_code("version", cu.cuDriverGetVersion(&count));
    say_code("count", cu.cuDeviceGetCount(&count));
    say_code("current", cu.cuCtxGetCurrent(&context));
    say_yes("is_null", context == NULL);
    say_code("set_null", cu.cuCtxSetCurrent(NULL));
    say_code("info", cu.cuMemGetInfo_v2(&a, &b));
    say_code("stream", cu.cuStreamCreateWithPriority(&stream, 0, 0));
    say_code("query", cu.cuStreamQuery(shared.stream));
    say_code("event", cu.cuEventCreate(&event, 0));
    say_code("event_query", cu.cuEventQuery(shared.event));
    say_code("record", cu.cuEventRecord(shared.event, shared.stream));
    say_code("copy",
             cu.cuMemcpyHtoDAsync_v2(shared.addr, shared.pinned, 16, shared.stream));
    say_code("reserve", cu.cuMemAddressReserve(&addr, CHUNK, 0, 0, 0));
    say_code("create", cu.cuMemCreate(&handle, CHUNK, &prop, 0));
    say_code("free", cu.cuMemAddressFree(addr, CHUNK));
    say_code("pinned", cu.cuMemHostAlloc(&shared.pinned, 4096, 0));
    say_code("attribute", cu.cuPointerGetAttribute(
                              &count, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, shared.addr));
    sem_post(&shared.done);
}

static void do_nothing(void *arg)
{
}

/* More of them; the driver hangs in those that wait. */
static void call_driver_more(void *arg)
{
    CUcontext context;

    say_code("wait", cu.cuStreamWaitEvent(shared.stream, shared.event, 0));
    say_code("launch", cu.cuLaunchHostFunc(shared.stream, do_nothing, NULL));
    say_code("fill", cu.cuMemsetD8Async(shared.addr, 1, 16, shared.stream));
    say_code("write", cu.cuStreamWriteValue32_v2(shared.stream, shared.addr, 1, 0));
    say_code("unmap", cu.cuMemUnmap(shared.addr, CHUNK));
    say_code("access", set_access(shared.addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ));
    say_code("free_host", cu.cuMemFreeHost(shared.pinned));
    say_code("register", cu.cuMemHostRegister_v2(&shared, sizeof(shared), 0));
    say_code("context", cu.cuCtxSynchronize());
    say_code("pop", cu.cuCtxPopCurrent_v2(&context));
    say_code("retain", cu.cuDevicePrimaryCtxRetain(&context, 0));
    sem_post(&shared.done);
}

static void host_function_calls_of(CUhostFn fn)
{
    CUstream stream;

    use_device();
    shared.addr = make_mapped(CHUNK);
    shared.pinned = make_pinned(4096);
    shared.event = make_event(CU_EVENT_DEFAULT);
    shared.stream = make_stream(CU_STREAM_NON_BLOCKING);
    sem_init(&shared.done, 0, 0);
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    must(cu.cuLaunchHostFunc(stream, fn, NULL), "launch");
    sem_wait(&shared.done);
    say_code("synchronize", cu.cuStreamSynchronize(stream));
}

static void host_function_calls(void)
{
    host_function_calls_of(call_driver);
}

static void host_function_calls_more(void)
{
    host_function_calls_of(call_driver_more);
}

static void take_turn(void *arg)
{
    *(int *)arg = atomic_fetch_add(&shared.turn, 1) + 1;
}

static void host_function(void)
{
    CUstream stream;
    int turns[3] = {0};

    use_device();
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    say_code("null", cu.cuLaunchHostFunc(stream, NULL, NULL));
    for (int i = 0; i < 3; i++)
        must(cu.cuLaunchHostFunc(stream, take_turn, &turns[i]), "launch");
    say_code("synchronize", cu.cuStreamSynchronize(stream));
    say_yes("in_order", turns[0] == 1 && turns[1] == 2 && turns[2] == 3);
    say_code("on_null", cu.cuLaunchHostFunc(NULL, take_turn, &turns[0]));
    say_code("synchronize", cu.cuStreamSynchronize(NULL));
    say_number("turn", turns[0]);
}

static void synchronize(void *arg)
{
    cu.cuStreamSynchronize(arg);
}

/* A second stream's host function while the first stream's does not return. */
static void host_function_beside(void)
{
    struct gate gate;
    CUstream first;
    CUstream second;
    int turn;

    use_device();
    first = make_stream(CU_STREAM_NON_BLOCKING);
    second = make_stream(CU_STREAM_NON_BLOCKING);
    hold(&gate, first);
    must(cu.cuLaunchHostFunc(second, take_turn, &turn), "launch");
    say_yes("runs_while_other_is_held", returns_at_once(synchronize, second, &gate));
    say_code("end", cu.cuCtxSynchronize());
}

static void copy_beside(void)
{
    struct gate gate;
    CUdeviceptr addr;
    CUstream first;
    CUstream second;

    use_device();
    addr = make_mapped(CHUNK);
    first = make_stream(CU_STREAM_NON_BLOCKING);
    second = make_stream(CU_STREAM_NON_BLOCKING);
    hold(&gate, first);
    must(cu.cuMemsetD8Async(addr, 1, CHUNK, second), "fill");
    say_yes("runs_while_other_is_held", returns_at_once(synchronize, second, &gate));
    say_code("end", cu.cuCtxSynchronize());
}

static void values(void)
{
    static uint32_t own;
    volatile uint32_t *word;
    CUdeviceptr addr;
    CUstream stream;

    use_device();
    addr = make_mapped(CHUNK);
    word = make_pinned(4096);
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    *word = 0;
    say_code("write", cu.cuStreamWriteValue32_v2(stream, (CUdeviceptr)word, 5, 0));
    must(cu.cuStreamSynchronize(stream), "synchronize");
    say_number("is", *word);
    say_code("write_device", cu.cuStreamWriteValue32_v2(stream, addr, 5, 0));
    say_code("write_odd", cu.cuStreamWriteValue32_v2(stream, addr + 2, 5, 0));
    say_code("write_program",
             cu.cuStreamWriteValue32_v2(stream, (CUdeviceptr)&own, 5, 0));
    say_code("write_null", cu.cuStreamWriteValue32_v2(stream, 0, 5, 0));
    say_code("write_flags", cu.cuStreamWriteValue32_v2(stream, addr, 5, 0x100));
    say_code("wait_true",
             cu.cuStreamWaitValue32_v2(stream, addr, 5, CU_STREAM_WAIT_VALUE_EQ));
    say_code("synchronize", cu.cuStreamSynchronize(stream));
    say_code("wait_flags", cu.cuStreamWaitValue32_v2(stream, addr, 5, 0x100));
    say_code("wait_odd", cu.cuStreamWaitValue32_v2(stream, addr + 2, 5, 0));
    say_code("wait", cu.cuStreamWaitValue32_v2(stream, (CUdeviceptr)word, 6,
                                               CU_STREAM_WAIT_VALUE_GEQ));
    say_code("query", cu.cuStreamQuery(stream));
    __atomic_store_n(word, 7, __ATOMIC_RELEASE);
    say_code("synchronize", cu.cuStreamSynchronize(stream));
}

static void write_to_hole(void)
{
    CUdeviceptr hole;
    CUresult rc;

    use_device();
    hole = reserve(CHUNK);
    rc = cu.cuStreamWriteValue32_v2(NULL, hole, 5, 0);
    say_code("write", rc);
    if (rc == CUDA_SUCCESS)
        say_code("then", cu.cuStreamSynchronize(NULL));
}

const struct fact facts_stream[] = {
    {"stream.priorities", priorities},
    {"stream.query", querying},
    {"stream.legacy", legacy},
    {"stream.destroy_held", destroy_held},
    {"stream.wait_event", wait_event},
    {"function.calls", host_function_calls},
    {"function.calls_more", host_function_calls_more},
    {"function.order", host_function},
    {"function.beside", host_function_beside},
    {"function.copy_beside", copy_beside},
    {"value.words", values},
    {"value.hole", write_to_hole},
    {NULL, NULL},
};
