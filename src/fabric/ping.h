/* aclmem fabric ping: whether a fabric process can be reached, and why not. */
#ifndef AM_FABRIC_PING_H
#define AM_FABRIC_PING_H

/*
 * Connects to HOST:PORT, proves the key of the file, and measures round trips and bytes a
 * second.  Prints what it found; returns an exit code: 0, or 1 with the reason on standard error.
 */
int am_ping(const char *where, const char *key_path, unsigned timeout_s);

#endif
