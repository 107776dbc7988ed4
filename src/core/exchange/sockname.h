/*
 * The names of sockets in the runtime directory: 24 bits, drawn at random, that differ
 * between the exporters of a user.
 */
#ifndef AM_CORE_SOCKNAME_H
#define AM_CORE_SOCKNAME_H

#include <stdint.h>

/*
 * A listening socket in the directory, under the first free name from a random one on: a
 * descriptor or -errno, -ENOSYS if /proc is not mounted.
 */
int am_sockname_listen(int directory, uint32_t random, uint32_t *ret_name);
void am_sockname_remove(int directory, uint32_t name);

/*
 * Connects to the socket of the name.  Returns a descriptor, -ENOENT if the name does not
 * exist or belongs to another user, -EAGAIN if the listen backlog is full, or -errno.
 * Does not wait.
 */
int am_sockname_connect(int directory, uint32_t name);

/* Advice about an error of these calls, to be appended to its text. */
const char *am_sockname_advice(int error);

#endif
