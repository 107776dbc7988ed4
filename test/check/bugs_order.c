/* Work that nothing orders.  The same is found whether it came out right or not. */
#include "bugs.h"

#include <pthread.h>
#include <sys/mman.h>

MISTAKE void read_on(aclrtStream stream, void *host, const void *device, size_t size)
{
    MUST(aclrtMemcpyAsync(host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST, stream));
}

MISTAKE void copy_by_addresses(aclrtStream stream, void **table)
{
    MUST(aclrtMemcpyAsyncWithOffset(table, 100, 0, (const void **)(table + 1), 100, 1000,
                                    ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, stream));
}

/* Two streams and no event between them. */
static void no_event(bool is_fixed)
{
    aclrtStream writer = stream_open();
    aclrtStream reader = stream_open();
    void *block = block_open(4096);
    void *host = host_open(4096);
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, writer));
    if (is_fixed) {
        MUST(aclrtRecordEvent(event, writer));
        MUST(aclrtStreamWaitEvent(reader, event));
    }
    read_on(reader, host, block, 4096);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(writer));
    MUST(aclrtDestroyStream(reader));
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
}

/* Addresses in device memory: the block that they name is written by another stream. */
static void addresses_in_memory(bool is_fixed)
{
    aclrtStream writer = stream_open();
    aclrtStream reader = stream_open();
    void *block = block_open(4096);
    void *copy = block_open(4096);
    void **table = block_open(2 * sizeof *table);
    void *addresses[] = {copy, block};

    MUST(aclrtMemcpy(table, sizeof addresses, addresses, sizeof addresses,
                     ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclrtMemsetAsync((char *)block + 1000, 8, 1, 8, writer));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(writer));
    copy_by_addresses(reader, table);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(writer));
    MUST(aclrtDestroyStream(reader));
    MUST(aclrtFree(table));
    MUST(aclrtFree(copy));
    MUST(aclrtFree(block));
}

/* The event is recorded before the work that it should stand for. */
static void recorded_too_early(bool is_fixed)
{
    aclrtStream writer = stream_open();
    aclrtStream reader = stream_open();
    void *block = block_open(4096);
    void *host = host_open(4096);
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    if (!is_fixed)
        MUST(aclrtRecordEvent(event, writer));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, writer));
    if (is_fixed)
        MUST(aclrtRecordEvent(event, writer));
    MUST(aclrtStreamWaitEvent(reader, event));
    read_on(reader, host, block, 4096);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(writer));
    MUST(aclrtDestroyStream(reader));
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
}

MISTAKE void read_now(void *host, const void *device, size_t size)
{
    MUST(aclrtMemcpy(host, size, device, size, ACL_MEMCPY_DEVICE_TO_HOST));
}

/* The host reads without waiting, or after waiting for another stream. */
static void wrong_stream(bool is_fixed)
{
    aclrtStream writer = stream_open();
    aclrtStream other = stream_open();
    void *block = block_open(4096);
    char host[64];

    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, writer));
    MUST(aclrtSynchronizeStream(is_fixed ? writer : other));
    read_now(host, (char *)block + 4000, 64);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(writer));
    MUST(aclrtDestroyStream(other));
    MUST(aclrtFree(block));
}

MISTAKE void write_on(aclrtStream stream, void *device, size_t size)
{
    MUST(aclrtMemsetAsync(device, size, 2, size, stream));
}

/* Two streams use one memory of a pool, the second one after a free and an allocation. */
static void pool_block_of_another_stream(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtMemPool pool = pool_open(CHUNK);
    void *block;

    MUST(aclrtMemPoolMallocAsync(&block, 4096, pool, first));
    write_on(first, block, 4096);
    MUST(aclrtMemPoolFreeAsync(block, first));
    MUST(aclrtMemPoolMallocAsync(&block, 4096, pool, first));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(first));
    write_on(second, block, 4096);
    MUST(aclrtSynchronizeStream(second));
    MUST(aclrtMemPoolFreeAsync(block, first));
    MUST(aclrtSynchronizeStream(first));
    MUST(aclrtMemPoolDestroy(pool));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
}

