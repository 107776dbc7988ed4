/*
 * The scheduler: queues of tasks, and the threads that run them.
 *
 * A queue is a FIFO of tasks and is in one of five states: idle (empty), ready (listed
 * by priority), running (one worker has its first task), parked (its first task waits
 * for a condition), checked (parked, and a worker checks that condition).  A few workers
 * serve any number of queues.  A parked queue costs no worker; the condition or its deadline
 * wakes it.
 *
 * A task is polled, with the lock, when it is first in its queue: a poll may start
 * something and says whether the task can run (or, when there is nothing to run, whether
 * it is done).  Then it is run, without any lock.  Both may fail; the queue keeps its first
 * failure until a call synchronises.  A condition on memory or on a device is checked
 * repeatedly, without any lock.
 *
 * The scheduler knows nothing of work that a device does by itself: lane.h.
 *
 * Clock, workers and order are given from outside (struct am_sched_setup): tests step
 * through a schedule with a clock of their own, and chaos mode runs tasks only while a
 * thread waits, in an order drawn from a seed.  So the scheduler itself is a state machine,
 * and am_sched_step_locked() its one step.
 *
 * A queue's tasks have numbers, in the order of their coming: n_done is that of the one
 * whose turn it is. Dropping tasks means to raise drop_until above them; each is dropped
 * when its turn comes, at once where the queue does not run.
 *
 * Idle workers sleep until they are called.  One of them, the watcher, also handles deadlines
 * and checks, so that a wait costs one thread's checks and not those of all.
 *
 * Everything here is under sched.lock unless it says otherwise.
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
#include "backend/backend.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/shard.h"

#define AM_PRIORITIES 8 /* 0 is the highest */

/*
 * Chaos mode does a step by itself after half a second without a call: that is so many looks
 * in a row, each after so many nanoseconds.  Looks are counted because the clock goes on
 * while a debugger holds the program.
 */
#define AM_CHAOS_LOOKS 10
#define AM_CHAOS_LOOK (50 * AM_MILLISECOND)

/* A wait is given up after so long a time in which only the program could end it. */
#define AM_PATIENCE (5 * AM_SECOND)

/* Nanoseconds between two checks of a parked queue. */
#define AM_POLL_INTERVAL UINT64_C(50000)

struct am_ledger_stream;
struct am_queue;
struct am_sched;
struct am_task;

TAILQ_HEAD(am_queues, am_queue);

/* Queues that wait for the same condition. */
struct am_waitlist {
    struct am_queues queues;
};

struct am_task_ops {
    /*
     * For the lane engine, called with the lane's lock and never with the scheduler's.
     * launch: hands the task to the device and sets task->number, or leaves it 0 if the task
     * has to be queued after all; NULL: a device cannot do such tasks.  collected: the device
     * has done the task; replaces poll, run and finish; may fail.
     */
    aclError (*launch)(struct am_task *task, const struct am_backend_ops *lanes,
                       struct am_lane *lane);
    aclError (*collected)(struct am_task *task, const struct am_backend_ops *lanes);
    /*
     * Whether the task can run; NULL: always.  If it cannot, the queue waits in *ret_list
     * until it is woken.  *ret_list NULL: the condition depends on memory or a device, and
     * the task is checked and polled again every AM_POLL_INTERVAL.  A poll that sets a list
     * may release the lock meanwhile.
     */
    bool (*poll)(struct am_task *task, struct am_sched *sched,
                 struct am_waitlist **ret_list);
    /*
     * Called without the lock, repeatedly, if there is no poll or the poll set no list:
     * whether the task can run, or should be polled again.  NULL: poll decides alone.
     */
    bool (*check)(struct am_task *task);
    /* The work, without the lock.  NULL: there is none. */
    aclError (*run)(struct am_task *task);
    /*
     * Makes the result visible: called with the lock after the task ran, not if it failed.
     * May fail.
     */
    aclError (*finish)(struct am_task *task, struct am_sched *sched);
    /* The task will never run; am_queue_cause() says why.  With the lock, before the drop. */
    void (*cancel)(struct am_task *task, const struct am_queue *queue);
    /*
     * Whether queued work can end the wait of the task.  NULL: only the program can, unless
     * comes_alone: the wait ends by itself.  With the lock, while the queue is parked.
     */
    bool (*can_come)(struct am_task *task, struct am_sched *sched);
    bool comes_alone;
    /*
     * The only task that can end the wait of this one, with its queue; NULL: there is none,
     * or several could.  With the lock.
     */
    const struct am_task *(*awaits)(const struct am_task *task,
                                    struct am_queue **ret_queue);
    /*
     * Of a parked task: the condition that it waits for, as in "event 7 is recorded".
     * NULL: a function of the program returns.  With the lock.
     */
    void (*describe)(const struct am_task *task, char *text, size_t size);
    /* Frees the task: called without the lock, exactly once, whether the task ran or not. */
    void (*drop)(struct am_task *task);
    aclError timeout; /* the code when its deadline passes */
};

