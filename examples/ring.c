/*
 * A pinned ring buffer: a few slots of page-locked host memory feed a stream of uploads
 * that is larger than all of them.  A slot is filled again only when the copy that read it
 * is done, which its event tells.
 */
#include <stdio.h>
#include <string.h>

#include "acl/acl.h"
#include "aclmem/aclmem.h"
#include "example.h"

#define SLOT_BYTES 100000                         /* any size */
#define STRIDE aclmem_suballoc_stride(SLOT_BYTES) /* what a slot takes, on either side */
#define N_SLOTS 4
#define N_CHUNKS 64

struct slot {
    char *host;
    aclrtEvent read; /* recorded behind the last copy out of it */
};

/* Cut one block of pinned memory into slots, each with the padding that the API asks for. */
static void slots_open(struct slot *slots, char *block)
{
    for (size_t i = 0; i < N_SLOTS; i++) {
        slots[i].host = block + i * STRIDE;
        CHECK(aclrtCreateEventExWithFlag(&slots[i].read, ACL_EVENT_SYNC));
    }
}

int main(void)
{
    struct slot slots[N_SLOTS];
    static char back[SLOT_BYTES];
    aclrtStream stream;
    char *block, *device;
    int n_wrong = 0;

    CHECK(aclInit(NULL));
    CHECK(aclrtSetDevice(0));
    CHECK(aclrtCreateStream(&stream));
    CHECK(aclrtMallocHost((void **)&block, N_SLOTS * STRIDE));
    CHECK(aclrtMalloc((void **)&device, N_CHUNKS * STRIDE, ACL_MEM_MALLOC_HUGE_FIRST));
    slots_open(slots, block);

    for (int i = 0; i < N_CHUNKS; i++) {
        struct slot *slot = &slots[i % N_SLOTS];

        CHECK(aclrtSynchronizeEvent(slot->read)); /* at once for a slot never used */
        memset(slot->host, i, SLOT_BYTES);
        CHECK(aclrtMemcpyAsync(device + (size_t)i * STRIDE, SLOT_BYTES, slot->host,
                               SLOT_BYTES, ACL_MEMCPY_HOST_TO_DEVICE, stream));
        CHECK(aclrtRecordEvent(slot->read, stream));
    }
    CHECK(aclrtSynchronizeStream(stream));
    printf("%d chunks of %d bytes went through %d slots of %zu\n", N_CHUNKS, SLOT_BYTES,
           N_SLOTS, (size_t)STRIDE);

    for (int i = 0; i < N_CHUNKS; i++) {
        CHECK(aclrtMemcpy(back, sizeof back, device + (size_t)i * STRIDE, SLOT_BYTES,
                          ACL_MEMCPY_DEVICE_TO_HOST));
        n_wrong += back[0] != (char)i || memcmp(back, back + 1, SLOT_BYTES - 1) != 0;
    }
    printf("chunks that arrived wrong: %d\n", n_wrong);

    for (size_t i = 0; i < N_SLOTS; i++)
        CHECK(aclrtDestroyEvent(slots[i].read));
    CHECK(aclrtDestroyStream(stream));
    CHECK(aclrtFreeHost(block));
    CHECK(aclrtFree(device));
    CHECK(aclrtResetDevice(0));
    CHECK(aclFinalize());
    return n_wrong != 0;
}
