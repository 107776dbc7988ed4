/* See copy_kind.h. */
#include "base/copy_kind.h"

#include "base/util.h"

/*
 * By the value of aclrtMemcpyKind.  The pages of aclrtMemcpy and aclrtMemcpyAsync list kinds 0
 * to 4 in every edition since 8.0.  Later editions added the other kinds.
 */
static const char *const names[] = {
    "HOST_TO_HOST",
    "HOST_TO_DEVICE",
    "DEVICE_TO_HOST",
    "DEVICE_TO_DEVICE",
    "DEFAULT",
    "HOST_TO_BUF_TO_DEVICE",
    "INNER_DEVICE_TO_DEVICE",
    "INTER_DEVICE_TO_DEVICE",
};
static const unsigned kind_default = 4; /* the addresses give the direction */

const char *am_copy_kind_name(unsigned kind)
{
    return kind < AM_ARRAY_SIZE(names) ? names[kind] : "a value that is not known";
}

unsigned am_copy_kind_of(bool to_device, bool from_device)
{
    return (to_device ? 1 : 0) + (from_device ? 2 : 0);
}

bool am_copy_kind_is_portable(unsigned kind, bool to_device, bool from_device)
{
    return kind == kind_default || kind == am_copy_kind_of(to_device, from_device);
}
