/* The processes of fabric_sim.c: exporters and importers over the simulated network. */
#include "fabric_sim.h"

#include <stdlib.h>
#include <string.h>

#define FAVOURITES 2
#define CHANGE (90 * AM_SECOND) /* after which a process has other favourites */
#define COPY_NS 300000          /* of the data connection: setup aside */

/* ---- the exporter: as src/fabric/peer_link.c and peer.c ---- */

static void accept_one(struct conn *conn)
{
    struct node *host = conn->host;

    am_conn_slot_acquire(&conn->slot, &host->handshakes, sim.now);
    LIST_INSERT_HEAD(&host->conns, conn, next);
    sim_link_begin(conn, 1);
    sim_flush(conn, 1);
}

static void importer_gone(struct conn *conn, bool is_told)
{
    if (conn->importer != NULL)
        am_registry_remove(&conn->host->registry, conn->importer);
    conn->importer = NULL;
    sim_conn_close(conn, 1, is_told);
}

/* Connections in the kernel's queue come in, as far as there is room. */
void sim_door_open(struct node *host)
{
    struct conn *conn;

    while ((conn = STAILQ_FIRST(&host->backlog)) != NULL) {
        enum am_admission door =
            am_conn_admission(&host->handshakes, &host->importers, sim.now);

        if (door == AM_ADMISSION_PAUSED)
            return;
        STAILQ_REMOVE_HEAD(&host->backlog, queued);
        if (door == AM_ADMISSION_EVICT) {
            struct am_conn_slot *slot = am_conn_slots_lru(&host->handshakes);

            importer_gone((struct conn *)((char *)slot - offsetof(struct conn, slot)),
                          true);
        }
        conn->n_events--;
        if (conn->is_open[0])
            accept_one(conn);
        else
            sim_conn_free(conn);
    }
}

static void importer_up(struct conn *conn)
{
    struct node *host = conn->host;
    struct am_frame worker = {.kind = AM_FRAME_WORKER};
    struct am_frame park = {.kind = AM_FRAME_CLOSE};
    struct am_conn_slot *slot;

    conn->is_proved = true;
    host->n_shakes++;
    am_conn_slot_release(&conn->slot);
    am_conn_slot_acquire(&conn->slot, &host->importers, sim.now);
    conn->importer =
        am_registry_connect(&host->registry, &conn->link[1].peer, &conn->link[1].session);
    sim_require(conn->importer != NULL, "no memory");
    worker.worker.size = 79;
    worker.worker.lease_ms = LEASE / AM_MILLISECOND;
    sim_send(conn, 1, &worker);
    while (host->importers.n - host->importers.n_draining > host->importers.limit &&
           (slot = am_conn_slots_lru(&host->importers)) != NULL) {
        am_conn_slot_drain(slot);
        sim_send((struct conn *)((char *)slot - offsetof(struct conn, slot)), 1, &park);
    }
    if (host->importers.n > host->n_most[1])
        host->n_most[1] = host->importers.n;
    sim_require(host->importers.n + host->handshakes.n <=
                    host->importers.limit + AM_DRAINING_MAX + AM_HANDSHAKES_MAX,
                "an exporter has more connections than its limit");
    sim_require(host->handshakes.n <= AM_HANDSHAKES_MAX,
                "more unproved connections than allowed");
    sim_door_open(host);
}

static void importer_frame(struct conn *conn, const struct am_frame *frame)
{
    struct node *host = conn->host;
    struct am_frame answer = {0};

    am_conn_slot_touch(&conn->slot, sim.now);
    switch (frame->kind) {
    case AM_FRAME_IMPORT:
        am_registry_import(&host->registry, conn->importer, frame, &answer);
        sim_send(conn, 1, &answer);
        break;
    case AM_FRAME_RELEASE:
        am_registry_release(conn->importer, frame->release.number);
        break;
    case AM_FRAME_RECONNECT:
        am_registry_reconnect(conn->importer, frame, &answer);
        sim_send(conn, 1, &answer);
        break;
    default: /* PARK; the connection is closed when the frame has been taken */
        am_registry_disconnect(&host->registry, conn->importer, sim.now);
        conn->importer = NULL;
        break;
    }
}

/* ---- the importer ---- */

