/*
 * The functions that a replay may call, from the library's own tables: api.def,
 * layer/trace_arrays.def, layer/trace_structs.h.
 *
 * The signatures in a trace come from strangers.  They only have to agree with these rows:
 * arguments are decoded by the row of this library, never by the signature of the file.
 */
#include <stdio.h>
#include <string.h>

#include "layer/args.h"
#include "layer/trace_structs.h"
#include "play.h"

static const uint64_t *argument_load(void *into, size_t size, const uint64_t *from)
{
    memcpy(into, size > sizeof *from ? (const void *)(uintptr_t)*from : from, size);
    return from + 1;
}

#define LOAD(arg_) \
    argument = argument_load((void *)&packed.arg_, sizeof packed.arg_, argument);

/* The size of the struct that an argument is, or points to; 0: not a struct. */
#define TYPES(type_, ...) \
    type_: \
    sizeof(type_), type_ * : sizeof(type_), const type_ * : sizeof(type_),
#define SIZE_OF(arg_) \
    _Generic((args->arg_), AM_TRACE_STRUCTS(TYPES, FIELD) default : (size_t)0),

#define AM_API(ret_, name_, params_, args_, sig_) \
    static int64_t call_##name_(const uint64_t *argument) \
    { \
        struct am_args_##name_ packed; \
        (void)packed; \
        AM_FOR_EACH(LOAD, args_, args_) \
        return name_ AM_UNPACK(args_); \
    } \
    static const size_t *sizes_##name_(struct am_args_##name_ *args) \
    { \
        static const size_t list[] = {AM_FOR_EACH(SIZE_OF, args_, args_) 0}; \
        return list; \
    }
#define AM_API_RET(...)
#include "api/api.def"

static const struct {
    const char *name;
    const char *signature;
    play_call_function call;
} rows[] = {
#define AM_API(ret_, name_, params_, args_, sig_) {#name_, sig_, call_##name_},
#define AM_API_RET(...)
#include "api/api.def"
};

#define N_ROWS (sizeof rows / sizeof rows[0])

static const struct {
    const char *function;
    const char *argument;
    const char *count;
    char element;
    bool is_output;
} arrays[] = {
#define IN false
#define OUT true
#define AM_TRACE_ARRAY(function_, argument_, count_, element_, direction_) \
    {#function_, #argument_, #count_, #element_[0], direction_},
#include "layer/trace_arrays.def"
#undef AM_TRACE_ARRAY
#undef IN
#undef OUT
};

static struct play_function functions[N_ROWS];

static void sizes_fill(const size_t **sizes)
{
    size_t i = 0;

#define AM_API(ret_, name_, params_, args_, sig_) sizes[i++] = sizes_##name_(NULL);
#define AM_API_RET(...)
#include "api/api.def"
}

static int param_find(const struct play_function *function, const char *name)
{
    for (uint32_t i = 0; i < function->n; i++) {
        if (strcmp(function->param[i].name, name) == 0)
            return (int)i;
    }
    return -1;
}

static void params_fill(struct play_function *function, const char *signature,
                        const size_t *size)
{
    while (*signature != '\0') {
        struct play_param *param = &function->param[function->n];
        size_t n = strcspn(signature, ":");

        snprintf(param->name, sizeof param->name, "%.*s", (int)n, signature);
        param->letter = signature[n + 1];
        param->count = -1;
        param->size = size[function->n++];
        signature += n + 2;
        signature += *signature == ' ';
    }
}

static void functions_fill(void)
{
    const size_t *sizes[N_ROWS];

    sizes_fill(sizes);
    for (size_t i = 0; i < N_ROWS; i++) {
        functions[i].name = rows[i].name;
        functions[i].call = rows[i].call;
        params_fill(&functions[i], rows[i].signature, sizes[i]);
        for (size_t k = 0; k < sizeof arrays / sizeof arrays[0]; k++) {
            struct play_param *param;

            if (strcmp(arrays[k].function, functions[i].name) != 0)
                continue;
            param = &functions[i].param[param_find(&functions[i], arrays[k].argument)];
            param->element = arrays[k].element;
            param->is_output = arrays[k].is_output;
            param->count = param_find(&functions[i], arrays[k].count);
        }
    }
}

const struct play_function *play_function_find(const char *name)
{
    if (functions[0].name == NULL)
        functions_fill();
    for (size_t i = 0; i < N_ROWS; i++) {
        if (strcmp(functions[i].name, name) == 0)
            return &functions[i];
    }
    return NULL;
}

bool play_function_agrees(const struct play_function *function,
                          const struct trace_function *recorded)
{
    if (recorded->n != function->n || recorded->result != 'r')
        return false;
    for (uint32_t i = 0; i < function->n; i++) {
        const struct trace_param *there = &recorded->param[i];
        const struct play_param *here = &function->param[i];

        if (strcmp(there->name, here->name) != 0 || there->letter != here->letter ||
            there->element != here->element || there->is_output != here->is_output)
            return false;
    }
    return true;
}
