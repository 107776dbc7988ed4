/* See copy_remote.h. */
#include "core/copy/copy_remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/copy/copy_overlap.h"
#include "core/device/setup.h"
#include "core/remote/remote.h"

#define PIECES 8      /* of one job that are under way at a time: of short rows, */
#define LONG_PIECES 4 /* and of long ones, whose slots shall stay in the cache */
/*
 * Pieces of a get are made of whole segments of UCX, 64 KB less their headers, as a nearly
 * empty one costs as much as another.  Each piece costs a turn of two threads, so they are
 * large; but the first one is sent while the second is copied, so a put begins with a small
 * one, and later ones are as long as all before them.
 */
#define SEGMENT ((UINT64_C(64) << 10) - 64)
#define GET_MOST (8 * SEGMENT)
#define GET_FEW (4 * SEGMENT) /* of a get that is a few pieces long */
#define PUT_FIRST (UINT64_C(64) << 10)
#define PUT_MOST (8 * PUT_FIRST)
#define LITTLE (SEGMENT / 2) /* a rest that is no piece of its own */

_Static_assert(PUT_MOST + LITTLE <= AM_PORT_SLOT_SIZE, "a piece is in a slot");

enum piece_state {
    PIECE_FREE,
    PIECE_FETCHING, /* from remote memory into the slot */
    PIECE_FETCHED,
    PIECE_SENDING, /* from the slot to remote memory */
    PIECE_SENT,
};

struct piece {
    struct am_remote_move move;
    struct am_remote_job *job;
    enum piece_state state; /* job->lock */
    struct am_cursor to;
    size_t size;
};

struct am_remote_job {
    atomic_uint refs; /* the owner, each piece under way, and waiting for a slot */
    bool is_fill;
    uint32_t value;
    unsigned width;
    size_t size; /* of a row */
    size_t n_rows;
    size_t to_pitch;
    size_t from_pitch;
    unsigned n_pieces; /* that may be under way */
    /* The step's: where the next piece begins, and where its row began. */
    size_t row;
    size_t at;      /* in the row */
    size_t n_begun; /* bytes, of all rows */
    struct am_cursor to, from, to_row, from_row;
    bool is_waiting; /* for a slot; `lock`, as the next ones */
    bool is_dropped;
    unsigned n_busy; /* pieces that are not free */
    aclError rc;     /* of the first piece that failed; none is begun after it */
    char why[AM_PORT_TEXT];
    struct am_lock lock;
    pthread_cond_t changed;
    _Atomic uint64_t n_events;  /* things happened that a step may go on after */
    struct am_waitlist waiting; /* the stream's queue; the scheduler's lock */
    bool is_async;
    unsigned bell; /* of a caller that waits; 0: `changed` */
    struct am_remote_waiter waiter;
    struct piece pieces[PIECES];
};

/* ---- life ---- */

static void job_put(struct am_remote_job *job)
{
    if (!am_ref_drop(&job->refs))
        return;
    am_lock_destroy(&job->lock);
    pthread_cond_destroy(&job->changed);
    free(job);
}

static void slot_came(struct am_remote_waiter *waiter);

static struct am_remote_job *job_make(const struct am_span *to,
                                      const struct am_span *from, size_t size)
{
    struct am_remote_job *job = am_sys_calloc(1, sizeof *job);

    if (job == NULL)
        return NULL;
    job->refs = 1;
    job->size = size;
    job->n_rows = 1;
    job->n_pieces = size <= SEGMENT ? PIECES : LONG_PIECES;
    job->to = job->to_row = (struct am_cursor){to, 0};
    job->from = job->from_row = (struct am_cursor){from, 0};
    job->waiter.wake = slot_came;
    am_lock_init(&job->lock, AM_RANK_LEAF, "remote copy");
    pthread_cond_init(&job->changed, NULL);
    am_waitlist_init(&job->waiting);
    for (size_t i = 0; i < PIECES; i++)
        job->pieces[i].job = job;
    return job;
}

struct am_remote_job *am_remote_job_copy(const struct am_transfer *transfer)
{
    struct am_remote_job *job =
        job_make(transfer->to.list, transfer->from.list, transfer->size);

