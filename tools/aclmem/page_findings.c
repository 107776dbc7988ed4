/* Finds the calls of findings in a trace.  See page_data.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "page_data.h"
#include "show.h"
#include "text.h"

/* Whether two stacks are equal, up to the depth of the shorter one. */
static bool is_same_stack(const json_t *left, const json_t *right)
{
    json_t *frame;
    size_t i;

    json_array_foreach (left, i, frame) {
        const json_t *other = json_array_get(right, i);

        if (other == NULL)
            break;
        if (number_of(frame, "line") != number_of(other, "line") ||
            strcmp(text_of(frame, "function"), text_of(other, "function")) != 0)
            return false;
    }
    return true;
}

/*
 * Whether an event of the trace may be the first call of a finding.  `known` remembers the
 * result for each stack: naming the frames of a stack is slow.
 */
static bool is_call_of(const struct trace_event *event, const json_t *call, size_t number,
                       json_t *known)
{
    char key[64];
    json_t *frames;

    if (event->function == NULL || event->process->pid != number_of(call, "pid") ||
        event->thread != number_of(call, "thread") ||
        strcmp(event->function->name, text_of(call, "function")) != 0)
        return false;
    snprintf(key, sizeof key, "%zu %" PRIu32 " %" PRIu32, number, event->process->number,
             event->stack);
    if (json_object_get(known, key) == NULL) {
        frames = show_frames(event->process, event->stack);
        json_object_set_new(
            known, key,
            json_boolean(is_same_stack(json_object_get(call, "stack"), frames)));
        json_decref(frames);
    }
    return json_is_true(json_object_get(known, key));
}

void findings_place(struct history *history, struct trace *trace, json_t *findings)
{
    char why[TRACE_WHY_SIZE];
    struct trace_event event;
    json_t *known;
    json_t *finding;
    size_t i;

    if (json_array_size(findings) == 0 || !trace_rewind(trace, why))
        return;
    known = json_object();
    while (trace_next(trace, &event)) {
        json_array_foreach (findings, i, finding) {
            const json_t *call = json_array_get(json_object_get(finding, "calls"), 0);
            uint64_t reported = (uint64_t)number_of(finding, "time");
            bool is_during = event.begin <= reported && reported <= event.end;

            if ((json_object_get(finding, "at") == NULL || is_during) &&
                (event.kind != TRACE_BEGIN || event.is_unfinished) &&
                is_call_of(&event, call, i, known))
                json_object_set_new(
                    finding, "at",
                    json_integer((json_int_t)(event.begin - history->began)));
        }
    }
    json_decref(known);
}
