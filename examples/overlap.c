/*
 * Overlapped copies: while one stream brings the next piece to the device, another works on
 * the piece before, and a third takes the result back.  Events keep the order.
 *
 * The "kernel" adds one to every byte: a host function that copies the piece out of device
 * memory, works on it and copies it back, so that it runs on every backend.  On an NPU a
 * kernel launch stands there.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "example.h"

#define PIECE ((size_t)128 << 10)
#define N_PIECES 16
#define N_BUFFERS 2 /* one is filled while the other is worked on */

struct job {
    aclrtContext context;
    unsigned char *device;
    unsigned char bytes[PIECE]; /* the kernel's own */
};

static void add_one(void *args)
{
    struct job *job = args;

    CHECK(aclrtSetCurrentContext(job->context)); /* a thread of the stream has none */
    CHECK(aclrtMemcpy(job->bytes, PIECE, job->device, PIECE, ACL_MEMCPY_DEVICE_TO_HOST));
    for (size_t i = 0; i < PIECE; i++)
        job->bytes[i]++;
    CHECK(aclrtMemcpy(job->device, PIECE, job->bytes, PIECE, ACL_MEMCPY_HOST_TO_DEVICE));
}

static bool is_right(const unsigned char *result)
{
    for (size_t i = 0; i < PIECE * N_PIECES; i++) {
        if (result[i] != (unsigned char)(i / PIECE + 1))
            return false;
    }
    return true;
}

int main(void)
{
    aclrtStream in, work, out;
    aclrtEvent arrived[N_PIECES], done[N_PIECES], taken[N_PIECES];
    static struct job job[N_BUFFERS];
    unsigned char *host, *result;
    bool is_good;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&in));
    CHECK(aclrtCreateStream(&work));
    CHECK(aclrtCreateStream(&out));
    CHECK(aclrtMallocHost((void **)&host, PIECE * N_PIECES));
    CHECK(aclrtMallocHost((void **)&result, PIECE * N_PIECES));
    for (size_t i = 0; i < PIECE * N_PIECES; i++)
        host[i] = (unsigned char)(i / PIECE);
    for (int b = 0; b < N_BUFFERS; b++) {
        CHECK(aclrtGetCurrentContext(&job[b].context));
        CHECK(aclrtMalloc((void **)&job[b].device, PIECE, ACL_MEM_MALLOC_HUGE_FIRST));
    }

    for (size_t i = 0; i < N_PIECES; i++) {
        struct job *j = &job[i % N_BUFFERS];

        CHECK(aclrtCreateEventExWithFlag(&arrived[i], ACL_EVENT_SYNC));
        CHECK(aclrtCreateEventExWithFlag(&done[i], ACL_EVENT_SYNC));
        CHECK(aclrtCreateEventExWithFlag(&taken[i], ACL_EVENT_SYNC));
        if (i >= N_BUFFERS) /* the buffer is free when its last result is out */
            CHECK(aclrtStreamWaitEvent(in, taken[i - N_BUFFERS]));
        CHECK(aclrtMemcpyAsync(j->device, PIECE, host + i * PIECE, PIECE,
                               ACL_MEMCPY_HOST_TO_DEVICE, in));
        CHECK(aclrtRecordEvent(arrived[i], in));
        CHECK(aclrtStreamWaitEvent(work, arrived[i]));
        CHECK(aclrtLaunchHostFunc(work, add_one, j));
        CHECK(aclrtRecordEvent(done[i], work));
        CHECK(aclrtStreamWaitEvent(out, done[i]));
        CHECK(aclrtMemcpyAsync(result + i * PIECE, PIECE, j->device, PIECE,
                               ACL_MEMCPY_DEVICE_TO_HOST, out));
        CHECK(aclrtRecordEvent(taken[i], out));
    }
    printf("queued %d pieces of %zu KB through %d buffers on three streams\n", N_PIECES,
           PIECE >> 10, N_BUFFERS);
    CHECK(aclrtSynchronizeDevice());
    is_good = is_right(result);
    printf("all results are %s\n", is_good ? "right" : "wrong");

    for (int i = 0; i < N_PIECES; i++) {
        CHECK(aclrtDestroyEvent(arrived[i]));
        CHECK(aclrtDestroyEvent(done[i]));
        CHECK(aclrtDestroyEvent(taken[i]));
    }
    for (int b = 0; b < N_BUFFERS; b++)
        CHECK(aclrtFree(job[b].device));
    CHECK(aclrtFreeHost(host));
    CHECK(aclrtFreeHost(result));
    CHECK(aclrtDestroyStream(in));
    CHECK(aclrtDestroyStream(work));
    CHECK(aclrtDestroyStream(out));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return !is_good;
}
