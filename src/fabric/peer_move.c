/* See helper.h: moves. */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "acl/acl_base.h"
#include "acl/error_codes/rt_error_codes.h"
#include "fabric/helper.h"

struct am_peer_move {
    struct am_ucx_move ucx;
    TAILQ_ENTRY(am_peer_move) next; /* while it is held */
    struct am_peer_import *import;
    bool is_put;
    bool has_more; /* as am_port_message.move */
    uint32_t request;
    uint32_t slot;
    uint64_t offset;
    uint64_t size;
    struct am_put_head heads[AM_PORT_SLOT_SIZE / AM_PUT_MAX + 1];
};

void am_peer_work_begin(struct am_peer *peer)
{
    uint64_t now = am_helper_now();

    am_connection_work_begin(&peer->helper->connections, &peer->connection, now);
    peer->link.n_used++;
    if (peer->n_moves++ == 0)
        peer->moved = now;
}

void am_peer_work_end(struct am_peer *peer)
{
    uint64_t now = am_helper_now();

    am_connection_work_end(&peer->helper->connections, &peer->connection, now);
    peer->n_moves--;
    peer->moved = now;
}

static void doorbell_ring(struct am_helper *helper, const struct am_peer_move *move)
{
    struct am_port_doorbells *doorbells_ = (void *)(helper->area + AM_PORT_DOORBELLS_AT);
    uint32_t channel = move->slot / AM_PORT_CHANNEL_SLOTS;

    /*
     * The program reads the slot's bytes after it has loaded `done`.  It sets is_last_awaited
     * between its load of the count and its wait: if an old value is read here, the
     * wait finds another count.
     */
    atomic_store(&doorbells_->done[move->slot], move->request);
    atomic_fetch_add(&doorbells_->count[channel], 1);
    if (!move->has_more || atomic_load(&doorbells_->is_last_awaited[channel]) == 0)
        syscall(SYS_futex, &doorbells_->count[channel], FUTEX_WAKE, INT32_MAX, NULL, NULL,
                0);
}

static void move_refuse(struct am_peer_move *move)
{
    struct am_peer *peer = move->import->peer;
    char name[192];

    am_helper_refuse(peer->helper, move->request, ACL_ERROR_RT_IPC_ERROR, "%s: %s",
                     am_peer_name(peer, name, sizeof name), peer->why);
}

static void move_free(struct am_peer_move *move)
{
    struct am_peer_import *import = move->import;

    free(move);
    am_peer_import_leave(import);
}

/* ---- puts ---- */

/*
 * A put that has more behind it leaves bytes on their way when it has ended.  Until there is
 * word of them, the connection stays, and so does the memory at the exporter.
 */
static void put_note(struct am_peer_import *import, uint64_t last)
{
    struct am_peer *peer = import->peer;

    import->put = last;
    if (import->is_fresh)
        return;
    import->is_fresh = true;
    import->n_moves++;
    LIST_INSERT_HEAD(&peer->fresh, import, fresh);
    am_peer_work_begin(peer);
}

