/*
 * Reads the calls of a trace for a replay, checks them and puts them in order.
 *
 * A trace comes from strangers.  Arguments are decoded by the rows of this library
 * (play_calls.c); a trace whose signatures differ is refused.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "acl/acl.h"
#include "play.h"

/* Bytes of calls in memory: at most this, and as many times the bytes of the file. */
#define CALLS_BASE ((uint64_t)256 << 20)
#define CALLS_RATIO 256u

void *play_must(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "aclmem: no memory for the trace\n");
        exit(1);
    }
    return memory;
}

/* ---- one call ---- */

/* Whether all arrays and structs have the sizes that the call's own arguments say. */
static bool call_check(const struct play_call *call, char *why)
{
    for (uint32_t i = 0; call->function != NULL && i < call->function->n; i++) {
        const struct play_param *param = &call->function->param[i];
        const struct trace_value *value = &call->value[i];
        size_t size =
            strcmp(param->name, "cfg") == 0 ? sizeof(aclrtMallocAttribute) : param->size;
        uint64_t count = param->count >= 0 ? call->value[param->count].number : 1;
        bool is_right = true;

        if (value->bytes != NULL && param->element == 't')
            is_right = size > 0 && value->size % size == 0 && value->size / size <= count;
        else if (value->bytes != NULL && param->element == 0 && size > 0)
            is_right = strcmp(param->name, "cfg") == 0 ? value->size % size == 0
                                                       : value->size == size;
        else if (value->item != NULL && param->letter == 'v') /* the struct counts it */
            is_right = value->size == size;
        else if (value->item != NULL)
            is_right =
                value->n_items == (count < PLAY_ARRAY_MAX ? count : PLAY_ARRAY_MAX);
        if (is_right)
            continue;
        snprintf(why, TRACE_WHY_SIZE,
                 "%s in a call of %s has another length than the call says: the trace is "
                 "damaged",
                 param->name, call->name);
        return false;
    }
    return true;
}

/* A copy of the values of an event; returns its bytes. */
static uint64_t values_copy(struct play_call *call, const struct trace_event *event)
{
    uint32_t n = event->function->n;
    uint64_t size = (n + 1) * sizeof *call->value;

    call->n = n;
    call->value = play_must(calloc(n + 1, sizeof *call->value));
    for (uint32_t i = 0; i < n; i++) {
        struct trace_value *value = &call->value[i];

        *value = event->value[i];
        size += value->size + value->n_items * sizeof *value->item;
        if (value->bytes != NULL)
            value->bytes =
                memcpy(play_must(malloc(value->size + 8)), value->bytes, value->size);
        if (value->item != NULL)
            value->item =
                memcpy(play_must(malloc((value->n_items + 1) * sizeof *value->item)),
                       value->item, value->n_items * sizeof *value->item);
    }
    return size;
}

static bool call_add(struct play_trace *p, const struct trace *trace,
                     const struct trace_event *event, char *why)
{
    bool is_played = event->function->result == 'r';
    const struct play_function *function =
        is_played ? play_function_find(event->function->name) : NULL;
    struct play_call *call;

    if (function != NULL && !play_function_agrees(function, event->function)) {
        snprintf(
            why, TRACE_WHY_SIZE,
            "the trace has other arguments of %s than this version: it is damaged, or "
            "was recorded by another version",
            event->function->name);
        return false;
    }
    if (p->n_calls == p->max_calls) {
        p->max_calls = p->max_calls > 0 ? 2 * p->max_calls : 256;
        p->call = play_must(realloc(p->call, p->max_calls * sizeof *p->call));
    }
    call = &p->call[p->n_calls++];
    *call = (struct play_call){
        .number = p->n_calls,
        .function = function,
        .name = event->function->name,
        .begin = event->begin,
        .end = event->end,
        .result = event->result,
        .process = event->process->number,
        .thread = event->thread,
        .is_counted = is_played,
    };
    p->size += sizeof *call + values_copy(call, event);
    if (p->size > CALLS_BASE + CALLS_RATIO * trace_about(trace)->n_bytes) {
        snprintf(why, TRACE_WHY_SIZE,
                 "it has more calls than its size allows: it is damaged");
        return false;
    }
    if (strcmp(call->name, "aclrtProcessReport") == 0 && p->report_thread == 0)
        p->report_thread = call->thread;
    return call_check(call, why);
}

