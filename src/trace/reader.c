/* See reader.h.  definitions.c reads the records that define, index.c finds the chunks. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "trace/internal.h"

/* ---- values ---- */

_Static_assert(TRACE_PYTHON_STACKS == AM_TRACE_PYTHON_STACKS, "one number, two names");

/* Room for the elements of all arrays in a record: an element has at least one byte. */
static bool items_reserve(struct trace *trace, struct trace_cursor *cursor,
                          const struct am_input *in)
{
    size_t n = (size_t)(in->end - in->at);
    uint64_t *item;

    if (n > TRACE_ITEMS_MAX)
        n = TRACE_ITEMS_MAX;
    if (n <= cursor->max_items)
        return true;
    if (!trace_charge(trace, (n - cursor->max_items) * sizeof *item))
        return false;
    item = realloc(cursor->item, n * sizeof *item);
    if (item == NULL)
        return false;
    cursor->item = item;
    cursor->max_items = n;
    return true;
}

/* An array of numbers; its elements are stored in the cursor. */
static void items_get(struct trace_cursor *cursor, struct am_input *in, char element,
                      struct trace_value *value)
{
    uint64_t n = am_get_varint(in);

    if (n > AM_TRACE_ARRAY_MAX || n > cursor->max_items - cursor->n_items) {
        in->is_bad = true;
        return;
    }
    value->item = &cursor->item[cursor->n_items];
    value->n_items = n;
    for (uint64_t i = 0; i < n && !in->is_bad; i++) {
        uint64_t item;

        if (element == 'p')
            item = cursor->last_pointer += (uint64_t)am_get_signed(in);
        else if (element == 'z' || element == 'f')
            item = am_get_varint(in);
        else
            item = (uint64_t)am_get_signed(in);
        cursor->item[cursor->n_items++] = item;
    }
}

/* A number or bytes, by its letter in lower case. */
static void value_get(struct trace_cursor *cursor, struct am_input *in, char letter,
                      struct trace_value *value)
{
    switch (letter) {
    case 'p':
        value->number = cursor->last_pointer += (uint64_t)am_get_signed(in);
        break;
    case 'z':
    case 'x':
    case 'u':
    case 'f':
    case 'h':
        value->number = am_get_varint(in);
        break;
    case 'l':
    case 'i':
    case 'e':
        value->number = (uint64_t)am_get_signed(in);
        break;
    default:
        value->bytes = am_get_bytes(in, &value->size);
        break;
    }
    value->is_there = true;
}

static bool is_upper(char letter)
{
    return letter >= 'A' && letter <= 'Z';
}

static void begin_get(struct trace_cursor *cursor, struct am_input *in,
                      struct trace_event *event)
{
    uint64_t id = am_get_varint(in);
    const struct trace_function *function;
    uint64_t empty;

    cursor->last += am_get_varint(in);
    event->begin = event->end = event->time = cursor->last;
    event->stack = (uint32_t)am_get_varint(in);
    empty = am_get_varint(in);
    if (id >= event->process->n_functions || event->process->function[id] == NULL) {
        in->is_bad = true;
        return;
    }
    event->function = function = event->process->function[id];
    for (uint32_t i = 0; i < function->n; i++) {
        const struct trace_param *param = &function->param[i];
        struct trace_value *value = &event->value[i];

        value->is_null = (empty >> i) & 1;
        if (is_upper(param->letter) || value->is_null ||
            (param->letter == 't' && param->element != 0))
            continue;
        value_get(cursor, in, param->letter, value);
    }
}

static bool has_arrays(const struct trace_function *function)
{
    for (uint32_t i = 0; i < function->n; i++) {
        if (function->param[i].element != 0)
            return true;
    }
    return false;
}

static void results_get(struct trace *trace, struct trace_cursor *cursor,
                        struct am_input *in, struct trace_event *event)
{
    const struct trace_function *function = event->function;

    if (has_arrays(function) && !items_reserve(trace, cursor, in)) {
        in->is_bad = true;
        return;
    }

    for (uint32_t i = 0; i < function->n; i++) {
        const struct trace_param *param = &function->param[i];
        struct trace_value *value = &event->value[i];

        if (param->element != 0) {
            value->is_null = am_get_varint(in) == 0;
            if (value->is_null)
                continue;
            if (strchr("StH", param->element) != NULL)
                value->bytes = am_get_bytes(in, &value->size);
            else
                items_get(cursor, in, param->element, value);
            value->is_there = true;
        } else if (is_upper(param->letter) && !value->is_null) {
            value_get(cursor, in, (char)(param->letter + 'a' - 'A'), value);
        }
    }
}

