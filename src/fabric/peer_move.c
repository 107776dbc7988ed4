/* See helper.h: puts, gets, and the messages of importers. */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "base/clock.h"
#include "base/util.h"
#include "fabric/helper.h"

struct am_peer_move {
    struct am_ucx_move ucx;
    TAILQ_ENTRY(am_peer_move) next; /* of peer->queued */
    struct am_peer_import *import;
    bool is_put;
    uint32_t request;
    uint32_t slot;
    uint64_t offset;
    uint64_t size;
    struct am_message heads[AM_PORT_SLOT_SIZE / AM_MESSAGE_MAX];
};

void am_peer_work_begin(struct am_peer *peer)
{
    uint64_t now = am_clock();

    am_conn_work_begin(&peer->conn, now);
    peer->link.n_used++;
    if (peer->n_moves++ == 0)
        peer->moved_last = now;
}

void am_peer_work_end(struct am_peer *peer)
{
    uint64_t now = am_clock();

    am_conn_work_end(&peer->conn, now);
    peer->n_moves--;
    peer->moved_last = now;
}

static void doorbell_ring(const struct am_peer_move *move)
{
    struct am_port_doorbells *doorbells = (void *)(am_helper.area + AM_PORT_DOORBELLS_AT);
    _Atomic uint32_t *count = &doorbells->count[move->slot / AM_PORT_CHANNEL_SLOTS];

    /* The program reads the slot's bytes after it has loaded `done`. */
    atomic_store(&doorbells->done[move->slot], move->request);
    atomic_fetch_add(count, 1);
    syscall(SYS_futex, count, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

/* Reports the result and frees the move. */
static void move_end(struct am_peer_move *move, bool has_failed)
{
    struct am_peer_import *import = move->import;

    if (has_failed)
        am_peer_refuse(import->peer, move->request, ACL_ERROR_RT_IPC_ERROR,
                       import->peer->why);
    else
        doorbell_ring(move);
    free(move);
    am_peer_import_unref(import);
}

static void move_done(struct am_ucx_move *ucx)
{
    struct am_peer_move *move = (struct am_peer_move *)ucx;
    struct am_peer *peer = move->import->peer;

    if (ucx->has_failed)
        am_peer_fail(peer, "its data connection broke; it may have ended");
    am_peer_work_end(peer);
    move_end(move, ucx->has_failed);
}

/* The peer is connected. */
static void move_begin(struct am_peer_move *move)
{
    struct am_peer *peer = move->import->peer;
    struct am_ucx_range range = {
        .grant = move->import->grant.number,
        .offset = move->offset,
        .bytes = am_helper.area + move->slot * AM_PORT_SLOT_SIZE,
        .size = move->size,
    };

    am_peer_work_begin(peer);
    if (peer->action != AM_PEER_KEEP || !am_peer_reach(peer)) {
        move->ucx.has_failed = true;
        move_done(&move->ucx);
    } else if (move->is_put) {
        am_ucx_put(&am_helper.ucx, &peer->endpoint, &range, move->heads, &move->ucx);
    } else {
        am_ucx_get(&am_helper.ucx, &peer->endpoint, &range, move->heads, &move->ucx);
    }
}

void am_peer_queued_end(struct am_peer *peer, bool has_failed)
{
    struct am_peer_move *move;

    while ((move = TAILQ_FIRST(&peer->queued)) != NULL) {
        TAILQ_REMOVE(&peer->queued, move, next);
        if (has_failed)
            move_end(move, true);
        else
            move_begin(move);
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
        !am_is_within(import->grant.size, offset, size) || size > AM_PORT_SLOT_SIZE ||
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
        .offset = offset,
        .size = size,
    };
    import->n_moves++;
    if (peer->action == AM_PEER_FAIL || peer->is_dead) {
        move_end(move, true);
    } else if (am_conn_is_open(&peer->conn)) {
        move_begin(move);
    } else {
        TAILQ_INSERT_TAIL(&peer->queued, move, next);
        am_conn_request(&peer->conn, am_clock());
    }
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

void am_peer_receive(const void *head, size_t head_size, const void *bytes, size_t size,
                     ucp_ep_h from)
{
    struct am_registry_export *export;
    struct am_importer *importer;
    struct am_message get, ack;

    am_helper_check_program(); /* memory of a program that has ended is not served */
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
