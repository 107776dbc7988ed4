/* Sharing, devices, failures that were not looked at. */
#include "bugs.h"

/* ---- export-twice ---- */

MISTAKE void export_again(aclrtDrvMemHandle handle)
{
    uint64_t number;

    aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &number);
}

static void exported_twice(bool is_fixed)
{
    struct chunk chunk = chunk_open();

    export_again(chunk.handle);
    if (!is_fixed)
        export_again(chunk.handle);
    chunk_close(chunk);
}

static void exported_for_each_importer(bool is_fixed)
{
    struct chunk chunk = chunk_open();

    for (int i = 0; i < (is_fixed ? 1 : 3); i++)
        export_again(chunk.handle);
    chunk_close(chunk);
}

MISTAKE void key_again(void *block)
{
    char key[65];

    aclrtIpcMemGetExportKey(block, CHUNK, key, sizeof key, 1);
}

static void key_twice(bool is_fixed)
{
    void *block = block_open(CHUNK);

    key_again(block);
    if (!is_fixed)
        key_again(block);
    MUST(aclrtFree(block));
}

/* ---- error-ignored ---- */

MISTAKE void use_block(void *block)
{
    aclrtMemset(block, 64, 0, 64);
}

static void failed_block(bool is_fixed)
{
    void *block = NULL;

    if (aclrtMalloc(&block, (size_t)1 << 50, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS &&
        is_fixed)
        return;
    use_block(block);
}

MISTAKE void map_handle(void *va, aclrtDrvMemHandle handle)
{
    aclrtMapMem(va, CHUNK, 0, handle, 0);
}

static void failed_phys(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle handle = NULL;
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    if (aclrtMallocPhysical(&handle, (size_t)1 << 50, &prop, 0) == ACL_SUCCESS ||
        !is_fixed)
        map_handle(va, handle);
    MUST(aclrtReleaseMemAddress(va));
}

MISTAKE void free_it(void *block)
{
    aclrtFreeHost(block);
}

static void failed_pinned(bool is_fixed)
{
    void *block = (void *)0x1000; /* not initialised by the program */
    aclError rc = aclrtMallocHost(&block, 0);

    if (rc == ACL_SUCCESS || !is_fixed)
        free_it(block);
}

/* A failed allocation leaves NULL, which the program dereferences. */
MISTAKE void write_null(char *block)
{
    block[8] = 1;
}

static void failed_and_dereferenced(bool is_fixed)
{
    char *block = NULL;

    if (aclrtMallocHost((void **)&block, (size_t)1 << 60) == ACL_SUCCESS || !is_fixed)
        write_null(block);
}

/* ---- wrong-device ---- */

MISTAKE void fill_on(aclrtStream stream, void *block)
{
    aclrtMemsetAsync(block, 64, 0, 64, stream);
    aclrtSynchronizeStream(stream);
}

static void stream_of_the_other_device(bool is_fixed)
{
    void *block = block_open(64);
    aclrtStream stream;

    if (!is_fixed)
        MUST(aclrtSetDevice(1));
    stream = stream_open();
    fill_on(stream, block);
    MUST(aclrtDestroyStream(stream));
    if (!is_fixed) {
        MUST(aclrtResetDevice(1));
        MUST(aclrtSetDevice(0));
        MUST(aclrtResetDevice(0));
    }
    MUST(aclrtFree(block));
}

MISTAKE void copy_on(aclrtStream stream, void *to, void *from)
{
    aclrtMemcpyAsync(to, 64, from, 64, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
    aclrtSynchronizeStream(stream);
}

static void copy_without_peers(bool is_fixed)
{
    void *here = block_open(64);
    void *there;
    aclrtStream stream;

    MUST(aclrtMemset(here, 64, 0, 64));
    MUST(aclrtSetDevice(1));
    there = block_open(64);
    if (is_fixed)
        MUST(aclrtDeviceEnablePeerAccess(0, 0));
    stream = stream_open();
    copy_on(stream, there, here);
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(there));
    MUST(aclrtResetDevice(1));
    MUST(aclrtSetDevice(0));
    MUST(aclrtResetDevice(0));
    MUST(aclrtFree(here));
}

static void mapping_of_the_other_device(bool is_fixed)
{
    aclrtPhysicalMemProp prop = device_prop(is_fixed ? 0 : 1);
    aclrtStream stream = stream_open();
    aclrtDrvMemHandle handle;
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    MUST(aclrtMapMem(va, CHUNK, 0, handle, 0));
    fill_on(stream, va);
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtUnmapMem(va));
    MUST(aclrtFreePhysical(handle));
    MUST(aclrtReleaseMemAddress(va));
}

/* ---- device-touch: the program dies ---- */

MISTAKE int read_byte(const void *at)
{
    return *(const volatile char *)at;
}

static void read_block(bool is_fixed)
{
    void *block = block_open(1000);

    MUST(aclrtMemset(block, 1000, 1, 1000));
    if (!is_fixed)
        read_byte((char *)block + 10);
    MUST(aclrtFree(block));
}

