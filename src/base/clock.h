/* Time, and for how long somebody waits before giving up. */
#ifndef AM_BASE_CLOCK_H
#define AM_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define AM_MILLISECOND UINT64_C(1000000)
#define AM_SECOND (1000 * AM_MILLISECOND)

/* Nanoseconds of the monotonic clock. */
static inline uint64_t am_clock(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * AM_SECOND + (uint64_t)now.tv_nsec;
}

/*
 * Who waits looks at the clock again and again.  Who stood still between two looks, in a
 * debugger or because others had the machine, has not waited: mostly those that are waited
 * for stood still, too.  So one look counts for so much time at most.
 */
struct am_patience {
    uint64_t left;
    uint64_t looked; /* when it was last looked, or begun */
};

/* A look at which nothing had come: whether to wait on. */
static inline bool am_patience_look(struct am_patience *patience, uint64_t now,
                                    uint64_t most)
{
    uint64_t passed = now - patience->looked;

    passed = passed < most ? passed : most;
    patience->left -= passed < patience->left ? passed : patience->left;
    patience->looked = now;
    return patience->left > 0;
}

#endif
