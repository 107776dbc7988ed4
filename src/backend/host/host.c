/* The host backend's table, and the one place where an errno becomes an error code. */
#include "backend/host/host.h"

#include <stdio.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/machine.h"
#include "base/sys.h"

/* How many mappings the process has now: one a line of /proc/self/maps. */
static unsigned long map_count(void)
{
    FILE *file = fopen("/proc/self/maps", "re");
    unsigned long n = 0;
    int c;

    if (file == NULL)
        return 0;
    while ((c = getc_unlocked(file)) != EOF)
        n += c == '\n';
    fclose(file);
    return n;
}

/* ENOMEM of mmap and relatives: too many mappings, or no address space left? */
static aclError host_error_enomem(const char *what, size_t size)
{
    size_t limit = am_machine_sysctl("vm", "max_map_count");

    if (limit != 0 && map_count() + 8 >= limit) /* the kernel wants room for splits */
        return am_fail(
            ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
            "%s of %zu bytes: the process has as many mappings as the system allows "
            "(vm.max_map_count is %zu); raise it with sysctl -w vm.max_map_count=N",
            what, size, limit);
    return am_fail(
        ACL_ERROR_RT_MEMORY_ALLOCATION,
        "Failed to allocate: %s of %zu bytes: the system has no memory or address "
        "space left for it (see ulimit -v and the container's limits; a device takes "
        "less with a smaller ACLMEM_MEMORY)",
        what, size);
}

aclError host_error(int error, const char *what, size_t size)
{
    char why[AM_SHORTAGE_SIZE];

    switch (error) {
    case ENOMEM:
    case EAGAIN:
        return host_error_enomem(what, size);
    case ENOSPC:
    case EOVERFLOW:
        return am_fail(ACL_ERROR_RT_MEMORY_ALLOCATION,
                       "Failed to allocate: %s of %zu bytes: %s", what, size,
                       strerror(error));
    case ENFILE:
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL,
                       "%s of %zu bytes: no file descriptor is left on the machine "
                       "(fs.file-max is %zu); raise it with sysctl -w fs.file-max=N",
                       what, size, am_machine_sysctl("fs", "file-max"));
    case EMFILE:
    case EFBIG:
        return am_fail(ACL_ERROR_RT_RESOURCE_ALLOC_FAIL, "%s of %zu bytes: %s", what,
                       size, am_shortage(error, why));
    default:
        return am_fail(ACL_ERROR_RT_INTERNAL_ERROR, "%s of %zu bytes: %s", what, size,
                       strerror(error));
    }
}

const struct am_backend_ops am_backend_host = {
    .name = "host",
    .caps = AM_CAP_HOST_VIEW | AM_CAP_MAP_PART | AM_CAP_SHARE | AM_CAP_FABRIC,
#define HOST_OP_SET(name_) .name_ = host_##name_,
    HOST_OPS(HOST_OP_SET)};
