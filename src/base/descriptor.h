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
 * since select() takes no others.  Where the soft limit is no higher, as it usually is, a
 * few stay below, and only a program with many gets the limit raised: it is handed down
 * to every process that is started.  Never 0, 1 or 2, where programs print to, even
 * into memory that others share.
 */
int am_fd_move_up(int fd);

#endif
