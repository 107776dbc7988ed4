/*
 * A pluggable allocator whose memory can sleep: the addresses stay, the physical memory is returned to the device.
 * The Python side saves and restores the contents.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "acl/acl.h"

#define PAGE ((size_t)2 << 20)
#define N_BLOCKS 4096

struct block {
    void *address;
    size_t size;
    aclrtDrvMemHandle handle;
    int is_mapped;
};

static struct block blocks[N_BLOCKS];
int n_allocs;
int n_frees;

static struct block *block_find(void *address)
{
    for (int i = 0; i < N_BLOCKS; i++)
        if (blocks[i].address == address)
            return &blocks[i];
    return NULL;
}

/* 0: the block has memory. */
int create_and_map(void *address)
{
    struct block *block = block_find(address);
    aclrtPhysicalMemProp prop = {
        .handleType = ACL_MEM_HANDLE_TYPE_NONE,
        .allocationType = ACL_MEM_ALLOCATION_TYPE_PINNED,
        .memAttr = ACL_HBM_MEM_HUGE,
        .location = {.id = 0, .type = ACL_MEM_LOCATION_TYPE_DEVICE},
    };

    if (aclrtMallocPhysical(&block->handle, block->size, &prop, 0) != ACL_SUCCESS ||
        aclrtMapMem(block->address, block->size, 0, block->handle, 0) != ACL_SUCCESS)
        return 1;
    block->is_mapped = 1;
    return 0;
}

int unmap_and_release(void *address)
{
    struct block *block = block_find(address);

    block->is_mapped = 0;
    return aclrtUnmapMem(block->address) != ACL_SUCCESS || aclrtFreePhysical(block->handle) != ACL_SUCCESS;
}

void *my_malloc(ptrdiff_t size, int device, aclrtStream stream)
{
    struct block *block = block_find(NULL);

    (void)device;
    (void)stream;
    n_allocs++;
    block->size = ((size_t)size + PAGE - 1) / PAGE * PAGE;
    if (aclrtReserveMemAddress(&block->address, block->size, 0, NULL, 0) != ACL_SUCCESS)
        return NULL;
    return create_and_map(block->address) == 0 ? block->address : NULL;
}

void my_free(void *address, ptrdiff_t size, int device, aclrtStream stream)
{
    struct block *block = block_find(address);

    (void)size;
    (void)device;
    n_frees++;
    aclrtSynchronizeStream(stream); /* queued operators use the block */
    if (block->is_mapped)
        unmap_and_release(address);
    aclrtReleaseMemAddress(address);
    block->address = NULL;
}

/* The i-th block; its size, or 0. */
size_t block_at(int i, void **address)
{
    *address = blocks[i].address;
    return blocks[i].address != NULL ? blocks[i].size : 0;
}
