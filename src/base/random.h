/* Unpredictable random bytes, from the system. */
#ifndef AM_BASE_RANDOM_H
#define AM_BASE_RANDOM_H

#include <stddef.h>

/* At most 256 bytes: 0 or -errno. */
int am_random(void *bytes, size_t size);

#endif
