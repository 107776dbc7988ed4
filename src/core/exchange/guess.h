/*
 * Who asks for what it may not have, and how often.
 *
 * Numbers have 40 random bits.  A process of another user could try very many of them, so
 * a user whose requests are refused may ask for a few more, and then once a second.  That
 * is by user: processes and connections are easily had.  Users are told apart by
 * AM_GUESS_GROUPS groups, since one with a range of ids has many of those, too; so no more
 * than as many requests a second are looked at that are refused.  Our own user's processes
 * are not counted: they could read our memory.
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
