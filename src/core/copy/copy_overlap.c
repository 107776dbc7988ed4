/* See copy_overlap.h. */
#include "core/copy/copy_overlap.h"

#include <stdlib.h>

#include "acl/error_codes/rt_error_codes.h"
#include "base/error.h"
#include "base/sys.h"
#include "base/util.h"
#include "core/vmm/phys.h"
#include "core/vmm/vspace.h"

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
enum am_order am_overlap_order(const struct am_transfer *transfer)
{
    bool is_late = false;  /* some byte is read after it is written */
    bool is_early = false; /* or before */
    bool is_same = false;  /* or when it is written: it stays what it is */
    size_t to_pos = 0;

    if (!may_share(transfer))
        return AM_ORDER_ANY;
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
        return AM_ORDER_STAGED;
    if (is_late)
        return is_early ? AM_ORDER_STAGED : AM_ORDER_BACKWARD;
    return is_early || is_same ? AM_ORDER_FORWARD : AM_ORDER_ANY;
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
    const struct am_backend_ops *backend = am_transfer_backend(transfer);
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

aclError am_overlap_backward(const struct am_transfer *transfer)
{
    aclError rc = ACL_SUCCESS;

    for (size_t i = transfer->n_rows; i-- > 0 && rc == ACL_SUCCESS;)
        rc = row_backward(transfer, i * transfer->to_pitch, i * transfer->from_pitch);
    return rc;
}

aclError am_overlap_staged(const struct am_transfer *transfer)
{
    size_t size = transfer->size * transfer->n_rows;
    struct am_span buffer = {.addr = am_sys_malloc(size), .size = size};
    size_t width = transfer->size;
    const struct am_backend_ops *backend = am_transfer_backend(transfer);
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
