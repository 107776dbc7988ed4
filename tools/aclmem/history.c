/* See history.h. */
#include "history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "captures.h"
#include "map.h"
#include "output.h"
#include "show.h"

const char *const kind_names[KIND_COUNT] = {
#define K(id_, name_, is_memory_) [KIND_##id_] = name_,
    HISTORY_KINDS(K)
#undef K
};

bool kind_is_memory(enum block_kind kind)
{
    static const bool is_memory[KIND_COUNT] = {
#define K(id_, name_, is_memory_) [KIND_##id_] = is_memory_,
        HISTORY_KINDS(K)
#undef K
    };

    return is_memory[kind];
}

struct block *history_add(struct history *history)
{
    struct block *block;

    history->block = array_grow(history->block, history->n_blocks, &history->max_blocks,
                                sizeof *history->block);
    block = &history->block[history->n_blocks++];
    memset(block, 0, sizeof *block);
    block->of = NO_BLOCK;
    return block;
}

/* ---- places ---- */

static uint32_t where_add(struct history *history, const struct trace_process *process,
                          uint32_t stack)
{
    struct where *where;

    history->where = array_grow(history->where, history->n_wheres, &history->max_wheres,
                                sizeof *history->where);
    where = &history->where[history->n_wheres];
    memset(where, 0, sizeof *where);
    where->process = process;
    where->stack = stack;
    return (uint32_t)history->n_wheres++;
}

uint32_t history_where_add(struct history *history, json_t *frames)
{
    uint32_t where = where_add(history, NULL, 0);

    history->where[where].frames = frames;
    return where;
}

const json_t *history_frames(struct history *history, uint32_t number)
{
    struct where *where = &history->where[number];

    if (where->frames == NULL && where->process != NULL)
        where->frames = show_frames(where->process, where->stack);
    if (where->frames == NULL)
        where->frames = json_array();
    if (json_array_size(where->frames) == 0)
        json_array_append_new(where->frames,
                              json_pack("{s:s, s:s, s:i}", "function", "(not recorded)",
                                        "file", "", "line", 0));
    return where->frames;
}

/* ---- what a function does ---- */

enum role {
    ROLE_NONE,
    ROLE_MAKE,
    ROLE_FREE,
    ROLE_RETAIN,
    ROLE_EXPORT,
    ROLE_COPY,
    ROLE_SET
};

