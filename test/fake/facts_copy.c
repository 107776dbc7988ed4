/* Facts about copies, fills and values. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake/facts.h"

static const CUmemAccess_flags readwrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

/* Says what queuing gave, and, where that went well, what waiting gives. */
static void say_work(const char *key, CUresult rc, CUstream stream)
{
    say_code(key, rc);
    if (rc == CUDA_SUCCESS)
        say_code("then", cu.cuStreamSynchronize(stream));
}

static unsigned char byte_at(CUdeviceptr addr)
{
    unsigned char *pinned = make_pinned(64);

    must(cu.cuMemcpyDtoHAsync_v2(pinned, addr, 1, NULL), "copy");
    must(cu.cuStreamSynchronize(NULL), "synchronize");
    return pinned[0];
}

static void all_ways(void)
{
    char text[64] = "bytes";
    char back[64] = "";
    CUdeviceptr addr;
    CUstream stream;

    use_device();
    addr = make_mapped(CHUNK);
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    say_work("to_device", cu.cuMemcpyHtoDAsync_v2(addr, text, 64, stream), stream);
    say_work("device", cu.cuMemcpyDtoDAsync_v2(addr + 4096, addr, 64, stream), stream);
    say_work("to_host", cu.cuMemcpyDtoHAsync_v2(back, addr + 4096, 64, stream), stream);
    say_yes("same", !memcmp(text, back, 64));
    memset(back, 0, 64);
    say_work("any", cu.cuMemcpyAsync((CUdeviceptr)back, addr, 64, stream), stream);
    say_yes("same", !memcmp(text, back, 64));
    memset(back, 0, 64);
    say_work("host_to_host",
             cu.cuMemcpyAsync((CUdeviceptr)back, (CUdeviceptr)text, 64, stream), stream);
    say_yes("same", !memcmp(text, back, 64));
    say_work("wrong_way", cu.cuMemcpyHtoDAsync_v2((CUdeviceptr)back, text, 64, stream),
             stream);
    say_work("device_as_host", cu.cuMemcpyHtoDAsync_v2(addr, (void *)addr, 64, stream),
             stream);
}

/* Both sides in one context: more takes a second device. */
static void peer(void)
{
    CUcontext context;
    CUdeviceptr addr;
    void *pinned;

    use_device();
    must(cu.cuCtxGetCurrent(&context), "current");
    addr = make_mapped(CHUNK);
    pinned = make_pinned(4096);
    must(cu.cuMemsetD8Async(addr, 8, 16, NULL), "fill");
    say_work("good", cu.cuMemcpyPeerAsync(addr + 64, context, addr, context, 16, NULL),
             NULL);
    say_number("byte", byte_at(addr + 64));
    say_work("pinned",
             cu.cuMemcpyPeerAsync(addr, context, (CUdeviceptr)pinned, context, 16, NULL),
             NULL);
    say_code("hole",
             cu.cuMemcpyPeerAsync(reserve(CHUNK), context, addr, context, 16, NULL));
}

static void nothing(void)
{
    CUdeviceptr addr;
    CUdeviceptr hole;
    char text[64];

    use_device();
    addr = make_mapped(CHUNK);
    hole = reserve(CHUNK);
    say_code("good", cu.cuMemcpyHtoDAsync_v2(addr, text, 0, NULL));
    say_code("null", cu.cuMemcpyHtoDAsync_v2(0, NULL, 0, NULL));
    say_code("hole", cu.cuMemcpyHtoDAsync_v2(hole, text, 0, NULL));
    say_code("fill", cu.cuMemsetD8Async(addr, 0, 0, NULL));
    say_code("fill_hole", cu.cuMemsetD8Async(hole, 0, 0, NULL));
    say_code("null_host", cu.cuMemcpyHtoDAsync_v2(addr, NULL, 16, NULL));
    say_code("null_device", cu.cuMemcpyHtoDAsync_v2(0, text, 16, NULL));
    say_code("bytes", cu.cuStreamSynchronize(NULL));
}

