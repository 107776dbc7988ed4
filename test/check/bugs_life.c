/* What is used, or given back, after it is gone. */
#include "bugs.h"

/* ---- double-free: the second call is refused, and the program does not look ---- */

MISTAKE void free_block(void *block)
{
    aclrtFree(block);
}

static void block_twice(bool is_fixed)
{
    void *block = block_open(1000);

    MUST(aclrtFree(block));
    if (!is_fixed)
        free_block(block);
}

MISTAKE void free_handle(aclrtDrvMemHandle handle)
{
    aclrtFreePhysical(handle);
}

static void handle_twice(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle handle;

    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    MUST(aclrtFreePhysical(handle));
    if (!is_fixed)
        free_handle(handle);
}

MISTAKE void unmap_it(void *va)
{
    aclrtUnmapMem(va);
}

static void unmapped_twice(bool is_fixed)
{
    struct chunk chunk = chunk_open();

    MUST(aclrtUnmapMem(chunk.va));
    if (!is_fixed)
        unmap_it(chunk.va);
    MUST(aclrtFreePhysical(chunk.handle));
    MUST(aclrtReleaseMemAddress(chunk.va));
}

MISTAKE void destroy_it(aclrtStream stream)
{
    aclrtDestroyStream(stream);
}

static void stream_twice(bool is_fixed)
{
    aclrtStream stream = stream_open();

    MUST(aclrtDestroyStream(stream));
    if (!is_fixed)
        destroy_it(stream);
}

MISTAKE void free_pinned(void *block)
{
    aclrtFreeHost(block);
}

static void pinned_twice(bool is_fixed)
{
    void *block = host_open(64);

    MUST(aclrtFreeHost(block));
    if (!is_fixed)
        free_pinned(block);
}

MISTAKE void release_it(void *va)
{
    aclrtReleaseMemAddress(va);
}

static void released_twice(bool is_fixed)
{
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    MUST(aclrtReleaseMemAddress(va));
    if (!is_fixed)
        release_it(va);
}

/* A freed address may be handed out again at once, and then the second free hits that. */
static void twice_with_another_between(bool is_fixed)
{
    void *first = block_open(1000);
    void *second;

    MUST(aclrtFree(first));
    second = block_open(1000);
    if (!is_fixed)
        free_block(first);
    MUST(aclrtFree(second));
}

/* ---- stale-handle ---- */

MISTAKE void synchronize_it(aclrtStream stream)
{
    aclrtSynchronizeStream(stream);
}

static void stream_that_is_gone(bool is_fixed)
{
    aclrtStream stream = stream_open();

    if (is_fixed)
        synchronize_it(stream);
    MUST(aclrtDestroyStream(stream));
    if (!is_fixed)
        synchronize_it(stream);
}

MISTAKE void fill_on_it(void *block, aclrtStream stream)
{
    aclrtMemsetAsync(block, 64, 1, 64, stream);
}

static void stream_of_a_fill_that_is_gone(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(64);

    if (is_fixed)
        fill_on_it(block, stream);
    MUST(aclrtDestroyStream(stream));
    if (!is_fixed)
        fill_on_it(block, stream);
    MUST(aclrtFree(block));
}

MISTAKE void set_context(aclrtContext context)
{
    aclrtSetCurrentContext(context);
}

static void context_that_is_gone(bool is_fixed)
{
    aclrtContext first;
    aclrtContext context;

    MUST(aclrtGetCurrentContext(&first));
    MUST(aclrtCreateContext(&context, 0));
    MUST(aclrtSetCurrentContext(first));
    if (is_fixed)
        set_context(context);
    MUST(aclrtSetCurrentContext(first));
    MUST(aclrtDestroyContext(context));
    if (!is_fixed)
        set_context(context);
}

MISTAKE void destroy_context(aclrtContext context)
{
    aclrtDestroyContext(context);
}

static void context_twice(bool is_fixed)
{
    aclrtContext first;
    aclrtContext context;

    MUST(aclrtGetCurrentContext(&first));
    MUST(aclrtCreateContext(&context, 0));
    MUST(aclrtSetCurrentContext(first));
    MUST(aclrtDestroyContext(context));
    if (!is_fixed)
        destroy_context(context);
}

