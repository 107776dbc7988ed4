/*
 * Two captured models without an order between them, and how to find it.
 *
 * One model writes a KV cache (prefill), another one reads it (decode).  They are replayed
 * on two streams, and nothing tells the second stream to wait for the first one.  Each
 * model is correct, and most runs are as well.
 *
 *     graph_order                    often right
 *     aclmem run graph_order         reports the race, with both captures and both replays
 *     aclmem run graph_order --fixed
 */
#include <stdbool.h>
#include <string.h>

#include "acl/acl.h"
#include "example.h"

#define SIZE 4096

static aclmdlRI capture_prefill(aclrtStream stream, void *cache, const void *prompt)
{
    aclmdlRI model;

    CHECK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CHECK(aclrtMemcpyAsync(cache, SIZE, prompt, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, stream));
    CHECK(aclmdlRICaptureEnd(stream, &model));
    return model;
}

static aclmdlRI capture_decode(aclrtStream stream, void *token, const void *cache)
{
    aclmdlRI model;

    CHECK(aclmdlRICaptureBegin(stream, ACL_MODEL_RI_CAPTURE_MODE_GLOBAL));
    CHECK(aclrtMemcpyAsync(token, SIZE, cache, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, stream));
    CHECK(aclmdlRICaptureEnd(stream, &model));
    return model;
}

int main(int argc, char **argv)
{
    bool is_fixed = argc > 1 && strcmp(argv[1], "--fixed") == 0;
    aclrtStream first, second;
    aclmdlRI prefill, decode;
    aclrtEvent filled;
    void *cache, *prompt, *token;

    if (argc > 1 + is_fixed) {
        fprintf(stderr, "usage: graph_order [--fixed]\n");
        return 2;
    }
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&first));
    CHECK(aclrtCreateStream(&second));
    CHECK(aclrtCreateEventExWithFlag(&filled, ACL_EVENT_SYNC));
    CHECK(aclrtMalloc(&cache, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMallocHost(&prompt, SIZE));
    CHECK(aclrtMallocHost(&token, SIZE));
    memset(prompt, 7, SIZE);
    prefill = capture_prefill(first, cache, prompt);
    decode = capture_decode(second, token, cache);

    CHECK(aclmdlRIExecuteAsync(prefill, first));
    if (is_fixed) {
        CHECK(aclrtRecordEvent(filled, first));
        CHECK(aclrtStreamWaitEvent(second, filled));
    }
    CHECK(aclmdlRIExecuteAsync(decode, second));
    CHECK(aclrtSynchronizeDevice());
    printf("replayed\n");

    CHECK(aclmdlRIDestroy(prefill));
    CHECK(aclmdlRIDestroy(decode));
    CHECK(aclrtDestroyEvent(filled));
    CHECK(aclrtDestroyStream(first));
    CHECK(aclrtDestroyStream(second));
    CHECK(aclrtFree(cache));
    CHECK(aclrtFreeHost(prompt));
    CHECK(aclrtFreeHost(token));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return 0;
}