/* One memory at two addresses. */
static void two_addresses(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    struct chunk chunk = chunk_open();
    void *again;

    MUST(aclrtReserveMemAddress(&again, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(again, CHUNK, 0, chunk.handle, 0));
    MUST(aclrtMemsetAsync(chunk.va, 100, 1, 100, first));
    write_on(second, (char *)again + (is_fixed ? 100 : 99), 100);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtUnmapMem(again));
    MUST(aclrtReleaseMemAddress(again));
    chunk_close(chunk);
}

/* Unmapped and mapped again elsewhere: the bytes have not forgotten. */
static void mapped_elsewhere(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    struct chunk chunk = chunk_open();
    void *again;

    MUST(aclrtReserveMemAddress(&again, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(again, CHUNK, 0, chunk.handle, 0));
    MUST(aclrtMemsetAsync(again, CHUNK, 1, CHUNK, first));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(first));
    write_on(second, chunk.va, 64);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtUnmapMem(again));
    MUST(aclrtReleaseMemAddress(again));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    chunk_close(chunk);
}

/* ---- no mistakes: what orders, and what does not meet ---- */

static void halves_of_a_block(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *block = block_open(2000);

    MUST(aclrtMemsetAsync(block, 1000, 1, 1000, first));
    write_on(second, (char *)block + 1000, 1000);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtFree(block));
}

static void destroyed_stream(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(1000);
    char host[1000];

    write_on(stream, block, 1000);
    MUST(aclrtDestroyStream(stream));
    read_now(host, block, 1000);
    MUST(aclrtFree(block));
}

static void polled_event(bool is_fixed)
{
    aclrtEventRecordedStatus status = ACL_EVENT_RECORDED_STATUS_NOT_READY;
    aclrtStream stream = stream_open();
    void *block = block_open(1000);
    aclrtEvent event;
    char host[1000];

    MUST(aclrtCreateEvent(&event));
    write_on(stream, block, 1000);
    MUST(aclrtRecordEvent(event, stream));
    while (status != ACL_EVENT_RECORDED_STATUS_COMPLETE)
        MUST(aclrtQueryEventStatus(event, &status));
    read_now(host, block, 1000);
    MUST(aclrtFree(block));
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(stream));
}

static void wait_before_the_record(bool is_fixed)
{
    aclrtStream writer = stream_open();
    aclrtStream reader = stream_open();
    void *block = block_open(64);
    void *host = host_open(64);
    aclrtEvent event;

    MUST(aclrtCreateEvent(&event));
    MUST(aclrtStreamWaitEvent(reader, event)); /* for the record to come */
    read_on(reader, host, block, 64);
    MUST(aclrtMemsetAsync(block, 64, 1, 64, writer));
    MUST(aclrtRecordEvent(event, writer));
    MUST(aclrtSynchronizeStream(reader));
    MUST(aclrtFree(block)); /* the reader's end is behind the writer's */
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(writer));
    MUST(aclrtDestroyStream(reader));
}

static void notify_between(bool is_fixed)
{
    aclrtStream writer = stream_open();
    aclrtStream reader = stream_open();
    void *block = block_open(64);
    void *host = host_open(64);
    aclrtNotify notify;

    MUST(aclrtCreateNotify(&notify, 0));
    for (int i = 0; i < 3; i++) {
        MUST(aclrtWaitAndResetNotify(notify, reader, 0));
        read_on(reader, host, block, 64);
        MUST(aclrtMemsetAsync(block, 64, i, 64, writer));
        MUST(aclrtRecordNotify(notify, writer));
        MUST(aclrtSynchronizeStream(reader));
    }
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
    MUST(aclrtDestroyNotify(notify));
    MUST(aclrtDestroyStream(writer));
    MUST(aclrtDestroyStream(reader));
}