MISTAKE void allocate_from_it(aclrtMemPool pool, aclrtStream stream)
{
    void *block;

    if (aclrtMemPoolMallocAsync(&block, 64, pool, stream) == ACL_SUCCESS)
        MUST(aclrtMemPoolFreeAsync(block, stream));
}

static void pool_that_is_gone(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtMemPool pool = pool_open(CHUNK);

    if (is_fixed)
        allocate_from_it(pool, stream);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemPoolDestroy(pool));
    if (!is_fixed)
        allocate_from_it(pool, stream);
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void reset_them(aclrtNotify *notifies, size_t n)
{
    aclrtNotifyBatchReset(notifies, n);
}

static void notify_that_is_gone(bool is_fixed)
{
    aclrtNotify notifies[2];

    for (int i = 0; i < 2; i++)
        MUST(aclrtCreateNotify(&notifies[i], 0));
    if (is_fixed)
        reset_them(notifies, 2);
    MUST(aclrtDestroyNotify(notifies[1]));
    if (!is_fixed)
        reset_them(notifies, 2);
    MUST(aclrtDestroyNotify(notifies[0]));
}

MISTAKE void prefetch_them(const void **ptrs, size_t n, aclrtStream stream)
{
    aclrtMemManagedLocation device = {.id = 0, .type = ACL_MEM_LOCATIONTYPE_DEVICE};
    size_t sizes[] = {CHUNK, CHUNK};
    size_t first = 0;

    aclrtMemManagedPrefetchBatchAsync(ptrs, sizes, n, &device, &first, 1, 0, stream);
}

static void managed_that_is_gone(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block[2];

    for (int i = 0; i < 2; i++)
        MUST(aclrtMemAllocManaged(&block[i], CHUNK, ACL_RT_MEM_ATTACH_GLOBAL));
    if (is_fixed)
        prefetch_them((const void **)block, 2, stream);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(block[1]));
    if (!is_fixed)
        prefetch_them((const void **)block, 2, stream);
    MUST(aclrtFree(block[0]));
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void record_it(aclrtEvent event, aclrtStream stream)
{
    aclrtRecordEvent(event, stream);
}

static void event_that_is_gone(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    if (is_fixed)
        record_it(event, stream);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyEvent(event));
    if (!is_fixed)
        record_it(event, stream);
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void map_it(void *va, aclrtDrvMemHandle handle)
{
    aclrtMapMem(va, CHUNK, 0, handle, 0);
}

static void handle_that_is_gone(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle handle;
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    if (is_fixed)
        map_it(va, handle);
    MUST(aclrtFreePhysical(handle));
    if (!is_fixed)
        map_it(va, handle);
    else
        MUST(aclrtUnmapMem(va));
    MUST(aclrtReleaseMemAddress(va));
}

/* A stream that the device's reset took with it. */
static void stream_of_a_reset_device(bool is_fixed)
{
    aclrtStream stream;

    MUST(aclrtSetDevice(1));
    stream = stream_open();
    if (is_fixed)
        MUST(aclrtDestroyStream(stream));
    else
        MUST(aclrtDestroyStreamForce(stream));
    MUST(aclrtResetDevice(1));
    MUST(aclrtSetDevice(0));
    if (!is_fixed)
        synchronize_it(stream);
    MUST(aclrtResetDevice(0));
}

/* ---- use-after-free ---- */

MISTAKE void read_it(const void *device)
{
    char bytes[16];

    aclrtMemcpy(bytes, sizeof bytes, device, sizeof bytes, ACL_MEMCPY_DEVICE_TO_HOST);
}

static void freed_block(bool is_fixed)
{
    void *block = block_open(4096);

    MUST(aclrtMemset(block, 4096, 1, 4096));
    if (is_fixed)
        read_it((char *)block + 100);
    MUST(aclrtFree(block));
    if (!is_fixed)
        read_it((char *)block + 100);
}

MISTAKE void fill_it(void *device, size_t size)
{
    aclrtMemset(device, size, 0, size);
}

static void unmapped_memory(bool is_fixed)
{
    struct chunk chunk = chunk_open();

    if (is_fixed)
        fill_it(chunk.va, CHUNK);
    MUST(aclrtUnmapMem(chunk.va));
    if (!is_fixed)
        fill_it(chunk.va, CHUNK);
    MUST(aclrtFreePhysical(chunk.handle));
    MUST(aclrtReleaseMemAddress(chunk.va));
}