/* ---- order ---- */

static int begin_compare(const void *left, const void *right)
{
    const struct play_call *a = left;
    const struct play_call *b = right;

    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static int end_compare(const void *left, const void *right)
{
    const struct play_call *a = *(const struct play_call *const *)left;
    const struct play_call *b = *(const struct play_call *const *)right;

    if (a->end != b->end)
        return a->end < b->end ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int thread_compare(const void *left, const void *right)
{
    const struct play_call *a = *(const struct play_call *const *)left;
    const struct play_call *b = *(const struct play_call *const *)right;

    if (a->process != b->process)
        return a->process < b->process ? -1 : 1;
    if (a->thread != b->thread)
        return a->thread < b->thread ? -1 : 1;
    return a < b ? -1 : a > b;
}

static bool gives_address(const struct play_function *function)
{
    for (uint32_t i = 0; function != NULL && i < function->n; i++) {
        if (function->param[i].letter == 'P')
            return true;
    }
    return false;
}

/* How many calls begin before a time. */
static uint64_t begun_count(const struct play_trace *p, uint64_t time)
{
    size_t low = 0;
    size_t high = p->n_calls;

    while (low < high) {
        size_t middle = (low + high) / 2;

        if (p->call[middle].begin < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/*
 * n_begun of calls that give an address.  It stays 0 if the call's own thread made calls
 * during the call: these are replayed after it.
 */
static void begun_fill(struct play_trace *p, struct play_call **list)
{
    qsort(list, p->n_calls, sizeof *list, thread_compare);
    for (size_t i = 0; i < p->n_calls; i++) {
        struct play_call *call = list[i];
        const struct play_call *next = i + 1 < p->n_calls ? list[i + 1] : NULL;
        bool is_nested = next != NULL && next->process == call->process &&
                         next->thread == call->thread && next->begin < call->end;

        if (gives_address(call->function) && !is_nested)
            call->n_begun = begun_count(p, call->end);
    }
}

/*
 * Turns: a call waits for all calls that ended before it began.  It waits for no call that is
 * behind it in the order of begins, so the replay ends whatever times the trace has.
 */
static void turns_make(struct play_trace *p)
{
    struct play_call **list;
    size_t n = 0;

    p->place = play_must(calloc(p->n_calls + 1, sizeof *p->place));
    if (p->n_calls == 0) /* qsort() takes no NULL */
        return;
    list = play_must(calloc(p->n_calls, sizeof *list));
    qsort(p->call, p->n_calls, sizeof *p->call, begin_compare);
    for (size_t i = 0; i < p->n_calls; i++)
        list[i] = &p->call[i];
    qsort(list, p->n_calls, sizeof *list, end_compare);
    for (size_t i = 0; i < p->n_calls; i++)
        p->place[list[i] - p->call] = i;
    for (size_t i = 0; i < p->n_calls; i++) {
        while (n < p->n_calls && list[n]->end <= p->call[i].begin &&
               list[n] < &p->call[i])
            n++;
        p->call[i].turn = n;
    }
    begun_fill(p, list);
    free(list);
}

bool play_read(struct play_trace *p, struct trace *trace, char *why)
{
    struct trace_event event;

    memset(p, 0, sizeof *p);
    while (trace_next(trace, &event)) {
        if ((event.kind == TRACE_CALL || event.kind == TRACE_END) &&
            !call_add(p, trace, &event, why))
            return false;
    }
    turns_make(p);
    return true;
}

void play_free(struct play_trace *p)
{
    for (size_t i = 0; i < p->n_calls; i++) {
        for (uint32_t k = 0; k < p->call[i].n; k++) {
            free((void *)p->call[i].value[k].bytes);
            free((void *)p->call[i].value[k].item);
        }
        free(p->call[i].value);
    }
    free(p->call);
    free(p->place);
}
