/*
 * A KV cache in one machine's memory, served to others.
 *
 *     remote_kv serve            exports a cache, prints its handle, and waits for Enter
 *     remote_kv use HANDLE       imports it on another machine: writes a sequence's blocks,
 *                                reads them back, and tells how fast
 *     remote_kv                  both of it, in this process
 *
 * examples/remote_kv.sh makes two machines of one (network namespaces) and runs both there.
 * Between machines the program needs ACLMEM_PRODUCT=A3, ACLMEM_FABRIC and
 * ACLMEM_FABRIC_KEY; nothing in it is about a network.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "acl/acl.h"

#define BLOCK ((size_t)1 << 20) /* the keys and values of a few tokens */
#define N_BLOCKS ((size_t)32)
#define SIZE (BLOCK * N_BLOCKS)

#define CHECK(call) \
    do { \
        if ((call) != ACL_SUCCESS) { \
            fprintf(stderr, "%s\n", aclGetRecentErrMsg()); \
            exit(1); \
        } \
    } while (0)

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char *mapped(aclrtDrvMemHandle handle)
{
    void *addr;

    CHECK(aclrtReserveMemAddress(&addr, SIZE, 0, NULL, 1));
    CHECK(aclrtMapMem(addr, SIZE, 0, handle, 0));
    return addr;
}

static void unmap(char *addr)
{
    CHECK(aclrtUnmapMem(addr));
    CHECK(aclrtReleaseMemAddress(addr));
}

/* Memory of the device, and the 128 bytes by which another machine has it too. */
static aclrtDrvMemHandle cache_export(aclrtMemFabricHandle *fabric)
{
    aclrtPhysicalMemProp prop = {
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };
    aclrtDrvMemHandle handle;

    CHECK(aclrtMallocPhysical(&handle, SIZE, &prop, 0));
    CHECK(aclrtMemExportToShareableHandleV2(handle,
                                            ACL_RT_VMM_EXPORT_FLAG_DISABLE_PID_VALIDATION,
                                            ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, fabric));
    return handle;
}

/* Every block there and back, on a stream. */
static void cache_use(const aclrtMemFabricHandle *fabric)
{
    aclrtMemFabricHandle copy = *fabric;
    aclrtDrvMemHandle handle;
    aclrtStream stream;
    uint8_t *sent, *back;
    double begun;
    char *cache;

    CHECK(aclrtMemImportFromShareableHandleV2(&copy, ACL_MEM_SHARE_HANDLE_TYPE_FABRIC, 0,
                                              &handle));
    cache = mapped(handle);
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMallocHost((void **)&sent, SIZE));
    CHECK(aclrtMallocHost((void **)&back, SIZE));
    for (size_t i = 0; i < SIZE; i++)
        sent[i] = (uint8_t)(i * 7 + i / BLOCK);
    begun = now();
    for (size_t i = 0; i < N_BLOCKS; i++)
        CHECK(aclrtMemcpyAsync(cache + i * BLOCK, BLOCK, sent + i * BLOCK, BLOCK,
                               ACL_MEMCPY_HOST_TO_DEVICE, stream));
    for (size_t i = 0; i < N_BLOCKS; i++)
        CHECK(aclrtMemcpyAsync(back + i * BLOCK, BLOCK, cache + i * BLOCK, BLOCK,
                               ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclrtSynchronizeStream(stream));
    printf("%zu blocks there and back: %s, %.0f MB/s\n", N_BLOCKS,
           memcmp(sent, back, SIZE) == 0 ? "the same bytes" : "OTHER BYTES",
           2 * (double)SIZE / (now() - begun) / 1e6);
    CHECK(aclrtFreeHost(sent));
    CHECK(aclrtFreeHost(back));
    CHECK(aclrtDestroyStream(stream));
    unmap(cache);
    CHECK(aclrtFreePhysical(handle));
}

static void serve(void)
{
    aclrtMemFabricHandle fabric;
    aclrtDrvMemHandle handle = cache_export(&fabric);
    char *cache = mapped(handle);
    uint8_t first[4];

    for (size_t i = 0; i < sizeof fabric; i++)
        printf("%02x", fabric.data[i]);
    printf("\n");
    fflush(stdout);
    getchar();
    CHECK(
        aclrtMemcpy(first, sizeof first, cache, sizeof first, ACL_MEMCPY_DEVICE_TO_HOST));
    printf("the cache begins with %d %d %d %d\n", first[0], first[1], first[2], first[3]);
    unmap(cache);
    CHECK(aclrtFreePhysical(handle));
}

static void use(const char *hex)
{
    aclrtMemFabricHandle fabric = {{0}};

    for (size_t i = 0; i < sizeof fabric; i++) {
        unsigned byte;

        if (sscanf(hex + 2 * i, "%2x", &byte) != 1) {
            fprintf(stderr, "a handle has %zu hexadecimal digits\n", 2 * sizeof fabric);
            exit(2);
        }
        fabric.data[i] = (uint8_t)byte;
    }
    cache_use(&fabric);
}

int main(int argc, char **argv)
{
    setenv("ACLMEM_PRODUCT", "A3", 0); /* the product with fabric handles */
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    if (argc == 2 && strcmp(argv[1], "serve") == 0) {
        serve();
    } else if (argc == 3 && strcmp(argv[1], "use") == 0) {
        use(argv[2]);
    } else if (argc == 1) {
        aclrtMemFabricHandle fabric;
        aclrtDrvMemHandle handle = cache_export(&fabric);

        if (getenv("ACLMEM_RULES") == NULL) /* strict rules: not in the same process */
            cache_use(&fabric);
        CHECK(aclrtFreePhysical(handle));
    } else {
        fprintf(stderr, "usage: remote_kv [serve | use HANDLE]\n");
        return 2;
    }
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
