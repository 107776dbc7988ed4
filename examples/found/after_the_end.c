/*
 * A static object gives its memory back when the program ends: after aclFinalize.
 *
 * Destructors of static objects and functions of atexit run when main has returned.
 */
#include "found.h"

static void *block;

static void cache_drop(void)
{
    MUST(aclrtFree(block));
}

int main(void)
{
    atexit(cache_drop);
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtMalloc(&block, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    MUST(aclFinalize());
    return 0;
}