static void connection_open(struct am_conn *connection)
{
    struct way *way = (struct way *)connection;
    struct conn *conn = sim_allocate(1, sizeof *conn);

    conn->way = way;
    conn->host = way->host;
    way->conn = conn;
    sim_link_begin(conn, 0);
    sim.n_made++;
    if (++sim.n_conns > sim.n_most_conns)
        sim.n_most_conns = sim.n_conns;
    if (way->node->connections.slots.n > way->node->n_most[0])
        way->node->n_most[0] = way->node->connections.slots.n;
    sim_require(way->node->connections.slots.n <= way->node->connections.slots.limit,
                "an importer has more connections than its limit");
    sim_carry(conn, 0, ARRIVES);
}

static void connection_leave(struct am_conn *connection)
{
    struct way *way = (struct way *)connection;
    struct am_frame frame = {.kind = AM_FRAME_CLOSE};

    sim_send(way->conn, 0, &frame);
}

static void wait_note(uint64_t ns)
{
    int i = 0;

    if (ns == 0)
        return;
    if (ns > sim.longest)
        sim.longest = ns;
    for (uint64_t us = ns / 1000; us > 0; us /= 2)
        i++;
    sim.waits[i]++;
}

static void copies_begin(struct way *way)
{
    if (way->n_held > 0)
        wait_note(sim.now - way->wanted);
    for (; way->n_held > 0; way->n_held--) {
        am_conn_work_begin(&way->connection, sim.now);
        way->conn->link[0].n_used++;
        sim_event_add(sim.now + 2 * sim_latency() + COPY_NS, DONE, way);
    }
}

static void way_release(struct way *way)
{
    struct am_frame frame = {.kind = AM_FRAME_RELEASE};

    frame.release.number = way->grant;
    way->is_granted = false;
    sim_send(way->conn, 0, &frame);
}

/* The exporter knows the importer. */
static void way_here(struct way *way)
{
    struct am_frame frame = {0};

    am_conn_opened(&way->connection, way->lease_ns, sim.now);
    if (way->is_released && way->is_granted) {
        way_release(way);
    } else if (!way->is_asked && !way->is_released) {
        frame.kind = AM_FRAME_IMPORT;
        frame.import.id = 1;
        frame.import.ticket.number = 1;
        way->is_asked = true;
        am_conn_work_begin(&way->connection, sim.now);
        sim_send(way->conn, 0, &frame);
    } else if (way->is_granted) {
        copies_begin(way);
    }
}

static void way_fail(struct way *way)
{
    if (way->is_failed)
        return;
    way->is_failed = true;
    way->is_granted = false;
    sim.n_lost += way->n_held;
    way->n_held = 0;
    sim.n_failed += !way->host->is_dead;
    am_conn_fail(&way->connection);
    if (way->conn != NULL)
        sim_conn_close(way->conn, 0, true);
    way->conn = NULL;
}

static void host_frame(struct conn *conn, const struct am_frame *frame)
{
    struct way *way = conn->way;

    switch (frame->kind) {
    case AM_FRAME_WORKER:
        way->lease_ns = frame->worker.lease_ms * AM_MILLISECOND;
        if (!way->is_granted)
            way_here(way);
        break;
    case AM_FRAME_RECONNECT:
        sim_require(frame->reconnect.is_known != 0, "memory was given back too early");
        way_here(way);
        break;
    case AM_FRAME_GRANT:
        sim_require(frame->grant.status == 0, "an import was refused");
        am_conn_work_end(&way->connection, sim.now);
        way->is_granted = true;
        way->grant = frame->grant.number;
        if (way->is_released)
            way_release(way);
        else
            copies_begin(way);
        break;
    default: /* PARK */
        am_conn_drain(&way->connection);
    }
}

static void back_send(struct conn *conn)
{
    struct am_frame frame = {.kind = AM_FRAME_RECONNECT};

    if (!conn->way->is_granted)
        return;
    frame.reconnect.n_grants = 1;
    sim_send(conn, 0, &frame);
}

void sim_frame_take(void *arg, const struct am_frame *frame)
{
    const struct end *end = arg;

    if (end->side == 1)
        importer_frame(end->conn, frame);
    else
        host_frame(end->conn, frame);
}

/* ---- what happens ---- */

static void bytes_take(struct conn *conn, const struct event *event)
{
    int side = event->side;
    struct am_link *link = &conn->link[side];
    enum am_link_state before = link->state;

    if (!conn->is_open[side])
        return;
    am_link_input(link, event->bytes, event->size, sim.now);
    sim_require(link->state != AM_LINK_DEAD, "a link failed");
    if (before == AM_LINK_HANDSHAKE && link->state == AM_LINK_UP) {
        if (side == 1)
            importer_up(conn);
        else
            back_send(conn);
    }
    sim_flush(conn, side);
    if (side == 1 && conn->is_proved && conn->importer == NULL)
        sim_conn_close(conn, 1, true); /* it has taken its leave */
    else if (side == 0)
        am_conns_step(&conn->way->node->connections, sim.now);
}

