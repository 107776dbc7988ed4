/*
 * Makes calls of many kinds, the same ones each time: player CALLS [THREADS].
 *
 * Blocks come and go by a generator of numbers, physical memory is mapped twice and
 * outlives its handle, work goes to two streams with an event between them, some calls
 * fail.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define SLOTS 64
#define PIECE ((size_t)2 << 20)

static void must(aclError rc, const char *what)
{
    if (rc == ACL_SUCCESS)
        return;
    fprintf(stderr, "%s: %d %s\n", what, rc, aclGetRecentErrMsg());
    exit(1);
}
#define MUST(call_) must(call_, #call_)

struct player {
    uint64_t random;
    unsigned n_calls;
    unsigned index;
};

static uint32_t draw(struct player *p, uint32_t below)
{
    p->random = p->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(p->random >> 33) % below;
}

static void *block_take(size_t size)
{
    void *block;

    MUST(aclrtMalloc(&block, size, ACL_MEM_MALLOC_HUGE_FIRST));
    return block;
}

static void blocks_play(struct player *p)
{
    void *block[SLOTS] = {NULL};

    for (unsigned i = 0; i < p->n_calls; i++) {
        unsigned slot = draw(p, SLOTS);

        if (block[slot] != NULL) {
            MUST(aclrtFree(block[slot]));
            block[slot] = NULL;
        } else {
            block[slot] = block_take((size_t)(draw(p, 200) + 1) << (draw(p, 6) + 6));
        }
    }
    for (unsigned i = 0; i < SLOTS; i++) {
        if (block[i] != NULL)
            MUST(aclrtFree(block[i]));
    }
}

/* One handle at two addresses; its memory outlives it. */
static void mappings_play(void)
{
    aclrtPhysicalMemProp prop = {.memAttr = ACL_HBM_MEM_HUGE,
                                 .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE}};
    aclrtDrvMemHandle handle;
    char *va;

    MUST(aclrtReserveMemAddress((void **)&va, 4 * PIECE, 0, NULL, 1));
    MUST(aclrtMallocPhysical(&handle, PIECE, &prop, 0));
    MUST(aclrtMapMem(va, PIECE, 0, handle, 0));
    MUST(aclrtMapMem(va + 2 * PIECE, PIECE, 0, handle, 0));
    MUST(aclrtFreePhysical(handle));
    MUST(aclrtMemset(va, PIECE, 1, PIECE));
    MUST(aclrtUnmapMem(va));
    MUST(aclrtUnmapMem(va + 2 * PIECE));
    if (aclrtUnmapMem(va) == ACL_SUCCESS)
        exit(2);
    MUST(aclrtReleaseMemAddress(va));
}

static void streams_play(void)
{
    aclrtStream stream[2];
    aclrtEvent event;
    void *host;
    char *device = block_take(1 << 20);

    MUST(aclrtMallocHost(&host, 1 << 20));
    MUST(aclrtCreateEvent(&event));
    MUST(aclrtCreateStream(&stream[0]));
    MUST(aclrtCreateStream(&stream[1]));
    for (int i = 0; i < 4; i++) {
        MUST(aclrtMemcpyAsync(device, 1 << 20, host, 1 << 20, ACL_MEMCPY_HOST_TO_DEVICE,
                              stream[0]));
        MUST(aclrtRecordEvent(event, stream[0]));
        MUST(aclrtStreamWaitEvent(stream[1], event));
        MUST(aclrtMemcpyAsync(host, 1 << 20, device, 1 << 20, ACL_MEMCPY_DEVICE_TO_HOST,
                              stream[1]));
        MUST(aclrtSynchronizeStream(stream[1]));
    }
    MUST(aclrtDestroyEvent(event));
    MUST(aclrtDestroyStream(stream[0]));
    MUST(aclrtDestroyStream(stream[1]));
    MUST(aclrtFreeHost(host));
    MUST(aclrtFree(device));
}

static void *thread_run(void *arg)
{
    struct player *p = arg;

    MUST(aclrtSetDevice(0));
    blocks_play(p);
    MUST(aclrtResetDevice(0));
    return NULL;
}

int main(int argc, char **argv)
{
    unsigned n = argc > 1 ? (unsigned)atoi(argv[1]) : 1000;
    unsigned n_threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
    struct player players[16];
    pthread_t thread[16];

    n_threads = n_threads < 16 ? n_threads : 16;
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    mappings_play();
    streams_play();
    for (unsigned i = 0; i < n_threads; i++) {
        players[i] = (struct player){.random = i, .n_calls = n / n_threads, .index = i};
        if (pthread_create(&thread[i], NULL, thread_run, &players[i]) != 0)
            return 1;
    }
    for (unsigned i = 0; i < n_threads; i++)
        pthread_join(thread[i], NULL);
    MUST(aclrtResetDevice(0));
    MUST(aclFinalize());
    return 0;
}
