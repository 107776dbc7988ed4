/* See helper.h: imports, and the frames of peers. */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/tree.h"
#include "base/util.h"
#include "fabric/helper.h"

/* ---- imports ---- */

AM_TREE(am_peer_imports, am_peer_import, node, number)

static void import_free(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;

    LIST_REMOVE(import, next);
    peer->n_imports--;
    peer->n_grants -= import->is_granted;
    RB_REMOVE(am_peer_imports, &am_helper.imports, import);
    free(import);
    if (peer->is_dead)
        am_peer_settle(peer); /* the last import frees the peer */
}

/*
 * UCX chooses the source address of its connections, which may not be the address of the
 * control connection.  The exporter needs it for its packet filter.
 */
static void source_report(const struct am_peer *peer, uint8_t *ret_source)
{
    struct in_addr source = am_net_source(&peer->ip);

    memcpy(ret_source, &source, sizeof source);
}

static void import_send(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;
    struct am_frame frame = {.kind = AM_FRAME_IMPORT};

    import->is_sent = true;
    am_conn_work_begin(&peer->conn, am_clock());
    frame.import.id = import->number;
    frame.import.ticket = import->ticket;
    source_report(peer, frame.import.source);
    am_peer_send(peer, &frame);
}

/* The connection is not closed before all releases are sent. */
void am_peer_releases_send(struct am_peer *peer)
{
    struct am_peer_import *import;
    uint64_t now = am_clock();

    while (peer->conn.state == AM_CONN_OPEN && peer->action == AM_PEER_KEEP &&
           !peer->is_blocked && (import = LIST_FIRST(&peer->released)) != NULL) {
        struct am_frame frame = {.kind = AM_FRAME_RELEASE};

        frame.release.number = import->grant.number;
        import_free(import);
        am_peer_send(peer, &frame);
    }
    if (LIST_EMPTY(&peer->released)) {
        if (peer->is_releasing)
            am_conn_work_end(&peer->conn, now);
        peer->is_releasing = false;
    } else if (peer->conn.state != AM_CONN_OPEN) {
        am_conn_request(&peer->conn, now);
    } else if (!peer->is_releasing) {
        am_conn_work_begin(&peer->conn, now);
        peer->is_releasing = true;
    }
}

/* The program has released the memory, and no move uses it. */
static void import_release(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;

    if (peer->is_dead || !import->is_granted) {
        import_free(import);
        return;
    }
    LIST_REMOVE(import, next);
    LIST_INSERT_HEAD(&peer->released, import, next);
    am_peer_releases_send(peer);
}

void am_peer_import_unref(struct am_peer_import *import)
{
    if (--import->n_moves == 0 && import->is_released)
        import_release(import);
}

/* ---- the endpoint ---- */

static void endpoint_broken(void *arg)
{
    am_peer_fail(arg, "its data connection broke; it may have ended");
}

/* Connects UCX, unless it is connected. */
bool am_peer_reach(struct am_peer *peer)
{
    char why[AM_UCX_WHY] = "its worker's address is not known";

    if (!peer->has_endpoint)
        peer->has_endpoint =
            peer->worker != NULL &&
            am_ucx_connect(&am_helper.ucx, &peer->endpoint, peer->worker,
                           &peer->link.session, endpoint_broken, peer, why) == 0;
    if (!peer->has_endpoint)
        am_peer_fail(peer, why);
    return peer->has_endpoint;
}

void am_peer_data_close(struct am_peer *peer)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(peer->ucx_port),
        .sin_addr = peer->ip,
    };

    if (!peer->has_endpoint)
        return;
    am_ucx_disconnect(&am_helper.ucx, &peer->endpoint);
    if (peer->ucx_port != 0) /* UCX keeps the connection of an endpoint that was closed */
        am_net_shut(&address);
    peer->has_endpoint = false;
    peer->is_probed = false;
}

/* ---- frames of importers ---- */

static void source_admit(struct am_peer *peer, const uint8_t *bytes)
{
    struct in_addr source;

    memcpy(&source, bytes, sizeof source);
    if (peer->has_source || source.s_addr == 0 || source.s_addr == peer->ip.s_addr)
        return;
    peer->source = source;
    peer->has_source = am_filter_admit(&am_helper.export_filter, source);
}