static void end_get(struct trace *trace, struct trace_cursor *cursor, struct am_input *in,
                    struct trace_event *event)
{
    cursor->last += am_get_varint(in);
    event->end = cursor->last;
    switch (event->function->result) {
    case 'r':
        event->result = am_get_signed(in);
        break;
    case 's':
        event->text = am_get_bytes(in, &event->text_size);
        break;
    default:
        event->result = (int64_t)am_get_varint(in);
        break;
    }
    if (event->function->result != 'r' || event->result == 0)
        results_get(trace, cursor, in, event);
}

/* ---- calls that make calls ---- */

static uint64_t open_size(const struct trace_event *event)
{
    uint64_t size = sizeof(struct trace_open);

    for (uint32_t i = 0; i < event->function->n; i++)
        size += event->value[i].size;
    return size;
}

/* Copies the arguments of a call whose end is a later record. */
static void open_push(struct trace *trace, struct trace_cursor *cursor,
                      const struct trace_event *event)
{
    struct trace_open *open;

    if (cursor->n_open == TRACE_DEPTH_MAX || !trace_charge(trace, open_size(event)))
        return;
    open = malloc(sizeof *open);
    if (open == NULL) {
        trace_discharge(trace, open_size(event));
        return;
    }
    open->event = *event;
    open->size = open_size(event);
    for (uint32_t i = 0; i < event->function->n; i++) {
        struct trace_value *value = &open->event.value[i];

        uint8_t *copy = value->bytes != NULL ? malloc(value->size + 1) : NULL;

        if (copy != NULL)
            memcpy(copy, value->bytes, value->size);
        else
            value->size = 0;
        value->bytes = copy;
    }
    cursor->open[cursor->n_open++] = open;
}

static void open_free(struct trace *trace, struct trace_open *open)
{
    if (open == NULL)
        return;
    trace_discharge(trace, open->size);
    for (uint32_t i = 0; i < open->event.function->n; i++)
        free((void *)open->event.value[i].bytes);
    free(open);
}

/* The end of the call that was begun last, with the arguments of its begin. */
static bool open_end(struct trace *trace, struct trace_cursor *cursor,
                     struct am_input *in, struct trace_event *event)
{
    struct trace_open *open;

    if (cursor->n_open == 0)
        return false;
    open = cursor->open[--cursor->n_open];
    open_free(trace, cursor->closed);
    cursor->closed = open;
    *event = open->event;
    event->kind = TRACE_END;
    end_get(trace, cursor, in, event);
    event->time = event->end;
    return true;
}

/* ---- records ---- */

/* A task of a stream, or of a model. */
static void task_get(struct trace_cursor *cursor, struct am_input *in,
                     enum trace_kind kind, struct trace_event *event)
{
    uint64_t ran, waited;

    event->kind = kind;
    event->stream = am_get_varint(in);
    if (kind == TRACE_NODE)
        event->number = (uint32_t)am_get_varint(in);
    event->task = (uint32_t)am_get_varint(in);
    cursor->last += am_get_varint(in);
    ran = am_get_varint(in);
    waited = am_get_varint(in);
    event->end = cursor->last - am_get_varint(in);
    event->begin = event->end - ran;
    event->queued = event->begin - waited;
    event->time = cursor->last;
}

static void held_get(struct trace_cursor *cursor, struct am_input *in,
                     struct trace_event *event)
{
    event->kind = TRACE_HELD;
    cursor->last += am_get_varint(in);
    event->time = event->begin = event->end = cursor->last;
    event->stream = am_get_varint(in);
    event->size = am_get_varint(in);
}

/* One record into *event: true when it is an event. */
static bool record_get(struct trace *trace, struct trace_cursor *cursor, unsigned kind,
                       struct am_input *in, struct trace_event *event)
{
    struct trace_process *process = trace_process_get(trace, cursor->process);
    bool is_event = true;

    cursor->n_items = 0;
    memset(event, 0, sizeof *event);
    event->process = process;
    event->thread = cursor->thread;
    if (event->process == NULL)
        return false;
    switch (kind) {
    case AM_TRACE_CALL:
        event->kind = TRACE_CALL;
        begin_get(cursor, in, event);
        if (!in->is_bad)
            end_get(trace, cursor, in, event);
        break;
    case AM_TRACE_BEGIN:
        event->kind = TRACE_BEGIN;
        begin_get(cursor, in, event);
        if (!in->is_bad)
            open_push(trace, cursor, event);
        break;
    case AM_TRACE_END:
        is_event = open_end(trace, cursor, in, event);
        break;
    case AM_TRACE_TASK:
        task_get(cursor, in, TRACE_TASK, event);
        break;
    case AM_TRACE_NODE:
        task_get(cursor, in, TRACE_NODE, event);
        break;
    case AM_TRACE_HELD:
        held_get(cursor, in, event);
        break;
    default:
        trace_define(trace, process, kind, in);
        is_event = false;
        break;
    }
    if (is_event && in->is_bad)
        trace->about.n_damaged++;
    return is_event && !in->is_bad;
}

