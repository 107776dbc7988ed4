/*
 * Packet filters of UCX's listening sockets.
 *
 * UCX's port does not authenticate.  So each of its sockets drops every packet from the
 * moment it listens (listen.h), and am_filter_admit() admits the addresses of peers that
 * have proved the key.  An accepted socket keeps the filter under which it was accepted, so
 * a change of the filter does not affect connections that exist.
 *
 * A filter lists at most AM_FILTER_NETWORKS addresses.  With more peers it lists their
 * networks: /24, or wider ones.
 */
#ifndef AM_FABRIC_PACKET_FILTER_H
#define AM_FABRIC_PACKET_FILTER_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/listen.h"

#define AM_FILTER_NETWORKS 200

struct am_packet_filter {
    const int *fds; /* sockets that listen */
    int n_fds;
    uint32_t *addresses; /* of proved peers; one entry for each am_filter_admit() */
    size_t n_addresses;
    size_t n_room;
};

/* False: no memory, and the address is not admitted. */
bool am_filter_admit(struct am_packet_filter *filter, struct in_addr address);
/* Removes one entry, if there is one. */
void am_filter_remove(struct am_packet_filter *filter, struct in_addr address);
bool am_filter_admits(const struct am_packet_filter *filter, struct in_addr address);

#endif
