/* See captures.h. */
#include "captures.h"

#include <stdlib.h>
#include <string.h>

#include "show.h"

/* Functions whose calls are tasks of a model, by the beginning of their names. */
static bool is_work(const char *name)
{
    static const char *const prefixes[] = {
        "aclrtMemcpy",          "aclrtMemset",     "aclrtRecord",
        "aclrtStreamWaitEvent", "aclrtResetEvent", "aclrtWaitAndReset",
        "aclrtValue",           "aclrtLaunch",     "aclrtCmo",
    };

    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0)
            return true;
    }
    return false;
}

static bool is_named(const struct trace_event *event, const char *name)
{
    return strcmp(event->function->name, name) == 0;
}

uint32_t captures_model(const struct captures *captures, const struct trace_event *event)
{
    return (uint32_t)map_get(&captures->models, event->process->number,
                             trace_number(event, "modelRI"), NO_MODEL);
}

static uint32_t model_add(struct history *history, const struct trace_event *event,
                          uint32_t where)
{
    history->model = array_grow(history->model, history->n_models, &history->max_models,
                                sizeof *history->model);
    history->model[history->n_models] =
        (struct model){.process = event->process->number - 1,
                       .began = event->end,
                       .where = where,
                       .parent = NO_NODE};
    return (uint32_t)history->n_models++;
}

/* The open capture of a stream, or NULL. */
static struct capture *capture_of(const struct captures *captures, uint32_t stream)
{
    uint64_t number = map_get(&captures->streams, stream, 0, UINT64_MAX);

    return number < captures->n && captures->capture[number].is_open
               ? &captures->capture[number]
               : NULL;
}

static void capture_begin(struct captures *captures, uint32_t stream, uint32_t model)
{
    captures->capture = array_grow(captures->capture, captures->n, &captures->max,
                                   sizeof *captures->capture);
    captures->capture[captures->n] = (struct capture){model, true};
    map_set(&captures->streams, stream, 0, captures->n++);
}

static void handle_set(struct captures *captures, struct history *history,
                       const struct trace_event *event, uint32_t model)
{
    history->model[model].handle = trace_number(event, "modelRI");
    map_set(&captures->models, event->process->number, history->model[model].handle,
            model);
}

static void capture_end(struct captures *captures, struct history *history,
                        const struct trace_event *event, uint32_t stream)
{
    struct capture *capture = capture_of(captures, stream);
    struct model *model;

    if (capture == NULL)
        return;
    capture->is_open = false;
    model = &history->model[capture->model];
    model->captured = event->end;
    model->has_failed = event->result != 0;
    if (model->has_failed || model->handle != 0) /* the handle of a branch is known */
        return;
    handle_set(captures, history, event, capture->model);
}

static void node_add(struct captures *captures, struct history *history,
                     const struct trace_event *event, uint32_t model, struct node node)
{
    uint64_t height =
        trace_arg(event, "height") != NULL ? trace_number(event, "height") : 1;
    uint64_t bytes =
        trace_number(event, trace_arg(event, "width") != NULL ? "width" : "count");
    uint32_t number = (uint32_t)history->n_nodes;

    node.model = model;
    node.time = event->begin;
    node.name = event->function->name;
    node.bytes = bytes * height;
    node.kind = NOT_A_COPY;
    if (strncmp(node.name, "aclrtMemcpy", 11) == 0) {
        node.kind = (uint8_t)trace_number(event, "kind");
        history->model[model].n_copies++;
        history->model[model].bytes += node.bytes;
    }
    history->node = array_grow(history->node, history->n_nodes, &history->max_nodes,
                               sizeof *history->node);
    history->node[history->n_nodes++] = node;
    map_set(&captures->nodes, model, history->model[model].n_nodes++, number);
    if (strncmp(node.name, "aclrtRecordEvent", 16) == 0)
        map_set(&captures->records, event->process->number, trace_number(event, "event"),
                number);
}

/* A conditional task, which makes a model for each branch. */
static void condition_take(struct captures *captures, struct history *history,
                           const struct trace_event *event, struct node node)
{
    const struct capture *capture = capture_of(captures, node.stream);
    const struct trace_value *branches = trace_arg(event, "params");
    uint32_t parent = (uint32_t)history->n_nodes;
    uint64_t type = 0;

    if (capture == NULL)
        return;
    node_add(captures, history, event, capture->model, node);
    field_number(event, "params", "type", &type);
    for (size_t i = 0; branches != NULL && i < branches->n_items; i++) {
        uint32_t model = model_add(history, event, node.where);

        history->model[model].parent = parent;
        history->model[model].branch = (uint32_t)i;
        history->model[model].condition = (uint8_t)type;
        history->model[model].handle = branches->item[i];
        map_set(&captures->models, event->process->number, branches->item[i], model);
    }
}

