/*
 * A buffer is registered, unregistered and registered again.
 *
 * Registering takes a key for the block, and unregistering does not close it, so the
 * block has a key when it is registered the second time.
 */
#include "found.h"

static char key[65];

static void buffer_register(void *buffer)
{
    MUST(aclrtIpcMemGetExportKey(buffer, CHUNK, key, sizeof key, 0));
}

static void buffer_unregister(void *buffer)
{
    key[0] = '\0'; /* aclrtIpcMemClose(key) belongs here */
}

int main(void)
{
    void *buffer;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtMalloc(&buffer, CHUNK, ACL_MEM_MALLOC_HUGE_FIRST));
    buffer_register(buffer);
    buffer_unregister(buffer);
    buffer_register(buffer);
    return 0;
}
