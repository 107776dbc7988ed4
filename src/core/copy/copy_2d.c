/*
 * Copies of rows: aclrtMemcpy2d and its stream form.  See copy.h.
 *
 * The lookup of a side is from the first byte of its first row to the last byte of its last
 * one, gaps included: they have to be mapped, but are never touched.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "base/copy_kind.h"
#include "base/error.h"
#include "core/copy/copy.h"
#include "core/device/context.h"

/* The addresses must be what kind says: nothing documents that it is ignored here. */
static aclError kind_check(const struct am_transfer *transfer, aclrtMemcpyKind kind)
{
    bool to_device = kind != ACL_MEMCPY_DEVICE_TO_HOST;
    bool from_device = kind != ACL_MEMCPY_HOST_TO_DEVICE;

    AM_REQUIRE(am_spans_fit(&transfer->to, to_device), ACL_ERROR_RT_PARAM_INVALID,
               "kind is %s (%d), but dst %p is not %s memory", am_copy_kind_name(kind),
               (int)kind, transfer->to.list[0].addr, to_device ? "device" : "host");
    AM_REQUIRE(am_spans_fit(&transfer->from, from_device), ACL_ERROR_RT_PARAM_INVALID,
               "kind is %s (%d), but src %p is not %s memory", am_copy_kind_name(kind),
               (int)kind, transfer->from.list[0].addr, from_device ? "device" : "host");
    return ACL_SUCCESS;
}

/* From the start of the first row to the end of the last; the rows have been checked. */
static size_t rows_extent(const struct am_copy_2d *rows, size_t pitch)
{
    return (rows->height - 1) * pitch + rows->width;
}

static aclError rows_open(struct am_transfer *transfer, const struct am_copy_2d *rows,
                          int32_t device)
{
    aclError rc;

    am_transfer_init(transfer);
    AM_TRY(am_spans_open(&transfer->to, rows->dst, rows_extent(rows, rows->dpitch),
                         AM_ACCESS_WRITE, device, "dst"));
    rc = am_spans_open(&transfer->from, rows->src, rows_extent(rows, rows->spitch),
                       AM_ACCESS_READ, device, "src");
    if (rc != ACL_SUCCESS) {
        am_spans_close(&transfer->to);
        return rc;
    }
    transfer->size = rows->width;
    transfer->n_rows = rows->height;
    transfer->to_pitch = rows->dpitch;
    transfer->from_pitch = rows->spitch;
    if (rows->width == rows->dpitch &&
        rows->width == rows->spitch) { /* no gaps: one piece */
        transfer->size *= transfer->n_rows;
        transfer->n_rows = 1;
    }
    rc = kind_check(transfer, rows->kind);
    if (rc != ACL_SUCCESS)
        am_transfer_close(transfer);
    return rc;
}

aclError am_copy_2d_run(const struct am_copy_2d *rows)
{
    struct am_transfer transfer;
    int32_t device;
    aclError rc;

    AM_TRY(am_context_device(&device));
    AM_TRY(rows_open(&transfer, rows, device));
    rc = am_transfer_run(&transfer);
    am_transfer_close(&transfer);
    return rc;
}

aclError am_copy_2d_async(const struct am_copy_2d *rows, struct am_stream *stream)
{
    struct am_transfer transfer;
    aclError rc;

    AM_TRY(rows_open(&transfer, rows, stream->device));
    rc = am_transfer_check_async(&transfer, stream->device);
    if (rc == ACL_SUCCESS)
        return am_transfer_submit(&transfer, stream, false);
    am_transfer_close(&transfer);
    return rc;
}
