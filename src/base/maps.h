/*
 * Looks up the kernel's mappings of this process, to check the program's own memory
 * before it is touched.
 *
 * Results are not cached: the program may map and unmap at any time.
 */
#ifndef AM_BASE_MAPS_H
#define AM_BASE_MAPS_H

#include <stddef.h>
#include <stdint.h>

enum {
    AM_MAPS_READ = 1u << 0,
    AM_MAPS_WRITE = 1u << 1,
};

/* A descriptor is open between the two, if the kernel supports queries by it. */
void am_maps_open(void);
void am_maps_close(void);

/*
 * Whether all of the range can be used in this way: 0, -EACCES when some of it is
 * protected, -EFAULT when some of it is not mapped.  0 also if the system cannot
 * report it.
 */
int am_maps_check(uintptr_t addr, size_t size, unsigned access);

#endif
