/* See helper.h: control connections to other fabric processes. */
#include <arpa/inet.h>
#include <errno.h>
#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/tree.h"
#include "base/util.h"
#include "fabric/helper.h"

#define IDLE_NS (60 * AM_SECOND)
#define LEASE 30 /* times the timeout */
#define RETRY_NS (500 * AM_MILLISECOND)
#define REFUSALS_MAX 4 /* connections in a row without a welcome */

AM_TREE_BYTES(am_peer_tree, am_peer, node, place)

void am_peer_refuse(const struct am_peer *peer, uint32_t request, int32_t status,
                    const char *why)
{
    am_helper_refuse(request, status, "machine %s (%s), process %d: %s",
                     peer->who.host[0] != '\0' ? peer->who.host : "unknown",
                     peer->address, peer->place.pid, why);
}

/* ---- the end of a connection ---- */

void am_peer_settle(struct am_peer *peer)
{
    if (peer->is_ending)
        return;
    peer->is_ending = true;
    TAILQ_INSERT_TAIL(&am_helper.ending, peer, ending);
}

static void action_set(struct am_peer *peer, enum am_peer_action action)
{
    peer->action = action;
    am_peer_settle(peer);
}

void am_peer_fail(struct am_peer *peer, const char *why)
{
    if (peer->action == AM_PEER_FAIL || peer->is_dead)
        return;
    /* An importer that has closed its connection cannot fail. */
    if (peer->action == AM_PEER_DISCONNECT && peer->is_server)
        return;
    snprintf(peer->why, sizeof peer->why, "%s", why);
    if (!peer->is_server)
        RB_REMOVE(am_peer_tree, &am_helper.exporters, peer);
    action_set(peer, AM_PEER_FAIL);
}

/*
 * The exporter closed the connection instead of a welcome.  It may have another key.  Or it
 * had too many handshakes, for example if a thousand importers connect at the same time:
 * then another try helps.
 */
static bool may_be_crowded(struct am_peer *peer)
{
    return !peer->is_server && peer->action == AM_PEER_KEEP &&
           peer->link.end == AM_LINK_REFUSED && ++peer->n_refusals < REFUSALS_MAX &&
           !am_conn_is_late(&peer->conn, am_clock(), am_helper.timeout_ns);
}

/* The link is dead. */
static void link_ended(struct am_peer *peer)
{
    struct am_link *link = &peer->link;

    if (link->end == AM_LINK_CLOSED && !peer->is_server &&
        peer->conn.state == AM_CONN_CLOSING) {
        if (peer->action == AM_PEER_KEEP)
            action_set(peer, AM_PEER_DISCONNECT);
        return;
    }
    if (may_be_crowded(peer)) {
        action_set(peer, AM_PEER_RETRY);
        return;
    }
    am_peer_fail(peer, am_link_reason(link));
}

static void unreachable(struct am_peer *peer, int error)
{
    char text[192];

    /* Memory that was imported survives a short failure of the network. */
    if (peer->n_grants > 0 && error != ECONNREFUSED &&
        !am_conn_is_late(&peer->conn, am_clock(), am_helper.timeout_ns)) {
        action_set(peer, AM_PEER_RETRY);
        return;
    }
    snprintf(text, sizeof text, "it cannot be reached: %s%s", strerror(error),
             error == ECONNREFUSED ? "; the exporting process has ended" : "");
    am_peer_fail(peer, text);
}

static enum am_admission admission(void)
{
    return am_conn_admission(&am_helper.handshakes, &am_helper.importers, am_clock());
}

static void listener_pause(void)
{
    am_helper_watch(&am_helper.listener, 0, false);
    am_helper.is_listening = false;
}

void am_peer_listen(void)
{
    if (!am_helper.is_up || am_helper.is_replaying || am_helper.is_listening ||
        admission() == AM_ADMISSION_PAUSED)
        return;
    am_helper_watch(&am_helper.listener, EPOLLIN, false);
    am_helper.is_listening = true;
}

static void socket_close(struct am_peer *peer)
{
    if (peer->watch.fd < 0)
        return;
    if (peer->is_admitted)
        am_filter_remove(&am_helper.export_filter, peer->ip);
    if (peer->has_source)
        am_filter_remove(&am_helper.export_filter, peer->source);
    peer->is_admitted = peer->has_source = false;
    am_conn_slot_release(&peer->slot);
    close(peer->watch.fd);
    peer->watch.fd = -1;
    am_link_close(&peer->link);
    am_link_destroy(&peer->link);
    free(peer->worker);
    peer->worker = NULL;
    peer->is_connecting = peer->is_blocked = false;
    am_peer_listen();
}

