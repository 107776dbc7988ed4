/*
 * Hooks of several threads at the same time.
 *
 * A hook has the metadata to itself by am_check_lock(): then it may read and change
 * everything.  The hooks of the most frequent calls share the metadata if nothing is to be
 * reported and the call changes only one stream, one event and a few blocks: aclrtMalloc and
 * aclrtFree of a small block, work on a stream that waits for nothing, and, if no stream
 * waits, records of events, waits for them, and calls that wait for a stream.  A hook that
 * shares
 *
 *   reads        what only am_check_lock() changes: handles, reservations, am_check.rest, the
 *                lists of streams and models
 *   changes      under latches: the stripes of the addresses, of the bytes, of the stream, and
 *                of the event
 *   raises       the clock of the host, by atomics: another thread sees the old step of an
 *                agent or the new one
 *   counts       with atomics: serial numbers, am_check.device_bytes
 *
 * Bytes, and the areas that show them, have the stripe of the bytes' first address or handle;
 * a stream or an event has the stripe of its handle.  So the same hook runs in both ways, and the
 * conditions here decide which way.  A thread that finds a condition broken runs the hook
 * alone.
 *
 * Each thread that shares counts itself in its shard.  am_check_lock() closes the metadata
 * for new ones, and waits for the others.
 */
#ifndef AM_LAYER_SHARED_H
#define AM_LAYER_SHARED_H

#include "layer/hooks.h"

/* Runs the hook before, or all that follows the call; false: it did not, nothing changed. */
bool am_shared_before(struct am_call *call, am_hook before);
bool am_shared_after(struct am_call *call, am_hook after);

/* Whether the freed object may be forgotten by this thread now. */
bool am_can_forget(const struct am_object *object);

/* False: another thread has it.  For a thread that may have other stripes. */
bool am_stripe_try(struct am_stripe *stripe);
void am_stripe_give(struct am_stripe *stripe);

#endif
