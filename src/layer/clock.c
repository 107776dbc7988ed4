/* See clock.h. */
#include "layer/clock.h"

#include "layer/memory.h"

#include <string.h>

static bool grow(struct am_clock *clock, uint32_t n)
{
    uint32_t room = (n + 7) & ~7u; /* a few more streams need no new memory */
    uint64_t *step;

    if (n <= clock->n)
        return true;
    step = am_meta_realloc(clock->step, room * sizeof *step);
    if (step == NULL)
        return false;
    memset(step + clock->n, 0, (room - clock->n) * sizeof *step);
    clock->step = step;
    clock->n = room;
    return true;
}

void am_clock_join(struct am_clock *clock, const struct am_clock *other)
{
    if (!grow(clock, other->n))
        return;
    for (uint32_t i = 0; i < other->n; i++) {
        uint64_t step = am_clock_get(other, i);

        if (step > clock->step[i])
            clock->step[i] = step;
    }
}

bool am_clock_fits(const struct am_clock *clock, const struct am_clock *other)
{
    return other->n <= clock->n;
}

void am_clock_raise_step(struct am_clock *clock, uint32_t agent, uint64_t step)
{
    uint64_t old = am_clock_get(clock, agent);

    while (step > old &&
           !__atomic_compare_exchange_n(&clock->step[agent], &old, step, false,
                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        ;
}

void am_clock_raise(struct am_clock *clock, const struct am_clock *other)
{
    for (uint32_t i = 0; i < other->n; i++)
        am_clock_raise_step(clock, i, other->step[i]);
}

void am_clock_meet(struct am_clock *clock, const struct am_clock *other)
{
    for (uint32_t i = 0; i < clock->n; i++) {
        if (am_clock_get(other, i) < clock->step[i])
            clock->step[i] = am_clock_get(other, i);
    }
}

void am_clock_set(struct am_clock *clock, uint32_t agent, uint64_t step)
{
    if (grow(clock, agent + 1))
        clock->step[agent] = step;
}

uint64_t am_clock_get(const struct am_clock *clock, uint32_t agent)
{
    return agent < clock->n ? __atomic_load_n(&clock->step[agent], __ATOMIC_RELAXED) : 0;
}

void am_clock_free(struct am_clock *clock)
{
    free(clock->step);
    *clock = (struct am_clock){0};
}
