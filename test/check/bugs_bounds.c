/* Ranges that leave their memory, and bytes that were never written. */
#include "bugs.h"

/* ---- out-of-bounds ---- */

MISTAKE void fill(void *device, size_t size)
{
    MUST(aclrtMemset(device, size, 0, size));
}

/* The library rounds sizes up, so that the overrun is taken. */
static void one_byte_more(bool is_fixed)
{
    void *block = block_open(1000);

    fill(block, is_fixed ? 1000 : 1001);
    MUST(aclrtFree(block));
}

MISTAKE void copy_rows(void *device, const void *host, size_t rows)
{
    MUST(aclrtMemcpy2d(device, 40, host, 32, 32, rows, ACL_MEMCPY_HOST_TO_DEVICE));
}

static void last_row(bool is_fixed)
{
    static char host[32 * 25];
    void *block = block_open(24 * 40 + 20); /* 24 rows and a half */

    copy_rows(block, host, is_fixed ? 24 : 25);
    MUST(aclrtFree(block));
}

MISTAKE void fill_across(void *device, size_t size)
{
    aclrtMemset(device, size, 0, size);
}

/* From one mapping into the next, which lies in another reservation. */
static void into_another_reservation(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle handle[2];
    void *va[2];

    MUST(aclrtReserveMemAddress(&va[0], CHUNK, 0, NULL, 1));
    MUST(aclrtReserveMemAddress(&va[1], CHUNK, 0, (char *)va[0] + CHUNK, 1));
    for (int i = 0; i < 2; i++) {
        MUST(aclrtMallocPhysical(&handle[i], CHUNK, &prop, 0));
        MUST(aclrtMapMem(va[i], CHUNK, 0, handle[i], 0));
    }
    fill_across(va[0], is_fixed ? CHUNK : CHUNK + 64);
    for (int i = 0; i < 2; i++) {
        MUST(aclrtUnmapMem(va[i]));
        MUST(aclrtFreePhysical(handle[i]));
        MUST(aclrtReleaseMemAddress(va[i]));
    }
}

MISTAKE void copy_batch(void **to, void **from, size_t *sizes)
{
    aclrtMemcpyBatchAttr attr = {
        .dstLoc = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
        .srcLoc = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_HOST}};
    size_t first = 0;

    MUST(aclrtMemcpyBatchV2(to, sizes, from, sizes, 2, &attr, &first, 1));
}

static void one_of_a_batch(bool is_fixed)
{
    static char host[128];
    void *block = block_open(100);
    void *to[] = {block, (char *)block + 50};
    void *from[] = {host, host};
    size_t sizes[] = {50, is_fixed ? 50 : 51};

    copy_batch(to, from, sizes);
    MUST(aclrtFree(block));
}

/* Here the library refuses the call, and the program does not look. */
MISTAKE void copy_back(void *host, const void *device, size_t size)
{
    aclrtMemcpy(host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST);
}

static void pinned_destination(bool is_fixed)
{
    void *block = block_open(128);
    void *host = host_open(100);

    MUST(aclrtMemset(block, 128, 1, 128));
    copy_back(host, block, is_fixed ? 100 : 101);
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
}

/* ---- uninit-read ---- */

MISTAKE void read_back(const void *device, size_t size)
{
    static char host[8192];

    MUST(aclrtMemcpy(host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST));
}

static void never_written(bool is_fixed)
{
    void *block = block_open(4096);

    if (is_fixed)
        MUST(aclrtMemset(block, 4096, 0, 4096));
    read_back(block, 4096);
    MUST(aclrtFree(block));
}

static void last_byte_not_written(bool is_fixed)
{
    void *block = block_open(5000);

    MUST(aclrtMemset(block, 5000, 0, 4999));
    read_back(block, is_fixed ? 4999 : 5000);
    MUST(aclrtFree(block));
}

/* Unwritten bytes travel with a copy inside the device. */
static void by_way_of_a_copy(bool is_fixed)
{
    void *from = block_open(1000);
    void *to = block_open(1000);

    MUST(aclrtMemset(to, 1000, 0, 1000));
    MUST(aclrtMemset(from, 1000, 0, is_fixed ? 1000 : 500));
    MUST(aclrtMemcpy(to, 1000, from, 1000, ACL_MEMCPY_DEVICE_TO_DEVICE));
    read_back(to, 1000);
    MUST(aclrtFree(from));
    MUST(aclrtFree(to));
}

