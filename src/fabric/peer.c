/* See helper.h: imports, and what peers say. */
#include <arpa/inet.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "fabric/helper.h"

#define RECORD_ROWS \
    256 /* peers that aclmem info shows; further ones are a row together */

/* ---- imports ---- */

static void import_refuse(struct am_peer_import *import, int32_t status, const char *why)
{
    char name[192];

    am_helper_refuse(import->peer->helper, import->request, status, "%s: %s",
                     am_peer_name(import->peer, name, sizeof name), why);
}

static void rkey_drop(struct am_peer_import *import)
{
    if (import->has_rkey)
        ucp_rkey_destroy(import->rkey);
    import->has_rkey = false;
}

static void import_free(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;
    struct am_helper *helper = peer->helper;
    size_t at = import->number - 1;

    rkey_drop(import);
    LIST_REMOVE(import, next);
    peer->n_imports--;
    peer->n_grants -= import->is_granted;
    helper->imports[at] = NULL;
    if (at < helper->first_free)
        helper->first_free = at;
    free(import->packed);
    free(import);
    if (peer->is_dead)
        am_peer_settle(peer); /* the last one frees the peer */
}

/*
 * UCX chooses the source of its connections by itself, and it may differ from that of the
 * control connection: the exporter is told, for its gate.
 */
static void source_tell(const struct am_peer *peer, uint8_t *ret_source)
{
    struct in_addr to;

    memcpy(&to, peer->place.address, sizeof to);
    to = am_net_source(&to);
    memcpy(ret_source, &to, sizeof to);
}

static void import_ask(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;
    struct am_frame frame = {.kind = AM_FRAME_IMPORT};

    import->is_asked = true;
    am_connection_work_begin(&peer->helper->connections, &peer->connection,
                             am_helper_now());
    frame.import.id = import->number;
    frame.import.ticket = import->ticket;
    source_tell(peer, frame.import.source);
    am_peer_send(peer, &frame);
}

/*
 * Tells the exporter which memory is not used any more, as fast as it takes that; the
 * connection stays until all is told.
 */
static void releases_send(struct am_peer *peer)
{
    struct am_connections *connections = &peer->helper->connections;
    struct am_peer_import *import;
    uint64_t now = am_helper_now();

    while (peer->connection.state == AM_CONNECTION_OPEN && peer->action == AM_PEER_KEEP &&
           !peer->is_waiting && (import = LIST_FIRST(&peer->released)) != NULL) {
        struct am_frame frame = {.kind = AM_FRAME_RELEASE};

        frame.release.number = import->grant;
        import_free(import);
        am_peer_send(peer, &frame);
    }
    if (LIST_EMPTY(&peer->released)) {
        if (peer->is_releasing)
            am_connection_work_end(connections, &peer->connection, now);
        peer->is_releasing = false;
    } else if (peer->connection.state != AM_CONNECTION_OPEN) {
        am_connection_request(connections, &peer->connection, now);
    } else if (!peer->is_releasing) {
        am_connection_work_begin(connections, &peer->connection, now);
        peer->is_releasing = true;
    }
}

/* The program has released it, and no move uses it. */
static void import_release(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;

    rkey_drop(import);
    if (peer->is_dead || !import->is_granted) {
        import_free(import);
        return;
    }
    LIST_REMOVE(import, next);
    LIST_INSERT_HEAD(&peer->released, import, next);
    releases_send(peer);
}

void am_peer_import_leave(struct am_peer_import *import)
{
    if (--import->n_moves == 0 && import->is_released)
        import_release(import);
}

/* ---- the way of the bytes ---- */

static void way_broken(void *arg)
{
    am_peer_fail(arg, "its data connection broke; it may have ended");
}

/* Makes the way to the memory, if there is none in this connection: whether it is there. */
bool am_peer_import_reach(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;
    char why[AM_UCX_WHY] = "its worker's address is not known";

    if (!peer->has_way) {
        if (peer->worker == NULL ||
            am_ucx_connect(&peer->helper->ucx, &peer->way, peer->worker, peer->link.token,
                           way_broken, peer, why) != 0) {
            am_peer_fail(peer, why);
            return false;
        }
        peer->has_way = true;
    }
    if (!import->has_rkey)
        import->has_rkey =
            ucp_ep_rkey_unpack(peer->way.ep, import->packed, &import->rkey) == UCS_OK;
    return import->has_rkey;
}

static void rkeys_drop(struct am_peer *peer)
{
    struct am_peer_import *import;

    LIST_FOREACH (import, &peer->imports, next)
        rkey_drop(import);
}

/* Where the exporter's UCX listens; the port is 0 if it was not told. */
static struct sockaddr_in ucx_address(const struct am_peer *peer)
{
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(peer->ucx_port),
    };

    memcpy(&address.sin_addr, peer->place.address, sizeof address.sin_addr);
    return address;
}