static void importer_frame(struct am_peer *peer, const struct am_frame *frame)
{
    struct am_frame reply = {0};

    am_conn_slot_touch(&peer->slot, am_clock());
    switch (frame->kind) {
    case AM_FRAME_IMPORT:
        source_admit(peer, frame->import.source);
        am_registry_import(&am_helper.registry, peer->importer, frame, &reply);
        am_peer_send(peer, &reply);
        return;
    case AM_FRAME_RELEASE:
        am_registry_release(peer->importer, frame->release.number);
        return;
    case AM_FRAME_ECHO:
        reply = *frame;
        am_peer_send(peer, &reply);
        return;
    case AM_FRAME_RECONNECT:
        source_admit(peer, frame->reconnect.source);
        am_registry_reconnect(peer->importer, frame, &reply);
        am_peer_send(peer, &reply);
        return;
    case AM_FRAME_CLOSE:
        peer->action = AM_PEER_DISCONNECT;
        am_peer_settle(peer);
        return;
    default:
        am_peer_fail(peer, "it sent what only an exporter may send");
    }
}

/* ---- frames of exporters ---- */

/* The exporter has accepted this process: sends all that waited. */
static void exporter_opened(struct am_peer *peer)
{
    struct am_peer_import *import;

    am_conn_opened(&peer->conn, peer->lease_ms * AM_MILLISECOND, am_clock());
    am_peer_releases_send(peer);
    LIST_FOREACH (import, &peer->imports, next) {
        if (!import->is_sent)
            import_send(import);
    }
    am_peer_queued_end(peer, false);
}

void am_peer_up(struct am_peer *peer)
{
    struct am_frame frame = {.kind = AM_FRAME_RECONNECT};

    if (!am_filter_admits(&am_helper.import_filter, peer->ip))
        am_filter_admit(&am_helper.import_filter, peer->ip);
    if (peer->n_grants == 0)
        return;
    frame.reconnect.n_grants = peer->n_grants;
    source_report(peer, frame.reconnect.source);
    am_peer_send(peer, &frame);
}

static void worker_take(struct am_peer *peer, const struct am_frame *frame)
{
    if (peer->worker != NULL || frame->worker.size == 0 ||
        frame->worker.size > AM_FRAME_WORKER_MAX ||
        (peer->worker = malloc(frame->worker.size)) == NULL) {
        am_peer_fail(peer, "its worker's address is wrong");
        return;
    }
    memcpy(peer->worker, frame->worker.address, frame->worker.size);
    peer->lease_ms = frame->worker.lease_ms;
    peer->ucx_port = (uint16_t)frame->worker.port;
    if (peer->n_grants == 0)
        exporter_opened(peer);
}

static void reconnect_take(struct am_peer *peer, const struct am_frame *frame)
{
    if (peer->conn.state != AM_CONN_OPENING || peer->worker == NULL) {
        am_peer_fail(peer, "it answered what was not asked");
    } else if (frame->reconnect.is_known != 0) {
        exporter_opened(peer);
    } else {
        peer->is_forgotten = true;
        am_peer_fail(peer,
                     "it released the memory: it had not heard of this process for too "
                     "long, or its fabric process was started again");
    }
}

static void import_reply(struct am_peer_import *import)
{
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = import->request};

    import->is_replied = true;
    reply.imported.number = import->number;
    reply.imported.size = import->grant.size;
    reply.imported.n_bytes = import->grant.n_bytes;
    memcpy(reply.imported.bytes, import->grant.bytes, import->grant.n_bytes);
    memcpy(reply.imported.host, import->peer->who.host, sizeof reply.imported.host);
    reply.imported.pid = import->peer->who.pid;
    am_helper_reply(&reply);
}

static void probe_done(struct am_ucx_move *move)
{
    struct am_peer *peer = AM_CONTAINER_OF(move, struct am_peer, probe_move);
    struct am_peer_import *import;

    peer->is_probing = false;
    am_peer_work_end(peer);
    if (move->has_failed) {
        am_peer_fail(peer, "its data port cannot be reached, or it ended");
        return;
    }
    peer->is_probed = true;
    LIST_FOREACH (import, &peer->imports, next) {
        if (import->is_granted && !import->is_replied)
            import_reply(import);
    }
}

/*
 * An empty get shows that the exporter's data port is open, before the program gets the
 * memory.  It also completes UCX's own handshake: UCX 1.13 aborts an exporter whose importer
 * ends in the middle of that.
 */
static void import_probe(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;
    struct am_ucx_range none = {.grant = import->grant.number, .bytes = am_helper.area};

    if (peer->is_probed)
        import_reply(import);
    if (peer->is_probed || peer->is_probing || !am_peer_reach(peer))
        return;
    peer->is_probing = true;
    peer->probe_move.done = probe_done;
    am_peer_work_begin(peer);
    am_ucx_get(&am_helper.ucx, &peer->endpoint, &none, &peer->probe_head,
               &peer->probe_move);
}