static const struct rule {
    const char *function;
    uint8_t role;
    uint8_t kind;
    const char *addr;
    const char *size; /* of a copy: bytes */
} rules[] = {
    {"aclrtMalloc", ROLE_MAKE, KIND_BLOCK, "devPtr", "size"},
    {"aclrtMallocAlign32", ROLE_MAKE, KIND_BLOCK, "devPtr", "size"},
    {"aclrtMallocCached", ROLE_MAKE, KIND_BLOCK, "devPtr", "size"},
    {"aclrtMallocWithCfg", ROLE_MAKE, KIND_BLOCK, "devPtr", "size"},
    {"aclrtMallocForTaskScheduler", ROLE_MAKE, KIND_BLOCK, "devPtr", "size"},
    {"aclrtFree", ROLE_FREE, KIND_BLOCK, "devPtr", NULL},
    {"aclrtFreeWithDevSync", ROLE_FREE, KIND_BLOCK, "devPtr", NULL},
    {"aclrtMallocHost", ROLE_MAKE, KIND_HOST, "hostPtr", "size"},
    {"aclrtMallocHostWithCfg", ROLE_MAKE, KIND_HOST, "ptr", "size"},
    {"aclrtFreeHost", ROLE_FREE, KIND_HOST, "hostPtr", NULL},
    {"aclrtFreeHostWithDevSync", ROLE_FREE, KIND_HOST, "hostPtr", NULL},
    {"aclrtMemPoolMallocAsync", ROLE_MAKE, KIND_POOL, "ptr", "size"},
    {"aclrtMemPoolFreeAsync", ROLE_FREE, KIND_POOL, "ptr", NULL},
    {"aclrtMemAllocManaged", ROLE_MAKE, KIND_MANAGED, "ptr", "size"},
    {"aclrtMallocPhysical", ROLE_MAKE, KIND_PHYS, "handle", "size"},
    {"aclrtFreePhysical", ROLE_FREE, KIND_PHYS, "handle", NULL},
    {"aclrtMemRetainAllocationHandle", ROLE_RETAIN, KIND_PHYS, "handle", NULL},
    {"aclrtMemImportFromShareableHandle", ROLE_MAKE, KIND_IMPORT, "handle", NULL},
    {"aclrtMemImportFromShareableHandleV2", ROLE_MAKE, KIND_IMPORT, "handle", NULL},
    {"aclrtMemExportToShareableHandle", ROLE_EXPORT, KIND_PHYS, "handle", NULL},
    {"aclrtMemExportToShareableHandleV2", ROLE_EXPORT, KIND_PHYS, "handle", NULL},
    {"aclrtReserveMemAddress", ROLE_MAKE, KIND_RESERVATION, "virPtr", "size"},
    {"aclrtReserveMemAddressNoUCMemory", ROLE_MAKE, KIND_RESERVATION, "virPtr", "size"},
    {"aclrtReleaseMemAddress", ROLE_FREE, KIND_RESERVATION, "virPtr", NULL},
    {"aclrtMapMem", ROLE_MAKE, KIND_MAPPING, "virPtr", "size"},
    {"aclrtMemMapNoAccess", ROLE_MAKE, KIND_MAPPING, "virPtr", "size"},
    {"aclrtUnmapMem", ROLE_FREE, KIND_MAPPING, "virPtr", NULL},
    {"aclrtHostRegister", ROLE_MAKE, KIND_REGISTERED, "ptr", "size"},
    {"aclrtHostRegisterV2", ROLE_MAKE, KIND_REGISTERED, "ptr", "size"},
    {"aclrtHostUnregister", ROLE_FREE, KIND_REGISTERED, "ptr", NULL},
    {"aclrtCreateStream", ROLE_MAKE, KIND_STREAM, "stream", NULL},
    {"aclrtCreateStreamWithConfig", ROLE_MAKE, KIND_STREAM, "stream", NULL},
    {"aclrtDestroyStream", ROLE_FREE, KIND_STREAM, "stream", NULL},
    {"aclrtDestroyStreamForce", ROLE_FREE, KIND_STREAM, "stream", NULL},
    {"aclrtCreateEvent", ROLE_MAKE, KIND_EVENT, "event", NULL},
    {"aclrtCreateEventWithFlag", ROLE_MAKE, KIND_EVENT, "event", NULL},
    {"aclrtCreateEventExWithFlag", ROLE_MAKE, KIND_EVENT, "event", NULL},
    {"aclrtDestroyEvent", ROLE_FREE, KIND_EVENT, "event", NULL},
    {"aclrtMemcpy", ROLE_COPY, 0, "dst", "count"},
    {"aclrtMemcpyAsync", ROLE_COPY, 0, "dst", "count"},
    {"aclrtMemcpyAsyncWithCondition", ROLE_COPY, 0, "dst", "count"},
    {"aclrtMemcpy2d", ROLE_COPY, 0, "dst", "width"},
    {"aclrtMemcpy2dAsync", ROLE_COPY, 0, "dst", "width"},
    {"aclrtSetDevice", ROLE_SET, 0, NULL, NULL},
    {"aclrtSetCurrentContext", ROLE_SET, 1, NULL, NULL},
    {"aclrtCreateContext", ROLE_SET, 2, NULL, NULL},
    {"aclrtGetCurrentContext", ROLE_SET, 3, NULL, NULL},
};

#define N_RULES (sizeof rules / sizeof rules[0])

static const struct rule *rule_find(const char *name)
{
    for (size_t i = 0; i < N_RULES; i++) {
        if (strcmp(rules[i].function, name) == 0)
            return &rules[i];
    }
    return NULL;
}

/* ---- state while the trace is read ---- */

