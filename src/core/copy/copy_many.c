/*
 * Many ranges in one call: aclrtMemcpy2d, aclrtMemcpyBatch and their relatives.  See copy.h.
 *
 * Rows: the lookup of a side is from the first byte of its first row to the last byte of its
 * last one, gaps included: they have to be mapped, but are never touched.
 *
 * A batch: the order inside a batch is undefined, and each copy has as many bytes on one side
 * as on the other.  So the sides of all copies, joined, are one copy between two long lists
 * of spans: everything is found, checked and made ready before the first byte moves,
 * and on a stream it is one task.
 */
#include "acl/error_codes/rt_error_codes.h"
#include "base/copy_kind.h"
#include "base/error.h"
#include "core/copy/copy.h"
#include "core/device/setup.h"

/* ---- rows ---- */

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

aclError am_copy_2d(const struct am_copy_2d *rows, struct am_stream *stream)
{
    bool has_gaps = rows->width != rows->dpitch || rows->width != rows->spitch;
    struct am_transfer transfer;
    int32_t device;
    aclError rc;

    AM_TRY(am_transfer_device(stream, &device));
    AM_TRY(am_transfer_open(&transfer, rows->dst, rows_extent(rows, rows->dpitch),
                            rows->src, rows_extent(rows, rows->spitch), 0, device));
    if (has_gaps) {
        transfer.size = rows->width;
        transfer.n_rows = rows->height;
        transfer.to_pitch = rows->dpitch;
        transfer.from_pitch = rows->spitch;
    }
    rc = kind_check(&transfer, rows->kind);
    if (rc == ACL_SUCCESS && stream != NULL)
        rc = am_transfer_check_async(&transfer, device);
    return am_transfer_finish(&transfer, rc, stream);
}

/* ---- batches ---- */

/* Whether the memory is where the attribute of its copy says. */
static aclError location_check(const struct am_spans *spans,
                               const aclrtMemLocation *location)
{
    bool is_device = location->type == ACL_MEM_LOCATION_TYPE_DEVICE;

    AM_REQUIRE(am_spans_fit(spans, is_device), ACL_ERROR_RT_PARAM_INVALID,
               "%p is not %s memory, as its attribute says", spans->list[0].addr,
               is_device ? "device" : "host");
    AM_REQUIRE(!am_setup.is_strict || !is_device || (spans->has & AM_SPANS_MANAGED) ||
                   spans->devices == UINT64_C(1) << location->id,
               ACL_ERROR_RT_PARAM_INVALID,
               "%p is not on device %u, as its attribute says (ACLMEM_RULES=strict)",
               spans->list[0].addr, location->id);
    return ACL_SUCCESS;
}

/* Finds one side of a copy, and appends it. */
static aclError side_add(struct am_spans *side, void *addr, size_t size, unsigned access,
                         int32_t device, const aclrtMemLocation *location)
{
    struct am_spans spans;
    aclError rc;

    AM_TRY(am_spans_open(&spans, addr, size, access, device,
                         access == AM_ACCESS_WRITE ? "dst" : "src"));
    rc = location_check(&spans, location);
    if (rc != ACL_SUCCESS) {
        am_spans_close(&spans);
        return rc;
    }
    return am_spans_join(side, &spans);
}

/* Finds the sides of all copies, which the caller closes; on failure *ret_fail is the one that failed. */
static aclError batch_open(struct am_transfer *transfer,
                           const struct am_copy_batch *batch, int32_t device,
                           size_t *ret_fail)
{
    aclError rc = ACL_SUCCESS;
    size_t k = 0;

    am_transfer_init(transfer);
    for (size_t i = 0; i < batch->n && rc == ACL_SUCCESS; i++) {
        const aclrtMemcpyBatchAttr *attr;

        if (k + 1 < batch->n_attrs && batch->indexes[k + 1] == i)
            k++;
        attr = &batch->attrs[k];
        rc = side_add(&transfer->to, batch->dsts[i], batch->sizes[i], AM_ACCESS_WRITE,
                      device, &attr->dstLoc);
        if (rc == ACL_SUCCESS)
            rc = side_add(&transfer->from, batch->srcs[i], batch->sizes[i],
                          AM_ACCESS_READ, device, &attr->srcLoc);
        transfer->size += batch->sizes[i];
        *ret_fail = i;
    }
    if (rc == ACL_SUCCESS)
        *ret_fail = SIZE_MAX;
    return rc;
}

aclError am_copy_batch(const struct am_copy_batch *batch, struct am_stream *stream,
                       size_t *ret_fail)
{
    struct am_transfer transfer;
    int32_t device;

    AM_TRY(am_transfer_device(stream, &device));
    return am_transfer_finish(&transfer, batch_open(&transfer, batch, device, ret_fail),
                              stream);
}
