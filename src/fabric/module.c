/* The functions that libaclmem_fabric.so exports. */
#include "fabric/module.h"

#include "fabric/helper.h"
#include "fabric/ping.h"

__attribute__((visibility("default"))) void
aclmem_fabric_serve(int socket, const struct am_listen *listening)
{
    am_helper_run(socket, listening);
}

__attribute__((visibility("default"))) int
aclmem_fabric_ping(const char *where, const char *key_path, unsigned timeout_s)
{
    return am_ping(where, key_path, timeout_s);
}