/* What a call did, to be applied in the order of time. */
struct op {
    uint64_t time;
    uint64_t number; /* of the call: calls at the same time stay in order */
    uint64_t addr, size, handle, offset;
    uint32_t where, process, thread, attr, stream;
    int32_t device;
    uint8_t role, kind;
};

#define NO_RECORD UINT32_MAX

struct reading {
    struct history *history;
    struct trace *trace;
    struct op *op;
    size_t n_ops, max_ops;
    struct map wheres;   /* process and thread, stack */
    struct map devices;  /* process, thread -> device */
    struct map contexts; /* process, context -> device */
    struct map streams;  /* process, handle -> number */
    struct map places;   /* process, stream -> the next of its copies */
    struct map held;     /* process, or 0 for all, and device -> bytes */
    struct map live;     /* process and kind, address -> block */
    struct map records;  /* process, event -> its last record */
    struct map steps;    /* stream -> the next of its steps */
    struct captures captures;
    struct step_of_event {      /* a record of an event, or a wait for one */
        uint64_t begin, called; /* the call */
        uint64_t time;          /* of the work, or of the call */
        uint32_t stream;
        uint32_t record; /* wait: the step that it waits for; NO_RECORD: a record */
    } * step;
    size_t n_steps, max_steps;
};

static uint32_t where_of(struct reading *r, const struct trace_event *event)
{
    uint64_t key = (uint64_t)event->process->number << 32 | event->thread;
    uint64_t where = map_get(&r->wheres, key, event->stack, UINT64_MAX);

    if (where == UINT64_MAX) {
        where = where_add(r->history, event->process, event->stack);
        r->history->where[where].thread = event->thread;
        if (event->function != NULL)
            r->history->where[where].name = event->function->name;
        map_set(&r->wheres, key, event->stack, where);
    }
    return (uint32_t)where;
}

static void stats_add(struct reading *r, const struct trace_event *event)
{
    struct history *history = r->history;
    struct function_stats *stats;
    uint64_t ns = event->end - event->begin;
    uint64_t number = UINT64_MAX;
    struct where *where;

    for (size_t i = 0; i < history->n_functions; i++) {
        if (strcmp(history->function[i].name, event->function->name) == 0) {
            number = i;
            break;
        }
    }
    if (number == UINT64_MAX) {
        number = history->n_functions++;
        history->function = array_grow(history->function, number, &history->max_functions,
                                       sizeof *history->function);
        history->function[number] =
            (struct function_stats){.name = event->function->name};
    }
    stats = &history->function[number];
    stats->n_calls++;
    stats->ns += ns;
    stats->n_errors += event->function->result == 'r' && event->result != 0;
    if (ns > stats->longest)
        stats->longest = ns;
    history->n_calls++;
    history->n_errors += event->function->result == 'r' && event->result != 0;
    where = &history->where[where_of(r, event)];
    where->n_calls++;
    where->ns += ns;
}

/* ---- reading ---- */

static void device_set(struct reading *r, const struct trace_event *event,
                       const struct rule *rule)
{
    uint64_t process = event->process->number;
    uint64_t context = trace_number(event, "context");

    switch (rule->kind) {
    case 0:
        map_set(&r->devices, process, event->thread, trace_number(event, "deviceId"));
        break;
    case 1:
        map_set(&r->devices, process, event->thread,
                map_get(&r->contexts, process, context, 0));
        break;
    case 2: /* a context that is made is current, too */
        map_set(&r->contexts, process, context, trace_number(event, "deviceId"));
        map_set(&r->devices, process, event->thread, trace_number(event, "deviceId"));
        break;
    default:
        map_set(&r->contexts, process, context,
                map_get(&r->devices, process, event->thread, 0));
        break;
    }
}

static uint32_t stream_add(struct history *history, uint32_t process, uint64_t handle)
{
    history->stream = array_grow(history->stream, history->n_streams,
                                 &history->max_streams, sizeof *history->stream);
    history->stream[history->n_streams] = (struct stream){process, handle};
    return (uint32_t)history->n_streams++;
}

