/*
 * What a reader must know before it can read calls, in a chunk that the process writes at
 * its start: itself, the functions with their arguments, structs, codes.  So a trace can be
 * read by any later version, and functions that this version does not know are shown.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "aclnn/acl_meta.h"
#include "base/clock.h"
#include "base/options.h"
#include "base/util.h"
#include "layer/finding.h"
#include "layer/trace.h"
#include "layer/trace_file.h"
#include "trace/codec.h"

static const struct am_trace_array {
    const char *function;
    const char *argument;
    const char *count;
    char element;
    uint8_t direction;
} arrays[] = {
#define AM_TRACE_ARRAY(function_, argument_, count_, element_, direction_) \
    {#function_, #argument_, #count_, #element_[0], AM_TRACE_##direction_},
#include "layer/trace_arrays.def"
#undef AM_TRACE_ARRAY
};

static const struct {
    const char *name;
    size_t size;
} structs[AM_TRACE_STRUCT_COUNT] = {
#define STRUCT(type_, ...) [AM_TRACE_STRUCT_##type_] = {#type_, sizeof(type_)},
    AM_TRACE_STRUCTS(STRUCT, FIELD)
#undef STRUCT
};

/* A configuration is recorded as what it points to. */
static size_t struct_size(unsigned structure)
{
    return structure == AM_TRACE_STRUCT_aclrtMallocConfig ? sizeof(aclrtMallocAttribute)
                                                          : structs[structure].size;
}

/* ---- arguments ---- */

/* The number of an argument, by its name; -1: none. */
static int argument_find(const char *signature, const char *name)
{
    size_t n = strlen(name);
    int number = 0;

    while (*signature != '\0') {
        if (strncmp(signature, name, n) == 0 && signature[n] == ':')
            return number;
        signature += strcspn(signature, " ");
        signature += *signature == ' ';
        number++;
    }
    return -1;
}

static void params_fill(struct am_trace_function *function)
{
    const char *at = function->signature;

    while ((at = strchr(at, ':')) != NULL && function->n < AM_TRACE_ARGS_MAX) {
        struct am_trace_param *param = &function->param[function->n];

        param->letter = *++at;
        param->structure = function->structure[function->n];
        param->size = (uint16_t)struct_size(param->structure);
        function->n++;
    }
}

void am_trace_describe(void)
{
    for (size_t i = 0; i < AM_API_COUNT; i++) {
        struct am_trace_function *function = &am_trace_functions[i];

        function->n = 0;
        params_fill(function);
        for (size_t k = 0; k < AM_ARRAY_SIZE(arrays); k++) {
            struct am_trace_param *param;

            if (strcmp(arrays[k].function, function->name) != 0)
                continue;
            param =
                &function->param[argument_find(function->signature, arrays[k].argument)];
            param->element = arrays[k].element;
            param->direction = arrays[k].direction;
            param->count = (int8_t)argument_find(function->signature, arrays[k].count);
            function->has_arrays = true;
        }
    }
}

/* ---- definitions ---- */

static struct {
    struct am_trace_slot_map *slot;
    uint64_t number; /* of the chunk */
    pid_t pid;
} own;

/* The record's bytes go into the chunk of thread 0. */
static bool define(enum am_trace_kind kind, const uint8_t *bytes, size_t n)
{
    struct am_trace_chunk *chunk = own.slot->chunk;
    uint8_t *at;

    if (am_trace_used(chunk->fill) + n + 3 > AM_TRACE_SLOT_SIZE - sizeof *chunk) {
        own.slot = am_trace_slot_take(0, ++own.number, am_clock());
        if (own.slot == NULL)
            return false;
        chunk = own.slot->chunk;
    }
    at = (uint8_t *)(chunk + 1) + am_trace_used(chunk->fill);
    at[0] = (uint8_t)kind;
    at[1] = (uint8_t)n;
    at[2] = (uint8_t)(n >> 8);
    memcpy(at + 3, bytes, n);
    atomic_fetch_add_explicit(&chunk->fill, n + 3, memory_order_release);
    return true;
}

