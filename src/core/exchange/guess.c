/* See guess.h. */
#include "core/exchange/guess.h"

#include "base/clock.h"

#define COST AM_SECOND /* of a wrong one */

/* The highest bits of a product with 2^32 over the golden ratio: neighbours lie apart. */
static unsigned group(uid_t uid)
{
    return (uint32_t)uid * UINT32_C(2654435761) >> 28;
}

_Static_assert(AM_GUESS_GROUPS == 1u << (32 - 28), "a group is four bits");

bool am_guess_may(const struct am_guesses *guesses, uid_t uid, uint64_t now)
{
    return guesses->paid[group(uid)] <= now + (AM_GUESS_MOST - 1) * COST;
}

void am_guess_was_wrong(struct am_guesses *guesses, uid_t uid, uint64_t now)
{
    uint64_t *paid = &guesses->paid[group(uid)];

    *paid = (*paid > now ? *paid : now) + COST;
}
