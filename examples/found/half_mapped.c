/*
 * A segment is grown chunk by chunk, and one of the mappings fails.
 *
 * The chunks that were created are in the list already, mapped or not, so undoing the
 * growth unmaps addresses with nothing behind them.  In a destructor that throws, this is
 * the end of the program.
 */
#include "found.h"

int main(void)
{
    aclrtDrvMemHandle handles[3];
    void *start;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtReserveMemAddress(&start, 2 * CHUNK, 0, NULL, 1));
    for (int i = 0; i < 3; i++)
        handles[i] = chunk_create();
    for (int i = 0; i < 3; i++) {
        if (aclrtMapMem((char *)start + i * CHUNK, CHUNK, 0, handles[i], 0) !=
            ACL_SUCCESS)
            break; /* the third has no room */
    }
    for (int i = 0; i < 3; i++) {
        MUST(aclrtUnmapMem((char *)start + i * CHUNK));
        MUST(aclrtFreePhysical(handles[i]));
    }
    return 0;
}