static bool functions_define(void)
{
    uint8_t bytes[1024];
    char signature[512];

    for (size_t i = 0; i < AM_API_COUNT; i++) {
        const struct am_trace_function *function = &am_trace_functions[i];
        const char *name = function->signature;
        uint8_t *at = bytes;
        int n = 0;

        for (unsigned k = 0; k < function->n; k++) {
            const struct am_trace_param *param = &function->param[k];

            n += snprintf(signature + n, sizeof signature - (size_t)n, "%s%.*s:%c",
                          k > 0 ? " " : "", (int)strcspn(name, ":"), name, param->letter);
            if (param->structure != 0)
                n += snprintf(signature + n, sizeof signature - (size_t)n, "#%u",
                              param->structure);
            if (param->element != 0)
                n +=
                    snprintf(signature + n, sizeof signature - (size_t)n, "%c%c",
                             param->direction == AM_TRACE_IN ? '<' : '>', param->element);
            name += strcspn(name, " ");
            name += *name == ' ';
        }
        at = am_put_varint(at, i);
        *at++ = (uint8_t)function->result;
        at = am_put_bytes(at, function->name, strlen(function->name));
        at = am_put_bytes(at, signature, (size_t)n);
        if (!define(AM_TRACE_FUNCTION, bytes, (size_t)(at - bytes)))
            return false;
    }
    return true;
}

static bool struct_define(unsigned number, const char *fields)
{
    uint8_t bytes[1024];
    uint8_t *at = am_put_varint(bytes, number);

    at = am_put_varint(at, struct_size(number));
    at = am_put_bytes(at, structs[number].name, strlen(structs[number].name));
    at = am_put_bytes(at, fields, strlen(fields));
    return define(AM_TRACE_STRUCT, bytes, (size_t)(at - bytes));
}

static bool structs_define(void)
{
    char text[512];
    bool is_done = true;
    int n;

#define FIELD(type_, field_, letter_) \
    n += snprintf(text + n, sizeof text - (size_t)n, "%s%s:%s@%zu+%zu", \
                  n > 0 ? " " : "", #field_, #letter_, offsetof(type_, field_), \
                  sizeof(((type_ *)0)->field_));
#define DEFINE(type_, ...) \
    n = 0; \
    text[0] = '\0'; \
    __VA_ARGS__ \
    is_done = is_done && struct_define(AM_TRACE_STRUCT_##type_, text);
    AM_TRACE_STRUCTS(DEFINE, FIELD)
#undef DEFINE
#undef FIELD
    return is_done;
}

static bool codes_define(void)
{
    static const struct {
        int code;
        const char *name;
    } codes[] = {
#define AM_ERROR(name_, prefix_) {name_, #name_},
#include "base/errors.def"
#undef AM_ERROR
    };
    uint8_t bytes[128];

    for (size_t i = 0; i < AM_ARRAY_SIZE(codes); i++) {
        uint8_t *at = am_put_varint(bytes, am_zigzag(codes[i].code));

        at = am_put_bytes(at, codes[i].name, strlen(codes[i].name));
        if (!define(AM_TRACE_CODE, bytes, (size_t)(at - bytes)))
            return false;
    }
    return true;
}

/* The words of the command, from /proc. */
static json_t *command_json(void)
{
    json_t *list = json_array();
    char words[2048];
    FILE *file = fopen("/proc/self/cmdline", "re");
    size_t n = file != NULL ? fread(words, 1, sizeof words - 1, file) : 0;

    if (file != NULL)
        fclose(file);
    words[n] = '\0';
    for (size_t at = 0; at < n; at += strlen(words + at) + 1)
        json_array_append_new(list, am_json_text(words + at));
    return list;
}

static bool process_define(const struct am_api *below)
{
    const char *soc = below->aclrtGetSocName();
    json_t *options = json_object();
    json_t *process;
    char folder[1024];
    char *text;
    bool is_done;

    for (int i = 0; i < AM_OPTION_COUNT; i++) {
        struct am_option_row row = am_option_row((enum am_option)i);

        json_object_set_new(options, row.name, am_json_text(row.value));
    }
    process = json_pack("{si, si, ss, so, so, so, so}", "pid", getpid(), "parent",
                        getppid(), "version", AM_VERSION, "soc",
                        am_json_text(soc != NULL ? soc : ""), "folder",
                        am_json_text(getcwd(folder, sizeof folder) != NULL ? folder : ""),
                        "command", command_json(), "options", options);
    text = process != NULL ? json_dumps(process, JSON_COMPACT) : NULL;
    is_done = text != NULL && strlen(text) < 32768 &&
              define(AM_TRACE_PROCESS, (const uint8_t *)text, strlen(text));
    free(text);
    json_decref(process);
    return is_done;
}

bool am_trace_define(const struct am_api *below)
{
    free(own.slot); /* of the process that this one was forked from */
    own.number = 0;
    own.pid = getpid();
    own.slot = am_trace_slot_take(0, 0, am_clock());
    return own.slot != NULL && process_define(below) && codes_define() &&
           structs_define() && functions_define();
}

void am_trace_define_end(void)
{
    if (own.slot != NULL && own.pid == getpid()) /* a child by fork lacks the slot */
        atomic_store_explicit(&own.slot->chunk->ended, am_clock(), memory_order_release);
}