static void across(void)
{
    unsigned char *pinned;
    CUdeviceptr addr;

    use_device();
    addr = reserve(3 * CHUNK);
    map(addr, CHUNK, make_memory(CHUNK));
    map(addr + CHUNK, CHUNK, make_memory(CHUNK));
    must(set_access(addr, 2 * CHUNK, readwrite), "access");
    pinned = make_pinned(4 * CHUNK);
    memset(pinned, 5, 4 * CHUNK);
    say_work("two", cu.cuMemcpyHtoDAsync_v2(addr, pinned, 2 * CHUNK, NULL), NULL);
    say_number("byte", byte_at(addr + CHUNK));
    say_work("fill_two", cu.cuMemsetD8Async(addr, 6, 2 * CHUNK, NULL), NULL);
    say_number("byte", byte_at(addr + CHUNK));
    say_work("into_hole", cu.cuMemcpyHtoDAsync_v2(addr, pinned, 2 * CHUNK + 16, NULL),
             NULL);
}

/* From one handle into the next, on a stream, as a thread without a context does it. */
static void across_without_context(void)
{
    CUcontext context;
    CUdeviceptr addr;
    CUdeviceptr other;
    CUstream stream;
    void *pinned;

    use_device();
    must(cu.cuCtxGetCurrent(&context), "cuCtxGetCurrent");
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    addr = reserve(2 * CHUNK);
    map(addr, CHUNK, make_memory(CHUNK));
    map(addr + CHUNK, CHUNK, make_memory(CHUNK));
    must(set_access(addr, 2 * CHUNK, readwrite), "access");
    other = make_mapped(2 * CHUNK);
    pinned = make_pinned(2 * CHUNK);
    say_code("peer",
             cu.cuMemcpyPeerAsync(addr, context, other, context, 2 * CHUNK, stream));
    must(cu.cuCtxSetCurrent(NULL), "cuCtxSetCurrent");
    say_code("one", cu.cuMemcpyAsync(addr, other, CHUNK, stream));
    say_code("to", cu.cuMemcpyAsync(addr, other, 2 * CHUNK, stream));
    say_code("from", cu.cuMemcpyAsync(other, addr, 2 * CHUNK, stream));
    say_code("few_bytes", cu.cuMemcpyAsync(other, addr + CHUNK - 64, 128, stream));
    say_code("host", cu.cuMemcpyAsync((CUdeviceptr)pinned, addr, 2 * CHUNK, stream));
    say_code("to_device", cu.cuMemcpyHtoDAsync_v2(addr, pinned, 2 * CHUNK, stream));
    say_code("to_host", cu.cuMemcpyDtoHAsync_v2(pinned, addr, 2 * CHUNK, stream));
    say_code("peer",
             cu.cuMemcpyPeerAsync(addr, context, other, context, 2 * CHUNK, stream));
    say_code("fill", cu.cuMemsetD8Async(addr, 1, 2 * CHUNK, stream));
    say_code("synchronize", cu.cuStreamSynchronize(stream));
}

static void across_fill(void)
{
    CUdeviceptr addr;

    use_device();
    addr = reserve(2 * CHUNK);
    map(addr, CHUNK, make_memory(CHUNK));
    must(set_access(addr, CHUNK, readwrite), "access");
    say_work("into_hole", cu.cuMemsetD8Async(addr, 6, CHUNK + 16, NULL), NULL);
}

static void to_hole(void)
{
    unsigned char *pinned;
    CUdeviceptr hole;

    use_device();
    hole = reserve(CHUNK);
    pinned = make_pinned(4096);
    say_work("write", cu.cuMemcpyHtoDAsync_v2(hole, pinned, 16, NULL), NULL);
}

static void from_hole(void)
{
    unsigned char *pinned;
    CUdeviceptr hole;

    use_device();
    hole = reserve(CHUNK);
    pinned = make_pinned(4096);
    say_work("read", cu.cuMemcpyDtoHAsync_v2(pinned, hole, 16, NULL), NULL);
}

static void fill_hole(void)
{
    CUdeviceptr hole;

    use_device();
    hole = reserve(CHUNK);
    say_work("fill", cu.cuMemsetD8Async(hole, 1, 16, NULL), NULL);
}

