/*
 * The layer trace: every call into a file (trace_file.h, docs/TRACE.md).
 *
 *   trace.c          the wrappers, made from api.def, and the layer itself
 *   trace_define.c   what a reader must know: functions, structs, codes, the process
 *   trace_record.c   a thread's records
 *   trace_file.c     slots of the file
 *
 * A call costs two reads of the clock, a copy of its arguments as varints, and with stacks
 * the unwinder.  A thread writes into its own slot, so nothing is locked on the way.
 */
#ifndef AM_LAYER_TRACE_H
#define AM_LAYER_TRACE_H

#include <stdbool.h>
#include <stdint.h>

#include "api/api.h"
#include "layer/trace_structs.h"

#define AM_TRACE_ARGS_MAX 10

/* The structs among arguments, numbered; 0: not a struct. */
enum am_trace_struct {
    AM_TRACE_STRUCT_NONE,
#define NUMBER(type_, ...) AM_TRACE_STRUCT_##type_,
    AM_TRACE_STRUCTS(NUMBER, FIELD)
#undef NUMBER
        AM_TRACE_STRUCT_COUNT,
};

enum am_trace_direction { AM_TRACE_DIRECTION_NONE, AM_TRACE_IN, AM_TRACE_OUT };

/* How one argument is recorded. */
struct am_trace_param {
    char letter;       /* as in api.def */
    char element;      /* of an array; 0: no array */
    uint8_t direction; /* of the array */
    int8_t count;      /* the argument that counts it; -1: there is one */
    uint16_t size;     /* of the struct */
    uint8_t structure; /* enum am_trace_struct */
};

struct am_trace_function {
    const char *name;
    const char *signature;    /* of api.def */
    const uint8_t *structure; /* of each argument */
    char result;              /* letter; r is aclError */
    uint8_t n;
    bool has_arrays;
    struct am_trace_param param[AM_TRACE_ARGS_MAX];
};

/* A call between its begin and its end. */
struct am_trace_call {
    enum am_api_id function;
    const void *const *at; /* where each argument lies */
    uint64_t began;
    bool is_recorded;
};

/* trace.c: the names and signatures, from api.def; the rest is filled in by define. */
extern struct am_trace_function am_trace_functions[AM_API_COUNT];

/* trace_define.c: fills in how arguments are recorded; once. */
void am_trace_describe(void);
/* Writes what a reader must know of this process; false when there is no room. */
bool am_trace_define(const struct am_api *below);
/* The process ends by itself. */
void am_trace_define_end(void);

/* trace_record.c */
void am_trace_begin(struct am_trace_call *call, enum am_api_id function,
                    const void *const *at);
void am_trace_end(struct am_trace_call *call, uint64_t result);
/* Records of the core: a task that a stream ran, the bytes of a device. */
struct am_watch_task;
void am_trace_task(const struct am_watch_task *task);
void am_trace_held(int device, uint64_t held);
/* Whether stacks are recorded. */
void am_trace_stacks_set(bool has_stacks);

#endif