static void peer_end(struct am_peer *peer)
{
    socket_close(peer);
    peer->is_dead = true;
    if (peer->is_server) {
        if (peer->importer != NULL)
            am_registry_remove(&am_helper.registry, peer->importer);
        peer->importer = NULL;
        return;
    }
    am_conn_fail(&peer->conn);
    am_peer_data_close(peer); /* moves in progress fail */
    am_peer_refuse_all(peer);
}

/* The connection is closed; imported memory stays. */
static void peer_disconnect(struct am_peer *peer)
{
    uint64_t now = am_clock();

    peer->action = AM_PEER_KEEP;
    if (peer->is_server) {
        am_registry_disconnect(&am_helper.registry, peer->importer, now);
        peer->importer = NULL;
        peer_end(peer);
        return;
    }
    socket_close(peer);
    am_conn_closed(&peer->conn, now);
    if (peer->n_imports > 0)
        return;
    am_peer_fail(peer, "it is not used");
    peer_end(peer);
}

static void peer_retry(struct am_peer *peer)
{
    /* Importers that were refused at the same time do not retry at the same time. */
    uint64_t wait = RETRY_NS / 2 + randombytes_uniform((uint32_t)RETRY_NS);

    peer->action = AM_PEER_KEEP;
    socket_close(peer);
    am_conn_retry(&peer->conn, am_clock() + wait);
}

static void action_run(struct am_peer *peer)
{
    if (peer->action == AM_PEER_DISCONNECT && !peer->is_dead)
        peer_disconnect(peer);
    else if (peer->action == AM_PEER_RETRY && !peer->is_dead)
        peer_retry(peer);
    else if (peer->action == AM_PEER_FAIL && !peer->is_dead)
        peer_end(peer);
    if (!peer->is_dead || peer->n_imports > 0)
        return;
    if (peer->is_ending)
        TAILQ_REMOVE(&am_helper.ending, peer, ending);
    TAILQ_REMOVE(&am_helper.peers, peer, next);
    free(peer);
}

void am_peer_sweep(void)
{
    struct am_peer *peer;

    do {
        while ((peer = TAILQ_FIRST(&am_helper.ending)) != NULL) {
            TAILQ_REMOVE(&am_helper.ending, peer, ending);
            peer->is_ending = false;
            action_run(peer);
        }
        if (am_helper.is_up)
            am_conns_step(&am_helper.conns, am_clock());
    } while (!TAILQ_EMPTY(&am_helper.ending));
}

/* ---- bytes ---- */

static void peer_write(struct am_peer *peer)
{
    const uint8_t *bytes;
    size_t size;
    bool is_blocked = false;

    while (!peer->is_connecting && (size = am_link_output(&peer->link, &bytes)) > 0) {
        ssize_t n = send(peer->watch.fd, bytes, size, MSG_NOSIGNAL);

        if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
            is_blocked = true;
            break;
        }
        if (n < 0) {
            am_link_close(&peer->link);
            link_ended(peer);
            return;
        }
        am_link_took(&peer->link, (size_t)n);
    }
    if (is_blocked == peer->is_blocked)
        return;
    peer->is_blocked = is_blocked;
    am_helper_watch(&peer->watch, EPOLLIN | (is_blocked ? EPOLLOUT : 0), false);
}

void am_peer_send(struct am_peer *peer, struct am_frame *frame)
{
    am_link_send(&peer->link, frame, am_clock());
    peer_write(peer);
}

/* Asks the least recently used importers to close their connections. */
static void importers_limit(void)
{
    struct am_conn_slots *importers = &am_helper.importers;
    struct am_frame frame = {.kind = AM_FRAME_CLOSE};
    struct am_conn_slot *slot;

    while (importers->n - importers->n_draining > importers->limit &&
           (slot = am_conn_slots_lru(importers)) != NULL) {
        am_conn_slot_drain(slot);
        am_peer_send(AM_CONTAINER_OF(slot, struct am_peer, slot), &frame);
    }
}

/* The handshake with an importer is complete. */
static void importer_up(struct am_peer *peer)
{
    struct am_ucx *ucx = &am_helper.ucx;
    struct am_frame frame = {.kind = AM_FRAME_WORKER};

    am_conn_slot_release(&peer->slot);
    am_conn_slot_acquire(&peer->slot, &am_helper.importers, am_clock());
    am_peer_listen();
    peer->importer =
        am_registry_connect(&am_helper.registry, &peer->who, &peer->link.session);
    if (peer->importer == NULL) {
        am_peer_fail(peer, "the fabric process has no memory for an importer");
        return;
    }
    peer->is_admitted = am_filter_admit(&am_helper.export_filter, peer->ip);
    peer->importer->owner = peer;
    memcpy(peer->importer->address, peer->address, sizeof peer->importer->address);
    frame.worker.lease_ms = (uint32_t)(am_helper.registry.lease_ns / AM_MILLISECOND);
    frame.worker.port = am_helper.ucx_port;
    frame.worker.size = (uint32_t)ucx->address_size;
    memcpy(frame.worker.address, ucx->address, ucx->address_size);
    am_peer_send(peer, &frame);
    importers_limit();
}