MISTAKE void copy_by_libc(void *to, const void *from, size_t size)
{
    memcpy(to, from, size);
}

/* Which byte it touches first depends on the C library. */
static void libc_on_a_mapping(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    static char host[4096];

    if (is_fixed)
        MUST(aclrtMemcpy(chunk.va, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE));
    else
        copy_by_libc(chunk.va, host, 4096);
    chunk_close(chunk);
}

MISTAKE void write_byte(void *at)
{
    *(volatile char *)at = 1;
}

static void write_of_a_pointer_that_looks_like_one_of_the_host(bool is_fixed)
{
    void *block = block_open(64);
    void *host = host_open(64);

    write_byte(is_fixed ? host : block);
    MUST(aclrtFreeHost(host));
    MUST(aclrtFree(block));
}

static void read_behind_a_block(bool is_fixed)
{
    void *block = block_open(4096);

    if (!is_fixed)
        read_byte((char *)block + 4101);
    MUST(aclrtFree(block));
}

static void write_freed_block(bool is_fixed)
{
    void *block = block_open(64);

    MUST(aclrtFree(block));
    if (!is_fixed)
        write_byte((char *)block + 1);
}

static void write_unmapped_memory(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    char *va = chunk.va;

    MUST(aclrtUnmapMem(va));
    if (!is_fixed)
        write_byte(va + 7);
    MUST(aclrtFreePhysical(chunk.handle));
    MUST(aclrtReleaseMemAddress(va));
}

/* ---- for calls that fail on demand ---- */

/* Does without a block where there is none. */
static void careful(bool is_fixed)
{
    void *block;

    if (aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
        return;
    aclrtMemset(block, 64, 0, 64);
    MUST(aclrtFree(block));
}

/* Looks at no code. */
static void careless(bool is_fixed)
{
    void *block = NULL;

    aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemset(block, 64, 0, 64);
    aclrtFree(block);
}

static void crashing(bool is_fixed)
{
    void *block = NULL;

    if (aclrtMalloc(&block, 64, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
        abort();
    MUST(aclrtFree(block));
}

/* Forgets the first block when the second one fails. */
static void leaking(bool is_fixed)
{
    void *first;
    void *second;

    if (aclrtMalloc(&first, 64, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS ||
        aclrtMalloc(&second, 64, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
        return;
    MUST(aclrtFree(first));
    MUST(aclrtFree(second));
}

const struct bug misc_bugs[] = {
    BUG("failing/leaking", leaking, "", "", ""),
    BUG("failing/careful", careful, "", "", ""),
    BUG("failing/careless", careless, "", "", ""),
    BUG("failing/crashing", crashing, "", "", ""),
    BUG("device-touch/read", read_block, "device-touch",
        "touched byte 10 of the block of 1000 bytes", "read_byte", .code = 139),
    BUG("device-touch/libc", libc_on_a_mapping, "device-touch",
        " of the mapping of 2097152 bytes", "copy_by_libc", .code = 139),
    BUG("device-touch/write", write_of_a_pointer_that_looks_like_one_of_the_host,
        "device-touch", "byte 0 of the block of 64 bytes", "write_byte", .code = 139),
    BUG("device-touch/behind", read_behind_a_block, "device-touch",
        "byte 4101 of the block of 4096 bytes", "read_byte", .code = 139),
    BUG("device-touch/freed", write_freed_block, "device-touch", "was freed before",
        "write_byte", .code = 139),
    BUG("device-touch/unmapped", write_unmapped_memory, "device-touch",
        "byte 7 of the mapping", "write_byte", .code = 139),
    BUG("export-twice/handle", exported_twice, "export-twice", "was exported before",
        "export_again"),
    BUG("export-twice/loop", exported_for_each_importer, "export-twice",
        "physical allocation of 2.0 MB", "export_again"),
    BUG("export-twice/key", key_twice, "export-twice", "has a key already", "key_again"),
    BUG("error-ignored/block", failed_block, "error-ignored", "failed with 207001",
        "use_block"),
    BUG("error-ignored/phys", failed_phys, "error-ignored", "handle is 0x0",
        "map_handle"),
    BUG("error-ignored/null", failed_and_dereferenced, "error-ignored",
        "the program dereferenced NULL + 8", "write_null", .code = 139),
    BUG("error-ignored/pinned", failed_pinned, "error-ignored", "failed with 100000",
        "free_it"),
    BUG("wrong-device/stream", stream_of_the_other_device, "wrong-device",
        "on device 0, and the stream is one of device 1", "fill_on"),
    BUG("wrong-device/copy", copy_without_peers, "wrong-device", "on device 0",
        "copy_on"),
    BUG("wrong-device/mapping", mapping_of_the_other_device, "wrong-device",
        "on device 1", "fill_on"),
    {.name = NULL},
};
