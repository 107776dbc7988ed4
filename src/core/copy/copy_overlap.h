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
#ifndef AM_CORE_COPY_OVERLAP_H
#define AM_CORE_COPY_OVERLAP_H

#include "core/copy/copy.h"

enum am_order {
    AM_ORDER_ANY, /* no byte is shared */
    AM_ORDER_FORWARD,
    AM_ORDER_BACKWARD,
    AM_ORDER_STAGED,
};

enum am_order am_overlap_order(const struct am_transfer *transfer);

aclError am_overlap_backward(const struct am_transfer *transfer);
aclError am_overlap_staged(const struct am_transfer *transfer);

#endif