/* A call of aclmdlRI. */
static void model_take(struct captures *captures, struct history *history,
                       const struct trace_event *event, uint32_t where, uint32_t stream)
{
    struct capture *capture = capture_of(captures, stream);
    uint32_t model;

    if (is_named(event, "aclmdlRICaptureEnd")) {
        capture_end(captures, history, event, stream);
        return;
    }
    if (event->result != 0)
        return;
    model = captures_model(captures, event);
    if (is_named(event, "aclmdlRIAddCondTask"))
        condition_take(captures, history, event,
                       (struct node){.stream = stream, .where = where, .from = NO_NODE});
    else if (is_named(event, "aclmdlRICaptureBegin"))
        capture_begin(captures, stream, model_add(history, event, where));
    else if (is_named(event, "aclmdlRICaptureToModelRIBegin"))
        capture_begin(captures, stream,
                      model != NO_MODEL ? model : model_add(history, event, where));
    else if (is_named(event, "aclmdlRIBuildBegin"))
        handle_set(captures, history, event, model_add(history, event, where));
    else if (is_named(event, "aclmdlRIBindStream") && model != NO_MODEL)
        capture_begin(captures, stream, model);
    else if (is_named(event, "aclmdlRIEndTask") && capture != NULL)
        capture->is_open = false;
    else if (is_named(event, "aclmdlRIBuildEnd") && model != NO_MODEL)
        history->model[model].captured = event->end;
    else if (is_named(event, "aclmdlRIDestroy") && model != NO_MODEL)
        history->model[model].destroyed = event->begin;
}

bool captures_take(struct captures *captures, struct history *history,
                   const struct trace_event *event, uint32_t where, uint32_t stream)
{
    const char *name = event->function->name;
    struct node node = {.stream = stream, .where = where, .from = NO_NODE};
    const struct capture *capture;
    bool is_wait;

    if (strncmp(name, "aclmdlRI", 8) == 0) {
        model_take(captures, history, event, where, stream);
        return false;
    }
    if (captures->n == 0 || event->result != 0 || !is_work(name))
        return false;
    capture = capture_of(captures, stream);
    is_wait = strncmp(name, "aclrtStreamWaitEvent", 20) == 0;
    if (is_wait) {
        node.from = (uint32_t)map_get(&captures->records, event->process->number,
                                      trace_number(event, "event"), NO_NODE);
        if (capture == NULL && node.from != NO_NODE) {
            capture = capture_of(captures, history->node[node.from].stream);
            if (capture != NULL) /* the stream joins */
                map_set(&captures->streams, stream, 0,
                        (uint64_t)(capture - captures->capture));
        }
    }
    if (capture == NULL) {
        if (strncmp(name, "aclrtRecordEvent", 16) == 0)
            map_set(&captures->records, event->process->number,
                    trace_number(event, "event"), NO_NODE);
        return false;
    }
    if (node.from != NO_NODE && history->node[node.from].model != capture->model)
        node.from = NO_NODE;
    node_add(captures, history, event, capture->model, node);
    return true;
}

/* ---- tasks of replays ---- */

void captures_ran(const struct captures *captures, struct history *history,
                  const struct trace_event *event)
{
    const struct trace_process *process = event->process;
    uint32_t model =
        (uint32_t)map_get(&captures->models, process->number, event->stream, NO_MODEL);
    uint32_t node = (uint32_t)map_get(&captures->nodes, model, event->number, NO_NODE);

    if (node == NO_NODE || event->task >= process->n_functions ||
        process->function[event->task] == NULL ||
        strcmp(process->function[event->task]->name, history->node[node].name) != 0)
        return;
    history->run = array_grow(history->run, history->n_runs, &history->max_runs,
                              sizeof *history->run);
    history->run[history->n_runs++] =
        (struct run){event->begin, event->end, event->queued, node, NO_COPY};
}

/* The model that the program replayed: the one that has no parent. */
static uint32_t model_root(const struct history *history, uint32_t model)
{
    while (history->model[model].parent != NO_NODE)
        model = history->node[history->model[model].parent].model;
    return model;
}

struct replay {
    uint32_t model;
    uint32_t copy;
    uint64_t called;
};

static int replay_compare(const void *left, const void *right)
{
    const struct replay *a = left;
    const struct replay *b = right;

    if (a->model != b->model)
        return a->model < b->model ? -1 : 1;
    return a->called < b->called ? -1 : a->called > b->called;
}

/* The replay of the model whose call queued it: the first call that ended later. */
static uint32_t replay_find(const struct replay *list, size_t n, uint32_t model,
                            uint64_t queued)
{
    size_t first = 0;
    size_t last = n;

    while (first < last) {
        size_t middle = (first + last) / 2;

        if (list[middle].model < model ||
            (list[middle].model == model && list[middle].called < queued))
            first = middle + 1;
        else
            last = middle;
    }
    return first < n && list[first].model == model ? list[first].copy : NO_COPY;
}

void captures_finish(struct history *history)
{
    struct replay *list = NULL;
    size_t n = 0;
    size_t max = 0;

    for (size_t i = 0; i < history->n_copies && history->n_runs > 0; i++) {
        const struct copy *copy = &history->copy[i];

        if (copy->model == NO_MODEL)
            continue;
        list = array_grow(list, n, &max, sizeof *list);
        list[n++] = (struct replay){copy->model, (uint32_t)i, copy->called};
    }
    if (n > 0)
        qsort(list, n, sizeof *list, replay_compare);
    for (size_t i = 0; i < history->n_runs; i++) {
        struct run *run = &history->run[i];

        run->copy = replay_find(
            list, n, model_root(history, history->node[run->node].model), run->queued);
        if (run->copy != NO_COPY && history->copy[run->copy].begin > run->begin)
            history->copy[run->copy].begin = run->begin;
    }
    free(list);
}

void captures_free(struct captures *captures)
{
    map_free(&captures->nodes);
    map_free(&captures->streams);
    map_free(&captures->models);
    map_free(&captures->records);
    free(captures->capture);
}