    if (job == NULL)
        return NULL;
    job->n_rows = transfer->n_rows;
    job->to_pitch = transfer->to_pitch;
    job->from_pitch = transfer->from_pitch;
    job->is_fill = transfer->width != 0;
    job->value = transfer->value;
    job->width = transfer->width;
    /* A piece that is read must not have been written by a later one. */
    if (am_overlap_order(transfer) != AM_ORDER_ANY)
        job->n_pieces = 1;
    return job;
}

/* ---- events, from other threads ---- */

AM_NO_LOCK_ANALYSIS /* the queue's lock is the scheduler's */
    static void
    job_wake(struct am_remote_job *job)
{
    atomic_fetch_add(&job->n_events, 1);
    if (job->bell != 0)
        am_remote_bell_ring(job->bell);
    am_lock(&job->lock);
    pthread_cond_broadcast(&job->changed);
    am_unlock(&job->lock);
    if (!job->is_async)
        return;
    am_lock(&am_sched.lock);
    am_sched_wake_locked(&am_sched, &job->waiting);
    am_unlock(&am_sched.lock);
}

static void slot_came(struct am_remote_waiter *waiter)
{
    struct am_remote_job *job =
        (struct am_remote_job *)((char *)waiter - offsetof(struct am_remote_job, waiter));

    am_lock(&job->lock);
    job->is_waiting = false;
    am_unlock(&job->lock);
    job_wake(job);
    job_put(job);
}

static void job_fail_locked(struct am_remote_job *job, aclError rc, const char *why)
    AM_REQUIRES(job->lock)
{
    if (job->rc != ACL_SUCCESS)
        return;
    job->rc = rc;
    snprintf(job->why, sizeof job->why, "%s", why);
}

static void piece_moved(struct am_remote_move *move, aclError rc, const char *why)
{
    struct piece *piece = (struct piece *)move;
    struct am_remote_job *job = piece->job;
    bool is_dropped;

    am_lock(&job->lock);
    is_dropped = job->is_dropped;
    if (rc != ACL_SUCCESS)
        job_fail_locked(job, rc, why);
    piece->state = piece->state == PIECE_FETCHING ? PIECE_FETCHED : PIECE_SENT;
    am_unlock(&job->lock);
    if (is_dropped)
        am_remote_slot_give(move->slot);
    else
        job_wake(job);
    job_put(job);
}

/* ---- pieces ---- */

