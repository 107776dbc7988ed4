/*
 * A cluster in one process: the fabric's own state machines over a simulated network.
 *
 *     aclmem_fabric_sim [--processes N] [--peers K] [--stores N] [--limit N] [--seconds S]
 *                       [--rate R] [--seed S] [--check]
 *
 * Links, desks, visits and seats are the code that fabric processes run; sockets, UCX and
 * the clock are events in a heap.  Everything comes from the seed: the same seed gives the
 * same table, which ends with a hash of all events.  The cluster works for S seconds; each
 * process copies R times a second, mostly to a few of the K exporters that it imports from,
 * and changes these now and then.  Then processes end: half of them let go, a quarter is
 * killed, a quarter is gone without a word.  At the end every exporter that is left must
 * have all of its memory back.
 *
 * --check is a small run for the tests: it runs twice, and fails where the two differ.
 */
#include <getopt.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "base/clock.h"
#include "fabric/desk.h"
#include "fabric/link.h"
#include "fabric/seats.h"
#include "fabric/visit.h"

#define TIMEOUT (10 * AM_SECOND)
#define TICK (500 * AM_MILLISECOND)
#define LEASE (30 * TIMEOUT)
#define IDLE (60 * AM_SECOND)
#define FAVOURITES 2
#define CHANGE (90 * AM_SECOND) /* after which a process has other favourites */
#define COPY_NS 300000          /* of the data connection: setup aside */

static struct options {
    size_t n, n_peers, n_stores, limit;
    uint64_t seconds, seed;
    double rate;
} options = {
    .n = 1000, .n_peers = 8, .limit = 2048, .seconds = 120, .rate = 0.2, .seed = 1};

struct node;

/* The way of an importer to one exporter. */
struct way {
    struct am_visit visit;
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
    LIST_ENTRY(conn) next; /* of the host, as a guest */
    struct way *way;
    struct node *host;
    struct am_link link[2];
    struct end end[2];
    bool is_open[2];
    bool is_proved;
    uint64_t order[2]; /* when the last bytes to each side arrive */
    uint32_t n_events;
    struct am_seat seat;
    struct am_desk_guest *guest;
    uint64_t n_seen;
    STAILQ_ENTRY(conn) queued; /* in the kernel of the host */
};

struct node {
    uint32_t id;
    bool is_dead;
    bool is_silent; /* its machine is gone */
    struct am_frame_who who;
    struct am_desk desk;
    struct am_seats shaking, guests;
    struct am_visits visits;
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

static struct event *heap;
static size_t n_heap, heap_size;
static uint64_t n_numbers, now, hash, dice, ends;
static struct node *nodes;
static struct am_link_keys keys;
static bool is_ending;
static uint64_t n_copies, n_lost, n_conns, n_most_conns, n_made, n_failed;
static uint64_t waits[64], longest; /* of copies, by the logarithm of microseconds */

static void require(bool holds, const char *what)
{
    if (holds)
        return;
    fprintf(stderr, "aclmem_fabric_sim: %s, at %.3f s, seed %llu\n", what,
            (double)now / 1e9, (unsigned long long)options.seed);
    exit(1);
}

static uint64_t roll(uint64_t limit)
{
    uint64_t x = (dice += UINT64_C(0x9e3779b97f4a7c15));

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (x ^ x >> 31) % limit;
}

static void *allocate(size_t n, size_t size)
{
    void *memory = calloc(n, size);

    require(memory != NULL, "no memory");
    return memory;
}

/* ---- events ---- */

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

static struct event *event_add(uint64_t at, enum kind kind, void *of)
{
    struct event event = {.at = at, .number = n_numbers++, .kind = kind, .of = of};
    size_t i = n_heap++;

