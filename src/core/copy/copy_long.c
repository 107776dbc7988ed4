/*
 * Long copies, in pieces that idle workers of the scheduler help with.  See copy.h.
 *
 * One thread does not use all of a machine's memory bandwidth: the budget of long copies is
 * 0.9 of the fastest memcpy of 1, 2, 4, ... threads (bench/copy.c).
 */
#include "base/error.h"
#include "base/util.h"
#include "core/copy/copy.h"
#include "core/device/setup.h"
#include "core/stream/sched.h"

#define PIECE (AM_COPY_LONG / 2) /* streaming stores pay from here on */

struct copy_share {
    struct am_share share;
    const struct am_transfer *transfer;
};

static aclError piece_copy(struct am_share *share, size_t piece)
{
    const struct am_transfer *transfer = ((struct copy_share *)share)->transfer;
    size_t left = transfer->size - piece * PIECE;
    struct am_cursor to = am_cursor_at(transfer->to.list, piece * PIECE);
    struct am_cursor from = am_cursor_at(transfer->from.list, piece * PIECE);

    return am_setup.backend->copy(to.span, to.at, from.span, from.at,
                                  left < PIECE ? left : PIECE);
}

/*
 * Whether the processors do it, several are faster, and the sides cannot overlap: from
 * the host to a device or back.
 */
static bool is_shared(const struct am_transfer *transfer)
{
    return transfer->n_rows == 1 && transfer->size >= AM_COPY_LONG &&
           transfer->width == 0 && !am_transfer_has(transfer, AM_SPANS_REMOTE) &&
           am_transfer_is_across(transfer) && !(am_setup.backend->caps & AM_CAP_DEVICES);
}

/* A program without streams has no workers yet; without any the caller does it alone. */
static void workers_start(struct am_sched *sched)
{
    struct am_capture before = am_error_hush();

    if (!sched->setup.is_chaotic)
        (void)am_sched_start_workers(sched);
    am_error_capture_end(before);
}

aclError am_transfer_run_long(const struct am_transfer *transfer)
{
    struct copy_share cs = {.transfer = transfer};

    if (!is_shared(transfer))
        return am_transfer_run(transfer);
    if (am_setup.backend->prepare != NULL) /* all or nothing */
        AM_TRY(am_setup.backend->prepare(transfer->to.list, 0, transfer->from.list, 0,
                                         transfer->size));
    workers_start(&am_sched);
    cs.share.run = piece_copy;
    cs.share.n_pieces = (transfer->size + PIECE - 1) / PIECE;
    cs.share.function = am_error_function;
    return am_sched_share(&am_sched, &cs.share);
}