static bool is_remote(const struct am_span *span)
{
    return span->mem != NULL && (span->mem->bank->ops->caps & AM_CAP_REMOTE) != 0;
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

static struct am_span slot_span(const struct piece *piece)
{
    return (struct am_span){.addr = am_remote_slot(piece->move.slot),
                            .size = piece->size};
}

static void piece_begin(struct piece *piece, bool is_put, bool has_more,
                        const struct am_span *remote)
{
    struct am_remote_job *job = piece->job;

    piece->move.is_put = is_put;
    piece->move.has_more = has_more;
    piece->move.mem = remote->mem;
    piece->move.offset = remote->offset;
    piece->move.size = piece->size;
    piece->move.done = piece_moved;
    piece->move.bell = job->bell;
    am_lock(&job->lock);
    piece->state = is_put ? PIECE_SENDING : PIECE_FETCHING;
    am_unlock(&job->lock);
    am_ref_more(&job->refs);
    am_remote_begin(&piece->move);
}

static void slot_fill(const struct am_remote_job *job, const struct am_span *slot)
{
    uint32_t *words = slot->addr;

    if (job->width == 1) {
        memset(slot->addr, (int)job->value, slot->size);
        return;
    }
    for (size_t i = 0; i < slot->size / sizeof *words; i++)
        words[i] = job->value;
}

/* Whether both sides of the next piece are here. */
static bool job_is_local(const struct am_remote_job *job)
{
    return !is_remote(job->to.span) && (job->is_fill || !is_remote(job->from.span));
}

/* How many bytes a piece may have that begins here. */
static size_t piece_most(const struct am_remote_job *job)
{
    size_t before = job->n_begun / PUT_FIRST * PUT_FIRST;

    if (job->n_pieces == 1)
        return AM_PORT_SLOT_SIZE; /* what overlaps is copied as a whole */
    if (!job->is_fill && is_remote(job->from.span))
        return job->size <= 4 * AM_PORT_SLOT_SIZE ? GET_FEW : GET_MOST;
    if (before >= PUT_MOST)
        return PUT_MOST;
    return before == 0 ? PUT_FIRST : before;
}

/* How many bytes the next piece has: one span on each side, and one slot. */
static size_t piece_size(struct am_remote_job *job)
{
    size_t size = job->size - job->at;
    size_t most;

    am_cursor_settle(&job->to);
    if (size > job->to.span->size - job->to.at)
        size = job->to.span->size - job->to.at;
    if (!job->is_fill) {
        am_cursor_settle(&job->from);
        if (size > job->from.span->size - job->from.at)
            size = job->from.span->size - job->from.at;
    }
    most = piece_most(job);
    if (job_is_local(job) || size <= most ||
        (size <= most + LITTLE && most < AM_PORT_SLOT_SIZE))
        return size;
    return most;
}

static void job_advance(struct am_remote_job *job, size_t size)
{
    job->at += size;
    job->n_begun += size;
    job->to.at += size;
    job->from.at += size;
    if (job->at < job->size)
        return;
    job->at = 0;
    if (++job->row == job->n_rows)
        return;
    job->to_row.at += job->to_pitch;
    job->from_row.at += job->from_pitch;
    job->to = job->to_row;
    job->from = job->from_row;
}

/* Whether a later piece of the job is put to the same memory. */
static bool job_has_more(struct am_remote_job *job, const struct am_mem *mem)
{
    if (job->row == job->n_rows)
        return false;
    am_cursor_settle(&job->to);
    return job->to.span->mem == mem;
}

/* A piece of which both sides are here. */
static aclError piece_local(struct am_remote_job *job, size_t size)
{
    struct am_span to = cursor_span(&job->to, size);
    struct am_cursor from = job->from;

    job_advance(job, size);
    if (job->is_fill)
        return am_setup.backend->fill(&to, size, job->value, job->width);
    return am_setup.backend->copy(&to, 0, from.span, from.at, size);
}

/* Begins a piece in a slot. */
static aclError piece_start(struct am_remote_job *job, struct piece *piece, size_t size)
{
    struct am_span to = cursor_span(&job->to, size);
    struct am_cursor from = job->from;
    struct am_span slot;
    aclError rc = ACL_SUCCESS;

    piece->to = job->to;
    piece->size = size;
    job_advance(job, size);
    if (!job->is_fill && is_remote(from.span)) {
        slot = cursor_span(&from, size);
        piece_begin(piece, false, false, &slot);
        return ACL_SUCCESS;
    }
    if (piece->move.slot < AM_PORT_SLOTS) {
        slot = slot_span(piece);
        if (job->is_fill)
            slot_fill(job, &slot);
        else
            rc = am_setup.backend->copy(&slot, 0, from.span, from.at, size);
    }
    if (rc == ACL_SUCCESS)
        piece_begin(piece, true, job_has_more(job, to.mem), &to);
    return rc;
}

static void piece_free(struct piece *piece)
{
    struct am_remote_job *job = piece->job;

    am_remote_slot_give(piece->move.slot);
    am_lock(&job->lock);
    piece->state = PIECE_FREE;
    job->n_busy--;
    am_unlock(&job->lock);
}

/* The bytes are in the slot: on to their place. */
static aclError piece_go_on(struct piece *piece)
{
    struct am_span to = cursor_span(&piece->to, piece->size);
    struct am_span slot;
    aclError rc;

    if (is_remote(piece->to.span)) {
        piece_begin(piece, true, false, &to);
        return ACL_SUCCESS;
    }
    slot = slot_span(piece);
    rc = am_setup.backend->copy(&to, 0, &slot, 0, piece->size);
    piece_free(piece);
    return rc;
}

/* ---- steps ---- */

/* Our own failure, whose message the thread has. */
static void job_fail(struct am_remote_job *job, aclError rc, const char *why)
{
    am_lock(&job->lock);
    job_fail_locked(job, rc, why);
    am_unlock(&job->lock);
}

/* A move that its bell told of. */
static void piece_look(struct am_remote_job *job, struct piece *piece)
{
    bool is_moving;

    am_lock(&job->lock);
    is_moving = piece->state == PIECE_FETCHING || piece->state == PIECE_SENDING;
    am_unlock(&job->lock);
    if (!is_moving || !am_remote_landed(&piece->move))
        return;
    am_lock(&job->lock);
    piece->state = piece->state == PIECE_FETCHING ? PIECE_FETCHED : PIECE_SENT;
    am_unlock(&job->lock);
    job_put(job); /* the move's; not the last */
}

/* A task that was collected goes on, or ends. */
static void step_landed(struct am_remote_job *job, char *why)
{
    for (size_t i = 0; i < PIECES; i++) {
        struct piece *piece = &job->pieces[i];
        enum piece_state state;
        bool has_failed;
        aclError rc;

        if (job->bell != 0)
            piece_look(job, piece);
        am_lock(&job->lock);
        state = piece->state;
        has_failed = job->rc != ACL_SUCCESS;
        am_unlock(&job->lock);
        if (state == PIECE_SENT || (state == PIECE_FETCHED && has_failed)) {
            piece_free(piece);
        } else if (state == PIECE_FETCHED) {
            rc = piece_go_on(piece);
            if (rc != ACL_SUCCESS)
                job_fail(job, rc, why);
        }
    }
}

/* A free piece with a slot; NULL: there is none now. */
static struct piece *piece_take(struct am_remote_job *job)
{
    struct piece *piece = job->pieces;
    bool must_wait;
    unsigned slot;

    am_lock(&job->lock);
    must_wait = job->n_busy == 0 && !job->is_waiting;
    if (job->n_busy >= job->n_pieces || job->is_waiting)
        piece = NULL;
    job->is_waiting |= must_wait;
    am_unlock(&job->lock);
    if (piece == NULL)
        return NULL;
    if (must_wait)
        am_ref_more(&job->refs);
    if (!am_remote_slot_take(must_wait ? &job->waiter : NULL, &slot))
        return NULL;
    am_lock(&job->lock);
    if (must_wait)
        job->is_waiting = false;
    while (piece->state != PIECE_FREE)
        piece++;
    piece->move.slot = slot;
    piece->state = PIECE_SENT; /* in case that its bytes cannot be copied */
    job->n_busy++;
    am_unlock(&job->lock);
    if (must_wait)
        job_put(job); /* not the last */
    return piece;
}

/* Begins the next piece; false: nothing can be begun now. */
static bool step_begin(struct am_remote_job *job, char *why)
{
    size_t size = piece_size(job);
    struct piece *piece = NULL;
    aclError rc;

    if (job_is_local(job)) {
        if (job->n_pieces == 1 && job->n_busy > 0)
            return false;
        rc = piece_local(job, size);
    } else {
        piece = piece_take(job);
        if (piece == NULL)
            return false;
        rc = piece_start(job, piece, size);
    }
    if (rc != ACL_SUCCESS)
        job_fail(job, rc, why);
    return true;
}

/* As far as it goes without waiting; true: it is done. */
static bool job_step(struct am_remote_job *job)
{
    char why[AM_PORT_TEXT] = "";
    struct am_capture before = am_error_capture(why, sizeof why);
    bool is_done;
    bool has_failed;

    do {
        step_landed(job, why);
        am_lock(&job->lock);
        has_failed = job->rc != ACL_SUCCESS;
        am_unlock(&job->lock);
    } while (!has_failed && job->row < job->n_rows && step_begin(job, why));
    step_landed(job, why);
    am_error_capture_end(before);
    am_lock(&job->lock);
    is_done = job->n_busy == 0 && (job->rc != ACL_SUCCESS || job->row == job->n_rows);
    am_unlock(&job->lock);
    return is_done;
}

aclError am_remote_job_result(struct am_remote_job *job)
{
    AM_REQUIRE(job->rc == ACL_SUCCESS, job->rc, "%s", job->why);
    return ACL_SUCCESS;
}

/* ---- at once ---- */

/* All pieces are begun; when one has failed, each of the others is waited for. */
static bool job_waits_for_last(struct am_remote_job *job)
{
    bool has_failed;

    am_lock(&job->lock);
    has_failed = job->rc != ACL_SUCCESS;
    am_unlock(&job->lock);
    return job->row == job->n_rows && !has_failed;
}

static aclError job_run(struct am_remote_job *job)
{
    bool is_short;
    aclError rc;

    AM_REQUIRE(job != NULL, ACL_ERROR_BAD_ALLOC, "no memory for a copy between machines");
    is_short = job->n_rows == 1 && job->size <= AM_PORT_SHORT;
    job->bell = am_remote_bell_take();
    for (;;) {
        uint64_t seen = atomic_load(&job->n_events);
        uint32_t count = job->bell != 0 ? am_remote_bell_count(job->bell) : 0;

        if (job_step(job))
            break;
        if (job->bell != 0) {
            am_remote_bell_quiet(job->bell, job_waits_for_last(job));
            am_remote_bell_wait(job->bell, count, is_short);
            continue;
        }
        am_lock(&job->lock);
        while (atomic_load(&job->n_events) == seen)
            pthread_cond_wait(&job->changed, &job->lock.mutex);
        am_unlock(&job->lock);
    }
    rc = am_remote_job_result(job);
    am_remote_bell_give(job->bell);
    job_put(job);
    return rc;
}

aclError am_remote_copy(const struct am_transfer *transfer)
{
    if (transfer->size == 0)
        return ACL_SUCCESS;
    return job_run(am_remote_job_copy(transfer));
}

/* Among the first bytes; a piece of a copy is short, and a list of spans hardly longer. */
static bool has_remote(const struct am_span *span, size_t size)
{
    bool is_found = false;

    for (; size > 0 && !is_found; span++) {
        is_found = is_remote(span);
        size -= span->size < size ? span->size : size;
    }
    return is_found;
}

aclError am_remote_bytes(const struct am_span *dst, size_t dst_at,
                         const struct am_span *src, size_t src_at, size_t size)
{
    struct am_remote_job *job;

    if (!has_remote(dst, dst_at + size) && !has_remote(src, src_at + size))
        return am_setup.backend->copy(dst, dst_at, src, src_at, size);
    job = job_make(dst, src, size);
    if (job != NULL) {
        job->to.at = dst_at;
        job->from.at = src_at;
        job->n_pieces = 1;
    }
    return job_run(job);
}

/* ---- on streams ---- */

AM_NO_LOCK_ANALYSIS /* the scheduler calls it with its lock */
    bool
    am_remote_job_poll(struct am_remote_job *job, struct am_sched *sched,
                       struct am_waitlist **ret_list)
{
    *ret_list = &job->waiting;
    if (!job->is_async)
        job->is_async = true;
    for (;;) {
        uint64_t seen = atomic_load(&job->n_events);
        bool is_done;

        am_unlock(&sched->lock);
        is_done = job_step(job);
        am_lock(&sched->lock);
        /* An event after this look finds the queue in the list. */
        if (is_done || atomic_load(&job->n_events) == seen)
            return is_done;
    }
}

void am_remote_job_drop(struct am_remote_job *job)
{
    unsigned landed[PIECES];
    size_t n_landed = 0;

    if (am_remote_unwait(&job->waiter))
        job_put(job);
    am_lock(&job->lock);
    job->is_dropped = true;
    for (size_t i = 0; i < PIECES; i++) {
        enum piece_state state = job->pieces[i].state;

        if (state == PIECE_FETCHED || state == PIECE_SENT)
            landed[n_landed++] = job->pieces[i].move.slot;
    }
    am_unlock(&job->lock);
    for (size_t i = 0; i < n_landed; i++)
        am_remote_slot_give(landed[i]);
    job_put(job);
}
