/* The kinds of a copy: one table for strict rules and for portability findings. */
#ifndef AM_BASE_COPY_KIND_H
#define AM_BASE_COPY_KIND_H

#include <stdbool.h>

/* The name of an aclrtMemcpyKind without ACL_MEMCPY_: "HOST_TO_DEVICE". */
const char *am_copy_kind_name(unsigned kind);
/* The kind from 0 to 3 that matches the two sides. */
unsigned am_copy_kind_of(bool to_device, bool from_device);
/* Whether every edition since 8.0 accepts `kind` for a copy with these sides. */
bool am_copy_kind_is_portable(unsigned kind, bool to_device, bool from_device);

#endif
