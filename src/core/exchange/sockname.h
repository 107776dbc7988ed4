/*
 * The names of sockets in runtime directories.
 *
 * A name is 24 bits: a hash of the user's id, so that an importer knows whose directory
 * to look into, and 12 bits that tell the user's exporters apart.
 */
#ifndef AM_CORE_SOCKNAME_H
#define AM_CORE_SOCKNAME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * A listening socket in the directory, for this user or for all, under the first name that
 * is free from a random one on: a descriptor or -errno, -ENOSYS where there is no /proc.
 */
int am_sockname_listen(int directory, bool for_all, uint32_t random, uint32_t *ret_name);
void am_sockname_remove(int directory, uint32_t name);

/*
 * Connects to the socket of the name, in the directory of this user or, if the name says
 * so, of another user.  Returns a descriptor, -ENOENT when there is no such name,
 * -EAGAIN when it accepts no more connections now, or -errno.  Does not wait.
 */
int am_sockname_connect(int directory, uint32_t name);

/* Advice about an error of these calls, to be appended to its text. */
const char *am_sockname_advice(int error);

#endif