/* The call that the thread is in, when there is nothing more. */
static bool pending_get(struct trace *trace, struct trace_cursor *cursor,
                        struct trace_event *event)
{
    struct am_input in;

    if (cursor->data == NULL || cursor->pending < 4 || cursor->is_pending_read)
        return false;
    in = (struct am_input){cursor->data + cursor->used + 3,
                           cursor->data + cursor->used + cursor->pending, false};
    cursor->is_pending_read = true;
    memset(event, 0, sizeof *event);
    event->process = trace_process_get(trace, cursor->process);
    event->thread = cursor->thread;
    event->kind = TRACE_BEGIN;
    event->is_unfinished = true;
    cursor->n_items = 0;
    if (event->process == NULL)
        return false;
    begin_get(cursor, &in, event);
    return !in.is_bad;
}

/* Reads the thread's next event into cursor->event; false if there is no event yet. */
static bool cursor_advance(struct trace *trace, struct trace_cursor *cursor)
{
    for (;;) {
        while (cursor->data != NULL && cursor->at + 3 <= cursor->used) {
            const uint8_t *at = cursor->data + cursor->at;
            uint32_t n = at[1] | (uint32_t)at[2] << 8;
            struct am_input in = {at + 3, at + 3 + n, false};

            if (cursor->at + 3 + n > cursor->used) {
                trace->about.n_damaged++;
                cursor->at = cursor->used;
                break;
            }
            cursor->at += 3 + n;
            if (record_get(trace, cursor, at[0], &in, &cursor->event))
                return true;
        }
        if (trace_chunk_next(trace, cursor))
            continue;
        if (pending_get(trace, cursor, &cursor->event))
            return true;
        trace_cursor_data_free(trace, cursor);
        return false;
    }
}

/* ---- the order of threads ---- */

static int ready_compare(const struct trace_cursor *a, const struct trace_cursor *b)
{
    if (a->event.time != b->event.time)
        return a->event.time < b->event.time ? -1 : 1;
    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

RB_GENERATE_INTERNAL(trace_ready, trace_cursor, ready, ready_compare,
                     __attribute__((unused)) static)

struct trace_cursor *trace_given_end(struct trace *trace)
{
    struct trace_cursor *given = trace->given;

    if (given != NULL) {
        RB_REMOVE(trace_ready, &trace->ready, given);
        given->has_event = false;
    }
    trace->given = NULL;
    return given;
}

void trace_cursor_fill(struct trace *trace, struct trace_cursor *cursor)
{
    if (cursor->has_event)
        return;
    cursor->has_event = cursor_advance(trace, cursor);
    if (cursor->has_event)
        RB_INSERT(trace_ready, &trace->ready, cursor);
}

bool trace_next(struct trace *trace, struct trace_event *ret_event)
{
    struct trace_cursor *given = trace_given_end(trace);

    if (given != NULL)
        trace_cursor_fill(trace, given);
    trace->given = RB_MIN(trace_ready, &trace->ready);
    if (trace->given == NULL)
        return false;
    *ret_event = trace->given->event;
    return true;
}

void trace_cursor_reset(struct trace *trace, struct trace_cursor *cursor)
{
    for (uint32_t i = 0; i < cursor->n_open; i++)
        open_free(trace, cursor->open[i]);
    cursor->n_open = 0;
}

void trace_cursor_close(struct trace *trace, struct trace_cursor *cursor)
{
    trace_cursor_reset(trace, cursor);
    open_free(trace, cursor->closed);
    trace_cursor_data_free(trace, cursor);
    trace_discharge(trace, cursor->max_items * sizeof *cursor->item + sizeof *cursor);
    free(cursor->item);
    free(cursor);
}

/* ---- asking an event ---- */

const struct trace_value *trace_arg(const struct trace_event *event, const char *name)
{
    for (uint32_t i = 0; event->function != NULL && i < event->function->n; i++) {
        if (strcmp(event->function->param[i].name, name) == 0)
            return &event->value[i];
    }
    return NULL;
}

uint64_t trace_number(const struct trace_event *event, const char *name)
{
    const struct trace_value *value = trace_arg(event, name);

    return value != NULL && value->is_there ? value->number : 0;
}
