/* Unpredictable random bytes, from the system. */
#ifndef AM_BASE_RANDOM_H
#define AM_BASE_RANDOM_H

#include <stddef.h>

/* At most 256 bytes: 0 or -errno. */
int am_random(void *bytes, size_t size);

/* The message of a call that needs them to share something; %s is the system's reason. */
#define AM_RANDOM_MISSING \
    "nothing can be shared with other processes: the system provides no random " \
    "numbers: %s; a filter of system calls, such as a container's, must allow getrandom"

#endif
