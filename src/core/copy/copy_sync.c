/*
 * Copies and fills that are done when the call returns.  See copy.h; those on streams:
 * copy_async.c.
 */
#include "core/copy/copy.h"

#include "acl/error_codes/rt_error_codes.h"
#include "base/copy_kind.h"
#include "base/error.h"
#include "base/util.h"
#include "core/copy/copy_overlap.h"
#include "core/device/context.h"
#include "core/device/setup.h"
#include "core/stream/sched.h"

static inline void rows_init(struct am_transfer *transfer, size_t size)
{
    transfer->size = size;
    transfer->n_rows = 1;
    transfer->to_pitch = 0;
    transfer->from_pitch = 0;
    transfer->width = 0;
    transfer->value = 0;
}

AM_HOT aclError am_transfer_open(struct am_transfer *transfer, void *dst, const void *src,
                                 size_t size, unsigned turn, int32_t device)
{
    aclError rc;

    AM_TRY(
        am_spans_open(&transfer->to, dst, size, AM_ACCESS_WRITE | turn, device, "dst"));
    rc = am_spans_open(&transfer->from, src, size, AM_ACCESS_READ | turn, device, "src");
    if (rc != ACL_SUCCESS)
        am_spans_close(&transfer->to);
    rows_init(transfer, size);
    return rc;
}

void am_transfer_init(struct am_transfer *transfer)
{
    am_spans_init(&transfer->to);
    am_spans_init(&transfer->from);
    rows_init(transfer, 0);
}

static aclError fill_check(const struct am_spans *to, const void *dst, unsigned width)
{
    AM_REQUIRE(width != 4 || to->list[0].mem != NULL, ACL_ERROR_RT_PARAM_INVALID,
               "%p is the program's own memory: words can be filled only in memory that "
               "AscendCL allocated, with aclrtMalloc or aclrtMallocHost",
               dst);
    AM_REQUIRE(
        !am_setup.is_strict || to->list[0].mem != NULL, ACL_ERROR_RT_PARAM_INVALID,
        "%p is host memory that was not allocated through ACL: all editions leave that "
        "undefined (ACLMEM_RULES=strict)",
        dst);
    return ACL_SUCCESS;
}

aclError am_transfer_open_fill(struct am_transfer *transfer, void *dst, size_t size,
                               uint32_t value, unsigned width, int32_t device)
{
    aclError rc;

    am_transfer_init(transfer);
    AM_TRY(am_spans_open(&transfer->to, dst, size, AM_ACCESS_WRITE, device, "devPtr"));
    transfer->size = size;
    transfer->value = value;
    transfer->width = width;
    rc = fill_check(&transfer->to, dst, width);
    if (rc != ACL_SUCCESS)
        am_spans_close(&transfer->to);
    return rc;
}

void am_transfer_close(struct am_transfer *transfer)
{
    am_spans_close(&transfer->from);
    am_spans_close(&transfer->to);
}

/* From a row to the next one. */
static void row_next(const struct am_transfer *transfer, struct am_cursor *to,
                     struct am_cursor *from)
{
    to->at += transfer->to_pitch;
    from->at += transfer->from_pitch;
    am_cursor_settle(to);
    am_cursor_settle(from);
}

typedef aclError (*row_f)(const struct am_span *dst, size_t dst_at,
                          const struct am_span *src, size_t src_at, size_t size);

/* Calls f for each row, first to last, until one fails. */
static aclError rows_each(const struct am_transfer *transfer, row_f f)
{
    struct am_cursor to = {transfer->to.list, 0};
    struct am_cursor from = {transfer->from.list, 0};
    aclError rc = f(to.span, to.at, from.span, from.at, transfer->size);

    for (size_t i = 1; i < transfer->n_rows && rc == ACL_SUCCESS; i++) {
        row_next(transfer, &to, &from);
        rc = f(to.span, to.at, from.span, from.at, transfer->size);
    }
    return rc;
}

const struct am_backend_ops *am_transfer_backend(const struct am_transfer *transfer)
{
    return am_transfer_has(transfer, AM_SPANS_REMOTE) ? &am_backend_remote
                                                      : am_setup.backend;
}

aclError am_transfer_run(const struct am_transfer *transfer)
{
    const struct am_backend_ops *backend = am_transfer_backend(transfer);
    enum am_order order = am_overlap_order(transfer);
    bool is_one_call = transfer->n_rows == 1 && order <= AM_ORDER_FORWARD;

    if (transfer->width != 0)
        return backend->fill(transfer->to.list, transfer->size, transfer->value,
                             transfer->width);
    if (!is_one_call && backend->prepare != NULL)
        AM_TRY(rows_each(transfer, backend->prepare));
    switch (order) {
    case AM_ORDER_BACKWARD:
        return am_overlap_backward(transfer);
    case AM_ORDER_STAGED:
        return am_overlap_staged(transfer);
    default:
        return rows_each(transfer, backend->copy);
    }
}

