/*
 * Freed blocks stay in quarantine for a while, so that their addresses are not reused
 * again at once: then a stale address is known for one.
 *
 * Each shard of threads has a ring of blocks, and the rings in use share the limits of 256
 * blocks and 8 MB, so that threads do not wait for each other.
 *
 * The program's free is answered, and passed on later: when newer ones take its place,
 * when memory runs short, before anything that would show the difference, and before a
 * call that uses the freed block, which is then refused as ever.
 */
#ifndef AM_LAYER_QUARANTINE_H
#define AM_LAYER_QUARANTINE_H

#include "layer/metadata.h"

/*
 * Quarantines a block that was just freed; false: it is too large.  In a hook that shares the
 * metadata only if the thread's ring is open.
 */
bool am_quarantine_add(struct am_object *object);
bool am_quarantine_is_open(void);
/* This one is to be passed on now.  Locked. */
void am_quarantine_release(struct am_object *object);
/* The library has freed it by other means: nothing is passed on.  Locked. */
void am_quarantine_remove(struct am_object *object);
/* The same for all blocks of a device, -1: of all.  Locked. */
void am_quarantine_remove_device(int device);
/* All of them.  Locked. */
void am_quarantine_release_all(void);
/* Passes on what was released in this thread.  Not locked; whether there was any. */
bool am_quarantine_drain(void);

#endif
