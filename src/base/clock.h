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
 * A timeout that does not count time in which the process was stopped, in a debugger or on a
 * busy machine: the awaited work most likely was stopped as well.  A waiting thread checks the
 * timeout at intervals, and each interval counts for at most `most`.
 */
struct am_timeout {
    uint64_t left;
    uint64_t checked; /* time of the last check, or of the start */
};

/* False: the timeout has expired. */
static inline bool am_timeout_check(struct am_timeout *timeout, uint64_t now,
                                    uint64_t most)
{
    uint64_t passed = now - timeout->checked;

    passed = passed < most ? passed : most;
    timeout->left -= passed < timeout->left ? passed : timeout->left;
    timeout->checked = now;
    return timeout->left > 0;
}

#endif
