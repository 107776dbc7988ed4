/* The door of libaclmem_fabric.so. */
#include "fabric/module.h"

#include "fabric/helper.h"

__attribute__((visibility("default"))) void aclmem_fabric_serve(int socket)
{
    am_helper_run(socket);
}
