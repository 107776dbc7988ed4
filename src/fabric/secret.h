/* The cluster's key, from its file. */
#ifndef AM_FABRIC_SECRET_H
#define AM_FABRIC_SECRET_H

#include "fabric/link.h"

#define AM_SECRET_WHY 384

/*
 * The keys that the file makes; the file is refused unless it is regular, this user's,
 * readable for no other user, and 32 bytes to 4 KB long.  0, or -1 with the reason.
 */
int am_secret_read(int fd, struct am_link_keys *ret_keys, char *why);

#endif
