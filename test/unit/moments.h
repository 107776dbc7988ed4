/*
 * What another thread may do while a call has no lock.
 *
 *     for (unsigned n = 1, was_between = true; was_between; n++) {
 *         moment_arm(n, retain, &handle);
 *         aclrtFreePhysical(handle);
 *         was_between = moment_disarm();
 *         ... what has to be so, whenever it was retained, or was not ...
 *     }
 *
 * calls retain(&handle) when this thread, with no lock of the library held, is about to acquire
 * its nth lock, and ends after the run that had no such moment.  So every order of the two
 * calls is tried, in one thread.  Links with --wrap for am_lock, am_lock_try and am_unlock.
 */
#ifndef TEST_UNIT_MOMENTS_H
#define TEST_UNIT_MOMENTS_H

#include <stdbool.h>

/* Of this thread; 1 is the next one. */
void moment_arm(unsigned nth, void (*run)(void *arg), void *arg);
/*
 * The same at locks that are acquired while no read section is active: for aclFinalize, which
 * waits for the sections of other threads.
 */
void moment_arm_outside(unsigned nth, void (*run)(void *arg), void *arg);
/*
 * Called before each lock that this thread acquires, also with locks held: for lookups, which
 * acquire none.  NULL ends it.
 */
void moment_each(void (*run)(void *arg), void *arg);
/* Whether it came to the moment. */
bool moment_disarm(void);

#endif
