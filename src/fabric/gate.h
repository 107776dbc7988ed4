/*
 * The gate of UCX's listening sockets.
 *
 * UCX's worker listens, and its port checks nothing.  Where the kernel allows it, a filter
 * on these sockets drops connections from every address but those of peers that have
 * proved the key.  An accepted socket keeps the filter under which it was accepted, so a
 * change of the filter never touches a connection that is up.
 *
 * The filter names at most AM_GATE_NETWORKS addresses.  Of more peers it names the
 * networks: /24, and wider ones where these are too many, too.
 */
#ifndef AM_FABRIC_GATE_H
#define AM_FABRIC_GATE_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AM_GATE_SOCKETS 16
#define AM_GATE_NETWORKS 200
#define AM_GATE_TEXT 256

struct am_gate {
    int fds[AM_GATE_SOCKETS]; /* UCX's sockets that listen */
    size_t n_fds;
    bool is_shut;        /* they have a filter */
    uint32_t *addresses; /* of proved peers; one entry for each am_gate_admit() */
    size_t n_addresses;
    size_t n_room;
};

/* Finds the listening sockets of this process, which are all those of exports yet. */
void am_gate_find(struct am_gate *gate);
/*
 * Shuts them, and those that came since: `back`.  Nothing has to come through these but an
 * exporter's UCX that has lost its importer's connection: it connects itself, and would
 * wait for an answer instead of serving others.  The text says where UCX listens for
 * importers and which addresses reach it.
 */
void am_gate_shut(struct am_gate *gate, struct am_gate *back, char *text);

/* False: there is no memory, and the address is not admitted. */
bool am_gate_admit(struct am_gate *gate, struct in_addr address);
/* Unless it is admitted already. */
void am_gate_admit_once(struct am_gate *gate, struct in_addr address);
void am_gate_leave(struct am_gate *gate, struct in_addr address);

#endif
