/*
 * Copies and fills with remote memory.  See remote.h.
 *
 * Bytes pass through slots of the area, which the fabric process maps, too.  A copy leases a
 * channel: some slots and a doorbell.  It cuts the work into pieces of at most one slot.
 * Bytes from here are copied into the slot and put; bytes from there are fetched into the
 * slot and copied to their destination, or put.  Several pieces are in progress at a time.
 *
 * A move has ended when the slot's word in the area is the number of its request; the fabric
 * process then rings the doorbell of the channel.  A failure arrives as a message.
 *
 * A session is the area of one fabric process and of its replacements.  A copy that is
 * stalled while the library is stopped and started again keeps its session.
 */
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "acl/error_codes/rt_error_codes.h"
#include "backend/remote/internal.h"
#include "base/epoch.h"
#include "base/error.h"
#include "base/sys.h"

#define PIECES AM_PORT_CHANNEL_SLOTS /* in progress at a time */
/*
 * A copy is cut into up to PIECES_AIM pieces, so that the sending of one runs in parallel
 * with the copy of the next.  Each piece costs a switch between two threads, so pieces are
 * not small.
 */
#define PIECES_AIM 4
#define PIECE_MIN (UINT64_C(64) << 10)
#define PIECE_MAX AM_PORT_SLOT_SIZE

enum piece_state { PIECE_FREE, PIECE_GET, PIECE_PUT };

struct piece {
    enum piece_state state;
    struct am_cursor to;
    size_t size;
};

struct copy {
    struct am_remote_session *session;
    unsigned channel;
    bool is_fill;
    uint32_t value;
    unsigned width;
    size_t size;
    size_t left; /* bytes whose piece has not begun */
    struct am_cursor to, from;
    unsigned n_busy;
    aclError rc; /* of the first failure; no piece begins after it */
    struct piece pieces[PIECES];
};

/* ---- sessions and channels ---- */

static struct am_port_doorbells *doorbells(const struct am_remote_session *session)
{
    return (struct am_port_doorbells *)(void *)(session->area + AM_PORT_DOORBELLS_AT);
}