static void close_take(struct conn *conn, int side)
{
    struct way *way = conn->way;

    if (!conn->is_open[side])
        return;
    if (side == 1) {
        importer_gone(conn, false);
        return;
    }
    am_link_close(&conn->link[0]);
    if (way->connection.state == AM_CONN_CLOSING) {
        way->conn = NULL;
        sim_conn_close(conn, 0, false);
        am_conn_closed(&way->connection, sim.now);
    } else {
        way_fail(way);
    }
    am_conns_step(&way->node->connections, sim.now);
}

static void arrive(struct conn *conn)
{
    struct node *host = conn->host;

    if (host->is_dead) {
        if (!host->is_silent)
            sim_carry(conn, 1, CLOSES); /* refused */
        return;
    }
    conn->n_events++;
    STAILQ_INSERT_TAIL(&host->backlog, conn, queued);
    sim_door_open(host);
}

static void work(struct node *node)
{
    uint64_t turn = sim.now / CHANGE;
    uint64_t pick =
        sim_roll(10) < 8 ? (turn * FAVOURITES + sim_roll(FAVOURITES)) : sim_roll(1 << 20);
    struct way *way = &node->ways[pick % sim_options.n_peers];

    if (node->is_dead || sim.is_ending)
        return;
    sim_event_add(sim.now + 1 + sim_roll((uint64_t)(2e9 / sim_options.rate)), WORKS,
                  node);
    if (way->is_failed || way->is_released)
        return;
    sim.n_copies++;
    if (way->n_held++ == 0)
        way->wanted = sim.now;
    if (am_conn_is_open(&way->connection) && way->is_granted)
        copies_begin(way);
    else
        am_conn_request(&way->connection, sim.now);
    am_conns_step(&node->connections, sim.now);
}

static void copy_done(struct way *way)
{
    if (way->node->is_dead || way->is_failed)
        return;
    am_conn_work_end(&way->connection, sim.now);
    am_conns_step(&way->node->connections, sim.now);
}

static void node_tick(struct node *node)
{
    struct conn *conn, *next;

    if (node->is_dead)
        return;
    for (size_t i = 0; i < sim_options.n_peers; i++) {
        struct way *way = &node->ways[i];

        if (way->is_failed)
            continue;
        if (way->conn != NULL) {
            am_link_tick(&way->conn->link[0], sim.now);
            sim_flush(way->conn, 0);
        }
        if ((way->conn != NULL && way->conn->link[0].state == AM_LINK_DEAD) ||
            am_conn_is_late(&way->connection, sim.now, TIMEOUT))
            way_fail(way);
    }
    for (conn = LIST_FIRST(&node->conns); conn != NULL; conn = next) {
        next = LIST_NEXT(conn, next);
        am_link_tick(&conn->link[1], sim.now);
        sim_flush(conn, 1);
        if (conn->link[1].n_peer_used != conn->n_seen) {
            conn->n_seen = conn->link[1].n_peer_used;
            am_conn_slot_touch(&conn->slot, sim.now);
        }
        if (conn->link[1].state == AM_LINK_DEAD)
            importer_gone(conn, true);
    }
    am_registry_expire(&node->registry, sim.now);
    sim_door_open(node);
    am_conns_step(&node->connections, sim.now);
    if (sim.now + TICK < sim.ends)
        sim_event_add(sim.now + TICK, TICKS, node);
}

/* The process ends: its peers see it, or the machine is gone without a word. */
void sim_node_kill(struct node *node, bool is_told)
{
    struct conn *conn;

    node->is_dead = true;
    node->is_silent = !is_told;
    for (size_t i = 0; i < sim_options.n_peers; i++) {
        struct way *way = &node->ways[i];

        way->is_failed = true;
        if (way->conn != NULL)
            sim_conn_close(way->conn, 0, is_told);
        way->conn = NULL;
    }
    while ((conn = LIST_FIRST(&node->conns)) != NULL)
        importer_gone(conn, is_told);
    while ((conn = STAILQ_FIRST(&node->backlog)) != NULL) {
        STAILQ_REMOVE_HEAD(&node->backlog, queued);
        conn->n_events--;
        sim_carry(conn, 1, CLOSES);
    }
}

