/* What is left at the end. */
#include "bugs.h"

#include <sys/mman.h>

/* ---- leak.block ---- */

MISTAKE void *take_block(size_t size)
{
    return block_open(size);
}

static void forgotten_block(bool is_fixed)
{
    void *block = take_block(MIB);

    if (is_fixed)
        MUST(aclrtFree(block));
}

static void blocks_of_a_loop(bool is_fixed)
{
    void *block[3];

    for (int i = 0; i < 3; i++)
        block[i] = take_block(1000);
    for (int i = 0; i < 3; i++) {
        if (is_fixed)
            MUST(aclrtFree(block[i]));
    }
}

static void block_at_the_end_of_the_process(bool is_fixed)
{
    void *block = take_block(4096);

    if (is_fixed)
        MUST(aclrtFree(block));
}

MISTAKE void *take_managed(void)
{
    void *block;

    MUST(aclrtMemAllocManaged(&block, 1000, ACL_RT_MEM_ATTACH_GLOBAL));
    return block;
}

static void managed_block(bool is_fixed)
{
    void *block = take_managed();

    if (is_fixed)
        MUST(aclrtFree(block));
}

/* ---- leak.phys ---- */

MISTAKE aclrtDrvMemHandle take_phys(void)
{
    aclrtPhysicalMemProp prop = device_prop(0);
    aclrtDrvMemHandle handle;

    MUST(aclrtMallocPhysical(&handle, CHUNK, &prop, 0));
    return handle;
}

static void forgotten_phys(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_phys();

    if (is_fixed)
        MUST(aclrtFreePhysical(handle));
}

static void phys_of_a_reset(bool is_fixed)
{
    aclrtDrvMemHandle handle[2] = {take_phys(), take_phys()};

    MUST(aclrtFreePhysical(handle[0]));
    if (is_fixed)
        MUST(aclrtFreePhysical(handle[1]));
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
}

static void phys_that_is_mapped(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_phys();
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(va, CHUNK, 0, handle, 0));
    MUST(aclrtUnmapMem(va));
    MUST(aclrtReleaseMemAddress(va));
    if (is_fixed)
        MUST(aclrtFreePhysical(handle));
}

/* ---- leak.mapping ---- */

MISTAKE void map_it(void *va, aclrtDrvMemHandle handle)
{
    MUST(aclrtMapMem(va, CHUNK, 0, handle, 0));
}

static void forgotten_mapping(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_phys();
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    map_it(va, handle);
    MUST(aclrtFreePhysical(handle));
    if (is_fixed) {
        MUST(aclrtUnmapMem(va));
        MUST(aclrtReleaseMemAddress(va));
    } else {
        MUST(aclrtResetDevice(0)); /* unmaps it, so that the reservation can go */
        MUST(aclrtReleaseMemAddress(va));
        MUST(aclrtSetDevice(0));
    }
}

