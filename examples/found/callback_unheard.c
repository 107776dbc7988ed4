/*
 * A callback is launched on a stream that no thread is subscribed to.
 *
 * aclrtSubscribeReport names the thread that runs a stream's callbacks; without it nothing
 * would ever run them.
 */
#include "found.h"

static void done(void *data)
{
    *(int *)data = 1;
}

int main(void)
{
    static int is_done;
    aclrtStream stream;

    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    MUST(aclrtCreateStream(&stream));
    MUST(aclrtLaunchCallback(done, &is_done, ACL_CALLBACK_NO_BLOCK, stream));
    return 0;
}
