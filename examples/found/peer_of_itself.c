/*
 * Peer access is enabled towards the current device, before it was changed.
 *
 * A copy from device 0 to device 1 wants access from 1 to 0, and the call is made while 0 is
 * current: the device is its own peer.
 */
#include "found.h"

static void peers_connect(int source, int destination)
{
    /* aclrtSetDevice(destination) belongs here */
    MUST(aclrtDeviceEnablePeerAccess(source, 0));
}

int main(void)
{
    MUST(aclInit(NULL));
    MUST(aclrtSetDevice(0));
    peers_connect(0, 1);
    return 0;
}