/*
 * NULL, or is told of each task that a thread of the scheduler, or one that waits, has run.
 * Called without the lock.
 */
typedef void (*am_task_hook)(const struct am_queue *queue, const struct am_task *task,
                             uint64_t began, uint64_t ended);
extern _Atomic(am_task_hook) am_task_ran;

struct am_task {
    TAILQ_ENTRY(am_task) next;
    const struct am_task_ops *ops;
    const char *function; /* the API call that queued it */
    /* AM_FOREVER: none; as a duration until it is first in its queue */
    uint64_t deadline;
    uint64_t queued;  /* when, where am_task_ran wants to know; 0 otherwise */
    bool is_first;    /* it has been polled; deadline is a time now */
    bool is_outside;  /* a function of the program runs for it */
    bool is_warned;   /* a warning said that no queued work can end its wait */
    uint64_t number;  /* of its launch; the lane engine's */
    pthread_t runner; /* is_outside: in this thread */
};

/* A task of the call that this thread is in, without a deadline. */
static inline void am_task_init(struct am_task *task, const struct am_task_ops *ops)
{
    task->ops = ops;
    task->function = am_error_function;
    task->deadline = AM_FOREVER;
    task->is_outside = false;
}
/*
 * The same in new memory of `size` bytes, which begins with a task; the caller sets the rest.
 * It is not zeroed: calloc() takes longer than a short fill of memory.  NULL: there is no memory, which has been reported; the caller returns ACL_ERROR_BAD_ALLOC.
 */
void *am_task_make(const struct am_task_ops *ops, size_t size);

TAILQ_HEAD(am_tasks, am_task);

enum am_queue_state {
    AM_QUEUE_IDLE,
    AM_QUEUE_READY,
    AM_QUEUE_RUNNING,
    AM_QUEUE_PARKED,
    AM_QUEUE_CHECKED,
};

struct am_queue {
    _Atomic uint64_t bypass;      /* without the lock: sched_bypass.h */
    _Atomic(const char *) inside; /* the call whose task is inside the bypass */
    struct am_tasks tasks;
    enum am_queue_state state;
    unsigned priority;
    TAILQ_ENTRY(am_queue) link;     /* in a ready list, in waiting_on, or in polled */
    struct am_waitlist *waiting_on; /* parked: where; NULL when polled or not parked */
    RB_ENTRY(am_queue) timed;       /* parked with a deadline */
    bool is_timed;
    uint64_t looked; /* polled: the round of looks that it had its turn in */
    /* RUNNING, with the first task not in `tasks`: the call that it is for */
    const char *running;
    uint64_t n_queued;   /* tasks ever queued */
    uint64_t n_done;     /* of those, done, failed or dropped */
    uint64_t drop_until; /* tasks with a lower number are dropped */
    bool is_closed;      /* takes no more tasks */
    bool stop_on_failure;
    /* by a failure or a call: tasks are dropped until it is cleared */
    bool is_stopped;
    aclError error;      /* of the first task that failed since the last report */
    char why[512];       /* its message */
    const char *failed;  /* the call that queued it */
    bool is_reported;    /* a call that synchronised has returned it */
    uint64_t n_reported; /* failures that were */
    uint64_t visit;      /* of the walk that came by last */
    struct am_ledger_stream *figure; /* where its waits are shown; NULL: nowhere */
    pthread_cond_t changed; /* n_done grew, or a function of the program is over */
};

/* Why tasks of a queue are dropped. */
struct am_cause {
    aclError rc;
    const char *function; /* the call whose work failed; NULL: stopped or aborted */
};

/*
 * Work of one thread in independent pieces, some of which idle workers may do.
 */
struct am_share {
    aclError (*run)(struct am_share *share, size_t piece); /* without the lock */
    size_t n_pieces;
    const char *function; /* the API call that it is for */
    /* The scheduler's, under its lock: */
    size_t n_taken;
    size_t n_inside; /* pieces that threads are at */
    aclError rc;     /* of the first that failed; no more are begun */
    char why[256];   /* its message, when it was not the owner's */
    pthread_cond_t left;
    TAILQ_ENTRY(am_share) next;
};

/*
 * The clock and the mode are read without the lock too: a call that outlives a stop may read
 * them while the next start sets them.
 */
