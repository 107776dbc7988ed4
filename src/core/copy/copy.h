/*
 * Copies and fills, at once or on a stream.
 *
 * The lookup and the checks of both sides come first; work on a stream
 * keeps them alive until it is done.
 */
#ifndef AM_CORE_COPY_H
#define AM_CORE_COPY_H

#include "acl/acl_rt.h"
#include "base/util.h"
#include "core/copy/span.h"
#include "core/stream/stream.h"

/*
 * One copy or fill whose sides are known and kept alive: rows of `size` bytes, one or many.
 * A fill has one row, and nothing in `from`.
 */
struct am_transfer {
    size_t size;
    size_t n_rows;
    size_t to_pitch; /* from the start of a row to the start of the next */
    size_t from_pitch;
    unsigned width; /* of the value that a fill repeats: 1 or 4 bytes; 0: a copy */
    uint32_t value;
    struct am_spans to;
    struct am_spans from;
};

/* Whether such memory, AM_SPANS_*, is on a side. */
static inline bool am_transfer_has(const struct am_transfer *transfer, unsigned what)
{
    return ((transfer->to.has | transfer->from.has) & what) != 0;
}

/*
 * Whether it is from the host alone to devices alone, or back.  Then the sides share
 * nothing, and no device is asked to reach another.
 */
static inline bool am_transfer_is_across(const struct am_transfer *transfer)
{
    return (transfer->to.devices == 0) != (transfer->from.devices == 0) &&
           !(transfer->to.has & transfer->from.has & AM_SPANS_HOST) &&
           !am_transfer_has(transfer, AM_SPANS_MANAGED);
}

/*
 * Finds both sides for work of `device`; turn is AM_SPANS_TURN or 0.  Which sides may
 * be combined is the caller's business.
 */
aclError am_transfer_open(struct am_transfer *transfer, void *dst, const void *src,
                          size_t size, unsigned turn, int32_t device);
/* The same for a fill, if the rules in force allow it there. */
aclError am_transfer_open_fill(struct am_transfer *transfer, void *dst, size_t size,
                               uint32_t value, unsigned width, int32_t device);
/* An empty copy of one row, whose sides are to be extended by am_spans_join(). */
void am_transfer_init(struct am_transfer *transfer);
void am_transfer_close(struct am_transfer *transfer);
/*
 * Moves the bytes, all or none where the machine has no memory for them.  Sides that
 * share bytes end as with memmove.
 */
aclError am_transfer_run(const struct am_transfer *transfer);
/*
 * The same; workers that are idle help with AM_COPY_LONG bytes and more between the host and
 * a device.  The caller holds no lock.
 */
#define AM_COPY_LONG (32 * AM_MIB)
aclError am_transfer_run_long(const struct am_transfer *transfer);
/*
 * Has the device move them; *ret_number is the launch's number, or 0 where the device cannot.
 */
aclError am_transfer_launch(const struct am_transfer *transfer,
                            const struct am_backend_ops *lanes, struct am_lane *lane,
                            uint64_t *ret_number);

/*
 * Whether work on a stream may combine these sides: not two hosts, and devices only as
 * peers.
 */
aclError am_transfer_check_async(const struct am_transfer *transfer, int32_t device);

/*
 * A check of the strict rules only: the kind, which the newest edition ignores, must be
 * true.
 */
aclError am_transfer_check_kind(const struct am_transfer *transfer, aclrtMemcpyKind kind);

aclError am_copy(void *dst, const void *src, size_t size, aclrtMemcpyKind kind);
aclError am_fill(void *dst, size_t size, uint32_t value, unsigned width);

aclError am_copy_async(void *dst, const void *src, size_t size, aclrtMemcpyKind kind,
                       struct am_stream *stream);
aclError am_fill_async(void *dst, size_t size, uint32_t value, unsigned width,
                       struct am_stream *stream);

/* aclrtMemcpy2d: `height` rows of `width` bytes each; the numbers have been checked. */
struct am_copy_2d {
    void *dst;
    size_t dpitch;
    const void *src;
    size_t spitch;
    size_t width;
    size_t height;
    aclrtMemcpyKind kind;
};

aclError am_copy_2d_run(const struct am_copy_2d *rows);
aclError am_copy_2d_async(const struct am_copy_2d *rows, struct am_stream *stream);

/*
 * aclrtMemcpyBatch: n copies; attrs[k] is about those from indexes[k] on.  All that has
 * been checked.
 */
struct am_copy_batch {
    void **dsts;
    void **srcs;
    const size_t *sizes;
    size_t n;
    const aclrtMemcpyBatchAttr *attrs;
    const size_t *indexes;
    size_t n_attrs;
};

/*
 * *ret_fail: on failure, which copy it is about, or SIZE_MAX; all of them are checked
 * before one begins.
 */
aclError am_copy_batch_run(const struct am_copy_batch *batch, size_t *ret_fail);
aclError am_copy_batch_async(const struct am_copy_batch *batch, struct am_stream *stream,
                             size_t *ret_fail);

/*
 * Does the copy or queues it, and takes over what the transfer keeps alive, also on failure.
 * The copy is waited for when must_wait, and when pageable memory takes part.
 */
aclError am_transfer_submit(struct am_transfer *transfer, struct am_stream *stream,
                            bool must_wait);

/* The backend whose copy() and fill() move the bytes. */
const struct am_backend_ops *am_transfer_backend(const struct am_transfer *transfer);

/* At the stop of the library: waits for threads of copies that were dropped. */
void am_copy_stop(void);

#endif