void am_peer_puts_over(struct am_peer *peer, uint64_t upto)
{
    struct am_peer_import *import, *next;

    for (import = LIST_FIRST(&peer->fresh); import != NULL; import = next) {
        next = LIST_NEXT(import, fresh);
        if (import->put > upto)
            continue;
        LIST_REMOVE(import, fresh);
        import->is_fresh = false;
        am_peer_work_end(peer);
        am_peer_import_leave(import);
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
        am_peer_puts_over(peer, ucx->last);
}

void am_peer_ask(struct am_peer *peer)
{
    struct am_peer_import *import = LIST_FIRST(&peer->fresh);
    struct am_ucx_put put = {
        .bytes = peer->helper->area, /* none of them */
        .asks = true,
        .heads = &peer->ask_head,
    };

    if (import == NULL || peer->is_asking || peer->action != AM_PEER_KEEP)
        return;
    peer->is_asking = true;
    peer->ask_move.done = ask_done;
    put.grant = import->grant;
    am_ucx_put(&peer->helper->ucx, &peer->way, &put, &peer->ask_move);
}

void am_peer_put_message(void *arg, const void *head, size_t head_size, const void *bytes,
                         size_t size, ucp_ep_h back)
{
    struct am_helper *helper = arg;
    struct am_importer *importer;
    struct am_ack word;

    switch (am_registry_put(&helper->registry, head, head_size, bytes, size, &importer,
                            &word)) {
    case AM_REGISTRY_FORBIDDEN:
        am_peer_fail(importer->owner, "it wrote to memory that it does not have");
        break;
    case AM_REGISTRY_ACK_DUE:
        am_ucx_ack(back, &word);
        break;
    case AM_REGISTRY_UNKNOWN: /* or of a connection that is gone */
    case AM_REGISTRY_WRITTEN:
        break;
    }
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
        doorbell_ring(peer->helper, move);
    }
    if (!ucx->has_failed && move->is_put && !move->has_more)
        am_peer_puts_over(peer, ucx->last);
    am_peer_work_end(peer);
    move_free(move);
}

/* The peer is connected. */
static void move_begin(struct am_peer_move *move)
{
    struct am_peer_import *import = move->import;
    struct am_peer *peer = import->peer;
    struct am_ucx *ucx = &peer->helper->ucx;
    uint8_t *local = peer->helper->area + move->slot * AM_PORT_SLOT_SIZE;
    struct am_ucx_put put = {
        .grant = import->grant,
        .offset = move->offset,
        .bytes = local,
        .size = move->size,
        .asks = !move->has_more,
        .heads = move->heads,
    };

    am_peer_work_begin(peer);
    if (peer->action != AM_PEER_KEEP || !am_peer_import_reach(import)) {
        move->ucx.has_failed = true;
        move_done(&move->ucx);
        return;
    }
    if (move->has_more)
        put_note(import, peer->way.n_messages + am_put_count(move->size));
    if (move->is_put)
        am_ucx_put(ucx, &peer->way, &put, &move->ucx);
    else
        am_ucx_get(ucx, &peer->way, import->rkey, import->address + move->offset, local,
                   move->size, &move->ucx);
}

void am_peer_held_begin(struct am_peer *peer)
{
    struct am_peer_move *move;

    while ((move = TAILQ_FIRST(&peer->held)) != NULL) {
        TAILQ_REMOVE(&peer->held, move, next);
        move_begin(move);
    }
}

void am_peer_held_refuse(struct am_peer *peer)
{
    struct am_peer_move *move;

    while ((move = TAILQ_FIRST(&peer->held)) != NULL) {
        TAILQ_REMOVE(&peer->held, move, next);
        move_refuse(move);
        move_free(move);
    }
}

void am_peer_move(struct am_helper *helper, const struct am_port_message *message)
{
    struct am_peer_import *import = am_peer_import_find(helper, message->move.number);
    uint64_t offset = message->move.offset;
    uint64_t size = message->move.size;
    struct am_peer *peer = import != NULL ? import->peer : NULL;
    struct am_peer_move *move;

    if (import == NULL || !import->is_granted || import->is_released ||
        size > import->size || offset > import->size - size || size > AM_PORT_SLOT_SIZE ||
        message->move.slot >= AM_PORT_SLOTS) {
        am_helper_refuse(helper, message->id, ACL_ERROR_RT_PARAM_INVALID,
                         "the fabric process has no such memory");
        return;
    }
    move = malloc(sizeof *move);
    if (move == NULL) {
        am_helper_refuse(helper, message->id, ACL_ERROR_BAD_ALLOC,
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
        TAILQ_INSERT_TAIL(&peer->held, move, next);
        am_connection_request(&helper->connections, &peer->connection, am_helper_now());
        am_peer_ask(peer); /* if the connection is about to go, it waits for that */
    }
}
