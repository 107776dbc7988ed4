/*
 * Records that define: functions, structs, codes, modules, stacks, the process itself.
 *
 * A definition is counted against the memory bound of the trace when it is stored.  One that
 * exceeds the bound, or that defines a number for a second time, is discarded.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tree.h"
#include "trace/internal.h"

#define PROCESSES_MAX 65536u
#define FUNCTIONS_MAX 65536u
#define STRUCTS_MAX 4096u
#define MODULES_MAX 65536u

/* Enlarges an array of `size` bytes each, so that [wanted] exists and is zero. */
static bool array_grow(struct trace *trace, void **array, uint32_t *n, uint64_t wanted,
                       size_t size, uint64_t most)
{
    uint64_t larger = *n > 0 ? *n : 16;
    char *made;

    if (wanted < *n)
        return true;
    if (wanted >= most)
        return false;
    while (larger <= wanted)
        larger *= 2;
    if (!trace_charge(trace, (larger - *n) * size))
        return false;
    made = realloc(*array, larger * size);
    if (made == NULL)
        return false;
    memset(made + *n * size, 0, (larger - *n) * size);
    *array = made;
    *n = (uint32_t)larger;
    return true;
}

struct trace_process *trace_process_get(struct trace *trace, uint32_t number)
{
    struct trace_process *process;

    if (number == 0 || !array_grow(trace, (void **)&trace->process, &trace->n_processes,
                                   number - 1, sizeof *trace->process, PROCESSES_MAX))
        return NULL;
    process = trace->process[number - 1];
    if (process == NULL && trace_charge(trace, sizeof *process)) {
        process = calloc(1, sizeof *process);
        if (process != NULL)
            process->number = number;
        trace->process[number - 1] = process;
    }
    return process;
}

static char *text_copy(const uint8_t *bytes, size_t n)
{
    char *text = malloc(n + 1);

    if (text != NULL) {
        memcpy(text, bytes, n);
        text[n] = '\0';
    }
    return text;
}

static char *text_get(struct am_input *in)
{
    size_t n;
    const uint8_t *bytes = am_get_bytes(in, &n);

    return in->is_bad ? NULL : text_copy(bytes, n);
}

/* ---- functions and structs ---- */

/* "name:letter", "#3" for a struct, "<p" or ">p" for an array. */
static bool param_parse(const char *text, size_t n, struct trace_param *param)
{
    const char *end = text + n;
    const char *colon = memchr(text, ':', n);

    if (colon == NULL || colon + 1 >= end)
        return false;
    param->letter = colon[1];
    for (const char *at = colon + 2; at < end;) {
        char mark = *at++;

        if (mark == '#') {
            while (at < end && *at >= '0' && *at <= '9' && param->structure < 10000)
                param->structure = param->structure * 10 + (uint32_t)(*at++ - '0');
        } else if ((mark == '<' || mark == '>') && at < end) {
            param->element = *at++;
            param->is_output = mark == '>';
        } else {
            return false;
        }
    }
    param->name = text_copy((const uint8_t *)text, (size_t)(colon - text));
    return param->name != NULL;
}

static void function_free(struct trace_function *function)
{
    for (uint32_t i = 0; i < function->n; i++)
        free(function->param[i].name);
    free(function->name);
    memset(function, 0, sizeof *function);
}

static void function_define(struct trace *trace, struct trace_process *process,
                            struct am_input *in)
{
    uint64_t size = sizeof(struct trace_function) + (uint64_t)(in->end - in->at);
    uint64_t id = am_get_varint(in);
    struct trace_function made = {0};
    struct trace_function *function;
    const char *at;
    size_t n;

    made.result = (char)am_get_varint(in);
    made.name = text_get(in);
    at = (const char *)am_get_bytes(in, &n);
    while (!in->is_bad && n > 0 && made.n < TRACE_ARGS_MAX) {
        const char *blank = memchr(at, ' ', n);
        size_t part = blank != NULL ? (size_t)(blank - at) : n;

        if (!param_parse(at, part, &made.param[made.n]))
            break;
        made.n++;
        part += blank != NULL;
        at += part;
        n -= part;
    }
    if (in->is_bad || n > 0 || made.name == NULL ||
        !array_grow(trace, (void **)&process->function, &process->n_functions, id,
                    sizeof *process->function, FUNCTIONS_MAX) ||
        process->function[id] != NULL || !trace_charge(trace, size) ||
        (function = malloc(sizeof *function)) == NULL) {
        function_free(&made);
        return;
    }
    *function = made;
    process->function[id] = function;
}

