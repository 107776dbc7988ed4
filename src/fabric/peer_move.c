/* See helper.h: puts, gets, and the messages of importers. */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "fabric/helper.h"

struct am_peer_move {
    struct am_ucx_move ucx;
    TAILQ_ENTRY(am_peer_move) next; /* of peer->queued */
    struct am_peer_import *import;
    bool is_put;
    bool has_more; /* as am_port_message.move */
    uint32_t request;
    uint32_t slot;
    uint64_t offset;
    uint64_t size;
    struct am_message heads[AM_PORT_SLOT_SIZE / AM_MESSAGE_MAX + 1];
};

void am_peer_work_begin(struct am_peer *peer)
{
    uint64_t now = am_clock();

    am_connection_work_begin(&am_helper.connections, &peer->connection, now);
    peer->link.n_used++;
    if (peer->n_moves++ == 0)
        peer->moved_last = now;
}

void am_peer_work_end(struct am_peer *peer)
{
    uint64_t now = am_clock();

    am_connection_work_end(&am_helper.connections, &peer->connection, now);
    peer->n_moves--;
    peer->moved_last = now;
}

static void doorbell_ring(const struct am_peer_move *move)
{
    struct am_port_doorbells *doorbells = (void *)(am_helper.area + AM_PORT_DOORBELLS_AT);
    uint32_t channel = move->slot / AM_PORT_CHANNEL_SLOTS;

    /*
     * The program reads the slot's bytes after it has loaded `done`.  It sets is_last_awaited
     * between its load of the count and its wait: if an old value is read here, the
     * wait finds another count.
     */
    atomic_store(&doorbells->done[move->slot], move->request);
    atomic_fetch_add(&doorbells->count[channel], 1);
    if (!move->has_more || atomic_load(&doorbells->is_last_awaited[channel]) == 0)
        syscall(SYS_futex, &doorbells->count[channel], FUTEX_WAKE, INT32_MAX, NULL, NULL,
                0);
}

static void move_refuse(struct am_peer_move *move)
{
    struct am_peer *peer = move->import->peer;
    char name[192];

    am_helper_refuse(move->request, ACL_ERROR_RT_IPC_ERROR, "%s: %s",
                     am_peer_name(peer, name, sizeof name), peer->why);
}

static void move_free(struct am_peer_move *move)
{
    struct am_peer_import *import = move->import;

    free(move);
    am_peer_import_unref(import);
}

/* ---- puts ---- */

/*
 * A put with has_more completes before its bytes have arrived.  Until they are acknowledged,
 * the connection is not closed and the memory is not released.
 */
static void put_note(struct am_peer_import *import, uint64_t last)
{
    struct am_peer *peer = import->peer;

    import->last_put = last;
    if (import->is_unacked)
        return;
    import->is_unacked = true;
    import->n_moves++;
    LIST_INSERT_HEAD(&peer->unacked, import, unacked);
    am_peer_work_begin(peer);
}

void am_peer_puts_over(struct am_peer *peer, uint64_t number)
{
    struct am_peer_import *import, *next;

    for (import = LIST_FIRST(&peer->unacked); import != NULL; import = next) {
        next = LIST_NEXT(import, unacked);
        if (import->last_put > number)
            continue;
        LIST_REMOVE(import, unacked);
        import->is_unacked = false;
        am_peer_work_end(peer);
        am_peer_import_unref(import);
    }
}

static void ask_done(struct am_ucx_move *ucx)
{
    struct am_peer *peer =
        (struct am_peer *)((char *)ucx - offsetof(struct am_peer, ask_move));

    peer->is_asking = false;
    if (ucx->has_failed)
        am_peer_fail(peer, "its data connection broke; it may have ended");
    else
        am_peer_puts_over(peer, ucx->number);
}

void am_peer_ask(struct am_peer *peer)
{
    struct am_peer_import *import = LIST_FIRST(&peer->unacked);
    struct am_ucx_range none = {.bytes = am_helper.area};

    if (import == NULL || peer->is_asking || peer->action != AM_PEER_KEEP)
        return;
    peer->is_asking = true;
    peer->ask_move.done = ask_done;
    none.grant = import->grant;
    am_ucx_put(&am_helper.ucx, &peer->endpoint, &none, true, &peer->ask_head,
               &peer->ask_move);
}

/* ---- messages of importers ---- */

static void data_sent(void *arg)
{
    am_registry_unref(arg);
}

/* Replies to a GET.  Each message has a reference to the memory until it is sent. */
static void data_send(struct am_importer *importer, const struct am_message *get,
                      struct am_registry_export *export, ucp_ep_h to)
{
    size_t n = am_message_count(get->size);

    export->n_refs += n - 1;
    for (size_t i = 0; i < n; i++) {
        size_t at = am_message_at(get->size, i);
        struct am_message head = {
            .kind = AM_MESSAGE_DATA,
            .reference = get->number,
            .offset = at,
            .size = (uint32_t)(am_message_at(get->size, i + 1) - at),
        };

        am_message_seal(&importer->session, &head);
        am_ucx_reply(to, &head, export->address + get->offset + at, data_sent, export);
    }
}

