/* File descriptors that the program does not know of. */
#ifndef AM_BASE_DESCRIPTOR_H
#define AM_BASE_DESCRIPTOR_H

#include <stdbool.h>

/*
 * Raises the soft limit of descriptors to the hard one; false when it is there already.
 */
bool am_descriptor_raise_limit(void);

/*
 * The descriptor moved above 1023, out of the way of programs that use select(), where
 * the limit leaves room.  It is close-on-exec then, as it should have been before.
 */
int am_descriptor_move_up(int fd);

#endif