/* Freed, and handed out again before the stale address is used. */
static void address_of_another_block(bool is_fixed)
{
    void *first = block_open(4096);
    void *second;

    if (is_fixed)
        fill_it(first, 4096);
    MUST(aclrtFree(first));
    second = block_open(4096);
    if (!is_fixed)
        fill_it(first, 4096);
    MUST(aclrtFree(second));
}

MISTAKE void copy_by_desc(void *desc, aclrtStream stream)
{
    MUST(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    MUST(aclrtSynchronizeStream(stream));
}

/* The address of a descriptor shows other memory by the time that it is used. */
static void address_of_other_memory(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    void *to = block_open(64);
    void *desc = block_open(64);
    aclrtStream stream = stream_open();
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle other;

    MUST(aclrtMallocPhysical(&other, CHUNK, &prop, 0));
    MUST(aclrtMemset(chunk.va, 64, 1, 64));
    MUST(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, chunk.va, to, 64,
                            NULL));
    MUST(aclrtUnmapMem(chunk.va));
    MUST(aclrtMapMem(chunk.va, CHUNK, 0, other, 0));
    if (is_fixed)
        MUST(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, chunk.va, to, 64,
                                NULL));
    copy_by_desc(desc, stream);
    MUST(aclrtFreePhysical(other));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(to));
    MUST(aclrtFree(desc));
    chunk_close(chunk);
}

/* ---- free-in-use ---- */

MISTAKE void free_early(void *block)
{
    MUST(aclrtFree(block));
}

static void block_of_queued_work(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(1000);

    MUST(aclrtMemsetAsync(block, 1000, 0, 1000, stream));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    free_early(block);
    MUST(aclrtDestroyStream(stream));
}

MISTAKE void unmap_early(void *va)
{
    MUST(aclrtUnmapMem(va));
}

static void mapping_of_queued_work(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct chunk chunk = chunk_open();
    struct gate gate;

    gate_hold(&gate, stream); /* the work has really not run yet */
    MUST(aclrtMemsetAsync(chunk.va, CHUNK, 0, CHUNK, stream));
    if (is_fixed) {
        gate_let(&gate);
        MUST(aclrtSynchronizeStream(stream));
    }
    unmap_early(chunk.va);
    gate_let(&gate);
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFreePhysical(chunk.handle));
    MUST(aclrtReleaseMemAddress(chunk.va));
}

/* The memory is used through both of its mappings; one is unmapped too early. */
static void mapping_with_an_alias(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct chunk chunk = chunk_open();
    void *alias;

    MUST(aclrtReserveMemAddress(&alias, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(alias, CHUNK, 0, chunk.handle, 0));
    MUST(aclrtMemsetAsync(alias, CHUNK, 0, CHUNK, stream));
    MUST(aclrtMemsetAsync(chunk.va, CHUNK, 0, CHUNK, stream));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    unmap_early(alias);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtReleaseMemAddress(alias));
    MUST(aclrtDestroyStream(stream));
    chunk_close(chunk);
}

MISTAKE void free_pinned_early(void *block)
{
    MUST(aclrtFreeHost(block));
}

static void pinned_source_of_a_copy(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(4096);
    void *host = host_open(4096);

    memset(host, 1, 4096);
    MUST(aclrtMemcpyAsync(block, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    free_pinned_early(host);
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(block));
}

MISTAKE void destroy_event_early(aclrtEvent event)
{
    MUST(aclrtDestroyEvent(event));
}

static void event_that_is_waited_for(bool is_fixed)
{
    aclrtStream waiter = stream_open();
    aclrtStream stream = stream_open();
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    MUST(aclrtStreamWaitEvent(waiter, event));
    if (is_fixed) {
        MUST(aclrtRecordEvent(event, stream));
        MUST(aclrtSynchronizeStream(waiter));
    }
    destroy_event_early(event);
    aclrtSynchronizeStream(waiter); /* fails where the event is gone */
    MUST(aclrtDestroyStream(waiter));
    MUST(aclrtDestroyStream(stream));
}

/* The wrong stream is waited for. */
static void block_of_another_stream(bool is_fixed)
{
    aclrtStream used = stream_open();
    aclrtStream other = stream_open();
    void *block = block_open(1000);

    MUST(aclrtMemsetAsync(block, 1000, 0, 1000, used));
    MUST(aclrtSynchronizeStream(is_fixed ? used : other));
    free_early(block);
    MUST(aclrtDestroyStream(used));
    MUST(aclrtDestroyStream(other));
}

MISTAKE void import_it(uint64_t number)
{
    aclrtDrvMemHandle handle;

    if (aclrtMemImportFromShareableHandle(number, 0, &handle) == ACL_SUCCESS)
        MUST(aclrtFreePhysical(handle));
}

/* In one process; test_pair.py has it in two. */
static void import_of_freed_memory(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle handle;
    uint64_t number;

    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    MUST(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &number));
    if (is_fixed)
        import_it(number);
    MUST(aclrtFreePhysical(handle));
    if (!is_fixed)
        import_it(number);
}