void am_peer_data_close(struct am_peer *peer)
{
    struct sockaddr_in address = ucx_address(peer);

    if (!peer->has_way)
        return;
    /* Keys end before their endpoint, unless moves use them until it ends. */
    if (peer->n_moves == 0)
        rkeys_drop(peer);
    else if (peer->ucx_port !=
             0) /* a part of a failed copy must not follow a later one */
        am_net_doom(&address);
    am_ucx_disconnect(&peer->helper->ucx, &peer->way);
    am_peer_puts_over(peer, peer->way.n_messages);
    rkeys_drop(peer);
    /* UCX keeps the connections of an endpoint that was closed, for a peer's use. */
    if (peer->ucx_port != 0)
        am_net_shut(&address);
    peer->has_way = false;
    peer->is_probed = false;
}

/* ---- what peers say ---- */

static void source_take(struct am_peer *peer, const uint8_t *bytes)
{
    struct in_addr source;

    memcpy(&source, bytes, sizeof source);
    if (peer->has_source || source.s_addr == 0 || source.s_addr == peer->from.s_addr)
        return;
    peer->source = source;
    peer->has_source = am_gate_admit(&peer->helper->gate, source);
}

/* An importer's frame. */
static void importer_frame(struct am_peer *peer, const struct am_frame *frame)
{
    struct am_helper *helper = peer->helper;
    struct am_frame answer = {0};

    am_conn_slots_touch(&helper->importers, &peer->slot, am_helper_now());
    switch (frame->kind) {
    case AM_FRAME_IMPORT:
        source_take(peer, frame->import.source);
        if (frame->import.ticket.number == AM_FRAME_SCRATCH)
            am_helper_scratch(helper);
        am_registry_import(&helper->registry, peer->importer, frame, &answer);
        am_peer_send(peer, &answer);
        return;
    case AM_FRAME_RELEASE:
        am_registry_release(&helper->registry, peer->importer, frame->release.number);
        return;
    case AM_FRAME_ECHO:
        answer = *frame;
        am_peer_send(peer, &answer);
        return;
    case AM_FRAME_RECONNECT:
        source_take(peer, frame->back.source);
        am_registry_reconnect(peer->importer, frame, &answer);
        am_peer_send(peer, &answer);
        return;
    case AM_FRAME_CLOSE:
        peer->action = AM_PEER_DISCONNECT;
        am_peer_settle(peer);
        return;
    default:
        am_peer_fail(peer, "it sent what only an exporter may send");
    }
}

/* The exporter knows this process: what waited for that begins. */
static void host_here(struct am_peer *peer)
{
    struct am_helper *helper = peer->helper;
    struct am_peer_import *import;

    am_connection_opened(&helper->connections, &peer->connection,
                         peer->lease_ms * AM_MILLISECOND, am_helper_now());
    releases_send(peer);
    LIST_FOREACH (import, &peer->imports, next) {
        if (!import->is_asked)
            import_ask(import);
    }
    am_peer_held_begin(peer);
}

void am_peer_more(struct am_peer *peer)
{
    if (peer->is_releasing)
        releases_send(peer);
}

void am_peer_up(struct am_peer *peer)
{
    struct am_frame frame = {.kind = AM_FRAME_RECONNECT};

    am_gate_admit_once(&peer->helper->back, peer->from);
    if (peer->n_grants == 0)
        return;
    frame.back.n_grants = peer->n_grants;
    source_tell(peer, frame.back.source);
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
        host_here(peer);
}

static void back_take(struct am_peer *peer, const struct am_frame *frame)
{
    if (peer->connection.state != AM_CONNECTION_OPENING || peer->worker == NULL) {
        am_peer_fail(peer, "it answered what was not asked");
    } else if (frame->back.is_known != 0) {
        host_here(peer);
    } else {
        peer->is_forgotten = true;
        am_peer_fail(peer,
                     "it gave the memory back: it had not heard of this process for "
                     "too long, or its fabric process was started again");
    }
}

static void import_reply(struct am_peer_import *import)
{
    struct am_port_message reply = {.kind = AM_PORT_REPLY, .id = import->request};

    import->is_replied = true;
    reply.imported.number = import->number;
    reply.imported.size = import->size;
    reply.imported.n_bytes = import->n_bytes;
    memcpy(reply.imported.bytes, import->bytes, import->n_bytes);
    memcpy(reply.imported.host, import->peer->who.host, sizeof reply.imported.host);
    reply.imported.pid = import->peer->who.pid;
    am_helper_reply(import->peer->helper, &reply);
}

static struct am_peer *peer_of_probe(struct am_ucx_move *move)
{
    return (struct am_peer *)((char *)move - offsetof(struct am_peer, probe_move));
}