static uint32_t stream_of(struct reading *r, const struct trace_event *event)
{
    uint64_t handle = trace_number(event, "stream");
    uint64_t number;

    if (handle == 0)
        return 0;
    number = map_get(&r->streams, event->process->number, handle, 0);
    if (number == 0) {
        number = stream_add(r->history, event->process->number - 1, handle);
        map_set(&r->streams, event->process->number, handle, number);
    }
    return (uint32_t)number;
}

static void copy_add(struct reading *r, const struct trace_event *event, uint64_t bytes,
                     uint8_t kind, uint32_t model)
{
    struct history *history = r->history;

    history->copy = array_grow(history->copy, history->n_copies, &history->max_copies,
                               sizeof *history->copy);
    history->copy[history->n_copies++] = (struct copy){
        .begin = event->begin,
        .end = event->end,
        .called = event->end,
        .bytes = bytes,
        .model = model,
        .stream = stream_of(r, event),
        .process = event->process->number - 1,
        .where = where_of(r, event),
        .name = event->function->name,
        .kind = kind,
    };
}

static void copy_take(struct reading *r, const struct trace_event *event,
                      const struct rule *rule)
{
    uint64_t height =
        trace_arg(event, "height") != NULL ? trace_number(event, "height") : 1;

    copy_add(r, event, trace_number(event, rule->size) * height,
             (uint8_t)trace_number(event, "kind"), NO_MODEL);
}

static void replay_take(struct reading *r, const struct trace_event *event)
{
    uint32_t model = captures_model(&r->captures, event);

    if (model != NO_MODEL)
        copy_add(r, event, r->history->model[model].bytes, NOT_A_COPY, model);
}

/* Records of events, and waits for them. */
static void step_take(struct reading *r, const struct trace_event *event)
{
    bool is_record = strncmp(event->function->name, "aclrtRecordEvent", 16) == 0;
    uint64_t process = event->process->number;
    uint64_t handle = trace_number(event, "event");
    uint32_t record = NO_RECORD;

    if (!is_record) {
        if (strncmp(event->function->name, "aclrtStreamWaitEvent", 20) != 0)
            return;
        record = (uint32_t)map_get(&r->records, process, handle, NO_RECORD);
        if (record == NO_RECORD)
            return;
    }
    r->step = array_grow(r->step, r->n_steps, &r->max_steps, sizeof *r->step);
    r->step[r->n_steps] = (struct step_of_event){event->begin, event->end, event->end,
                                                 stream_of(r, event), record};
    if (is_record)
        map_set(&r->records, process, handle, r->n_steps);
    r->n_steps++;
}

/* The step whose call queued a task, in the order of the stream, gets the task's time. */
static void step_measure(struct reading *r, const struct trace_event *event,
                         uint32_t stream)
{
    size_t i;

    for (i = map_get(&r->steps, stream, 0, 0); i < r->n_steps; i++) {
        if (r->step[i].stream != stream || r->step[i].called < event->queued)
            continue;
        if (r->step[i].begin <= event->queued)
            r->step[i++].time = event->end;
        break;
    }
    map_set(&r->steps, stream, 0, i);
}

static void marks_add(struct reading *r)
{
    struct history *history = r->history;

    for (size_t i = 0; i < r->n_steps; i++) {
        const struct step_of_event *wait = &r->step[i];
        const struct step_of_event *record;

        if (wait->record == NO_RECORD)
            continue;
        record = &r->step[wait->record];
        history->mark = array_grow(history->mark, history->n_marks, &history->max_marks,
                                   sizeof *history->mark);
        /* A wait that its call did itself still ends behind the record. */
        history->mark[history->n_marks++] = (struct mark){
            record->time, wait->time > record->time ? wait->time : record->time,
            record->stream, wait->stream};
    }
}

/*
 * Work of a stream: the copy whose call queued it gets its times.  The work of a stream is
 * done in the order of the calls, so each stream has a place up to which its copies are
 * past.  A replay runs in parts, which have the same time of queueing.
 */