const struct bug life_bugs[] = {
    BUG("double-free/block", block_twice, "double-free", "the block of 1000 bytes",
        "free_block"),
    BUG("double-free/handle", handle_twice, "double-free",
        "physical allocation of 2.0 MB", "free_handle"),
    BUG("double-free/unmap", unmapped_twice, "double-free", "was unmapped before",
        "unmap_it"),
    BUG("double-free/stream", stream_twice, "double-free", "stream is stream 0x",
        "destroy_it"),
    BUG("double-free/context", context_twice, "double-free", "context is context",
        "destroy_context"),
    BUG("double-free/pinned", pinned_twice, "double-free", "the pinned block of 64 bytes",
        "free_pinned"),
    BUG("double-free/release", released_twice, "double-free",
        "the reservation of 2097152", "release_it"),
    BUG("double-free/between", twice_with_another_between, "double-free",
        "the block of 1000 bytes", "free_block"),
    BUG("stale-handle/stream", stream_that_is_gone, "stale-handle", "was freed before",
        "synchronize_it"),
    BUG("stale-handle/fill", stream_of_a_fill_that_is_gone, "stale-handle",
        "stream is stream", "fill_on_it"),
    BUG("stale-handle/context", context_that_is_gone, "stale-handle",
        "context is context", "set_context"),
    BUG("stale-handle/pool", pool_that_is_gone, "stale-handle", "memPool is pool",
        "allocate_from_it"),
    BUG("stale-handle/notifies", notify_that_is_gone, "stale-handle",
        "notifies is notify", "reset_them"),
    BUG("use-after-free/prefetch", managed_that_is_gone, "use-after-free",
        "ptrs is the managed block", "prefetch_them"),
    BUG("stale-handle/event", event_that_is_gone, "stale-handle", "event is event 0x",
        "record_it"),
    BUG("stale-handle/phys", handle_that_is_gone, "stale-handle",
        "handle is the physical allocation", "map_it"),
    BUG("stale-handle/reset", stream_of_a_reset_device, "stale-handle",
        "stream is stream", "synchronize_it"),
    BUG("stale-handle/import", import_of_freed_memory, "stale-handle",
        "which its exporter freed", "import_it"),
    BUG("use-after-free/block", freed_block, "use-after-free",
        "src is byte 100 of the block of 4096 bytes", "read_it"),
    BUG("use-after-free/mapping", unmapped_memory, "use-after-free",
        "devPtr is the mapping of 2097152 bytes", "fill_it"),
    BUG("use-after-free/again", address_of_another_block, "use-after-free",
        "devPtr is the block of 4096 bytes", "fill_it"),
    BUG("use-after-free/desc", address_of_other_memory, "use-after-free",
        "showed other memory than now", "copy_by_desc"),
    BUG("free-in-use/block", block_of_queued_work, "free-in-use",
        "the block of 1000 bytes", "free_early"),
    BUG("free-in-use/alias", mapping_with_an_alias, "free-in-use", "is unmapped while",
        "unmap_early"),
    BUG("free-in-use/mapping", mapping_of_queued_work, "free-in-use",
        "is unmapped while work on stream", "unmap_early"),
    BUG("free-in-use/pinned", pinned_source_of_a_copy, "free-in-use", "still reads it",
        "free_pinned_early"),
    BUG("free-in-use/event", event_that_is_waited_for, "free-in-use",
        "a stream still waits for it", "destroy_event_early"),
    BUG("free-in-use/wrong", block_of_another_stream, "free-in-use", "still writes it",
        "free_early"),
    {.name = NULL},
};