/* ---- long copies ---- */

/*
 * One thread does not use all of a machine's memory bandwidth: the budget of long copies is
 * 0.9 of the fastest memcpy of 1, 2, 4, ... threads (bench/copy.c).  So a long copy is cut into
 * pieces that idle workers execute, too.
 */
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

/* ---- launching ---- */

AM_HOT aclError am_transfer_launch(const struct am_transfer *transfer,
                                   const struct am_backend_ops *lanes,
                                   struct am_lane *lane, uint64_t *ret_number)
{
    struct am_cursor to = {transfer->to.list, 0};
    struct am_cursor from = {transfer->from.list, 0};

    *ret_number = 0;
    if (transfer->width != 0)
        return lanes->lane_fill(lane, transfer->to.list, transfer->size, transfer->value,
                                transfer->width, ret_number);
    /*
     * A partly launched copy is repeated in full, so it must be idempotent: overlapping
     * copies are never launched.
     */
    if (!am_transfer_is_across(transfer) && am_overlap_order(transfer) != AM_ORDER_ANY)
        return ACL_SUCCESS;
    for (size_t i = 0; i < transfer->n_rows; i++) {
        if (i > 0)
            row_next(transfer, &to, &from);
        AM_TRY(lanes->lane_copy(lane, to.span, to.at, from.span, from.at, transfer->size,
                                ret_number));
        /* The device cannot: all of it is done another way, after what was launched. */
        if (*ret_number == 0)
            return i > 0 ? lanes->lane_sync(lane) : ACL_SUCCESS;
    }
    return ACL_SUCCESS;
}

aclError am_transfer_check_kind(const struct am_transfer *transfer, aclrtMemcpyKind kind)
{
    bool to_device = transfer->to.devices != 0;
    bool from_device = transfer->from.devices != 0;
    unsigned real = am_copy_kind_of(to_device, from_device);

    if (am_transfer_has(transfer, AM_SPANS_MANAGED))
        return ACL_SUCCESS; /* managed memory counts as either side */
    AM_REQUIRE(am_copy_kind_is_portable(kind, to_device, from_device),
               ACL_ERROR_RT_PARAM_INVALID,
               "kind is %s (%d) but the addresses make it %s (%u); not every edition "
               "ignores kind (ACLMEM_RULES=strict)",
               am_copy_kind_name(kind), (int)kind, am_copy_kind_name(real), real);
    return ACL_SUCCESS;
}

static aclError sides_check(const struct am_transfer *transfer, aclrtMemcpyKind kind,
                            int32_t device)
{
    uint64_t devices = transfer->to.devices | transfer->from.devices;
    bool is_between = transfer->to.devices != 0 && transfer->from.devices != 0 &&
                      (devices & (devices - 1)) != 0;

    AM_REQUIRE(
        !is_between || !am_transfer_has(transfer, AM_SPANS_RESERVED),
        ACL_ERROR_RT_FEATURE_NOT_SUPPORT,
        "the two sides are on different devices; between devices, memory behind reserved "
        "addresses is copied with aclrtMemcpyAsync only");
    if (is_between)
        AM_TRY(am_transfer_check_async(transfer, device)); /* as peers, there and here */
    return am_setup.is_strict ? am_transfer_check_kind(transfer, kind) : ACL_SUCCESS;
}

aclError am_copy(void *dst, const void *src, size_t size, aclrtMemcpyKind kind)
{
    struct am_transfer transfer;
    int32_t device;
    aclError rc;

    AM_TRY(am_context_device(&device));
    AM_TRY(am_transfer_open(&transfer, dst, src, size, 0, device));
    rc = sides_check(&transfer, kind, device);
    if (rc == ACL_SUCCESS)
        rc = size < AM_COPY_LONG ? am_transfer_run(&transfer)
                                 : am_transfer_run_long(&transfer);
    am_transfer_close(&transfer);
    return rc;
}

aclError am_fill(void *dst, size_t size, uint32_t value, unsigned width)
{
    struct am_transfer transfer;
    int32_t device;
    aclError rc;

    AM_TRY(am_context_device(&device));
    AM_TRY(am_transfer_open_fill(&transfer, dst, size, value, width, device));
    rc = am_transfer_run(&transfer);
    am_transfer_close(&transfer);
    return rc;
}