static void without_right(void)
{
    unsigned char *pinned;
    CUdeviceptr addr;

    use_device();
    addr = reserve(CHUNK);
    map(addr, CHUNK, make_memory(CHUNK));
    pinned = make_pinned(4096);
    say_work("write", cu.cuMemcpyHtoDAsync_v2(addr, pinned, 16, NULL), NULL);
}

static void read_only_read(void)
{
    unsigned char *pinned;
    CUdeviceptr addr;

    use_device();
    addr = make_mapped(CHUNK);
    must(cu.cuMemsetD8Async(addr, 9, 16, NULL), "fill");
    must(cu.cuStreamSynchronize(NULL), "synchronize");
    say_code("set", set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ));
    pinned = make_pinned(4096);
    say_work("read", cu.cuMemcpyDtoHAsync_v2(pinned, addr, 16, NULL), NULL);
    say_number("byte", pinned[0]);
}

static void read_only_write(void)
{
    unsigned char *pinned;
    CUdeviceptr addr;

    use_device();
    addr = make_mapped(CHUNK);
    must(set_access(addr, CHUNK, CU_MEM_ACCESS_FLAGS_PROT_READ), "read");
    pinned = make_pinned(4096);
    say_work("write", cu.cuMemcpyHtoDAsync_v2(addr, pinned, 16, NULL), NULL);
}

/* Two reservations side by side. */
static void across_reservations(void)
{
    CUdeviceptr first;
    CUdeviceptr second = 0;

    use_device();
    first = reserve(2 * CHUNK);
    must(cu.cuMemAddressFree(first, 2 * CHUNK), "free");
    must(cu.cuMemAddressReserve(&first, CHUNK, 0, first, 0), "first");
    must(cu.cuMemAddressReserve(&second, CHUNK, 0, first + CHUNK, 0), "second");
    map(first, CHUNK, make_memory(CHUNK));
    map(second, CHUNK, make_memory(CHUNK));
    say_yes("neighbours", second == first + CHUNK);
    say_code("access", set_access(first, 2 * CHUNK, readwrite));
    must(set_access(first, CHUNK, readwrite), "access");
    must(set_access(second, CHUNK, readwrite), "access");
    say_work("fill", cu.cuMemsetD8Async(first, 6, 2 * CHUNK, NULL), NULL);
    say_work("copy", cu.cuMemcpyAsync(make_mapped(2 * CHUNK), first, 2 * CHUNK, NULL),
             NULL);
    say_code("unmap", cu.cuMemUnmap(first, 2 * CHUNK));
}

/* Memory taken away while a queued copy needs it. */
struct unmap_job {
    CUdeviceptr addr;
    CUresult rc;
};

static void unmap_it(void *arg)
{
    struct unmap_job *job = arg;

    job->rc = cu.cuMemUnmap(job->addr, CHUNK);
}

static void unmap_under_copy(void)
{
    struct unmap_job job = {.rc = CUDA_ERROR_UNKNOWN};
    CUmemAllocationProp prop = device_prop();
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr addr = 0;
    struct gate gate;
    CUstream stream;
    CUevent event;
    void *pinned;
    void *other = NULL;

    use_device();
    job.addr = make_mapped(CHUNK);
    pinned = make_pinned(4096);
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    event = make_event(CU_EVENT_DEFAULT);
    hold(&gate, stream);
    must(cu.cuMemcpyHtoDAsync_v2(job.addr, pinned, 16, stream), "copy");
    must(cu.cuEventRecord(event, stream), "record");
    say_yes("unmap_returns_at_once", returns_at_once(unmap_it, &job, &gate));
    say_code("unmap", job.rc);
    say_code("synchronize", cu.cuStreamSynchronize(stream));
    say_code("query", cu.cuStreamQuery(stream));
    say_code("event_query", cu.cuEventQuery(event));
    say_code("context", cu.cuCtxSynchronize());
    say_code("copy", cu.cuMemcpyHtoDAsync_v2(job.addr, pinned, 16, stream));
    say_code("create", cu.cuMemCreate(&handle, CHUNK, &prop, 0));
    say_code("reserve", cu.cuMemAddressReserve(&addr, CHUNK, 0, 0, 0));
    say_code("map", cu.cuMemMap(addr, CHUNK, 0, handle, 0));
    say_code("access", set_access(addr, CHUNK, readwrite));
    say_code("unmap", cu.cuMemUnmap(addr, CHUNK));
    say_code("release", cu.cuMemRelease(handle));
    say_code("free", cu.cuMemAddressFree(addr, CHUNK));
    say_code("pinned", cu.cuMemHostAlloc(&other, 4096, 0));
    say_code("free_pinned", cu.cuMemFreeHost(pinned));
    say_code("event", cu.cuEventDestroy_v2(event));
    say_code("stream", cu.cuStreamDestroy_v2(stream));
    say_code("end", cu.cuDevicePrimaryCtxRelease_v2(0));
}

