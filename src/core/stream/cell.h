/*
 * A page that processes share: what is behind an event or a notify that another process
 * has opened.
 *
 * Everybody who has the page may record.  Records have numbers, in the order of their
 * being queued over all processes, and those that have not run are listed with their
 * owner; so one who waits knows for which number, and whether it is still to come.  A
 * process that dies takes what it had queued with it, and who waits for that is told: each
 * process has a lock on a byte of the page's file, which the kernel drops for it.
 *
 * A notify uses one bit of the page and none of the rest.
 *
 * Nothing but am_cell_look() needs a lock of its caller's; what is read from the page is
 * another process's word and used as a number only.
 */
#ifndef AM_CORE_CELL_H
#define AM_CORE_CELL_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_base.h"

#define AM_CELL_RECORDS 64 /* that have not run, at most */

struct am_cell;

/* A new one, and one from a descriptor that another process sent, which stays open. */
aclError am_cell_make(struct am_cell **ret_cell);
aclError am_cell_join(int fd, struct am_cell **ret_cell);
/* Records that this process has not ended are lost. */
void am_cell_leave(struct am_cell *cell);

/* The descriptor to send; it does not keep this process's lock. */
int am_cell_descriptor(const struct am_cell *cell);

/* In the child of a fork: the parent's locks end with the parent. */
void am_cell_forget_all(void);

/* ---- events ---- */

/*
 * A place for a record that is about to be queued (207005: too many have not run), and its
 * number once it is.  One that is not queued has none: nobody waits for it.
 */
aclError am_cell_claim(struct am_cell *cell, int *ret_place);
uint64_t am_cell_record(struct am_cell *cell, int place);
void am_cell_unclaim(struct am_cell *cell, int place);
/* It has run, or it failed. */
void am_cell_recorded(struct am_cell *cell, uint64_t number, aclError result);

/* The number of the latest record of all processes; 0: none. */
uint64_t am_cell_latest(const struct am_cell *cell);

enum am_cell_state {
    AM_CELL_TO_COME,
    AM_CELL_DONE,
    AM_CELL_FAILED, /* *ret_code says how */
    AM_CELL_LOST,   /* its process ended before it ran */
};
/*
 * One caller at a time.  What it said last of a record that is over it says again, whatever
 * others do meanwhile.
 */
enum am_cell_state am_cell_look(struct am_cell *cell, uint64_t number,
                                aclError *ret_code);

/* ---- notifies ---- */

void am_cell_set(struct am_cell *cell, bool is_set);
/* Clears it; false when somebody was faster. */
bool am_cell_take(struct am_cell *cell);

#endif
