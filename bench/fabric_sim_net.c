/* The simulated network of fabric_sim.c: chance, events in their order, connections. */
#include "fabric_sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim sim;

void sim_require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "aclmem_fabric_sim: %s, at %.3f s, seed %llu\n", what,
            (double)sim.now / 1e9, (unsigned long long)sim_options.seed);
    exit(1);
}

uint64_t sim_roll(uint64_t limit)
{
    uint64_t x = (sim.dice += UINT64_C(0x9e3779b97f4a7c15));

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % limit;
}

void *sim_allocate(size_t n, size_t size)
{
    void *memory = calloc(n, size);

    sim_require(memory != NULL, "no memory");
    return memory;
}

/* ---- events ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

struct event *sim_event_add(uint64_t at, enum kind kind, void *of)
{
    struct event event = {.at = at, .number = sim.n_numbers++, .kind = kind, .of = of};
    size_t i = sim.n_heap++;

    if (sim.n_heap > sim.heap_size) {
        sim.heap_size = 2 * sim.heap_size + 1024;
        sim.heap = realloc(sim.heap, sim.heap_size * sizeof *sim.heap);
        sim_require(sim.heap != NULL, "no memory");
    }
    for (; i > 0 && is_before(&event, &sim.heap[(i - 1) / 2]); i = (i - 1) / 2)
        sim.heap[i] = sim.heap[(i - 1) / 2];
    sim.heap[i] = event;
    return &sim.heap[i];
}

struct event sim_event_take(void)
{
    struct event first = sim.heap[0], last = sim.heap[--sim.n_heap];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child + 1 < sim.n_heap && is_before(&sim.heap[child + 1], &sim.heap[child]))
            child++;
        if (child >= sim.n_heap || is_before(&last, &sim.heap[child]))
            break;
        sim.heap[i] = sim.heap[child];
        i = child;
    }
    sim.heap[i] = last;
    return first;
}

/* ---- the network ---- */

/* A way through a few switches; now and then a packet is sent again. */
uint64_t sim_latency(void)
{
    return 20000 + sim_roll(60000) + (sim_roll(1000) == 0 ? 200 * AM_MILLISECOND : 0);
}

/* To the other side, behind what was sent to it before. */
struct event *sim_carry(struct conn *conn, int from, enum kind kind)
{
    uint64_t at = sim.now + sim_latency();
    struct event *event;

    if (at <= conn->order[!from])
        at = conn->order[!from] + 1;
    conn->order[!from] = at;
    conn->n_events++;
    event = sim_event_add(at, kind, conn);
    event->side = !from;
    return event;
}

void sim_flush(struct conn *conn, int side)
{
    const uint8_t *bytes;
    size_t size;

    while (conn->is_open[side] &&
           (size = am_link_output(&conn->link[side], &bytes)) > 0) {
        struct event *event = sim_carry(conn, side, BYTES);

        event->bytes = malloc(size);
        sim_require(event->bytes != NULL, "no memory");
        memcpy(event->bytes, bytes, size);
        event->size = size;
        am_link_took(&conn->link[side], size);
        (side == 0 ? conn->way->node : conn->host)->n_frames +=
            (size + AM_FRAME_SIZE - 1) / AM_FRAME_SIZE;
    }
}

void sim_conn_free(struct conn *conn)
{
    if (conn->n_events > 0 || conn->is_open[0] || conn->is_open[1])
        return;
    free(conn);
}

/* One side closes; the other one sees it, unless the machine is gone. */
void sim_conn_close(struct conn *conn, int side, bool is_told)
{
    struct node *host = conn->host;

    if (!conn->is_open[side])
        return;
    conn->is_open[side] = false;
    am_link_destroy(&conn->link[side]);
    if (side == 1) {
        am_conn_slot_release(&conn->slot);
        LIST_REMOVE(conn, next);
    } else {
        sim.n_conns--;
    }
    if (is_told)
        sim_carry(conn, side, CLOSES);
    if (side == 1 && !host->is_dead)
        sim_door_open(host);
    sim_conn_free(conn);
}

void sim_link_begin(struct conn *conn, int side)
{
    struct am_link_spec spec = {
        .keys = &sim.keys,
        .is_server = side == 1,
        .who = side == 1 ? conn->host->who : conn->way->node->who,
        .timeout_ns = TIMEOUT,
        .now = sim.now,
        .frame = sim_frame_take,
        .arg = &conn->end[side],
    };

    conn->end[side] = (struct end){conn, side};
    for (size_t i = 0; i < sizeof spec.nonce; i++)
        spec.nonce[i] = (uint8_t)sim_roll(256);
    am_link_init(&conn->link[side], &spec);
    conn->is_open[side] = true;
}

void sim_send(struct conn *conn, int side, struct am_frame *frame)
{
    am_link_send(&conn->link[side], frame, sim.now);
    sim_flush(conn, side);
}
