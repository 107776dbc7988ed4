/*
 * Mistakes inside wrappers: the innermost frame is the same for right and wrong calls.
 * good() and bad() call the same wrappers; in bad() only the third of three equal calls is
 * wrong.  bad() leaks one block.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"

#define SIZE ((size_t)4 << 20)

static void *block_alloc(void)
{
    void *block = NULL;

    if (aclrtMalloc(&block, SIZE, ACL_MEM_MALLOC_HUGE_FIRST) != ACL_SUCCESS)
        exit(1);
    return block;
}

static void block_free(void *block)
{
    (void)aclrtFree(block);
}

static void block_fill(void *block)
{
    (void)aclrtMemset(block, SIZE, 1, SIZE);
}

static void good(void)
{
    void *block = block_alloc();

    block_fill(block);
    block_free(block);
}

static void bad(void)
{
    void *block = block_alloc();

    (void)block_alloc();
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            block_free(block);
        block_fill(block);
    }
}

int main(void)
{
    if (aclInit(NULL) != ACL_SUCCESS || aclrtSetDevice(0) != ACL_SUCCESS)
        return 1;
    good();
    bad();
    return 0;
}
