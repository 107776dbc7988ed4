/* Correct programs with unusual ranges, mappings, pools, registered and managed memory. */
#include "legal.h"

#include <sys/mman.h>

#include "aclmem/aclmem.h"

#define SIZE 4096

static void fill_on(aclrtStream stream, void *at, size_t size)
{
    MUST(aclrtMemsetAsync(at, size, 1, size, stream));
}

static void read_now(const void *from)
{
    char host[64];

    MUST(aclrtMemcpy(host, sizeof host, from, sizeof host, ACL_MEMCPY_DEVICE_TO_HOST));
}

/* ---- parts of a block ---- */

static void neighbours_on_two_streams(bool is_fixed)
{
    aclrtStream s[2] = {stream_open(), stream_open()};
    char *block = block_open(SIZE);

    for (int i = 0; i < 64; i++)
        fill_on(s[i % 2], block + i * 64, 64);
    MUST(aclrtSynchronizeDevice());
    read_now(block);
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(s[0]));
    MUST(aclrtDestroyStream(s[1]));
}

/* Two streams write the even and the odd columns of the same rows. */
static void columns_on_two_streams(bool is_fixed)
{
    aclrtStream s[2] = {stream_open(), stream_open()};
    char *block = block_open(SIZE);
    char *pinned = host_open(SIZE);

    memset(pinned, 1, SIZE);
    for (int i = 0; i < 2; i++)
        MUST(aclrtMemcpy2dAsync(block + i * 32, 64, pinned + i * 32, 64, 32, 64,
                                ACL_MEMCPY_HOST_TO_DEVICE, s[i]));
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(pinned));
    MUST(aclrtDestroyStream(s[0]));
    MUST(aclrtDestroyStream(s[1]));
}

