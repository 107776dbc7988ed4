/* See show.h. */
#include "show.h"

#include <inttypes.h>
#include <string.h>

#include "names.h"
#include "output.h"

/* ---- values ---- */

static void text_show(FILE *out, const uint8_t *bytes, size_t n)
{
    fputc('"', out);
    for (size_t i = 0; i < n; i++) {
        uint8_t c = bytes[i];

        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c >= 0x20 && c < 0x7f)
            fputc(c, out);
        else
            fprintf(out, "\\x%02x", c);
    }
    fputc('"', out);
}

static void bytes_show(FILE *out, const uint8_t *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        fprintf(out, "%02x", bytes[i]);
}

static void number_show(FILE *out, char letter, uint64_t number)
{
    float value;
    uint32_t bits = (uint32_t)number;

    switch (letter) {
    case 'p':
    case 'x':
        fprintf(out, number == 0 && letter == 'p' ? "NULL" : "0x%" PRIx64, number);
        break;
    case 'z':
    case 'u':
    case 'h':
        fprintf(out, "%" PRIu64, number);
        break;
    case 'f':
        memcpy(&value, &bits, sizeof value);
        fprintf(out, "%g", (double)value);
        break;
    default:
        fprintf(out, "%" PRId64, (int64_t)number);
        break;
    }
}

/* Bytes of a field as a number: little endian, signed by its letter. */
static uint64_t field_load(const struct trace_field *field, const uint8_t *bytes)
{
    uint64_t number = 0;
    size_t n = field->size < 8 ? field->size : 8;

    memcpy(&number, bytes + field->offset, n);
    if ((field->letter == 'i' || field->letter == 'e') && n == 4)
        number = (uint64_t)(int64_t)(int32_t)number;
    return number;
}

static void struct_show(FILE *out, const struct trace_struct *structure,
                        const uint8_t *bytes)
{
    fputc('{', out);
    for (uint32_t i = 0; i < structure->n_fields; i++) {
        const struct trace_field *field = &structure->field[i];

        fprintf(out, "%s%s=", i > 0 ? ", " : "", field->name);
        if (field->letter == 'c')
            text_show(out, bytes + field->offset,
                      strnlen((const char *)bytes + field->offset, field->size));
        else if (field->letter == 'b')
            bytes_show(out, bytes + field->offset, field->size);
        else
            number_show(out, field->letter, field_load(field, bytes));
    }
    fputc('}', out);
}

static const struct trace_struct *struct_find(const struct trace_process *process,
                                              uint32_t number)
{
    if (number >= process->n_structs || process->structure[number].name == NULL)
        return NULL;
    return &process->structure[number];
}

static void structs_show(FILE *out, const struct trace_struct *structure,
                         const uint8_t *bytes, size_t size, bool is_array)
{
    if (structure == NULL) {
        bytes_show(out, bytes, size);
        return;
    }
    if (is_array)
        fputc('[', out);
    for (size_t at = 0; at + structure->size <= size; at += structure->size) {
        if (at > 0)
            fprintf(out, ", ");
        struct_show(out, structure, bytes + at);
    }
    if (is_array)
        fputc(']', out);
}

static void array_show(FILE *out, char element, const struct trace_value *value)
{
    fputc('[', out);
    for (size_t i = 0; i < value->n_items; i++) {
        if (i > 0)
            fprintf(out, ", ");
        number_show(out, element, value->item[i]);
    }
    fputc(']', out);
}

static void value_show(FILE *out, const struct trace_event *event,
                       const struct trace_param *param, const struct trace_value *value)
{
    bool is_result = param->letter >= 'A' && param->letter <= 'Z';
    char letter = (char)(is_result ? param->letter + 'a' - 'A' : param->letter);

    if (value->is_null) {
        fprintf(out, "NULL");
    } else if (!value->is_there) {
        fprintf(out, is_result || param->is_output ? "[?]" : "?");
    } else if (param->element == 't' || letter == 't' || letter == 'v') {
        structs_show(out, struct_find(event->process, param->structure), value->bytes,
                     value->size, param->element == 't');
        if (value->item != NULL) /* an array of the struct */
            array_show(out, param->element, value);
    } else if (value->item != NULL) {
        array_show(out, param->element, value);
    } else if (param->element == 'H') {
        bytes_show(out, value->bytes, value->size);
    } else if (value->bytes != NULL) {
        text_show(out, value->bytes, value->size);
    } else {
        if (is_result)
            fputc('[', out);
        number_show(out, letter, value->number);
        if (is_result)
            fputc(']', out);
    }
}

/* ---- calls ---- */

void show_arguments(FILE *out, const struct trace_event *event)
{
    for (uint32_t i = 0; i < event->function->n; i++) {
        const struct trace_param *param = &event->function->param[i];

        fprintf(out, "%s%s=", i > 0 ? ", " : "", param->name);
        value_show(out, event, param, &event->value[i]);
    }
}