    if (n_heap > heap_size) {
        heap_size = 2 * heap_size + 1024;
        heap = realloc(heap, heap_size * sizeof *heap);
        require(heap != NULL, "no memory");
    }
    for (; i > 0 && is_before(&event, &heap[(i - 1) / 2]); i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = event;
    return &heap[i];
}

static struct event event_take(void)
{
    struct event first = heap[0], last = heap[--n_heap];
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child + 1 < n_heap && is_before(&heap[child + 1], &heap[child]))
            child++;
        if (child >= n_heap || is_before(&last, &heap[child]))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return first;
}

/* ---- the network ---- */

/* A way through a few switches; now and then a packet is sent again. */
static uint64_t latency(void)
{
    return 20000 + roll(60000) + (roll(1000) == 0 ? 200 * AM_MILLISECOND : 0);
}

/* To the other side, behind what was sent to it before. */
static struct event *carry(struct conn *conn, int from, enum kind kind)
{
    uint64_t at = now + latency();
    struct event *event;

    if (at <= conn->order[!from])
        at = conn->order[!from] + 1;
    conn->order[!from] = at;
    conn->n_events++;
    event = event_add(at, kind, conn);
    event->side = !from;
    return event;
}

static void flush(struct conn *conn, int side)
{
    const uint8_t *bytes;
    size_t size;

    while (conn->is_open[side] &&
           (size = am_link_output(&conn->link[side], &bytes)) > 0) {
        struct event *event = carry(conn, side, BYTES);

        event->bytes = malloc(size);
        require(event->bytes != NULL, "no memory");
        memcpy(event->bytes, bytes, size);
        event->size = size;
        am_link_took(&conn->link[side], size);
        (side == 0 ? conn->way->node : conn->host)->n_frames +=
            (size + AM_FRAME_SIZE - 1) / AM_FRAME_SIZE;
    }
}

static void conn_free(struct conn *conn)
{
    if (conn->n_events > 0 || conn->is_open[0] || conn->is_open[1])
        return;
    free(conn);
}

static void door_open(struct node *host);

/* One side closes; the other one sees it, unless the machine is gone. */
static void conn_close(struct conn *conn, int side, bool is_told)
{
    struct node *host = conn->host;

    if (!conn->is_open[side])
        return;
    conn->is_open[side] = false;
    am_link_destroy(&conn->link[side]);
    if (side == 1) {
        am_seats_give(conn->is_proved ? &host->guests : &host->shaking, &conn->seat);
        LIST_REMOVE(conn, next);
    } else {
        n_conns--;
    }
    if (is_told)
        carry(conn, side, CLOSES);
    if (side == 1 && !host->is_dead)
        door_open(host);
    conn_free(conn);
}

static void frame_take(void *arg, const struct am_frame *frame);

static void link_begin(struct conn *conn, int side)
{
    struct am_link_spec spec = {
        .keys = &keys,
        .is_server = side == 1,
        .who = side == 1 ? conn->host->who : conn->way->node->who,
        .timeout_ns = TIMEOUT,
        .now = now,
        .frame = frame_take,
        .arg = &conn->end[side],
    };

    conn->end[side] = (struct end){conn, side};
    for (size_t i = 0; i < sizeof spec.nonce; i++)
        spec.nonce[i] = (uint8_t)roll(256);
    am_link_init(&conn->link[side], &spec);
    conn->is_open[side] = true;
}

static void send(struct conn *conn, int side, struct am_frame *frame)
{
    am_link_send(&conn->link[side], frame, now);
    flush(conn, side);
}

/* ---- the exporter: as src/fabric/peer_link.c and peer.c ---- */

static void accept_one(struct conn *conn)
{
    struct node *host = conn->host;

    am_seats_take(&host->shaking, &conn->seat, now);
    LIST_INSERT_HEAD(&host->conns, conn, next);
    link_begin(conn, 1);
    flush(conn, 1);
}

static void guest_gone(struct conn *conn, bool is_told)
{
    if (conn->guest != NULL)
        am_desk_leave(&conn->host->desk, conn->guest);
    conn->guest = NULL;
    conn_close(conn, 1, is_told);
}

/* Connections in the kernel's queue come in, as far as there is room. */
static void door_open(struct node *host)
{
    struct conn *conn;

    while ((conn = STAILQ_FIRST(&host->backlog)) != NULL) {
        enum am_door door = am_seats_door(&host->shaking, &host->guests, now);

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
            conn_free(conn);
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
    am_seats_take(&host->guests, &conn->seat, now);
    conn->guest = am_desk_enter(&host->desk, &conn->link[1].peer);
    require(conn->guest != NULL, "no memory");
    worker.worker.size = 79;
    worker.worker.lease_ms = LEASE / AM_MILLISECOND;
    send(conn, 1, &worker);
    while (host->guests.n - host->guests.n_leaving > host->guests.limit &&
           (seat = am_seats_least(&host->guests)) != NULL) {
        am_seats_leave(&host->guests, seat);
        send((struct conn *)((char *)seat - offsetof(struct conn, seat)), 1, &park);
    }
    if (host->guests.n > host->n_most[1])
        host->n_most[1] = host->guests.n;
    require(host->guests.n + host->shaking.n <=
                host->guests.limit + AM_DOOR_LEAVING + AM_DOOR_SHAKING,
            "an exporter has more connections than its limit");
    require(host->shaking.n <= AM_DOOR_SHAKING, "more unproved connections than allowed");
    door_open(host);
}

static void guest_frame(struct conn *conn, const struct am_frame *frame)
{
    struct node *host = conn->host;
    struct am_frame answer = {0};

    am_seats_use(&host->guests, &conn->seat, now);
    switch (frame->kind) {
    case AM_FRAME_IMPORT:
        am_desk_answer(&host->desk, conn->guest, frame, &answer);
        send(conn, 1, &answer);
        break;
    case AM_FRAME_RELEASE:
        am_desk_release(&host->desk, conn->guest, frame->release.number);
        break;
    case AM_FRAME_BACK:
        am_desk_return(conn->guest, frame, &answer);
        send(conn, 1, &answer);
        break;
    default: /* PARK; the connection is closed when the frame has been taken */
        am_desk_park(&host->desk, conn->guest, now);
        conn->guest = NULL;
        break;
    }
}

/* ---- the importer ---- */

static void visit_come(struct am_visit *visit)
{
    struct way *way = (struct way *)visit;
    struct conn *conn = allocate(1, sizeof *conn);

    conn->way = way;
    conn->host = way->host;
    way->conn = conn;
    link_begin(conn, 0);
    n_made++;
    if (++n_conns > n_most_conns)
        n_most_conns = n_conns;
    if (way->node->visits.seats.n > way->node->n_most[0])
        way->node->n_most[0] = way->node->visits.seats.n;
    require(way->node->visits.seats.n <= way->node->visits.seats.limit,
            "an importer has more connections than its limit");
    carry(conn, 0, ARRIVES);
}

static void visit_go(struct am_visit *visit)
{
    struct way *way = (struct way *)visit;
    struct am_frame frame = {.kind = AM_FRAME_PARK};

    send(way->conn, 0, &frame);
}

static void wait_note(uint64_t ns)
{
    int i = 0;

    if (ns == 0)
        return;
    if (ns > longest)
        longest = ns;
    for (uint64_t us = ns / 1000; us > 0; us /= 2)
        i++;
    waits[i]++;
}

static void copies_begin(struct way *way)
{
    if (way->n_held > 0)
        wait_note(now - way->wanted);
    for (; way->n_held > 0; way->n_held--) {
        am_visit_work(&way->node->visits, &way->visit, now);
        way->conn->link[0].n_used++;
        event_add(now + 2 * latency() + COPY_NS, DONE, way);
    }
}

static void way_release(struct way *way)
{
    struct am_frame frame = {.kind = AM_FRAME_RELEASE};

    frame.release.number = way->grant;
    way->is_granted = false;
    send(way->conn, 0, &frame);
}

/* The exporter knows the importer. */
static void way_here(struct way *way)
{
    struct am_frame frame = {0};

    am_visit_here(&way->node->visits, &way->visit, way->lease_ns, now);
    if (way->is_released && way->is_granted) {
        way_release(way);
    } else if (!way->is_asked && !way->is_released) {
        frame.kind = AM_FRAME_IMPORT;
        frame.import.id = 1;
        frame.import.ticket.number = 1;
        way->is_asked = true;
        am_visit_work(&way->node->visits, &way->visit, now);
        send(way->conn, 0, &frame);
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
    n_lost += way->n_held;
    way->n_held = 0;
    n_failed += !way->host->is_dead;
    am_visit_end(&way->node->visits, &way->visit);
    if (way->conn != NULL)
        conn_close(way->conn, 0, true);
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
        require(frame->back.is_known != 0, "memory was given back too early");
        way_here(way);
        break;
    case AM_FRAME_GRANT:
        require(frame->grant.status == 0, "an import was refused");
        am_visit_done(&way->node->visits, &way->visit, now);
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
    send(conn, 0, &frame);
}

static void frame_take(void *arg, const struct am_frame *frame)
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
    am_link_input(link, event->bytes, event->size, now);
    require(link->state != AM_LINK_DEAD, "a link failed");
    if (before == AM_LINK_SHAKING && link->state == AM_LINK_UP) {
        if (side == 1)
            guest_up(conn);
        else
            back_send(conn);
    }
    flush(conn, side);
    if (side == 1 && conn->is_proved && conn->guest == NULL)
        conn_close(conn, 1, true); /* it has taken its leave */
    else if (side == 0)
        am_visits_step(&conn->way->node->visits, now);
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
        conn_close(conn, 0, false);
        am_visit_closed(&way->node->visits, &way->visit, now);
    } else {
        way_fail(way);
    }
    am_visits_step(&way->node->visits, now);
}

static void arrive(struct conn *conn)
{
    struct node *host = conn->host;

    if (host->is_dead) {
        if (!host->is_silent)
            carry(conn, 1, CLOSES); /* refused */
        return;
    }
    conn->n_events++;
    STAILQ_INSERT_TAIL(&host->backlog, conn, queued);
    door_open(host);
}

static void work(struct node *node)
{
    uint64_t turn = now / CHANGE;
    uint64_t pick = roll(10) < 8 ? (turn * FAVOURITES + roll(FAVOURITES)) : roll(1 << 20);
    struct way *way = &node->ways[pick % options.n_peers];

    if (node->is_dead || is_ending)
        return;
    event_add(now + 1 + roll((uint64_t)(2e9 / options.rate)), WORKS, node);
    if (way->is_failed || way->is_released)
        return;
    n_copies++;
    if (way->n_held++ == 0)
        way->wanted = now;
    if (am_visit_is_open(&way->visit) && way->is_granted)
        copies_begin(way);
    else
        am_visit_want(&node->visits, &way->visit, now);
    am_visits_step(&node->visits, now);
}

static void copy_done(struct way *way)
{
    if (way->node->is_dead || way->is_failed)
        return;
    am_visit_done(&way->node->visits, &way->visit, now);
    am_visits_step(&way->node->visits, now);
}

static void node_tick(struct node *node)
{
    struct conn *conn, *next;

    if (node->is_dead)
        return;
    for (size_t i = 0; i < options.n_peers; i++) {
        struct way *way = &node->ways[i];

        if (way->is_failed)
            continue;
        if (way->conn != NULL) {
            am_link_tick(&way->conn->link[0], now);
            flush(way->conn, 0);
        }
        if ((way->conn != NULL && way->conn->link[0].state == AM_LINK_DEAD) ||
            am_visit_is_late(&way->visit, now, TIMEOUT))
            way_fail(way);
    }
    for (conn = LIST_FIRST(&node->conns); conn != NULL; conn = next) {
        next = LIST_NEXT(conn, next);
        am_link_tick(&conn->link[1], now);
        flush(conn, 1);
        if (conn->link[1].n_peer_used != conn->n_seen) {
            conn->n_seen = conn->link[1].n_peer_used;
            am_seats_use(&node->guests, &conn->seat, now);
        }
        if (conn->link[1].state == AM_LINK_DEAD)
            guest_gone(conn, true);
    }
    am_desk_expire(&node->desk, now);
    door_open(node);
    am_visits_step(&node->visits, now);
    if (now + TICK < ends)
        event_add(now + TICK, TICKS, node);
}

/* The process ends: its peers see it, or the machine is gone without a word. */
static void node_kill(struct node *node, bool is_told)
{
    struct conn *conn;

    node->is_dead = true;
    node->is_silent = !is_told;
    for (size_t i = 0; i < options.n_peers; i++) {
        struct way *way = &node->ways[i];

        way->is_failed = true;
        if (way->conn != NULL)
            conn_close(way->conn, 0, is_told);
        way->conn = NULL;
    }
    while ((conn = LIST_FIRST(&node->conns)) != NULL)
        guest_gone(conn, is_told);
    while ((conn = STAILQ_FIRST(&node->backlog)) != NULL) {
        STAILQ_REMOVE_HEAD(&node->backlog, queued);
        conn->n_events--;
        carry(conn, 1, CLOSES);
    }
}

static void node_let_go(struct node *node)
{
    for (size_t i = 0; i < options.n_peers; i++) {
        struct way *way = &node->ways[i];

        way->is_released = true;
        way->n_held = 0;
        if (way->is_failed || !way->is_asked)
            continue;
        if (am_visit_is_open(&way->visit) && way->is_granted)
            way_release(way);
        else
            am_visit_want(&node->visits, &way->visit, now);
    }
    am_visits_step(&node->visits, now);
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

static void node_begin(struct node *node, uint32_t id)
{
    struct am_desk_export *export = allocate(1, sizeof *export);

    node->id = id;
    node->who.pid = (int32_t)id;
    memcpy(node->who.instance, &id, sizeof id);
    am_desk_init(&node->desk, LEASE, export_gone, NULL);
    am_seats_init(&node->shaking, AM_DOOR_SHAKING);
    am_seats_init(&node->guests, options.limit);
    am_visits_init(&node->visits, options.limit, IDLE, roll(UINT64_MAX));
    node->visits.come = visit_come;
    node->visits.go = visit_go;
    LIST_INIT(&node->conns);
    STAILQ_INIT(&node->backlog);
    export->ticket.number = 1;
    export->is_open = true;
    export->size = 1;
    require(am_desk_add(&node->desk, export), "an export");
    node->ways = allocate(options.n_peers, sizeof *node->ways);
    for (size_t i = 0; i < options.n_peers; i++) {
        struct way *way = &node->ways[i];
        struct node *host;

        do {
            host = &nodes[roll(options.n_stores)];
        } while (is_way(node, i, host));
        way->node = node;
        way->host = host;
        am_visits_add(&node->visits, &way->visit);
    }
    event_add(roll(TICK), TICKS, node);
    event_add(roll(AM_SECOND), WORKS, node);
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
    conn_free(conn);
}

static void run_until(uint64_t end)
{
    while (n_heap > 0 && heap[0].at < end) {
        struct event event = event_take();

        now = event.at;
        hash = (hash ^ now) * UINT64_C(0x100000001b3);
        hash = (hash ^ (event_place(&event) << 3 | event.kind)) * UINT64_C(0x100000001b3);
        event_run(&event);
    }
    now = end;
}

struct figures {
    uint64_t hash, n_copies, n_waits, n_made, n_most, n_failed;
    size_t most[2];
    double mean[2], shakes, shakes_most, frames, frames_most, p50, p99, longest;
};

/* In milliseconds: the upper end of the step that holds this part of the waits. */
static double wait_part(uint64_t n, double part)
{
    uint64_t sum = 0;
    int i = 0;

    for (; i < 63; i++) {
        sum += waits[i];
        if ((double)sum >= part * (double)n)
            break;
    }
    return (double)(UINT64_C(1) << i) / 1e3;
}

static struct figures figures_make(void)
{
    struct figures f = {.n_copies = n_copies,
                        .n_made = n_made,
                        .n_most = n_most_conns,
                        .longest = (double)longest / 1e6};
    double span = (double)options.seconds;

    for (size_t i = 0; i < options.n; i++) {
        const struct node *node = &nodes[i];

        for (int role = 0; role < 2; role++) {
            f.mean[role] += (double)node->n_most[role] / (double)options.n;
            if (node->n_most[role] > f.most[role])
                f.most[role] = node->n_most[role];
        }
        f.shakes += (double)node->n_shakes / span / (double)options.n;
        f.frames += (double)node->n_frames / span / (double)options.n;
        if ((double)node->n_shakes / span > f.shakes_most)
            f.shakes_most = (double)node->n_shakes / span;
        if ((double)node->n_frames / span > f.frames_most)
            f.frames_most = (double)node->n_frames / span;
    }
    for (int i = 0; i < 64; i++)
        f.n_waits += waits[i];
    f.p50 = wait_part(f.n_waits, 0.5);
    f.p99 = wait_part(f.n_waits, 0.99);
    return f;
}

/* Every exporter that is left has its memory back, and no connection is left. */
static void end_check(void)
{
    for (size_t i = 0; i < options.n; i++) {
        struct node *node = &nodes[i];

        if (node->is_dead)
            continue;
        require(RB_ROOT(&node->desk.exports)->n_grants == 0, "memory was not given back");
        require(node->desk.n_away == 0 && node->guests.n == 0 && node->shaking.n == 0,
                "an importer that is gone is still in the books");
        require(node->visits.seats.n == 0, "an importer kept a connection");
    }
    require(n_heap == 0, "something is still under way");
}

static void nodes_free(void)
{
    for (size_t i = 0; i < options.n; i++) {
        struct node *node = &nodes[i];
        struct am_desk_guest *guest;

        while ((guest = TAILQ_FIRST(&node->desk.leases)) != NULL)
            am_desk_expire(&node->desk, guest->until);
        am_desk_withdraw(&node->desk, 1);
        free(node->ways);
    }
    free(nodes);
    free(heap);
    heap = NULL;
    heap_size = 0;
}

static struct figures run(void)
{
    struct figures f;

    dice = options.seed;
    hash = UINT64_C(0xcbf29ce484222325);
    now = n_numbers = n_copies = n_lost = n_conns = n_most_conns = n_made = n_failed = 0;
    memset(waits, 0, sizeof waits);
    longest = 0;
    is_ending = false;
    ends = options.seconds * AM_SECOND + LEASE + IDLE + 3 * TIMEOUT;
    nodes = allocate(options.n, sizeof *nodes);
    for (size_t i = 0; i < options.n; i++)
        node_begin(&nodes[i], (uint32_t)i);
    run_until(options.seconds * AM_SECOND);
    f = figures_make();
    require(n_lost == 0 && n_failed == 0, "a copy failed");
    is_ending = true;
    for (size_t i = 0; i < options.n; i++) {
        if (i % 4 < 2)
            node_let_go(&nodes[i]);
        else
            node_kill(&nodes[i], i % 4 == 2);
    }
    run_until(ends + TIMEOUT);
    end_check();
    f.n_failed = n_failed;
    f.hash = hash;
    nodes_free();
    return f;
}

static void figures_print(const struct figures *f)
{
    printf(
        "%9zu %6zu %6zu %6zu | %9llu %7.1f %5zu %7.1f %5zu | %6.2f %7.1f %7.1f %8.1f | "
        "%9llu %5.1f%% %7.1f %7.1f %8.1f | %016llx\n",
        options.n, options.n_stores, options.n_peers, options.limit,
        (unsigned long long)f->n_most, f->mean[0], f->most[0], f->mean[1], f->most[1],
        f->shakes, f->shakes_most, f->frames, f->frames_most,
        (unsigned long long)f->n_copies,
        100.0 * (double)f->n_waits / (double)(f->n_copies > 0 ? f->n_copies : 1), f->p50,
        f->p99, f->longest, (unsigned long long)f->hash);
}

static void head_print(void)
{
    printf(
        "%9s %6s %6s %6s | %9s %7s %5s %7s %5s | %6s %7s %7s %8s | %9s %6s %7s %7s %8s | "
        "%s\n",
        "processes", "stores", "each", "limit", "at once", "imp", "most", "exp", "most",
        "shakes", "most", "frames", "most", "copies", "wait", "p50 ms", "p99 ms",
        "most ms", "hash");
}

/* The time that a frame and a handshake cost one side, on this machine. */
static void costs_print(void)
{
    struct am_link link = {.state = AM_LINK_UP};
    struct am_frame frame = {.kind = AM_FRAME_BEAT};
    uint64_t begun = am_clock();
    const uint8_t *bytes;

    for (int i = 0; i < 2000; i++) {
        am_link_send(&link, &frame, 0);
        am_link_took(&link, am_link_output(&link, &bytes));
    }
    printf("%llu bytes for a link, %llu for a guest, %llu for a grant; %.1f us for a "
           "frame\n",
           (unsigned long long)sizeof(struct am_link),
           (unsigned long long)sizeof(struct am_desk_guest),
           (unsigned long long)sizeof(struct am_desk_grant),
           (double)(am_clock() - begun) / 2000 / 1e3);
}

static int check(void)
{
    struct figures first, second;

    options = (struct options){.n = 150,
                               .n_peers = 6,
                               .n_stores = 150,
                               .limit = 2,
                               .seconds = 10,
                               .rate = 1,
                               .seed = 7};
    first = run();
    figures_print(&first);
    second = run();
    require(first.hash == second.hash, "the same seed gave something else");
    options.seed = 8;
    second = run();
    figures_print(&second);
    require(first.hash != second.hash, "another seed gave the same");
    /* Few exporters, and far more importers than they may have connections. */
    options.n_stores = 7;
    options.limit = 8;
    second = run();
    figures_print(&second);
    return 0;
}

int main(int argc, char **argv)
{
    static const struct option known[] = {
        {"processes", required_argument, NULL, 'n'},
        {"peers", required_argument, NULL, 'k'},
        {"stores", required_argument, NULL, 'e'},
        {"limit", required_argument, NULL, 'l'},
        {"seconds", required_argument, NULL, 's'},
        {"rate", required_argument, NULL, 'r'},
        {"seed", required_argument, NULL, 'x'},
        {"check", no_argument, NULL, 'c'},
        {NULL, 0, NULL, 0},
    };
    struct figures f;
    struct rusage usage;
    bool is_check = false;
    int option;

    if (sodium_init() < 0)
        return 1;
    am_link_keys_make(&keys, "a cluster in one process", 24);
    while ((option = getopt_long(argc, argv, "", known, NULL)) != -1) {
        switch (option) {
        case 'n':
            options.n = strtoull(optarg, NULL, 10);
            break;
        case 'k':
            options.n_peers = strtoull(optarg, NULL, 10);
            break;
        case 'e':
            options.n_stores = strtoull(optarg, NULL, 10);
            break;
        case 'l':
            options.limit = strtoull(optarg, NULL, 10);
            break;
        case 's':
            options.seconds = strtoull(optarg, NULL, 10);
            break;
        case 'r':
            options.rate = strtod(optarg, NULL);
            break;
        case 'x':
            options.seed = strtoull(optarg, NULL, 10);
            break;
        case 'c':
            is_check = true;
            break;
        default:
            return 2;
        }
    }
    head_print();
    if (is_check)
        return check();
    if (options.n_stores == 0 || options.n_stores > options.n)
        options.n_stores = options.n;
    if (options.n_peers + 1 > options.n_stores || options.rate <= 0 ||
        options.limit == 0) {
        fprintf(stderr, "aclmem_fabric_sim: too few exporters, or nothing to do\n");
        return 2;
    }
    f = run();
    figures_print(&f);
    costs_print();
    getrusage(RUSAGE_SELF, &usage);
    printf("simulated in %ld s of processor time, %ld MB\n", usage.ru_utime.tv_sec,
           usage.ru_maxrss / 1024);
    return 0;
}
