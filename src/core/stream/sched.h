/*
 * The scheduler: decides which queue (queue.h) a thread advances next.
 *
 * The scheduler lists runnables, the scheduler's view of a queue.  A runnable is ready
 * (listed by priority), parked (waits to be woken, for its deadline, or to be polled), or in
 * no list: then a thread has claimed it and is about to advance it, or it is idle.  A few
 * workers serve any number of runnables.  A parked runnable occupies no worker.
 *
 * Workers sleep while nothing is ready.  One of them, the watcher, sleeps until the next
 * deadline or poll, so that a parked runnable costs the polls of one thread.
 *
 * am_sched_step() is the one step.  Clock, workers and order are parameters (struct
 * am_sched_setup): tests do each step themselves with a clock of their own, and in chaos mode
 * the threads that wait do the steps, in an order drawn from a seed.
 *
 * The lock protects the lists and nothing else.  The order of locks is: one queue, an event,
 * the scheduler.
 */
#ifndef AM_CORE_SCHED_H
#define AM_CORE_SCHED_H

#include <bsd/sys/tree.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "acl/acl_base.h"
#include "base/clock.h"
#include "base/epoch.h"
#include "base/lock.h"

#define AM_PRIORITIES 8 /* 0 is the highest */

/* Of a wait that no queued work can end, and of functions of the program at the end. */
#define AM_STALL_TIMEOUT (5 * AM_SECOND)

/* Nanoseconds between two polls of a parked runnable. */
#define AM_POLL_INTERVAL UINT64_C(50000)

/*
 * In chaos mode the thread whose step made a function of the program due does no other step
 * until the function has ended, for at most this long: the function may wait for a task.
 */
#define AM_CHAOS_PAUSE (AM_SECOND / 2)

enum am_runnable_list { AM_UNLISTED, AM_LISTED_READY, AM_LISTED_PARKED };

struct am_runnable {
    /* Does the next step of a claimed runnable, without a lock; false: nothing changed. */
    bool (*advance)(struct am_runnable *runnable);
    unsigned priority;
    /* sched.lock, as all below */
    enum am_runnable_list list;
    bool is_polled;                /* parked: advance it every AM_POLL_INTERVAL */
    uint64_t deadline;             /* parked: advance it at this time; AM_FOREVER: none */
    uint64_t round;                /* of polls in which it was last advanced */
    TAILQ_ENTRY(am_runnable) link; /* in a ready list or in polled */
    RB_ENTRY(am_runnable) timed;
};

TAILQ_HEAD(am_runnables, am_runnable);

/* All but the seed are also read without the lock. */
struct am_sched_setup {
    uint64_t (*_Atomic now)(void); /* nanoseconds */
    atomic_uint n_workers;         /* 0: threads that wait do the steps */
    atomic_bool is_chaotic;
    uint64_t seed;
};

struct am_sched {
    struct am_lock lock;
    struct am_sched_setup setup;
    struct am_runnables ready[AM_PRIORITIES];
    unsigned n_ready;
    RB_HEAD(am_deadlines, am_runnable) timed;
    struct am_runnables polled; /* the longest unpolled first */
    unsigned n_polled;          /* in polled, or advanced now by the watcher */
    uint64_t n_rounds;
    uint64_t last_poll; /* when the last round began */
    unsigned n_stepping;
    uint64_t random;           /* state of chaos mode's generator */
    struct am_timeout pause;   /* chaos mode: a function of the program runs */
    uint64_t paused;           /* the thread that does no step until the function ends */
    _Atomic uint64_t activity; /* chaos mode: counts calls */
    atomic_uint n_waiting;     /* threads in am_wait_locked() */
    atomic_uint n_functions;   /* functions of the program that run for queues */
    pthread_cond_t work;       /* a runnable became ready, or is_stopping */
    unsigned n_sleeping;       /* workers that wait for `work` */
    pthread_cond_t clock;      /* the same for the watcher; also a new deadline */
    bool has_watcher;
    bool is_stopping;
    atomic_uint n_threads;
    pthread_t threads[16];
    /* Without the lock: tasks that run now, and tasks done or failed in all queues. */
    struct am_counter n_running;
    struct am_counter n_completed;
};

extern struct am_sched am_sched;

/* Once; then it may be started and stopped any number of times. */
void am_sched_init(struct am_sched *sched);

void am_sched_start(struct am_sched *sched, const struct am_sched_setup *setup);
/* Ends the workers; nothing is ready or parked. */
void am_sched_stop(struct am_sched *sched);
/* Workers start with the first task, so that a program without streams has none. */
aclError am_sched_start_workers(struct am_sched *sched);

/*
 * Lists a runnable as ready.  It is parked or in no list; one that is ready or that another
 * thread has just claimed from a list needs am_sched_wake().
 */
void am_sched_make_ready(struct am_sched *sched, struct am_runnable *runnable);
/* Lists a runnable as parked, with its deadline and is_polled as the caller has set them. */
void am_sched_park(struct am_sched *sched, struct am_runnable *runnable);
/* Makes a parked runnable ready; false: it is not parked. */
bool am_sched_wake(struct am_sched *sched, struct am_runnable *runnable);
/* Takes a runnable out of its list; false: another thread has claimed it. */
bool am_sched_claim(struct am_sched *sched, struct am_runnable *runnable);

/* One step; false: there is nothing to do now.  The caller holds no lock. */
bool am_sched_step(struct am_sched *sched);
/* In chaos mode a query ("is it done?") does one step. */
void am_sched_nudge(struct am_sched *sched);
/* Until when a thread that does the steps may sleep. */
uint64_t am_sched_next_step(struct am_sched *sched);

/* Chaos mode: this thread does no step until a function of the program has ended. */
void am_sched_pause(struct am_sched *sched);
void am_sched_function_end(struct am_sched *sched);

/* Whether a task runs, will run, or ran since n_completed was read: memory may change. */
bool am_sched_is_active(struct am_sched *sched, uint64_t n_completed);
/* Whether a parked runnable has a deadline. */
bool am_sched_has_deadline(struct am_sched *sched);

#endif
