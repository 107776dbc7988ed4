/*
 * Pinned blocks: what the host itself does to them, without a call.
 *
 * Guard bytes (guard.c): a pinned block is allocated a little larger, and the bytes before
 * its start and behind its end have a pattern.  A write of the program there is found when
 * the block is next copied, freed, or left over.
 *
 * A fence (touch.c): with race.host a page without access lies behind the guard, and a
 * touch of it is found at the instruction.
 *
 * Protected pages (touch.c): while queued work reads a block its pages are read-only for
 * the program, and while queued work writes it they cannot be accessed.  The library
 * reaches the block at other addresses.  A touch of the program faults; the handler
 * reports it, makes the block accessible, and the program goes on.  Only pages are
 * protected of which queued work uses every byte that the program has, so that a page
 * with other bytes of the program is never in the chain.
 */
#ifndef AM_LAYER_PINNED_H
#define AM_LAYER_PINNED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "layer/metadata.h"

#define AM_GUARD 32 /* bytes with a pattern, before and behind a block */
#define AM_PAGE ((uint64_t)4096)

static inline uint64_t am_pages_up(uint64_t size)
{
    return (size + AM_PAGE - 1) & ~(AM_PAGE - 1);
}

/* ---- guard.c; all under am_check.lock ---- */

/* The bytes to allocate for a pinned block of this size: before its start, and from there. */
size_t am_guard_lead(size_t size);
size_t am_guard_room(size_t size);
/* The block was allocated with am_guard_lead() and am_guard_room(). */
void am_guard_set(struct am_object *block);
/* The block whose guard addr lies in; NULL: none. */
struct am_object *am_guard_find(uint64_t addr);
/*
 * Reports when bytes before or behind the block were written; `call` is where it was seen.  Nothing
 * while another call may end the block.
 */
void am_guard_check(struct am_call *call, struct am_object *block);
/* The same for all live blocks at the end. */
void am_guards_check(struct am_call *call);

/*
 * A call that uses more than the program asked for.  The library takes the guard for a
 * part of the block, so the call is refused here.
 */
void am_guard_refuse(struct am_call *call, const struct am_object *block, uint64_t addr,
                     uint64_t size, const char *argument);

/* ---- touch.c ---- */

/* Whether pages are protected in this process; at the start of the layer. */
void am_touch_open(void);
bool am_touch_is_on(void);
/* After a call: pages are protected and made accessible as queued work asks.  Locked. */
void am_touch_update(void);
/*
 * A block of the host was made, with room for its guard.  Where the room is pages, the
 * block's may be protected, and the last one is the fence, which the program cannot access.
 * A touch of the fence faults and is reported; then it is accessible.  Locked.
 */
void am_touch_made(struct am_object *block, size_t room);
void am_touch_unfence(struct am_object *block);
/* The program gives up the block: its pages are accessible.  Locked. */
void am_touch_end(struct am_bytes *bytes);
/* The memory was freed.  Locked. */
void am_touch_forget(struct am_bytes *bytes);
void am_touch_forget_all(void);

#endif