static void words_of_32_bits(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(SIZE);

    MUST(aclrtMemsetD32Async(block, SIZE, 7, SIZE / 4, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemsetD32(block, SIZE, 8, SIZE / 4));
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

/* A copy with memory of the program returns when it is done. */
static void own_memory_used_again(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(SIZE);
    char own[SIZE];

    for (int i = 0; i < 4; i++) {
        memset(own, i, SIZE);
        MUST(aclrtMemcpyAsync(block, SIZE, own, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    }
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

/* The program writes pages of a pinned block while queued work reads others. */
static void halves_of_a_pinned_block(bool is_fixed)
{
    aclrtStream stream = stream_open();
    char *pinned = host_open(8 * SIZE);
    void *block = block_open(4 * SIZE);
    struct gate gate;

    memset(pinned, 1, 8 * SIZE);
    gate_hold(&gate, stream);
    MUST(aclrtMemcpyAsync(block, 4 * SIZE, pinned, 4 * SIZE, ACL_MEMCPY_HOST_TO_DEVICE,
                          stream));
    memset(pinned + 4 * SIZE, 2, 4 * SIZE);
    gate_let(&gate);
    MUST(aclrtSynchronizeStream(stream));
    memset(pinned, 3, 4 * SIZE);
    MUST(aclrtFreeHost(pinned));
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

/* Every byte of a pinned block of every small size is the program's. */
static void pinned_blocks_to_the_last_byte(bool is_fixed)
{
    for (size_t size = 1; size < 200; size++) {
        char *block = host_open(size);

        memset(block, 7, size);
        MUST(aclrtFreeHost(block));
    }
}

/* ---- mappings ---- */

static void grown_in_place(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtStream stream = stream_open();
    aclrtDrvMemHandle handle[3];
    char *va;

    MUST(aclrtReserveMemAddress((void **)&va, 3 * CHUNK, 0, NULL, 1));
    for (size_t i = 0; i < 3; i++) {
        MUST(aclrtMallocPhysical(&handle[i], CHUNK, &prop, 0));
        MUST(aclrtMapMem(va + i * CHUNK, CHUNK, 0, handle[i], 0));
        fill_on(stream, va, (i + 1) * CHUNK); /* across mappings, while it grows */
    }
    MUST(aclrtSynchronizeStream(stream));
    for (size_t i = 0; i < 3; i++) {
        MUST(aclrtUnmapMem(va + i * CHUNK));
        MUST(aclrtFreePhysical(handle[i]));
    }
    MUST(aclrtReleaseMemAddress(va));
    MUST(aclrtDestroyStream(stream));
}

static void moved_to_another_address(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    aclrtStream stream = stream_open();
    void *other;

    MUST(aclrtReserveMemAddress(&other, CHUNK, 0, NULL, 1));
    fill_on(stream, chunk.va, CHUNK);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtUnmapMem(chunk.va));
    MUST(aclrtMapMem(other, CHUNK, 0, chunk.handle, 0));
    read_now(other);
    MUST(aclrtUnmapMem(other));
    MUST(aclrtReleaseMemAddress(other));
    MUST(aclrtMapMem(chunk.va, CHUNK, 0, chunk.handle, 0));
    read_now(chunk.va);
    chunk_close(chunk);
    MUST(aclrtDestroyStream(stream));
}

/* The mapping keeps the memory. */
static void handle_freed_first(bool is_fixed)
{
    struct chunk chunk = chunk_open();

    MUST(aclrtMemset(chunk.va, CHUNK, 1, CHUNK));
    MUST(aclrtFreePhysical(chunk.handle));
    read_now(chunk.va);
    MUST(aclrtUnmapMem(chunk.va));
    MUST(aclrtReleaseMemAddress(chunk.va));
}

static void handle_retained(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    aclrtDrvMemHandle again;

    MUST(aclrtMemRetainAllocationHandle(chunk.va, &again));
    MUST(aclrtFreePhysical(again));
    chunk_close(chunk);
}

/* The addresses of an idle cache show nothing for a while. */
static void sleep_and_wake(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    struct chunk chunk = chunk_open();

    for (int i = 0; i < 3; i++) {
        MUST(aclrtUnmapMem(chunk.va));
        MUST(aclrtFreePhysical(chunk.handle));
        MUST(aclrtMallocPhysical(&chunk.handle, CHUNK, &prop, 0));
        MUST(aclrtMapMem(chunk.va, CHUNK, 0, chunk.handle, 0));
        MUST(aclrtMemset(chunk.va, CHUNK, 1, CHUNK));
    }
    chunk_close(chunk);
}

/* ---- pools ---- */

/* A block that is freed on its stream may be given out there again at once. */
static void pool_block_again_and_again(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtMemPool pool = pool_open(64 * MIB);

    for (int i = 0; i < 20; i++) {
        void *block;

        MUST(aclrtMemPoolMallocAsync(&block, CHUNK, pool, stream));
        fill_on(stream, block, CHUNK);
        MUST(aclrtMemPoolFreeAsync(block, stream));
    }
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyStream(stream));
}

/* Another stream frees the block, behind an event. */
static void pool_block_freed_elsewhere(bool is_fixed)
{
    aclrtStream s[2] = {stream_open(), stream_open()};
    aclrtMemPool pool = pool_open(64 * MIB);
    aclrtEvent event;
    void *block;

    MUST(aclrtCreateEvent(&event));
    MUST(aclrtMemPoolMallocAsync(&block, CHUNK, pool, s[0]));
    fill_on(s[0], block, CHUNK);
    MUST(aclrtRecordEvent(event, s[0]));
    MUST(aclrtStreamWaitEvent(s[1], event));
    fill_on(s[1], block, CHUNK);
    MUST(aclrtMemPoolFreeAsync(block, s[1]));
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyStream(s[0]));
    MUST(aclrtDestroyStream(s[1]));
}

/* ---- registered, managed and shared memory ---- */

static void registered_again(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(SIZE);
    void *device;
    void *own =
        mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    for (int i = 0; i < 3; i++) {
        memset(own, i, SIZE);
        MUST(aclrtHostRegister(own, SIZE, ACL_HOST_REGISTER_MAPPED, &device));
        MUST(aclrtMemcpyAsync(block, SIZE, own, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        MUST(aclrtHostUnregister(own)); /* waits */
    }
    munmap(own, SIZE);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

static void pinned_block_registered(bool is_fixed)
{
    char *pinned = host_open(100);
    void *device;

    if (aclrtHostRegister(pinned, 100, ACL_HOST_REGISTER_MAPPED, &device) == ACL_SUCCESS)
        MUST(aclrtHostUnregister(pinned));
    memset(pinned, 1, 100);
    MUST(aclrtFreeHost(pinned));
}

static void managed_in_turn(bool is_fixed)
{
    aclrtStream stream = stream_open();
    char *managed;

    MUST(aclrtMemAllocManaged((void **)&managed, CHUNK, ACL_RT_MEM_ATTACH_GLOBAL));
    for (int i = 0; i < 3; i++) {
        memset(managed, i, CHUNK);
        fill_on(stream, managed, CHUNK);
        MUST(aclrtSynchronizeStream(stream));
        if (managed[CHUNK - 1] != 1)
            abort();
    }
    MUST(aclrtFree(managed));
    MUST(aclrtDestroyStream(stream));
}

static void view_of_a_block(bool is_fixed)
{
    void *block = block_open(SIZE);
    void *view;

    if (aclmem_host_view(block, SIZE, &view) == ACL_SUCCESS) {
        memset(view, 5, SIZE);
        MUST(aclmem_host_view_end(view));
        read_now(block);
    }
    MUST(aclrtFree(block));
}

static void exported_and_kept(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    uint64_t number;

    MUST(aclrtMemExportToShareableHandle(chunk.handle, ACL_MEM_HANDLE_TYPE_NONE, 1,
                                         &number));
    MUST(aclrtMemset(chunk.va, CHUNK, 1, CHUNK));
    chunk_close(chunk);
}

const struct bug legal_ranges[] = {
    LEGAL("neighbours_on_two_streams", neighbours_on_two_streams),
    LEGAL("columns_on_two_streams", columns_on_two_streams),
    LEGAL("words_of_32_bits", words_of_32_bits),
    LEGAL("own_memory_used_again", own_memory_used_again),
    LEGAL("halves_of_a_pinned_block", halves_of_a_pinned_block),
    LEGAL("pinned_blocks_to_the_last_byte", pinned_blocks_to_the_last_byte),
    LEGAL("grown_in_place", grown_in_place),
    LEGAL("moved_to_another_address", moved_to_another_address),
    LEGAL("handle_freed_first", handle_freed_first),
    LEGAL("handle_retained", handle_retained),
    LEGAL("sleep_and_wake", sleep_and_wake),
    LEGAL("pool_block_again_and_again", pool_block_again_and_again),
    LEGAL("pool_block_freed_elsewhere", pool_block_freed_elsewhere),
    LEGAL("registered_again", registered_again),
    LEGAL("pinned_block_registered", pinned_block_registered),
    LEGAL("managed_in_turn", managed_in_turn),
    LEGAL("view_of_a_block", view_of_a_block),
    LEGAL("exported_and_kept", exported_and_kept),
    {.name = NULL},
};