static void probe_done(struct am_ucx_move *move)
{
    struct am_peer *peer = peer_of_probe(move);
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
 * A first byte shows that the peer's data port is open, before the program is told that it
 * has the memory.  It also completes UCX's own handshake: UCX 1.13 aborts an exporter
 * whose importer ends in the middle of that.
 */
static void import_probe(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;

    if (peer->is_probed) {
        import_reply(import);
        return;
    }
    if (peer->is_probing)
        return;
    peer->is_probing = true;
    peer->probe_move.done = probe_done;
    am_peer_work_begin(peer);
    am_ucx_get(&peer->helper->ucx, &peer->way, import->rkey, import->address,
               &peer->probe, sizeof peer->probe, &peer->probe_move);
}

struct am_peer_import *am_peer_import_find(struct am_helper *helper, uint64_t number)
{
    return number - 1 < helper->n_imports ? helper->imports[number - 1] : NULL;
}

static void grant_refused(struct am_peer_import *import, int32_t status)
{
    import_refuse(import, status,
                  status == ACL_ERROR_RT_NO_PERMISSION
                      ? "it does not export this memory to this process: the memory was "
                        "freed, or this process is not on the list; the exporter calls "
                        "aclrtMemSetPidToShareableHandleV2 with the id that "
                        "aclrtDeviceGetBareTgid returns here"
                      : "it has no memory for another import");
    import_free(import);
}

static void grant_take(struct am_peer *peer, const struct am_frame *frame)
{
    struct am_peer_import *import = am_peer_import_find(peer->helper, frame->grant.id);

    if (import == NULL || import->peer != peer || import->is_granted ||
        !import->is_asked || frame->grant.n_bytes > AM_PORT_DESC ||
        frame->grant.n_rkey > AM_FRAME_RKEY_MAX) {
        am_peer_fail(peer, "it answered what was not asked");
        return;
    }
    am_connection_work_end(&peer->helper->connections, &peer->connection,
                           am_helper_now());
    if (frame->grant.status != ACL_SUCCESS) {
        grant_refused(import, frame->grant.status);
        return;
    }
    import->is_granted = true;
    peer->n_grants++;
    import->grant = frame->grant.number;
    import->size = frame->grant.size;
    import->address = frame->grant.address;
    import->n_bytes = frame->grant.n_bytes;
    memcpy(import->bytes, frame->grant.bytes, frame->grant.n_bytes);
    import->packed = malloc(frame->grant.n_rkey + 1);
    if (import->packed != NULL)
        memcpy(import->packed, frame->grant.rkey, frame->grant.n_rkey);
    if (import->packed == NULL || !am_peer_import_reach(import)) {
        import_refuse(import, ACL_ERROR_RT_IPC_ERROR,
                      "UCX does not understand the key of its memory");
        import_release(import);
        return;
    }
    import_probe(import);
}

/* An exporter's frame. */
static void host_frame(struct am_peer *peer, const struct am_frame *frame)
{
    switch (frame->kind) {
    case AM_FRAME_WORKER:
        worker_take(peer, frame);
        return;
    case AM_FRAME_GRANT:
        grant_take(peer, frame);
        return;
    case AM_FRAME_RECONNECT:
        back_take(peer, frame);
        return;
    case AM_FRAME_CLOSE:
        am_connection_drain(&peer->helper->connections, &peer->connection);
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
        host_frame(peer, frame);
}

/* ---- what the program asks for ---- */

static struct am_peer_import *import_make(struct am_helper *helper)
{
    struct am_peer_import *import = calloc(1, sizeof *import);
    size_t at = helper->first_free;

    if (import == NULL)
        return NULL;
    while (at < helper->n_imports && helper->imports[at] != NULL)
        at++;
    if (at == helper->n_imports) {
        size_t n = 2 * helper->n_imports + 16;
        struct am_peer_import **imports =
            realloc(helper->imports, n * sizeof(struct am_peer_import *));

        if (imports == NULL) {
            free(import);
            return NULL;
        }
        memset(imports + at, 0, (n - at) * sizeof(struct am_peer_import *));
        helper->imports = imports;
        helper->n_imports = n;
    }
    helper->imports[at] = import;
    helper->first_free = at + 1;
    import->number = at + 1;
    return import;
}

static void import_begin(struct am_peer_import *import, struct am_peer *peer)
{
    import->peer = peer;
    LIST_INSERT_HEAD(&peer->imports, import, next);
    peer->n_imports++;
    if (am_connection_is_open(&peer->connection))
        import_ask(import);
    else
        am_connection_request(&peer->helper->connections, &peer->connection,
                              am_helper_now());
}

void am_peer_import(struct am_helper *helper, const struct am_port_message *message)
{
    const struct am_port_place *place = &message->import.place;
    struct am_peer *peer = am_peer_at(helper, place);
    struct am_peer_import *import = peer != NULL ? import_make(helper) : NULL;

    if (import == NULL) {
        am_helper_refuse(helper, message->id, ACL_ERROR_BAD_ALLOC,
                         "the fabric process has no memory for an import");
        return;
    }
    import->request = message->id;
    import->ticket = message->import.ticket;
    import_begin(import, peer);
}

void am_peer_release(struct am_helper *helper, uint64_t number)
{
    struct am_peer_import *import = am_peer_import_find(helper, number);

    if (import == NULL || import->is_released)
        return;
    import->is_released = true;
    if (import->n_moves == 0)
        import_release(import);
}

/*
 * The exporter has given back earlier memory.  That is no reason to refuse an import that
 * waits: it begins anew.
 */
static bool import_renew(struct am_peer_import *import)
{
    struct am_peer *peer = import->peer;
    struct am_peer *fresh = NULL;

    if (peer->is_forgotten && !import->is_asked)
        fresh = am_peer_at(peer->helper, &peer->place);
    if (fresh == NULL)
        return false;
    LIST_REMOVE(import, next);
    peer->n_imports--;
    import_begin(import, fresh);
    return true;
}

void am_peer_refuse_all(struct am_peer *peer)
{
    struct am_peer_import *import, *next;

    am_peer_held_refuse(peer);
    while ((import = LIST_FIRST(&peer->released)) != NULL)
        import_free(import);
    for (import = LIST_FIRST(&peer->imports); import != NULL; import = next) {
        next = LIST_NEXT(import, next);
        if (import->is_replied || import_renew(import))
            continue;
        import_refuse(import, ACL_ERROR_RT_IPC_ERROR, peer->why);
        import_free(import);
    }
}

/* ---- the records ---- */

static bool importer_row(const struct am_importer *importer, struct am_port_row *row)
{
    memset(row, 0, sizeof *row);
    row->is_importer = 1;
    row->n = importer->n_grants;
    row->n_bytes = importer->n_bytes;
    row->pid = importer->who.pid;
    memcpy(row->host, importer->who.host, sizeof row->host);
    memcpy(row->address, importer->address, sizeof row->address);
    return row->n > 0;
}

static bool peer_row(const struct am_peer *peer, struct am_port_row *row)
{
    const struct am_peer_import *import;

    if (peer->is_server)
        return peer->importer != NULL && importer_row(peer->importer, row);
    memset(row, 0, sizeof *row);
    LIST_FOREACH (import, &peer->imports, next) {
        row->n += import->is_granted;
        row->n_bytes += import->size;
    }
    row->pid = peer->who.pid;
    memcpy(row->host, peer->who.host, sizeof row->host);
    memcpy(row->address, peer->address, sizeof row->address);
    return row->n > 0 && !peer->is_dead;
}

struct records {
    struct am_port_row rows[RECORD_ROWS + 2];
    size_t n;
    struct am_port_row rest[2]; /* the peers without a row: exporters, and importers */
    unsigned n_rest[2];
};

static void records_add(struct records *records, const struct am_port_row *row)
{
    struct am_port_row *rest = &records->rest[row->is_importer];

    if (records->n < RECORD_ROWS) {
        records->rows[records->n++] = *row;
        return;
    }
    rest->is_importer = row->is_importer;
    rest->n += row->n;
    rest->n_bytes += row->n_bytes;
    records->n_rest[row->is_importer]++;
}

static void records_make(const struct am_helper *helper, struct records *records)
{
    const struct am_importer *importer;
    const struct am_peer *peer;
    struct am_port_row row;

    memset(records, 0, sizeof *records);
    TAILQ_FOREACH (peer, &helper->peers, next) {
        if (peer_row(peer, &row))
            records_add(records, &row);
    }
    TAILQ_FOREACH (importer, &helper->registry.leases, next) {
        if (importer_row(importer, &row))
            records_add(records, &row);
    }
    for (int i = 0; i < 2; i++) {
        if (records->n_rest[i] == 0)
            continue;
        snprintf(records->rest[i].address, sizeof records->rest[i].address, "%u others",
                 records->n_rest[i]);
        records->rows[records->n++] = records->rest[i];
    }
}

void am_peer_records_write(struct am_helper *helper)
{
    static struct records records, before;
    size_t size;

    if (helper->records < 0)
        return;
    records_make(helper, &records);
    size = records.n * sizeof records.rows[0];
    if (records.n == before.n && memcmp(records.rows, before.rows, size) == 0)
        return;
    if (pwrite(helper->records, records.rows, size, 0) < 0 ||
        ftruncate(helper->records, (off_t)size) != 0)
        return; /* aclmem info shows less */
    before = records;
}