static void task_take(struct reading *r, const struct trace_event *event)
{
    struct history *history = r->history;
    uint64_t stream = event->stream == 0 ? 0
                                         : map_get(&r->streams, event->process->number,
                                                   event->stream, UINT64_MAX);
    uint64_t key = event->process->number;
    bool is_copy = false;
    size_t i;

    if (stream == UINT64_MAX)
        return;
    for (i = map_get(&r->places, key, stream, 0); i < history->n_copies; i++) {
        struct copy *copy = &history->copy[i];

        if (copy->stream != stream || copy->process != event->process->number - 1 ||
            (copy->queued != 0 ? copy->queued != event->queued
                               : copy->called < event->queued))
            continue;
        if (copy->queued != 0) { /* another part of a replay */
            copy->end = event->end;
            is_copy = true;
        } else if (copy->begin <= event->queued) {
            copy->begin = event->begin;
            copy->end = event->end;
            history->n_measured++;
            is_copy = true;
            if (copy->model != NO_MODEL)
                copy->queued = event->queued;
            else
                i++;
        }
        break;
    }
    map_set(&r->places, key, stream, i);
    if (is_copy)
        return;
    step_measure(r, event, (uint32_t)stream);
    history->task = array_grow(history->task, history->n_tasks, &history->max_tasks,
                               sizeof *history->task);
    history->task[history->n_tasks++] = (struct task){
        .begin = event->begin,
        .end = event->end,
        .stream = (uint32_t)stream,
        .name = event->task < event->process->n_functions &&
                        event->process->function[event->task] != NULL
                    ? event->process->function[event->task]->name
                    : "work",
    };
}

/* The sum over processes for each device; *at keeps what each process has. */
static void held_take(struct reading *r, const struct trace_event *event)
{
    struct history *history = r->history;
    uint64_t device = event->stream & 0xff;
    uint64_t before = map_get(&r->held, event->process->number, device, 0);
    uint64_t sum = map_get(&r->held, 0, device, 0) + event->size - before;

    map_set(&r->held, event->process->number, device, event->size);
    map_set(&r->held, 0, device, sum);
    history->held = array_grow(history->held, history->n_held, &history->max_held,
                               sizeof *history->held);
    history->held[history->n_held++] = (struct held){event->time, sum, (int32_t)device};
}

static void device_and_attr(struct reading *r, const struct trace_event *event,
                            struct op *op)
{
    uint64_t number;

    op->device = (int32_t)map_get(&r->devices, event->process->number, event->thread, 0);
    op->attr = (uint32_t)trace_number(event, "policy");
    if (op->kind == KIND_HOST || op->kind == KIND_REGISTERED)
        op->device = DEVICE_HOST;
    if (op->kind != KIND_PHYS)
        return;
    if (field_number(event, "prop", "location.type", &number) &&
        number != 1) /* ACL_MEM_LOCATION_TYPE_DEVICE */
        op->device = DEVICE_HOST;
    else if (field_number(event, "prop", "location.id", &number))
        op->device = (int32_t)number;
    if (field_number(event, "prop", "memAttr", &number))
        op->attr = (uint32_t)number;
}

static void op_add(struct reading *r, const struct trace_event *event,
                   const struct rule *rule)
{
    struct op *op;

    r->op = array_grow(r->op, r->n_ops, &r->max_ops, sizeof *r->op);
    op = &r->op[r->n_ops];
    *op = (struct op){
        .time = rule->role == ROLE_FREE ? event->begin : event->end,
        .number = r->n_ops++,
        .addr = trace_number(event, rule->addr),
        .size = rule->size != NULL ? trace_number(event, rule->size) : 0,
        .handle = trace_number(event, "handle"),
        .offset = trace_number(event, "offset"),
        .where = where_of(r, event),
        .process = event->process->number - 1,
        .thread = event->thread,
        .stream = stream_of(r, event),
        .role = rule->role,
        .kind = rule->kind,
    };
    device_and_attr(r, event, op);
}