void am_peer_receive(void *arg, const void *head, size_t head_size, const void *bytes,
                     size_t size, ucp_ep_h from)
{
    struct am_registry_export *export;
    struct am_importer *importer;
    struct am_message get, ack;

    switch (am_registry_receive(&am_helper.registry, head, head_size, bytes, size,
                                &importer, &get, &export)) {
    case AM_REGISTRY_INVALID: /* or of a connection that was closed */
        return;
    case AM_REGISTRY_FORBIDDEN:
        am_peer_fail(importer->owner, "it accessed memory that it does not have");
        return;
    case AM_REGISTRY_DATA_DUE:
        data_send(importer, &get, export, from);
        break;
    case AM_REGISTRY_DONE:
        break;
    }
    if (am_registry_ack(importer, &ack))
        am_ucx_reply(from, &ack, NULL, NULL, NULL);
}

/* ---- moves ---- */

static void move_done(struct am_ucx_move *ucx)
{
    struct am_peer_move *move = (struct am_peer_move *)ucx;
    struct am_peer *peer = move->import->peer;

    if (ucx->has_failed) {
        am_peer_fail(peer, "its data connection broke; it may have ended");
        move_refuse(move);
    } else {
        doorbell_ring(move);
    }
    if (!ucx->has_failed && move->is_put && !move->has_more)
        am_peer_puts_over(peer, ucx->number);
    am_peer_work_end(peer);
    move_free(move);
}

/* The peer is connected. */
static void move_begin(struct am_peer_move *move)
{
    struct am_peer_import *import = move->import;
    struct am_peer *peer = import->peer;
    struct am_ucx *ucx = &am_helper.ucx;
    struct am_ucx_range range = {
        .grant = import->grant,
        .offset = move->offset,
        .bytes = am_helper.area + move->slot * AM_PORT_SLOT_SIZE,
        .size = move->size,
    };

    am_peer_work_begin(peer);
    if (peer->action != AM_PEER_KEEP || !am_peer_reach(peer)) {
        move->ucx.has_failed = true;
        move_done(&move->ucx);
        return;
    }
    if (move->has_more)
        put_note(import, peer->endpoint.session.n_sent + am_message_count(move->size));
    if (move->is_put)
        am_ucx_put(ucx, &peer->endpoint, &range, !move->has_more, move->heads,
                   &move->ucx);
    else
        am_ucx_get(ucx, &peer->endpoint, &range, move->heads, &move->ucx);
}

void am_peer_queued_begin(struct am_peer *peer)
{
    struct am_peer_move *move;

    while ((move = TAILQ_FIRST(&peer->queued)) != NULL) {
        TAILQ_REMOVE(&peer->queued, move, next);
        move_begin(move);
    }
}

void am_peer_queued_refuse(struct am_peer *peer)
{
    struct am_peer_move *move;

    while ((move = TAILQ_FIRST(&peer->queued)) != NULL) {
        TAILQ_REMOVE(&peer->queued, move, next);
        move_refuse(move);
        move_free(move);
    }
}

void am_peer_move(const struct am_port_message *message)
{
    struct am_peer_import *import = am_peer_import_find(message->move.number);
    uint64_t offset = message->move.offset;
    uint64_t size = message->move.size;
    struct am_peer *peer = import != NULL ? import->peer : NULL;
    struct am_peer_move *move;

    if (import == NULL || !import->is_granted || import->is_released ||
        size > import->size || offset > import->size - size || size > AM_PORT_SLOT_SIZE ||
        message->move.slot >= AM_PORT_SLOTS) {
        am_helper_refuse(message->id, ACL_ERROR_RT_PARAM_INVALID,
                         "the fabric process has no such memory");
        return;
    }
    move = malloc(sizeof *move);
    if (move == NULL) {
        am_helper_refuse(message->id, ACL_ERROR_BAD_ALLOC,
                         "the fabric process has no memory for a copy");
        return;
    }
    *move = (struct am_peer_move){
        .ucx.done = move_done,
        .import = import,
        .request = message->id,
        .slot = message->move.slot,
        .is_put = message->kind == AM_PORT_PUT,
        .has_more = message->kind == AM_PORT_PUT && message->move.has_more != 0,
        .offset = offset,
        .size = size,
    };
    import->n_moves++;
    if (peer->action == AM_PEER_FAIL || peer->is_dead) {
        move_refuse(move);
        move_free(move);
    } else if (am_connection_is_open(&peer->connection)) {
        move_begin(move);
    } else {
        TAILQ_INSERT_TAIL(&peer->queued, move, next);
        am_connection_request(&am_helper.connections, &peer->connection, am_clock());
        am_peer_ask(peer); /* if the connection is about to go, it waits for that */
    }
}
