/* What the system has mapped at an address of this process. */
#ifndef AM_BASE_MAPS_H
#define AM_BASE_MAPS_H

#include <stddef.h>
#include <stdint.h>

/*
 * Whether the whole range can be read and written: 0, -EACCES when some of it is
 * protected, -EFAULT when some of it is not mapped.  0 also where the system does not
 * tell.
 */
int am_maps_check(uintptr_t addr, size_t size);

#endif
