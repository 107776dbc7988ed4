/*
 * A missing synchronisation, and how to find it.
 *
 * One stream brings numbers to the device, another brings them back, and nothing tells
 * the second to wait for the first.  That is wrong, and yet it works: the first copy
 * happens to be done in time.  It will work for months, until the machine is busy or the
 * copy is longer.
 *
 *     missing_sync                      all numbers came back
 *     ACLMEM_CHAOS=1 missing_sync       fails, on every run
 *     ACLMEM_CHAOS=1 missing_sync --fixed
 *
 * With ACLMEM_CHAOS work on streams runs as late, and streams in as odd an order, as the
 * API allows.  The number is a seed: each gives one order, always the same, so try
 * several.  With --fixed the second stream waits for an event, and no seed can break the
 * program.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "acl/acl.h"
#include "example.h"

#define N 1024
#define SIZE (N * sizeof(uint32_t))

/* How many of the numbers did not come back. */
static unsigned count_wrong(const uint32_t *numbers)
{
    unsigned n_wrong = 0;

    for (uint32_t i = 0; i < N; i++)
        n_wrong += numbers[i] != i + 1;
    return n_wrong;
}

int main(int argc, char **argv)
{
    bool is_fixed = argc > 1 && strcmp(argv[1], "--fixed") == 0;
    aclrtStream in, out;
    aclrtEvent arrived;
    uint32_t *numbers, *back;
    void *device;
    unsigned n_wrong;

    if (argc > 1 + is_fixed) {
        fprintf(stderr, "usage: missing_sync [--fixed]\n");
        return 2;
    }
    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtMalloc(&device, SIZE, ACL_MEM_MALLOC_HUGE_FIRST));
    CHECK(aclrtMallocHost((void **)&numbers, SIZE));
    CHECK(aclrtMallocHost((void **)&back, SIZE));
    CHECK(aclrtCreateStream(&in));
    CHECK(aclrtCreateStream(&out));
    CHECK(aclrtCreateEventExWithFlag(&arrived, ACL_EVENT_SYNC));
    for (uint32_t i = 0; i < N; i++)
        numbers[i] = i + 1;
    memset(back, 0, SIZE);
    CHECK(aclrtMemset(device, SIZE, 0, SIZE));

    CHECK(aclrtMemcpyAsync(device, SIZE, numbers, SIZE, ACL_MEMCPY_HOST_TO_DEVICE, in));
    if (is_fixed) {
        CHECK(aclrtRecordEvent(arrived, in));
        CHECK(aclrtStreamWaitEvent(out, arrived));
    }
    CHECK(aclrtMemcpyAsync(back, SIZE, device, SIZE, ACL_MEMCPY_DEVICE_TO_HOST, out));
    CHECK(aclrtSynchronizeStream(out));
    n_wrong = count_wrong(back);
    if (n_wrong == 0)
        printf("all %d numbers came back\n", N);
    else
        printf("%u of %d numbers did not come back: the second stream did not wait for "
               "the first copy\n",
               n_wrong, N);

    CHECK(aclrtDestroyEvent(arrived));
    CHECK(aclrtDestroyStream(in));
    CHECK(aclrtDestroyStream(out));
    CHECK(aclrtFree(device));
    CHECK(aclrtFreeHost(numbers));
    CHECK(aclrtFreeHost(back));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return n_wrong != 0;
}
