/* aclmem fabric ping: whether a fabric process can be reached, and why not. */
#ifndef AM_FABRIC_PING_H
#define AM_FABRIC_PING_H

/*
 * Connects to HOST:PORT, proves the key of the file, and measures round trips and the rates
 * of UCX.  Prints the result; returns the exit code: 0, or 1 with the reason on standard
 * error.  Exported by libaclmem_fabric.so.
 */
int aclmem_fabric_ping(const char *where, const char *key_path, unsigned timeout_s);

#endif
