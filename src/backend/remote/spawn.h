/* Starting the program aclmem-fabric, and messages to and from it.  See remote.h. */
#ifndef AM_BACKEND_REMOTE_SPAWN_H
#define AM_BACKEND_REMOTE_SPAWN_H

#include <stdint.h>

#include "acl/acl_base.h"
#include "fabric/port.h"

/* The memory that both processes map. */
aclError am_port_area_open(int *ret_fd, uint8_t **ret_area);
/* Starts the process; it ends when the socket is closed. */
aclError am_port_spawn(int *ret_socket);

/* The file of ACLMEM_FABRIC_KEY. */
aclError am_port_key_open(int *ret_fd);
/* The first message: the options; `place` of the earlier process, or zero. */
struct am_port_message am_port_begin(const struct am_port_place *place);

/*
 * Waits for room: 0 or -errno; -ETIMEDOUT: the process does not read.  fd is -1 for none,
 * and stays the caller's.
 */
int am_port_send(int socket, const struct am_port_message *message, int fd);
/* Waits up to ms milliseconds: 0, -EAGAIN, or -errno. */
int am_port_receive(int socket, struct am_port_message *ret_message, int ms);

#endif
