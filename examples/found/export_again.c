/*
 * A cache of physical handles forgets that a handle was exported.
 *
 * A handle that comes back from the cache is exported as if it were new.  One handle has
 * one number: it has to be kept with the handle.
 */
#include "found.h"

struct cached {
    aclrtDrvMemHandle handle;
    uint64_t number; /* 0: not exported */
};

static void share(struct cached *chunk)
{
    if (chunk->number == 0)
        MUST(aclrtMemExportToShareableHandle(chunk->handle, ACL_MEM_HANDLE_TYPE_NONE, 0,
                                             &chunk->number));
}

int main(void)
{
    struct cached first, again;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    first = (struct cached){.handle = chunk_create()};
    share(&first);
    again = (struct cached){.handle = first.handle}; /* the number is lost here */
    share(&again);
    return 0;
}
