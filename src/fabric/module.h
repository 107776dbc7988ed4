/* The functions that libaclmem_fabric.so exports. */
#ifndef AM_FABRIC_MODULE_H
#define AM_FABRIC_MODULE_H

struct am_listen;

/* Runs the fabric process, over its socket to the program; does not return. */
void aclmem_fabric_serve(int socket, const struct am_listen *listening);
/* As am_ping(). */
int aclmem_fabric_ping(const char *where, const char *key_path, unsigned timeout_s);

#endif