static void field_parse(struct trace_struct *made, const char *text, size_t n)
{
    struct trace_field *field =
        realloc(made->field, (made->n_fields + 1) * sizeof *field);
    const char *colon = memchr(text, ':', n);
    char numbers[64];

    if (field != NULL)
        made->field = field;
    if (field == NULL || colon == NULL || (size_t)(colon - text) + 3 > n ||
        n - (size_t)(colon - text) >= sizeof numbers)
        return;
    field += made->n_fields;
    memset(field, 0, sizeof *field);
    memcpy(numbers, colon + 1, n - (size_t)(colon - text) - 1);
    numbers[n - (size_t)(colon - text) - 1] = '\0';
    field->letter = numbers[0];
    if (sscanf(numbers + 1, "@%9u+%9u", &field->offset, &field->size) != 2 ||
        field->offset > made->size || field->size > made->size - field->offset)
        return;
    field->name = text_copy((const uint8_t *)text, (size_t)(colon - text));
    if (field->name != NULL)
        made->n_fields++;
}

static void struct_free(struct trace_struct *structure)
{
    for (uint32_t i = 0; i < structure->n_fields; i++)
        free(structure->field[i].name);
    free(structure->field);
    free(structure->name);
}

static void struct_define(struct trace *trace, struct trace_process *process,
                          struct am_input *in)
{
    uint64_t number = am_get_varint(in);
    struct trace_struct made = {0};
    const char *at;
    size_t n;

    made.size = (uint32_t)am_get_varint(in);
    made.name = text_get(in);
    at = (const char *)am_get_bytes(in, &n);
    while (!in->is_bad && n > 0) {
        const char *blank = memchr(at, ' ', n);
        size_t part = blank != NULL ? (size_t)(blank - at) : n;

        field_parse(&made, at, part);
        part += blank != NULL;
        at += part;
        n -= part;
    }
    if (in->is_bad || made.name == NULL || made.size == 0 ||
        !array_grow(trace, (void **)&process->structure, &process->n_structs, number,
                    sizeof *process->structure, STRUCTS_MAX) ||
        process->structure[number].name != NULL ||
        !trace_charge(trace, made.n_fields * (sizeof *made.field + 32))) {
        struct_free(&made);
        return;
    }
    process->structure[number] = made;
}

AM_TREE(trace_codes, trace_code, node, code)

static void code_define(struct trace *trace, struct am_input *in)
{
    int64_t code = am_get_signed(in);
    size_t n;
    const uint8_t *name = am_get_bytes(in, &n);
    struct trace_code *made;

    if (in->is_bad || trace_code(trace, code) != NULL ||
        !trace_charge(trace, sizeof *made + n + 1) ||
        (made = calloc(1, sizeof *made + n + 1)) == NULL)
        return;
    made->code = code;
    memcpy(made->name, name, n);
    RB_INSERT(trace_codes, &trace->codes, made);
}

const char *trace_code(const struct trace *trace, int64_t code)
{
    struct trace_code key = {.code = code};
    const struct trace_code *found =
        RB_FIND(trace_codes, (struct trace_codes *)&trace->codes, &key);

    return found != NULL ? found->name : NULL;
}

/* ---- modules and stacks ---- */

static void module_define(struct trace *trace, struct trace_process *process,
                          struct am_input *in)
{
    uint64_t size = (uint64_t)(in->end - in->at);
    uint64_t number = am_get_varint(in);
    struct trace_module made = {0};

    made.base = am_get_varint(in);
    made.start = am_get_varint(in);
    made.end = am_get_varint(in);
    made.path = text_get(in);
    made.build_id = text_get(in);
    if (in->is_bad || made.path == NULL ||
        !array_grow(trace, (void **)&process->module, &process->n_modules, number,
                    sizeof *process->module, MODULES_MAX) ||
        process->module[number].path != NULL || !trace_charge(trace, size)) {
        free(made.path);
        free(made.build_id);
        return;
    }
    process->module[number] = made;
}

AM_TREE(trace_stacks, trace_stack, node, number)

const struct trace_stack *trace_stack_find(const struct trace_process *process,
                                           uint32_t number)
{
    struct trace_stack key = {.number = number};

    return RB_FIND(trace_stacks, (struct trace_stacks *)&process->stacks, &key);
}

static void stack_free(struct trace_stack *stack)
{
    free(stack->frame);
    free(stack->python);
    free(stack);
}

/* Owns the stack, whose other allocation has `size` bytes. */
static void stack_add(struct trace *trace, struct trace_process *process,
                      struct trace_stack *stack, uint64_t size)
{
    if (trace_stack_find(process, stack->number) != NULL ||
        !trace_charge(trace, sizeof *stack + size))
        stack_free(stack);
    else
        RB_INSERT(trace_stacks, &process->stacks, stack);
}

