/*
 * Values in memory that streams wait for: aclrtValueWrite and aclrtValueWait.
 *
 * A location remembers its last write.  A wait that the last write satisfies is for the
 * record of that write; another wait is for a record that a later write makes.  A copy or
 * fill over the location writes an unknown value, which is assumed to satisfy every wait.
 */
#ifndef AM_LAYER_VALUES_H
#define AM_LAYER_VALUES_H

#include "layer/order.h"

/* A write of the agent's stream was queued; agent NULL: of the host, which is done. */
void am_value_write(struct am_call *call, struct am_agent *agent, struct am_bytes *bytes,
                    uint64_t at, uint64_t value);
/* The same for a range of unknown values. */
void am_values_overwrite(struct am_call *call, struct am_agent *agent,
                         struct am_bytes *bytes, uint64_t at, uint64_t size);
void am_value_wait(struct am_call *call, struct am_agent *agent, struct am_bytes *bytes,
                   uint64_t at, uint64_t value, uint32_t flag);

#endif