static void result_show(FILE *out, const struct trace *trace,
                        const struct trace_event *event)
{
    const char *name;

    switch (event->function->result) {
    case 'r':
        name = event->result != 0 ? trace_code(trace, event->result) : NULL;
        fprintf(out, " = %" PRId64 "%s%s", event->result, name != NULL ? " " : "",
                name != NULL ? name : "");
        break;
    case 's':
        fprintf(out, " = ");
        text_show(out, event->text, event->text_size);
        break;
    default:
        fprintf(out, " = ");
        number_show(out, event->function->result, (uint64_t)event->result);
        break;
    }
}

void show_call(FILE *out, const struct trace *trace, const struct trace_event *event)
{
    if (event->kind == TRACE_END)
        fprintf(out, "<... ");
    fprintf(out, "%s(", event->function->name);
    show_arguments(out, event);
    fprintf(out, ")%s", event->kind == TRACE_END ? " resumed>" : "");
    if (event->kind == TRACE_BEGIN)
        fprintf(out, " <unfinished ...>");
    else
        result_show(out, trace, event);
}

bool field_number(const struct trace_event *event, const char *argument, const char *name,
                  uint64_t *ret_number)
{
    for (uint32_t i = 0; i < event->function->n; i++) {
        const struct trace_param *param = &event->function->param[i];
        const struct trace_value *value = &event->value[i];
        const struct trace_struct *structure =
            struct_find(event->process, param->structure);

        if (strcmp(param->name, argument) != 0 || structure == NULL ||
            value->size < structure->size)
            continue;
        for (uint32_t k = 0; k < structure->n_fields; k++) {
            if (strcmp(structure->field[k].name, name) == 0) {
                *ret_number = field_load(&structure->field[k], value->bytes);
                return true;
            }
        }
    }
    return false;
}

/* ---- stacks ---- */

/* Frames of Python, from JSON: [[function,file,line],..]. */
static json_t *python_frames(const char *text)
{
    json_t *frames = json_array();
    json_t *list = json_loads(text, 0, NULL);
    json_t *frame;
    size_t i;

    json_array_foreach (list, i, frame) {
        const char *function = json_string_value(json_array_get(frame, 0));
        const char *file = json_string_value(json_array_get(frame, 1));

        json_array_append_new(frames,
                              json_pack("{s:s, s:s, s:I, s:s}", "function",
                                        function != NULL ? function : "?", "file",
                                        file != NULL ? file : "", "line",
                                        json_integer_value(json_array_get(frame, 2)),
                                        "module", "python"));
    }
    json_decref(list);
    return frames;
}

json_t *show_frames(const struct trace_process *process, uint32_t number)
{
    const struct trace_stack *stack =
        number != 0 ? trace_stack_find(process, number) : NULL;
    json_t *frames;

    if (stack != NULL && stack->python != NULL)
        return python_frames(stack->python);
    frames = json_array();
    if (stack == NULL)
        return frames;
    for (uint32_t i = 0; i < stack->n; i++) {
        /* A return address is behind the call, which is what we want to name. */
        uint64_t addr = stack->frame[i] - 1;
        const struct trace_module *module = trace_module_find(process, addr, stack->era);
        char text[32];

        if (module != NULL) {
            names_add(frames, module->path, addr - module->base);
            continue;
        }
        snprintf(text, sizeof text, "0x%" PRIx64, addr);
        json_array_append_new(frames, json_pack("{s:s, s:s, s:i, s:s}", "function", text,
                                                "file", "", "line", 0, "module", ""));
    }
    return frames;
}

void trace_losses_report(const struct trace *trace)
{
    const struct trace_about *about = trace_about(trace);

    if (about->full_at != 0)
        fprintf(stderr,
                "aclmem: the disk was full after %.6f s: %" PRIu64
                " calls were not recorded\n",
                (double)(about->full_at - about->began) / 1e9, about->n_lost);
    if (about->n_cut != 0)
        fprintf(stderr,
                "aclmem: the file is cut off: %" PRIu64 " of its %" PRIu64
                " parts %s missing\n",
                about->n_cut, about->n_slots, about->n_cut == 1 ? "is" : "are");
    if (about->n_damaged != 0)
        fprintf(stderr,
                "aclmem: the file is damaged: %" PRIu64 " of its parts %s left out\n",
                about->n_damaged, about->n_damaged == 1 ? "was" : "were");
}

struct trace *trace_open_or_report(const char *command, const char *path)
{
    char why[TRACE_WHY_SIZE];
    struct trace *trace = trace_open(path, why);

    if (trace == NULL)
        fprintf(stderr, "aclmem %s: %s: %s\n", command, input_name(path), why);
    return trace;
}
