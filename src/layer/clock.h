/*
 * Vector clocks: for each agent, how many of its steps are known to be done before.
 *
 * Step n of an agent happened before something with clock c if c.step[agent] >= n.
 * Joining two clocks is what waiting does.  Agents have small numbers that are used again,
 * and their steps are counted on, so clocks stay as long as the most agents at a time.
 */
#ifndef AM_LAYER_CLOCK_H
#define AM_LAYER_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct am_clock {
    uint32_t n;
    uint64_t *step;
};

/* What does not fit into memory is left out: then less is known to be ordered. */
void am_clock_join(struct am_clock *clock, const struct am_clock *other);
/*
 * Joins while other threads read the clock, or join.  A concurrent reader may see a part of
 * the new steps, each of which is known.  `other` must fit: no memory is allocated.
 */
void am_clock_raise(struct am_clock *clock, const struct am_clock *other);
/* The same for one step. */
void am_clock_raise_step(struct am_clock *clock, uint32_t agent, uint64_t step);
bool am_clock_fits(const struct am_clock *clock, const struct am_clock *other);
/* Keeps what both know. */
void am_clock_meet(struct am_clock *clock, const struct am_clock *other);
void am_clock_set(struct am_clock *clock, uint32_t agent, uint64_t step);
uint64_t am_clock_get(const struct am_clock *clock, uint32_t agent);
void am_clock_free(struct am_clock *clock);

#endif