static void stack_define(struct trace *trace, struct trace_process *process,
                         struct am_input *in)
{
    uint64_t number = am_get_varint(in);
    uint64_t era = am_get_varint(in);
    uint64_t n = am_get_varint(in);
    uint64_t frame = 0;
    struct trace_stack *made;

    if (in->is_bad || n > 4096 || n > (uint64_t)(in->end - in->at) ||
        number >= AM_TRACE_PYTHON_STACKS || (made = calloc(1, sizeof *made)) == NULL)
        return;
    made->number = (uint32_t)number;
    made->era = (uint32_t)era;
    made->frame = calloc(n + 1, sizeof *made->frame);
    if (made->frame != NULL)
        made->n = (uint32_t)n;
    for (uint64_t i = 0; i < made->n; i++)
        made->frame[i] = frame += (uint64_t)am_get_signed(in);
    stack_add(trace, process, made, n * sizeof *made->frame);
}

static void python_define(struct trace *trace, struct trace_process *process,
                          struct am_input *in)
{
    uint64_t number = am_get_varint(in);
    struct trace_stack *made =
        number < AM_TRACE_PYTHON_STACKS ? calloc(1, sizeof *made) : NULL;

    if (made == NULL)
        return;
    made->number = AM_TRACE_PYTHON_STACKS + (uint32_t)number;
    made->python = text_get(in);
    if (made->python != NULL)
        stack_add(trace, process, made, strlen(made->python) + 1);
    else
        stack_free(made);
}

const struct trace_module *trace_module_find(const struct trace_process *process,
                                             uint64_t addr, uint32_t era)
{
    if (era > process->n_modules)
        era = process->n_modules;
    for (uint32_t i = era; i > 0; i--) { /* the latest one: others were unloaded */
        const struct trace_module *module = &process->module[i - 1];

        if (module->path != NULL && module->start <= addr && addr < module->end)
            return module;
    }
    return NULL;
}

/* ---- the process ---- */

/* A number of the JSON text.  The command parses the rest of the text. */
static int number_find(const char *text, const char *key)
{
    const char *at = strstr(text, key);

    return at != NULL ? atoi(at + strlen(key)) : 0;
}

static void process_define(struct trace *trace, struct trace_process *process,
                           const struct am_input *in)
{
    if (process->about != NULL || !trace_charge(trace, (uint64_t)(in->end - in->at)))
        return;
    process->about = text_copy(in->at, (size_t)(in->end - in->at));
    if (process->about == NULL)
        return;
    process->pid = number_find(process->about, "\"pid\":");
    process->parent = number_find(process->about, "\"parent\":");
}

void trace_define(struct trace *trace, struct trace_process *process, unsigned kind,
                  struct am_input *in)
{
    switch (kind) {
    case AM_TRACE_PROCESS:
        process_define(trace, process, in);
        break;
    case AM_TRACE_FUNCTION:
        function_define(trace, process, in);
        break;
    case AM_TRACE_CODE:
        code_define(trace, in);
        break;
    case AM_TRACE_STRUCT:
        struct_define(trace, process, in);
        break;
    case AM_TRACE_MODULE:
        module_define(trace, process, in);
        break;
    case AM_TRACE_STACK:
        stack_define(trace, process, in);
        break;
    case AM_TRACE_PYTHON:
        python_define(trace, process, in);
        break;
    default: /* a later version's, or an event */
        break;
    }
}

static void process_free(struct trace_process *process)
{
    struct trace_stack *stack;

    if (process == NULL)
        return;
    for (uint32_t i = 0; i < process->n_functions; i++) {
        if (process->function[i] != NULL)
            function_free(process->function[i]);
        free(process->function[i]);
    }
    for (uint32_t i = 0; i < process->n_structs; i++)
        struct_free(&process->structure[i]);
    for (uint32_t i = 0; i < process->n_modules; i++) {
        free(process->module[i].path);
        free(process->module[i].build_id);
    }
    while ((stack = RB_ROOT(&process->stacks)) != NULL) {
        RB_REMOVE(trace_stacks, &process->stacks, stack);
        stack_free(stack);
    }
    free(process->function);
    free(process->structure);
    free(process->module);
    free(process->about);
    free(process);
}

void trace_processes_free(struct trace *trace)
{
    struct trace_code *code;

    for (uint32_t i = 0; i < trace->n_processes; i++)
        process_free(trace->process[i]);
    free(trace->process);
    while ((code = RB_ROOT(&trace->codes)) != NULL) {
        RB_REMOVE(trace_codes, &trace->codes, code);
        free(code);
    }
}
