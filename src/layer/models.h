/* What a captured model is: models.c captures, replays.c replays. */
#ifndef AM_LAYER_MODELS_H
#define AM_LAYER_MODELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>

#include "layer/finding.h"

enum task_type {
    TASK_ACCESS,
    TASK_RECORD,        /* of an event, for waits in the same model */
    TASK_WAIT,          /* for such a record */
    TASK_RECORD_SIGNAL, /* of a notify, or of an event that streams outside wait for */
    TASK_WAIT_SIGNAL,   /* for a notify, or for an event that is recorded outside */
    TASK_UNKNOWN,       /* may order work outside and in the model */
    TASK_VALUE_WRITE,
    TASK_VALUE_WAIT,
    TASK_FUNCTION,
    TASK_BRANCHES, /* of a conditional task */
};

struct range {
    uint64_t addr;
    uint64_t size;
    uint64_t serial; /* of the object that it showed */
    bool is_write;
    struct am_site freed; /* where that object was freed; api AM_API_COUNT: it is not */
};

struct task {
    enum task_type type;
    uint32_t lane;
    struct am_site site;
    uint32_t record; /* of a record or wait: its number */
    uint64_t handle; /* of an event or notify */
    bool is_notify;
    uint64_t value;                      /* that is written or waited for */
    uint32_t flag;                       /* of a wait for a value */
    struct am_captured_function *called; /* of a function */
    struct range *ranges;
    size_t n_ranges;
    uint64_t *branches; /* handles of their models */
    size_t n_branches;
};

/* A stream of a model. */
struct lane {
    uint64_t stream;        /* the program's stream that was captured */
    struct am_agent *agent; /* of the replays; NULL: none yet */
    bool is_waited; /* the host waited for the stream after the capture, before a run */
};

struct am_model {
    TAILQ_ENTRY(am_model) link;
    uint32_t refs; /* one until it ends, and one of each call that it captures */
    uint64_t handle;
    bool is_captured; /* its capture is under way */
    bool is_silent;   /* nothing is noted: it is built without a capture */
    bool is_branch;   /* a conditional task executes it */
    bool is_lost;     /* a call made it invalid */
    int16_t device;
    struct am_agent *origin; /* during the capture */
    struct lane *lanes;
    uint32_t n_lanes;
    struct task *tasks;
    size_t n_tasks;
    uint32_t n_records;
    uint64_t n_runs;
    struct am_site began;
    struct am_site ended;
    struct am_site replayed;    /* the last replay */
    struct am_record **records; /* of a replay */
};

/* The live model of a handle; NULL: none. */
struct am_model *am_model_of(const void *handle);
/* The branch with this handle, if its capture has ended; or NULL. */
struct am_model *am_branch_find(uint64_t handle);
/* Its work ran, or is overwritten: reading the result is no mistake any more. */
void am_lane_ran(struct lane *lane);

#endif
