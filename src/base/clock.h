/* Time, and how long a wait lasts before it is given up. */
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

#define AM_FOREVER UINT64_MAX

/* The time after a number of nanoseconds, and the nanoseconds until a time. */
static inline uint64_t am_clock_after(uint64_t ns)
{
    uint64_t now = ns == AM_FOREVER ? 0 : am_clock();

    return ns > AM_FOREVER - now ? AM_FOREVER : now + ns;
}

/* The same for a timeout of a call: less than 0 is for ever. */
static inline uint64_t am_clock_after_ms(int32_t timeout_ms)
{
    return am_clock_after(timeout_ms < 0 ? AM_FOREVER
                                         : (uint64_t)timeout_ms * AM_MILLISECOND);
}

static inline uint64_t am_clock_left(uint64_t until)
{
    uint64_t now = until == AM_FOREVER ? 0 : am_clock();

    return now < until ? until - now : 0;
}

/*
 * A waiting thread reads the clock again and again.  A thread that stood still between
 * two readings, in a debugger or on a busy machine, has not waited: the work that it
 * waits for most likely stood still, too.  So the time between two readings counts for
 * at most this much.
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