struct told {
    _Atomic int is_done;
};

static void tell(void *arg)
{
    ((struct told *)arg)->is_done = 1;
}

/* The program waits for a function that it put into the stream. */
static void function_as_signal(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(64);
    struct told told = {0};

    write_on(stream, block, 64);
    MUST(aclrtLaunchHostFunc(stream, tell, &told));
    while (!told.is_done)
        ;
    MUST(aclrtFree(block));
    MUST(aclrtDestroyStream(stream));
}

/* Threads that use the library and the layer at the same time, each its own objects. */
static void *work_by_itself(void *arg)
{
    MUST(aclrtSetDevice(0));
    for (int i = 0; i < 20; i++) {
        aclrtStream stream = stream_open();
        struct chunk chunk = chunk_open();
        void *block = block_open(4096);
        char *host = host_open(4096);
        aclrtEvent event;

        MUST(aclrtCreateEvent(&event));
        memset(host, i, 4096);
        MUST(
            aclrtMemcpyAsync(block, 4096, host, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        MUST(aclrtMemcpyAsync(chunk.va, 4096, block, 4096, ACL_MEMCPY_DEVICE_TO_DEVICE,
                              stream));
        read_on(stream, host, chunk.va, 4096);
        MUST(aclrtRecordEvent(event, stream));
        MUST(aclrtSynchronizeEvent(event));
        if (host[i] != i)
            abort();
        MUST(aclrtDestroyEvent(event));
        MUST(aclrtFreeHost(host));
        MUST(aclrtFree(block));
        chunk_close(chunk);
        MUST(aclrtDestroyStream(stream));
    }
    MUST(aclrtResetDevice(0));
    return NULL;
}

static void threads_by_themselves(bool is_fixed)
{
    pthread_t thread[4];

    for (int i = 0; i < 4; i++) {
        if (pthread_create(&thread[i], NULL, work_by_itself, NULL) != 0)
            abort();
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

/* Each thread may be the last that resets device 1, and ends what the others have there. */
static void *reset_under_others(void *arg)
{
    for (int i = 0; i < 50; i++) {
        aclrtStream stream;

        MUST(aclrtSetDevice(1));
        if (aclrtCreateStream(&stream) == ACL_SUCCESS &&
            aclrtSynchronizeStream(stream) == ACL_SUCCESS)
            aclrtDestroyStream(stream);
        MUST(aclrtResetDevice(1));
    }
    return NULL;
}

static void threads_that_reset(bool is_fixed)
{
    pthread_t thread[4];

    for (int i = 0; i < 4; i++) {
        if (pthread_create(&thread[i], NULL, reset_under_others, NULL) != 0)
            abort();
    }
    for (int i = 0; i < 4; i++)
        pthread_join(thread[i], NULL);
}

/* ---- functions on streams ---- */

static void nothing(void *arg)
{
}

/* A function that ran does not order work behind it with the host. */
static void behind_a_function(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *block = block_open(4096);
    char host[64];

    MUST(aclrtLaunchHostFunc(second, nothing, NULL));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, second));
    MUST(aclrtSynchronizeStream(is_fixed ? second : first));
    read_now(host, block, 64);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtFree(block));
}

/* The host does not wait for the function. */
static void before_a_function(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(4096);
    char host[64];

    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, stream));
    MUST(aclrtLaunchHostFunc(stream, nothing, NULL));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    read_now(host, block, 64);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(block));
}

/* The host writes while work behind the function waits for it. */
MISTAKE void fill_now(void *block)
{
    MUST(aclrtMemset(block, 4096, 2, 4096));
}

static void write_behind_a_function(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(4096);
    struct gate gate;

    gate_hold(&gate, stream);
    if (is_fixed)
        fill_now(block);
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, stream));
    if (!is_fixed)
        fill_now(block);
    gate_let(&gate);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(block));
}

