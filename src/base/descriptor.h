/* How many file descriptors there may be, and which numbers ours have. */
#ifndef AM_BASE_DESCRIPTOR_H
#define AM_BASE_DESCRIPTOR_H

#include <stdbool.h>

/*
 * Raises the soft limit of descriptors to the hard one; false when it is there already.
 */
bool am_descriptor_raise_limit(void);

/*
 * The descriptor under another number, which is out of the program's way: above 1023,
 * which select() cannot use.  If the soft limit is no higher, as it usually is, a few
 * descriptors stay below, and only a program with many gets the limit raised, since
 * every process that it starts inherits the limit.  Never 0, 1 or 2: the program would
 * print into shared memory.
 */
int am_fd_move_up(int fd);

#endif
