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
 * A socket that is connected to what has the name, in the directory of this user or, where
 * the name says so, of another one: a descriptor, -ENOENT when nobody has it, -EAGAIN when
 * it takes no more connections now, or -errno.  Does not wait.
 */
int am_sockname_connect(int directory, uint32_t name);

/* What to do about an error of these calls, to be put behind its text. */
const char *am_sockname_advice(int error);

#endif
