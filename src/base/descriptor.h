/* How many file descriptors there may be. */
#ifndef AM_BASE_DESCRIPTOR_H
#define AM_BASE_DESCRIPTOR_H

#include <stdbool.h>

/*
 * Raises the soft limit of descriptors to the hard one; false when it is there already.
 */
bool am_descriptor_raise_limit(void);

#endif
