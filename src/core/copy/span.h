/*
 * Spans: one side of a copy, a range of addresses as a list, each part kept alive.  A transfer
 * is one copy or fill whose sides are known.
 *
 * A range is either mapped memory, any number of mappings in a row, or the program's own
 * memory.  Registered memory is kept alive; any other memory of the program must exist
 * at the lookup of the range, and the program must not unmap it during the copy.
 */
#ifndef AM_CORE_SPAN_H
#define AM_CORE_SPAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

#define AM_SPANS_INLINE 2 /* enough for most copies; longer lists are allocated */

/* The memory that is in a list. */
enum {
    AM_SPANS_HOST = 1u << 0, /* the host's, managed memory too */
    AM_SPANS_RESERVED =
        1u << 1, /* a device's, behind addresses that the program reserved */
    AM_SPANS_REMOTE = 1u << 2,  /* another machine's */
    AM_SPANS_MANAGED = 1u << 3, /* counts as the host's and a device's */
    AM_SPANS_ALIAS = 1u << 4, /* is mapped more than once, or there are several ranges */
    /* the program's own and not registered: free for it again when the call returns */
    AM_SPANS_PAGEABLE = 1u << 5,
};

struct am_spans {
    struct am_span *list; /* inline_list, or allocated */
    size_t n;
    size_t n_max;
    /* a bit for each device whose memory is in it; 0: host memory only */
    uint64_t devices;
    /* a bit for each device that it lies on: other ones where it was imported for a peer */
    uint64_t homes;
    unsigned has;     /* AM_SPANS_* */
    bool is_borrowed; /* another list keeps the memory alive */
    struct am_span inline_list[AM_SPANS_INLINE];
};

/*
 * With the access: the work that asks has its turn on a stream now, so blocks whose free
 * is queued behind it are still there.
 */
#define AM_SPANS_TURN (1u << 8)
/* With the access: the range is of whole pages, which a block need not fill. */
#define AM_SPANS_PAGES (1u << 9)

/*
 * Finds the range and keeps it alive until am_spans_close().  `access` is what will be
 * done with it by `device` (or by the memory's own device); `what` names the argument in
 * messages.  A hole, in a reservation or in the program's memory, or a missing right fails
 * with 107000.
 */
aclError am_spans_open(struct am_spans *spans, const void *addr, size_t size,
                       unsigned access, int32_t device, const char *what);
/* The same for what must be memory of a device. */
aclError am_spans_open_device(struct am_spans *spans, const void *addr, size_t size,
                              unsigned access, int32_t device, const char *what);
/* The list is empty then: closing it again does nothing. */
void am_spans_close(struct am_spans *spans);
/*
 * For a copy between devices, which one of them does: whether `device` itself can reach
 * all of it, because it is its own or the host's, by aclrtMemSetAccess, or as a peer of
 * the owner.
 */
bool am_spans_are_reachable(const struct am_spans *spans, unsigned access,
                            int32_t device);
/* Does not keep the ranges alive any longer; their addresses stay. */
void am_spans_drop(struct am_spans *spans);
/* Finds the memory that is at the addresses of `ranges` now, as am_spans_open() does. */
aclError am_spans_reopen(struct am_spans *spans, const struct am_spans *ranges,
                         unsigned access, int32_t device, const char *what);
/*
 * The same where `spans` may have the memory of an earlier lookup, which is closed: memory in the
 * same mapping and block is not found and kept alive anew.
 */
aclError am_spans_reopen_next(struct am_spans *spans, const struct am_spans *ranges,
                              unsigned access, int32_t device, const char *what);
/*
 * Finds the memory in another list, in the same mapping and block, which keeps the memory alive for
 * both; false: it is not there, and `spans` is as before.
 */
bool am_spans_borrow(struct am_spans *spans, const struct am_spans *from,
                     const struct am_spans *ranges, unsigned access, int32_t device);
/* Moves the list to another place in memory. */
void am_spans_move(struct am_spans *to, struct am_spans *from);

/* An empty list, to be extended by am_spans_join(). */
void am_spans_init(struct am_spans *spans);
/*
 * Appends `more`, which is closed by that; on failure it is closed too, and `spans` is as
 * before.
 */
aclError am_spans_join(struct am_spans *spans, struct am_spans *more);
/* Whether a documented direction may call this side device memory, or host memory. */
bool am_spans_fit(const struct am_spans *spans, bool is_device);

/* ---- transfers ---- */

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