/* The handshake is complete.  Frames may have arrived with its last message. */
static void peer_up(struct am_peer *peer)
{
    if (peer->is_up)
        return;
    peer->is_up = true;
    peer->n_refusals = 0;
    peer->who = peer->link.peer;
    if (peer->is_server)
        importer_up(peer);
    else if (memcmp(peer->who.instance, peer->place.instance,
                    sizeof peer->place.instance) == 0)
        am_peer_up(peer);
    else
        am_peer_fail(peer, "the exporting process is gone, and another one has its port");
}

static void frame_take(void *arg, const struct am_frame *frame)
{
    struct am_peer *peer = arg;

    peer_up(peer);
    if (peer->action == AM_PEER_KEEP)
        am_peer_frame(peer, frame);
}

static void peer_read(struct am_peer *peer)
{
    uint8_t bytes[16 * AM_FRAME_SIZE];

    for (int i = 0; i < 8 && peer->action == AM_PEER_KEEP; i++) {
        ssize_t n = recv(peer->watch.fd, bytes, sizeof bytes, 0);

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        if (n <= 0)
            am_link_close(&peer->link);
        else
            am_link_input(&peer->link, bytes, (size_t)n, am_clock());
        if (peer->link.state == AM_LINK_DEAD) {
            link_ended(peer);
            return;
        }
        if (peer->link.state == AM_LINK_UP)
            peer_up(peer);
        peer_write(peer);
        if ((size_t)n < sizeof bytes)
            return;
    }
}

static void peer_connected(struct am_peer *peer)
{
    socklen_t size = sizeof(int);
    int error = 0;

    getsockopt(peer->watch.fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) {
        unreachable(peer, error);
        return;
    }
    peer->is_connecting = false;
    am_helper_watch(&peer->watch, EPOLLIN, false);
}

static void peer_ready(struct am_watch *watch, uint32_t events)
{
    struct am_peer *peer = (struct am_peer *)watch;

    if (peer->action != AM_PEER_KEEP || peer->is_dead)
        return;
    if (peer->is_connecting) {
        peer_connected(peer);
        return;
    }
    if (events & EPOLLOUT) {
        peer_write(peer);
        if (peer->is_releasing)
            am_peer_releases_send(peer);
    }
    if (events & (EPOLLIN | EPOLLERR | EPOLLHUP))
        peer_read(peer);
}

/* ---- new peers and connections ---- */

static struct am_peer *peer_make(bool is_server, const struct sockaddr_in *address)
{
    struct am_peer *peer = calloc(1, sizeof *peer);
    char number[INET_ADDRSTRLEN] = "";

    if (peer == NULL)
        return NULL;
    peer->watch = (struct am_watch){-1, peer_ready};
    peer->is_server = is_server;
    peer->ip = address->sin_addr;
    inet_ntop(AF_INET, &address->sin_addr, number, sizeof number);
    snprintf(peer->address, sizeof peer->address, "%s:%u", number,
             ntohs(address->sin_port));
    LIST_INIT(&peer->imports);
    LIST_INIT(&peer->released);
    TAILQ_INIT(&peer->queued);
    TAILQ_INSERT_TAIL(&am_helper.peers, peer, next);
    return peer;
}

/* The peer has a socket: the handshake begins. */
static void handshake_begin(struct am_peer *peer, int fd)
{
    struct am_link_spec spec = {
        .keys = &am_helper.keys,
        .is_server = peer->is_server,
        .who = am_helper.who,
        .timeout_ns = am_helper.timeout_ns,
        .now = am_clock(),
        .frame = frame_take,
        .arg = peer,
    };

    randombytes_buf(spec.nonce, sizeof spec.nonce);
    am_link_init(&peer->link, &spec);
    peer->watch.fd = fd;
    peer->is_up = false;
    peer->is_connecting = !peer->is_server;
    am_net_tune(fd, am_helper.timeout_ns);
    am_helper_watch(&peer->watch, peer->is_server ? EPOLLIN : EPOLLOUT, true);
}

static void handshake_evict(void)
{
    struct am_conn_slot *slot = am_conn_slots_lru(&am_helper.handshakes);

    if (slot == NULL)
        return;
    am_conn_slot_drain(slot);
    am_peer_fail(AM_CONTAINER_OF(slot, struct am_peer, slot),
                 "too many connections are waiting for their handshake");
}