void sim_node_let_go(struct node *node)
{
    for (size_t i = 0; i < sim_options.n_peers; i++) {
        struct way *way = &node->ways[i];

        way->is_released = true;
        way->n_held = 0;
        if (way->is_failed || !way->is_asked)
            continue;
        if (am_conn_is_open(&way->connection) && way->is_granted)
            way_release(way);
        else
            am_conn_request(&way->connection, sim.now);
    }
    am_conns_step(&node->connections, sim.now);
}

/* ---- a run ---- */

static void export_freed(struct am_registry_export *export)
{
}

static bool is_way(const struct node *node, size_t n, const struct node *host)
{
    for (size_t i = 0; i < n; i++) {
        if (node->ways[i].host == host)
            return true;
    }
    return host == node;
}

void sim_node_begin(struct node *node, uint32_t id)
{
    struct am_registry_export *export = sim_allocate(1, sizeof *export);

    node->id = id;
    node->who.pid = (int32_t)id;
    memcpy(node->who.instance, &id, sizeof id);
    am_registry_init(&node->registry, LEASE, export_freed);
    am_conn_slots_init(&node->handshakes, AM_HANDSHAKES_MAX);
    am_conn_slots_init(&node->importers, sim_options.limit);
    am_conns_init(&node->connections, sim_options.limit, IDLE, sim_roll(UINT64_MAX));
    node->connections.open = connection_open;
    node->connections.close = connection_leave;
    LIST_INIT(&node->conns);
    STAILQ_INIT(&node->backlog);
    export->ticket.number = 1;
    export->is_open = true;
    export->size = 1;
    sim_require(am_registry_add(&node->registry, export), "an export");
    node->ways = sim_allocate(sim_options.n_peers, sizeof *node->ways);
    for (size_t i = 0; i < sim_options.n_peers; i++) {
        struct way *way = &node->ways[i];
        struct node *host;

        do {
            host = &sim.nodes[sim_roll(sim_options.n_stores)];
        } while (is_way(node, i, host));
        way->node = node;
        way->host = host;
        am_conns_add(&node->connections, &way->connection);
    }
    sim_event_add(sim_roll(TICK), TICKS, node);
    sim_event_add(sim_roll(AM_SECOND), WORKS, node);
}

static uint32_t event_place(const struct event *event)
{
    switch (event->kind) {
    case TICKS:
    case WORKS:
        return ((struct node *)event->of)->id;
    case DONE:
        return ((struct way *)event->of)->node->id;
    default:
        return ((struct conn *)event->of)->way->node->id;
    }
}

static void event_run(const struct event *event)
{
    struct conn *conn = event->of;

    switch (event->kind) {
    case TICKS:
        node_tick(event->of);
        return;
    case WORKS:
        work(event->of);
        return;
    case DONE:
        copy_done(event->of);
        return;
    case ARRIVES:
        arrive(conn);
        break;
    case BYTES:
        bytes_take(conn, event);
        free(event->bytes);
        break;
    case CLOSES:
        close_take(conn, event->side);
        break;
    }
    conn->n_events--;
    sim_conn_free(conn);
}

void sim_run_until(uint64_t end)
{
    while (sim.n_heap > 0 && sim.heap[0].at < end) {
        struct event event = sim_event_take();

        sim.now = event.at;
        sim.hash = (sim.hash ^ sim.now) * UINT64_C(0x100000001b3);
        sim.hash = (sim.hash ^ (event_place(&event) << 3 | event.kind)) *
                   UINT64_C(0x100000001b3);
        event_run(&event);
    }
    sim.now = end;
}

/* Every exporter that is left has its memory back, and no connection is left. */
void sim_end_check(void)
{
    for (size_t i = 0; i < sim_options.n; i++) {
        struct node *node = &sim.nodes[i];

        if (node->is_dead)
            continue;
        sim_require(RB_ROOT(&node->registry.exports)->n_refs == 0,
                    "memory was not given back");
        sim_require(TAILQ_EMPTY(&node->registry.leases) && node->importers.n == 0 &&
                        node->handshakes.n == 0,
                    "an importer that is gone is still in the records");
        sim_require(node->connections.slots.n == 0, "an importer kept a connection");
    }
    sim_require(sim.n_heap == 0, "something is still under way");
}

void sim_nodes_free(void)
{
    for (size_t i = 0; i < sim_options.n; i++) {
        struct node *node = &sim.nodes[i];
        struct am_importer *importer;

        while ((importer = TAILQ_FIRST(&node->registry.leases)) != NULL)
            am_registry_expire(&node->registry, importer->until);
        am_registry_withdraw(&node->registry, 1);
        free(node->ways);
    }
    free(sim.nodes);
    free(sim.heap);
    sim.heap = NULL;
    sim.heap_size = 0;
}
