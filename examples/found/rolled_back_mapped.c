/*
 * A segment grows chunk by chunk until memory runs out.  The roll-back puts the handles of
 * the chunks that were mapped into the list of free handles, and does not unmap them.
 *
 * The next growth takes a handle from the list and maps it over memory that is mapped.
 */
#include "found.h"

#define N_CHUNKS 4

static aclrtDrvMemHandle free_handles[N_CHUNKS];
static int n_free;

/* How many chunks were mapped; -1: memory ran out. */
static int segment_grow(char *start, int n_chunks, int n_allowed)
{
    for (int i = 0; i < n_chunks; i++) {
        aclrtDrvMemHandle handle;

        if (i == n_allowed)
            return -1; /* aclrtUnmapMem of the chunks before belongs here */
        handle = n_free > 0 ? free_handles[--n_free] : chunk_create();
        MUST(aclrtMapMem(start + i * CHUNK, CHUNK, 0, handle, 0));
        if (n_allowed < n_chunks)
            free_handles[n_free++] = handle;
    }
    return n_chunks;
}

int main(void)
{
    void *start;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtReserveMemAddress(&start, N_CHUNKS * CHUNK, 0, NULL, 1));
    if (segment_grow(start, 2, 1) < 0)
        segment_grow(start, 1, 1);
    return 0;
}
