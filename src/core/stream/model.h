/*
 * Models: the captured work of streams, to be executed any number of times.
 *
 * A model has a lane for each stream that was captured.  A lane is an array of nodes, and a node
 * is a task (queue.h) that was recorded and not queued.  A task of a model refers to memory by
 * its address and finds the memory each time that it runs.  The record of an event and each wait
 * for it make an edge: the wait holds the place of the record.
 *
 * While a stream is captured, the lock of its queue protects the nodes of its lane, and the lock
 * of models protects the list of lanes.  Once the capture has ended, lanes and
 * nodes are constant.
 *
 * An execution is one task of a stream.  Its queue executes the nodes of lane 0; each other lane
 * has its own queue.  Executions of one model are serialised, so the state of an execution
 * is stored in the lanes, and an execution allocates nothing.  A device that can execute all
 * nodes at once does so (model_launch.c).
 */
#ifndef AM_CORE_MODEL_H
#define AM_CORE_MODEL_H

#include "acl/acl_rt.h"
#include "base/handle.h"
#include "core/stream/queue.h"
#include "core/stream/stream.h"

struct am_node {
    struct am_task *task; /* owned by the node */
    uint32_t number;      /* in the model, by the order of the calls */
    bool is_awaited;      /* a record: a wait in another lane is for it */
    bool is_wait;         /* a wait for the record at `from` */
    atomic_bool is_disabled;
    bool will_be_disabled; /* model->lock; from the next aclmdlRIUpdate on */
    uint32_t announced;    /* from 1: which task of the execution runs instead; 0: none */
    struct am_place from;
};

struct am_model_lane {
    struct am_named named; /* its handle is for aclmdlRIGetStreams */
    struct am_model *model;
    uint32_t index;
    int32_t stream_id;
    struct am_stream *stream; /* a reference while it is captured; NULL: it has ended */
    bool is_bound;            /* by aclmdlRIBindStream */
    bool is_ended;            /* aclmdlRIEndTask was called */
    struct am_node *nodes;
    uint32_t n;
    uint32_t n_max;
    /* The execution: */
    struct am_task task;        /* in `queue`; lane 0: of no use */
    struct am_queue queue;      /* lane 0: of no use */
    struct am_task *runs_in;    /* `task`, or the task of the execution */
    _Atomic uint32_t position;  /* the next node */
    bool is_armed;              /* the next node has been polled */
    uint64_t arrived;           /* when the next node was polled first, for am_node_ran */
    uint32_t n_settled;         /* the device executes no node before this one */
    _Atomic uint32_t n_done;    /* nodes before the last record that is awaited */
    struct am_waitlist waiting; /* for n_done */
};

/* An object that lives as long as its model. */
struct am_model_part {
    LIST_ENTRY(am_model_part) all;                 /* model->lock */
    void (*start)(struct am_model_part *part);     /* before each execution; or NULL */
    void (*destroyed)(struct am_model_part *part); /* the model was; or NULL */
    void (*free)(struct am_model_part *part);
};

struct am_execution {
    struct am_task task;
    struct am_model *model; /* holds a reference */
    struct am_queue *queue; /* of the stream */
    atomic_bool is_owner;   /* executes the model now */
    bool is_entered;
    /* model_launch.c: */
    bool is_launched;
    bool has_order;        /* the steps know their order */
    uint32_t n_open;       /* steps whose memory it keeps */
    struct am_step *steps; /* NULL: none yet; model->n_steps */
    char *memory; /* of the steps, step_ops->step_size each; allocated with them */
    LIST_ENTRY(am_execution) link; /* model->lock; in `pending` or `spares` */
    struct am_task *announced[]; /* that run instead of captured ones; NULL: it has run */
};

struct am_model {
    struct am_named named;
    uint32_t id;
    int32_t device;
    struct am_stream_hold hold;
    LIST_ENTRY(am_model) all; /* models.lock */
    bool is_listed;           /* models.lock; not destroyed */

    /* The capture: */
    uint64_t capture; /* its number */
    _Atomic(aclmdlRICaptureStatus) status;
    aclmdlRICaptureMode mode;
    uint64_t thread; /* that began it, and its id for messages */
    int32_t thread_id;
    int32_t origin_id;                /* the stream where it began */
    _Atomic(const char *) refused_by; /* INVALIDATED: the call, and its code */
    _Atomic aclError refused_with;
    atomic_uint n_nodes;

