/*
 * Counts refused requests of each user, against guessing of numbers.
 *
 * Numbers have 40 random bits.  A process of another user could try very many of them,
 * so a user whose requests are refused may send a few more, and then one a second.  The
 * count is by user, since processes and connections are cheap.  Users are counted in
 * AM_GUESS_GROUPS groups, since a user may have a range of ids; so at most that many
 * wrong requests a second are looked up.  Our own user's processes are not counted: they
 * could read our memory.
 */
#ifndef AM_CORE_GUESS_H
#define AM_CORE_GUESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define AM_GUESS_GROUPS 16
#define AM_GUESS_MOST 16 /* that may be wrong at once */

struct am_guesses {
    uint64_t paid[AM_GUESS_GROUPS]; /* when all that was wrong is a second or more old */
};

/* Whether a request of the user is to be looked at, at this time of am_clock(). */
bool am_guess_may(const struct am_guesses *guesses, uid_t uid, uint64_t now);
/* One that was looked at was refused. */
void am_guess_was_wrong(struct am_guesses *guesses, uid_t uid, uint64_t now);

#endif
