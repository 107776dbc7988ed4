/*
 * Messages over a Unix socket, with or without a descriptor (SCM_RIGHTS).
 *
 * Nothing here waits: a caller that has to wait for the other side uses poll().
 */
#ifndef AM_BASE_FDPASS_H
#define AM_BASE_FDPASS_H

#include <stddef.h>

/* Sends one message, with fd unless it is -1: 0 or -errno.  fd stays the caller's. */
int am_fdpass_send(int socket, const void *data, size_t size, int fd);

/*
 * Receives one message of exactly `size` bytes and at most one descriptor, which is the
 * caller's then, close-on-exec; *ret_fd is -1 when there was none.  0 or -errno: -EPIPE
 * when the other side is gone, -EPROTO for a message of another size or with more
 * descriptors (they are closed), -EMFILE when there was no room for the descriptor.
 */
int am_fdpass_receive(int socket, void *data, size_t size, int *ret_fd);

/*
 * The same for a caller that expects no descriptor: received descriptors are not opened
 * here.
 */
int am_fdpass_receive_plain(int socket, void *data, size_t size);

#endif
