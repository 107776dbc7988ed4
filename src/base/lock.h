/*
 * Mutexes with a rank.  A thread that finds one locked polls it for a moment before it sleeps,
 * since most are held for a few lines.
 *
 * A thread may acquire a lock only if the rank is higher than the ranks of all locks it holds;
 * locks of one rank are never held together.  Builds with assertions keep each thread's
 * list and abort on a reversal, naming both.  Clang checks _locked functions by the
 * attributes (-Wthread-safety).
 *
 * A latch is a lock for a few lines in which the thread does not wait.  It takes one
 * atomic instruction and no call; a mutex takes two of each, which is visible in the
 * shortest functions.  A thread that finds a latch taken polls it, and sleeps between polls
 * if the owner seems to have lost its processor.
 */
#ifndef AM_BASE_LOCK_H
#define AM_BASE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

enum am_rank {
    AM_RANK_RUNTIME = 1, /* start and stop of the library */
    AM_RANK_DEVICE,      /* contexts and counts of devices */
    AM_RANK_POOL,        /* one stream-ordered pool */
    AM_RANK_MODELS,      /* which captures and models there are */
    AM_RANK_STREAMS,     /* which streams and events there are */
    AM_RANK_WALK,        /* walks over queues that wait for each other */
    AM_RANK_QUEUE,       /* the queue of one stream */
    AM_RANK_MODEL,       /* the executions of one model */
    AM_RANK_EVENT,       /* one event or notify */
    AM_RANK_CALLS,       /* callbacks and host functions */
    AM_RANK_SCHED,       /* ready and parked queues */
    AM_RANK_HEAP,        /* blocks and runs of one heap */
    AM_RANK_VSPACE,      /* which reservations there are */
    AM_RANK_RESERVATION, /* one reservation, and what is mapped in it */
    AM_RANK_DOMAIN,      /* physical memory of one device or of the host */
    AM_RANK_VIEW,        /* host views */
    AM_RANK_PINS,        /* memory that is registered with GPUs */
    AM_RANK_CLOCK,       /* renewing the clock of a GPU */
    AM_RANK_BANK,        /* frames of a bank */
    AM_RANK_FABRIC,      /* the start of the fabric process */
    AM_RANK_SHARE,       /* exports to other processes, and to other machines */
    AM_RANK_LEDGER,      /* the ledger, which all processes share */
    AM_RANK_RUNDIR,      /* the runtime directory */
    AM_RANK_LEAF,        /* held for a few lines, nothing is called under it */
};

#if defined(__clang__)
#define AM_CAPABILITY(name_) __attribute__((capability(name_)))
#define AM_REQUIRES(...) __attribute__((requires_capability(__VA_ARGS__)))
#define AM_ACQUIRE(...) __attribute__((acquire_capability(__VA_ARGS__)))
#define AM_TRY_ACQUIRE(...) __attribute__((try_acquire_capability(__VA_ARGS__)))
#define AM_RELEASE(...) __attribute__((release_capability(__VA_ARGS__)))
#define AM_NO_LOCK_ANALYSIS __attribute__((no_thread_safety_analysis))
#else
#define AM_CAPABILITY(name_)
#define AM_REQUIRES(...)
#define AM_ACQUIRE(...)
#define AM_TRY_ACQUIRE(...)
#define AM_RELEASE(...)
#define AM_NO_LOCK_ANALYSIS
#endif

struct AM_CAPABILITY("mutex") am_lock {
    pthread_mutex_t mutex;
    enum am_rank rank;
    const char *name; /* for the message about a reversal */
};

#define AM_LOCK_INIT(rank_, name_) \
    { \
        .mutex = PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP, .rank = (rank_), .name = (name_) \
    }

void am_lock_init(struct am_lock *lock, enum am_rank rank, const char *name);
void am_lock_destroy(struct am_lock *lock);
void am_lock(struct am_lock *lock) AM_ACQUIRE(*lock);
/* False: another thread has it. */
bool am_lock_try(struct am_lock *lock) AM_TRY_ACQUIRE(true, *lock);
void am_unlock(struct am_lock *lock) AM_RELEASE(*lock);

/* The value of an expression that is evaluated with the lock. */
#define AM_LOCKED(lock_, value_) \
    ({ \
        am_lock(lock_); \
        __auto_type locked_ = (value_); \
        am_unlock(lock_); \
        locked_; \
    })

/* A latch is one word in builds without assertions: many objects have one. */
struct AM_CAPABILITY("mutex") am_latch {
    atomic_bool is_taken;
#ifndef AM_NDEBUG
    enum am_rank rank;
    const char *name;
#endif
};

#ifndef AM_NDEBUG
#define AM_LATCH_INIT(rank_, name_) \
    { \
        .rank = (rank_), .name = (name_) \
    }
#else
#define AM_LATCH_INIT(rank_, name_) \
    { \
        .is_taken = false \
    }
#endif

/* Returns when the latch was free; another thread may have taken it since. */
void am_latch_wait(struct am_latch *latch) __attribute__((cold));

/* The thread's list of what it holds. */
#ifndef AM_NDEBUG
void am_held_push(const void *lock, enum am_rank rank, const char *name);
void am_held_pop(const void *lock);
#else
#define am_held_push(lock_, rank_, name_) ((void)(lock_))
#define am_held_pop(lock_) ((void)(lock_))
#endif

AM_NO_LOCK_ANALYSIS static inline void am_latch_take(struct am_latch *latch)
    AM_ACQUIRE(*latch)
{
    am_held_push(latch, latch->rank, latch->name);
    while (atomic_exchange_explicit(&latch->is_taken, true, memory_order_acquire))
        am_latch_wait(latch);
}

AM_NO_LOCK_ANALYSIS static inline void am_latch_give(struct am_latch *latch)
    AM_RELEASE(*latch)
{
    atomic_store_explicit(&latch->is_taken, false, memory_order_release);
    am_held_pop(latch);
}

/*
 * Starts a thread of the library: 0 or an errno.  The thread takes no signals of the program:
 * a program that waits for a signal with sigwait(), a signalfd or pselect() has blocked the
 * signal in its own threads, and would wait in vain while any other thread can get it.  A
 * fault in the thread still reaches the program's handler.
 */
int am_thread_start(pthread_t *thread, void *(*run)(void *), void *arg);

#endif
