/*
 * The queue of a stream: a FIFO of tasks with two positions, n_queued and n_done.
 *
 * Tasks begin in order.  A task is executed in one of three ways:
 *   inline: the call that submits a short task to an empty queue runs it.
 *   launched: the device executes it (AM_CAP_LANES).  The call that submits the task launches
 *   it, if every task before it is done or launched.  A device does not report the end of a
 *   task; a thread that waits, queries or launches polls the device and completes the tasks
 *   that are done.
 *   scheduled: a worker runs it (sched.h).
 * Inline and scheduled tasks take the same path, am_queue_advance(): the thread that advances
 * the queue owns it (AM_QUEUE_RUNNING), polls the first task, and runs it or parks the queue.
 *
 * A task that fails leaves its code in the queue, which keeps the first failure until a call
 * synchronises.  To drop tasks, drop_until is raised above their positions.
 *
 * Each queue has a lock, which protects everything in it.  No lock is held while a task is
 * polled, run, cancelled or freed.
 *
 * The memory of a queue stays valid until the read sections in which it was found have ended
 * (base/epoch.h), so that a thread may wake a queue that has just ended.
 */
#ifndef AM_CORE_QUEUE_H
#define AM_CORE_QUEUE_H

#include "acl/acl_rt.h"
#include "backend/backend.h"
#include "base/error.h"
#include "core/stream/sched.h"

struct am_ledger_stream;
struct am_model;
struct am_model_lane;
struct am_queue;
struct am_task;

/* Queues that wait for the same condition. */
struct am_waitlist {
    struct am_latch latch;
    LIST_HEAD(am_waiters, am_queue) queues;
};

enum am_poll {
    AM_POLL_READY, /* the task can run */
    AM_POLL_WAIT,  /* the queue is in a waitlist, and will be woken */
    AM_POLL_AGAIN, /* memory, a device or another process decides: poll again */
};

/* Why a task was dropped. */
struct am_cause {
    aclError rc;
    const char *function; /* the call whose work failed; NULL: stopped or aborted */
};

/* A task that can end the wait of another one. */
struct am_source {
    struct am_queue *queue;
    uint64_t position;
};
#define AM_SOURCES_MAX 16

/* A task of a model: the number of its capture (0: none), its lane, its index there. */
struct am_place {
    uint64_t capture;
    uint32_t lane;
    uint32_t position;
};

/* Captures under way. */
extern atomic_uint am_n_captures;

struct am_task_ops {
    /*
     * With the queue's lock, when the task is about to be appended and nothing else can fail;
     * NULL: nothing to do.
     */
    aclError (*enter)(struct am_task *task);
    /*
     * With the queue's lock: launches the task on the device and sets task->number, or leaves
     * it 0 if the device cannot execute it.  NULL: devices cannot.  `completed` follows
     * instead of poll and run when the device is done; may fail.
     */
    aclError (*launch)(struct am_task *task, const struct am_backend_ops *device,
                       struct am_lane *lane);
    aclError (*completed)(struct am_task *task, const struct am_backend_ops *device);
    aclError failure; /* the code of a launched task that failed; 0: the device's */
    /* The rest is called without a lock, by the thread that owns the queue. */
    enum am_poll (*poll)(struct am_task *task); /* NULL: always ready */
    aclError (*run)(struct am_task *task);      /* NULL: nothing to do */
    /*
     * With the queue's lock, before the task is cancelled: takes back what another thread has
     * not begun; false: a function of the program runs for the task.  NULL: true.
     */
    bool (*withdraw)(struct am_task *task);
    /* The task will not run; `free` follows. */
    void (*cancel)(struct am_task *task, const struct am_cause *cause);
    /* Exactly once, whether the task ran or not. */
    void (*free)(struct am_task *task);
    /*
     * With the queue's lock, while the task waits: the tasks that can end the wait, at most
     * AM_SOURCES_MAX; *ret_is_only: no task that is submitted later can.  NULL: only the
     * program ends the wait, or, with completes_by_itself, it ends by itself.
     */
    unsigned (*sources)(struct am_task *task, struct am_source *list, bool *ret_is_only);
    bool completes_by_itself;
    /*
     * The awaited condition, as in "event 7 is recorded"; describe is called with the queue's
     * lock while the task waits, and may be NULL.  Both NULL: a function of the program returns.
     */
    const char *awaits;
    void (*describe)(const struct am_task *task, char *text, size_t size);
    aclError
        timeout; /* the code when its deadline passes; 0: poll() says it is ready then */

