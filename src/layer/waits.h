/*
 * Threads that wait: which calls of the program have not returned, and what for.
 *
 * A thread of the layer polls them.  When a call has waited for longer than
 * ACLMEM_PATIENCE seconds and the model shows that nothing can end the wait, it is reported,
 * with everything that is waited for.
 */
#ifndef AM_LAYER_WAITS_H
#define AM_LAYER_WAITS_H

#include "layer/check.h"

/* The call may wait for a stream, a signal, or (both NULL) the streams of a device. */
void am_waits_begin(struct am_call *call, struct am_agent *agent,
                    struct am_signal *signal);
void am_waits_end(struct am_call *call);

#endif
