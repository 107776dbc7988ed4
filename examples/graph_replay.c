/*
 * Capture a decode step once, replay it for each token.
 *
 * A decode step brings a token to the device, appends it to the KV cache of each layer, and
 * brings back what the host needs to choose the next token.  The cache is a sliding window:
 * its rows move by one, and the last row is the new token.  The work of two streams is
 * captured; the second stream joins the capture by an event and comes back by an event.
 *
 * A model stores addresses and not memory.  So the program can free the physical memory of
 * the cache between two replays and map other memory at the same address (sleep and wake),
 * and each replay reads the pinned token as it is then.
 */
#include <stdint.h>
#include <string.h>

#include "acl/acl.h"
#include "example.h"

#define N_LAYERS 4
#define WINDOW 8
#define ROW 256
#define LAYER ((size_t)WINDOW * ROW)
#define CACHE (2 * MB)
#define N_STEPS 24

struct cache {
    char *addr; /* reserved for as long as the program runs */
    aclrtDrvMemHandle handle;
};

struct step {
    uint8_t *token;  /* pinned: a row that goes in */
    uint8_t *oldest; /* pinned: the first row of the last layer, which comes out */
    char *scratch;   /* device memory */
};

static void cache_map(struct cache *cache)
{
    CHECK(aclrtMallocPhysical(&cache->handle, CACHE, &device_memory, 0));
    CHECK(aclrtMapMem(cache->addr, CACHE, 0, cache->handle, 0));
}

static void cache_unmap(struct cache *cache)
{
    CHECK(aclrtUnmapMem(cache->addr));
    CHECK(aclrtFreePhysical(cache->handle));
}

/* Gives the memory to other programs for a while. */
static void sleep_and_wake(struct cache *cache)
{
    static char saved[N_LAYERS * LAYER];

    CHECK(aclrtMemcpy(saved, sizeof saved, cache->addr, sizeof saved,
                      ACL_MEMCPY_DEVICE_TO_HOST));
    cache_unmap(cache);
    printf("asleep: %zu MB free\n", free_memory() / MB);
    cache_map(cache);
    CHECK(aclrtMemcpy(cache->addr, sizeof saved, saved, sizeof saved,
                      ACL_MEMCPY_HOST_TO_DEVICE));
}

/* The host chooses the next token from what came back. */
static void choose_token(void *arg)
{
    struct step *step = arg;

    for (size_t i = 0; i < ROW; i++)
        step->token[i] = (uint8_t)(step->token[i] * 5 + step->oldest[i] + 1);
}

static void copy_rows(char *dst, const void *src, size_t size, aclrtMemcpyKind kind,
                      aclrtStream stream)
{
    CHECK(aclrtMemcpyAsync(dst, size, src, size, kind, stream));
}

static void append_token(struct step *step, char *layer, char *scratch,
                         aclrtStream stream)
{
    copy_rows(scratch, layer + ROW, LAYER - ROW, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
    copy_rows(layer, scratch, LAYER - ROW, ACL_MEMCPY_DEVICE_TO_DEVICE, stream);
    copy_rows(layer + LAYER - ROW, step->token, ROW, ACL_MEMCPY_HOST_TO_DEVICE, stream);
}

/* The stream `to` continues after what `from` has done so far. */
static void order(aclrtStream to, aclrtStream from)
{
    aclrtEvent event;

    CHECK(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC));
    CHECK(aclrtRecordEvent(event, from));
    CHECK(aclrtStreamWaitEvent(to, event));
    CHECK(aclrtDestroyEvent(event)); /* the model keeps the order */
}

static aclmdlRI capture_step(struct step *step, struct cache *cache, aclrtStream stream,
                             aclrtStream side)
{
    aclmdlRI model;

    CHECK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    order(side, stream); /* the second stream joins */
    for (size_t i = 0; i < N_LAYERS; i++)
        append_token(step, cache->addr + i * LAYER, step->scratch + i % 2 * LAYER,
                     i % 2 == 0 ? stream : side);
    order(stream, side); /* and comes back */
    copy_rows((char *)step->oldest, cache->addr + (N_LAYERS - 1) * LAYER, ROW,
              ACL_MEMCPY_DEVICE_TO_HOST, stream);
    CHECK(aclrtLaunchHostFunc(stream, choose_token, step));
    CHECK(aclmdlRICaptureEnd(stream, &model));
    return model;
}

/* The same steps with plain arrays. */
static int is_right(const struct step *step)
{
    uint8_t window[WINDOW][ROW] = {{0}}, token[ROW] = {0};

    for (int i = 0; i < N_STEPS; i++) {
        memmove(window[0], window[1], LAYER - ROW);
        memcpy(window[WINDOW - 1], token, ROW);
        for (size_t k = 0; k < ROW; k++)
            token[k] = (uint8_t)(token[k] * 5 + window[0][k] + 1);
    }
    return memcmp(token, step->token, ROW) == 0;
}

int main(void)
{
    struct cache cache;
    struct step step;
    aclrtStream stream, side;
    aclmdlRI model;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtCreateStream(&side));
    CHECK(aclrtMallocHost((void **)&step.token, ROW));
    CHECK(aclrtMallocHost((void **)&step.oldest, ROW));
    CHECK(aclrtMalloc((void **)&step.scratch, 2 * LAYER, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtReserveMemAddress((void **)&cache.addr, CACHE, 0, NULL, 1));
    cache_map(&cache);
    CHECK(aclrtMemset(cache.addr, CACHE, 0, CACHE));
    memset(step.token, 0, ROW);

    model = capture_step(&step, &cache, stream, side);
    for (int i = 0; i < N_STEPS; i++) {
        CHECK(aclmdlRIExecuteAsync(model, stream));
        if (i % 8 == 7) {
            CHECK(aclrtSynchronizeStream(stream));
            sleep_and_wake(&cache);
        }
    }
    CHECK(aclrtSynchronizeStream(stream));
    if (!is_right(&step)) {
        fprintf(stderr, "the tokens are wrong\n");
        return 1;
    }
    printf("%d tokens from one captured step\n", N_STEPS);

    CHECK(aclmdlRIDestroy(model));
    cache_unmap(&cache);
    CHECK(aclrtReleaseMemAddress(cache.addr));
    CHECK(aclrtFree(step.scratch));
    CHECK(aclrtFreeHost(step.token));
    CHECK(aclrtFreeHost(step.oldest));
    CHECK(aclrtDestroyStream(side));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