    /* Of a captured task: */
    aclmdlRITaskType type;
    /* With the queue's lock, when it was recorded; NULL: nothing to do. */
    void (*recorded)(struct am_task *task, const struct am_place *place);
    /* Describes the event of the task to the program; NULL: there is none. */
    void (*params)(const struct am_task *task, aclmdlRITaskParams *params);
    /* Before each time that it runs, instead of enter; NULL: nothing to do. */
    void (*rearm)(struct am_task *task);
    /*
     * NULL, or makes the task that runs instead in one execution; its `enter` is called when the
     * execution is submitted.
     */
    aclError (*announce)(struct am_task *task, struct am_task **ret_task);
    /*
     * NULL, or the task can be a step of a launch (am_step): finds the memory, and keeps it in
     * `step_size` bytes at `memory` until step_close; false: it cannot now.  It may use what
     * the step before it keeps at `previous` (or NULL), which is closed later.
     */
    bool (*step_open)(struct am_task *task, void *memory, const void *previous,
                      struct am_step *ret_step);
    void (*step_close)(void *memory);
    size_t step_size; /* at most AM_STEP_SIZE */
    /*
     * Executes a step, instead of run.  `memory` has what the step before it used, unless
     * is_first; it is kept for the next one, until step_close.
     */
    aclError (*step_run)(struct am_task *task, void *memory, bool is_first);
};

#define AM_STEP_SIZE 320

struct am_task {
    TAILQ_ENTRY(am_task) next;
    const struct am_task_ops *ops;
    const char *function;   /* the API call that submitted it */
    struct am_queue *queue; /* set by am_queue_submit() */
    uint64_t position;      /* in the queue, from 0 */
    uint64_t number;        /* of its launch; 0: not launched */
    /* AM_FOREVER: none; a duration until the task is first in its queue, then a time */
    _Atomic uint64_t deadline; /* a lane sets it while a stall check reads it */
    uint64_t queued;           /* when, if am_task_ran is set; 0 otherwise */
    _Atomic uint64_t
        runner; /* the thread that runs a function of the program for it, or 0 */
    /* the task that it executes now, if it executes tasks of a model */
    _Atomic(struct am_task *) inner;
    bool is_captured;        /* made for a model; holds no memory between its runs */
    bool is_unfinished;      /* run() has to be called again when poll() says so */
    bool is_short;           /* may run inline: takes less time than waking a worker */
    bool is_inline;          /* runs in the call that submitted it */
    bool is_first;           /* it has been polled */
    _Atomic bool is_working; /* its poll executes other tasks, and waits for nothing */
    bool is_warned;          /* a warning said that no queued work can end its wait */
};

TAILQ_HEAD(am_tasks, am_task);

/* The task itself, or the task of a model that it executes now; models may be nested. */
static inline struct am_task *am_task_current(struct am_task *task)
{
    struct am_task *inner;

    while ((inner = atomic_load_explicit(&task->inner, memory_order_acquire)) != NULL)
        task = inner;
    return task;
}

/* A task of the call that this thread is in, without a deadline. */
static inline void am_task_init(struct am_task *task, const struct am_task_ops *ops)
{
    *task = (struct am_task){
        .ops = ops, .function = am_error_function, .deadline = AM_FOREVER};
}
/*
 * The same in new memory of `size` bytes, which begins with a task and is not zeroed.  NULL:
 * there is no memory, which has been reported; the caller returns ACL_ERROR_BAD_ALLOC.
 */
void *am_task_make(const struct am_task_ops *ops, size_t size);

/* What the first task of a queue waits for; with the queue's lock. */
void am_task_describe(const struct am_task *task, char *text, size_t size);

/* NULL, or is called without a lock after each task that was not launched. */
typedef void (*am_task_hook)(const struct am_queue *queue, const struct am_task *task,
                             uint64_t began, uint64_t ended);
extern _Atomic(am_task_hook) am_task_ran;

enum am_queue_state {
    AM_QUEUE_IDLE,    /* every task that is left is launched */
    AM_QUEUE_READY,   /* in a ready list, or claimed from it */
    AM_QUEUE_RUNNING, /* a thread owns the queue */
    AM_QUEUE_PARKED,  /* the first task waits */
};

struct am_queue {
    struct am_runnable runnable; /* first */
    struct am_sched *sched;
    int32_t id; /* of the stream, for messages */
    struct am_lock lock;
    struct am_tasks tasks; /* lock, as all below: those not done; launched ones first */
    enum am_queue_state state;
    bool is_polling;     /* RUNNING: the first task is polled, and has not begun */
    bool is_woken;       /* RUNNING: the condition may have changed since the poll */
    const char *running; /* RUNNING: the call whose task runs */
    uint64_t n_queued;   /* tasks ever submitted */
    uint64_t n_done;     /* of those, done, failed or dropped */
    uint64_t drop_until; /* tasks at lower positions are dropped */
    bool is_closed;      /* refuses tasks */
    bool stop_on_failure;
    bool is_stopped; /* tasks are dropped until a call synchronises */