/* Eight streams read, and the writer waits for all but the first. */
static void many_readers(bool is_fixed)
{
    aclrtStream writer = stream_open();
    aclrtStream reader[8];
    aclrtEvent event;
    void *block = block_open(4096);
    void *host = host_open((size_t)8 * 4096);

    MUST(aclrtMemset(block, 4096, 1, 4096));
    for (int i = 0; i < 8; i++) {
        reader[i] = stream_open();
        MUST(aclrtMemcpyAsync((char *)host + (size_t)i * 4096, 4096, block, 4096,
                              ACL_MEMCPY_DEVICE_TO_HOST, reader[i]));
        MUST(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
        MUST(aclrtRecordEvent(event, reader[i]));
        if (i > 0 || is_fixed)
            MUST(aclrtStreamWaitEvent(writer, event));
        MUST(aclrtDestroyEvent(event));
    }
    write_on(writer, block, 4096);
    MUST(aclrtSynchronizeDevice());
    for (int i = 0; i < 8; i++)
        MUST(aclrtDestroyStream(reader[i]));
    MUST(aclrtDestroyStream(writer));
    MUST(aclrtFree(block));
    MUST(aclrtFreeHost(host));
}

/* Two records may each end the wait for a notify: it is sure to be after neither. */
static void one_wait_for_two_records(bool is_fixed)
{
    aclrtStream s[3] = {stream_open(), stream_open(), stream_open()};
    aclrtNotify notify;
    void *block = block_open(4096);

    MUST(aclrtCreateNotify(&notify, 0));
    if (!is_fixed)
        MUST(aclrtRecordNotify(notify, s[1]));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, s[0]));
    MUST(aclrtRecordNotify(notify, s[0]));
    MUST(aclrtWaitAndResetNotify(notify, s[2], 0));
    write_on(s[2], block, 4096);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyNotify(notify));
    for (int i = 0; i < 3; i++)
        MUST(aclrtDestroyStream(s[i]));
    MUST(aclrtFree(block));
}

/* A reset takes away what a record before it had ordered. */
static void notify_that_was_reset(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtStream third = stream_open();
    aclrtNotify notify;
    void *block = block_open(4096);

    MUST(aclrtCreateNotify(&notify, 0));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, first));
    MUST(aclrtRecordNotify(notify, first));
    if (!is_fixed) {
        MUST(aclrtNotifyBatchReset(&notify, 1));
        MUST(aclrtRecordNotify(notify, third));
    }
    MUST(aclrtWaitAndResetNotify(notify, second, 0));
    write_on(second, block, 4096);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyNotify(notify));
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtDestroyStream(third));
    MUST(aclrtFree(block));
}

/* Unregistering waits for the work that uses the memory, and for no more. */
static void unregistered(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *own =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    void *block = block_open(4096);
    void *device;
    char host[64];

    MUST(aclrtHostRegister(own, 4096, ACL_HOST_REGISTER_MAPPED, &device));
    MUST(aclrtMemcpyAsync(block, 4096, own, 4096, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, stream));
    MUST(aclrtHostUnregister(own));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    read_now(host, block, 64);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(block));
    munmap(own, 4096);
}

/* Memory that this process exported and imported is one memory. */
static void second_mapping_written(struct chunk chunk, aclrtDrvMemHandle imported,
                                   bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *va;

    MUST(aclrtReserveMemAddress(&va, CHUNK, 0, NULL, 1));
    MUST(aclrtMapMem(va, CHUNK, 0, imported, 0));
    MUST(aclrtMemsetAsync(chunk.va, 100, 1, 100, first));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(first));
    write_on(second, va, 100);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtUnmapMem(va));
    MUST(aclrtFreePhysical(imported));
    MUST(aclrtReleaseMemAddress(va));
    chunk_close(chunk);
}