static void event_take(struct reading *r, const struct trace_event *event)
{
    struct history *history = r->history;
    const struct rule *rule;

    if (event->begin < history->began)
        history->began = event->begin;
    if (history->first == 0 || event->begin < history->first)
        history->first = event->begin;
    if (event->end > history->ended)
        history->ended = event->end;
    if (event->kind == TRACE_TASK)
        task_take(r, event);
    if (event->kind == TRACE_NODE)
        captures_ran(&r->captures, history, event);
    if (event->kind == TRACE_HELD)
        held_take(r, event);
    if (event->function == NULL || event->kind == TRACE_BEGIN)
        return;
    stats_add(r, event);
    if (captures_take(&r->captures, history, event, where_of(r, event),
                      stream_of(r, event)) ||
        event->result != 0)
        return;
    step_take(r, event);
    if (strncmp(event->function->name, "aclmdlRIExecute", 15) == 0)
        replay_take(r, event);
    rule = rule_find(event->function->name);
    if (rule == NULL)
        return;
    if (rule->role == ROLE_SET)
        device_set(r, event, rule);
    else if (rule->role == ROLE_COPY)
        copy_take(r, event, rule);
    else
        op_add(r, event, rule);
}

/* ---- applying ---- */

static int op_compare(const void *left, const void *right)
{
    const struct op *a = left;
    const struct op *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static uint64_t live_key(uint32_t process, unsigned kind)
{
    return (uint64_t)process << 8 | kind;
}

static struct block *live_find(struct reading *r, uint32_t process, unsigned kind,
                               uint64_t addr)
{
    uint64_t number = map_get(&r->live, live_key(process, kind), addr, UINT64_MAX);

    if (number >= r->history->n_blocks || r->history->block[number].freed != 0)
        return NULL;
    return &r->history->block[number];
}

/* Physical memory goes with its last handle and its last mapping. */
static void phys_settle(struct block *phys, uint64_t time)
{
    if (phys->refs == 0 && phys->released == 0)
        phys->released = time;
    if (phys->refs == 0 && phys->maps == 0)
        phys->freed = time;
}

static void make_apply(struct reading *r, const struct op *op)
{
    struct block *block = history_add(r->history);
    uint32_t number = (uint32_t)(block - r->history->block);
    struct block *phys;

    block->addr = op->addr;
    block->size = op->size;
    block->made = op->time;
    block->where = op->where;
    block->process = op->process;
    block->thread = op->thread;
    block->device = op->device;
    block->stream = op->stream;
    block->attr = op->attr;
    block->kind = op->kind;
    block->refs = 1;
    map_set(&r->live, live_key(op->process, op->kind), op->addr, number);
    if (op->kind != KIND_MAPPING)
        return;
    block->offset = op->offset;
    phys = live_find(r, op->process, KIND_PHYS, op->handle);
    if (phys == NULL)
        phys = live_find(r, op->process, KIND_IMPORT, op->handle);
    if (phys != NULL) {
        phys->maps++;
        block->of = (uint32_t)(phys - r->history->block);
        block->device = phys->device;
        if (phys->kind == KIND_IMPORT && phys->size < op->offset + op->size)
            phys->size = op->offset + op->size;
    }
}

static void free_apply(struct reading *r, const struct op *op)
{
    struct block *block = live_find(r, op->process, op->kind, op->addr);

    if (block == NULL && op->kind == KIND_BLOCK)
        block = live_find(r, op->process, KIND_MANAGED, op->addr);
    if (block == NULL && op->kind == KIND_PHYS)
        block = live_find(r, op->process, KIND_IMPORT, op->addr);
    if (block == NULL) {
        r->history->n_unknown_frees++;
        return;
    }
    block->gone = op->where;
    if (block->kind == KIND_PHYS || block->kind == KIND_IMPORT) {
        block->refs -= block->refs > 0;
        phys_settle(block, op->time);
        return;
    }
    block->freed = op->time > block->made ? op->time : block->made + 1;
    if (block->kind == KIND_MAPPING && block->of != NO_BLOCK) {
        struct block *phys = &r->history->block[block->of];

        phys->maps -= phys->maps > 0;
        phys_settle(phys, op->time);
    }
}

static void op_apply(struct reading *r, const struct op *op)
{
    struct block *block;

    switch (op->role) {
    case ROLE_MAKE:
        make_apply(r, op);
        break;
    case ROLE_FREE:
        free_apply(r, op);
        break;
    default:
        block = live_find(r, op->process, KIND_PHYS, op->addr);
        if (block != NULL && op->role == ROLE_RETAIN)
            block->refs++;
        else if (block != NULL && block->exported == 0)
            block->exported = op->time;
        break;
    }
}

/* ---- sums ---- */

struct change {
    uint64_t time;
    uint32_t block;
    bool is_free;
};

static int change_compare(const void *left, const void *right)
{
    const struct change *a = left;
    const struct change *b = right;

    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    return (int)b->is_free -
           (int)a->is_free; /* what is free at a time makes room first */
}

void history_sum(struct history *history)
{
    struct change *change = calloc(2 * history->n_blocks + 1, sizeof *change);
    size_t n = 0;
    uint64_t live = 0;

    if (change == NULL)
        return;
    for (size_t i = 0; i < history->n_blocks; i++) {
        const struct block *block = &history->block[i];

        if (!kind_is_memory(block->kind))
            continue;
        history->allocated += block->size;
        history->n_allocations++;
        history->where[block->where].allocated += block->size;
        change[n++] = (struct change){block->made, (uint32_t)i, false};
        if (block->freed != 0)
            change[n++] = (struct change){block->freed, (uint32_t)i, true};
    }
    qsort(change, n, sizeof *change, change_compare);
    for (size_t i = 0; i < n; i++) {
        uint64_t size = history->block[change[i].block].size;

        live = change[i].is_free ? live - size : live + size;
        if (live > history->peak) {
            history->peak = live;
            history->peak_at = change[i].time;
        }
    }
    history->live = live;
    free(change);
    for (size_t i = 0; i < history->n_blocks; i++) {
        const struct block *block = &history->block[i];

        if (kind_is_memory(block->kind) && block->made <= history->peak_at &&
            (block->freed == 0 || block->freed > history->peak_at))
            history->where[block->where].at_peak += block->size;
        if (kind_is_memory(block->kind) && block->freed == 0)
            history->where[block->where].leaked += block->size;
    }
}

bool history_read(struct history *history, struct trace *trace)
{
    struct reading r = {.history = history, .trace = trace};
    struct trace_event event;
    uint64_t n = 0;

    memset(history, 0, sizeof *history);
    history->began = trace_about(trace)->began;
    where_add(history, NULL, 0);
    stream_add(history, 0, 0);
    while (trace_next(trace, &event)) {
        event_take(&r, &event);
        if (++n % 4096 == 0)
            progress_show("reading the trace", trace_about(trace)->n_loaded,
                          trace_about(trace)->n_decoded);
    }
    progress_end();
    marks_add(&r);
    captures_finish(history);
    if (r.n_ops > 0)
        qsort(r.op, r.n_ops, sizeof *r.op, op_compare);
    for (size_t i = 0; i < r.n_ops; i++)
        op_apply(&r, &r.op[i]);
    free(r.op);
    map_free(&r.wheres);
    map_free(&r.devices);
    map_free(&r.contexts);
    map_free(&r.streams);
    map_free(&r.live);
    map_free(&r.records);
    map_free(&r.steps);
    map_free(&r.places);
    map_free(&r.held);
    free(r.step);
    captures_free(&r.captures);
    history->n_processes = trace_n_processes(trace);
    history->process = calloc(history->n_processes + 1, sizeof *history->process);
    for (size_t i = 0; history->process != NULL && i < history->n_processes; i++)
        history->process[i] = trace_process_at(trace, i);
    history_sum(history);
    return true;
}

void history_free(struct history *history)
{
    for (size_t i = 0; i < history->n_wheres; i++)
        json_decref(history->where[i].frames);
    free(history->where);
    free(history->block);
    free(history->copy);
    free(history->stream);
    free(history->mark);
    free(history->held);
    free(history->task);
    free(history->run);
    free(history->model);
    free(history->node);
    free(history->function);
    free(history->process);
    memset(history, 0, sizeof *history);
}
