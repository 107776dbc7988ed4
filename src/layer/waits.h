/*
 * Threads that wait: which calls of the program have not returned, and what for.
 *
 * A thread of the layer polls them.  When a call has waited for longer than
 * ACLMEM_STALL_TIMEOUT seconds and the model shows that nothing can end the wait, it is reported,
 * with everything that is waited for.
 */
#ifndef AM_LAYER_WAITS_H
#define AM_LAYER_WAITS_H

#include "layer/metadata.h"

/*
 * What a call waits for: a record of an event or notify, a stream, the streams whose work
 * uses bytes, the streams of a context, or (all 0) the streams of a device, -1: of all.
 */
struct am_awaited {
    struct am_signal *signal;
    struct am_agent *agent;
    struct am_bytes *bytes;
    uint64_t context;
    int16_t device;
};

void am_waits_begin(struct am_call *call, struct am_awaited awaited);
/* After the call, if it waited. */
void am_waits_end(struct am_call *call);

/* Marks the ends of functions that a waiting call depends on next: am_record.is_needed. */
void am_waits_mark(void);
/* Releases am_check.lock for a millisecond, or until a call begins to wait. */
void am_waits_sleep_locked(void);

#endif