static void imported_in_this_process(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    aclrtDrvMemHandle imported;
    uint64_t number;

    MUST(aclrtMemExportToShareableHandle(chunk.handle, ACL_MEM_HANDLE_TYPE_NONE, 1,
                                         &number));
    MUST(aclrtMemImportFromShareableHandle(number, 0, &imported));
    second_mapping_written(chunk, imported, is_fixed);
}

/* The same by a handle that is valid on other machines too. */
static void imported_by_fabric_handle(bool is_fixed)
{
    struct chunk chunk = chunk_open();
    aclrtMemFabricHandle shared;
    aclrtDrvMemHandle imported;

    MUST(aclrtMemExportToShareableHandleV2(chunk.handle, 1,
                                           ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, &shared));
    MUST(aclrtMemImportFromShareableHandleV2(&shared, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0,
                                             &imported));
    second_mapping_written(chunk, imported, is_fixed);
}

/* The same by a key. */
static void imported_by_key(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *block = block_open(CHUNK);
    char key[ACL_IPC_HANDLE_SIZE];
    void *imported;

    MUST(aclrtIpcMemGetExportKey(block, CHUNK, key, sizeof key, 1));
    MUST(aclrtIpcMemImportByKey(&imported, key, 0));
    MUST(aclrtMemsetAsync(block, 100, 1, 100, first));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(first));
    write_on(second, imported, 100);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtIpcMemClose(key));
    MUST(aclrtFree(block));
}

MISTAKE void close_it(const char *key)
{
    MUST(aclrtIpcMemClose(key));
}

/* The import ends while a stream uses its address. */
static void import_closed(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(CHUNK);
    char key[ACL_IPC_HANDLE_SIZE];
    void *imported;

    MUST(aclrtIpcMemGetExportKey(block, CHUNK, key, sizeof key, 1));
    MUST(aclrtIpcMemImportByKey(&imported, key, 0));
    write_on(stream, imported, 100);
    write_on(stream, (char *)block + 100, 100);
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    close_it(key);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(block));
}

/* Synchronising a persistent stream returns at once. */
static void persistent_stream(bool is_fixed)
{
    void *block = block_open(4096);
    aclrtStream stream;
    char host[64];

    MUST(aclrtCreateStreamWithConfig(&stream, 0, is_fixed ? 0 : ACL_STREAM_PERSISTENT));
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, stream));
    MUST(aclrtSynchronizeStream(stream));
    read_now(host, block, 64);
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(block));
}

/* Any number of functions have run; the one behind the work that matters has not. */
static void after_many_functions(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(4096);
    char host[64];

    for (int i = 0; i < 100; i++) {
        MUST(aclrtLaunchHostFunc(stream, nothing, NULL));
        MUST(aclrtSynchronizeStream(stream));
    }
    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, stream));
    MUST(aclrtLaunchHostFunc(stream, nothing, NULL));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    read_now(host, block, 64);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(block));
}

/* The host waits, and not for the stream with the function. */
static void other_stream_waited_for(bool is_fixed)
{
    aclrtStream stream = stream_open();
    aclrtStream other = stream_open();
    void *block = block_open(4096);
    void *filled = block_open(MIB);
    char host[64];

    MUST(aclrtMemsetAsync(block, 4096, 1, 4096, stream));
    MUST(aclrtLaunchHostFunc(stream, nothing, NULL));
    for (int i = 0; i < 20; i++) {
        MUST(aclrtMemsetAsync(filled, MIB, 1, MIB, other));
        MUST(aclrtSynchronizeStream(is_fixed ? stream : other));
    }
    read_now(host, block, 64);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtDestroyStream(other));
    MUST(aclrtFree(block));
    MUST(aclrtFree(filled));
}

/* A value that is written before the work that the other stream needs. */
static void value_too_small(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *block = block_open(4096);
    void *value = block_open(64);

    MUST(aclrtMemset(value, 64, 0, 64));
    MUST(aclrtValueWrite(value, 1, 0, first));
    MUST(aclrtMemsetAsync(block, 100, 1, 100, first));
    MUST(aclrtValueWrite(value, 2, 0, first));
    MUST(aclrtValueWait(value, is_fixed ? 2 : 1, ACL_VALUE_WAIT_GEQ, second));
    write_on(second, block, 100);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtFree(block));
    MUST(aclrtFree(value));
}