struct am_sched_setup {
    uint64_t (*_Atomic now)(void); /* nanoseconds */
    /* NULL, or says that a caller has waited for the queue in vain.  With the lock. */
    void (*warn)(struct am_queue *queue);
    unsigned n_workers; /* 0: threads that wait run the tasks */
    atomic_bool is_chaotic;
    uint64_t seed;
};

struct am_sched {
    struct am_lock lock;
    struct am_sched_setup setup;
    struct am_queues ready[AM_PRIORITIES];
    unsigned n_ready;
    unsigned n_running;
    unsigned n_stepping; /* threads in am_sched_step_locked() */
    unsigned n_outside;  /* functions of the program that run for parked queues */
    uint64_t visit;      /* of the last walk over queues that wait for each other */
    bool has_met_polled; /* that walk came to a polled queue */
    unsigned n_waiting;  /* threads in am_sched_wait_locked() */
    TAILQ_HEAD(, am_share) shares; /* that idle workers may join */
    RB_HEAD(am_deadlines, am_queue) timed;
    struct am_queues polled; /* parked without a list; the longest unchecked first */
    unsigned n_polled;       /* those, and those that are checked now */
    uint64_t n_looks;        /* rounds of looks at them */
    uint64_t last_poll;      /* when the last round began */
    uint64_t random;         /* state of chaos mode's numbers */
    uint64_t activity;       /* counts calls in chaos mode */
    pthread_cond_t work;     /* a queue became ready, or is_stopping */
    unsigned n_sleeping;     /* workers that wait for it */
    pthread_cond_t clock;    /* the same for the watcher; also a new deadline */
    bool has_watcher;
    bool is_stopping;
    unsigned n_threads;
    pthread_t threads[16];
    /* tasks done or failed, over all queues; without the lock */
    _Alignas(AM_SHARD_STRIDE) struct am_tally moves;
};

extern struct am_sched am_sched;

/*
 * Once; then it may be started and stopped any number of times.  The lock is usable all
 * the time.
 */
void am_sched_init(struct am_sched *sched);
void am_sched_destroy(struct am_sched *sched);

void am_sched_start(struct am_sched *sched, const struct am_sched_setup *setup);
/* Ends the workers; all queues are empty. */
void am_sched_stop(struct am_sched *sched);

void am_queue_init(struct am_queue *queue, unsigned priority);
void am_queue_destroy(struct am_queue *queue);

/*
 * Appends a task, which is the scheduler's from now on; where that fails, it is still the
 * caller's.
 */
aclError am_sched_submit_locked(struct am_sched *sched, struct am_queue *queue,
                                struct am_task *task) AM_REQUIRES(sched->lock);

/*
 * For work that the caller does itself if it would be the only task of its queue.  True: the
 * caller does it now and then calls am_sched_end().  False: it has to be queued.  A short task
 * takes no lock while the bypass of the queue is open.
 */
bool am_sched_try_begin(struct am_sched *sched, struct am_queue *queue, bool is_short);
void am_sched_end(struct am_sched *sched, struct am_queue *queue);

/*
 * Does all pieces, together with idle workers; returns the first failure.  The caller holds
 * no lock.
 */
aclError am_sched_share(struct am_sched *sched, struct am_share *share);
/* For workers: does one piece of a share; false: there is none. */
bool am_sched_join_locked(struct am_sched *sched) AM_REQUIRES(sched->lock);
/* Wakes one more worker, if one sleeps. */
void am_sched_call_worker_locked(struct am_sched *sched) AM_REQUIRES(sched->lock);

/*
 * One step: a deadline, or one task of one queue.  False when there is nothing to do now.
 */
bool am_sched_step_locked(struct am_sched *sched) AM_REQUIRES(sched->lock);

/* The queues in `list` are ready: their condition may hold now. */
void am_sched_wake_locked(struct am_sched *sched, struct am_waitlist *list)
    AM_REQUIRES(sched->lock);

/*
 * Waits until is_done(what) holds: 0, or ETIMEDOUT.  cond is signalled when it may have
 * changed. Without workers the caller runs tasks meanwhile.
 */
int am_sched_wait_locked(struct am_sched *sched, pthread_cond_t *cond,
                         bool (*is_done)(void *), void *what, uint64_t timeout_ns)
    AM_REQUIRES(sched->lock);

/*
 * A walk over queues that wait for each other, each of which is visited once: begin, then
 * am_queue_can_move_locked(), then end.  The end returns true if the walk came to a polled
 * queue and memory may still change.
 */
struct am_quiet;
void am_walk_begin_locked(struct am_sched *sched) AM_REQUIRES(sched->lock);
bool am_walk_end_locked(struct am_sched *sched, const struct am_quiet *quiet)
    AM_REQUIRES(sched->lock);