    struct am_model_lane **lanes;
    uint32_t n_lanes;
    uint32_t n_announced;               /* tasks that each execution makes anew */
    bool is_short;                      /* one lane of short tasks */
    uint32_t n_steps;                   /* that a device executes at once; 0: it cannot */
    const struct am_task_ops *step_ops; /* of their tasks */
    _Atomic(struct am_model_lane *)
        group;               /* the capture: the lane with an open task group */
    atomic_bool is_complete; /* its capture has ended; nothing changes any more */
    bool is_built;           /* of aclmdlRIBuildBegin (core/model/build.c) */
    uint32_t parent; /* the id of the model whose condition executes this one, or 0 */
    LIST_HEAD(, am_model_part) parts; /* lock */
    atomic_bool has_starts;           /* a part with this function was added */
    bool is_reported; /* lock; the parts know that the model was destroyed */

    /* Executions: */
    uint64_t queued; /* the one that runs: its task->queued */
    struct am_lock lock;
    struct am_execution *owner;        /* lock, as the next ones */
    unsigned n_launched;               /* executions; then there is no owner, */
    struct am_queue *launched_on;      /* and all of them are here */
    LIST_HEAD(, am_execution) pending; /* are queued, or about to be */
    LIST_HEAD(, am_execution) spares;
    pthread_cond_t changed; /* pending */
    aclError rc;            /* of the first task that failed in this execution */
    char failure[512];
    atomic_bool is_failed;      /* the remaining tasks are skipped */
    atomic_uint n_active;       /* lanes but lane 0 that have not ended */
    struct am_waitlist ended;   /* for n_active */
    struct am_waitlist waiting; /* executions that wait for the owner to end */
};

/* The model that the stream of the queue is captured into, or NULL; also without the lock. */
static inline struct am_model *am_queue_model(const struct am_queue *queue)
{
    const struct am_model_lane *lane =
        atomic_load_explicit(&queue->capture, memory_order_acquire);

    return lane != NULL ? lane->model : NULL;
}

/* NULL, or is called without a lock after each node that a thread of the library executed. */
typedef void (*am_node_hook)(const struct am_model_lane *lane, const struct am_node *node,
                             uint64_t began, uint64_t ended);
extern _Atomic(am_node_hook) am_node_ran;

/* All models, and the captures under way. */
extern struct am_models {
    struct am_lock lock;
    LIST_HEAD(, am_model) list; /* lock, as the next ones */
    uint32_t next_id;
    uint64_t next_capture;
} am_models;

/* An empty model of this device: a reference for the list, and one for the caller. */
aclError am_model_make(int32_t device, struct am_model **ret_model);
/* One more lane, for the work of the stream; fails with this code at the device's limit. */
aclError am_model_add_lane_locked(struct am_model *model, struct am_stream *stream,
                                  aclError code, struct am_model_lane **ret_lane)
    AM_REQUIRES(am_models.lock);
/* Takes the lane that was added last out of the model again. */
void am_model_drop_lane_locked(struct am_model *model) AM_REQUIRES(am_models.lock);
/* Appends a task, which is the node's from now on. */
aclError am_lane_append_locked(struct am_model_lane *lane, struct am_task *task);
/* The model is complete: prepares executions. */
void am_model_finish(struct am_model *model);
void am_model_add_part(struct am_model *model, struct am_model_part *part);

aclError am_model_get(void *handle, struct am_model **ret_model);
/* The call that completes the model. */
const char *am_model_end_name(const struct am_model *model);
void am_model_put(struct am_model *model);

/* ---- replay.c ---- */

extern const struct am_task_ops am_lane_ops;

/*
 * Executes a model as a part of another one: `task` is a task of a lane of that one.  After the
 * start, am_model_advance() is called until the result is ready; then model->rc has the result.
 */
void am_model_start(struct am_model *model, struct am_task *task);
enum am_poll am_model_advance(struct am_model *model);
/* Drops the tasks that have not begun. */
void am_model_abort(struct am_model *model);
unsigned am_model_sources(struct am_model *model, struct am_source *list,
                          bool *ret_is_only);
/* The first failure of an execution; the other lanes stop at their next node. */
void am_model_fail(struct am_model *model, const struct am_model_lane *lane,
                   const struct am_node *node, aclError rc, char *text);
aclError am_model_execute(struct am_model *model, struct am_stream *stream);
/* Waits for the executions that are queued. */
aclError am_model_wait(struct am_model *model);

/* ---- model_launch.c ---- */

/* Of a complete model: whether a device can execute it at once. */
void am_model_find_steps(struct am_model *model);
/* Finds the memory of all steps, if the execution could be launched on its queue now. */
void am_execution_open(struct am_execution *execution);
void am_execution_close(struct am_execution *execution);
/* For am_task_ops; a failure is reported when a worker executes the task. */
aclError am_execution_launch(struct am_task *task, const struct am_backend_ops *device,
                             struct am_lane *lane);
/* The execution is over, launched or not. */
void am_execution_end(struct am_execution *execution);
/* Completes the executions that a device has done; whether it has more. */
bool am_model_poll(struct am_model *model);

#endif