    /* NULL, or the stream is captured: tasks go to this lane; also read without the lock */
    _Atomic(struct am_model_lane *) capture;
    void *updates; /* the handle of the task group whose update began last, or NULL */

    aclError error;      /* of the first task that failed since the last report */
    char why[512];       /* its message */
    const char *failed;  /* the call that submitted it */
    bool is_reported;    /* a call that synchronised has returned it */
    uint64_t n_reported; /* failures that were */

    const struct am_backend_ops *device; /* NULL: nothing is launched */
    int32_t driver;                      /* the device, by the driver's id */
    struct am_lane *lane;                /* NULL until the first launch */
    bool is_refused;                     /* the device could not open a lane */
    bool is_collecting;                  /* a thread completes launched tasks */
    unsigned n_launched;                 /* and not done */
    unsigned n_unpolled;                 /* launches since the device was polled last */

    struct am_waitlist *waiting_on;  /* the owner's; NULL: none */
    LIST_ENTRY(am_queue) waiter;     /* the waitlist's latch */
    bool is_listed;                  /* the waitlist's latch */
    uint64_t walk;                   /* wait.c */
    struct am_ledger_stream *figure; /* where its waits are shown; NULL: nowhere */
    pthread_cond_t changed; /* n_done grew, the queue was parked or woken, a call ended */
};

/* device: NULL if the device executes no tasks by itself. */
/*
 * For the thread that owns the queue while no task is launched: whether the queue has a lane,
 * which this call opens.
 */
bool am_queue_has_lane(struct am_queue *queue);
/* Whether a task that was submitted now would be launched. */
bool am_queue_can_launch(struct am_queue *queue);
void am_queue_init(struct am_queue *queue, struct am_sched *sched, unsigned priority,
                   const struct am_backend_ops *device, int32_t driver);
/* No task is left. */
void am_queue_destroy(struct am_queue *queue);

/*
 * Appends a task, which is the queue's from now on; on failure it is still the caller's.
 * *ret_target (or NULL): n_done of the queue when the task is done.
 */
aclError am_queue_submit(struct am_queue *queue, struct am_task *task,
                         uint64_t *ret_target);

/*
 * Polls the device and completes the tasks that are done; may_block: all launched so far.
 * Whether the device has more.
 */
bool am_queue_poll(struct am_queue *queue, bool may_block);
/* Whether a task that was submitted now would have no task before it. */
bool am_queue_is_idle(struct am_queue *queue);
/* Whether the stream updates a task group, and takes no tasks. */
bool am_queue_is_updating_locked(const struct am_queue *queue) AM_REQUIRES(queue->lock);

/*
 * Drops every task submitted so far that has not begun and waits for one that runs: 0, or
 * ETIMEDOUT at a time of the scheduler's clock.  A task for which a function of the program
 * runs is dropped, and the function goes on; with waits_for_functions it is waited for.
 */
int am_queue_drop(struct am_queue *queue, bool waits_for_functions, uint64_t until);

/* The API call of the first task that is not done; there is one. */
const char *am_queue_first_locked(const struct am_queue *queue) AM_REQUIRES(queue->lock);
/*
 * The code of the failure, for a call that synchronised.  `seen` is n_reported when the call
 * began: the call also gets a failure that was reported to another call in between.
 */
aclError am_queue_report_locked(struct am_queue *queue, uint64_t seen)
    AM_REQUIRES(queue->lock);

/* Polls a parked queue again. */
void am_queue_wake(struct am_queue *queue);

/*
 * Of a captured stream, whose tasks a lane of a model takes.  Captures are built on queues, so
 * queue.c and stream.c know these functions of capture.c alone.  With the queue's lock, except
 * the last one.
 */

/* On failure the task is still the caller's. */
aclError am_lane_record(struct am_model_lane *lane, struct am_task *task);
/* The call is not allowed on the stream: invalidates the capture; returns the code. */
aclError am_lane_refuse(struct am_model_lane *lane, aclError code, const char *remedy);
/* The stream ends, and is not captured any more: NULL, or the model to be abandoned. */
struct am_model *am_lane_detach(struct am_model_lane *lane);
/* Ends a capture without a result, destroys the model, and drops the caller's reference. */
void am_capture_abandon(struct am_model *model);

void am_waitlist_init(struct am_waitlist *list);
/* For poll: the task's queue is in the list until it is woken or the task ends. */
void am_waitlist_join(struct am_waitlist *list, struct am_task *task);
/* Wakes all queues.  The caller holds no lock of a queue or of an event. */
void am_waitlist_wake(struct am_waitlist *list);

#endif
