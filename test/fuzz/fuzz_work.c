/*
 * Work on streams, in an order chosen by a fuzzer.
 *
 * Blocks of all kinds, three streams, and between them everything that moves bytes or
 * orders work: copies in all their forms, fills, events, notifies, values, functions of
 * the program; streams that fail, are stopped, aborted and destroyed under their work;
 * frees under queued work, and wrong calls in between.  The first byte is the seed of
 * ACLMEM_CHAOS, or none.  Whatever the order, after synchronising every block holds what
 * its shadow says (work.h), every function has run once, and nothing is left.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/work.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("ACLMEM_MEMORY", "64M", 1);
    setenv("ACLMEM_LOG", "error", 1);
    for (size_t i = 0; i < INK_SIZE; i++)
        plain_ink[i] = registered_ink[i] = (char)(i * 31 + i / 251);
    return 0;
}

static void choose_chaos(void)
{
    unsigned seed = next_to(64);
    char text[16];

    snprintf(text, sizeof(text), "%u", seed);
    if (seed < 24)
        unsetenv("ACLMEM_CHAOS");
    else
        setenv("ACLMEM_CHAOS", text, 1);
}

static void lane_begin(struct lane *l)
{
    OK(aclrtCreateStream(&l->stream));
    OK(aclrtMalloc((void **)&l->table, 128 * (N_SLOTS + 1), ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMemset(l->table, 128, 0, 128));
}

static void begin(void)
{
    aclrtMemPoolProps props = {.allocType = ACL_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {0, ACL_MEM_LOCATION_TYPE_DEVICE},
                               .maxSize = 2 << 20};

    memset(&work, 0, sizeof(work));
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    for (int i = 0; i < N_LANES; i++)
        lane_begin(&work.lanes[i]);
    OK(aclrtCreateStream(&work.rescue));
    OK(aclrtCreateEventExWithFlag(&work.event, ACL_EVENT_SYNC));
    for (int i = 0; i < N_NOTIFIES; i++) {
        OK(aclrtCreateNotify(&work.notifies[i], 0));
        work.recorders[i] = -1;
    }
    OK(aclrtMemPoolCreate(&work.pool, &props));
    OK(aclrtMemPoolMallocAsync((void **)&work.ballast, (2 << 20) - POOL_LEFT, work.pool,
                               work.rescue));
    OK(aclrtMallocHost((void **)&work.ink, INK_SIZE));
    memcpy(work.ink, plain_ink, INK_SIZE);
    OK(aclrtHostRegisterV2(registered_ink, INK_SIZE, ACL_HOST_REG_MAPPED));
    OK(aclrtReserveMemAddress((void **)&work.hole, 2 << 20, 0, NULL, 0));
}

/* Streams, the event and the notifies go with the device. */
static void end(void)
{
    aclmem_stats stats;

    for (int i = 0; i < N_BLOCKS; i++) {
        block_check(&work.blocks[i]);
        block_close(&work.blocks[i]);
    }
    sync_all();
    OK(aclrtMemPoolFreeAsync(work.ballast, work.rescue));
    OK(aclrtMemPoolDestroy(work.pool));
    for (int i = 0; i < N_LANES; i++)
        OK(aclrtFree(work.lanes[i].table));
    OK(aclrtHostUnregister(registered_ink));
    OK(aclrtFreeHost(work.ink));
    OK(aclrtReleaseMemAddress(work.hole));
    OK(aclrtResetDevice(0));
    OK(aclmem_get_stats(&stats));
    if (stats.blocks + stats.host_blocks + stats.reservations + stats.views != 0)
        wrong("something is alive after everything was freed");
    OK(aclFinalize());
    for (size_t i = 0; i < work.n_calls; i++)
        work.calls[i].has_run = false;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    input_set(bytes, n_bytes);
    choose_chaos();
    begin();
    while (!input_is_dry())
        work_step();
    end();
    return 0;
}
