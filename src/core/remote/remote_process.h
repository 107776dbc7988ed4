/* Starting the fabric process, and messages to and from it.  See remote.h. */
#ifndef AM_CORE_REMOTE_PROCESS_H
#define AM_CORE_REMOTE_PROCESS_H

#include <stdint.h>

#include "acl/acl_base.h"
#include "fabric/port.h"

struct am_port_process {
    int socket;
    int area_fd;
    uint8_t *area;
};

/* A new one; it is told nothing yet. */
aclError am_port_open(struct am_port_process *ret_process);
/* Only the process, and the socket to it: it may be given an area that there is. */
aclError am_port_spawn(int *ret_socket);
/* The process ends by this. */
void am_port_close(struct am_port_process *process);

/* The file of ACLMEM_FABRIC_KEY. */
aclError am_port_key_open(int *ret_fd);
/* The first message, of the options; `place` is that of a process before, if there was one. */
struct am_port_message am_port_begin(const struct am_port_place *place);

/* Waits for room: 0 or -errno; -ETIMEDOUT: it takes nothing any more.  fd is -1 for none, and stays the caller's. */
int am_port_send(int socket, const struct am_port_message *message, int fd);
/* Waits that long: 0, -EAGAIN, or -errno. */
int am_port_receive(int socket, struct am_port_message *ret_message, int ms);

#endif