void am_peer_accept(void)
{
    for (int i = 0; i < AM_HANDSHAKES_MAX; i++) {
        struct sockaddr_in address = {0};
        socklen_t size = sizeof address;
        enum am_admission verdict = admission();
        struct am_peer *peer;
        int fd;

        if (verdict == AM_ADMISSION_PAUSED) {
            listener_pause();
            return;
        }
        fd = accept4(am_helper.listener.fd, (struct sockaddr *)&address, &size,
                     SOCK_NONBLOCK | SOCK_CLOEXEC);
        /* The connection stays in the kernel's queue until the next tick. */
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
            listener_pause();
        if (fd < 0)
            return;
        if (verdict == AM_ADMISSION_EVICT)
            handshake_evict();
        peer = peer_make(true, &address);
        if (peer == NULL) {
            close(fd);
            continue;
        }
        am_conn_slot_acquire(&peer->slot, &am_helper.handshakes, am_clock());
        handshake_begin(peer, fd);
        peer_write(peer);
    }
}

static struct sockaddr_in place_address(const struct am_port_place *place)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(place->port)};

    memcpy(&address.sin_addr, place->address, sizeof address.sin_addr);
    return address;
}

static void conn_open(struct am_conn *conn)
{
    struct am_peer *peer = AM_CONTAINER_OF(conn, struct am_peer, conn);
    struct sockaddr_in address = place_address(&peer->place);
    int fd = am_net_connect(&am_helper.place.address, &address);

    if (fd < 0)
        unreachable(peer, -fd);
    else
        handshake_begin(peer, fd);
}

/* The exporter closes the connection when it has read this. */
static void conn_close(struct am_conn *conn)
{
    struct am_peer *peer = AM_CONTAINER_OF(conn, struct am_peer, conn);
    struct am_frame frame = {.kind = AM_FRAME_CLOSE};

    am_peer_data_close(peer);
    am_peer_send(peer, &frame);
}

struct am_peer *am_peer_at(const struct am_port_place *place)
{
    struct am_peer key = {.place = *place};
    struct am_peer *peer = RB_FIND(am_peer_tree, &am_helper.exporters, &key);
    struct sockaddr_in address = place_address(place);

    if (peer != NULL)
        return peer;
    peer = peer_make(false, &address);
    if (peer == NULL)
        return NULL;
    peer->place = *place;
    RB_INSERT(am_peer_tree, &am_helper.exporters, peer);
    am_conns_add(&am_helper.conns, &peer->conn);
    return peer;
}

void am_peer_start(void)
{
    uint64_t seed;

    randombytes_buf(&seed, sizeof seed);
    am_conn_slots_init(&am_helper.handshakes, AM_HANDSHAKES_MAX);
    am_conn_slots_init(&am_helper.importers, am_helper.options.n_connections);
    am_conns_init(&am_helper.conns, am_helper.options.n_connections, IDLE_NS, seed);
    am_helper.conns.open = conn_open;
    am_helper.conns.close = conn_close;
    am_helper.registry.lease_ns = LEASE * am_helper.timeout_ns;
}

/* ---- time ---- */

static void peer_tick(struct am_peer *peer, uint64_t now)
{
    uint64_t timeout = am_helper.timeout_ns;
    bool has_socket = peer->watch.fd >= 0;

    if (has_socket)
        am_link_tick(&peer->link, now);
    if (has_socket && peer->link.state == AM_LINK_DEAD)
        link_ended(peer);
    else if (peer->n_moves > 0 && now - peer->moved_last >= timeout)
        am_peer_fail(peer, "no byte was moved for ACLMEM_FABRIC_TIMEOUT");
    else if (!peer->is_server && am_conn_is_late(&peer->conn, now, timeout))
        am_peer_fail(peer,
                     peer->conn.state == AM_CONN_WAITING
                         ? "no connection was free for it for ACLMEM_FABRIC_TIMEOUT "
                           "(ACLMEM_FABRIC_CONNECTIONS)"
                     : peer->conn.state == AM_CONN_OPENING
                         ? "it did not answer in time"
                         : "it could not be reached for ACLMEM_FABRIC_TIMEOUT");
    else if (has_socket)
        peer_write(peer);
    if (peer->importer != NULL && peer->link.n_peer_used != peer->n_seen) {
        peer->n_seen = peer->link.n_peer_used;
        am_conn_slot_touch(&peer->slot, now);
    }
}

void am_peer_tick(uint64_t now)
{
    struct am_peer *peer;

    TAILQ_FOREACH (peer, &am_helper.peers, next) {
        if (!peer->is_dead && peer->action == AM_PEER_KEEP)
            peer_tick(peer, now);
    }
    am_registry_expire(&am_helper.registry, now);
    am_peer_listen();
}
