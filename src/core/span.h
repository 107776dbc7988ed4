/*
 * What a copy touches: a range of addresses as a list of spans, each kept alive.
 *
 * A range is either mapped memory, any number of mappings in a row, or the program's own memory.
 */
#ifndef AM_CORE_SPAN_H
#define AM_CORE_SPAN_H

#include <stddef.h>
#include <stdint.h>

#include "backend/backend.h"

#define AM_SPANS_INLINE 8 /* enough for most copies; longer lists are allocated */

struct am_spans {
    struct am_span *list; /* inline_list, or allocated */
    size_t n;
    size_t n_max;
    uint64_t
        devices; /* a bit for each device whose memory is in it; 0: host memory only */
    struct am_span inline_list[AM_SPANS_INLINE];
};

/*
 * Looks up the range and keeps it alive until am_spans_close().  `access` is what will be done with it
 * by `device` (or by the memory's own device); `what` names the argument in messages.  A hole in a
 * reservation or a missing right fails with 107000.
 */
aclError am_spans_open(struct am_spans *spans, const void *addr, size_t size,
                       unsigned access, int32_t device, const char *what);
void am_spans_close(struct am_spans *spans);

#endif
