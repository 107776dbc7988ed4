/*
 * A cache splits a block in two and hands the parts out.  When it is emptied, it frees each
 * part by its own address.
 *
 * Only the address that aclrtMalloc gave can be freed: the parts have to be joined first.
 */
#include "found.h"

int main(void)
{
    void *block;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtMalloc(&block, 2 * CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclrtFree((char *)block + CHUNK)); /* the second part */
    MUST(aclrtFree(block));
    return 0;
}