/*
 * The same as am_sched_wait_locked() for a wait that may never end: warns once, after
 * AM_PATIENCE in which no queued work could have ended it, and waits on.
 */
struct am_worry {
    /* Whether queued work can end it.  With the lock. */
    bool (*can_come)(void *what, struct am_sched *sched, const struct am_quiet *quiet);
    void (*warn)(void *what, struct am_sched *sched);
};
int am_sched_wait_worried_locked(struct am_sched *sched, pthread_cond_t *cond,
                                 bool (*is_done)(void *), void *what, uint64_t timeout_ns,
                                 const struct am_worry *worry) AM_REQUIRES(sched->lock);

/* The tasks queued so far are done: 0 or ETIMEDOUT.  Worried, as the next one. */
int am_sched_wait_queue_locked(struct am_sched *sched, struct am_queue *queue,
                               uint64_t timeout_ns) AM_REQUIRES(sched->lock);
/* The first `number` tasks ever queued are. */
int am_sched_wait_task_locked(struct am_sched *sched, struct am_queue *queue,
                              uint64_t number, uint64_t timeout_ns)
    AM_REQUIRES(sched->lock);

/*
 * Waits for the queue as long as queued work can move it: the queue is not parked, or it has
 * a deadline, or a function of the program runs for it, or the awaited record is in another
 * queue of which that is true.  Gives up after some seconds in which only the program could
 * have helped.  For a queue that waits for memory any task that moves counts.  0 or
 * ETIMEDOUT.  A thread that waits for several queues in a row uses one patience for all.
 */
struct am_quiet {
    struct am_patience patience;
    uint64_t n_moves;
};
void am_quiet_begin_locked(struct am_sched *sched, struct am_quiet *quiet)
    AM_REQUIRES(sched->lock);
/*
 * Call after a look that found nothing.  Returns when to look again, or 0 when the patience
 * is used up.
 */
uint64_t am_quiet_look_locked(struct am_sched *sched, struct am_quiet *quiet)
    AM_REQUIRES(sched->lock);
int am_sched_wait_quiet_locked(struct am_sched *sched, struct am_queue *queue,
                               struct am_quiet *quiet) AM_REQUIRES(sched->lock);
/* For can_come: whether that queue can move, in the walk that asks. */
bool am_queue_can_move_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);

/* In chaos mode a question such as "is it done?" is a chance to do something. */
void am_sched_nudge_locked(struct am_sched *sched) AM_REQUIRES(sched->lock);

/*
 * Drops every task queued so far that has not begun, and waits for one that runs; not for
 * a function of the program, which goes on by itself.
 */
void am_sched_drop_tasks_locked(struct am_sched *sched, struct am_queue *queue)
    AM_REQUIRES(sched->lock);
/*
 * Drops them and waits for what runs, functions too, until that time: 0 or ETIMEDOUT.
 */
int am_sched_drain_locked(struct am_sched *sched, struct am_queue *queue, uint64_t until)
    AM_REQUIRES(sched->lock);

/* The API call that the first of the tasks not yet done is for; there is one. */
const char *am_queue_first_locked(const struct am_queue *queue);

/* The queue's first failure is kept for the next call that synchronises. */
void am_queue_fail_locked(struct am_queue *queue, const struct am_task *task, aclError rc,
                          const char *why);
/* Of a queue whose tasks are being dropped. */
struct am_cause am_queue_cause(const struct am_queue *queue);
/*
 * The code of the failure, for a call that synchronised.  `seen` is n_reported at its begin:
 * the call also gets a failure that was reported to another call meanwhile.
 */
aclError am_queue_report_locked(struct am_queue *queue, uint64_t seen);

/*
 * Workers begin with the first task that is queued, so that a program without streams has
 * none.
 */
aclError am_sched_start_workers_locked(struct am_sched *sched) AM_REQUIRES(sched->lock);
/* Whether a thread has to watch the clock or memory; when it must look again. */
bool am_sched_is_watched_locked(const struct am_sched *sched) AM_REQUIRES(sched->lock);
uint64_t am_sched_next_look_locked(struct am_sched *sched) AM_REQUIRES(sched->lock);

static inline void am_waitlist_init(struct am_waitlist *list)
{
    TAILQ_INIT(&list->queues);
}

/*
 * A condition variable on the monotonic clock, and waiting for it until a time of
 * am_clock().
 */
void am_cond_init(pthread_cond_t *cond);
int am_cond_wait_locked(struct am_lock *lock, pthread_cond_t *cond, uint64_t until)
    AM_REQUIRES(*lock);

#endif
