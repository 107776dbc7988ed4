/* See python.h. */
#include "layer/python.h"

#include <jansson.h>
#include <stdatomic.h>

#include "layer/layers.h"
#include "layer/stacks.h"

/* The frames that the binding gave last in this thread; its memory. */
static _Thread_local const char *callers __attribute__((tls_model("initial-exec")));

_Atomic bool am_callers_are_wanted;

void am_callers_set(const char *json)
{
    callers = json;
}

uint32_t am_python_take(void)
{
    return callers != NULL ? am_stack_enter_text(callers) : 0;
}

json_t *am_python_json(uint32_t stack)
{
    json_t *frames = stack != 0 ? json_loads(am_stack_text(stack), 0, NULL) : NULL;

    return frames != NULL ? frames : json_array();
}

json_t *am_python_frames(uint32_t stack)
{
    json_t *frames = am_python_json(stack);
    json_t *list = json_array();
    json_t *frame;
    size_t i;

    json_array_foreach (frames, i, frame)
        json_array_append_new(
            list, json_pack("{sO, sO, sO}", "function", json_array_get(frame, 0), "file",
                            json_array_get(frame, 1), "line", json_array_get(frame, 2)));
    json_decref(frames);
    return list;
}

void am_python_print(FILE *out, uint32_t stack)
{
    json_t *frames = am_python_json(stack);
    json_t *frame;
    size_t i;

    json_array_foreach (frames, i, frame)
        fprintf(out, "        #%zu %s  %s:%lld\n", i,
                json_string_value(json_array_get(frame, 0)),
                json_string_value(json_array_get(frame, 1)),
                (long long)json_integer_value(json_array_get(frame, 2)));
    json_decref(frames);
}