/* The value was in memory before, so the wait for it orders nothing. */
static void value_in_memory(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *block = block_open(4096);
    void *value = block_open(64);
    uint64_t one = 1;

    MUST(aclrtMemcpy(value, 64, &one, sizeof one, ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclrtMemsetAsync(block, 100, 1, 100, first));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(first));
    MUST(aclrtValueWait(value, 1, ACL_VALUE_WAIT_EQ, second));
    write_on(second, block, 100);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtFree(block));
    MUST(aclrtFree(value));
}

/* The value was in memory before another one is written: either ends the wait. */
static void value_before_the_first(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    void *block = block_open(4096);
    void *value = block_open(64);
    uint64_t one = 1;

    MUST(aclrtMemcpy(value, 64, &one, sizeof one, ACL_MEMCPY_HOST_TO_DEVICE));
    MUST(aclrtMemsetAsync(block, 100, 1, 100, first));
    MUST(aclrtValueWrite(value, 2, 0, first));
    MUST(aclrtValueWait(value, is_fixed ? 2 : 1, ACL_VALUE_WAIT_GEQ, second));
    write_on(second, block, 100);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtFree(block));
    MUST(aclrtFree(value));
}

/* The host polls for a value that is written before the work that it needs. */
static void value_polled_too_early(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *block = block_open(4096);
    void *value = block_open(64);
    uint64_t seen = 0;

    MUST(aclrtMemset(value, 64, 0, 64));
    MUST(aclrtValueWrite(value, is_fixed ? 1 : 2, 0, stream));
    MUST(aclrtMemsetAsync(block, 100, 1, 100, stream));
    MUST(aclrtValueWrite(value, 2, 0, stream));
    while (seen != 2)
        MUST(aclrtMemcpy(&seen, sizeof seen, value, sizeof seen,
                         ACL_MEMCPY_DEVICE_TO_HOST));
    read_now(&seen, block, sizeof seen);
    MUST(aclrtDestroyStream(stream));
    MUST(aclrtFree(block));
    MUST(aclrtFree(value));
}

/* A word is freed while a stream that a function holds back is to write it. */
MISTAKE void free_word(void *value)
{
    MUST(aclrtFree(value));
}

static void word_freed(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *value = block_open(64);
    struct gate gate;

    gate_hold(&gate, stream);
    MUST(aclrtValueWrite(value, 1, 0, stream));
    if (!is_fixed)
        free_word(value);
    gate_let(&gate);
    MUST(aclrtSynchronizeStream(stream));
    if (is_fixed)
        free_word(value);
    MUST(aclrtDestroyStream(stream));
}

static void waited_word_freed(bool is_fixed)
{
    aclrtStream stream = stream_open();
    void *value = block_open(64);

    MUST(aclrtValueWrite(value, 1, 0, stream));
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtValueWait(value, 1, ACL_VALUE_WAIT_EQ, stream));
    if (is_fixed)
        MUST(aclrtSynchronizeStream(stream));
    free_word(value);
    MUST(aclrtSynchronizeStream(stream));
    MUST(aclrtDestroyStream(stream));
}

