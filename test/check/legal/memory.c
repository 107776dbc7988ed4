/* Correct programs with an unusual use of memory, devices and errors. */
#include "legal.h"

#include <sys/mman.h>

#define SIZE 4096

/* Memory of device 1 that device 0 was given access to. */
static void access_of_another_device(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(1);
    aclrtMemAccessDesc access = {
        .flags = ACL_RT_MEM_ACCESS_FLAGS_READWRITE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    aclrtStream stream = stream_open();
    void *block = block_open(SIZE);
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    MUST(aclrtMapMem(va, CHUNK, 0, handle, 0));
    MUST(aclrtMemSetAccess(va, CHUNK, &access, 1));
    MUST(aclrtMemcpyAsync(va, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtUnmapMem(va));
    MUST(aclrtFreePhysical(handle));
    MUST(aclrtReleaseMemAddress(va));
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

/* Peer access was enabled on one side: work of either device may copy between them. */
static void peers(bool is_fixed, int enabled, int working)
{
    aclrtStream stream;
    void *here;
    void *there;

    MUST(aclrtSetDevice(1 - working));
    there = block_open(SIZE);
    MUST(aclrtSetDevice(enabled));
    MUST(aclrtDeviceEnablePeerAccess(1 - enabled, 0));
    MUST(aclrtSetDevice(working));
    here = block_open(SIZE);
    stream = stream_open();
    MUST(aclrtMemcpyAsync(here, SIZE, there, SIZE, ACL_MEMCPY_DEVICE_TO_DEVICE, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(here));
    MUST(aclrtFree(there));
    MUST(aclrtSetDevice(1));
    MUST(aclrtResetDevice(1));
    MUST(aclrtSetDevice(0));
}

static void peer_of_the_stream(bool is_fixed)
{
    peers(is_fixed, 0, 0);
}

static void peer_of_the_memory(bool is_fixed)
{
    peers(is_fixed, 1, 0);
}

/* The block's device is synchronised, and not the current one. */
static void free_with_sync_of_another_device(bool is_fixed)
{
    aclrtStream stream;
    void *block;

    MUST(aclrtSetDevice(1));
    stream = stream_open();
    block = block_open(SIZE);
    MUST(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
    MUST(aclrtSetDevice(0));
    MUST(aclrtFreeWithDevSync(block));
    MUST(aclrtSetDevice(1));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtResetDevice(1));
    MUST(aclrtSetDevice(0));
}

/* A call fails, and the variable keeps its old value. */
static void failure_that_was_handled(bool is_fixed)
{
    void *q = malloc(SIZE);
    void *block = block_open(SIZE);

    if (aclrtMallocHost(&q, (size_t)1 << 60) == ACL_SUCCESS)
        abort();
    memset(q, 1, SIZE);
    MUST(aclrtMemcpy(block, SIZE, q, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclrtFree(block));
    free(q);
}

static void failure_with_a_fallback(bool is_fixed)
{
    void *own = malloc(SIZE);
    void *buf = own;
    void *block = block_open(SIZE);

    if (aclrtMallocHost(&buf, (size_t)1 << 60) != ACL_SUCCESS)
        buf = own;
    memset(buf, 1, SIZE);
    MUST(aclrtMemcpy(block, SIZE, buf, SIZE, ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclrtFree(block));
    free(own);
}

static void free_of_null_after_a_failure(bool is_fixed)
{
    void *block = NULL;

    if (aclrtMalloc(&block, (size_t)1 << 60, ACL_MEM_MALLOC_HUGE_FIRST) == ACL_SUCCESS)
        abort();
    (void)aclrtFree(block); /* refused, and the program does not mind */
}

/* A copy from registered memory into the program's own memory behind it, and across two. */
static void registered_memory_and_more(bool is_fixed)
{
    char *own = mmap(NULL, (size_t)4 * SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *block = block_open((size_t)4 * SIZE);
    void *device;

    memset(own, 1, (size_t)4 * SIZE);
    MUST(aclrtHostRegister(own, SIZE, ACL_HOST_REGISTER_MAPPED, &device));
    MUST(aclrtHostRegister(own + SIZE, SIZE, ACL_HOST_REGISTER_MAPPED, &device));
    MUST(aclrtMemcpy(block, (size_t)4 * SIZE, own, (size_t)4 * SIZE,
                     ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclrtMemcpy(own + 100, 2 * SIZE, block, (size_t)2 * SIZE - 100,
                     ACL_MEMCPY_DEVICE_TO_HOST));
    MUST(aclrtHostUnregister(own));
    MUST(aclrtHostUnregister(own + SIZE));
    MUST(aclrtFree(block));
    munmap(own, (size_t)4 * SIZE);
}

/* A descriptor is copied over another one: it is what was copied that counts. */
static void descriptor_that_is_overwritten(bool is_fixed)
{
    aclrtStream stream = stream_open();
    char *desc = block_open(256);
    void *block[4];

    for (int i = 0; i < 4; i++)
        block[i] = block_open(SIZE);
    MUST(aclrtSetMemcpyDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, block[0], block[1],
                            SIZE, NULL));
    MUST(aclrtFree(block[0]));
    MUST(aclrtFree(block[1]));
    MUST(aclrtSetMemcpyDesc(desc + 128, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, block[2],
                            block[3], SIZE, NULL));
    MUST(aclrtMemcpy(desc, 64, desc + 128, 64, ACL_MEMCPY_DEVICE_TO_DEVICE));
    MUST(aclrtMemcpyAsyncWithDesc(desc, ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(desc));
    MUST(aclrtFree(block[2]));
    MUST(aclrtFree(block[3]));
    MUST(aclrtDestroyStream(stream));
}

/* Unmapped and mapped again at the same address, with other memory. */
static void mapped_again(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle other;

    MUST(aclrtMemset(chunk.va, CHUNK, 1, CHUNK));
    MUST(aclrtUnmapMem(chunk.va));
    MUST(aclrtMallocPhysical(&other, CHUNK, &prop, 0));
    MUST(aclrtMapMem(chunk.va, CHUNK, 0, other, 0));
    MUST(aclrtMemset(chunk.va, CHUNK, 1, CHUNK));
    MUST(aclrtFreePhysical(chunk.handle));
    chunk.handle = other;
    chunk_close(chunk);
}

/* One mapping of two is unmapped while work uses the other. */
static void one_mapping_of_two(bool is_fixed)
{
    aclrtStream stream = stream_open();
    struct chunk chunk = chunk_open();
    void *again;

    MUST(aclrtReserveMemAddress(&again, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(again, CHUNK, 0, chunk.handle, 0));
    MUST(aclrtMemsetAsync(chunk.va, CHUNK, 1, CHUNK, stream));
    MUST(aclrtUnmapMem(again));
    MUST(aclrtReleaseMemAddress(again));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
    chunk_close(chunk);
}

static void started_again(bool is_fixed)
{
    for (int i = 0; i < 3; i++) {
        aclrtStream stream = stream_open();
        void *block = block_open(SIZE);
        void *host = host_open(SIZE);

        MUST(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
        MUST(
            aclrtMemcpyAsync(host, SIZE, block, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
        MUST(aclrtSynchronizeStream(stream));
        MUST(aclrtDestroyStream(stream));
        MUST(aclrtFree(block));
        MUST(aclrtFreeHost(host));
        MUST(aclrtResetDevice(0));
        MUST(aclFinalize());
        MUST(aclInit(NULL));
        MUST(aclrtSetDevice(0));
    }
}

/* A block of a pool is used by the stream that frees it, and by the next owner. */
static void pool_in_order(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtMemPool pool = pool_open(16 * MIB);
    void *block;

    for (int i = 0; i < 4; i++) {
        MUST(aclrtMemPoolMallocAsync(&block, SIZE, pool, stream));
        MUST(aclrtMemsetAsync(block, SIZE, 1, SIZE, stream));
        MUST(aclrtMemPoolFreeAsync(block, stream));
    }
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyStream(stream));
}

static void managed_memory(bool is_fixed)
{
    aclrtStream stream = stream_open();
    char *block;

    MUST(aclrtMemAllocManaged((void **)&block, SIZE, ACL_RT_MEM_ATTACH_GLOBAL));
    memset(block, 1, SIZE);
    MUST(aclrtMemsetAsync(block, SIZE, 2, SIZE, stream));
    MUST(aclrtSynchronizeStream(stream));
    if (block[0] != 2)
        abort();
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

/* Imported in the process that exported it. */
static void own_export_imported(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    aclrtDrvMemHandle again;
    uint64_t number;
    void *va;

    MUST(aclrtMemExportToShareableHandle(chunk.handle, ACL_MEM_HANDLE_TYPE_NONE, 1,
                                         &number));
    MUST(aclrtMemImportFromShareableHandle(number, 0, &again));
    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(va, CHUNK, 0, again, 0));
    MUST(aclrtMemset(va, SIZE, 1, SIZE));
    MUST(aclrtUnmapMem(va));
    MUST(aclrtFreePhysical(again));
    MUST(aclrtReleaseMemAddress(va));
    chunk_close(chunk);
}

/* Threads start and stop the library while others use pinned memory. */
static void *start_and_stop(void *arg)
{
    for (int i = 0; i < 40; i++) {
        (void)aclInit(NULL);
        (void)aclFinalize();
    }
    return NULL;
}

static void *pin_and_free(void *arg)
{
    for (int i = 0; i < 400; i++) {
        void *block = NULL;
        char own[64] = {0};

        (void)aclrtSetDevice(0);
        if (aclrtMallocHost(&block, 1000) == ACL_SUCCESS) {
            (void)aclrtMemcpy(block, 64, own, 64, ACL_MEMCPY_HOST_TO_HOST);
            (void)aclrtFreeHost(block);
        }
    }
    return NULL;
}

static void threads_that_stop_the_library(bool is_fixed)
{
    pthread_t thread[4];

    for (int i = 0; i < 4; i++) {
        if (pthread_create(&thread[i], NULL, i < 2 ? start_and_stop : pin_and_free,
                           NULL) != 0)
            abort();
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
    (void)aclInit(NULL);
    MUST(aclrtSetDevice(0));
}

const struct bug legal_memory[] = {
    LEGAL("access_of_another_device", access_of_another_device),
    LEGAL("peer_of_the_stream", peer_of_the_stream),
    LEGAL("peer_of_the_memory", peer_of_the_memory),
    LEGAL("free_with_sync_of_another_device", free_with_sync_of_another_device),
    LEGAL("failure_that_was_handled", failure_that_was_handled),
    LEGAL("failure_with_a_fallback", failure_with_a_fallback),
    LEGAL("free_of_null_after_a_failure", free_of_null_after_a_failure),
    LEGAL("registered_memory_and_more", registered_memory_and_more),
    LEGAL("descriptor_that_is_overwritten", descriptor_that_is_overwritten),
    LEGAL("mapped_again", mapped_again),
    LEGAL("one_mapping_of_two", one_mapping_of_two),
    LEGAL("started_again", started_again),
    LEGAL("pool_in_order", pool_in_order),
    LEGAL("managed_memory", managed_memory),
    LEGAL("own_export_imported", own_export_imported),
    LEGAL("threads_that_stop_the_library", threads_that_stop_the_library,
          "--check all,no-leak,no-stale-handle"),
    {.name = NULL},
};
