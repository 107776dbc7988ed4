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

    am_seats_take(&host->shaking, &conn->seat, sim.now);
    LIST_INSERT_HEAD(&host->conns, conn, next);
    sim_link_begin(conn, 1);
    sim_flush(conn, 1);
}

static void guest_gone(struct conn *conn, bool is_told)
{
    if (conn->guest != NULL)
        am_desk_leave(&conn->host->desk, conn->guest);
    conn->guest = NULL;
    sim_conn_close(conn, 1, is_told);
}

/* Connections in the kernel's queue come in, as far as there is room. */
void sim_door_open(struct node *host)
{
    struct conn *conn;

    while ((conn = STAILQ_FIRST(&host->backlog)) != NULL) {
        enum am_door door = am_seats_door(&host->shaking, &host->guests, sim.now);

        if (door == AM_DOOR_SHUT)
            return;
        STAILQ_REMOVE_HEAD(&host->backlog, queued);
        if (door == AM_DOOR_FULL) {
            struct am_seat *seat = am_seats_least(&host->shaking);

            guest_gone((struct conn *)((char *)seat - offsetof(struct conn, seat)), true);
        }
        conn->n_events--;
        if (conn->is_open[0])
            accept_one(conn);
        else
            sim_conn_free(conn);
    }
}

static void guest_up(struct conn *conn)
{
    struct node *host = conn->host;
    struct am_frame worker = {.kind = AM_FRAME_WORKER};
    struct am_frame park = {.kind = AM_FRAME_PARK};
    struct am_seat *seat;

    conn->is_proved = true;
    host->n_shakes++;
    am_seats_give(&host->shaking, &conn->seat);
    am_seats_take(&host->guests, &conn->seat, sim.now);
    conn->guest = am_desk_enter(&host->desk, &conn->link[1].peer, conn->link[1].pass);
    sim_require(conn->guest != NULL, "no memory");
    worker.worker.size = 79;
    worker.worker.lease_ms = LEASE / AM_MILLISECOND;
    sim_send(conn, 1, &worker);
    while (host->guests.n - host->guests.n_leaving > host->guests.limit &&
           (seat = am_seats_least(&host->guests)) != NULL) {
        am_seats_leave(&host->guests, seat);
        sim_send((struct conn *)((char *)seat - offsetof(struct conn, seat)), 1, &park);
    }
    if (host->guests.n > host->n_most[1])
        host->n_most[1] = host->guests.n;
    sim_require(host->guests.n + host->shaking.n <=
                    host->guests.limit + AM_DOOR_LEAVING + AM_DOOR_SHAKING,
                "an exporter has more connections than its limit");
    sim_require(host->shaking.n <= AM_DOOR_SHAKING,
                "more unproved connections than allowed");
    sim_door_open(host);
}

static void guest_frame(struct conn *conn, const struct am_frame *frame)
{
    struct node *host = conn->host;
    struct am_frame answer = {0};

    am_seats_use(&host->guests, &conn->seat, sim.now);
    switch (frame->kind) {
    case AM_FRAME_IMPORT:
        am_desk_answer(&host->desk, conn->guest, frame, &answer);
        sim_send(conn, 1, &answer);
        break;
    case AM_FRAME_RELEASE:
        am_desk_release(&host->desk, conn->guest, frame->release.number);
        break;
    case AM_FRAME_BACK:
        am_desk_return(conn->guest, frame, &answer);
        sim_send(conn, 1, &answer);
        break;
    default: /* PARK; the connection is closed when the frame has been taken */
        am_desk_park(&host->desk, conn->guest, sim.now);
        conn->guest = NULL;
        break;
    }
}

/* ---- the importer ---- */

static void visit_come(struct am_visit *visit)
{
    struct way *way = (struct way *)visit;
    struct conn *conn = sim_allocate(1, sizeof *conn);

    conn->way = way;
    conn->host = way->host;
    way->conn = conn;
    sim_link_begin(conn, 0);
    sim.n_made++;
    if (++sim.n_conns > sim.n_most_conns)
        sim.n_most_conns = sim.n_conns;
    if (way->node->visits.seats.n > way->node->n_most[0])
        way->node->n_most[0] = way->node->visits.seats.n;
    sim_require(way->node->visits.seats.n <= way->node->visits.seats.limit,
                "an importer has more connections than its limit");
    sim_carry(conn, 0, ARRIVES);
}

static void visit_go(struct am_visit *visit)
{
    struct way *way = (struct way *)visit;
    struct am_frame frame = {.kind = AM_FRAME_PARK};

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
        am_visit_work(&way->node->visits, &way->visit, sim.now);
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

    am_visit_here(&way->node->visits, &way->visit, way->lease_ns, sim.now);
    if (way->is_released && way->is_granted) {
        way_release(way);
    } else if (!way->is_asked && !way->is_released) {
        frame.kind = AM_FRAME_IMPORT;
        frame.import.id = 1;
        frame.import.ticket.number = 1;
        way->is_asked = true;
        am_visit_work(&way->node->visits, &way->visit, sim.now);
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
    am_visit_end(&way->node->visits, &way->visit);
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
    case AM_FRAME_BACK:
        sim_require(frame->back.is_known != 0, "memory was given back too early");
        way_here(way);
        break;
    case AM_FRAME_GRANT:
        sim_require(frame->grant.status == 0, "an import was refused");
        am_visit_done(&way->node->visits, &way->visit, sim.now);
        way->is_granted = true;
        way->grant = frame->grant.number;
        if (way->is_released)
            way_release(way);
        else
            copies_begin(way);
        break;
    default: /* PARK */
        am_visit_ask(&way->node->visits, &way->visit);
    }
}

