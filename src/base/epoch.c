/* See epoch.h. */
#include "base/epoch.h"

#include <time.h>

#define NAP_NS 50000 /* between two checks for the end of a grace period */

struct am_epoch am_epoch = {.number = 1};
_Thread_local struct am_epoch_thread am_epoch_thread;
_Thread_local unsigned am_shard_number;

unsigned am_shard_assign(void)
{
    static atomic_uint next;

    am_shard_number =
        atomic_fetch_add_explicit(&next, 1, memory_order_relaxed) % AM_SHARDS + 1;
    return am_shard_number - 1;
}

/*
 * Orders unlinking stores before loads of the counters of readers.  The word is the shard's:
 * every section reads am_epoch.number.
 */
static void full_barrier(void)
{
    atomic_fetch_add_explicit(&am_epoch.shard[am_shard()].n_deferred, 0,
                              memory_order_seq_cst);
#if !defined(__x86_64__)
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* One step, if no section uses the counters that the next epoch will use. */
static bool try_advance(void)
{
    uint64_t number;

    full_barrier();
    number = atomic_load_explicit(&am_epoch.number, memory_order_acquire);
    for (unsigned i = 0; i < AM_SHARDS; i++) {
        if (atomic_load_explicit(&am_epoch.shard[i].n_readers[(number + 1) & 1],
                                 memory_order_acquire) != 0)
            return false;
    }
    /* Where this fails, another thread has advanced. */
    atomic_compare_exchange_strong_explicit(&am_epoch.number, &number, number + 1,
                                            memory_order_acq_rel, memory_order_acquire);
    return true;
}

static void push(union am_epoch_shard *shard, struct am_deferred *first,
                 struct am_deferred *last)
{
    last->next = atomic_load_explicit(&shard->deferred, memory_order_relaxed);
    while (!atomic_compare_exchange_weak_explicit(
        &shard->deferred, &last->next, first, memory_order_release, memory_order_relaxed))
        continue;
}

void am_epoch_defer(struct am_deferred *deferred,
                    void (*free)(struct am_deferred *deferred))
{
    union am_epoch_shard *shard = &am_epoch.shard[am_shard()];

    deferred->epoch = 0;
    deferred->free = free;
    atomic_fetch_add_explicit(&shard->n_deferred, 1, memory_order_relaxed);
    push(shard, deferred, deferred);
}

/* Frees those objects of the shard whose grace period is over; how many remain. */
static unsigned shard_reclaim(union am_epoch_shard *shard, unsigned max_steps)
{
    struct am_deferred *list =
        atomic_exchange_explicit(&shard->deferred, NULL, memory_order_acquire);
    struct am_deferred *later = NULL;
    struct am_deferred *last = NULL;
    struct am_deferred *next;
    unsigned n_later = 0;
    unsigned n = 0;
    uint64_t now;

    full_barrier();
    now = atomic_load_explicit(&am_epoch.number, memory_order_acquire);
    for (struct am_deferred *deferred = list; deferred != NULL;
         deferred = deferred->next, n++) {
        if (deferred->epoch == 0)
            deferred->epoch = now;
    }
    for (unsigned i = 0; n > 0 && i < max_steps && try_advance(); i++)
        continue;
    now = atomic_load_explicit(&am_epoch.number, memory_order_acquire);
    for (; list != NULL; list = next) {
        next = list->next;
        if (list->epoch + 3 <= now) {
            list->free(list);
            continue;
        }
        last = last == NULL ? list : last;
        list->next = later;
        later = list;
        n_later++;
    }
    if (later != NULL)
        push(shard, later, last);
    /* After the frees: am_epoch_synchronize() waits for them. */
    atomic_fetch_sub_explicit(&shard->n_deferred, n - n_later, memory_order_release);
    return n_later;
}

/* While a long section holds objects back, attempts become rarer as the list grows. */
void am_epoch_reclaim(void)
{
    union am_epoch_shard *shard = &am_epoch.shard[am_shard()];
    unsigned n = shard_reclaim(shard, 3);

    atomic_store_explicit(&shard->limit, n < AM_EPOCH_BATCH ? 0 : 2 * n,
                          memory_order_relaxed);
}

void am_epoch_synchronize(void)
{
    unsigned depth = am_epoch_suspend();
    uint64_t end = atomic_load_explicit(&am_epoch.number, memory_order_acquire) + 3;
    unsigned n = 0;

    while (n > 0 || atomic_load_explicit(&am_epoch.number, memory_order_acquire) < end) {
        if (!try_advance())
            nanosleep(&(struct timespec){.tv_nsec = NAP_NS}, NULL);
        n = 0;
        for (unsigned i = 0; i < AM_SHARDS; i++) {
            (void)shard_reclaim(&am_epoch.shard[i], 0);
            n +=
                atomic_load_explicit(&am_epoch.shard[i].n_deferred, memory_order_acquire);
        }
    }
    am_epoch_resume(depth);
}

void am_epoch_forget_threads(void)
{
    unsigned depth = am_epoch_thread.depth;

    for (unsigned i = 0; i < AM_SHARDS; i++) {
        atomic_store_explicit(&am_epoch.shard[i].n_readers[0], 0, memory_order_relaxed);
        atomic_store_explicit(&am_epoch.shard[i].n_readers[1], 0, memory_order_relaxed);
    }
    if (depth > 0)
        am_epoch_begin();
}
