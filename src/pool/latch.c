#include "pool/latch.h"

#include <sched.h>
#include <time.h>

#define N_LOOKS 64u
#define N_YIELDS 256u

/*
 * The holder needs a few lines more, unless it lost its processor.  Then it gets another one
 * by the yields, and by the sleep also where this thread has a higher priority.
 */
void pool_latch_wait(struct pool_latch *latch)
{
    static const struct timespec moment = {.tv_nsec = 50000};

    for (unsigned i = 0;; i++) {
        /* No order is needed: the lock looks again. */
        if (atomic_load_explicit(&latch->is_held, memory_order_relaxed) == 0)
            return;
        if (i >= N_LOOKS + N_YIELDS)
            nanosleep(&moment, NULL);
        else if (i >= N_LOOKS)
            sched_yield();
    }
}