static void back_send(struct conn *conn)
{
    struct am_frame frame = {.kind = AM_FRAME_BACK};

    if (!conn->way->is_granted)
        return;
    frame.back.n_grants = 1;
    sim_send(conn, 0, &frame);
}

void sim_frame_take(void *arg, const struct am_frame *frame)
{
    const struct end *end = arg;

    if (end->side == 1)
        guest_frame(end->conn, frame);
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
    if (before == AM_LINK_SHAKING && link->state == AM_LINK_UP) {
        if (side == 1)
            guest_up(conn);
        else
            back_send(conn);
    }
    sim_flush(conn, side);
    if (side == 1 && conn->is_proved && conn->guest == NULL)
        sim_conn_close(conn, 1, true); /* it has taken its leave */
    else if (side == 0)
        am_visits_step(&conn->way->node->visits, sim.now);
}

static void close_take(struct conn *conn, int side)
{
    struct way *way = conn->way;

    if (!conn->is_open[side])
        return;
    if (side == 1) {
        guest_gone(conn, false);
        return;
    }
    am_link_close(&conn->link[0]);
    if (way->visit.state == AM_VISIT_GOING) {
        way->conn = NULL;
        sim_conn_close(conn, 0, false);
        am_visit_closed(&way->node->visits, &way->visit, sim.now);
    } else {
        way_fail(way);
    }
    am_visits_step(&way->node->visits, sim.now);
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
    if (am_visit_is_open(&way->visit) && way->is_granted)
        copies_begin(way);
    else
        am_visit_want(&node->visits, &way->visit, sim.now);
    am_visits_step(&node->visits, sim.now);
}

static void copy_done(struct way *way)
{
    if (way->node->is_dead || way->is_failed)
        return;
    am_visit_done(&way->node->visits, &way->visit, sim.now);
    am_visits_step(&way->node->visits, sim.now);
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
            am_visit_is_late(&way->visit, sim.now, TIMEOUT))
            way_fail(way);
    }
    for (conn = LIST_FIRST(&node->conns); conn != NULL; conn = next) {
        next = LIST_NEXT(conn, next);
        am_link_tick(&conn->link[1], sim.now);
        sim_flush(conn, 1);
        if (conn->link[1].n_peer_used != conn->n_seen) {
            conn->n_seen = conn->link[1].n_peer_used;
            am_seats_use(&node->guests, &conn->seat, sim.now);
        }
        if (conn->link[1].state == AM_LINK_DEAD)
            guest_gone(conn, true);
    }
    am_desk_expire(&node->desk, sim.now);
    sim_door_open(node);
    am_visits_step(&node->visits, sim.now);
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
        guest_gone(conn, is_told);
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
        if (am_visit_is_open(&way->visit) && way->is_granted)
            way_release(way);
        else
            am_visit_want(&node->visits, &way->visit, sim.now);
    }
    am_visits_step(&node->visits, sim.now);
}

/* ---- a run ---- */

static void export_gone(void *arg, struct am_desk_export *export)
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
    struct am_desk_export *export = sim_allocate(1, sizeof *export);

    node->id = id;
    node->who.pid = (int32_t)id;
    memcpy(node->who.instance, &id, sizeof id);
    am_desk_init(&node->desk, LEASE, export_gone, NULL);
    am_seats_init(&node->shaking, AM_DOOR_SHAKING);
    am_seats_init(&node->guests, sim_options.limit);
    am_visits_init(&node->visits, sim_options.limit, IDLE, sim_roll(UINT64_MAX));
    node->visits.come = visit_come;
    node->visits.go = visit_go;
    LIST_INIT(&node->conns);
    STAILQ_INIT(&node->backlog);
    export->ticket.number = 1;
    export->is_open = true;
    export->size = 1;
    sim_require(am_desk_add(&node->desk, export), "an export");
    node->ways = sim_allocate(sim_options.n_peers, sizeof *node->ways);
    for (size_t i = 0; i < sim_options.n_peers; i++) {
        struct way *way = &node->ways[i];
        struct node *host;

        do {
            host = &sim.nodes[sim_roll(sim_options.n_stores)];
        } while (is_way(node, i, host));
        way->node = node;
        way->host = host;
        am_visits_add(&node->visits, &way->visit);
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
        sim_require(RB_ROOT(&node->desk.exports)->n_grants == 0,
                    "memory was not given back");
        sim_require(node->desk.n_away == 0 && node->guests.n == 0 && node->shaking.n == 0,
                    "an importer that is gone is still in the books");
        sim_require(node->visits.seats.n == 0, "an importer kept a connection");
    }
    sim_require(sim.n_heap == 0, "something is still under way");
}

void sim_nodes_free(void)
{
    for (size_t i = 0; i < sim_options.n; i++) {
        struct node *node = &sim.nodes[i];
        struct am_desk_guest *guest;

        while ((guest = TAILQ_FIRST(&node->desk.leases)) != NULL)
            am_desk_expire(&node->desk, guest->until);
        am_desk_withdraw(&node->desk, 1);
        free(node->ways);
    }
    free(sim.nodes);
    free(sim.heap);
    sim.heap = NULL;
    sim.heap_size = 0;
}