/* There is no new life for a device whose context broke. */
static void broken_and_again(void)
{
    struct unmap_job job = {.rc = CUDA_ERROR_UNKNOWN};
    struct gate gate;
    CUcontext context;
    CUstream stream;

    use_device();
    job.addr = make_mapped(CHUNK);
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    hold(&gate, stream);
    must(cu.cuMemsetD8Async(job.addr, 1, 16, stream), "fill");
    unmap_it(&job);
    let_go(&gate);
    say_yes("broken", cu.cuStreamSynchronize(stream) != CUDA_SUCCESS);
    say_code("release", cu.cuDevicePrimaryCtxRelease_v2(0));
    say_code("retain", cu.cuDevicePrimaryCtxRetain(&context, 0));
}

static void free_it(void *arg)
{
    struct unmap_job *job = arg;

    job->rc = cu.cuMemFreeHost((void *)job->addr);
}

static void unregister_it(void *arg)
{
    struct unmap_job *job = arg;

    job->rc = cu.cuMemHostUnregister((void *)job->addr);
}

static void end_under_copy(void *pinned, void (*fn)(void *arg))
{
    struct unmap_job job = {.addr = (CUdeviceptr)pinned, .rc = CUDA_ERROR_UNKNOWN};
    struct gate gate;
    CUdeviceptr addr;
    CUstream stream;

    addr = make_mapped(CHUNK);
    stream = make_stream(CU_STREAM_NON_BLOCKING);
    hold(&gate, stream);
    must(cu.cuMemcpyHtoDAsync_v2(addr, pinned, 16, stream), "copy");
    say_yes("returns_while_held", returns_at_once(fn, &job, &gate));
    say_code("code", job.rc);
    say_code("synchronize", cu.cuStreamSynchronize(stream));
}

static void free_under_copy(void)
{
    use_device();
    end_under_copy(make_pinned(4096), free_it);
}

static void unregister_under_copy(void)
{
    unsigned char *host = aligned_alloc(4096, 4096);

    use_device();
    must(cu.cuMemHostRegister_v2(host, 4096, 0), "register");
    end_under_copy(host, unregister_it);
}

/* When the bytes of a program's memory are read: at the call, or when the copy runs. */
struct copy_job {
    CUdeviceptr addr;
    unsigned char *host;
    size_t size;
    CUstream stream;
    CUresult rc;
};

static void copy_to_device(void *arg)
{
    struct copy_job *job = arg;

    job->rc = cu.cuMemcpyHtoDAsync_v2(job->addr, job->host, job->size, job->stream);
}

static void copy_to_host(void *arg)
{
    struct copy_job *job = arg;

    job->rc = cu.cuMemcpyDtoHAsync_v2(job->host, job->addr, job->size, job->stream);
}

static void late_read(unsigned char *host, size_t size)
{
    struct copy_job job = {.host = host, .size = size};
    struct gate gate;
    bool at_once;

    job.addr = make_mapped(64 * MB);
    job.stream = make_stream(CU_STREAM_NON_BLOCKING);
    memset(host, 1, size);
    hold(&gate, job.stream);
    copy_to_device(&job);
    memset(host, 2, size);
    let_go(&gate);
    must(job.rc, "copy");
    must(cu.cuStreamSynchronize(job.stream), "synchronize");
    at_once = byte_at(job.addr) == 1;
    say_yes("bytes_taken_at_the_call", at_once);
}