static void second_mapping(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_phys();
    void *va;

    MUST(aclrtReserveMemAddress(&va, 2 * CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(va, CHUNK, 0, handle, 0));
    map_it((char *)va + CHUNK, handle);
    MUST(aclrtUnmapMem(va));
    MUST(aclrtFreePhysical(handle));
    if (is_fixed)
        MUST(aclrtUnmapMem((char *)va + CHUNK));
    else
        MUST(aclrtResetDevice(0));
    MUST(aclrtReleaseMemAddress(va));
    if (!is_fixed)
        MUST(aclrtSetDevice(0));
}

static void mapping_of_a_loop(bool is_fixed)
{
    void *va;

    MUST(aclrtReserveMemAddress(&va, 4 * CHUNK, 0, NULL, 1));
    for (size_t i = 0; i < 4; i++) {
        aclrtDrvMemHandle handle = take_phys();

        map_it((char *)va + i * CHUNK, handle);
        MUST(aclrtFreePhysical(handle));
    }
    for (size_t i = 0; i < 4 && is_fixed; i++)
        MUST(aclrtUnmapMem((char *)va + i * CHUNK));
    if (!is_fixed) {
        MUST(aclrtResetDevice(0));
        MUST(aclrtSetDevice(0));
    }
    MUST(aclrtReleaseMemAddress(va));
}

/* ---- leak.reservation ---- */

MISTAKE void *take_addresses(size_t size)
{
    void *va;

    MUST(aclrtReserveMemAddress(&va, size, 0, NULL, 1));
    return va;
}

static void forgotten_addresses(bool is_fixed)
{
    void *va = take_addresses(CHUNK);

    if (is_fixed)
        MUST(aclrtReleaseMemAddress(va));
}

static void addresses_after_use(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_phys();
    void *va = take_addresses(16 * CHUNK);

    MUST(aclrtMapMem(va, CHUNK, 0, handle, 0));
    MUST(aclrtUnmapMem(va));
    MUST(aclrtFreePhysical(handle));
    if (is_fixed)
        MUST(aclrtReleaseMemAddress(va));
}

static void addresses_of_a_larger_range(bool is_fixed)
{
    void *small = take_addresses(CHUNK);
    void *large = take_addresses(8 * CHUNK);

    MUST(aclrtReleaseMemAddress(large));
    if (is_fixed)
        MUST(aclrtReleaseMemAddress(small));
}

/* ---- leak.stream, leak.event ---- */

MISTAKE aclrtStream take_stream(void)
{
    return stream_open();
}

static void forgotten_stream(bool is_fixed)
{
    aclrtStream stream = take_stream();

    if (is_fixed)
        MUST(aclrtDestroyStream(stream));
}

static void stream_with_work(bool is_fixed)
{
    aclrtStream stream = take_stream();
    void *block = block_open(64);

    MUST(aclrtMemsetAsync(block, 64, 0, 64, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtFree(block));
    if (is_fixed)
        MUST(aclrtDestroyStream(stream));
}

static void one_stream_of_two(bool is_fixed)
{
    aclrtStream stream[2] = {take_stream(), take_stream()};

    MUST(aclrtDestroyStream(stream[0]));
    if (is_fixed)
        MUST(aclrtDestroyStream(stream[1]));
}

MISTAKE aclrtEvent take_event(void)
{
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    return event;
}

static void forgotten_event(bool is_fixed)
{
    aclrtEvent event = take_event();

    if (is_fixed)
        MUST(aclrtDestroyEvent(event));
}

static void recorded_event(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtEvent event = take_event();

    MUST(aclrtRecordEvent(event, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
    if (is_fixed)
        MUST(aclrtDestroyEvent(event));
}

MISTAKE aclrtNotify take_notify(void)
{
    aclrtNotify notify;

    MUST(aclrtCreateNotify(&notify, 0));
    return notify;
}

static void forgotten_notify(bool is_fixed)
{
    aclrtNotify notify[2] = {take_notify(), take_notify()};

    for (int i = 0; i < 2 && is_fixed; i++)
        MUST(aclrtDestroyNotify(notify[i]));
}

/* ---- leak.host ---- */

MISTAKE void *take_pinned(size_t size)
{
    return host_open(size);
}

static void forgotten_pinned(bool is_fixed)
{
    void *block = take_pinned(4096);

    if (is_fixed)
        MUST(aclrtFreeHost(block));
}

static void pinned_of_a_loop(bool is_fixed)
{
    for (int i = 0; i < 5; i++) {
        void *block = take_pinned(100);

        if (is_fixed || i % 2 == 0)
            MUST(aclrtFreeHost(block));
    }
}

MISTAKE void register_it(void *memory)
{
    void *device;

    MUST(aclrtHostRegister(memory, 4096, ACL_HOST_REGISTER_MAPPED, &device));
}

static void registered_memory(bool is_fixed)
{
    void *memory =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    register_it(memory);
    if (is_fixed)
        MUST(aclrtHostUnregister(memory));
}

/* ---- leak.import ---- */

MISTAKE aclrtDrvMemHandle import_it(uint64_t number)
{
    aclrtDrvMemHandle handle;

    MUST(aclrtMemImportFromShareableHandle(number, 0, &handle));
    return handle;
}

static uint64_t export_it(aclrtDrvMemHandle handle)
{
    uint64_t number;

    MUST(aclrtMemExportToShareableHandle(handle, ACL_MEM_HANDLE_TYPE_NONE, 1, &number));
    return number;
}

static void forgotten_import(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_phys();
    aclrtDrvMemHandle imported = import_it(export_it(handle));

    if (is_fixed)
        MUST(aclrtFreePhysical(imported));
    MUST(aclrtFreePhysical(handle));
}

static void mapped_import(bool is_fixed)
{
    aclrtDrvMemHandle handle = take_phys();
    aclrtDrvMemHandle imported = import_it(export_it(handle));
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(va, CHUNK, 0, imported, 0));
    MUST(aclrtMemset(va, CHUNK, 1, CHUNK));
    MUST(aclrtUnmapMem(va));
    MUST(aclrtReleaseMemAddress(va));
    if (is_fixed)
        MUST(aclrtFreePhysical(imported));
    MUST(aclrtFreePhysical(handle));
}

MISTAKE void *import_key(const char *key)
{
    void *block;

    MUST(aclrtIpcMemImportByKey(&block, key, 0));
    return block;
}

static void forgotten_key(bool is_fixed)
{
    void *block = block_open(CHUNK);
    char key[65];

    MUST(aclrtIpcMemGetExportKey(block, CHUNK, key, sizeof key, 1));
    import_key(key);
    if (is_fixed)
        MUST(aclrtIpcMemClose(key));
    MUST(aclrtFree(block));
}

/* ---- leak.retain ---- */

MISTAKE aclrtDrvMemHandle retain_it(void *va)
{
    aclrtDrvMemHandle handle;

    MUST(aclrtMemRetainAllocationHandle(va, &handle));
    return handle;
}

static void retained_once_too_often(bool is_fixed)
{
    struct chunk chunk = chunk_open();

    retain_it(chunk.va);
    if (is_fixed)
        MUST(aclrtFreePhysical(chunk.handle));
    chunk_close(chunk);
}

static void retained_after_the_free(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    aclrtDrvMemHandle again = retain_it(chunk.va);

    MUST(aclrtFreePhysical(chunk.handle));
    if (is_fixed)
        MUST(aclrtFreePhysical(again));
    MUST(aclrtUnmapMem(chunk.va));
    MUST(aclrtReleaseMemAddress(chunk.va));
}

static void retained_in_a_loop(bool is_fixed)
{
    struct chunk chunk = chunk_open();

    for (int i = 0; i < 3; i++) {
        aclrtDrvMemHandle handle = retain_it((char *)chunk.va + i * 4096);

        if (is_fixed || i > 0)
            MUST(aclrtFreePhysical(handle));
    }
    chunk_close(chunk);
}

/* ---- leak.context, leak.pool ---- */

MISTAKE void take_context(void)
{
    aclrtContext context;

    MUST(aclrtCreateContext(&context, 0));
}

static void forgotten_context(bool is_fixed)
{
    aclrtContext before;
    aclrtContext context;

    MUST(aclrtGetCurrentContext(&before));
    if (!is_fixed)
        take_context();
    MUST(aclrtCreateContext(&context, 0));
    MUST(aclrtDestroyContext(context));
    MUST(aclrtSetCurrentContext(before));
}

MISTAKE aclrtMemPool take_pool(void)
{
    aclrtMemPoolProps props = pool_prop(16 * MIB);
    aclrtMemPool pool;

    MUST(aclrtMemPoolCreate(&pool, &props));
    return pool;
}

static void forgotten_pool(bool is_fixed)
{
    aclrtMemPool pool = take_pool();

    if (is_fixed)
        MUST(aclrtMemPoolDestroy(pool));
}

/* More objects are freed later than the layer remembers. */
static void event_before_many_others(bool is_fixed)
{
    aclrtEvent forgotten = take_event();
    aclrtEvent event;

    for (int i = 0; i < 65600; i++) {
        MUST(aclrtCreateEvent(&event));
        MUST(aclrtDestroyEvent(event));
    }
    if (is_fixed)
        MUST(aclrtDestroyEvent(forgotten));
}

const struct bug leak_bugs[] = {
    BUG("leak.context/forgotten", forgotten_context, "leak.context", "1 context is still",
        "take_context"),
    BUG("leak.pool/forgotten", forgotten_pool, "leak.pool", "1 pool is still",
        "take_pool"),
    BUG("leak.event/before-many", event_before_many_others, "leak.event",
        "1 event is still", "take_event"),
    BUG("leak.block/forgotten", forgotten_block, "leak.block",
        "1 block of 1.0 MB is still", "take_block"),
    BUG("leak.block/loop", blocks_of_a_loop, "leak.block", "blocks, 2.9 KB",
        "take_block"),
    BUG("leak.block/exit", block_at_the_end_of_the_process, "leak.block",
        "at the end of the process", "take_block", .ends_by_itself = true),
    BUG("leak.block/managed", managed_block, "leak.block",
        "1 managed block of 1000 bytes is still", "take_managed"),
    BUG("leak.phys/forgotten", forgotten_phys, "leak.phys",
        "1 physical allocation of 2.0 MB", "take_phys"),
    BUG("leak.phys/reset", phys_of_a_reset, "leak.phys", "at the last aclrtResetDevice",
        "take_phys", .ends_by_itself = true),
    BUG("leak.phys/mapped", phys_that_is_mapped, "leak.phys", "1 physical allocation",
        "take_phys"),
    BUG("leak.mapping/forgotten", forgotten_mapping, "leak.mapping",
        "1 mapping of 2.0 MB", "map_it"),
    BUG("leak.mapping/second", second_mapping, "leak.mapping", "1 mapping of 2.0 MB",
        "map_it"),
    BUG("leak.mapping/loop", mapping_of_a_loop, "leak.mapping", "mappings, 8.0 MB",
        "map_it"),
    BUG("leak.reservation/forgotten", forgotten_addresses, "leak.reservation",
        "1 reservation of 2.0 MB", "take_addresses"),
    BUG("leak.reservation/used", addresses_after_use, "leak.reservation",
        "1 reservation of 32.0 MB", "take_addresses"),
    BUG("leak.reservation/two", addresses_of_a_larger_range, "leak.reservation",
        "1 reservation of 2.0 MB", "take_addresses"),
    BUG("leak.stream/forgotten", forgotten_stream, "leak.stream", "1 stream is still",
        "take_stream"),
    BUG("leak.stream/worked", stream_with_work, "leak.stream", "1 stream is still",
        "take_stream"),
    BUG("leak.stream/two", one_stream_of_two, "leak.stream", "1 stream is still",
        "take_stream"),
    BUG("leak.event/forgotten", forgotten_event, "leak.event", "1 event is still",
        "take_event"),
    BUG("leak.event/recorded", recorded_event, "leak.event", "1 event is still",
        "take_event"),
    BUG("leak.event/notify", forgotten_notify, "leak.event", "notif", "take_notify"),
    BUG("leak.host/forgotten", forgotten_pinned, "leak.host", "1 pinned block of 4.0 KB",
        "take_pinned"),
    BUG("leak.host/loop", pinned_of_a_loop, "leak.host", "pinned blocks, 200 bytes",
        "take_pinned"),
    BUG("leak.host/registered", registered_memory, "leak.host",
        "1 registered range of 4.0 KB", "register_it"),
    BUG("leak.import/forgotten", forgotten_import, "leak.import", "1 imported handle",
        "import_it"),
    BUG("leak.import/mapped", mapped_import, "leak.import", "1 imported handle",
        "import_it"),
    BUG("leak.import/key", forgotten_key, "leak.import", "1 imported block",
        "import_key"),
    BUG("leak.retain/once", retained_once_too_often, "leak.retain",
        "1 physical allocation", "retain_it"),
    BUG("leak.retain/after", retained_after_the_free, "leak.retain",
        "1 physical allocation", "retain_it"),
    BUG("leak.retain/loop", retained_in_a_loop, "leak.retain", "1 physical allocation",
        "retain_it"),
    {.name = NULL},
};
