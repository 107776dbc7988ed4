/* The parts of the simulated cluster; see fabric_sim.c. */
#ifndef BENCH_FABRIC_SIM_H
#define BENCH_FABRIC_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "fabric/registry.h"
#include "fabric/link.h"
#include "fabric/connection.h"

#define TIMEOUT (10 * AM_SECOND)
#define TICK (500 * AM_MILLISECOND)
#define LEASE (30 * TIMEOUT)
#define IDLE (60 * AM_SECOND)

struct sim_options {
    size_t n, n_peers, n_stores, limit;
    uint64_t seconds, seed;
    double rate;
};

extern struct sim_options sim_options;

struct node;

/* The way of an importer to one exporter. */
struct way {
    struct am_conn connection;
    struct node *node;
    struct node *host;
    struct conn *conn;
    uint64_t grant;
    uint64_t lease_ns;
    uint64_t wanted; /* when the first copy that is held began */
    uint32_t n_held;
    bool is_asked;
    bool is_granted;
    bool is_released; /* to be given back */
    bool is_failed;
};

struct end { /* what a link's callback is told */
    struct conn *conn;
    int side;
};

/* A TCP connection: side 0 is the importer's, side 1 the exporter's. */
struct conn {
    LIST_ENTRY(conn) next; /* of the host, as a importer */
    struct way *way;
    struct node *host;
    struct am_link link[2];
    struct end end[2];
    bool is_open[2];
    bool is_proved;
    uint64_t order[2]; /* when the last bytes to each side arrive */
    uint32_t n_events;
    struct am_conn_slot slot;
    struct am_importer *importer;
    uint64_t n_seen;
    STAILQ_ENTRY(conn) queued; /* in the kernel of the host */
};

struct node {
    uint32_t id;
    bool is_dead;
    bool is_silent; /* its machine is gone */
    struct am_frame_who who;
    struct am_registry registry;
    struct am_conn_slots handshakes, importers;
    struct am_conns connections;
    struct way *ways;
    LIST_HEAD(, conn) conns;
    STAILQ_HEAD(, conn) backlog;
    size_t n_most[2]; /* connections as an importer, as an exporter */
    uint64_t n_frames, n_shakes;
};

enum kind { TICKS, WORKS, DONE, ARRIVES, BYTES, CLOSES };

struct event {
    uint64_t at, number;
    enum kind kind;
    int side;
    void *of;
    uint8_t *bytes;
    size_t size;
};
/* The state of a run. */
struct sim {
    struct event *heap;
    size_t n_heap, heap_size;
    uint64_t n_numbers, now, hash, dice, ends;
    struct node *nodes;
    struct am_link_keys keys;
    bool is_ending;
    uint64_t n_copies, n_lost, n_conns, n_most_conns, n_made, n_failed;
    uint64_t waits[64], longest; /* of copies, by the logarithm of microseconds */
};

extern struct sim sim;

/* fabric_sim_net.c: chance, events in their order, and connections that carry bytes. */
void sim_require(bool holds, const char *what);
uint64_t sim_roll(uint64_t limit);
void *sim_allocate(size_t n, size_t size);
struct event *sim_event_add(uint64_t at, enum kind kind, void *of);
struct event sim_event_take(void);
uint64_t sim_latency(void);
struct event *sim_carry(struct conn *conn, int from, enum kind kind);
void sim_flush(struct conn *conn, int side);
void sim_conn_free(struct conn *conn);
void sim_conn_close(struct conn *conn, int side, bool is_told);
void sim_link_begin(struct conn *conn, int side);
void sim_send(struct conn *conn, int side, struct am_frame *frame);

/* fabric_sim_cluster.c: importers and exporters, from their beginning to their end. */
void sim_door_open(struct node *host);
void sim_frame_take(void *arg, const struct am_frame *frame);
void sim_node_begin(struct node *node, uint32_t id);
void sim_node_kill(struct node *node, bool is_told);
void sim_node_let_go(struct node *node);
void sim_run_until(uint64_t end);
void sim_end_check(void);
void sim_nodes_free(void);

#endif