/* Unmapped and mapped again memory keeps its contents, so this is no mistake. */
static void mapped_again(bool is_fixed)
{
    struct chunk chunk = chunk_open();

    if (is_fixed)
        MUST(aclrtMemset(chunk.va, 8192, 1, 8192));
    MUST(aclrtUnmapMem(chunk.va));
    MUST(aclrtMapMem(chunk.va, CHUNK, 0, chunk.handle, 0));
    read_back(chunk.va, 8192);
    chunk_close(chunk);
}

/* One byte behind a large pinned block. */
MISTAKE void free_large(void *block)
{
    MUST(aclrtFreeHost(block));
}

static void behind_a_large_block(bool is_fixed)
{
    char *block = host_open(MIB);

    block[is_fixed ? MIB - 1 : MIB] = 7;
    free_large(block);
}

/* One byte before a pinned block, of any size. */
static void before_a_block(size_t size, bool is_fixed)
{
    char *block = host_open(size);

    block[is_fixed ? 0 : -1] = 7;
    free_large(block);
}

static void before_one_byte(bool is_fixed)
{
    before_a_block(1, is_fixed);
}

static void before_a_page(bool is_fixed)
{
    before_a_block(4096, is_fixed);
}

static void before_a_large_block(bool is_fixed)
{
    before_a_block(MIB + 1, is_fixed);
}

/* A copy that begins before a pinned block. */
static void copy_from_before(bool is_fixed)
{
    char *block = host_open(100);
    void *device = block_open(100);

    if (is_fixed)
        MUST(aclrtMemcpy(device, 100, block, 50, ACL_MEMCPY_HOST_TO_DEVICE));
    else
        aclrtMemcpy(device, 100, block - 2, 50, ACL_MEMCPY_HOST_TO_DEVICE);
    free_large(block);
    MUST(aclrtFree(device));
}

const struct bug bounds_bugs[] = {
    BUG("out-of-bounds/byte", one_byte_more, "out-of-bounds",
        "end 1 behind the block of 1000 bytes", "fill"),
    BUG("out-of-bounds/row", last_row, "out-of-bounds", "behind the block of 980 bytes",
        "copy_rows"),
    BUG("out-of-bounds/reservation", into_another_reservation, "out-of-bounds",
        "into the mapping of 2097152 bytes", "fill_across"),
    BUG("out-of-bounds/batch", one_of_a_batch, "out-of-bounds", "dsts[1]: 51 bytes",
        "copy_batch"),
    BUG("out-of-bounds/large-pinned", behind_a_large_block, "out-of-bounds",
        "the program wrote behind the pinned block", "free_large"),
    BUG("out-of-bounds/before-1", before_one_byte, "out-of-bounds",
        "the program wrote before the pinned block of 1 bytes", "free_large"),
    BUG("out-of-bounds/before-4096", before_a_page, "out-of-bounds",
        "byte -1 is 0x07, and 1 byte up to there changed", "free_large"),
    BUG("out-of-bounds/before-large", before_a_large_block, "out-of-bounds",
        "the program wrote before the pinned block", "free_large",
        .options = "--check all"),
    BUG("out-of-bounds/copy-before", copy_from_before, "out-of-bounds",
        "on begin 2 before the pinned block of 100 bytes", "copy_from_before"),
    BUG("out-of-bounds/pinned", pinned_destination, "out-of-bounds",
        "end 1 behind the pinned block of 100 bytes", "copy_back"),
    BUG("uninit-read/never", never_written, "uninit-read", "byte 0 of the block",
        "read_back", .options = "--check all"),
    BUG("uninit-read/last", last_byte_not_written, "uninit-read",
        "byte 4999 of the block", "read_back", .options = "--check all"),
    BUG("uninit-read/copy", by_way_of_a_copy, "uninit-read", "byte 500 of the block",
        "read_back", .options = "--check all"),
    BUG("uninit-read/mapped", mapped_again, "uninit-read", "byte 0 of the physical",
        "read_back", .options = "--check all"),
    {.name = NULL},
};