/* Two streams write the value that ends the wait; one of them is held back. */
static void value_of_two_streams(bool is_fixed)
{
    aclrtStream first = stream_open();
    aclrtStream second = stream_open();
    aclrtStream third = stream_open();
    void *block = block_open(4096);
    void *value = block_open(64);
    struct gate gate;

    MUST(aclrtMemset(value, 64, 0, 64));
    MUST(aclrtValueWrite(value, 1, 0, first));
    gate_hold(&gate, third);
    MUST(aclrtMemsetAsync(block, 100, 1, 100, third));
    MUST(aclrtValueWrite(value, is_fixed ? 2 : 1, 0, third));
    MUST(aclrtValueWait(value, is_fixed ? 2 : 1, ACL_VALUE_WAIT_EQ, second));
    write_on(second, block, 100);
    gate_let(&gate);
    MUST(aclrtSynchronizeDevice());
    MUST(aclrtDestroyStream(first));
    MUST(aclrtDestroyStream(second));
    MUST(aclrtDestroyStream(third));
    MUST(aclrtFree(block));
    MUST(aclrtFree(value));
}

const struct bug order_bugs[] = {
    BUG("race/no-event", no_event, "race", "which stream", "read_on"),
    BUG("race/addresses", addresses_in_memory, "race", "reads byte 1000",
        "copy_by_addresses"),
    BUG("race/early", recorded_too_early, "race", "reads byte 0 of the block", "read_on"),
    BUG("race/wrong-stream", wrong_stream, "race", "the host reads byte 4000",
        "read_now"),
    BUG("race/two-addresses", two_addresses, "race",
        "writes byte 99 of the physical allocation", "write_on"),
    BUG("race/mapped", mapped_elsewhere, "race", "writes byte 0 of the physical",
        "write_on"),
    BUG("race/behind-function", behind_a_function, "race", "the host read", "read_now"),
    BUG("race/before-function", before_a_function, "race", "the host reads", "read_now"),
    BUG("race/many-functions", after_many_functions, "race", "the host reads",
        "read_now"),
    BUG("race/other-stream", other_stream_waited_for, "race", "the host reads",
        "read_now"),
    BUG("race/write-behind", write_behind_a_function, "race", "which the host wrote",
        "fill_now"),
    BUG("race/readers", many_readers, "race", "read, and nothing orders", "write_on"),
    BUG("race/notify-twice", one_wait_for_two_records, "race", "wrote", "write_on"),
    BUG("race/notify-reset", notify_that_was_reset, "race", "wrote", "write_on"),
    BUG("race/unregister", unregistered, "race", "the host reads", "read_now"),
    BUG("race/import", imported_in_this_process, "race", "wrote", "write_on"),
    BUG("race/import-key", imported_by_key, "race", "wrote", "write_on"),
    BUG("race/import-fabric", imported_by_fabric_handle, "race", "wrote", "write_on",
        .product = "A3"),
    BUG("race/value-small", value_too_small, "race", "wrote", "write_on"),
    BUG("race/value-there", value_in_memory, "race", "wrote", "write_on"),
    BUG("race/value-before", value_before_the_first, "race", "wrote", "write_on"),
    BUG("race/value-two", value_of_two_streams, "race", "wrote", "write_on"),
    BUG("race/value-polled", value_polled_too_early, "race", "the host reads",
        "read_now"),
    BUG("free-in-use/key", import_closed, "free-in-use", "the imported block",
        "close_it"),
    BUG("free-in-use/value", word_freed, "free-in-use", "writes it", "free_word"),
    BUG("free-in-use/value-wait", waited_word_freed, "free-in-use", "reads it",
        "free_word"),
    BUG("race/pool", pool_block_of_another_stream, "race", "allocated", "write_on"),
    BUG("race/persistent", persistent_stream, "race", "the host reads", "read_now"),
    BUG("none/halves", halves_of_a_block, "", "", ""),
    BUG("none/destroyed", destroyed_stream, "", "", ""),
    BUG("none/polled", polled_event, "", "", ""),
    BUG("none/wait-first", wait_before_the_record, "", "", ""),
    BUG("none/notify", notify_between, "", "", ""),
    BUG("none/function", function_as_signal, "", "", ""),
    BUG("none/threads", threads_by_themselves, "", "", "",
        .options = "--check all,no-uninit-read"),
    BUG("none/resets", threads_that_reset, "", "", ""),
    {.name = NULL},
};
