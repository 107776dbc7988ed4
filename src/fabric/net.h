/* Addresses, interfaces and sockets of the fabric process. */
#ifndef AM_FABRIC_NET_H
#define AM_FABRIC_NET_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define AM_NET_WHY 384
#define AM_NET_PORTS 256 /* from a given port on, the first one that is free */

struct am_net_place {
    struct sockaddr_in address; /* the port is 0: any */
    char device[IF_NAMESIZE];
};

/*
 * The value of ACLMEM_FABRIC: an address of this machine, with or without a port, or an
 * interface.  0, or -1 with the reason.
 */
int am_net_find(const char *text, struct am_net_place *ret_place, char *why);

/*
 * A listening socket there, and its port: a descriptor, or -1 with the reason.  is_exact: no
 * other port than that one.
 */
int am_net_listen(struct am_net_place *place, bool is_exact, char *why);

/* Whether at least n_wanted of the AM_NET_PORTS ports from `first` on are free. */
bool am_net_has_free(const struct am_net_place *place, uint16_t first, int n_wanted);

/*
 * A socket that connects from one address to another, without waiting: a descriptor, or
 * -errno.
 */
int am_net_connect(const struct sockaddr_in *from, const struct sockaddr_in *to);

/* Ends this process's connections to that address, and leaves their descriptors open. */
void am_net_shut(const struct sockaddr_in *to);

/* The address from which the kernel sends to another one; `to` where it has no way there. */
struct in_addr am_net_source(const struct in_addr *to);

/* A connected or accepted socket: messages are small and go at once. */
void am_net_tune(int fd, uint64_t timeout_ns);

#endif
