/* A transfer: one copy or fill whose sides are known and kept alive. */
#ifndef AM_CORE_TRANSFER_H
#define AM_CORE_TRANSFER_H

#include "core/copy/span.h"

/* Rows of `size` bytes, one or many. A fill has one row, and nothing in `from`. */
struct am_transfer {
    size_t size;
    size_t n_rows;
    size_t to_pitch; /* from the start of a row to the start of the next */
    size_t from_pitch;
    unsigned width; /* of the value that a fill repeats: 1 or 4 bytes; 0: a copy */
    uint32_t value;
    bool must_wait; /* on a stream: the call waits for the copy */
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
 * Finds both sides for work of `device`; turn is AM_SPANS_TURN or 0.  The transfer has one row
 * of dst_size bytes.  Which sides may be combined is the caller's business.
 */
aclError am_transfer_open(struct am_transfer *transfer, void *dst, size_t dst_size,
                          const void *src, size_t src_size, unsigned turn,
                          int32_t device);
/* An empty copy of one row, whose sides are to be extended by am_spans_join(). */
void am_transfer_init(struct am_transfer *transfer);
void am_transfer_close(struct am_transfer *transfer);
/*
 * Moves the bytes, all or none where the machine has no memory for them.  Sides that
 * share bytes end as with memmove.
 */
aclError am_transfer_run(const struct am_transfer *transfer);
/*
 * Has the device move the bytes; *ret_number is the launch's number, or 0 where the device
 * cannot.
 */
aclError am_transfer_launch(const struct am_transfer *transfer,
                            const struct am_backend_ops *lanes, struct am_lane *lane,
                            uint64_t *ret_number);

/*
 * The same as one step of several, without its order; false: it cannot be a step.
 */
bool am_transfer_step(const struct am_transfer *transfer, struct am_step *ret_step);

#endif