struct am_peer_import *am_peer_import_find(uint64_t number)
{
    struct am_peer_import key = {.number = number};

    return RB_FIND(am_peer_imports, &am_helper.imports, &key);
}

static void grant_take(struct am_peer *peer, const struct am_frame *frame)
{
    struct am_peer_import *import = am_peer_import_find(frame->grant.id);

    if (import == NULL || import->peer != peer || import->is_granted ||
        !import->is_sent || frame->grant.n_bytes > AM_PORT_DESC) {
        am_peer_fail(peer, "it answered what was not asked");
        return;
    }
    am_conn_work_end(&peer->conn, am_clock());
    if (frame->grant.status != ACL_SUCCESS) {
        am_peer_refuse(
            peer, import->request, frame->grant.status,
            frame->grant.status == ACL_ERROR_RT_NO_PERMISSION
                ? "it does not export this memory to this process: the memory was "
                  "freed, or this process is not on the list; the exporter calls "
                  "aclrtMemSetPidToShareableHandleV2 with the id that "
                  "aclrtDeviceGetBareTgid returns here"
                : "it has no memory for another import");
        import_free(import);
        return;
    }
    import->is_granted = true;
    peer->n_grants++;
    import->grant = frame->grant;
    import_probe(import);
}

static void exporter_frame(struct am_peer *peer, const struct am_frame *frame)
{
    switch (frame->kind) {
    case AM_FRAME_WORKER:
        worker_take(peer, frame);
        return;
    case AM_FRAME_GRANT:
        grant_take(peer, frame);
        return;
    case AM_FRAME_RECONNECT:
        reconnect_take(peer, frame);
        return;
    case AM_FRAME_CLOSE:
        am_conn_drain(&peer->conn);
        return;
    case AM_FRAME_ECHO:
        return;
    default:
        am_peer_fail(peer, "it sent what only an importer may send");
    }
}

void am_peer_frame(struct am_peer *peer, const struct am_frame *frame)
{
    if (peer->is_server)
        importer_frame(peer, frame);
    else
        exporter_frame(peer, frame);
}

/* ---- requests of the program ---- */

static void import_begin(struct am_peer_import *import, struct am_peer *peer)
{
    import->peer = peer;
    LIST_INSERT_HEAD(&peer->imports, import, next);
    peer->n_imports++;
    if (am_conn_is_open(&peer->conn))
        import_send(import);
    else
        am_conn_request(&peer->conn, am_clock());
}

void am_peer_import(const struct am_port_message *message)
{
    struct am_peer *peer = am_peer_at(&message->import.place);
    struct am_peer_import *import = peer != NULL ? calloc(1, sizeof *import) : NULL;

    if (import == NULL) {
        am_helper_refuse(message->id, ACL_ERROR_BAD_ALLOC,
                         "the fabric process has no memory for an import");
        return;
    }
    import->number = ++am_helper.n_imports;
    RB_INSERT(am_peer_imports, &am_helper.imports, import);
    import->request = message->id;
    import->ticket = message->import.ticket;
    import_begin(import, peer);
}

void am_peer_release(uint64_t number)
{
    struct am_peer_import *import = am_peer_import_find(number);

    if (import == NULL || import->is_released)
        return;
    import->is_released = true;
    if (import->n_moves == 0)
        import_release(import);
}

/*
 * If the exporter has released earlier grants, an import that waits is not affected: it is
 * moved to a new peer.
 */
static bool import_renew(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;
    struct am_peer *renewed = NULL;

    if (peer->is_forgotten && !import->is_sent)
        renewed = am_peer_at(&peer->place);
    if (renewed == NULL)
        return false;
    LIST_REMOVE(import, next);
    peer->n_imports--;
    import_begin(import, renewed);
    return true;
}

void am_peer_refuse_all(struct am_peer *peer)
{
    struct am_peer_import *import, *next;

    am_peer_queued_end(peer, true);
    while ((import = LIST_FIRST(&peer->released)) != NULL)
        import_free(import);
    for (import = LIST_FIRST(&peer->imports); import != NULL; import = next) {
        next = LIST_NEXT(import, next);
        if (import->is_replied || import_renew(import))
            continue;
        am_peer_refuse(peer, import->request, ACL_ERROR_RT_IPC_ERROR, peer->why);
        import_free(import);
    }
}
