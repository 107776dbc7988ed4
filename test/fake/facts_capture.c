/*
 * What a capture of a graph is broken by.  Each call is made while a stream of its own is
 * captured, and then the capture is ended.
 */
#include <pthread.h>
#include <stdlib.h>

#include "fake/facts.h"

/* What the calls are about; nothing of it is in the capture. */
static struct {
    CUcontext context;
    CUstream captured;
    CUstream stream;
    CUevent event;
    CUdeviceptr device;
    void *pinned;
    void *pages; /* of the program's own */
} s;

static CUresult query(void)
{
    return cu.cuStreamQuery(s.stream);
}

static CUresult event_query(void)
{
    return cu.cuEventQuery(s.event);
}

static CUresult synchronize(void)
{
    return cu.cuStreamSynchronize(s.stream);
}

static CUresult event_synchronize(void)
{
    return cu.cuEventSynchronize(s.event);
}

static CUresult pinned(void)
{
    void *addr;

    return cu.cuMemHostAlloc(&addr, 4096, CU_MEMHOSTALLOC_PORTABLE);
}

static CUresult register_pages(void)
{
    return cu.cuMemHostRegister_v2(s.pages, 4096, CU_MEMHOSTREGISTER_PORTABLE);
}

static CUresult unregister_pages(void)
{
    return cu.cuMemHostUnregister(s.pages);
}

static CUresult copy(void)
{
    return cu.cuMemcpyAsync(s.device, (CUdeviceptr)s.pinned, 64, s.stream);
}

static CUresult pageable_in(void)
{
    return cu.cuMemcpyAsync(s.device, (CUdeviceptr)s.pages, 64, s.stream);
}

static CUresult pageable_out(void)
{
    return cu.cuMemcpyAsync((CUdeviceptr)s.pages, s.device, 64, s.stream);
}

static CUresult fill(void)
{
    return cu.cuMemsetD8Async(s.device, 1, 64, s.stream);
}

static CUresult record(void)
{
    return cu.cuEventRecord(s.event, s.stream);
}

static CUresult wait_event(void)
{
    return cu.cuStreamWaitEvent(s.stream, s.event, CU_EVENT_WAIT_DEFAULT);
}

static CUresult stream_make(void)
{
    CUstream stream;

    return cu.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0);
}

static CUresult event_make(void)
{
    CUevent event;

    return cu.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING);
}

static CUresult stream_end(void)
{
    return cu.cuStreamDestroy_v2(make_stream(CU_STREAM_NON_BLOCKING));
}

static CUresult event_end(void)
{
    return cu.cuEventDestroy_v2(make_event(CU_EVENT_DISABLE_TIMING));
}

static CUresult context(void)
{
    CUcontext same;

    must(cu.cuDevicePrimaryCtxRetain(&same, 0), "cuDevicePrimaryCtxRetain");
    return cu.cuDevicePrimaryCtxRelease_v2(0);
}

static CUresult attribute(void)
{
    CUmemorytype type;

    return cu.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                    (CUdeviceptr)s.pinned);
}

