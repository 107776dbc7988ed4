/*
 * One side of a copy: a range of addresses as a list of spans, each kept alive.
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
    unsigned has; /* AM_SPANS_* */
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

#endif
