/*
 * What the calls of a trace did to memory: blocks with their lives, copies, figures by
 * function and by stack.  Also what traces of other programs are read into.
 *
 * A free counts from its begin and an allocation from its end, since another thread may get
 * the same address in between.
 */
#ifndef ACLMEM_HISTORY_H
#define ACLMEM_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/reader.h"

/* HISTORY_KIND(id, name, whether it is memory of a device or of the host) */
#define HISTORY_KINDS(K) \
    K(BLOCK, "block", true) \
    K(POOL, "pool", true) \
    K(PHYS, "physical", true) \
    K(HOST, "pinned", true) \
    K(MANAGED, "managed", true) \
    K(IMPORT, "imported", false) \
    K(REGISTERED, "registered", false) \
    K(RESERVATION, "reserved", false) \
    K(MAPPING, "mapped", false) \
    K(STREAM, "stream", false) \
    K(EVENT, "event", false)

enum block_kind {
#define K(id_, name_, is_memory_) KIND_##id_,
    HISTORY_KINDS(K)
#undef K
        KIND_COUNT,
};

extern const char *const kind_names[KIND_COUNT];
bool kind_is_memory(enum block_kind kind);

#define DEVICE_HOST (-1)
#define NO_BLOCK UINT32_MAX
#define NO_MODEL UINT32_MAX
#define NO_NODE UINT32_MAX
#define NO_COPY UINT32_MAX
#define NOT_A_COPY UINT8_MAX

struct block {
    uint64_t addr; /* or the handle */
    uint64_t size;
    uint64_t made;
    uint64_t freed;    /* 0: never */
    uint64_t released; /* physical memory: its handle was freed; 0: never */
    uint64_t exported; /* 0: never */
    uint64_t offset;   /* mapping: in its physical memory */
    uint32_t of;       /* mapping: which physical memory; an import: what was exported */
    uint32_t where;    /* history->where: the call that made it */
    uint32_t gone;     /* history->where: the call that freed it; 0: none, or not known */
    uint32_t thread;   /* that made it */
    uint32_t process;  /* history->process */
    int32_t device;
    uint32_t stream; /* in the order in which they come; 0 is the default */
    uint32_t attr;   /* memory attribute or policy */
    uint32_t maps;   /* physical memory: mappings that hold it now */
    uint32_t refs;   /* physical memory: handles */
    uint8_t kind;
};

/* A place in the program: the stack of a process. */
struct where {
    const struct trace_process *process;
    uint32_t stack;
    uint32_t thread;
    const char *name; /* of the function that it calls; NULL: not known */
    json_t
        *frames; /* {"function", "file", "line"}, innermost first; NULL: not named yet */
    uint64_t n_calls;
    uint64_t ns;        /* in calls */
    uint64_t allocated; /* bytes */
    uint64_t at_peak;   /* bytes */
    uint64_t leaked;    /* bytes that are never freed */
};

/* A stream by its number; 0 is the default one, and copies that are waited for. */
struct stream {
    uint32_t process;
    uint64_t handle;
};

/* A stream waits for an event that another one, or the same, records. */
struct mark {
    uint64_t recorded,
        waited;        /* by the work where the trace has it, by the calls otherwise */
    uint32_t from, to; /* streams */
};

/* A copy, or a replay of a model; in the order of the calls. */
struct copy {
    uint64_t begin, end; /* of the work where the trace has it, of the call otherwise */
    uint64_t called;     /* when the call ended */
    uint64_t queued; /* replay: when it was queued, which its parts have; 0: not known */
    uint64_t bytes;
    uint32_t model; /* NO_MODEL: a copy */
    uint32_t stream;
    uint32_t process;
    uint32_t where;
    const char *name; /* of the function */
    uint8_t kind;     /* aclrtMemcpyKind */
};

/* A captured model. */
struct model {
    uint64_t handle;
    uint64_t began, captured; /* the capture; 0: it did not end */
    uint64_t destroyed;       /* 0: never */
    uint64_t n_copies, bytes; /* of one replay */
    uint64_t n_nodes;
    uint32_t where;
    uint32_t process;
    uint32_t parent;   /* a branch: the conditional task in another model; or NO_NODE */
    uint32_t branch;   /* its number there, from 0 */
    uint8_t condition; /* aclmdlRICondTaskType of that task */
    bool has_failed;
};

/* A task of a model.  The tasks of a stream are in the order of their calls. */
struct node {
    uint64_t time; /* of the call */
    uint64_t bytes;
    const char *name; /* of the function */
    uint32_t model;
    uint32_t stream;
    uint32_t where;
    uint32_t from; /* wait: the record that it waits for, or NO_NODE */
    uint8_t kind;  /* aclrtMemcpyKind, or NOT_A_COPY */
};

/* A task of a model that ran in a replay. */
struct run {
    uint64_t begin, end;
    uint64_t queued; /* when the replay was */
    uint32_t node;
    uint32_t copy; /* the replay, or NO_COPY */
};

/* Work of a stream that is neither. */
struct task {
    uint64_t begin, end;
    uint32_t stream;
    const char *name; /* of the function that queued it */
};

/* Bytes of a device that all processes together hold, from a time on. */
struct held {
    uint64_t time;
    uint64_t bytes;
    int32_t device;
};

struct function_stats {
    const char *name;
    uint64_t n_calls, n_errors, ns, longest;
};

struct history {
    struct block *block; /* by when they were made */
    size_t n_blocks, max_blocks;
    struct where *where; /* the first is "not known" */
    size_t n_wheres, max_wheres;
    struct copy *copy;
    size_t n_copies, max_copies;
    struct stream *stream;
    size_t n_streams, max_streams;
    struct held *held; /* in the order of time */
    size_t n_held, max_held;
    size_t n_measured; /* copies whose times are those of the work itself */
    struct task *task;
    size_t n_tasks, max_tasks;
    struct model *model;
    size_t n_models, max_models;
    struct node *node;
    size_t n_nodes, max_nodes;
    struct run *run;
    size_t n_runs, max_runs;
    struct mark *mark;
    size_t n_marks, max_marks;
    struct function_stats *function;
    size_t n_functions, max_functions;
    const struct trace_process **process;
    size_t n_processes;
    uint64_t began;        /* times count from it: the beginning of the trace */
    uint64_t first, ended; /* times of the first and last event */
    uint64_t n_calls, n_errors;
    uint64_t peak, peak_at; /* bytes of memory, over all devices and the host */
    uint64_t live;          /* at the end */
    uint64_t allocated;     /* in all */
    uint64_t n_allocations;
    uint64_t n_unknown_frees;
    bool is_counted; /* times are numbers of events: the trace has no clock */
};

/* Reads a trace to its end.  The trace stays open as long as the history is used. */
bool history_read(struct history *history, struct trace *trace);

/* Puts the peak and what was live then into wheres; after blocks were added. */
void history_sum(struct history *history);
struct block *history_add(struct history *history);
/* The place with these frames, for traces of other programs; takes the reference. */
uint32_t history_where_add(struct history *history, json_t *frames);
const json_t *history_frames(struct history *history, uint32_t where);
void history_free(struct history *history);

/* import.c: traces of other programs.  NULL, or the reason. */
const char *history_import(struct history *history, const char *path);
/*
 * Reads a trace of any kind.  *ret_trace is NULL for one of another program; otherwise it
 * stays open as long as the history is used.  False after printing the reason.
 */
bool history_load(const char *command, const char *path, struct history *history,
                  struct trace **ret_trace);
/* Whether it is what aclmem_pool_snapshot() gives. */
bool is_pool_snapshot(const json_t *json);

#endif