void am_remote_ring(struct am_remote_session *session, unsigned channel)
{
    _Atomic uint32_t *count = &doorbells(session)->count[channel];

    atomic_fetch_add(count, 1);
    syscall(SYS_futex, count, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

static void session_free(struct am_remote_session *session)
{
    munmap(session->area, AM_PORT_AREA_SIZE);
    close(session->area_fd);
    free(session);
}

void am_remote_session_end(struct am_remote_session *session)
{
    bool is_idle;

    am_lock(&am_remote.lock);
    session->is_ended = true;
    is_idle = session->free_channels == AM_REMOTE_ALL_CHANNELS;
    am_unlock(&am_remote.lock);
    if (is_idle)
        session_free(session);
}

aclError am_remote_channel_acquire(struct am_remote_session **ret_session,
                                   unsigned *ret_channel)
{
    struct am_remote_session *session = NULL;
    unsigned channel = 0;

    am_lock(&am_remote.lock);
    while (am_remote.state == AM_REMOTE_UP && am_remote.session->free_channels == 0)
        pthread_cond_wait(&am_remote.changed, &am_remote.lock.mutex);
    if (am_remote.state == AM_REMOTE_UP) {
        session = am_remote.session;
        channel = (unsigned)__builtin_ctz(session->free_channels);
        session->free_channels &= session->free_channels - 1;
    }
    am_unlock(&am_remote.lock);
    AM_REQUIRE(session != NULL, ACL_ERROR_RT_IPC_ERROR, "%s", am_remote_lost);
    *ret_session = session;
    *ret_channel = channel;
    return ACL_SUCCESS;
}

void am_remote_channel_release(struct am_remote_session *session, unsigned channel)
{
    bool is_last;

    am_lock(&am_remote.lock);
    session->free_channels |= 1u << channel;
    is_last = session->is_ended && session->free_channels == AM_REMOTE_ALL_CHANNELS;
    pthread_cond_broadcast(&am_remote.changed);
    am_unlock(&am_remote.lock);
    if (is_last)
        session_free(session);
}

/* ---- pieces ---- */

static bool is_remote(const struct am_span *span)
{
    return span->mem != NULL && span->mem->bank->ops == &am_backend_remote;
}

/* The rest of the span from the cursor on, cut to `size`. */
static struct am_span cursor_span(const struct am_cursor *cursor, size_t size)
{
    struct am_span span = *cursor->span;

    span.addr = (char *)span.addr + cursor->at;
    span.offset += cursor->at;
    span.size = size;
    return span;
}

/* The bytes that one span on each side has next, and at most `most`; they are taken. */
static size_t bytes_take(struct copy *c, size_t most, struct am_cursor *ret_to,
                         struct am_cursor *ret_from)
{
    size_t size = most < c->left ? most : c->left;

    if (size > c->to.span->size - c->to.at)
        size = c->to.span->size - c->to.at;
    if (!c->is_fill && size > c->from.span->size - c->from.at)
        size = c->from.span->size - c->from.at;
    *ret_to = c->to;
    *ret_from = c->from;
    c->left -= size;
    c->to.at += size;
    c->from.at += size;
    return size;
}

static unsigned piece_slot(const struct copy *c, const struct piece *piece)
{
    return c->channel * AM_PORT_CHANNEL_SLOTS + (unsigned)(piece - c->pieces);
}

static struct am_span slot_span(const struct copy *c, const struct piece *piece)
{
    return (struct am_span){.addr = c->session->area +
                                    piece_slot(c, piece) * AM_PORT_SLOT_SIZE,
                            .size = piece->size};
}

static void piece_free(struct copy *c, struct piece *piece)
{
    piece->state = PIECE_FREE;
    c->n_busy--;
}

/* The first failure counts.  why: NULL if the failure has left its message. */
static void copy_fail(struct copy *c, aclError rc, const char *why)
{
    if (c->rc != ACL_SUCCESS)
        return;
    c->rc = rc;
    if (why != NULL)
        (void)am_fail(rc, "%s", why);
}

/* Sends the request for a move between the slot and remote memory. */
static void piece_begin(struct copy *c, struct piece *piece, enum piece_state state,
                        const struct am_span *remote)
{
    unsigned index = piece_slot(c, piece);
    struct am_remote_slot *slot = &c->session->slots[index];
    struct am_port_message message = {.kind =
                                          state == PIECE_PUT ? AM_PORT_PUT : AM_PORT_GET};
    int rc = -EPIPE;

    message.move.number = remote->mem->impl[AM_REMOTE_NUMBER];
    message.move.offset = remote->offset;
    message.move.slot = index;
    message.move.size = piece->size;
    am_lock(&am_remote.lock);
    if (am_remote.state == AM_REMOTE_UP && am_remote.session == c->session &&
        am_remote.generation == remote->mem->impl[AM_REMOTE_GENERATION]) {
        message.id = slot->id = am_remote_id_locked() + index;
        slot->error = ACL_SUCCESS;
        slot->is_moving = true;
        rc = am_remote_post_locked(&message, -1);
        if (rc != 0)
            slot->is_moving = false;
    }
    am_unlock(&am_remote.lock);
    piece->state = state;
    if (rc == 0)
        return;
    piece_free(c, piece);
    copy_fail(c, ACL_ERROR_RT_IPC_ERROR, am_remote_lost);
}

static void slot_fill(const struct copy *c, const struct am_span *slot)
{
    uint32_t *words = slot->addr;

    if (c->width == 1) {
        memset(slot->addr, (int)c->value, slot->size);
        return;
    }
    for (size_t i = 0; i < slot->size / sizeof *words; i++)
        words[i] = c->value;
}

/* Begins the next piece, of which one side at least is remote. */
static void piece_start(struct copy *c)
{
    size_t aim = c->size / PIECES_AIM;
    struct piece *piece = c->pieces;
    struct am_cursor from;
    struct am_span remote, slot;
    aclError rc = ACL_SUCCESS;

    while (piece->state != PIECE_FREE)
        piece++;
    aim = aim < PIECE_MIN ? PIECE_MIN : aim > PIECE_MAX ? PIECE_MAX : aim;
    piece->size = bytes_take(c, aim, &piece->to, &from);
    c->n_busy++;
    if (!c->is_fill && is_remote(from.span)) {
        remote = cursor_span(&from, piece->size);
        piece_begin(c, piece, PIECE_GET, &remote);
        return;
    }
    slot = slot_span(c, piece);
    if (c->is_fill)
        slot_fill(c, &slot);
    else
        rc = am_remote.local->copy(&slot, 0, from.span, from.at, piece->size);
    remote = cursor_span(&piece->to, piece->size);
    if (rc == ACL_SUCCESS) {
        piece_begin(c, piece, PIECE_PUT, &remote);
    } else {
        piece_free(c, piece);
        copy_fail(c, rc, NULL);
    }
}

/* A piece of which both sides are local. */
static void piece_copy_local(struct copy *c)
{
    struct am_cursor to, from;
    size_t size = bytes_take(c, c->left, &to, &from);
    struct am_span span = cursor_span(&to, size);
    aclError rc = c->is_fill ? am_remote.local->fill(&span, size, c->value, c->width)
                             : am_remote.local->copy(&span, 0, from.span, from.at, size);

    if (rc != ACL_SUCCESS)
        copy_fail(c, rc, NULL);
}

/* The move has ended: its bytes are in the slot, or at their destination. */
static void piece_finish(struct copy *c, struct piece *piece)
{
    struct am_span to = cursor_span(&piece->to, piece->size);
    struct am_span slot = slot_span(c, piece);

    if (piece->state == PIECE_GET && is_remote(piece->to.span) && c->rc == ACL_SUCCESS) {
        piece_begin(c, piece, PIECE_PUT, &to);
        return;
    }
    if (piece->state == PIECE_GET && c->rc == ACL_SUCCESS) {
        aclError rc = am_remote.local->copy(&to, 0, &slot, 0, piece->size);

        if (rc != ACL_SUCCESS)
            copy_fail(c, rc, NULL);
    }
    piece_free(c, piece);
}

static void pieces_collect(struct copy *c)
{
    for (struct piece *piece = c->pieces; piece < c->pieces + PIECES; piece++) {
        unsigned index = piece_slot(c, piece);
        struct am_remote_slot *slot = &c->session->slots[index];
        aclError error;

        if (piece->state == PIECE_FREE)
            continue;
        if (atomic_load(&doorbells(c->session)->done[index]) == slot->id) {
            slot->is_moving = false;
            atomic_fetch_add(&am_remote.n_moved, 1);
            piece_finish(c, piece);
        } else if ((error = slot->error) != ACL_SUCCESS) {
            slot->is_moving = false;
            copy_fail(c, error, slot->why);
            piece_free(c, piece);
        }
    }
}

/* Begins as many pieces as may be in progress. */
static void pieces_start(struct copy *c)
{
    while (c->rc == ACL_SUCCESS && c->left > 0) {
        am_cursor_settle(&c->to);
        if (!c->is_fill)
            am_cursor_settle(&c->from);
        if (!is_remote(c->to.span) && (c->is_fill || !is_remote(c->from.span)))
            piece_copy_local(c);
        else if (c->n_busy < PIECES)
            piece_start(c);
        else
            return;
    }
}

/* The network may take long, so the caller's read section is suspended. */
static aclError copy_run(struct copy *c)
{
    unsigned depth;

    if (c->size == 0)
        return ACL_SUCCESS;
    c->left = c->size;
    depth = am_epoch_suspend();
    c->rc = am_remote_channel_acquire(&c->session, &c->channel);
    while (c->session != NULL) {
        _Atomic uint32_t *doorbell = &doorbells(c->session)->count[c->channel];
        uint32_t count = atomic_load(doorbell);

        pieces_collect(c);
        pieces_start(c);
        if (c->n_busy == 0)
            break;
        while (atomic_load(doorbell) == count)
            syscall(SYS_futex, doorbell, FUTEX_WAIT, count, NULL, NULL, 0);
    }
    if (c->session != NULL)
        am_remote_channel_release(c->session, c->channel);
    am_epoch_resume(depth);
    return c->rc;
}

static aclError remote_copy(const struct am_span *dst, size_t dst_at,
                            const struct am_span *src, size_t src_at, size_t size)
{
    struct copy c = {.size = size, .to = {dst, dst_at}, .from = {src, src_at}};

    return copy_run(&c);
}

static aclError remote_fill(const struct am_span *dst, size_t size, uint32_t value,
                            unsigned width)
{
    struct copy c = {
        .size = size, .to = {dst, 0}, .is_fill = true, .value = value, .width = width};

    return copy_run(&c);
}

/* Nothing is at the addresses: accesses of the program fault. */
static aclError remote_map(void *addr, size_t size, struct am_mem *mem,
                           const struct am_rights *rights)
{
    return ACL_SUCCESS;
}

static aclError remote_unmap(void *addr, size_t size, struct am_mem *mem)
{
    return ACL_SUCCESS;
}

const struct am_backend_ops am_backend_remote = {
    .name = "remote",
    .caps = AM_CAP_REMOTE | AM_CAP_MAP_PART,
    .mem_destroy = am_remote_mem_destroy,
    .map = remote_map,
    .protect = remote_map,
    .unmap = remote_unmap,
    .copy = remote_copy,
    .fill = remote_fill,
};