/* Exported, imported, and known by its address. */
static CUresult share(void)
{
    CUmemGenericAllocationHandle handle = make_memory(CHUNK);
    CUmemGenericAllocationHandle other;
    int fd;

    must(cu.cuMemExportToShareableHandle(&fd, handle,
                                         CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
         "export");
    must(cu.cuMemImportFromShareableHandle(&other, (void *)(intptr_t)fd,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
         "import");
    return cu.cuMemRetainAllocationHandle(&other, (void *)s.device);
}

/* Memory from nothing to nothing. */
static CUresult memory(void)
{
    CUdeviceptr addr = reserve(CHUNK);
    CUmemGenericAllocationHandle handle = make_memory(CHUNK);

    map(addr, CHUNK, handle);
    must(set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READWRITE), "access");
    must(cu.cuMemUnmap(addr, CHUNK), "cuMemUnmap");
    must(cu.cuMemRelease(handle), "cuMemRelease");
    return cu.cuMemAddressFree(addr, CHUNK);
}

static CUresult free_size(void)
{
    size_t left, total;

    return cu.cuMemGetInfo_v2(&left, &total);
}

static const struct {
    const char *name;
    CUresult (*call)(void);
} calls[] = {
    {"query", query},
    {"event_query", event_query},
    {"synchronize", synchronize},
    {"event_synchronize", event_synchronize},
    {"pinned", pinned},
    {"register", register_pages},
    {"unregister", unregister_pages},
    {"copy", copy},
    {"pageable_in", pageable_in},
    {"pageable_out", pageable_out},
    {"fill", fill},
    {"record", record},
    {"wait", wait_event},
    {"stream", stream_make},
    {"stream_end", stream_end},
    {"event", event_make},
    {"event_end", event_end},
    {"context", context},
    {"attribute", attribute},
    {"share", share},
    {"memory", memory},
    {"free_size", free_size},
};

struct job {
    CUresult (*call)(void);
    CUstreamCaptureMode mode; /* of the thread that calls */
    CUresult rc;
};

static void *job_main(void *arg)
{
    struct job *job = arg;
    CUstreamCaptureMode mode = job->mode;

    must(cu.cuCtxSetCurrent(s.context), "cuCtxSetCurrent");
    must(cu.cuThreadExchangeStreamCaptureMode(&mode), "mode");
    job->rc = job->call();
    must(cu.cuThreadExchangeStreamCaptureMode(&mode), "mode");
    return NULL;
}

static void tell(CUstreamCaptureMode capture, CUstreamCaptureMode mode, bool is_other)
{
    use_device();
    must(cu.cuCtxGetCurrent(&s.context), "cuCtxGetCurrent");
    s.captured = make_stream(CU_STREAM_NON_BLOCKING);
    s.stream = make_stream(CU_STREAM_NON_BLOCKING);
    s.event = make_event(CU_EVENT_DISABLE_TIMING);
    s.device = make_mapped(CHUNK);
    s.pinned = make_pinned(4096);
    s.pages = aligned_alloc(4096, 4096);
    must(cu.cuEventRecord(s.event, s.stream), "cuEventRecord");
    must(cu.cuEventSynchronize(s.event), "cuEventSynchronize");
    for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
        struct job job = {calls[i].call, mode, CUDA_SUCCESS};
        pthread_t thread;
        CUgraph graph;

        /* So that there is something to unregister. */
        if (calls[i].call == unregister_pages)
            cu.cuMemHostRegister_v2(s.pages, 4096, CU_MEMHOSTREGISTER_PORTABLE);
        must(cu.cuStreamBeginCapture_v2(s.captured, capture), "begin");
        if (is_other && !pthread_create(&thread, NULL, job_main, &job))
            pthread_join(thread, NULL);
        else
            job_main(&job);
        say_code(calls[i].name, job.rc);
        say_code("end", cu.cuStreamEndCapture(s.captured, &graph));
        must(cu.cuStreamSynchronize(s.stream), "cuStreamSynchronize");
    }
}

static void global_other(void)
{
    tell(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true);
}

static void global_other_relaxed(void)
{
    tell(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, true);
}

static void global_own(void)
{
    tell(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false);
}

static void global_own_relaxed(void)
{
    tell(CU_STREAM_CAPTURE_MODE_GLOBAL, CU_STREAM_CAPTURE_MODE_RELAXED, false);
}

static void thread_other(void)
{
    tell(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, true);
}

static void thread_own(void)
{
    tell(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL, CU_STREAM_CAPTURE_MODE_GLOBAL, false);
}

const struct fact facts_capture[] = {
    {"capture.other_thread", global_other},
    {"capture.other_thread_relaxed", global_other_relaxed},
    {"capture.own_thread", global_own},
    {"capture.own_thread_relaxed", global_own_relaxed},
    {"capture.local_other_thread", thread_other},
    {"capture.local_own_thread", thread_own},
    {NULL, NULL},
};
