/*
 * Blocks, streams, events and copies in an order chosen by a fuzzer.
 *
 * A handful of blocks, each with a shadow of what it must hold.  All work on a block is
 * queued on the block's own stream, so the shadow is known without waiting; events between
 * streams, other streams' work, frees under queued work and wrong calls come in between.
 * Whatever the order, wrong calls give the code of the contract, and after synchronising
 * every block holds what its shadow says.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"

#define N_BLOCKS 6
#define N_STREAMS 3
#define SIZE_MAX_USED 9000

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes);

struct block {
    char *device; /* NULL: none */
    char *host;   /* pinned, of the same size */
    char *shadow; /* what the device's memory must hold once its stream is done */
    size_t size;
};

static struct block blocks[N_BLOCKS];
static aclrtStream streams[N_STREAMS];
static aclrtEvent event;

/* The input, and how far it is used up. */
static struct {
    const uint8_t *bytes;
    size_t n;
} input;

static unsigned next_to(unsigned n)
{
    if (input.n == 0)
        return 0;
    input.n--;
    return *input.bytes++ % n;
}

static size_t next_size(size_t most)
{
    return 1 + (next_to(256) << 8 | next_to(256)) % most;
}

static void want(aclError got, aclError expected, const char *what)
{
    const char *message;

    if (got == expected) {
        (void)aclGetRecentErrMsg();
        return;
    }
    message = aclGetRecentErrMsg();
    fprintf(stderr, "%s: %d, not %d: %s\n", what, got, expected, message ? message : "");
    abort();
}

#define OK(call_) want((call_), ACL_SUCCESS, #call_)
#define REFUSED(call_, code_) want((call_), (code_), #call_)

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    setenv("ACLMEM_MEMORY", "64M", 1);
    setenv("ACLMEM_LOG", "error", 1);
    return 0;
}

static aclrtStream stream_of(const struct block *b)
{
    return streams[(size_t)(b - blocks) % N_STREAMS];
}

static void block_open(struct block *b)
{
    if (b->device != NULL)
        return;
    b->size = next_size(SIZE_MAX_USED);
    OK(aclrtMalloc((void **)&b->device, b->size, ACL_MEM_MALLOC_HUGE_FIRST));
    OK(aclrtMallocHost((void **)&b->host, b->size));
    b->shadow = calloc(1, b->size);
    OK(aclrtMemsetAsync(b->device, b->size, 0, b->size, stream_of(b)));
}

/* Perhaps while work on it is queued: that is done first, or never seen again. */
static void block_close(struct block *b)
{
    char *device = b->device;

    if (device == NULL)
        return;
    if (next_to(2))
        OK(aclrtSynchronizeStream(stream_of(b)));
    REFUSED(aclrtFree(device + 1), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFree(device));
    REFUSED(aclrtFree(device), ACL_ERROR_RT_PARAM_INVALID);
    OK(aclrtFreeHost(b->host));
    REFUSED(aclrtFreeHost(b->host), ACL_ERROR_RT_PARAM_INVALID);
    free(b->shadow);
    *b = (struct block){0};
}

static void block_check(struct block *b)
{
    if (b->device == NULL)
        return;
    OK(aclrtMemcpyAsync(b->host, b->size, b->device, b->size, ACL_MEMCPY_DEVICE_TO_HOST,
                        stream_of(b)));
    OK(aclrtSynchronizeStream(stream_of(b)));
    if (memcmp(b->host, b->shadow, b->size) != 0) {
        fprintf(stderr, "a block of %zu bytes does not hold what was put there\n",
                b->size);
        abort();
    }
}

static void block_fill(struct block *b)
{
    int value = (int)next_to(256);
    size_t n;

    if (b->device == NULL)
        return;
    n = next_size(b->size);
    OK(aclrtMemsetAsync(b->device, b->size, value, n, stream_of(b)));
    memset(b->shadow, value, n);
}

/* Pinned memory is read when the copy runs, so it is not written again before that. */
static void block_upload(struct block *b)
{
    size_t n;

    if (b->device == NULL)
        return;
    OK(aclrtSynchronizeStream(stream_of(b)));
    n = next_size(b->size);
    memset(b->host, (int)next_to(256), n);
    OK(aclrtMemcpyAsync(b->device, b->size, b->host, n, ACL_MEMCPY_HOST_TO_DEVICE,
                        stream_of(b)));
    memcpy(b->shadow, b->host, n);
}

static void block_overrun(struct block *b)
{
    if (b->device == NULL)
        return;
    REFUSED(aclrtMemset(b->device, SIZE_MAX_USED * 4, 1, SIZE_MAX_USED * 4),
            ACL_ERROR_RT_PARAM_INVALID);
    REFUSED(aclrtMemcpyAsync(b->device, b->size - 1, b->host, b->size,
                             ACL_MEMCPY_HOST_TO_DEVICE, stream_of(b)),
            ACL_ERROR_INVALID_PARAM);
}

/* One stream waits for what another has queued so far. */
static void streams_join(void)
{
    aclrtStream from = streams[next_to(N_STREAMS)];
    aclrtStream to = streams[next_to(N_STREAMS)];

    OK(aclrtRecordEvent(event, from));
    OK(aclrtStreamWaitEvent(to, event));
    if (next_to(4) == 0)
        OK(aclrtSynchronizeEvent(event));
}

/* A stream ends with what it has to do; its blocks go on on a new one. */
static void stream_renew(void)
{
    size_t i = next_to(N_STREAMS);
    aclrtStream old = streams[i];

    OK(aclrtDestroyStream(old));
    REFUSED(aclrtSynchronizeStream(old), ACL_ERROR_RT_INVALID_HANDLE);
    OK(aclrtCreateStream(&streams[i]));
}

static void step(void)
{
    unsigned what = next_to(9);
    struct block *b = &blocks[next_to(N_BLOCKS)];

    switch (what) {
    case 0:
    case 1:
        block_open(b);
        break;
    case 2:
        block_close(b);
        break;
    case 3:
        block_fill(b);
        break;
    case 4:
        block_upload(b);
        break;
    case 5:
        block_check(b);
        break;
    case 6:
        block_overrun(b);
        break;
    case 7:
        streams_join();
        break;
    default:
        stream_renew();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n_bytes)
{
    aclmem_stats stats;

    input.bytes = bytes;
    input.n = n_bytes;
    OK(aclInit(NULL));
    OK(aclrtSetDevice(0));
    for (int i = 0; i < N_STREAMS; i++)
        OK(aclrtCreateStream(&streams[i]));
    OK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    while (input.n > 0)
        step();
    for (int i = 0; i < N_BLOCKS; i++) {
        block_check(&blocks[i]);
        block_close(&blocks[i]);
    }
    OK(aclrtResetDevice(0)); /* with the streams and the event */
    OK(aclmem_get_stats(&stats));
    if (stats.blocks != 0 || stats.host_blocks != 0)
        abort();
    OK(aclFinalize());
    return 0;
}
