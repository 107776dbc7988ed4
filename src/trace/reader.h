/*
 * Reading traces: of processes that ended, were killed, or still run.
 *
 * Nothing in the file is believed: lengths are checked before bytes are used, and what
 * makes no sense is counted and left out.  The file is read, not mapped, since another
 * process may cut it short.  A reader holds one chunk of each thread in memory.
 */
#ifndef AM_TRACE_READER_H
#define AM_TRACE_READER_H

#include <bsd/sys/tree.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_ARGS_MAX 16
#define TRACE_WHY_SIZE 512
/* Stack numbers from here on are Python stacks. */
#define TRACE_PYTHON_STACKS (1u << 22)

struct trace;

/* A field of a struct among arguments. */
struct trace_field {
    char *name;
    char letter; /* c text, b bytes, the others as in api.def */
    uint32_t offset;
    uint32_t size;
};

struct trace_struct {
    char *name;
    uint32_t size;
    uint32_t n_fields;
    struct trace_field *field;
};

struct trace_param {
    char *name;
    char letter;    /* as in api.def; upper case: a result */
    char element;   /* of an array; 0: none */
    bool is_output; /* the array is a result */
    uint32_t structure;
};

struct trace_function {
    char *name;
    char result; /* letter; r is an error code */
    uint32_t n;
    struct trace_param param[TRACE_ARGS_MAX];
};

struct trace_module {
    char *path;
    char *build_id;
    uint64_t base, start, end;
};

struct trace_stack {
    RB_ENTRY(trace_stack) node; /* of its process, by number */
    uint32_t number;
    uint32_t era; /* how many modules there were */
    uint32_t n;
    uint64_t *frame; /* return addresses, innermost first */
    char *python;    /* JSON of a Python stack; NULL for others */
};

struct trace_process {
    uint32_t number;
    int pid;
    int parent;
    uint64_t began;                   /* nanoseconds, as all times */
    uint64_t ended;                   /* 0: it was killed, or runs */
    char *about;                      /* JSON; NULL where the process said nothing */
    struct trace_function **function; /* by number; events point to them */
    uint32_t n_functions;
    struct trace_struct *structure;
    uint32_t n_structs;
    struct trace_module *module;
    uint32_t n_modules;
    RB_HEAD(trace_stacks, trace_stack) stacks;
};

/* An argument or a result. */
struct trace_value {
    bool is_there;   /* it was recorded: results of failed calls are not */
    bool is_null;    /* a NULL where a text, a struct or a place for a result could be */
    uint64_t number; /* signed ones sign-extended */
    const uint8_t *bytes; /* of a text, of structs */
    size_t size;
    const uint64_t *item; /* of an array of numbers */
    size_t n_items;
};

enum trace_kind {
    TRACE_CALL,  /* complete; in order of its begin */
    TRACE_BEGIN, /* a call that made others, or did not return: arguments */
    TRACE_END,   /* its end: with the arguments of the begin; in order of its end */
    TRACE_TASK,  /* work on a stream was done */
    TRACE_NODE,  /* a task of a model was done, in a replay */
    TRACE_HELD,  /* the bytes of a device that a process holds */
};

struct trace_event {
    enum trace_kind kind;
    bool is_unfinished; /* a BEGIN without END: the process died, or is in the call */
    const struct trace_process *process;
    uint32_t thread;
    uint64_t time; /* by which events are ordered */

    /* calls */
    const struct trace_function *function;
    uint64_t begin, end;
    uint32_t stack; /* 0: none */
    int64_t result;
    const uint8_t *text; /* where the result is a text */
    size_t text_size;
    struct trace_value value[TRACE_ARGS_MAX];

    /* tasks, TRACE_HELD */
    uint64_t stream; /* or the device; TRACE_NODE: the model's handle */
    uint32_t task;   /* number of the function that queued it */
    uint32_t number; /* TRACE_NODE: in the model, in the order of the calls */
    uint64_t queued;
    uint64_t size; /* bytes */
};

struct trace_about {
    uint32_t version;
    uint64_t began;      /* monotonic */
    uint64_t began_real; /* since 1970 */
    uint64_t full_at;    /* when the disk was full; 0: never */
    uint64_t n_lost;     /* calls that are not in the file */
    uint64_t n_damaged;  /* chunks and records that made no sense */
    uint64_t n_cut;   /* slots that were claimed and are not in the file, or not whole */
    uint64_t n_slots; /* that were claimed */
    uint64_t size;    /* of the file */
    /*
     * A file comes from strangers, so the reader bounds its own memory and work by the bytes
     * of the file.  Definitions, chunks and frames beyond a bound are counted as damaged.
     */
    uint64_t n_bytes;    /* of slots in use */
    uint64_t n_decoded;  /* bytes of all chunks, decompressed */
    uint64_t n_loaded;   /* bytes of chunks whose events are read so far */
    uint64_t memory;     /* bytes allocated for definitions, chunks and open calls */
    uint64_t memory_max; /* TRACE_MEMORY_BASE + TRACE_MEMORY_RATIO * n_bytes */
};

#define TRACE_MEMORY_BASE ((uint64_t)32 << 20)
#define TRACE_MEMORY_RATIO 64u
#define TRACE_DECODED_BASE ((uint64_t)4 << 20)
#define TRACE_DECODED_RATIO 128u

/* NULL, and the reason in TRACE_WHY_SIZE bytes. */
struct trace *trace_open(const char *path, char *why);
void trace_close(struct trace *trace);

/*
 * Begins a trace that processes record into; it is one trace as long as the descriptor is
 * open, which is returned, or -1 and the reason.
 */
int trace_create(const char *path, bool may_replace, char *why);

/* Whether the file at path begins as a trace does. */
bool trace_is(const char *path);

const struct trace_about *trace_about(const struct trace *trace);
/* Numbers from 0; some may have no process, which is NULL. */
size_t trace_n_processes(const struct trace *trace);
const struct trace_process *trace_process_at(const struct trace *trace, size_t i);

/*
 * The next event of all threads, in the order of time; false at the end.  What it points
 * to is valid until the next call.
 */
bool trace_next(struct trace *trace, struct trace_event *ret_event);

/* From the beginning again. */
bool trace_rewind(struct trace *trace, char *why);

/* Finds events that were recorded since: trace_next() continues.  For a file that grows. */
bool trace_refresh(struct trace *trace, char *why);

/* The value of an argument by its name; NULL if no argument has that name. */
const struct trace_value *trace_arg(const struct trace_event *event, const char *name);
/* The number of an argument by its name; 0 where it is not there. */
uint64_t trace_number(const struct trace_event *event, const char *name);

/* "ACL_ERROR_RT_PARAM_INVALID"; NULL: not known. */
const char *trace_code(const struct trace *trace, int64_t code);

/* The stack of an event; NULL if the trace has none of that number. */
const struct trace_stack *trace_stack_find(const struct trace_process *process,
                                           uint32_t number);

/* The module that has an address in an era; NULL: none. */
const struct trace_module *trace_module_find(const struct trace_process *process,
                                             uint64_t addr, uint32_t era);

#endif
