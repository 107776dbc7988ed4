/*
 * Freed blocks are kept aside for a while, so that their addresses are not handed out
 * again at once: then a stale address is known for one.
 *
 * The program's free is answered, and passed on later: when newer ones take its place,
 * when memory runs short, before anything that would show the difference, and before a
 * call that uses the freed block, which is then refused as ever.
 */
#ifndef AM_LAYER_HOLD_H
#define AM_LAYER_HOLD_H

#include "layer/check.h"

/* Keeps a block that was just freed in the books; false: it is too large.  Locked. */
bool am_hold(struct am_object *object);
/* This one is to be passed on now.  Locked. */
void am_hold_release(struct am_object *object);
/* The library has freed it by other means: nothing is passed on.  Locked. */
void am_hold_forget(struct am_object *object);
/* The same for all blocks of a device, -1: of all.  Locked. */
void am_hold_forget_device(int device);
/* All of them.  Locked. */
void am_hold_release_all(void);
/* Passes on what was released in this thread.  Not locked; whether there was any. */
bool am_hold_drain(void);

#endif
