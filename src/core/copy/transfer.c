/* See transfer.h. */
#include "core/copy/transfer.h"

#include <stdlib.h>
#include <string.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/device/setup.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

void am_transfer_init(struct am_transfer *transfer)
{
    memset(transfer, 0, offsetof(struct am_transfer, to));
    transfer->n_rows = 1;
    am_spans_init(&transfer->to);
    am_spans_init(&transfer->from);
}

AM_HOT aclError am_transfer_open(struct am_transfer *transfer, void *dst, size_t dst_size,
                                 const void *src, size_t src_size, unsigned turn,
                                 int32_t device)
{
    aclError rc;

    memset(transfer, 0, offsetof(struct am_transfer, to));
    transfer->n_rows = 1;
    transfer->size = dst_size;
    AM_TRY(am_spans_open(&transfer->to, dst, dst_size, AM_ACCESS_WRITE | turn, device,
                         "dst"));
    rc = am_spans_open(&transfer->from, src, src_size, AM_ACCESS_READ | turn, device,
                       "src");
    if (rc != ACL_SUCCESS)
        am_spans_close(&transfer->to);
    return rc;
}

void am_transfer_close(struct am_transfer *transfer)
{
    am_spans_close(&transfer->from);
    am_spans_close(&transfer->to);
}

/* The backend whose copy() and fill() move the bytes. */
static const struct am_backend_ops *transfer_backend(const struct am_transfer *transfer)
{
    return am_transfer_has(transfer, AM_SPANS_REMOTE) ? &am_backend_remote
                                                      : am_setup.backend;
}

/* ---- overlap ---- */

/*
 * Copies whose two sides share bytes: they end as if the source had been read whole
 * before the first byte was written.
 *
 * The same memory may lie at two places of the two lists: by addresses that overlap,
 * because a handle is mapped twice, or because its own process imported it.  Where every
 * shared byte is read no later than it is written when the copy goes forward, forward it
 * goes; where the opposite holds, backward, in pieces; and where neither does, by way of
 * a buffer.  A buffer alone would do, but it is as large as the copy: programs that move
 * the blocks of a cache by gigabytes within one handle would need as much host memory.
 */
enum order {
    ORDER_ANY, /* no byte is shared */
    ORDER_FORWARD,
    ORDER_BACKWARD,
    ORDER_STAGED,
};

/* Where a span's bytes are: from here on in its mem, or in the program's memory. */
static size_t span_at(const struct am_span *span)
{
    return span->mem != NULL ? span->offset : (size_t)span->addr;
}

static uint64_t span_common(const struct am_span *span)
{
    return span->mem != NULL ? ((struct am_mapping *)span->owner)->phys->share_number : 0;
}

/* By one handle, or by two: this process has imported what it exported. */
static bool have_same_bytes(const struct am_span *a, const struct am_span *b)
{
    return a->mem == b->mem || (span_common(a) != 0 && span_common(a) == span_common(b));
}

static bool spans_share(const struct am_span *a, const struct am_span *b)
{
    size_t at_a = span_at(a);
    size_t at_b = span_at(b);

    return have_same_bytes(a, b) &&
           (at_a < at_b ? at_b - at_a < a->size : at_a - at_b < b->size);
}

/* Of one stretch each. */
static bool addresses_overlap(const struct am_spans *a, const struct am_spans *b)
{
    const struct am_span *a_last = &a->list[a->n - 1];
    const struct am_span *b_last = &b->list[b->n - 1];

    return (char *)a->list[0].addr < (char *)b_last->addr + b_last->size &&
           (char *)b->list[0].addr < (char *)a_last->addr + a_last->size;
}

/*
 * Whether the two sides can share anything: not where one is the host's alone and the
 * other a device's.  Memory that has only these addresses is not checked: a copy of
 * gigabytes has many spans.
 */
static bool may_share(const struct am_transfer *transfer)
{
    const struct am_spans *to = &transfer->to;
    const struct am_spans *from = &transfer->from;

    if ((to->homes & from->homes) == 0 && !(to->has & from->has & AM_SPANS_HOST))
        return false;
    return am_transfer_has(transfer, AM_SPANS_ALIAS) || addresses_overlap(to, from);
}

/*
 * A byte that is at x in its mem is written at place to_pos + x - to_at of the copy, and
 * read at from_pos + x - from_at.  Which comes first is the same for all bytes that two
 * spans share.  Rows come one after the other on both sides, if they are as far apart.
 */
static enum order overlap_order(const struct am_transfer *transfer)
{
    bool is_late = false;  /* some byte is read after it is written */
    bool is_early = false; /* or before */
    bool is_same = false;  /* or when it is written: it stays what it is */
    size_t to_pos = 0;

