/*
 * The listening sockets of UCX, which calls listen().
 *
 * The program aclmem-fabric defines listen(), and the dynamic linker resolves UCX's calls
 * to it.  It attaches a filter that drops every packet before the socket listens.  So UCX
 * accepts no connection before the fabric process has given up its rights and a peer has
 * proved the key.
 */
#ifndef AM_FABRIC_LISTEN_H
#define AM_FABRIC_LISTEN_H

#define AM_LISTEN_MAX 16

struct am_listen {
    int fds[AM_LISTEN_MAX]; /* sockets that listen, in the order of the calls */
    int n;
    int error; /* errno, if the kernel refused a filter: the sockets are open to all */
};

extern struct am_listen am_listen; /* of the program aclmem-fabric */

#endif