static void late_pinned(void)
{
    use_device();
    late_read(make_pinned(4096), 4096);
}

static void late_registered(void)
{
    unsigned char *host = aligned_alloc(4096, 4096);

    use_device();
    must(cu.cuMemHostRegister_v2(host, 4096, CU_MEMHOSTREGISTER_PORTABLE), "register");
    late_read(host, 4096);
}

static void late_pageable(void)
{
    use_device();
    late_read(calloc(1, 4096), 4096);
}

static void held(void (*fn)(void *arg), unsigned char *host, size_t size)
{
    struct copy_job job = {.host = host, .size = size};
    struct gate gate;

    memset(host, 1, size);
    job.addr = make_mapped(64 * MB);
    job.stream = make_stream(CU_STREAM_NON_BLOCKING);
    hold(&gate, job.stream);
    say_yes("returns_while_held", returns_at_once(fn, &job, &gate));
    say_code("code", job.rc);
    say_code("synchronize", cu.cuStreamSynchronize(job.stream));
}

static void held_pinned(void)
{
    use_device();
    held(copy_to_host, make_pinned(4 * MB), 4 * MB);
}

static void held_pageable_in(void)
{
    use_device();
    held(copy_to_device, calloc(1, 4 * MB), 4 * MB);
}

static void held_pageable_in_64_kb(void)
{
    use_device();
    held(copy_to_device, calloc(1, 64 * 1024), 64 * 1024);
}

static void held_pageable_out(void)
{
    use_device();
    held(copy_to_host, calloc(1, 4 * MB), 4 * MB);
}

static void held_pageable_out_small(void)
{
    use_device();
    held(copy_to_host, calloc(1, 4096), 4096);
}

static void fills(void)
{
    CUdeviceptr addr;
    char text[64];
    void *pinned;

    use_device();
    addr = make_mapped(CHUNK);
    pinned = make_pinned(4096);
    say_work("bytes_odd", cu.cuMemsetD8Async(addr + 3, 1, 5, NULL), NULL);
    say_work("words", cu.cuMemsetD32Async(addr + 4, 0x01020304, 5, NULL), NULL);
    say_number("byte", byte_at(addr + 4));
    say_code("words_odd", cu.cuMemsetD32Async(addr + 2, 1, 5, NULL));
    say_work("pinned", cu.cuMemsetD8Async((CUdeviceptr)pinned, 3, 64, NULL), NULL);
    say_number("byte", *(unsigned char *)pinned);
    say_code("program", cu.cuMemsetD8Async((CUdeviceptr)text, 3, 64, NULL));
    say_code("null", cu.cuMemsetD8Async(0, 3, 64, NULL));
}

const struct fact facts_copy[] = {
    {"copy.all_ways", all_ways},
    {"copy.peer", peer},
    {"copy.nothing", nothing},
    {"copy.across", across},
    {"copy.across_without_context", across_without_context},
    {"copy.across_reservations", across_reservations},
    {"copy.across_fill", across_fill},
    {"copy.to_hole", to_hole},
    {"copy.from_hole", from_hole},
    {"copy.fill_hole", fill_hole},
    {"copy.without_right", without_right},
    {"copy.read_only_read", read_only_read},
    {"copy.read_only_write", read_only_write},
    {"copy.unmap_under", unmap_under_copy},
    {"copy.broken_and_again", broken_and_again},
    {"copy.free_under", free_under_copy},
    {"copy.unregister_under", unregister_under_copy},
    {"copy.late_pinned", late_pinned},
    {"copy.late_registered", late_registered},
    {"copy.late_pageable", late_pageable},
    {"copy.held_pinned", held_pinned},
    {"copy.held_pageable_in", held_pageable_in},
    {"copy.held_pageable_in_64_kb", held_pageable_in_64_kb},
    {"copy.held_pageable_out", held_pageable_out},
    {"copy.held_pageable_out_small", held_pageable_out_small},
    {"copy.fill", fills},
    {NULL, NULL},
};