    if (!may_share(transfer))
        return ORDER_ANY;
    for (size_t i = 0; i < transfer->to.n; i++) {
        const struct am_span *to = &transfer->to.list[i];
        size_t from_pos = 0;

        for (size_t k = 0; k < transfer->from.n; k++) {
            const struct am_span *from = &transfer->from.list[k];

            if (spans_share(to, from)) {
                int64_t ahead =
                    (int64_t)(to_pos - span_at(to) - (from_pos - span_at(from)));
                /* A backend does not see that two handles have the same bytes. */
                bool is_either = ahead != 0 && to->mem != from->mem;

                is_early |= ahead > 0 || is_either;
                is_late |= ahead < 0 || is_either;
                is_same |= ahead == 0;
            }
            from_pos += from->size;
        }
        to_pos += to->size;
    }
    if ((is_early || is_late || is_same) && transfer->n_rows > 1 &&
        transfer->to_pitch != transfer->from_pitch)
        return ORDER_STAGED;
    if (is_late)
        return is_early ? ORDER_STAGED : ORDER_BACKWARD;
    return is_early || is_same ? ORDER_FORWARD : ORDER_ANY;
}

/* How many bytes before place `end` of the list lie in one chunk of one span. */
static size_t room_before(const struct am_span *span, size_t end)
{
    size_t in_chunk;

    for (; end > span->size; span++)
        end -= span->size;
    in_chunk = ((span->offset + end - 1) & (AM_CHUNK - 1)) + 1;
    return span->mem != NULL && in_chunk < end ? in_chunk : end;
}

/* One row, from its end; in each piece both sides are one stretch of memory. */
static aclError row_backward(const struct am_transfer *transfer, size_t to_at,
                             size_t from_at)
{
    const struct am_span *to = transfer->to.list;
    const struct am_span *from = transfer->from.list;
    const struct am_backend_ops *backend = transfer_backend(transfer);
    size_t most = backend->copy_max != 0 ? backend->copy_max : SIZE_MAX;
    aclError rc = ACL_SUCCESS;

    for (size_t left = transfer->size; left > 0 && rc == ACL_SUCCESS;) {
        size_t out = room_before(to, to_at + left);
        size_t in = room_before(from, from_at + left);
        size_t n = out < in ? out : in;

        n = n < left ? n : left;
        n = n < most ? n : most;
        left -= n;
        rc = backend->copy(to, to_at + left, from, from_at + left, n);
    }
    return rc;
}

static aclError run_backward(const struct am_transfer *transfer)
{
    aclError rc = ACL_SUCCESS;

    for (size_t i = transfer->n_rows; i-- > 0 && rc == ACL_SUCCESS;)
        rc = row_backward(transfer, i * transfer->to_pitch, i * transfer->from_pitch);
    return rc;
}

static aclError run_staged(const struct am_transfer *transfer)
{
    size_t size = transfer->size * transfer->n_rows;
    struct am_span buffer = {.addr = am_sys_malloc(size), .size = size};
    size_t width = transfer->size;
    const struct am_backend_ops *backend = transfer_backend(transfer);
    aclError rc = ACL_SUCCESS;

    AM_REQUIRE(buffer.addr != NULL, ACL_ERROR_BAD_ALLOC,
               "no host memory to buffer %zu bytes: source and destination "
               "overlap in more than one direction",
               size);
    for (size_t i = 0; i < transfer->n_rows && rc == ACL_SUCCESS; i++)
        rc = backend->copy(&buffer, i * width, transfer->from.list,
                           i * transfer->from_pitch, width);
    for (size_t i = 0; i < transfer->n_rows && rc == ACL_SUCCESS; i++)
        rc = backend->copy(transfer->to.list, i * transfer->to_pitch, &buffer, i * width,
                           width);
    free(buffer.addr);
    return rc;
}

/* ---- execution ---- */

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

aclError am_transfer_run(const struct am_transfer *transfer)
{
    const struct am_backend_ops *backend = transfer_backend(transfer);
    enum order order = overlap_order(transfer);
    bool is_one_call = transfer->n_rows == 1 && order <= ORDER_FORWARD;

    if (transfer->width != 0)
        return backend->fill(transfer->to.list, transfer->size, transfer->value,
                             transfer->width);
    if (!is_one_call && backend->prepare != NULL)
        AM_TRY(rows_each(transfer, backend->prepare));
    switch (order) {
    case ORDER_BACKWARD:
        return run_backward(transfer);
    case ORDER_STAGED:
        return run_staged(transfer);
    default:
        return rows_each(transfer, backend->copy);
    }
}

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
    if (!am_transfer_is_across(transfer) && overlap_order(transfer) != ORDER_ANY)
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

bool am_transfer_step(const struct am_transfer *transfer, struct am_step *ret_step)
{
    if (transfer->n_rows != 1 || am_transfer_has(transfer, AM_SPANS_REMOTE) ||
        (transfer->width == 0 && !am_transfer_is_across(transfer) &&
         overlap_order(transfer) != ORDER_ANY))
        return false;
    *ret_step = (struct am_step){
        .dst = transfer->to.list,
        .src = transfer->width == 0 ? transfer->from.list : NULL,
        .size = transfer->size,
        .value = transfer->value,
        .width = transfer->width,
        .may_alias = am_transfer_has(transfer, AM_SPANS_ALIAS),
    };
    return true;
}
